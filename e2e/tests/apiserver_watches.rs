//! Watches that end, expire and lose events: what happened meanwhile is seen, and what happens after it as well. And a server that is
//! too busy.

use std::sync::Arc;

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::api::{apps::v1::Deployment, core::v1::Service};
use kube::ResourceExt as _;
use serde_json::{Value, json};
use workerapp_api::{WorkerApp, condition::ConditionType::Reconciled};
use workerapp_e2e::{
    Fixture, Operator, app,
    faults::{
        answer::{Answer, RETRY_AFTER},
        fault::{Events, Expired, FirstTries, Moment, Word},
        layer::Turn,
    },
    fixture::SILENCE,
};

fn tagged(tag: u32) -> Value {
    app(json!({ "replicas": 1, "image": format!("localhost/app:{tag}") }))
}

/// Edits the app and waits until the edit has arrived in its Deployment.
async fn edit(fixture: &Fixture, tag: u32) -> Result<()> {
    fixture.apply("shop", tagged(tag)).await?;
    let wanted = format!("localhost/app:{tag}");
    let arrived = |deployment: &Deployment| {
        let pod = deployment.spec.template.spec.as_ref();
        pod.is_some_and(|pod| pod.containers[0].image.as_deref() == Some(&wanted))
    };
    fixture.until_is("shop", &wanted, arrived).await.map(drop)
}

async fn restarts(operator: &Operator, kind: &str) -> Result<u32> {
    let (_, metrics) = operator.get("/metrics").await?;
    let name = format!("workerapp_operator_watch_restarts_total{{kind=\"{kind}\"}} ");
    let line = metrics.lines().find_map(|line| line.strip_prefix(&name));
    Ok(line.map_or(Ok(0), str::parse)?)
}

#[tokio::test]
async fn kube_rs_1316_a_watch_that_is_too_old_is_begun_anew_with_a_list() -> Result<()> {
    let (fixture, operator) = Fixture::settled(tagged(0)).await?;
    let mut tag = 0;
    for word in [Word::Event, Word::Answer] {
        operator.faults.arm(Arc::new(Expired::new("workerapps", word)));
        // The first of them ends the watch, the others are seen by the new one.
        for _ in 0..3 {
            tag += 1;
            edit(&fixture, tag).await.with_context(|| format!("after 410 as an {word:?}"))?;
        }
    }
    let restarts = restarts(&operator, "WorkerApp").await?;
    ensure!((2..6).contains(&restarts), "two watches expired, and {restarts} restarts");
    fixture.end(operator).await
}

#[tokio::test]
async fn kube_rs_1615_an_app_made_anew_while_nobody_watched_gets_children_of_its_own() -> Result<()> {
    let (fixture, operator) = Fixture::settled(tagged(1)).await?;
    for plural in ["workerapps", "deployments", "services"] {
        // One after the other: a fault that is armed takes the place of the one before.
        operator.faults.arm(Arc::new(Events::all(plural, Turn::Drop)));
        let former = fixture.api::<Deployment>().get("shop").await?.uid();
        fixture.delete::<WorkerApp>("shop").await?;
        fixture.until("shop", "its end", |app: Option<&WorkerApp>| app.is_none()).await?;
        fixture.apply("shop", tagged(2)).await?;
        // Far longer than a healthy watch would need to tell both.
        tokio::time::sleep(SILENCE / 3).await;
        operator.faults.heal();
        fixture.until_is("shop", "a new one", |now: &Deployment| now.uid() != former).await?;
        fixture
            .until_condition("shop", Reconciled, "True", "Applied")
            .await
            .with_context(|| plural.to_owned())?;
    }
    fixture.end(operator).await
}

#[tokio::test]
async fn kube_rs_1798_what_happened_while_events_were_lost_is_seen_by_the_next_list() -> Result<()> {
    let (fixture, operator) = Fixture::settled(tagged(1)).await?;
    let before = fixture.api::<Service>().get("shop").await?.uid();
    operator.faults.arm(Arc::new(Events::all("services", Turn::Drop)));
    fixture.delete::<Service>("shop").await?;
    tokio::time::sleep(SILENCE / 3).await;
    ensure!(fixture.api::<Service>().get_opt("shop").await?.is_none(), "the event was not lost");
    operator.faults.heal();
    fixture.until_is("shop", "a new one", |now: &Service| now.uid() != before).await?;
    edit(&fixture, 2).await?;
    fixture.end(operator).await
}

#[tokio::test]
async fn a_server_that_is_too_busy_is_left_alone_for_as_long_as_it_asks() -> Result<()> {
    let fixture = Fixture::new().await?;
    let operator = fixture.operator().await?;
    operator.faults.arm(Arc::new(FirstTries::new(Answer::TooMany, Moment::BeforeSend)));
    fixture.apply("shop", tagged(1)).await?;
    fixture.until_reconciled("shop").await?;
    let sent = operator.recorder.all();
    let tries: Vec<_> = sent.iter().filter(|sent| sent.path.ends_with("/deployments/shop")).collect();
    ensure!(tries.len() == 2, "{tries:?}");
    let wait = tries[1].at - tries[0].at;
    ensure!(wait >= RETRY_AFTER, "tried again after {wait:?}, although asked for {RETRY_AFTER:?}");
    fixture.end(operator).await
}
