//! A minute of silence, the last word on every loop that there could be.

use std::time::Duration;

use anyhow::{Result, ensure};
use serde_json::json;
use workerapp_api::condition::ConditionType::Reconciled;
use workerapp_e2e::{Fixture, Operator, app, fixture::PATIENCE, operator::Options, scrape, wait::within};

/// Longer than every timer of a settled app, the resync among them.
const WINDOW: Duration = Duration::from_mins(1);

#[tokio::test]
async fn restate_operator_138_percona_2136_a_settled_cluster_sees_no_writes() -> Result<()> {
    let fixture = Fixture::new().await?;
    let options = Options { resync: Duration::from_secs(5), ..fixture.options() };
    let operator = Operator::start(options.clone()).await?;
    let apps = [
        ("fixed", json!({ "replicas": 2 })),
        ("scaled", json!({ "autoscaling": { "minReplicas": 2, "maxReplicas": 4 } })),
        ("inside", json!({ "service": { "type": "ClusterIP" } })),
        (
            "guarded",
            json!({ "replicas": 2, "networkPolicy": { "from": [{ "podSelector": {} }] }, "monitor": {} }),
        ),
        ("paused", json!({ "paused": true })),
        ("cluster", json!({ "runtime": "NodeCluster", "workers": { "count": 2 } })),
        ("watt", json!({ "runtime": "Watt", "env": [{ "name": "PORT", "value": "1" }] })),
    ];
    for (name, more) in &apps {
        fixture.apply(name, app(more.clone())).await?;
    }
    for (name, more) in &apps {
        if more["paused"] == true {
            fixture.until_condition(name, Reconciled, "False", "Paused").await?;
        } else {
            fixture.until_reconciled(name).await?;
        }
    }
    fixture.serve("fixed", 2).await?;
    // The autoscaler's controller looks every 15 s, and first says that it has no metrics.
    fixture.at_rest(&operator).await?;

    // From a start, too: nothing that is remembered keeps it silent.
    operator.stop().await?;
    let operator = Operator::start(options).await?;
    ensure!(operator.recorder.count() == 0, "written at the start: {:?}", operator.recorder.all());
    let mut before = Vec::new();
    for (name, _) in &apps {
        before.push(fixture.versions(name).await?);
    }
    tokio::time::sleep(WINDOW).await;
    // A slow machine takes longer to look at all of them so often.
    within(PATIENCE, "looks", async || {
        let (_, metrics) = operator.get("/metrics").await?;
        let mut looks = scrape::samples(&metrics, "workerapp_operator_reconciles_total");
        let settled = looks.find(|(labels, _)| labels["outcome"] == "settled").map(|(_, count)| count);
        ensure!(settled >= Some(50.0), "it looked {settled:?} times");
        Ok(())
    })
    .await?;
    let sent: Vec<_> = operator.recorder.all().iter().map(ToString::to_string).collect();
    ensure!(sent.is_empty(), "{sent:?}");
    for ((name, _), before) in apps.iter().zip(before) {
        let after = fixture.versions(name).await?;
        ensure!(before == after, "{name}: {before:?} → {after:?}");
    }
    fixture.end(operator).await
}
