//! Edits by hand at the very moment at which the operator writes: before its write is carried out, and before it hears of that.

use std::{sync::Arc, time::Duration};

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::api::{apps::v1::Deployment, autoscaling::v2::HorizontalPodAutoscaler, core::v1::Service};
use kube::ResourceExt as _;
use serde::Serialize;
use serde_json::{Value, json};
use workerapp_api::WorkerApp;
use workerapp_e2e::{
    Fixture, app,
    faults::{
        fault::{Held, Moment},
        gate::Gate,
    },
    fixture::{Namespaced, PATIENCE, SILENCE},
};

/// In so long a watch has told the operator what was written meanwhile, before it hears that its own write was carried out.
const TOLD: Duration = Duration::from_millis(500);

fn spec(tag: u32, max: i32) -> Value {
    app(json!({
        "image": format!("localhost/app:{tag}"),
        "env": [{ "name": "A", "value": tag.to_string() }],
        "nodeSelector": { "disk": "fast" },
        "service": { "port": 80 + i32::try_from(tag).unwrap_or_default() },
        "autoscaling": { "maxReplicas": max },
    }))
}

/// What stands of a child, apart from what others may write.
fn essence(object: &impl Serialize) -> Value {
    let object = serde_json::to_value(object).unwrap_or_default();
    let mut spec = object["spec"].clone();
    for picked in ["clusterIP", "clusterIPs", "replicas"] {
        if let Some(spec) = spec.as_object_mut() {
            spec.remove(picked);
        }
    }
    for port in spec["ports"].as_array_mut().into_iter().flatten() {
        port["nodePort"] = Value::Null;
    }
    let labels = &object["metadata"]["labels"];
    json!({ "spec": spec, "labels": labels, "owners": object["metadata"]["ownerReferences"].as_array().map(Vec::len) })
}

/// How a child stands after an edit of the app that nobody disturbs.
async fn undisturbed<K: Namespaced>() -> Result<Value> {
    let (fixture, operator) = Fixture::settled(spec(1, 4)).await?;
    fixture.apply("shop", spec(2, 5)).await?;
    fixture.until_reconciled("shop").await?;
    fixture.until_quiet(&operator).await?;
    let wanted = essence(&fixture.api::<K>().get("shop").await?);
    fixture.end_at_once(operator).await?;
    Ok(wanted)
}

/// Holds the operator's write of a child, edits the child by hand, lets the write go on: what was edited is undone, and it ends as without
/// the edit.
async fn edited_meanwhile<K: Namespaced>(
    plural: &'static str,
    moment: Moment,
    edit: Value,
    wanted: &Value,
) -> Result<()> {
    let (fixture, operator) = Fixture::settled(spec(1, 4)).await?;
    let gate = Arc::new(Gate::default());
    operator.faults.arm(Arc::new(Held::new(plural, moment, Arc::clone(&gate))));
    fixture.apply("shop", spec(2, 5)).await?;
    tokio::time::timeout(PATIENCE, gate.reached()).await.context("the operator didn't write")?;
    fixture.merge::<K>("shop", edit.clone()).await?;
    if moment == Moment::AfterSend {
        tokio::time::sleep(TOLD).await;
    }
    gate.open();
    let what = format!("what stands undisturbed, after {edit} {moment:?}: {wanted}");
    fixture.until_is("shop", &what, |now: &K| essence(now) == *wanted).await?;
    fixture.until_reconciled("shop").await?;
    fixture.end(operator).await
}

/// Each edit at each moment.
async fn each<K: Namespaced>(plural: &'static str, edits: impl IntoIterator<Item = Value>) -> Result<()> {
    let wanted = undisturbed::<K>().await?;
    let cases = edits.into_iter().flat_map(|edit| Moment::ALL.map(|moment| (moment, edit.clone())));
    let cases = cases.map(|(moment, edit)| Box::pin(edited_meanwhile::<K>(plural, moment, edit, &wanted)));
    futures::future::try_join_all(cases).await.map(drop)
}

fn pod(spec: &Value) -> Value {
    json!({ "spec": { "template": { "spec": spec } } })
}

#[tokio::test]
async fn a_deployment_edited_during_the_operators_write_is_set_right() -> Result<()> {
    each::<Deployment>(
        "deployments",
        [
            pod(&json!({ "nodeSelector": { "disk": "slow", "evil": "yes" } })),
            pod(&json!({ "containers": [{ "name": "app", "image": "localhost/evil:1" }] })),
            pod(&json!({ "containers": [{
                "name": "app", "image": "localhost/evil:1", "readinessProbe": { "exec": { "command": ["true"] } },
            }] })),
            json!({ "metadata": { "labels": { "app.kubernetes.io/managed-by": null } } }),
        ],
    )
    .await
}

#[tokio::test]
async fn a_service_edited_during_the_operators_write_is_set_right() -> Result<()> {
    each::<Service>(
        "services",
        [
            json!({ "spec": { "selector": { "tier": "gold" } } }),
            json!({ "spec": { "ports": [{ "name": "app", "port": 8123, "targetPort": "app" }] } }),
            json!({ "spec": { "type": "ClusterIP" } }),
        ],
    )
    .await
}

#[tokio::test]
async fn an_autoscaler_edited_during_the_operators_write_is_set_right() -> Result<()> {
    each::<HorizontalPodAutoscaler>(
        "horizontalpodautoscalers",
        [
            json!({ "spec": { "maxReplicas": 50 } }),
            json!({ "spec": { "scaleTargetRef": { "name": "other" } } }),
            json!({ "spec": { "metrics": [] } }),
        ],
    )
    .await
}

/// Deletes a child that the operator has just written, before it hears of that: the child is made anew.
async fn deleted_meanwhile<K: Namespaced>(plural: &'static str) -> Result<()> {
    let fixture = Fixture::new().await?;
    let operator = fixture.operator().await?;
    let gate = Arc::new(Gate::default());
    operator.faults.arm(Arc::new(Held::new(plural, Moment::AfterSend, Arc::clone(&gate))));
    fixture.apply("shop", spec(1, 4)).await?;
    tokio::time::timeout(PATIENCE, gate.reached()).await.context("the operator didn't write")?;
    let first = fixture.until_is("shop", "its being there", |_: &K| true).await?.uid();
    fixture.delete::<K>("shop").await?;
    tokio::time::sleep(TOLD).await;
    gate.open();
    fixture.until_is("shop", "a new one", |now: &K| now.uid() != first).await?;
    fixture.until_reconciled("shop").await?;
    fixture.end(operator).await
}

#[tokio::test]
async fn a_child_deleted_before_the_operator_hears_that_it_was_made_is_made_anew() -> Result<()> {
    deleted_meanwhile::<Deployment>("deployments").await?;
    deleted_meanwhile::<Service>("services").await?;
    deleted_meanwhile::<HorizontalPodAutoscaler>("horizontalpodautoscalers").await
}

#[tokio::test]
async fn an_app_deleted_before_the_operator_hears_that_its_status_was_written_stays_gone() -> Result<()> {
    let fixture = Fixture::new().await?;
    let operator = fixture.operator().await?;
    let gate = Arc::new(Gate::default());
    operator.faults.arm(Arc::new(Held::new("workerapps", Moment::AfterSend, Arc::clone(&gate))));
    fixture.apply("shop", spec(1, 4)).await?;
    tokio::time::timeout(PATIENCE, gate.reached()).await.context("the operator didn't write")?;
    fixture.delete::<WorkerApp>("shop").await?;
    fixture.until("shop", "its end", |deployment: Option<&Deployment>| deployment.is_none()).await?;
    tokio::time::sleep(TOLD).await;
    operator.recorder.take();
    gate.open();
    tokio::time::sleep(SILENCE).await;
    let sent = operator.recorder.all();
    ensure!(sent.iter().all(|sent| !sent.is_child()), "children of an app that is gone: {sent:?}");
    fixture.end(operator).await
}
