//! A suite on real nodes: its apps are made, measured and removed. The other suites take too long for this place: their images
//! alone need minutes; `make compare SUITE=all` runs them, and that they can be planned is a test of the command line.

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::api::{
    apps::v1::Deployment,
    core::v1::{Pod, Service},
};
use kube::{
    Api, ResourceExt as _,
    api::{ListParams, ObjectList},
};
use serde_json::json;
use workerapp_api::WorkerApp;
use workerapp_e2e::{
    cli::cli,
    fixture::Namespaced,
    nodes::{Nodes, eventually, on_nodes},
};

const SUITE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../config/suites/pm2-vs-watt/suite.yaml");
const APPS: [&str; 4] = ["pm2", "watt", "node-cluster", "workers"];
/// Its ports on every node, which belong to all namespaces.
const PORTS: std::ops::RangeInclusive<i32> = 30000..=30003;

async fn all<K: Namespaced>(nodes: &Nodes) -> Result<ObjectList<K>> {
    Ok(nodes.api::<K>().list(&ListParams::default()).await?)
}

#[tokio::test]
async fn a_suite_is_made_measured_and_removed() -> Result<()> {
    on_nodes("suite", async |nodes| {
        // The samples have some of the same ports, and may still be on their way out.
        eventually("free node ports", async || {
            let services: Api<Service> = Api::all(nodes.client.clone());
            for service in services.list(&ListParams::default()).await? {
                let ports = service.spec.iter().flat_map(|spec| spec.ports.iter().flatten());
                let taken = ports.filter_map(|port| port.node_port).find(|port| PORTS.contains(port));
                ensure!(taken.is_none(), "{taken:?} belongs to {}", service.name_any());
            }
            Ok(())
        })
        .await?;
        let flags = [
            &["-n", &nodes.namespace, "bench", "--suite", SUITE, "--variant", "small", "-o", "json"][..],
            &["-c", "4", "-d", "500ms", "--warm-up", "500ms", "--rounds", "5", "--seed", "3"],
        ]
        .concat();
        let said = cli(&flags, "").await?;
        // A busy machine may have made a run invalid; that is no error.
        ensure!(matches!(said.code, 0 | 3), "{said:?}");

        let results = said.json()?;
        ensure!(results["targets"] == json!(APPS), "{}", results["targets"]);
        let runs = results["runs"].as_array().context("no runs")?;
        ensure!(runs.len() == 5 * APPS.len(), "{} runs", runs.len());
        for run in runs {
            let (figures, pods) = (&run["figures"], &run["observations"]["pods"]);
            ensure!(figures["answered"].as_u64() > Some(0) && figures["failed"] == 0, "{run}");
            ensure!(pods.as_array().is_some_and(|pods| pods.len() == 1), "{run}");
        }
        // Two workers each, however they are made.
        for app in APPS {
            let told = results["provenance"]["versions"][app].as_str().context("no version")?;
            ensure!(
                told.contains("localhost/json:1 (sha256:") && told.contains("2 workers"),
                "{app}: {told}"
            );
        }

        // When it has ended there is nothing left, not even on its way out.
        let left = (
            all::<WorkerApp>(nodes).await?.items.len(),
            all::<Service>(nodes).await?.items.len(),
            all::<Deployment>(nodes).await?.items.len(),
            all::<Pod>(nodes).await?.items.len(),
        );
        ensure!(left == (0, 0, 0, 0), "WorkerApps, Services, Deployments, pods: {left:?}");
        Ok(())
    })
    .await
}
