//! `spec.replicas` of the Deployment, between the app, an autoscaler, and people.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, PoisonError},
};

use anyhow::{Context as _, Result, ensure};
use futures::StreamExt as _;
use k8s_openapi::api::{apps::v1::Deployment, autoscaling::v2::HorizontalPodAutoscaler};
use kube::{
    ResourceExt as _,
    api::{Patch, PatchParams},
    runtime::watcher::{self, Event, watcher},
};
use serde_json::{Value, json};
use workerapp_api::{WorkerApp, names};
use workerapp_e2e::{Fixture, app, fixture::SILENCE};

fn between(min: i32, max: i32) -> Value {
    app(json!({ "autoscaling": { "minReplicas": min, "maxReplicas": max } }))
}

fn replicas(wanted: i32) -> impl Fn(&Deployment) -> bool {
    move |deployment| deployment.spec.replicas == Some(wanted)
}

async fn scale_deployment(fixture: &Fixture, replicas: i32) -> Result<()> {
    let patch = Patch::Merge(json!({ "spec": { "replicas": replicas } }));
    fixture.api::<Deployment>().patch_scale("shop", &PatchParams::default(), &patch).await?;
    Ok(())
}

/// Who holds `spec.replicas`.
async fn holders(fixture: &Fixture) -> Result<Vec<String>> {
    let deployment = fixture.raw::<Deployment>("shop").await?;
    let entries = deployment["metadata"]["managedFields"].as_array().cloned().unwrap_or_default();
    let holds = |entry: &&Value| !entry["fieldsV1"]["f:spec"]["f:replicas"].is_null();
    Ok(entries.iter().filter(holds).filter_map(|entry| Some(entry["manager"].as_str()?.to_owned())).collect())
}

#[tokio::test]
async fn llmkube_484_rco_68_replicas_stay_with_the_autoscaler() -> Result<()> {
    let fixture = Fixture::new().await?;
    let operator = fixture.operator().await?;
    fixture.apply("shop", between(2, 10)).await?;
    fixture.until_is("shop", "the minimum", replicas(2)).await?;
    scale_deployment(&fixture, 7).await?;
    fixture.until_is("shop", "7 pods", replicas(7)).await?;

    // The app's spec is touched, in a field that changes the Deployment.
    let mut spec = between(2, 10);
    spec["env"] = json!([{ "name": "A", "value": "b" }]);
    fixture.apply("shop", spec).await?;
    fixture.until_reconciled("shop").await?;
    fixture.until_quiet(&operator).await?;
    fixture.until_is("shop", "still 7 pods", replicas(7)).await?;
    ensure!(!holders(&fixture).await?.iter().any(|holder| holder == names::FIELD_MANAGER));
    fixture.end(operator).await
}

#[tokio::test]
async fn opentelemetry_operator_2585_new_bounds_restart_no_pod() -> Result<()> {
    let fixture = Fixture::new().await?;
    let operator = fixture.operator().await?;
    fixture.apply("shop", between(1, 3)).await?;
    fixture.until_reconciled("shop").await?;
    // The autoscaler has looked, too: what it says is told, by a status and an event.
    fixture.at_rest(&operator).await?;
    let before = fixture.api::<Deployment>().get("shop").await?;
    operator.recorder.take();

    fixture.apply("shop", between(1, 4)).await?;
    let bounded = |autoscaler: &HorizontalPodAutoscaler| autoscaler.spec.max_replicas == 4;
    fixture.until_is("shop", "the new maximum", bounded).await?;
    fixture.until_reconciled("shop").await?;
    let after = fixture.api::<Deployment>().get("shop").await?;
    ensure!(before.metadata.generation == after.metadata.generation);
    ensure!(before.spec.template == after.spec.template);
    let sent: Vec<_> = operator.recorder.all().iter().map(ToString::to_string).collect();
    ensure!(
        sent.iter().filter(|sent| !sent.ends_with("/status")).count() == 1,
        "one child changes: {sent:?}"
    );
    ensure!(sent.iter().filter(|sent| sent.ends_with("/status")).count() <= 1, "{sent:?}");
    fixture.end(operator).await
}

/// Every number that `spec.replicas` of the Deployment has from now on.
fn observed(fixture: &Fixture) -> Arc<Mutex<BTreeSet<Option<i32>>>> {
    let seen: Arc<Mutex<BTreeSet<Option<i32>>>> = Arc::default();
    let numbers = Arc::clone(&seen);
    let api = fixture.api::<Deployment>();
    tokio::spawn(async move {
        let mut events = std::pin::pin!(watcher(api, watcher::Config::default()));
        while let Some(event) = events.next().await {
            if let Ok(Event::Apply(deployment) | Event::InitApply(deployment)) = event {
                numbers.lock().unwrap_or_else(PoisonError::into_inner).insert(deployment.spec.replicas);
            }
        }
    });
    seen
}

#[tokio::test]
async fn replicas_change_hands_without_a_dip() -> Result<()> {
    let fixture = Fixture::new().await?;
    let operator = fixture.operator().await?;
    fixture.apply("shop", app(json!({ "replicas": 4 }))).await?;
    fixture.until_is("shop", "4 pods", replicas(4)).await?;
    ensure!(holders(&fixture).await? == [names::FIELD_MANAGER]);
    let seen = observed(&fixture);

    // From the app to an autoscaler, which within its bounds changes nothing.
    fixture.apply("shop", between(2, 10)).await?;
    fixture.until_is("shop", "an autoscaler", |_: &HorizontalPodAutoscaler| true).await?;
    fixture.until_reconciled("shop").await?;
    ensure!(holders(&fixture).await? == [names::HANDOVER_MANAGER]);
    fixture.silent(&operator, "shop", SILENCE).await?;

    // And back, with the same number.
    fixture.apply("shop", app(json!({ "replicas": 4 }))).await?;
    fixture.until("shop", "its end", |hpa: Option<&HorizontalPodAutoscaler>| hpa.is_none()).await?;
    fixture.until_reconciled("shop").await?;
    ensure!(holders(&fixture).await? == [names::FIELD_MANAGER], "{:?}", holders(&fixture).await?);

    // To nobody: it stays as it is, and whoever scales the Deployment is left alone.
    fixture.apply("shop", app(json!({}))).await?;
    fixture.until_reconciled("shop").await?;
    ensure!(holders(&fixture).await? == [names::HANDOVER_MANAGER]);
    let numbers = seen.lock().unwrap_or_else(PoisonError::into_inner).clone();
    ensure!(numbers == BTreeSet::from([Some(4)]), "{numbers:?}");

    scale_deployment(&fixture, 6).await?;
    fixture.silent(&operator, "shop", SILENCE).await?;
    fixture.until_is("shop", "6 pods", replicas(6)).await?;
    fixture.end(operator).await
}

#[tokio::test]
async fn spin_operator_86_an_app_can_be_scaled_like_a_deployment() -> Result<()> {
    let fixture = Fixture::new().await?;
    let operator = fixture.operator().await?;
    fixture.apply("shop", app(json!({ "replicas": 1 }))).await?;
    fixture.until_is("shop", "1 pod", replicas(1)).await?;
    let patch = Patch::Merge(json!({ "spec": { "replicas": 3 } }));
    fixture.api::<WorkerApp>().patch_scale("shop", &PatchParams::default(), &patch).await?;
    fixture.until_is("shop", "3 pods", replicas(3)).await?;
    let counted = |app: &WorkerApp| app.status.as_ref().is_some_and(|status| status.replicas == Some(3));
    fixture.until_is("shop", "3 in the status", counted).await?;

    let scale = fixture.api::<WorkerApp>().get_scale("shop").await?;
    let status = scale.status.context("no status in the scale subresource")?;
    ensure!(status.replicas == 3);
    ensure!(
        status.selector.as_deref() == Some("app.kubernetes.io/instance=shop,app.kubernetes.io/name=shop")
    );
    // A number that the app pins is the app's: drift is repaired.
    scale_deployment(&fixture, 5).await?;
    fixture.until_is("shop", "3 pods again", replicas(3)).await?;
    fixture.end(operator).await
}

#[tokio::test]
async fn formancehq_ledger_1764_toolhive_6344_a_rollout_restart_is_not_reverted() -> Result<()> {
    const RESTARTED: &str = "kubectl.kubernetes.io/restartedAt";
    let fixture = Fixture::new().await?;
    let operator = fixture.operator().await?;
    fixture.apply("shop", app(json!({ "replicas": 1 }))).await?;
    fixture.until_reconciled("shop").await?;
    fixture.until_quiet(&operator).await?;
    operator.recorder.take();

    // As `kubectl rollout restart` does it.
    let annotations = json!({ "annotations": { RESTARTED: "2026-01-02T03:04:05Z" } });
    let restart = json!({ "spec": { "template": { "metadata": annotations } } });
    fixture.strategic::<Deployment>("shop", restart).await?;
    fixture.until_quiet(&operator).await?;
    let sent = operator.recorder.all();
    ensure!(sent.iter().all(|sent| !sent.is_child()), "{sent:?}");

    // Not by a later edit of the app either.
    fixture.apply("shop", app(json!({ "replicas": 1, "env": [{ "name": "A", "value": "b" }] }))).await?;
    fixture.until_reconciled("shop").await?;
    let deployment = fixture.api::<Deployment>().get("shop").await?;
    let template = deployment.spec.template.metadata.unwrap_or_default();
    ensure!(template.annotations.unwrap_or_default().contains_key(RESTARTED));
    fixture.end(operator).await
}

#[tokio::test]
async fn opentelemetry_operator_4160_all_is_checked_before_the_first_write() -> Result<()> {
    let fixture = Fixture::new().await?;
    let operator = fixture.operator().await?;
    // Autoscaling in part is refused before it is stored.
    let refused = fixture.apply("shop", app(json!({ "autoscaling": { "minReplicas": 2 } }))).await;
    ensure!(refused.is_err_and(|error| error.to_string().contains("maxReplicas")));

    fixture.apply("shop", app(json!({ "replicas": 3 }))).await?;
    fixture.until_reconciled("shop").await?;
    fixture.until_quiet(&operator).await?;
    let before = fixture.api::<Deployment>().get("shop").await?;
    operator.recorder.take();

    // What only the plan finds leaves everything as it was: nothing of the bad spec is applied.
    let mut bad = between(2, 10);
    bad["ports"] = json!([{ "name": "ws", "port": 80 }]);
    fixture.apply("shop", bad).await?;
    let told = fixture
        .until_condition("shop", workerapp_api::condition::ConditionType::Reconciled, "False", "Invalid")
        .await?;
    ensure!(told.message.contains("port 80 twice"), "{}", told.message);
    let sent = operator.recorder.all();
    ensure!(sent.iter().all(|sent| !sent.is_child()), "{sent:?}");
    let after = fixture.api::<Deployment>().get("shop").await?;
    ensure!(before.metadata.generation == after.metadata.generation && after.spec.replicas == Some(3));

    // A good spec after it recovers.
    fixture.apply("shop", between(2, 10)).await?;
    fixture.until_reconciled("shop").await?;
    ensure!(fixture.api::<Deployment>().get("shop").await?.spec.replicas == Some(3));
    ensure!(fixture.api::<Deployment>().get("shop").await?.uid() == before.uid());
    fixture.end(operator).await
}
