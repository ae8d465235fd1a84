//! The operator itself comes and goes; apps don't notice.

use std::{
    collections::{BTreeMap, BTreeSet},
    env,
    path::Path,
    process,
    time::Duration,
};

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::{
    api::{
        apps::v1::{Deployment, ReplicaSet},
        core::v1::{Namespace, Service},
    },
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, ListParams},
};
use serde_json::json;
use tokio::sync::Mutex;
use workerapp_api::WorkerApp;
use workerapp_e2e::{
    Pod, cluster,
    fixture::NAMESPACE_PREFIX,
    nodes::{
        Nodes, OPERATOR, OPERATOR_NAMESPACE, eventually, hello, on_nodes, pod_is_ready, requests::Load,
        restarts, run,
    },
};

/// Only one test at a time may touch the operator.
static OPERATOR_IN_USE: Mutex<()> = Mutex::const_new(());
/// For how long nothing may be written.
const SETTLED: Duration = Duration::from_mins(1);
const WRITES: &str = "workerapp_operator_writes_total{";

/// How many operators the chart runs.
const OPERATORS: usize = 2;

/// The operator's pods, all of them Ready.
async fn operator_pods(nodes: &Nodes) -> Result<Vec<Pod>> {
    let pods: Api<Pod> = Api::namespaced(nodes.client.clone(), OPERATOR_NAMESPACE);
    let selector = format!("app.kubernetes.io/name={OPERATOR}");
    eventually("the operator's pods", async || {
        let pods = pods.list(&ListParams::default().labels(&selector)).await?.items;
        let good = pods.len() == OPERATORS && pods.iter().all(pod_is_ready);
        ensure!(
            good,
            "pods of the operator: {:?}",
            pods.iter().map(ResourceExt::name_any).collect::<Vec<_>>()
        );
        Ok(pods)
    })
    .await
}

fn uids(pods: &[Pod]) -> BTreeSet<Option<String>> {
    pods.iter().map(ResourceExt::uid).collect()
}

/// What the operators have written since their start, by kind and verb.
async fn writes(nodes: &Nodes, operators: &[Pod]) -> Result<Vec<String>> {
    let mut writes = Vec::new();
    for operator in operators {
        let name = operator.name_any();
        let url = format!("/api/v1/namespaces/{OPERATOR_NAMESPACE}/pods/{name}:8080/proxy/metrics");
        let metrics = nodes.client.request_text(http::Request::get(url).body(Vec::new())?).await?;
        ensure!(metrics.contains("workerapp_operator_leader"), "no metrics of the operator: {metrics}");
        writes.extend(metrics.lines().filter(|line| line.starts_with(WRITES)).map(str::to_owned));
    }
    Ok(writes)
}

/// Everything about an app that moves when someone touches it.
#[derive(Debug, PartialEq, Eq)]
struct Traces {
    versions: BTreeMap<String, Option<String>>,
    templates: Vec<String>,
    pods: Vec<(String, i32)>,
}

async fn traces(nodes: &Nodes, apps: &[&str]) -> Result<Traces> {
    let mut versions = BTreeMap::new();
    for app in apps {
        // The autoscaler's own is left out: its controller writes what it measures.
        let deployment = nodes.api::<Deployment>().get(app).await?;
        versions.insert(format!("Deployment {app}"), deployment.resource_version());
        versions.insert(format!("Service {app}"), nodes.api::<Service>().get(app).await?.resource_version());
        versions
            .insert(format!("WorkerApp {app}"), nodes.api::<WorkerApp>().get(app).await?.resource_version());
    }
    let sets = nodes.api::<ReplicaSet>().list(&ListParams::default()).await?;
    let pods = nodes.api::<Pod>().list(&ListParams::default()).await?;
    let mut templates: Vec<_> = sets.iter().map(ResourceExt::name_any).collect();
    let mut pods: Vec<_> = pods.iter().map(|pod| (pod.name_any(), restarts(pod))).collect();
    templates.sort();
    pods.sort();
    Ok(Traces { versions, templates, pods })
}

/// Waits until what other tests left behind is gone, and the apps have stood still for a while.
async fn until_still(nodes: &Nodes, apps: &[&str]) -> Result<Traces> {
    let namespaces: Api<Namespace> = Api::all(nodes.client.clone());
    eventually("the end of other tests' namespaces", async || {
        let all = namespaces.list(&ListParams::default()).await?;
        let others = all.iter().filter(|one| one.metadata.deletion_timestamp.is_some());
        let others: Vec<_> =
            others.map(ResourceExt::name_any).filter(|name| name.starts_with(NAMESPACE_PREFIX)).collect();
        ensure!(others.is_empty(), "{others:?}");
        Ok(())
    })
    .await?;
    eventually("an end of writes", async || {
        let before = traces(nodes, apps).await?;
        tokio::time::sleep(Duration::from_secs(5)).await;
        let after = traces(nodes, apps).await?;
        ensure!(before == after, "{before:?} → {after:?}");
        Ok(after)
    })
    .await
}

/// `restate_138`, `openclaw_28`: an operator that is woken by its own writes never rests. It starts anew here, sees two settled apps, and has
/// written nothing a minute later.
#[tokio::test]
async fn restate_138_a_restarted_operator_writes_nothing_for_a_minute() -> Result<()> {
    let _alone = OPERATOR_IN_USE.lock().await;
    on_nodes("settled", async |nodes| {
        let autoscaling = json!({ "minReplicas": 2, "maxReplicas": 3 });
        let apps = ["fixed", "scaled"];
        nodes.serve_app("fixed", hello(json!({ "replicas": 1 }))).await?;
        let app = nodes.serve_app("scaled", hello(json!({ "autoscaling": autoscaling }))).await?;
        // The first metrics change its status.
        nodes
            .kubectl(&["wait", "workerapp/scaled", "--for=condition=ScalingActive", "--timeout=120s"])
            .await?;
        let before = until_still(nodes, &apps).await?;
        let load = Load::start(&nodes.endpoints(&app).await?, "/", 1, Duration::from_millis(100));

        let old = uids(&operator_pods(nodes).await?);
        let pods: Api<Pod> = Api::namespaced(nodes.client.clone(), OPERATOR_NAMESPACE);
        let selector = format!("app.kubernetes.io/name={OPERATOR}");
        let all = ListParams::default().labels(&selector);
        pods.delete_collection(&DeleteParams::default(), &all).await?;
        let new = eventually("other pods of the operator", async || {
            let new = operator_pods(nodes).await?;
            ensure!(uids(&new).is_disjoint(&old), "an old one is still there");
            Ok(new)
        })
        .await?;

        tokio::time::sleep(SETTLED).await;
        assert_eq!(writes(nodes, &new).await?, [""; 0], "written since the start");
        assert_eq!(traces(nodes, &apps).await?, before);
        let now = operator_pods(nodes).await?;
        assert_eq!((uids(&now), now.iter().map(restarts).sum()), (uids(&new), 0));
        load.stop_without_failure().await?;
        // It looks after them all the same.
        nodes.serve_app("fixed", hello(json!({ "replicas": 2 }))).await?;
        ensure!(!writes(nodes, &new).await?.is_empty(), "it counts no writes");
        Ok(())
    })
    .await
}

/// Removes a file that holds what Helm was told.
struct Temporary(std::path::PathBuf);

impl Drop for Temporary {
    fn drop(&mut self) {
        _ = std::fs::remove_file(&self.0);
    }
}

#[tokio::test]
async fn apps_outlive_the_release_and_are_taken_up_by_the_next() -> Result<()> {
    let _alone = OPERATOR_IN_USE.lock().await;
    on_nodes("release", async |nodes| {
        let app = nodes.serve_app("shop", hello(json!({}))).await?;
        let before = until_still(nodes, &["shop"]).await?;
        let release = ["--namespace", OPERATOR_NAMESPACE, OPERATOR];
        let values = run("helm", &[&["get", "values", "-o", "json"], &release[..]].concat()).await?;
        let file = Temporary(env::temp_dir().join(format!("workerapp-values-{}.json", process::id())));
        std::fs::write(&file.0, values)?;
        let file = file.0.to_str().context("no path")?;
        let endpoints = nodes.endpoints(&app).await?;
        let load = Load::start(&endpoints, "/", 1, Duration::from_millis(50));

        run("helm", &[&["uninstall", "--wait", "--timeout", "60s"], &release[..]].concat()).await?;
        let definitions: Api<CustomResourceDefinition> = Api::all(nodes.client.clone());
        let gone = async {
            let definition =
                definitions.get(cluster::DEFINITION).await.context("the definition was removed")?;
            ensure!(definition.metadata.deletion_timestamp.is_none(), "the definition is being removed");
            assert_eq!(traces(nodes, &["shop"]).await?, before);
            // A change that nobody sees yet.
            nodes.apply("shop", hello(json!({ "replicas": 2 }))).await?;
            load.until_answered(10 * endpoints.len()).await?;
            anyhow::Ok(())
        }
        .await;

        // Whatever came of that, the next test needs the operator.
        let chart = Path::new(env!("CARGO_MANIFEST_DIR")).join("../charts/workerapp-operator");
        let chart = chart.to_str().context("no path")?;
        let install = ["install", OPERATOR, chart, "--namespace", OPERATOR_NAMESPACE, "--values", file];
        run("helm", &[&install[..], &["--wait", "--timeout", "120s"]].concat()).await?;
        gone?;

        nodes.until_ready("shop").await?;
        let after = traces(nodes, &["shop"]).await?;
        assert_eq!(after.templates, before.templates, "new pods were rolled out");
        ensure!(before.pods.iter().all(|pod| after.pods.contains(pod)), "{before:?} → {after:?}");
        assert_eq!(after.pods.len(), 2, "the change was not carried out");
        load.stop_without_failure().await?;
        Ok(())
    })
    .await
}
