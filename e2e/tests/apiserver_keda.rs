//! KEDA's ScaledObjects in the place of autoscalers, where a cluster has the kind, as KEDA defines it. KEDA itself doesn't run here
//! but in `keda`: what it would say stands in the ScaledObject's status.

use anyhow::{Result, ensure};
use k8s_openapi::api::{apps::v1::Deployment, autoscaling::v2::HorizontalPodAutoscaler};
use serde_json::{Value, json};
use workerapp_api::{WorkerApp, condition::ConditionType};
use workerapp_e2e::{
    Fixture, app, cluster,
    fixture::{SILENCE, condition},
    keda,
};
use workerapp_plan::ScaledObject;

fn scaled(keda: Option<&Value>) -> Value {
    let mut autoscaling = json!({
        "minReplicas": 2, "maxReplicas": 5, "cpu": { "targetPercent": 60 }, "inFlight": { "averageValue": 20 },
        "behavior": { "scaleDown": { "stabilizationWindowSeconds": 60 } },
    });
    if let Some(keda) = keda {
        autoscaling["keda"] = keda.clone();
    }
    app(json!({ "autoscaling": autoscaling }))
}

/// Waits until exactly one of the two scales the app.
async fn scales(fixture: &Fixture, keda: bool) -> Result<()> {
    let gone = |autoscaler: Option<&HorizontalPodAutoscaler>| autoscaler.is_none() == keda;
    fixture.until("shop", &format!("an autoscaler: {}", !keda), gone).await?;
    if keda {
        fixture.until_is("shop", "a ScaledObject", |_: &ScaledObject| true).await?;
    }
    Ok(())
}

async fn pods(fixture: &Fixture) -> Result<Option<i32>> {
    Ok(fixture.api::<Deployment>().get("shop").await?.spec.replicas)
}

/// What KEDA would say, and what the app then says.
async fn says(fixture: &Fixture, type_: &str, status: &str, told: (&str, &str)) -> Result<()> {
    let said = json!({ "type": type_, "status": status, "reason": "Reason", "message": "what KEDA says" });
    let status = json!({ "lastActiveTime": "2026-01-01T00:00:00Z", "conditions": [said] });
    fixture.merge_status::<ScaledObject>("shop", status).await?;
    let passed_on = |app: &WorkerApp| {
        let found = condition(app, ConditionType::ScalingActive);
        found.is_some_and(|found| {
            (format!("{:?}", found.status).as_str(), found.reason.as_str()) == told
                && found.message.contains("what KEDA says")
        })
    };
    fixture.until_is("shop", &format!("ScalingActive {told:?}"), passed_on).await.map(drop)
}

/// One test, since the definition is the whole cluster's. `llmkube_484`: the operator never sets the number of pods beside KEDA.
#[tokio::test]
async fn llmkube_484_keda_takes_over_and_gives_back_without_a_pod_lost() -> Result<()> {
    let fixture = Fixture::new().await?;
    cluster::remove_definition(&fixture.client, keda::SCALED_OBJECTS).await?;
    cluster::add_definition(&fixture.client, keda::scaled_objects()?).await?;
    let operator = fixture.operator().await?;
    let keda = json!({ "prometheusAddress": "http://prometheus:9090",
        "triggers": [{ "type": "cron", "metadata": { "desiredReplicas": "4" } }] });
    fixture.apply("shop", scaled(None)).await?;
    fixture.until_reconciled("shop").await?;
    scales(&fixture, false).await?;
    // An autoscaler that is about to set its minimum insists on that where somebody else was faster.
    let least = |deployment: &Deployment| deployment.spec.replicas == Some(2);
    fixture.until_is("shop", "the autoscaler's minimum", least).await?;
    fixture.merge::<Deployment>("shop", json!({ "spec": { "replicas": 4 } })).await?;

    fixture.apply("shop", scaled(Some(&keda))).await?;
    fixture.until_reconciled("shop").await?;
    scales(&fixture, true).await?;
    assert_eq!(pods(&fixture).await?, Some(4));
    let found = fixture.api::<ScaledObject>().get("shop").await?.spec;
    let types: Vec<_> = found.triggers.iter().map(|trigger| trigger.type_.as_str()).collect();
    assert_eq!(types, ["cpu", "prometheus", "cron"]);
    ensure!(found.advanced.is_some(), "the behaviour is lost");
    says(&fixture, "Ready", "True", ("True", "ScalingActive")).await?;
    says(&fixture, "Ready", "False", ("False", "MetricsUnavailable")).await?;
    says(&fixture, "Paused", "True", ("False", "ScalingDisabled")).await?;
    fixture.silent(&operator, "shop", SILENCE).await?;

    // A child like any other: it is repaired, and goes with the field.
    fixture.merge::<ScaledObject>("shop", json!({ "spec": { "maxReplicaCount": 50 } })).await?;
    fixture.until_is("shop", "its maximum", |found: &ScaledObject| found.spec.max_replica_count == 5).await?;
    fixture.apply("shop", scaled(None)).await?;
    scales(&fixture, false).await?;
    fixture.until("shop", "its end", |found: Option<&ScaledObject>| found.is_none()).await?;
    assert_eq!(pods(&fixture).await?, Some(4));

    // KEDA goes while an app asks for it: an autoscaler of the operator's own stands in, and that is told.
    fixture.apply("shop", scaled(Some(&keda))).await?;
    scales(&fixture, true).await?;
    cluster::remove_definition(&fixture.client, keda::SCALED_OBJECTS).await?;
    scales(&fixture, false).await?;
    let told = |app: &WorkerApp| {
        let found = condition(app, ConditionType::Reconciled);
        found.is_some_and(|found| found.message.contains("spec.autoscaling.keda asks for a ScaledObject"))
    };
    fixture.until_is("shop", "it to be told", told).await?;
    assert_eq!(pods(&fixture).await?, Some(4));
    fixture.end(operator).await
}

#[tokio::test]
async fn what_keda_could_not_do_is_refused() -> Result<()> {
    let fixture = Fixture::new().await?;
    for (keda, words) in [
        (json!({}), "prometheusAddress is needed with inFlight"),
        (json!({ "prometheusAddress": "prometheus:9090" }), "must begin with http:// or https://"),
        (
            json!({ "prometheusAddress": "http://p", "triggers": [{ "type": "cpu", "metadata": {}, "metricType": "Total" }] }),
            "must be AverageValue, Value or Utilization",
        ),
    ] {
        let refused = fixture.apply("shop", scaled(Some(&keda))).await.map(drop).unwrap_err().to_string();
        ensure!(refused.contains(words), "{refused}");
    }
    fixture.remove().await
}
