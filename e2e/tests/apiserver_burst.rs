//! Bursts: load that leaps is answered within seconds, for a while, and within the app's bounds. The numbers come through a real
//! metrics API; the autoscaler is told not to add pods by itself, so that whatever is added is the burst's.

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::{
    api::{apps::v1::Deployment, autoscaling::v2::HorizontalPodAutoscaler},
    jiff::Timestamp,
};
use kube::ResourceExt as _;
use serde_json::{Value, json};
use workerapp_api::{BurstStatus, WorkerApp, condition::ConditionType, names};
use workerapp_e2e::{
    Fixture, Operator, app,
    fixture::SILENCE,
    metrics_api::{self, MetricsApi, Supervisor, eventually, run_pod},
    recorder::Sent,
};

/// The field manager of Kubernetes' own autoscaler.
const AUTOSCALER: &str = "kube-controller-manager";

/// With a burst that holds so many seconds, or without.
fn bursting(admin_port: u16, hold: Option<i32>) -> Value {
    let mut autoscaling = json!({
        "minReplicas": 1, "maxReplicas": 4, "inFlight": { "averageValue": 5 },
        "behavior": { "scaleUp": { "selectPolicy": "Disabled" }, "scaleDown": { "selectPolicy": "Disabled" } },
    });
    if let Some(hold) = hold {
        autoscaling["burst"] = json!({ "holdSeconds": hold });
    }
    app(json!({ "supervisor": { "adminPort": admin_port }, "autoscaling": autoscaling }))
}

fn burst(app: &WorkerApp) -> Option<BurstStatus> {
    app.status.as_ref()?.burst.clone()
}

/// Waits until the autoscaler never leaves fewer pods than this.
async fn least(fixture: &Fixture, pods: i32) -> Result<HorizontalPodAutoscaler> {
    let least = |autoscaler: &HorizontalPodAutoscaler| autoscaler.spec.min_replicas == Some(pods);
    fixture.until_is("shop", &format!("a minimum of {pods}"), least).await
}

async fn wanted(fixture: &Fixture, pods: i32) -> Result<Deployment> {
    let wanted = |deployment: &Deployment| deployment.spec.replicas == Some(pods);
    fixture.until_is("shop", &format!("{pods} pods"), wanted).await
}

/// Who set `spec.replicas` of the Deployment last.
async fn holders(fixture: &Fixture) -> Result<Vec<String>> {
    let deployment = fixture.raw::<Deployment>("shop").await?;
    let entries = deployment["metadata"]["managedFields"].as_array().cloned().unwrap_or_default();
    let holds = |entry: &&Value| !entry["fieldsV1"]["f:spec"]["f:replicas"].is_null();
    Ok(entries.iter().filter(holds).filter_map(|entry| Some(entry["manager"].as_str()?.to_owned())).collect())
}

fn of<'a>(sent: &'a [Sent], kind: &str) -> Vec<&'a Sent> {
    sent.iter().filter(|sent| sent.path.ends_with(&format!("/{kind}/shop"))).collect()
}

/// The burst's beginning, as everybody sees it.
async fn begun(fixture: &Fixture, operator: &Operator) -> Result<BurstStatus> {
    let app = fixture.until_is("shop", "a burst", |app: &WorkerApp| burst(app).is_some()).await?;
    // Before it was told, and not when the autoscaler looks.
    let pods = fixture.api::<Deployment>().get("shop").await?.spec.replicas;
    ensure!(pods == Some(4), "told, and {pods:?} pods wanted");
    let burst = burst(&app).context("the burst is gone")?;
    ensure!(burst.replicas == 4, "never above the maximum: {burst:?}");
    // What the pod says now, and not a mean, which would take seconds to follow.
    ensure!(burst.reason == "requests in flight 400 per pod, target 5", "{burst:?}");
    let autoscaler = least(fixture, 4).await?;
    ensure!(autoscaler.spec.max_replicas == 4);

    let sent = operator.recorder.all();
    let (autoscalers, deployments) = (of(&sent, "horizontalpodautoscalers"), of(&sent, "deployments"));
    ensure!(autoscalers.len() == 1, "one step: {sent:?}");
    // An autoscaler that looks at this very moment writes the same number: first, and it is its own; or after, and then it is nobody's.
    let holders = holders(fixture).await?;
    if holders != [AUTOSCALER] {
        ensure!(deployments.len() == 1 && deployments[0].at > autoscalers[0].at, "{sent:?}");
        ensure!(holders.is_empty() || holders == [names::HANDOVER_MANAGER], "{holders:?}");
    }
    eventually("an event", async || {
        let events = fixture.events("shop").await?;
        let told = events.iter().filter(|(reason, _)| reason == "Burst").count();
        ensure!(told == 1, "{events:?}");
        Ok(())
    })
    .await?;
    counted(operator, &["began 1", "rose 0", "ended 0"]).await?;
    Ok(burst)
}

/// What the operator's metrics say of its bursts.
async fn counted(operator: &Operator, steps: &[&str]) -> Result<()> {
    eventually("the steps in the metrics", async || {
        let (_, metrics) = operator.get("/metrics").await?;
        for step in steps {
            let (step, count) = step.split_once(' ').context("a step and its count")?;
            let line = format!("workerapp_operator_bursts_total{{step=\"{step}\"}} {count}");
            ensure!(metrics.lines().any(|served| served == line), "no {line} in {metrics}");
        }
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_leap_of_the_load_adds_pods_at_once_and_for_a_while() -> Result<()> {
    let _turn = metrics_api::turn().await?;
    let fixture = Fixture::new().await?;
    let api = MetricsApi::start(&fixture).await?;
    let supervisor = Supervisor::start().await?;
    supervisor.say(Some((4, 0.5)));
    let first = fixture.operator().await?;
    let spec = bursting(supervisor.address.port(), Some(15));
    fixture.apply("shop", spec).await?;
    for pod in fixture.pods("shop", 1).await? {
        run_pod(&fixture, &pod.name_any(), supervisor.address.ip()).await?;
    }
    // The autoscaler has looked, too. Watched all the time, and no burst.
    fixture.until_condition("shop", ConditionType::ScalingActive, "True", "ScalingActive").await?;
    fixture.silent(&first, "shop", SILENCE).await?;

    supervisor.say(Some((400, 0.9)));
    let burst = begun(&fixture, &first).await?;
    first.stop().await?;
    // The next operator goes on with it, up to its end.
    let second = fixture.operator().await?;
    least(&fixture, 1).await?;
    let now = Timestamp::now();
    ensure!(burst.until.parse::<Timestamp>()? <= now, "it ended before {}: {now}", burst.until);
    let over = |app: &WorkerApp| self::burst(app).is_none();
    fixture.until_is("shop", "the burst's end in the status", over).await?;
    counted(&second, &["began 0", "ended 1"]).await?;
    let sent = second.recorder.all();
    ensure!(of(&sent, "horizontalpodautoscalers").len() == 1, "nothing but its end: {sent:?}");
    ensure!(of(&sent, "deployments").is_empty(), "pods are for the autoscaler to remove: {sent:?}");

    // As much load as before, and as many pods as there may be: nothing left to do, once the mean that the autoscaler goes by has risen
    // as far as it will.
    let risen = |autoscaler: &HorizontalPodAutoscaler| {
        let metrics = autoscaler.status.iter().flat_map(|status| status.current_metrics.iter().flatten());
        let means = metrics.filter_map(|metric| metric.pods.as_ref()?.current.average_value.as_ref());
        means.map(|mean| mean.0.as_str()).eq(["400"])
    };
    fixture.until_is("shop", "the autoscaler to see all of the load", risen).await?;
    fixture.silent(&second, "shop", SILENCE).await?;
    wanted(&fixture, 4).await?;
    api.uninstall().await?;
    fixture.end(second).await
}

/// Has the operator leave a burst behind in the status, with all that there is, and the next one find it. Nobody else writes the status
/// meanwhile: a write that knows of no burst could follow this one.
async fn left_behind(fixture: &Fixture, former: Operator, replicas: i32) -> Result<Operator> {
    former.stop().await?;
    fixture.leave_burst("shop", replicas).await?;
    fixture.operator().await
}

/// No metrics are needed for a burst that runs already.
#[tokio::test]
async fn a_burst_that_nobody_wants_any_more_is_over_at_once() -> Result<()> {
    let spec = || bursting(9913, Some(3600));
    let (fixture, operator) = Fixture::settled(spec()).await?;
    let over = async |fixture: &Fixture| {
        let over = |app: &WorkerApp| self::burst(app).is_none();
        fixture.until_is("shop", "the burst's end in the status", over).await
    };
    let operator = left_behind(&fixture, operator, 3).await?;
    least(&fixture, 3).await?;
    wanted(&fixture, 3).await?;
    // It may be about to set this number as well, and Kubernetes' autoscaler insists where somebody else was faster.
    let has_seen_it = |autoscaler: &HorizontalPodAutoscaler| {
        autoscaler.status.as_ref().is_some_and(|status| status.current_replicas == Some(3))
    };
    fixture.until_is("shop", "the autoscaler to see three pods", has_seen_it).await?;

    // Whoever sets another number is not fought: it is the autoscaler's again.
    fixture.merge::<Deployment>("shop", json!({ "spec": { "replicas": 4 } })).await?;
    fixture.until_quiet(&operator).await?;
    wanted(&fixture, 4).await?;

    fixture.apply("shop", bursting(9913, None)).await?;
    least(&fixture, 1).await?;
    over(&fixture).await?;

    // While an app is paused its children stay as they are, the autoscaler's minimum among them.
    fixture.apply("shop", spec()).await?;
    fixture.until_reconciled("shop").await?;
    let operator = left_behind(&fixture, operator, 2).await?;
    least(&fixture, 2).await?;
    fixture.merge::<WorkerApp>("shop", json!({ "spec": { "paused": true } })).await?;
    over(&fixture).await?;
    let told = fixture.until_condition("shop", ConditionType::Reconciled, "False", "Paused").await?;
    ensure!(told.message.ends_with("left so: HorizontalPodAutoscaler"), "{}", told.message);
    least(&fixture, 2).await?;
    fixture.merge::<WorkerApp>("shop", json!({ "spec": { "paused": null } })).await?;
    least(&fixture, 1).await?;
    wanted(&fixture, 4).await?;
    fixture.end(operator).await
}

#[tokio::test]
async fn a_burst_that_nothing_could_tell_is_refused_at_once() -> Result<()> {
    let fixture = Fixture::new().await?;
    for (more, words) in [
        (json!({ "cpu": { "averageUtilization": 50 }, "burst": {} }), "burst needs inFlight"),
        (json!({ "inFlight": { "averageValue": 5 }, "burst": { "thresholdPercent": 100 } }), "110"),
        (json!({ "inFlight": { "averageValue": 5 }, "burst": { "holdSeconds": 1 } }), "burst.holdSeconds"),
    ] {
        let mut autoscaling = more;
        autoscaling["maxReplicas"] = json!(2);
        let spec = app(json!({ "autoscaling": autoscaling }));
        let refused = fixture.apply("shop", spec).await.map(drop).unwrap_err().to_string();
        ensure!(refused.contains(words), "no {words:?} in {refused}");
    }
    fixture.remove().await
}
