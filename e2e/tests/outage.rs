//! The API server goes away and comes back, with hundreds of apps half made.
//!
//! In a program of its own, which cargo runs by itself: it takes the API server away from everybody.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail, ensure};
use futures::{StreamExt as _, TryStreamExt as _};
use k8s_openapi::api::apps::v1::ReplicaSet;
use kube::{ResourceExt as _, api::ListParams};
use serde_json::json;
use tokio::process::Command;
use workerapp_api::{ConditionStatus, WorkerApp, condition::ConditionType, names};
use workerapp_e2e::{
    Fixture, Program, app,
    fixture::{PATIENCE, condition},
    operator::get,
};

const APPS: usize = 500;
/// How long the API server is away.
const AWAY: Duration = Duration::from_mins(1);
/// How long an answer of `/livez` may take, on a machine that has more to do.
const ANSWER: Duration = Duration::from_secs(10);
/// By when all is as it should be once it is back, beside the time that the work left takes at the speed seen before.
const SETTLED: Duration = Duration::from_mins(1);
/// By when the cluster's own controllers work again: their watches wait for up to a minute between two attempts.
const CONTROLLERS: Duration = Duration::from_mins(3);
/// The app by which that is seen.
const LATE: &str = "late";
/// How many lines may be logged meanwhile.
const LINES: usize = 8;

async fn testbed(command: &str) -> Result<()> {
    let testbed = Path::new(env!("CARGO_MANIFEST_DIR")).join("testbed/testbed");
    let output = Command::new(testbed).args([command, "apiserver"]).output().await?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "testbed {command} apiserver: {}: {said}", output.status);
    Ok(())
}

async fn reconciled(fixture: &Fixture) -> Result<usize> {
    let apps = fixture.api::<WorkerApp>().list(&ListParams::default()).await?;
    let good = |app: &&WorkerApp| {
        condition(app, ConditionType::Reconciled).is_some_and(|condition| {
            condition.status == ConditionStatus::True
                && condition.observed_generation == app.metadata.generation
        })
    };
    Ok(apps.iter().filter(good).count())
}

/// Asks for `/livez` until it is dropped; how often it was answered, and the first time that it wasn't.
async fn alive(program: &Program) -> Result<usize> {
    let (end, mut answered) = (Instant::now() + AWAY, 0);
    while Instant::now() < end {
        let answer = tokio::time::timeout(ANSWER, get(program.address, "/livez")).await;
        match answer {
            Ok(Ok((200, _))) => answered += 1,
            other => bail!("/livez after {answered} good answers: {other:?}"),
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    Ok(answered)
}

/// The cluster's own controllers need longer than the operator, and the tests that follow need them.
async fn controllers_are_back(fixture: &Fixture) -> Result<()> {
    let there = |wanted: bool, what: &'static str| async move {
        let begun = Instant::now();
        while fixture.api::<ReplicaSet>().list(&ListParams::default()).await?.items.iter().any(is_late)
            != wanted
        {
            ensure!(begun.elapsed() < CONTROLLERS, "{what} for {CONTROLLERS:?}");
            tokio::time::sleep(Duration::from_millis(250)).await;
        }
        anyhow::Ok(())
    };
    fixture.apply(LATE, app(json!({ "replicas": 1 }))).await?;
    there(true, "no controller made a ReplicaSet").await?;
    fixture.delete::<WorkerApp>(LATE).await?;
    there(false, "no controller collected garbage").await
}

fn is_late(replica_set: &ReplicaSet) -> bool {
    replica_set.labels().get(names::LABEL_INSTANCE).is_some_and(|name| name == LATE)
}

#[tokio::test]
async fn with_500_apps_it_outlives_a_minute_without_the_api_server_and_is_done_soon_after() -> Result<()> {
    if std::env::var_os("CONTEXT").is_some() {
        eprintln!("left out: only the testbed's own API server may be stopped");
        return Ok(());
    }
    let fixture = Fixture::new().await?;
    let lease = ["--leader-elect", "--lease-namespace", &fixture.namespace];
    let program = Program::start(&fixture.namespace, &lease).await?;
    program.ready().await?;
    program.leads(true, PATIENCE).await?;

    // It goes away in the middle of the work.
    let begun = Instant::now();
    let names = (0..APPS).map(|n| format!("app-{n}"));
    let specs = futures::stream::iter(names)
        .map(|name| {
            let fixture = &fixture;
            // No node ports: they are the cluster's, and few.
            async move { fixture.apply(&name, app(json!({ "service": { "type": "ClusterIP" } }))).await }
        })
        .buffer_unordered(32);
    specs.try_collect::<Vec<_>>().await?;
    let before = reconciled(&fixture).await?;
    ensure!((1..APPS).contains(&before), "{before} of {APPS} apps were done before the API server went away");
    let work = begun.elapsed() * u32::try_from(APPS - before)? / u32::try_from(before)?;
    let lines = program.log().lines().count();
    testbed("stop").await?;
    let answered = alive(&program).await?;
    let log = program.log();
    let said: Vec<_> = log.lines().skip(lines).filter(|line| !line.contains(" applied")).collect();

    testbed("start").await?;
    let back = Instant::now();
    while reconciled(&fixture).await? < APPS {
        ensure!(
            back.elapsed() < SETTLED + work,
            "{} of {APPS} after {SETTLED:?} and {work:?} of work: {}",
            reconciled(&fixture).await?,
            program.log()
        );
        tokio::time::sleep(Duration::from_millis(250)).await;
    }
    eprintln!(
        "{before} of {APPS} were done before, all of them {:.1} s after the API server was back; {answered} answers of /livez, {} lines logged",
        back.elapsed().as_secs_f64(),
        said.len()
    );
    ensure!(said.iter().any(|line| line.contains("the API server can't be reached")), "{said:#?}");
    ensure!(said.len() <= LINES, "{} lines: {said:#?}", said.len());
    ensure!(program.log().contains("can be reached again"), "{}", program.log());
    controllers_are_back(&fixture).await?;
    let (status, _) = program.end("TERM").await?;
    ensure!(status.success(), "{status}");
    fixture.remove().await.context("the namespace can't be deleted")
}
