//! An operator that starts with hundreds of apps to look at.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use futures::{StreamExt as _, TryStreamExt as _};
use k8s_openapi::api::apps::v1::Deployment;
use kube::api::ListParams;
use serde_json::json;
use workerapp_e2e::{Fixture, Operator, app, fixture::PATIENCE};

const APPS: usize = 300;
/// How soon an edit is carried out.
const SOON: Duration = Duration::from_secs(1);

async fn made(fixture: &Fixture) -> Result<usize> {
    Ok(fixture.api::<Deployment>().list(&ListParams::default()).await?.items.len())
}

/// `keda_3730`: with 1,600 objects a new one waited for three quarters of an hour.
#[tokio::test]
async fn keda_3730_an_edit_is_served_at_once_while_everything_is_looked_at_for_the_first_time() -> Result<()>
{
    let fixture = Fixture::new().await?;
    let spec = |image: &str| app(json!({ "image": image, "service": { "type": "ClusterIP" } }));
    let apps = futures::stream::iter(0..APPS).map(|n| {
        let (fixture, spec) = (&fixture, spec("localhost/app:1"));
        async move { fixture.apply(&format!("app-{n}"), spec).await }
    });
    apps.buffer_unordered(16).try_collect::<Vec<_>>().await?;

    let operator = Operator::launch(fixture.options()).await?;
    let begun = async {
        while made(&fixture).await? == 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        anyhow::Ok(())
    };
    tokio::time::timeout(PATIENCE, begun).await.context("nothing is made")??;

    for n in [APPS - 1, APPS / 2, 0] {
        let name = format!("app-{n}");
        let before = made(&fixture).await?;
        ensure!(before < APPS, "the cold start was over before app {n} was edited");
        let edit = Instant::now();
        fixture.apply(&name, spec("localhost/app:2")).await?;
        let image = |deployment: &Deployment| {
            let pod = deployment.spec.template.spec.as_ref();
            pod.is_some_and(|pod| pod.containers[0].image.as_deref() == Some("localhost/app:2"))
        };
        fixture.until_is(&name, "the edit", image).await?;
        eprintln!("{name}: {:?} after the edit, with {before} of {APPS} made before", edit.elapsed());
        ensure!(edit.elapsed() < SOON, "{name}: {:?}", edit.elapsed());
    }
    let done = async {
        while made(&fixture).await? < APPS {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        anyhow::Ok(())
    };
    tokio::time::timeout(PATIENCE * 8, done).await.context("not all are made")??;
    fixture.end(operator).await
}
