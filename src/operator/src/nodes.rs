//! How large the cluster's nodes are, for the plan to tell an app that may have more pods than fit.
//!
//! Listed now and then, a page at a time, and kept as counts of equal sizes: watching nodes would have every heartbeat of each sent
//! here. Where that isn't permitted nothing is told.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use k8s_openapi::{
    api::core::v1::{Node, Taint},
    apimachinery::pkg::api::resource::Quantity as KubeQuantity,
};
use kube::{
    Client, Resource as _,
    api::ListParams,
    core::{ObjectList, Request},
};
use serde::Deserialize;
use workerapp_api::Quantity;
use workerapp_plan::room::NodeSize;

use crate::{controller::Controller, sync::lock};

/// How often they are listed.
const LOOK: Duration = Duration::from_mins(5);
/// How long that may take: no start waits longer for it.
const TIMEOUT: Duration = Duration::from_secs(5);
/// How many are listed at a time.
const PAGE: u32 = 100;

type Sizes = BTreeMap<NodeSize, i128>;

/// What is known.
#[derive(Debug, Default)]
pub(crate) struct Nodes(Mutex<Option<Arc<Sizes>>>);

impl Nodes {
    /// The sizes, and how many nodes have each; `None`: it isn't known.
    pub(crate) fn get(&self) -> Option<Arc<Sizes>> {
        lock(&self.0).clone()
    }

    /// Says whether that is news.
    fn set(&self, sizes: Sizes) -> bool {
        // A cluster without a node is about to get some.
        let sizes = Some(sizes).filter(|sizes| !sizes.is_empty()).map(Arc::new);
        std::mem::replace(&mut *lock(&self.0), sizes.clone()) != sizes
    }
}

/// Looks once, so that the first plans are made with what is known.
pub(crate) async fn first(controller: &Controller) {
    look(controller).await;
}

/// Looks again and again, for ever, and has the apps looked at when something has changed.
pub(crate) async fn follow(controller: Arc<Controller>) {
    loop {
        tokio::time::sleep(LOOK).await;
        if look(&controller).await {
            controller.look_at_all();
        }
    }
}

async fn look(controller: &Controller) -> bool {
    let error = match tokio::time::timeout(TIMEOUT, list(&controller.context.client)).await {
        Ok(Ok(sizes)) => return controller.context.nodes.set(sizes),
        Ok(Err(error)) => error.to_string(),
        Err(late) => late.to_string(),
    };
    tracing::debug!("the nodes can't be listed, so that nothing is told of apps that don't fit: {error}");
    false
}

/// What is read of a node.
#[derive(Clone, Debug, Deserialize)]
struct Seen {
    #[serde(default)]
    spec: Spec,
    #[serde(default)]
    status: Status,
}

#[derive(Clone, Debug, Default, Deserialize)]
struct Spec {
    #[serde(default)]
    taints: Vec<Taint>,
}

#[derive(Clone, Debug, Default, Deserialize)]
struct Status {
    #[serde(default)]
    allocatable: BTreeMap<String, KubeQuantity>,
}

async fn list(client: &Client) -> kube::Result<Sizes> {
    let mut sizes = Sizes::new();
    let mut params = ListParams::default().limit(PAGE);
    loop {
        let request =
            Request::new(Node::url_path(&(), None)).list(&params).map_err(kube::Error::BuildRequest)?;
        let page: ObjectList<Seen> = client.request(request).await?;
        for node in page.items {
            *sizes.entry(size(&node)).or_default() += 1;
        }
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => params = params.continue_token(&token),
            None => return Ok(sizes),
        }
    }
}

fn size(node: &Seen) -> NodeSize {
    let amount = |name: &str| node.status.allocatable.get(name)?.0.parse::<Quantity>().ok();
    NodeSize {
        cpu_milli: amount("cpu").map_or(0, |cpu| cpu.milli_ceil()),
        memory_bytes: amount("memory").map_or(0, |memory| memory.ceil()),
        pods: amount("pods").map_or(0, |pods| pods.ceil()),
        tainted: node.spec.taints.iter().any(keeps_away),
    }
}

/// Kubernetes' own taints come and go with a node's state: a cordoned or unreachable node is one that will be there again.
fn keeps_away(taint: &Taint) -> bool {
    let passing = taint.key.starts_with("node.kubernetes.io/");
    !passing && ["NoSchedule", "NoExecute"].contains(&taint.effect.as_str())
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use workerapp_plan::room::NodeSize;

    use super::{Nodes, Seen, Sizes, size};

    fn read(taints: &serde_json::Value) -> NodeSize {
        let node: Seen = serde_json::from_value(json!({
            "spec": { "taints": taints },
            "status": { "allocatable": { "cpu": "3920m", "memory": "7Gi", "pods": "110" } },
        }))
        .unwrap();
        size(&node)
    }

    #[test]
    fn a_node_is_what_pods_may_request_of_it() {
        let free = NodeSize { cpu_milli: 3920, memory_bytes: 7 << 30, pods: 110, tainted: false };
        assert_eq!(read(&json!([])), free);
        assert_eq!(
            read(&json!([{ "key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule" }])),
            free
        );
        assert_eq!(read(&json!([{ "key": "gpu", "effect": "PreferNoSchedule" }])), free);
        assert!(
            read(&json!([{ "key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule" }]))
                .tainted
        );
    }

    #[test]
    fn the_same_again_and_no_node_at_all_are_no_news() {
        let nodes = Nodes::default();
        assert!(!nodes.set(Sizes::new()));
        let some = Sizes::from([(NodeSize::default(), 2)]);
        assert!(nodes.set(some.clone()) && !nodes.set(some.clone()));
        assert_eq!(nodes.get().as_deref(), Some(&some));
    }
}
