//! The operator is there before the WorkerApp definition.
//!
//! In a program of its own, which cargo runs by itself: it takes the definition away from the whole cluster.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{
    Api, ResourceExt as _,
    api::{DeleteParams, ListParams},
    runtime::{conditions::is_deleted, wait::await_condition},
};
use serde_json::json;
use workerapp_api::WorkerApp;
use workerapp_e2e::{
    Fixture, Operator, app, cluster,
    fixture::{NAMESPACE_PREFIX, PATIENCE},
};

#[tokio::test]
async fn it_waits_for_the_definition_and_works_without_a_restart() -> Result<()> {
    let fixture = Fixture::new().await?;
    let definitions: Api<CustomResourceDefinition> = Api::all(fixture.client.clone());
    let apps: Api<WorkerApp> = Api::all(fixture.client.clone());
    let foreign: Vec<_> = apps
        .list(&ListParams::default())
        .await?
        .into_iter()
        .filter(|app| !app.namespace().is_some_and(|namespace| namespace.starts_with(NAMESPACE_PREFIX)))
        .map(|app| format!("{}/{}", app.namespace().unwrap_or_default(), app.name_any()))
        .collect();
    ensure!(
        foreign.is_empty(),
        "this test deletes the definition and with it {foreign:?}: delete them yourself first"
    );

    let uid = definitions.get(cluster::DEFINITION).await?.uid().context("no uid")?;
    definitions.delete(cluster::DEFINITION, &DeleteParams::background()).await?;
    tokio::time::timeout(PATIENCE, await_condition(definitions, cluster::DEFINITION, is_deleted(&uid)))
        .await??;

    let operator = Operator::launch(fixture.options()).await?;
    let told = async {
        loop {
            let (status, text) = operator.get("/readyz").await?;
            ensure!(status == 503, "ready without a definition");
            if text.contains("kubectl apply -f crds/") && text.contains("crds.install") {
                return Ok(());
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(PATIENCE, told).await.context("/readyz does not say what to do")??;
    let (status, _) = operator.get("/livez").await?;
    ensure!(status == 200);

    cluster::install_definition(&fixture.client).await?;
    fixture.apply("shop", app(json!({}))).await?;
    fixture.until_reconciled("shop").await?;
    let (status, _) = operator.get("/readyz").await?;
    ensure!(status == 200);
    fixture.end(operator).await
}
