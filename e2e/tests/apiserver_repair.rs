//! Edits of children that a merge can't undo, and who may scale a Deployment.

use anyhow::{Result, ensure};
use k8s_openapi::api::{apps::v1::Deployment, autoscaling::v2::HorizontalPodAutoscaler, core::v1::Service};
use serde_json::{Value, json};
use workerapp_api::condition::ConditionType;
use workerapp_e2e::{
    Fixture, app,
    fixture::{Namespaced, SILENCE},
};

async fn replicas(fixture: &Fixture) -> Result<Value> {
    Ok(fixture.raw::<Deployment>("shop").await?["spec"]["replicas"].clone())
}

/// Waits until the child as JSON is as wanted.
async fn until_json<K: Namespaced>(fixture: &Fixture, what: &str, wanted: fn(&Value) -> bool) -> Result<()> {
    let holds = move |object: &K| serde_json::to_value(object).is_ok_and(|object| wanted(&object));
    fixture.until_is("shop", what, holds).await.map(drop)
}

fn scaled(min: i32) -> Value {
    app(json!({ "autoscaling": { "minReplicas": min, "maxReplicas": 10 } }))
}

#[tokio::test]
async fn hpa_operator_11_a_deployment_of_somebody_else_gets_no_autoscaler() -> Result<()> {
    let fixture = Fixture::new().await?;
    let operator = fixture.operator().await?;
    let foreign = json!({
        "metadata": { "name": "shop" },
        "spec": {
            "replicas": 1,
            "selector": { "matchLabels": { "mine": "yes" } },
            "template": {
                "metadata": { "labels": { "mine": "yes" } },
                "spec": { "containers": [{ "name": "c", "image": "i", "resources": { "requests": { "cpu": "1m" } } }] },
            },
        },
    });
    fixture.create::<Deployment>(foreign).await?;
    fixture.apply("shop", scaled(4)).await?;
    fixture.until_condition("shop", ConditionType::Reconciled, "False", "NameClash").await?;
    tokio::time::sleep(SILENCE).await;
    ensure!(
        fixture.api::<HorizontalPodAutoscaler>().get_opt("shop").await?.is_none(),
        "there is an autoscaler"
    );
    ensure!(replicas(&fixture).await? == 1, "it was scaled");

    fixture.delete::<Deployment>("shop").await?;
    fixture.until_reconciled("shop").await?;
    fixture.until_is("shop", "the autoscaler", |_: &HorizontalPodAutoscaler| true).await?;
    fixture.end(operator).await
}

#[tokio::test]
async fn what_is_added_to_a_selector_goes_again() -> Result<()> {
    let (fixture, operator) = Fixture::settled(app(json!({ "nodeSelector": { "disk": "fast" } }))).await?;
    fixture.merge::<Service>("shop", json!({ "spec": { "selector": { "tier": "gold" } } })).await?;
    until_json::<Service>(&fixture, "its selector", |service| {
        service["spec"]["selector"].get("tier").is_none()
    })
    .await?;
    let pinned = json!({ "spec": { "template": { "spec": { "nodeSelector": { "evil": "yes" } } } } });
    fixture.merge::<Deployment>("shop", pinned).await?;
    let as_wanted = |deployment: &Value| {
        deployment["spec"]["template"]["spec"]["nodeSelector"] == json!({ "disk": "fast" })
    };
    until_json::<Deployment>(&fixture, "its node selector", as_wanted).await?;
    fixture.end(operator).await
}

#[tokio::test]
async fn edits_that_cannot_be_merged_away_are_undone() -> Result<()> {
    let (fixture, operator) = Fixture::settled(app(json!({}))).await?;
    let before = fixture.raw::<Service>("shop").await?["spec"]["ports"].clone();

    let mut moved = before.clone();
    moved[0]["port"] = json!(81);
    fixture.merge::<Service>("shop", json!({ "spec": { "ports": moved } })).await?;
    until_json::<Service>(&fixture, "port 80", |service| service["spec"]["ports"][0]["port"] == 80).await?;
    fixture.until_reconciled("shop").await?;
    ensure!(fixture.raw::<Service>("shop").await?["spec"]["ports"] == before, "the node port changed");

    let mut containers =
        fixture.raw::<Deployment>("shop").await?["spec"]["template"]["spec"]["containers"].clone();
    containers[0]["readinessProbe"] = json!({ "exec": { "command": ["true"] } });
    let edited = json!({ "spec": { "template": { "spec": { "containers": containers } } } });
    fixture.merge::<Deployment>("shop", edited).await?;
    let asks_the_supervisor = |deployment: &Value| {
        deployment["spec"]["template"]["spec"]["containers"][0]["readinessProbe"]["httpGet"]["path"]
            == "/readyz"
    };
    until_json::<Deployment>(&fixture, "its probe", asks_the_supervisor).await?;
    fixture.until_reconciled("shop").await?;

    // The last step of a repair, which no condition tells.
    let owned_by_none = |object: &Value| {
        let managers = object["metadata"]["managedFields"].as_array();
        managers.is_some_and(|all| all.iter().all(|entry| entry["manager"] != "workerapp-operator-repair"))
    };
    until_json::<Service>(&fixture, "nothing owned by the repair", owned_by_none).await?;
    until_json::<Deployment>(&fixture, "nothing owned by the repair", owned_by_none).await?;
    fixture.until_quiet(&operator).await?;
    fixture.silent(&operator, "shop", SILENCE).await?;
    fixture.end(operator).await
}

#[tokio::test]
async fn llmkube_484_replicas_wait_until_a_dropped_autoscaler_is_gone() -> Result<()> {
    let (fixture, operator) = Fixture::settled(scaled(3)).await?;
    until_json::<Deployment>(&fixture, "three pods", |deployment| deployment["spec"]["replicas"] == 3)
        .await?;
    let held = json!({ "metadata": { "finalizers": ["example.com/held"] } });
    fixture.merge::<HorizontalPodAutoscaler>("shop", held).await?;

    fixture.apply("shop", app(json!({ "replicas": 1 }))).await?;
    fixture.until_condition("shop", ConditionType::Reconciled, "False", "ChildTerminating").await?;
    tokio::time::sleep(SILENCE).await;
    ensure!(replicas(&fixture).await? == 3, "replicas were set under the autoscaler");

    let freed = json!({ "metadata": { "finalizers": null } });
    fixture.merge::<HorizontalPodAutoscaler>("shop", freed).await?;
    until_json::<Deployment>(&fixture, "one pod", |deployment| deployment["spec"]["replicas"] == 1).await?;
    fixture.until_reconciled("shop").await?;
    fixture.end(operator).await
}

#[tokio::test]
async fn starrocks_operator_223_an_autoscaler_without_our_label_is_dropped_too() -> Result<()> {
    let (fixture, operator) = Fixture::settled(scaled(3)).await?;
    until_json::<Deployment>(&fixture, "three pods", |deployment| deployment["spec"]["replicas"] == 3)
        .await?;
    operator.stop().await?;
    let bare = json!({ "metadata": { "labels": { "app.kubernetes.io/managed-by": null } } });
    fixture.merge::<HorizontalPodAutoscaler>("shop", bare).await?;
    fixture.apply("shop", app(json!({ "replicas": 1 }))).await?;
    let operator = fixture.operator().await?;
    fixture.until("shop", "its end", |hpa: Option<&HorizontalPodAutoscaler>| hpa.is_none()).await?;
    until_json::<Deployment>(&fixture, "one pod", |deployment| deployment["spec"]["replicas"] == 1).await?;
    fixture.end(operator).await
}

/// What a merge can't set right is replaced, and nothing of a spec that is itself at fault gets into the pods by that.
#[tokio::test]
async fn a_spec_that_is_refused_changes_no_pod() -> Result<()> {
    let (fixture, operator) = Fixture::settled(app(json!({ "replicas": 1 }))).await?;
    let template = fixture.api::<Deployment>().get("shop").await?.spec.template;
    for bad in [
        json!({ "nodeSelector": { "disk": "not a label!" } }),
        json!({ "readinessProbe": { "exec": { "command": ["true"] }, "tcpSocket": { "port": 3000 } } }),
        json!({ "volumeMounts": [{ "name": "missing", "mountPath": "/a" }] }),
    ] {
        let mut spec = app(json!({ "replicas": 1, "image": "localhost/app:bad" }));
        if let (Value::Object(spec), Value::Object(bad)) = (&mut spec, bad) {
            spec.extend(bad);
        }
        fixture.apply_raw("shop", spec.clone()).await?;
        fixture.until_condition("shop", ConditionType::Reconciled, "False", "Rejected").await?;
        let now = fixture.api::<Deployment>().get("shop").await?.spec.template;
        ensure!(now == template, "{spec} got into the pods: {now:?}");
    }
    fixture.apply("shop", app(json!({ "replicas": 1 }))).await?;
    fixture.until_reconciled("shop").await?;
    fixture.end(operator).await
}

#[tokio::test]
async fn an_autoscaler_never_starts_from_no_pods() -> Result<()> {
    let (fixture, operator) = Fixture::settled(app(json!({ "replicas": 0 }))).await?;
    fixture.apply("shop", scaled(2)).await?;
    until_json::<Deployment>(&fixture, "two pods", |deployment| deployment["spec"]["replicas"] == 2).await?;
    fixture.end(operator).await
}
