//! A pause of the app, a pause of its Deployment, and restarts.

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::api::{apps::v1::Deployment, autoscaling::v2::HorizontalPodAutoscaler, core::v1::Service};
use kube::Resource as _;
use serde_json::{Value, json};
use workerapp_api::{
    WorkerApp,
    condition::ConditionType::{Paused, Progressing, Ready, Reconciled},
    names,
};
use workerapp_e2e::{
    Fixture, app,
    fixture::{SILENCE, condition},
};

fn edited(replicas: i32) -> Value {
    let variable = json!({ "name": "A", "value": "b" });
    app(json!({ "replicas": replicas, "env": [variable] }))
}

fn has_edit(deployment: &Deployment) -> bool {
    let pod = deployment.spec.template.spec.as_ref();
    let env = pod.and_then(|pod| pod.containers[0].env.as_ref());
    env.is_some_and(|env| env.iter().any(|variable| variable.name == "A"))
}

async fn annotate(fixture: &Fixture, value: Option<&str>) -> Result<()> {
    let annotations = json!({ "metadata": { "annotations": { names::ANNOTATION_PAUSED: value } } });
    fixture.merge::<WorkerApp>("shop", annotations).await?;
    Ok(())
}

/// What `kubectl get` prints of the app, by the columns' names.
async fn columns(fixture: &Fixture) -> Result<Value> {
    let path = format!("{}/shop", WorkerApp::url_path(&(), Some(&fixture.namespace)));
    let accept = "application/json;as=Table;v=v1;g=meta.k8s.io";
    let request = http::Request::get(path).header(http::header::ACCEPT, accept).body(Vec::new())?;
    let table: Value = fixture.client.request(request).await?;
    let names = table["columnDefinitions"].as_array().context("no columns")?.iter();
    let cells = table["rows"][0]["cells"].as_array().context("no row")?;
    Ok(names
        .zip(cells)
        .filter_map(|(name, cell)| Some((name["name"].as_str()?.to_owned(), cell.clone())))
        .collect())
}

#[tokio::test]
async fn keda_7231_6982_edits_while_paused_wait_for_the_end_of_the_pause() -> Result<()> {
    let fixture = Fixture::new().await?;
    let operator = fixture.operator().await?;
    fixture.apply("shop", app(json!({ "replicas": 1 }))).await?;
    fixture.until_reconciled("shop").await?;
    fixture.until_quiet(&operator).await?;
    ensure!(columns(&fixture).await?["Paused"].as_str().unwrap_or_default().is_empty());
    operator.recorder.take();

    // Nothing waits yet: the app is paused, and is what its spec says.
    annotate(&fixture, Some("true")).await?;
    let told = fixture.until_condition("shop", Paused, "True", "Paused").await?;
    ensure!(told.message.contains("the annotation workerapp.dev/paused"), "{}", told.message);
    fixture.until_reconciled("shop").await?;
    ensure!(columns(&fixture).await?["Paused"] == "True", "{}", columns(&fixture).await?);

    // An edit of the app isn't carried out, and one of a child not undone.
    fixture.apply("shop", edited(3)).await?;
    let told = fixture.until_condition("shop", Reconciled, "False", "Paused").await?;
    ensure!(told.message.contains("left so: Deployment, PodDisruptionBudget"), "{}", told.message);
    fixture.until_condition("shop", Ready, "False", "Paused").await?;
    fixture.merge::<Service>("shop", json!({ "spec": { "sessionAffinity": "ClientIP" } })).await?;
    fixture.until_quiet(&operator).await?;
    let sent = operator.recorder.take();
    ensure!(sent.iter().all(|sent| !sent.is_child()), "{sent:?}");
    fixture.silent(&operator, "shop", SILENCE).await?;

    // Not by an operator that starts meanwhile either.
    operator.stop().await?;
    let operator = fixture.operator().await?;
    fixture.silent(&operator, "shop", SILENCE).await?;
    ensure!(!has_edit(&fixture.api::<Deployment>().get("shop").await?));

    annotate(&fixture, None).await?;
    fixture
        .until_is("shop", "the edit", |it: &Deployment| has_edit(it) && it.spec.replicas == Some(3))
        .await?;
    fixture.until_reconciled("shop").await?;
    let app: WorkerApp = fixture.api().get("shop").await?;
    ensure!(condition(&app, Paused).is_none());
    fixture.end(operator).await
}

#[tokio::test]
async fn an_app_can_be_made_and_changed_and_deleted_while_paused() -> Result<()> {
    let fixture = Fixture::new().await?;
    let operator = fixture.operator().await?;
    let scaled = json!({ "minReplicas": 1, "maxReplicas": 3 });
    fixture.apply("shop", app(json!({ "paused": true, "autoscaling": scaled }))).await?;
    let told = fixture.until_condition("shop", Reconciled, "False", "Paused").await?;
    ensure!(told.message.contains("Deployment, Service, HorizontalPodAutoscaler"), "{}", told.message);
    ensure!(fixture.api::<Deployment>().get_opt("shop").await?.is_none());

    fixture.apply("shop", app(json!({ "autoscaling": scaled }))).await?;
    fixture.until_reconciled("shop").await?;
    // What the spec drops while paused stands until the resume.
    fixture.apply("shop", app(json!({ "paused": true }))).await?;
    let told = fixture.until_condition("shop", Reconciled, "False", "Paused").await?;
    ensure!(told.message.ends_with("left so: HorizontalPodAutoscaler"), "{}", told.message);
    // An invalid spec is told as one.
    fixture.apply("shop", app(json!({ "paused": true, "ports": [{ "name": "ws", "port": 80 }] }))).await?;
    fixture.until_condition("shop", Reconciled, "False", "Invalid").await?;

    fixture.delete::<WorkerApp>("shop").await?;
    fixture.until("shop", "its end", |app: Option<&WorkerApp>| app.is_none()).await?;
    fixture.until("shop", "its end", |deployment: Option<&Deployment>| deployment.is_none()).await?;
    fixture.until("shop", "its end", |hpa: Option<&HorizontalPodAutoscaler>| hpa.is_none()).await?;
    fixture.end(operator).await
}

#[tokio::test]
async fn a_paused_deployment_is_told_and_stays_paused() -> Result<()> {
    let fixture = Fixture::new().await?;
    let operator = fixture.operator().await?;
    fixture.apply("shop", app(json!({ "replicas": 1 }))).await?;
    fixture.serve("shop", 1).await?;
    fixture.until_condition("shop", Ready, "True", "Ready").await?;

    // As `kubectl rollout pause` does it.
    fixture.merge::<Deployment>("shop", json!({ "spec": { "paused": true } })).await?;
    let told = fixture.until_condition("shop", Progressing, "Unknown", "RolloutPaused").await?;
    ensure!(told.message.contains("`kubectl rollout resume deployment/shop`"), "{}", told.message);
    fixture.until_condition("shop", Ready, "True", "Ready").await?;

    // An edit reaches it, makes no pods, and the app isn't Ready: nobody waits for that in vain.
    fixture.apply("shop", edited(1)).await?;
    fixture.until_condition("shop", Ready, "False", "RolloutPaused").await?;
    let deployment = fixture.api::<Deployment>().get("shop").await?;
    ensure!(deployment.spec.paused == Some(true) && has_edit(&deployment));
    fixture.silent(&operator, "shop", SILENCE).await?;

    fixture.merge::<Deployment>("shop", json!({ "spec": { "paused": false } })).await?;
    fixture.until_condition("shop", Ready, "False", "RollingOut").await?;
    fixture.end(operator).await
}

#[tokio::test]
async fn a_restart_by_the_spec_stands_beside_one_by_kubectl() -> Result<()> {
    const BY_KUBECTL: &str = "kubectl.kubernetes.io/restartedAt";
    let fixture = Fixture::new().await?;
    let operator = fixture.operator().await?;
    let refused = fixture.apply("shop", app(json!({ "restartAt": "tomorrow" }))).await;
    let told = refused.err().context("a time that is none was accepted")?.to_string();
    ensure!(told.contains("must be a time as in RFC 3339"), "{told}");

    fixture.apply("shop", app(json!({ "replicas": 1 }))).await?;
    fixture.until_reconciled("shop").await?;
    let annotations = json!({ "annotations": { BY_KUBECTL: "2026-01-02T03:04:05Z" } });
    let restart = json!({ "spec": { "template": { "metadata": annotations } } });
    fixture.strategic::<Deployment>("shop", restart).await?;

    for time in ["2026-05-31T12:00:00Z", "2026-06-01T14:00:00.5+02:00"] {
        fixture.apply("shop", app(json!({ "replicas": 1, "restartAt": time }))).await?;
        let restarted = |deployment: &Deployment| {
            let template = deployment.spec.template.metadata.clone().unwrap_or_default();
            let annotations = template.annotations.unwrap_or_default();
            annotations.get(names::ANNOTATION_RESTARTED).is_some_and(|at| at == time)
                && annotations.contains_key(BY_KUBECTL)
        };
        fixture.until_is("shop", time, restarted).await?;
    }
    fixture.until_reconciled("shop").await?;
    fixture.silent(&operator, "shop", SILENCE).await?;
    fixture.end(operator).await
}
