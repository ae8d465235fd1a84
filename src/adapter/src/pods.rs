//! Which pods there are: those that the operator's children made, by a watch.

use std::{
    collections::HashMap,
    net::{IpAddr, SocketAddr},
    sync::Arc,
};

use futures::StreamExt as _;
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api, Client, ResourceExt as _,
    runtime::{
        WatchStreamExt as _,
        watcher::{self, Event, watcher},
    },
};
use tokio::sync::watch;
use workerapp_api::names;

use crate::{
    run::Shared,
    store::{Facts, Key},
};

/// After so many seconds the server ends a watch and it is begun anew, so that a connection that died silently is noticed.
const WATCH_SECONDS: u32 = 120;
/// How many pods are listed at a time: a page is held whole.
const PAGE: u32 = 100;

/// Follows the pods of one namespace, or all, for ever; says so once the first list is complete.
pub(crate) async fn follow(
    client: Client,
    namespace: Option<String>,
    shared: Arc<Shared>,
    listed: watch::Sender<usize>,
) {
    let api: Api<Pod> = match &namespace {
        Some(namespace) => Api::namespaced(client, namespace),
        None => Api::all(client),
    };
    let config = watcher::Config::default()
        .labels(&format!("{}={}", names::LABEL_MANAGED_BY, names::MANAGED_BY))
        .timeout(WATCH_SECONDS)
        .page_size(PAGE);
    let mut events = std::pin::pin!(watcher(api, config).default_backoff());
    // By key, with the uid: what a list no longer holds is gone.
    let mut known: HashMap<Key, String> = HashMap::new();
    let mut former: HashMap<Key, String> = HashMap::new();
    let mut complete = false;
    while let Some(event) = events.next().await {
        match event {
            Ok(Event::Init) => former = std::mem::take(&mut known),
            Ok(Event::InitApply(pod) | Event::Apply(pod)) => {
                let (key, facts) = facts(&pod);
                former.remove(&key);
                known.insert(key.clone(), facts.uid.clone());
                shared.store().track(key, facts);
            }
            Ok(Event::InitDone) => {
                let mut store = shared.store();
                for (key, uid) in former.drain() {
                    store.forget(&key, &uid);
                }
                if !complete {
                    complete = true;
                    listed.send_modify(|count| *count += 1);
                }
            }
            Ok(Event::Delete(pod)) => {
                let (key, facts) = facts(&pod);
                known.remove(&key);
                shared.store().forget(&key, &facts.uid);
            }
            Err(error) => tracing::warn!(namespace, "the watch of pods broke off and is begun anew: {error}"),
        }
    }
}

fn facts(pod: &Pod) -> (Key, Facts) {
    let key = Key { namespace: pod.namespace().unwrap_or_default(), name: pod.name_any() };
    let conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let ready = conditions.into_iter().any(|one| one.type_ == "Ready" && one.status == "True");
    let facts = Facts {
        uid: pod.uid().unwrap_or_default(),
        app: pod.labels().get(names::LABEL_INSTANCE).cloned(),
        labels: pod.labels().clone(),
        ready,
        terminating: pod.metadata.deletion_timestamp.is_some(),
        admin: admin(pod),
    };
    (key, facts)
}

/// Where the supervisor answers: the pod's address and the container port `admin`, once the pod runs.
fn admin(pod: &Pod) -> Option<SocketAddr> {
    let status = pod.status.as_ref().filter(|status| status.phase.as_deref() == Some("Running"))?;
    let address: IpAddr = status.pod_ip.as_deref()?.parse().ok()?;
    let containers = &pod.spec.as_ref()?.containers;
    let mut ports = containers.iter().flat_map(|container| container.ports.iter().flatten());
    let port = ports.find(|port| port.name.as_deref() == Some(names::PORT_ADMIN))?;
    Some(SocketAddr::new(address, u16::try_from(port.container_port).ok()?))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::facts;

    #[test]
    fn a_pod_is_asked_where_its_admin_port_is_once_it_runs() {
        let mut pod = json!({
            "metadata": {"name": "web-1", "namespace": "shop", "uid": "u", "labels": {"app.kubernetes.io/instance": "web"}},
            "spec": {"containers": [{"name": "side"}, {"name": "app", "ports": [
                {"name": "app", "containerPort": 3000}, {"name": "admin", "containerPort": 9914},
            ]}]},
            "status": {"phase": "Running", "podIP": "fd00::7", "conditions": [{"type": "Ready", "status": "True"}]},
        });
        let (key, of) = facts(&serde_json::from_value(pod.clone()).unwrap());
        assert_eq!((key.namespace.as_str(), key.name.as_str()), ("shop", "web-1"));
        assert_eq!(of.admin, Some("[fd00::7]:9914".parse().unwrap()));
        assert!(of.ready && !of.terminating && of.app.as_deref() == Some("web"));
        pod["status"]["phase"] = "Pending".into();
        assert_eq!(facts(&serde_json::from_value(pod).unwrap()).1.admin, None);
    }
}
