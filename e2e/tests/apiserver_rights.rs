//! The operator's rights: what the chart gives is what the operator uses, no less and no more, and no secret is among it.

use std::collections::BTreeSet;

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::api::{
    apps::v1::Deployment,
    autoscaling::v2::HorizontalPodAutoscaler,
    coordination::v1::Lease,
    core::v1::{LimitRange, Service},
    networking::v1::NetworkPolicy,
    policy::v1::PodDisruptionBudget,
};
use serde_json::json;
use workerapp_api::condition::ConditionType;
use workerapp_e2e::{
    Fixture, Operator, Program, app,
    fixture::{PATIENCE, SILENCE},
    metrics_api::{self, MetricsApi, eventually},
    operator::Options,
    recorder::Right,
    rights,
};

/// Given, and used without a request of its own: an owner reference that blocks the owner's deletion takes it where the admission
/// plugin `OwnerReferencesPermissionEnforcement` is on.
const WITHOUT_REQUEST: &str = "update workerapps/finalizers.workerapp.dev";
/// Asked for and refused, which the operator expects: rights in its namespaces don't reach so far.
const REFUSED: [&str; 2] = ["get namespaces.", "list nodes."];

/// What the chart gives beyond what every service account has.
async fn given(fixture: &Fixture, user: &str) -> Result<BTreeSet<Right>> {
    let nobody = format!("system:serviceaccount:{}:without-rights", fixture.namespace);
    let everybody = rights::of_user(&fixture.namespace, &nobody).await?;
    Ok(rights::of_user(&fixture.namespace, user).await?.difference(&everybody).cloned().collect())
}

fn names(rights: &BTreeSet<Right>) -> BTreeSet<String> {
    rights.iter().map(ToString::to_string).collect()
}

/// Has the operator do everything that it ever does.
async fn everything(fixture: &Fixture, operator: &Operator) -> Result<()> {
    let limits = json!({ "limits": [{ "type": "Container", "defaultRequest": { "cpu": "100m" } }] });
    fixture.create::<LimitRange>(json!({ "metadata": { "name": "limits" }, "spec": limits })).await?;
    // A child that isn't there any more is looked for before it is made anew.
    fixture.apply("shop", app(json!({ "replicas": 1 }))).await?;
    fixture.until_reconciled("shop").await?;
    fixture.until_quiet(operator).await?;
    fixture.delete::<Deployment>("shop").await?;
    fixture.delete::<Service>("shop").await?;
    fixture.until_is("shop", "a new one", |_: &Deployment| true).await?;
    fixture.until_is("shop", "a new one", |_: &Service| true).await?;
    // What an app may have or not comes and goes.
    let all = json!({ "autoscaling": { "minReplicas": 2, "maxReplicas": 3 }, "networkPolicy": {} });
    fixture.apply("shop", app(all)).await?;
    fixture.until_reconciled("shop").await?;
    fixture.apply("shop", app(json!({ "replicas": 1 }))).await?;
    let gone = |autoscaler: Option<&HorizontalPodAutoscaler>| autoscaler.is_none();
    fixture.until("shop", "no autoscaler", gone).await?;
    fixture.until("shop", "no budget", |budget: Option<&PodDisruptionBudget>| budget.is_none()).await?;
    fixture.until("shop", "no policy", |policy: Option<&NetworkPolicy>| policy.is_none()).await?;
    fixture.until_reconciled("shop").await?;
    asks_for_metrics(fixture, operator).await?;

    // The same trouble twice within minutes is one event that is counted.
    let taken = fixture.api::<Service>().get("shop").await?.spec.and_then(|spec| spec.ports?[0].node_port);
    let taken = taken.context("no node port")?;
    for _ in 0..2 {
        fixture.apply("next", app(json!({ "service": { "nodePort": taken } }))).await?;
        fixture.until_condition("next", ConditionType::Reconciled, "False", "NodePortTaken").await?;
        fixture.apply("next", app(json!({}))).await?;
        fixture.until_reconciled("next").await?;
    }
    fixture.silent(operator, "shop", SILENCE).await
}

/// Bursts are seen in the workers' metrics.
async fn asks_for_metrics(fixture: &Fixture, operator: &Operator) -> Result<()> {
    let (value, share) = (json!({ "averageValue": 5 }), json!({ "targetPercent": 50 }));
    let bursts = json!({ "autoscaling": {
        "maxReplicas": 3, "burst": {}, "inFlight": value, "requestsPerSecond": value, "queueLength": value,
        "eventLoopUtilization": share, "busyWorkers": share,
    } });
    fixture.apply("next", app(bursts)).await?;
    eventually("all metrics to be asked for", async || {
        let rights = operator.recorder.rights();
        let asked: Vec<_> = rights.iter().filter(|right| right.group == workerapp_adapter::GROUP).collect();
        ensure!(asked.len() == 5, "{asked:?}");
        Ok(())
    })
    .await
}

#[tokio::test]
async fn what_the_chart_gives_is_what_the_operator_uses() -> Result<()> {
    let fixture = Fixture::new().await?;
    let account = rights::of_the_chart(&fixture, std::slice::from_ref(&fixture.namespace)).await?;
    let given = given(&fixture, &account).await?;
    let secret = |right: &&Right| right.resource.contains("secret") || right.resource.contains('*');
    ensure!(!given.iter().any(|right| secret(&right)), "{:?}", names(&given));

    let _turn = metrics_api::turn().await?;
    let api = MetricsApi::start(&fixture).await?;
    let operator = Operator::start(Options { impersonate: Some(account), ..fixture.options() }).await?;
    everything(&fixture, &operator).await?;
    let mut used = operator.recorder.rights();
    // An apply of what isn't there makes it, and that is asked for too.
    let children =
        ["deployments", "services", "horizontalpodautoscalers", "poddisruptionbudgets", "networkpolicies"];
    for child in children {
        let apply = used.iter().find(|right| right.resource == child && right.verb == "patch");
        let made = apply.map(|right| Right { verb: "create".into(), ..right.clone() });
        used.extend(made);
    }

    // This cluster has neither PodMonitors nor KEDA: what may be done with them is what may be done with other optional children.
    let verbs = |resource: &str| -> Vec<String> {
        let rights = given.iter().filter(|right| right.resource == resource);
        rights.map(|right| right.verb.clone()).collect()
    };
    let optional = ["podmonitors", "scaledobjects"];
    for kind in optional {
        ensure!(verbs(kind) == verbs("networkpolicies"), "{kind}: {:?}", verbs(kind));
    }
    let elsewhere = |right: &Right| right.resource == "leases" || optional.contains(&&*right.resource);
    used.retain(|right| !elsewhere(right));
    let given = given.into_iter().filter(|right| !elsewhere(right)).collect();
    let (given, used) = (names(&given), names(&used));
    let unused: Vec<_> = given.difference(&used).filter(|name| *name != WITHOUT_REQUEST).collect();
    ensure!(unused.is_empty(), "given and never used: {unused:?}");
    let missing: Vec<_> = used.difference(&given).filter(|name| !REFUSED.contains(&&***name)).collect();
    ensure!(missing.is_empty(), "used and not given: {missing:?}");
    api.uninstall().await?;
    fixture.end(operator).await
}

#[tokio::test]
async fn the_rights_for_the_lease_suffice_and_are_no_more_than_it_takes() -> Result<()> {
    let fixture = Fixture::new().await?;
    let account = rights::of_the_chart(&fixture, std::slice::from_ref(&fixture.namespace)).await?;
    let leases: BTreeSet<_> =
        names(&given(&fixture, &account).await?).into_iter().filter(|name| name.contains("leases")).collect();
    let expected = ["create", "get", "update"].map(|verb| format!("{verb} leases.coordination.k8s.io"));
    ensure!(leases == BTreeSet::from(expected), "{leases:?}");

    let kubeconfig = rights::kubeconfig(&account, &["system:authenticated"], None)?;
    let namespace = &*fixture.namespace;
    let flags = ["--namespace", namespace, "--leader-elect", "--lease-namespace", namespace];
    let program = Program::start_as(&kubeconfig, &flags).await?;
    program.ready().await?;
    // Taken by one that makes it, renewed by one that updates it.
    let lease = "--lease-duration=3s";
    program.leads(true, PATIENCE).await?;
    program.end("TERM").await?;
    let program = Program::start_as(&kubeconfig, &[&flags[..], &[lease]].concat()).await?;
    program.leads(true, PATIENCE).await?;
    let renewed_at = |lease: &Lease| lease.spec.as_ref().and_then(|spec| spec.renew_time.clone());
    let first = renewed_at(&fixture.api().get("workerapp-operator").await?);
    let renewed = |lease: &Lease| renewed_at(lease) > first;
    fixture.until_is("workerapp-operator", "its being renewed", renewed).await?;
    let (_, log) = program.end("TERM").await?;
    // Whatever else may keep a lease from being had for a moment: for want of a right it never is.
    let refused = |line: &str| line.contains("lease") && line.contains("forbidden");
    ensure!(!log.lines().any(refused), "{log}");
    std::fs::remove_file(kubeconfig)?;
    fixture.remove().await
}
