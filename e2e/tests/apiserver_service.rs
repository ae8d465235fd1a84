//! Node ports: pinned, taken, out of range, picked and kept.

use std::{
    sync::atomic::{AtomicI32, Ordering},
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::api::{apps::v1::Deployment, autoscaling::v2::HorizontalPodAutoscaler, core::v1::Service};
use serde_json::{Value, json};
use workerapp_api::{WorkerApp, condition::ConditionType};
use workerapp_e2e::{Fixture, app, fixture::SILENCE, metrics_api::eventually};

fn pinned(port: i32) -> Value {
    app(json!({ "service": { "nodePort": port }, "autoscaling": { "maxReplicas": 3 } }))
}

async fn node_port(fixture: &Fixture, name: &str) -> Result<Option<i32>> {
    let service = fixture.api::<Service>().get(name).await?;
    Ok(service.spec.and_then(|spec| spec.ports?.into_iter().next()?.node_port))
}

/// A node port that is free and stays so: from the lower end of the range, of which the API server picks none while others are left, and
/// another one for each test.
async fn free_port(fixture: &Fixture) -> Result<i32> {
    static NEXT: AtomicI32 = AtomicI32::new(30_000);
    loop {
        let port = NEXT.fetch_add(1, Ordering::SeqCst);
        let ports = json!([{ "port": 80, "nodePort": port }]);
        let probe =
            json!({ "metadata": { "name": "probe" }, "spec": { "type": "NodePort", "ports": ports } });
        match fixture.create::<Service>(probe).await {
            Ok(_) => {
                fixture.delete::<Service>("probe").await?;
                return Ok(port);
            }
            Err(error) if error.to_string().contains("already allocated") => {}
            Err(error) => return Err(error),
        }
    }
}

#[tokio::test]
async fn redpanda_3263_contour_operator_310_a_taken_node_port_is_told_and_taken_up_when_freed() -> Result<()>
{
    let fixture = Fixture::new().await?;
    let operator = fixture.operator().await?;
    let port = free_port(&fixture).await?;
    fixture.apply("first", pinned(port)).await?;
    fixture.until_reconciled("first").await?;
    fixture.apply("second", pinned(port)).await?;

    let told = fixture.until_condition("second", ConditionType::Reconciled, "False", "NodePortTaken").await?;
    let holder = format!("node port {port} is taken by Service {}/first (port app)", fixture.namespace);
    ensure!(told.message.contains(&holder), "{}", told.message);
    fixture.until_condition("second", ConditionType::Ready, "False", "NodePortTaken").await?;
    fixture.until_is("second", "the other children", |_: &Deployment| true).await?;
    fixture.until_is("second", "the other children", |_: &HorizontalPodAutoscaler| true).await?;
    fixture.until_reconciled("first").await?;

    // It is tried every few seconds, and told once. While all else rests nothing but the time brings a try.
    fixture.at_rest(&operator).await?;
    operator.recorder.take();
    let tries = eventually("further tries", async || {
        let sent = operator.recorder.all();
        let tries = sent.iter().filter(|sent| sent.path.ends_with("/services/second")).map(|sent| sent.at);
        let tries: Vec<_> = tries.collect();
        ensure!(tries.len() >= 2, "{tries:?}");
        Ok(tries)
    })
    .await?;
    let waits: Vec<_> = tries.windows(2).map(|pair| pair[1] - pair[0]).collect();
    ensure!(waits.iter().all(|wait| *wait >= Duration::from_secs(1)), "tried again after {waits:?}");
    fixture.told_once(&operator, "second", "NodePortTaken").await?;

    fixture.delete::<WorkerApp>("first").await?;
    fixture.until("first", "its end", |service: Option<&Service>| service.is_none()).await?;
    let freed = Instant::now();
    fixture.until_reconciled("second").await?;
    // No event tells of it, and the usual waits grow to minutes.
    ensure!(freed.elapsed() < Duration::from_secs(90), "{:?}", freed.elapsed());
    ensure!(node_port(&fixture, "second").await? == Some(port));
    fixture.end(operator).await
}

#[tokio::test]
async fn apps_that_want_each_others_node_ports_are_told_how_to_get_them() -> Result<()> {
    let fixture = Fixture::new().await?;
    let operator = fixture.operator().await?;
    let mut ports = Vec::new();
    for name in ["first", "second"] {
        fixture.apply(name, app(json!({}))).await?;
        fixture.until_reconciled(name).await?;
        ports.push(node_port(&fixture, name).await?.context("no node port")?);
    }
    let free = free_port(&fixture).await?;

    fixture.apply("first", pinned(ports[1])).await?;
    fixture.apply("second", pinned(ports[0])).await?;
    for (name, other, wanted, held) in
        [("first", "second", ports[1], ports[0]), ("second", "first", ports[0], ports[1])]
    {
        let told =
            fixture.until_condition(name, ConditionType::Reconciled, "False", "NodePortsSwapped").await?;
        let circle = format!("WorkerApp {}/{other} has {wanted} and waits for {held}", fixture.namespace);
        ensure!(told.message.contains(&circle), "{}", told.message);
        ensure!(told.message.contains("another free node port"), "{}", told.message);
    }
    // As it was told to.
    fixture.apply("first", pinned(free)).await?;
    fixture.until_reconciled("second").await?;
    fixture.apply("first", pinned(ports[1])).await?;
    fixture.until_reconciled("first").await?;
    ensure!(node_port(&fixture, "second").await? == Some(ports[0]));
    fixture.end(operator).await
}

#[tokio::test]
async fn a_node_port_out_of_range_is_told_with_the_range() -> Result<()> {
    let fixture = Fixture::new().await?;
    let operator = fixture.operator().await?;
    fixture.apply("shop", pinned(1500)).await?;
    let told =
        fixture.until_condition("shop", ConditionType::Reconciled, "False", "NodePortOutOfRange").await?;
    ensure!(
        told.message.contains("node port 1500 is outside the API server's range 30000-32767"),
        "{}",
        told.message
    );
    let port = free_port(&fixture).await?;
    fixture.apply("shop", pinned(port)).await?;
    fixture.until_reconciled("shop").await?;
    fixture.end(operator).await
}

#[tokio::test]
async fn kubernetes_85894_a_picked_node_port_stays() -> Result<()> {
    let fixture = Fixture::new().await?;
    let operator = fixture.operator().await?;
    fixture.apply("shop", app(json!({}))).await?;
    fixture.until_reconciled("shop").await?;
    let port = node_port(&fixture, "shop").await?;
    ensure!(port.is_some());
    let told = |app: &WorkerApp| app.status.as_ref().is_some_and(|status| status.node_port == port);
    fixture.until_is("shop", "the port in the status", told).await?;

    // Over edits of the Service and of other things, and over a restart of the operator.
    fixture.apply("shop", app(json!({ "env": [{ "name": "A", "value": "b" }] }))).await?;
    fixture.until_reconciled("shop").await?;
    ensure!(node_port(&fixture, "shop").await? == port);
    operator.stop().await?;
    let operator = fixture.operator().await?;
    fixture.apply("shop", app(json!({ "service": { "port": 80, "metrics": {} } }))).await?;
    fixture.until_reconciled("shop").await?;
    ensure!(node_port(&fixture, "shop").await? == port);

    // Pinned to what it has, and let go again.
    fixture.apply("shop", app(json!({ "service": { "nodePort": port } }))).await?;
    fixture.until_reconciled("shop").await?;
    fixture.apply("shop", app(json!({}))).await?;
    fixture.until_reconciled("shop").await?;
    ensure!(node_port(&fixture, "shop").await? == port);
    fixture.silent(&operator, "shop", SILENCE).await?;
    fixture.end(operator).await
}

#[tokio::test]
async fn a_service_changes_its_type_both_ways() -> Result<()> {
    let fixture = Fixture::new().await?;
    let operator = fixture.operator().await?;
    let port = free_port(&fixture).await?;
    for (service, type_, has_port) in [
        (json!({ "nodePort": port }), "NodePort", true),
        (json!({ "type": "ClusterIP" }), "ClusterIP", false),
        (json!({ "port": 80 }), "NodePort", true),
        (json!({ "type": "ClusterIP", "port": 8080 }), "ClusterIP", false),
        (json!({ "type": "LoadBalancer" }), "LoadBalancer", true),
    ] {
        fixture.apply("shop", app(json!({ "service": service }))).await?;
        let changed =
            |service: &Service| service.spec.as_ref().and_then(|spec| spec.type_.as_deref()) == Some(type_);
        fixture.until_is("shop", type_, changed).await?;
        fixture.until_reconciled("shop").await?;
        ensure!(node_port(&fixture, "shop").await?.is_some() == has_port, "{type_}");
        let status = fixture.api::<WorkerApp>().get("shop").await?.status.unwrap_or_default();
        ensure!(status.node_port.is_some() == has_port, "{status:?}");
        if type_ == "ClusterIP" {
            let host = format!("http://shop.{}.svc", fixture.namespace);
            ensure!(status.url.as_ref().is_some_and(|url| url.starts_with(&host)), "{status:?}");
        }
    }
    fixture.silent(&operator, "shop", SILENCE).await?;
    fixture.end(operator).await
}
