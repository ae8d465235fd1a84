//! A new operator takes over what an older one made, and meets an older definition.

use std::{collections::BTreeMap, path::Path, time::Duration};

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::{
    api::apps::v1::{Deployment, ReplicaSet},
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    Api, Resource as _, ResourceExt as _,
    api::{ListParams, Patch, PatchParams},
};
use serde_json::{Value, json};
use tokio::sync::Mutex;
use workerapp_api::{WorkerApp, names};
use workerapp_e2e::{
    Fixture, Operator, app, cluster,
    fixture::{PATIENCE, SILENCE},
    operator::SUPERVISOR_IMAGE,
};

/// A definition that changes ends the watches of everybody.
static DEFINITION_IN_USE: Mutex<()> = Mutex::const_new(());

fn golden(file: &str) -> Result<Vec<Value>> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("golden").join(file);
    let text = std::fs::read_to_string(&path).with_context(|| format!("{}", path.display()))?;
    Ok(serde_json::from_str(&text)?)
}

/// Each version whose Deployments are kept in e2e/golden.
fn versions() -> Result<Vec<String>> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("golden");
    let mut versions = Vec::new();
    for entry in std::fs::read_dir(directory)? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if name.strip_suffix(".json").is_some_and(|version| version != "apps") {
            versions.push(name);
        }
    }
    ensure!(!versions.is_empty(), "e2e/golden holds no version: run e2e/golden/refresh");
    Ok(versions)
}

/// The pod templates that have pods, by Deployment: the name ends in the pod-template-hash.
async fn templates(fixture: &Fixture) -> Result<BTreeMap<String, Vec<String>>> {
    let mut templates: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for set in fixture.api::<ReplicaSet>().list(&ListParams::default()).await? {
        let owner = set.owner_references().first().map(|owner| owner.name.clone()).unwrap_or_default();
        templates.entry(owner).or_default().push(set.name_any());
    }
    Ok(templates)
}

#[tokio::test]
async fn an_upgrade_of_the_operator_leaves_the_pods_alone() -> Result<()> {
    let _alone = DEFINITION_IN_USE.lock().await;
    for version in versions()? {
        let fixture = Fixture::new().await?;
        let apps = golden("apps.json")?;
        let deployments = golden(&version)?;
        for (app, deployment) in apps.iter().zip(&deployments) {
            let name = app["name"].as_str().context("no name")?;
            ensure!(deployment["metadata"]["name"] == name, "{version} and apps.json list different apps");
            ensure!(deployment.to_string().contains(SUPERVISOR_IMAGE), "{version} has another supervisor");
            let owner = fixture.apply(name, app["spec"].clone()).await?;
            let mut body = deployment.clone();
            body["metadata"]["ownerReferences"] = json!([owner.controller_owner_ref(&())]);
            body["metadata"]["ownerReferences"][0]["blockOwnerDeletion"] = json!(true);
            let api: Api<Deployment> = fixture.api();
            api.patch(name, &PatchParams::apply(names::FIELD_MANAGER), &Patch::Apply(body)).await?;
        }
        let made = async {
            while templates(&fixture).await?.len() < apps.len() {
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
            anyhow::Ok(())
        };
        tokio::time::timeout(PATIENCE, made).await.context("no ReplicaSets")??;
        let before = templates(&fixture).await?;

        let operator = fixture.operator().await?;
        for app in &apps {
            let name = app["name"].as_str().context("no name")?;
            fixture.until_reconciled(name).await?;
            fixture.silent(&operator, name, SILENCE).await?;
        }
        let after = templates(&fixture).await?;
        ensure!(after == before, "pods of {version} are replaced: {before:?} → {after:?}");

        // The test would see it: another image is another template.
        let mut spec = apps[0]["spec"].clone();
        spec["image"] = json!("localhost/app:2");
        fixture.apply("plain", spec).await?;
        let seen = async {
            while templates(&fixture).await? == before {
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
            anyhow::Ok(())
        };
        tokio::time::timeout(PATIENCE, seen).await.context("a new template makes no ReplicaSet")??;
        fixture.end(operator).await?;
    }
    Ok(())
}

/// The definition without one field.
fn older() -> Result<Value> {
    let mut definition = serde_json::to_value(workerapp_api::crd::manifest())?;
    let spec = &mut definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"];
    let fields = spec["properties"].as_object_mut().context("no fields")?;
    fields.remove("runtimeClassName").context("no such field")?;
    Ok(definition)
}

async fn install(fixture: &Fixture, definition: &Value) -> Result<()> {
    let definitions: Api<CustomResourceDefinition> = Api::all(fixture.client.clone());
    let params = PatchParams::apply("workerapp-e2e").force();
    definitions.patch(cluster::DEFINITION, &params, &Patch::Apply(definition)).await?;
    Ok(())
}

/// Whether the API server publishes a definition with that field.
async fn published(fixture: &Fixture, field: &str) -> Result<bool> {
    let path = format!("/openapi/v3/apis/{}/{}", WorkerApp::group(&()), WorkerApp::version(&()));
    let text = fixture.client.request_text(http::Request::get(path).body(Vec::new())?).await?;
    Ok(text.contains(&format!("\"{field}\"")))
}

async fn until_published(fixture: &Fixture, field: &str, wanted: bool) -> Result<()> {
    let there = async {
        while published(fixture, field).await? != wanted {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        anyhow::Ok(())
    };
    tokio::time::timeout(PATIENCE, there).await.context("the definition isn't published")?
}

async fn until_warning(operator: &Operator, wanted: bool) -> Result<String> {
    let told = async {
        loop {
            let (status, text) = operator.get("/readyz").await?;
            if status == 200 && text.contains("warning: the installed WorkerApp definition") == wanted {
                return anyhow::Ok(text);
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    tokio::time::timeout(PATIENCE, told).await.with_context(|| format!("warning: not {wanted}"))?
}

#[tokio::test]
async fn an_older_definition_is_told_and_the_operator_works_with_it() -> Result<()> {
    let _alone = DEFINITION_IN_USE.lock().await;
    let fixture = Fixture::new().await?;
    until_published(&fixture, "runtimeClassName", true).await?;
    install(&fixture, &older()?).await?;
    let result = async {
        until_published(&fixture, "runtimeClassName", false).await?;
        let operator = fixture.operator().await?;
        let text = until_warning(&operator, true).await?;
        ensure!(text.contains("it lacks spec.runtimeClassName,") && text.contains("crds.install"), "{text}");
        fixture.apply("shop", app(json!({}))).await?;
        fixture.until_reconciled("shop").await?;
        anyhow::Ok(operator)
    }
    .await;
    // Other tests need it, whatever came of this one.
    cluster::install_definition(&fixture.client).await?;
    let operator = result?;
    // And it notices.
    until_warning(&operator, false).await?;
    fixture.end(operator).await
}
