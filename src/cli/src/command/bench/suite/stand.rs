//! The apps of a suite in a cluster, from the first request to the last: looked for what is in their way, made, awaited, removed.

use std::{collections::BTreeMap, time::Duration};

use k8s_openapi::api::core::v1::Service;
use kube::ResourceExt as _;
use tokio::time::Instant;
use workerapp_api::{ConditionStatus, WorkerApp, condition::ConditionType, names};

use super::file::node_ports;
use crate::{cluster::Cluster, error::Error, output, view::status};

/// Between looks.
const AGAIN: Duration = Duration::from_millis(500);
/// Between words about what is waited for.
const TOLD_EVERY: Duration = Duration::from_secs(10);
/// How long the apps may take to serve: images are pulled meanwhile.
const PATIENCE: Duration = Duration::from_mins(5);
/// How long their end may take: a pod has `terminationGracePeriodSeconds`.
const FAREWELL: Duration = Duration::from_mins(3);

/// The apps of a suite in a cluster.
pub(super) struct Stand<'a> {
    pub(super) cluster: &'a Cluster,
    pub(super) suite: &'a str,
    pub(super) apps: &'a [WorkerApp],
}

impl Stand<'_> {
    /// Looks for apps and ports of others that are in the way. Nothing is written.
    pub(super) async fn check(&self) -> Result<(), Error> {
        let namespace = &self.cluster.namespace;
        let mut problems = Vec::new();
        for app in self.apps {
            let name = app.name_any();
            let there = self.cluster.app_in(namespace, &name).await?;
            if there.is_some_and(|there| !self.is_ours(&there)) {
                problems.push(format!(
                    "WorkerApp {namespace}/{name} is there already, and this suite didn't make it"
                ));
            }
        }
        problems.extend(taken(self.apps, &self.cluster.all_services().await?, namespace));
        if problems.is_empty() {
            return Ok(());
        }
        Err(Error::SuiteInTheWay { suite: self.suite.to_owned(), problems, label: names::LABEL_SUITE })
    }

    fn is_ours(&self, app: &WorkerApp) -> bool {
        app.labels().get(names::LABEL_SUITE).is_some_and(|suite| suite == self.suite)
    }

    /// Makes all of them.
    pub(super) async fn make(&self) -> Result<(), Error> {
        for app in self.apps {
            self.cluster.put_up(app, self.suite).await?;
        }
        let names: Vec<_> = self.apps.iter().map(kube::ResourceExt::name_any).collect();
        output::note(&format!(
            "suite {}: {} in namespace {}",
            self.suite,
            names.join(", "),
            self.cluster.namespace
        ));
        Ok(())
    }

    /// Waits until all of them serve.
    pub(super) async fn until_served(&self) -> Result<(), Error> {
        let deadline = Instant::now() + PATIENCE;
        let mut told = Instant::now();
        loop {
            let missing = self.missing().await?;
            if missing.is_empty() {
                return Ok(());
            }
            let stuck = missing.iter().any(|missing| missing.stalled);
            let why: Vec<_> = missing.into_iter().map(|missing| missing.why).collect();
            if stuck || Instant::now() > deadline {
                return Err(Error::SuiteNotReady { suite: self.suite.to_owned(), why });
            }
            if told.elapsed() > TOLD_EVERY {
                told = Instant::now();
                for why in &why {
                    output::note(&format!("waiting for {why}"));
                }
            }
            tokio::time::sleep(AGAIN).await;
        }
    }

    /// The apps that don't serve with all their pods, and why.
    async fn missing(&self) -> Result<Vec<Missing>, Error> {
        let mut missing = Vec::new();
        for app in self.apps {
            let found = self.cluster.app(&app.name_any()).await?;
            if let Some(not_yet) = Missing::of(&found) {
                missing.push(not_yet);
                continue;
            }
            // Ready means that one pod serves. Figures of a number that still grows mean nothing.
            let Some(service) = self.cluster.service(&app.name_any()).await? else { continue };
            let (ready, wanted) = self.cluster.replicas(&service).await?;
            if wanted.is_some_and(|wanted| wanted != ready) {
                let why =
                    format!("{}: {ready} of {} pods are ready", app.name_any(), wanted.unwrap_or_default());
                missing.push(Missing { why, stalled: false });
            }
        }
        Ok(missing)
    }

    /// Removes all of them, and waits until nothing of them is left.
    pub(super) async fn take_down(&self) -> Result<(), Error> {
        output::note(&format!("suite {}: removing its apps", self.suite));
        for app in self.apps {
            self.cluster.take_down(&app.name_any()).await?;
        }
        let deadline = Instant::now() + FAREWELL;
        loop {
            let left = self.left().await?;
            if left.is_empty() {
                output::note(&format!("suite {}: removed", self.suite));
                return Ok(());
            }
            if Instant::now() > deadline {
                return Err(Error::SuiteLeft {
                    left,
                    namespace: self.cluster.namespace.clone(),
                    suite: self.suite.to_owned(),
                });
            }
            tokio::time::sleep(AGAIN).await;
        }
    }

    /// What of them is still there.
    async fn left(&self) -> Result<Vec<String>, Error> {
        let namespace = &self.cluster.namespace;
        let mut left = Vec::new();
        for app in self.apps {
            let name = app.name_any();
            if self.cluster.app_in(namespace, &name).await?.is_some() {
                left.push(format!("WorkerApp {name}"));
            }
            if self.cluster.service(&name).await?.is_some() {
                left.push(format!("Service {name}"));
            }
            let mut placed = app.clone();
            placed.metadata.namespace = Some(namespace.clone());
            left.extend(
                self.cluster.pods(&placed).await?.iter().map(|pod| format!("Pod {}", pod.name_any())),
            );
        }
        Ok(left)
    }
}

/// An app that doesn't serve yet.
struct Missing {
    why: String,
    /// It won't without a change.
    stalled: bool,
}

impl Missing {
    fn of(app: &WorkerApp) -> Option<Self> {
        let condition = |type_| {
            status::condition(app, type_).filter(|one| one.observed_generation == app.metadata.generation)
        };
        let name = app.name_any();
        let Some(ready) = condition(ConditionType::Ready) else {
            let why = format!(
                "{name}: no operator has looked at it yet; `kubectl workerapp doctor` tells whether one runs"
            );
            return Some(Self { why, stalled: false });
        };
        let stalled =
            condition(ConditionType::Stalled).is_some_and(|one| one.status == ConditionStatus::True);
        let why = format!("{name}: {}: {}", ready.reason, ready.message);
        (ready.status != ConditionStatus::True).then_some(Self { why, stalled })
    }
}

/// Ports of nodes that the apps want and Services of others have.
fn taken(apps: &[WorkerApp], services: &[Service], namespace: &str) -> Vec<String> {
    let wanted: BTreeMap<i32, String> =
        apps.iter().flat_map(|app| node_ports(app).into_iter().map(|port| (port, app.name_any()))).collect();
    let mut problems = Vec::new();
    for service in services {
        let (place, name) = (service.namespace().unwrap_or_default(), service.name_any());
        // What this suite left has the same names; another's WorkerApp of that name is a problem of its own.
        if place == namespace && apps.iter().any(|app| app.name_any() == name) {
            continue;
        }
        let ports = service.spec.iter().flat_map(|spec| spec.ports.iter().flatten());
        for port in ports.filter_map(|port| port.node_port) {
            if let Some(app) = wanted.get(&port) {
                problems
                    .push(format!("node port {port}, which {app} wants, belongs to Service {place}/{name}"));
            }
        }
    }
    problems
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn app(name: &str, port: i32) -> WorkerApp {
        let spec = json!({"image": "i", "port": 3000, "command": ["c"], "service": {"nodePort": port}});
        serde_json::from_value(json!({"apiVersion": "workerapp.dev/v1alpha1", "kind": "WorkerApp", "metadata": {"name": name, "generation": 2}, "spec": spec})).unwrap()
    }

    #[test]
    fn a_port_of_another_is_named_with_its_owner() {
        let service = |namespace: &str, name: &str, port: i32| {
            serde_json::from_value::<Service>(json!({
                "metadata": {"namespace": namespace, "name": name}, "spec": {"ports": [{"port": 80, "nodePort": port}]},
            }))
            .unwrap()
        };
        let services = [
            service("shop", "next", 30000),
            service("shop", "other", 30007),
            service("here", "watt", 30001),
            service("there", "watt", 30001),
        ];
        let told = taken(&[app("pm2", 30000), app("watt", 30001)], &services, "here");
        assert_eq!(
            told,
            [
                "node port 30000, which pm2 wants, belongs to Service shop/next",
                "node port 30001, which watt wants, belongs to Service there/watt",
            ]
        );
    }

    #[test]
    fn an_app_serves_when_its_newest_spec_does() {
        let with = |generation: i64, status: &str| {
            let mut app = app("a", 30000);
            let ready = json!({"type": "Ready", "status": status, "reason": "R", "message": "m", "observedGeneration": generation, "lastTransitionTime": ""});
            app.status = serde_json::from_value(json!({"conditions": [ready]})).unwrap();
            Missing::of(&app).map(|missing| missing.why)
        };
        assert_eq!(with(2, "True"), None);
        assert_eq!(with(2, "False").unwrap(), "a: R: m");
        assert!(with(1, "True").unwrap().contains("doctor"));
    }
}
