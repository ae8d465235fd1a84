//! PodMonitors: a kind that a cluster may have, get or lose while the operator runs.

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use workerapp_e2e::{Fixture, app, cluster, fixture::SILENCE};
use workerapp_plan::PodMonitor;

const NAME: &str = "podmonitors.monitoring.coreos.com";

/// The fields that the operator sends, as the Prometheus operator defines them: any other is refused.
fn definition() -> Value {
    let text = json!({ "type": "string" });
    let endpoint = json!({ "type": "object", "properties": {
        "port": text, "path": text,
        "interval": { "type": "string",
            "pattern": "^(0|(([0-9]+)y)?(([0-9]+)w)?(([0-9]+)d)?(([0-9]+)h)?(([0-9]+)m)?(([0-9]+)s)?(([0-9]+)ms)?)$" },
    } });
    let selector = json!({ "type": "object", "x-kubernetes-map-type": "atomic", "properties": {
        "matchLabels": { "type": "object", "additionalProperties": text },
    } });
    let spec = json!({ "type": "object", "required": ["selector"], "properties": {
        "selector": selector, "jobLabel": text,
        "podMetricsEndpoints": { "type": "array", "items": endpoint },
    } });
    let schema = json!({ "type": "object", "required": ["spec"], "properties": { "spec": spec } });
    json!({ "metadata": { "name": NAME }, "spec": {
        "group": "monitoring.coreos.com",
        "names": { "kind": "PodMonitor", "plural": "podmonitors", "singular": "podmonitor" },
        "scope": "Namespaced",
        "versions": [{ "name": "v1", "served": true, "storage": true, "schema": { "openAPIV3Schema": schema } }],
    } })
}

fn monitored(interval: &str) -> Value {
    app(json!({ "monitor": { "interval": interval }, "supervisor": { "appMetrics": "/metrics" } }))
}

/// Waits until the app's condition speaks of the missing kind, or no longer does.
async fn until_told(fixture: &Fixture, missing: bool) -> Result<()> {
    let told = |app: &workerapp_api::WorkerApp| {
        let found =
            workerapp_e2e::fixture::condition(app, workerapp_api::condition::ConditionType::Reconciled);
        found.is_some_and(|found| {
            found.reason == "Applied"
                && found.message.contains("spec.monitor asks for a PodMonitor") == missing
        })
    };
    fixture.until_is("shop", &format!("missing: {missing}"), told).await.map(drop)
}

/// One test, since the definition is the whole cluster's.
#[tokio::test]
async fn restate_operator_103_a_kind_may_come_and_go_while_the_operator_runs() -> Result<()> {
    let fixture = Fixture::new().await?;
    cluster::remove_definition(&fixture.client, NAME).await?;
    let operator = fixture.operator().await?;
    fixture.apply("shop", monitored("15s")).await?;
    fixture.until_reconciled("shop").await?;
    until_told(&fixture, true).await?;
    // Nothing is asked for again and again.
    fixture.silent(&operator, "shop", SILENCE).await?;
    let (_, metrics) = operator.get("/metrics").await?;
    ensure!(metrics.contains("watch_restarts_total{kind=\"PodMonitor\"} 0\n"), "{metrics}");

    cluster::add_definition(&fixture.client, definition()).await?;
    let made = |monitor: &PodMonitor| {
        let endpoints = &monitor.spec.pod_metrics_endpoints;
        let paths: Vec<_> = endpoints.iter().map(|endpoint| endpoint.path.as_str()).collect();
        paths == ["/metrics", "/app-metrics"] && endpoints[0].interval.as_deref() == Some("15s")
    };
    fixture.until_is("shop", "its endpoints", made).await?;
    until_told(&fixture, false).await?;
    fixture.silent(&operator, "shop", SILENCE).await?;

    // It is a child like any other.
    fixture.merge::<PodMonitor>("shop", json!({ "spec": { "jobLabel": "other" } })).await?;
    let back = |monitor: &PodMonitor| monitor.spec.job_label.as_deref() == Some("app.kubernetes.io/name");
    fixture.until_is("shop", "its label", back).await?;
    fixture.apply("shop", app(json!({}))).await?;
    fixture.until("shop", "its end", |monitor: Option<&PodMonitor>| monitor.is_none()).await?;
    fixture.apply("shop", monitored("30s")).await?;
    fixture.until_is("shop", "a new one", |_: &PodMonitor| true).await?;
    fixture.until_reconciled("shop").await?;

    cluster::remove_definition(&fixture.client, NAME).await?;
    until_told(&fixture, true).await?;
    fixture.silent(&operator, "shop", SILENCE).await?;
    operator.stop().await?;

    // An operator that starts without the kind is ready all the same, and one that starts with it needs no time.
    cluster::add_definition(&fixture.client, definition()).await?;
    let operator = fixture.operator().await?;
    fixture.until_is("shop", "a new one", |_: &PodMonitor| true).await?;
    until_told(&fixture, false).await?;
    let client = fixture.client.clone();
    fixture.end(operator).await?;
    cluster::remove_definition(&client, NAME).await
}
