//! ScaledObjects that KEDA itself acts on: what it makes of them, and that no pod is lost when an app goes over to it and back.

use anyhow::{Result, ensure};
use k8s_openapi::api::{apps::v1::Deployment, autoscaling::v2::HorizontalPodAutoscaler};
use serde_json::{Value, json};
use workerapp_api::{WorkerApp, condition::ConditionType};
use workerapp_e2e::{
    Fixture, app, cluster,
    fixture::{SILENCE, condition},
    keda::{self, Keda},
};
use workerapp_plan::ScaledObject;

/// The name that KEDA gives to its autoscaler.
const AUTOSCALER: &str = "keda-hpa-shop";

/// All year round so many pods are wanted.
fn always(pods: u32) -> Value {
    json!({ "triggers": [{ "type": "cron", "metadata": {
        "timezone": "UTC", "start": "0 0 1 1 *", "end": "59 23 31 12 *", "desiredReplicas": pods.to_string(),
    } }] })
}

fn scaled(keda: Option<Value>) -> Value {
    let mut autoscaling = json!({ "minReplicas": 2, "maxReplicas": 5, "cpu": { "targetPercent": 60 } });
    if let Some(keda) = keda {
        autoscaling["keda"] = keda;
    }
    app(json!({ "autoscaling": autoscaling }))
}

async fn until_pods(fixture: &Fixture, count: i32) -> Result<()> {
    let has = |deployment: &Deployment| deployment.spec.replicas == Some(count);
    fixture.until_is("shop", &format!("{count} pods"), has).await.map(drop)
}

#[tokio::test]
async fn keda_scales_an_app_and_gives_it_back_without_a_pod_lost() -> Result<()> {
    let fixture = Fixture::new().await?;
    for definition in keda::definitions()? {
        let name = definition["metadata"]["name"].as_str().unwrap_or_default();
        cluster::remove_definition(&fixture.client, name).await?;
        cluster::add_definition(&fixture.client, definition).await?;
    }
    let keda = Keda::start(&fixture).await?;
    let operator = fixture.operator().await?;

    fixture.apply("shop", scaled(Some(always(4)))).await?;
    let active = |app: &WorkerApp| {
        let found = condition(app, ConditionType::ScalingActive);
        found.is_some_and(|found| found.reason == "ScalingActive" && found.message.starts_with("KEDA: "))
    };
    fixture.until_is("shop", "what KEDA says", active).await?;
    // What it made of the app's own metric and of its limits; no label claims it for the operator.
    let made: HorizontalPodAutoscaler = fixture.api().get(AUTOSCALER).await?;
    let spec = &made.spec;
    assert_eq!((spec.min_replicas, spec.max_replicas), (Some(2), 5));
    let cpu = spec.metrics.iter().flatten().find_map(|metric| metric.container_resource.as_ref());
    ensure!(cpu.is_some_and(|cpu| cpu.container == "app" && cpu.name == "cpu"), "{spec:?}");
    let manager =
        made.metadata.labels.iter().flatten().find(|(key, _)| *key == "app.kubernetes.io/managed-by");
    ensure!(manager.is_none_or(|(_, manager)| manager != "workerapp-operator"), "{manager:?}");
    until_pods(&fixture, 4).await?;
    fixture.silent(&operator, "shop", SILENCE).await?;

    fixture.apply("shop", scaled(None)).await?;
    fixture
        .until("shop", "the end of the ScaledObject", |found: Option<&ScaledObject>| found.is_none())
        .await?;
    fixture
        .until(AUTOSCALER, "the end of KEDA's autoscaler", |found: Option<&HorizontalPodAutoscaler>| {
            found.is_none()
        })
        .await?;
    fixture.until_is("shop", "an autoscaler", |_: &HorizontalPodAutoscaler| true).await?;
    until_pods(&fixture, 4).await?;

    fixture.apply("shop", scaled(Some(always(5)))).await?;
    fixture.until("shop", "no autoscaler", |found: Option<&HorizontalPodAutoscaler>| found.is_none()).await?;
    until_pods(&fixture, 5).await?;

    // Without KEDA nobody takes its finalizer away: told, and an autoscaler stands in.
    keda.end().await?;
    fixture.apply("shop", scaled(None)).await?;
    fixture.until_condition("shop", ConditionType::Reconciled, "False", "ChildTerminating").await?;
    until_pods(&fixture, 5).await?;
    fixture.merge::<ScaledObject>("shop", json!({ "metadata": { "finalizers": null } })).await?;
    fixture.until_reconciled("shop").await?;
    fixture.end(operator).await
}
