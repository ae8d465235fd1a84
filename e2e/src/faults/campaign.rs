//! One app that goes through several specs, good and bad, and ends as if it had been made with the last good one.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use anyhow::{Context as _, Result, bail, ensure};
use futures::StreamExt as _;
use k8s_openapi::api::apps::v1::Deployment;
use kube::runtime::watcher::{self, Event, watcher};
use tokio::task::AbortHandle;
use workerapp_api::condition::ConditionType;

use super::{
    case::{Met, RESYNC},
    specs::{self, BAD, Sort, Spec},
};
use crate::{Fixture, Operator, operator::Options, oracle::Snapshot};

const APP: &str = "shop";

/// Goes through the specs of a seed.
///
/// # Errors
/// Names the spec at which it went wrong, or where the end differs.
pub async fn run(seed: u64) -> Result<Met> {
    let specs = specs::campaign(seed);
    let fixture = Fixture::new().await?;
    let operator = start(&fixture).await?;
    let (images, watching) = observe(&fixture);
    for (at, spec) in specs.iter().enumerate() {
        let told = || format!("spec {at} of {}, {:?}: {}", specs.len(), spec.sort, spec.spec);
        take(&fixture, spec).await.with_context(told)?;
    }
    // Whatever a bad spec did to the pods, a watch has seen it by the time that all is at rest.
    fixture.at_rest(&operator).await?;
    watching.abort();
    let images = images.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let bad: Vec<_> = images.iter().filter(|image| image.ends_with(BAD)).collect();
    ensure!(bad.is_empty(), "templates of bad specs reached the pods: {bad:?}, of {specs:#?}");

    let last = specs.iter().rev().find(|spec| spec.sort == Sort::Good).context("no good spec")?;
    let stored = specs.iter().rev().find(|spec| spec.sort != Sort::RefusedByTheSchema);
    let refused = stored.is_some_and(|stored| stored.sort == Sort::RefusedByThePlan);
    let end = comparable(fixture.snapshot().await?, last, refused);
    let wanted = comparable(made_with(last).await?, last, refused);
    ensure!(
        end == wanted,
        "it does not end as if made with {}: {:#?}, of {specs:#?}",
        last.spec,
        end.differences(&wanted)
    );
    fixture.verify(&operator).await?;
    fixture.end_at_once(operator).await?;
    Ok(Met::Fault)
}

async fn start(fixture: &Fixture) -> Result<Operator> {
    Operator::start(Options { resync: RESYNC, ..fixture.options() }).await
}

/// Applies one spec, and unless it is hurried waits for what has to become of it.
async fn take(fixture: &Fixture, spec: &Spec) -> Result<()> {
    let applied = fixture.apply_raw(APP, spec.spec.clone()).await;
    match (spec.sort, applied) {
        (Sort::RefusedByTheSchema, Ok(_)) => bail!("it was stored"),
        (Sort::RefusedByTheSchema, Err(_)) => return Ok(()),
        (_, applied) => drop(applied?),
    }
    let (status, reason) = match spec.sort {
        Sort::RefusedByThePlan => ("False", "Invalid"),
        Sort::RefusedAsDeployment => ("False", "Rejected"),
        _ => ("True", "Applied"),
    };
    if spec.hurried {
        // Somewhere in the midst of what the operator does.
        tokio::time::sleep(Duration::from_millis(30)).await;
        return Ok(());
    }
    // Many cases run at the same time: it may take longer than in a test that has the computer for itself.
    let wait = || fixture.until_condition(APP, ConditionType::Reconciled, status, reason);
    if wait().await.is_err() {
        wait().await?;
    }
    Ok(())
}

/// Every image that the Deployment's template has from now on.
fn observe(fixture: &Fixture) -> (Arc<Mutex<Vec<String>>>, AbortHandle) {
    let images: Arc<Mutex<Vec<String>>> = Arc::default();
    let seen = Arc::clone(&images);
    let api = fixture.api::<Deployment>();
    let watching = tokio::spawn(async move {
        let mut events = std::pin::pin!(watcher(api, watcher::Config::default()));
        while let Some(event) = events.next().await {
            if let Ok(Event::Apply(deployment) | Event::InitApply(deployment)) = event {
                let containers = deployment.spec.template.spec.unwrap_or_default().containers;
                let images = containers.into_iter().filter_map(|container| container.image);
                seen.lock().unwrap_or_else(PoisonError::into_inner).extend(images);
            }
        }
    });
    (images, watching.abort_handle())
}

/// What stands when an app is made with this spec.
async fn made_with(spec: &Spec) -> Result<Snapshot> {
    let fixture = Fixture::new().await?;
    let operator = start(&fixture).await?;
    fixture.apply_raw(APP, spec.spec.clone()).await?;
    fixture.until_reconciled(APP).await?;
    fixture.at_rest(&operator).await?;
    let snapshot = fixture.snapshot().await?;
    fixture.end_at_once(operator).await?;
    Ok(snapshot)
}

/// Without what may differ from a fresh start: history, the number of pods where the spec leaves that to others, and, if the last spec that
/// was stored was refused, the app that holds it.
fn comparable(snapshot: Snapshot, last: &Spec, refused: bool) -> Snapshot {
    let mut snapshot = snapshot.without_history();
    if last.spec["replicas"].is_null() {
        snapshot.remove("Deployment", APP, &["spec", "replicas"]);
    }
    if refused {
        for part in [&["spec"][..], &["status"], &["metadata", "managedFields"]] {
            snapshot.remove("WorkerApp", APP, part);
        }
    }
    snapshot
}
