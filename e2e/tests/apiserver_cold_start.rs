//! An operator that starts with many apps to look at.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use futures::{StreamExt as _, TryStreamExt as _};
use k8s_openapi::api::apps::v1::Deployment;
use kube::api::ListParams;
use serde_json::json;
use workerapp_e2e::{
    Fixture, Operator, app,
    faults::{
        gate::Gate,
        layer::{Fate, Fault},
        request::{Head, Verb},
    },
    fixture::PATIENCE,
    operator::Options,
};

const APPS: usize = 300;
/// How many others may be served before an edit.
const SOON: usize = APPS / 3;

fn spec(image: &str) -> serde_json::Value {
    app(json!({ "image": image, "service": { "type": "ClusterIP" } }))
}

/// So many new apps.
async fn make(fixture: &Fixture, apps: usize) -> Result<()> {
    let make = |n| async move { fixture.apply(&format!("app-{n}"), spec("localhost/app:1")).await };
    futures::stream::iter(0..apps).map(make).buffer_unordered(16).try_collect::<Vec<_>>().await?;
    Ok(())
}

async fn made(fixture: &Fixture) -> Result<usize> {
    Ok(fixture.api::<Deployment>().list(&ListParams::default()).await?.items.len())
}

/// `keda_3730`: with 1,600 objects a new one waited for three quarters of an hour.
#[tokio::test]
async fn keda_3730_an_edit_is_served_at_once_while_everything_is_looked_at_for_the_first_time() -> Result<()>
{
    let fixture = Fixture::new().await?;
    make(&fixture, APPS).await?;
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
        let (edit, written) = (Instant::now(), operator.recorder.count());
        fixture.apply(&name, spec("localhost/app:2")).await?;
        let image = |deployment: &Deployment| {
            let pod = deployment.spec.template.spec.as_ref();
            pod.is_some_and(|pod| pod.containers[0].image.as_deref() == Some("localhost/app:2"))
        };
        fixture.until_is(&name, "the edit", image).await?;
        eprintln!("{name}: {:?} after the edit, with {before} of {APPS} made before", edit.elapsed());
        // Counted and not timed: on a slow machine all of it is slow.
        let since = operator.recorder.history().split_off(written);
        let own = format!("/{name}");
        let others =
            since.iter().filter(|sent| sent.path.contains("/deployments/") && !sent.path.ends_with(&own));
        let others = others.count();
        ensure!(others < SOON, "{others} others were served before the edit of {name}");
    }
    until_made(&fixture, APPS).await?;
    fixture.end(operator).await
}

async fn until_made(fixture: &Fixture, apps: usize) -> Result<()> {
    let done = async {
        while made(fixture).await? < apps {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        anyhow::Ok(())
    };
    tokio::time::timeout(3 * PATIENCE, done).await.context("not all are made")?
}

/// The same for an edit that no watch tells of, since it came before the first list.
#[tokio::test]
async fn keda_3730_an_edit_made_before_the_start_goes_before_the_first_look_at_all_others() -> Result<()> {
    const OTHERS: usize = 80;
    let fixture = Fixture::new().await?;
    let operator = fixture.operator().await?;
    // The last one of every list.
    fixture.apply("shop", spec("localhost/app:1")).await?;
    fixture.until_reconciled("shop").await?;
    operator.stop().await?;
    make(&fixture, OTHERS).await?;
    fixture.apply("shop", spec("localhost/app:2")).await?;

    let operator = fixture.operator().await?;
    until_made(&fixture, 1 + OTHERS).await?;
    let writes = operator.recorder.history();
    let mut deployments = writes.iter().filter(|sent| sent.path.contains("/deployments/"));
    let place =
        deployments.position(|sent| sent.path.ends_with("/shop")).context("the edit was not served")?;
    // Among those that were begun at the same time, and not the last of all.
    ensure!(place < OTHERS / 2, "{place} Deployments were written before the one that was edited");
    fixture.end(operator).await
}

/// Holds up every write of a Deployment and counts them.
#[derive(Debug, Default)]
struct Jam {
    gate: Arc<Gate>,
    held: AtomicUsize,
}

impl Fault for Jam {
    fn request(&self, head: &Head) -> Fate {
        if head.verb != Verb::Write || head.plural != "deployments" {
            return Fate::Pass;
        }
        self.held.fetch_add(1, Ordering::SeqCst);
        Fate::HoldRequest(Arc::clone(&self.gate))
    }
}

/// `pgroles_209`: with no bound on what is worked on at the same time an operator ran out of memory 1,709 times. Here an API server that
/// answers no write holds up as many apps as the operator may work on at a time, and all others wait in the queue.
#[tokio::test]
async fn pgroles_209_no_more_apps_are_worked_on_at_a_time_than_the_operator_was_told() -> Result<()> {
    const AT_ONCE: usize = 5;
    const WAITING: usize = 35;
    let fixture = Fixture::new().await?;
    make(&fixture, AT_ONCE + WAITING).await?;
    let jam = Arc::new(Jam::default());
    let options = Options { concurrency: AT_ONCE, ..fixture.options() };
    options.faults.arm(Arc::<Jam>::clone(&jam));
    let operator = Operator::launch(options).await?;
    let jammed = async {
        let metric = |name: &str, value: usize| format!("workerapp_operator_{name} {value}\n");
        let lines = [metric("running", AT_ONCE), metric("queue_length", WAITING)];
        loop {
            let (_, metrics) = operator.get("/metrics").await?;
            if jam.held.load(Ordering::SeqCst) >= AT_ONCE && lines.iter().all(|line| metrics.contains(line)) {
                return anyhow::Ok(());
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(PATIENCE, jammed).await.context("never are 5 worked on while 35 wait")??;
    let held = jam.held.load(Ordering::SeqCst);
    ensure!(held == AT_ONCE, "{held} writes at the same time");
    ensure!(made(&fixture).await? == 0, "a write was not held up");

    jam.gate.open();
    until_made(&fixture, AT_ONCE + WAITING).await?;
    fixture.end(operator).await
}
