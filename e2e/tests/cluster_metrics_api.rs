//! The metrics API as the chart installs it: an app follows its requests, holds while nobody answers, and is left with CPU when the
//! release goes. Every step is under load, and no request fails.

use std::{net::SocketAddr, path::Path, time::Duration};

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::api::{apps::v1::Deployment, autoscaling::v2::HorizontalPodAutoscaler, core::v1::Event};
use kube::api::ListParams;
use serde_json::{Value, json};
use workerapp_api::WorkerApp;
use workerapp_e2e::{
    metrics_api::{namespaces_still_go, registered, until_unregistered},
    nodes::{
        Nodes, OPERATOR, OPERATOR_NAMESPACE, PATIENCE, eventually, hello, on_nodes, requests::Load, run,
    },
};

const APP: &str = "shop";
/// A release beside the operator's own: its operator has no pod, so that it brings the metrics API alone.
const RELEASE: &str = "feel";
const METRICS_API: &str = "feel-workerapp-operator-metrics-api";
/// The requests in flight that a pod is to have.
const TARGET: u32 = 4;
/// Clients that always have a request under way: enough for every pod that may be, and few enough for one.
const MANY: usize = 16;
const FEW: usize = 2;
/// How often the autoscaler must have found no metric before its silence counts as an answer.
const MISSED: i32 = 3;

async fn helm(nodes: &Nodes, arguments: &[&str]) -> Result<()> {
    run("helm", &[&["--namespace", &nodes.namespace], arguments].concat()).await.map(drop)
}

/// Installs the chart with the values of the operator's own release, whose image is the one to be tested.
async fn install(nodes: &Nodes) -> Result<()> {
    let values = ["get", "values", "--output", "json", "--namespace", OPERATOR_NAMESPACE, OPERATOR];
    let values = run("helm", &values).await?;
    let file = std::env::temp_dir().join(format!("{}.json", nodes.namespace));
    std::fs::write(&file, values)?;
    let chart = Path::new(env!("CARGO_MANIFEST_DIR")).join("../charts/workerapp-operator");
    let (chart, path) = (chart.to_str().context("no path")?, file.to_str().context("no path")?);
    let own = "replicas=0,crds.install=false,metricsApi.enabled=true";
    let installed = helm(
        nodes,
        &["install", RELEASE, chart, "--values", path, "--set", own, "--wait", "--timeout", "120s"],
    )
    .await;
    std::fs::remove_file(&file)?;
    installed
}

async fn uninstall(nodes: &Nodes) -> Result<()> {
    helm(nodes, &["uninstall", RELEASE, "--ignore-not-found", "--wait", "--timeout", "60s"]).await
}

/// Waits until the autoscaler goes by metrics of this type alone.
async fn goes_by(nodes: &Nodes, type_: &str) -> Result<()> {
    let alone = |autoscaler: &HorizontalPodAutoscaler| {
        let metrics = autoscaler.spec.metrics.iter().flatten();
        metrics.map(|metric| metric.type_.as_str()).eq([type_])
    };
    nodes.wait(APP, &format!("the autoscaler to go by {type_}"), alone).await.map(drop)
}

async fn scaled_to(nodes: &Nodes, pods: i32) -> Result<()> {
    let scaled = |deployment: &Deployment| {
        let ready = deployment.status.as_ref().and_then(|status| status.ready_replicas);
        deployment.spec.replicas == Some(pods) && ready == Some(pods)
    };
    nodes.wait(APP, &format!("{pods} pods"), scaled).await.map(drop)
}

/// How often the autoscaler has said that it got no metric.
async fn missed(nodes: &Nodes) -> Result<i32> {
    let events =
        nodes.api::<Event>().list(&ListParams::default().fields("reason=FailedGetPodsMetric")).await?;
    Ok(events.iter().map(|event| event.count.unwrap_or(1)).sum())
}

/// Ends the metrics API's pods as a crash of their nodes would, with a quota in the place of nodes that are full.
async fn kill(nodes: &Nodes) -> Result<()> {
    nodes.kubectl(&["create", "quota", "full", "--hard=pods=0"]).await?;
    // The quota refuses once its controller has counted.
    nodes.kubectl(&["wait", "quota/full", "--for=jsonpath={.status.hard.pods}=0", "--timeout=60s"]).await?;
    let pods = format!("app.kubernetes.io/instance={RELEASE}");
    nodes.kubectl(&["delete", "pods", "--selector", &pods, "--force", "--grace-period=0"]).await.map(drop)
}

async fn revive(nodes: &Nodes) -> Result<()> {
    nodes.kubectl(&["delete", "quota", "full"]).await?;
    // Pods that were refused are tried again after a while; this tries at once.
    nodes.kubectl(&["rollout", "restart", "deployment", METRICS_API]).await?;
    nodes.kubectl(&["rollout", "status", "deployment", METRICS_API, "--timeout=120s"]).await.map(drop)
}

/// An app with these fields in its autoscaling.
fn spec(more: &Value) -> Value {
    let mut autoscaling = json!({
        "minReplicas": 1, "maxReplicas": 3,
        "inFlight": { "averageValue": TARGET },
        "behavior": { "scaleDown": { "stabilizationWindowSeconds": 0 } },
    });
    for (field, value) in more.as_object().into_iter().flatten() {
        autoscaling[field] = value.clone();
    }
    hello(json!({ "autoscaling": autoscaling }))
}

/// Load that leaps, and an autoscaler that may not add pods: the operator does, for a while.
async fn burst(nodes: &Nodes, endpoints: &[SocketAddr]) -> Result<()> {
    let behavior = json!({
        "scaleUp": { "selectPolicy": "Disabled" }, "scaleDown": { "stabilizationWindowSeconds": 0 },
    });
    nodes.apply(APP, spec(&json!({ "behavior": behavior, "burst": { "holdSeconds": 5 } }))).await?;
    let many = Load::start(endpoints, "/sleep?ms=1000", MANY, Duration::ZERO);
    let burst = |app: &WorkerApp| app.status.as_ref().and_then(|status| status.burst.clone());
    nodes.wait(APP, "a burst", |app: &WorkerApp| burst(app).is_some_and(|burst| burst.replicas == 3)).await?;
    scaled_to(nodes, 3).await?;
    many.stop_without_failure().await?;
    nodes.wait(APP, "its end", |app: &WorkerApp| burst(app).is_none()).await.map(drop)
}

async fn story(nodes: &Nodes) -> Result<()> {
    let app = nodes.serve_app(APP, spec(&json!({}))).await?;
    goes_by(nodes, "ContainerResource").await.context("before there is a metrics API")?;
    install(nodes).await?;
    goes_by(nodes, "Pods").await?;

    // Requests that wait use no CPU: the workers alone know of them.
    let endpoints = nodes.endpoints(&app).await?;
    let few = Load::start(&endpoints, "/sleep?ms=50", FEW, Duration::ZERO);
    let many = Load::start(&endpoints, "/sleep?ms=1000", MANY, Duration::ZERO);
    scaled_to(nodes, 3).await.context("under load")?;

    // `kubernetes_61007`: the load falls while nobody measures it.
    kill(nodes).await?;
    many.stop_without_failure().await.context("while pods were added")?;
    let before = missed(nodes).await?;
    eventually("the autoscaler to miss its metric", async || {
        let missed = missed(nodes).await? - before;
        ensure!(missed >= MISSED, "it has missed it {missed} times");
        Ok(())
    })
    .await?;
    let wanted = nodes.api::<Deployment>().get(APP).await?.spec.replicas;
    assert_eq!(wanted, Some(3), "scaled on data that is missing");

    revive(nodes).await?;
    scaled_to(nodes, 1).await.context("with little load")?;
    // What is leaving still answers.
    eventually("the pods to be gone", async || {
        let left = nodes.all_pods(APP).await?.len();
        ensure!(left == 1, "{left} pods");
        Ok(())
    })
    .await?;
    burst(nodes, &endpoints).await.context("in a burst")?;
    let answered = few.stop_without_failure().await.context("while pods were removed")?;
    ensure!(answered > 0, "nothing was asked");

    // `kubernetes_83332`: an APIService without a server keeps every namespace from being deleted.
    assert_eq!(registered(&nodes.client).await?.len(), 2);
    uninstall(nodes).await?;
    until_unregistered(&nodes.client).await?;
    namespaces_still_go(&nodes.client, PATIENCE).await?;
    goes_by(nodes, "ContainerResource").await.context("after the release is gone")
}

#[tokio::test]
async fn kubernetes_61007_an_app_follows_its_requests_and_holds_while_nobody_measures() -> Result<()> {
    on_nodes("feel", async |nodes| {
        let result = Box::pin(story(nodes)).await;
        // Whatever came of that: other tests' namespaces need the APIServices to go.
        uninstall(nodes).await?;
        result
    })
    .await
}
