//! The operator as a program: its endpoints, its rights, its start and its end.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::api::{
    apps::v1::Deployment,
    core::v1::{Namespace, Service},
    rbac::v1::{Role, RoleBinding},
};
use kube::{
    Api, ResourceExt as _,
    api::{DeleteParams, Patch, PatchParams},
};
use serde_json::{Value, json};
use tokio::process::Command;
use workerapp_api::{WorkerApp, condition::ConditionType};
use workerapp_e2e::{
    Fixture, Operator, Program, app,
    fixture::{PATIENCE, SILENCE},
    operator::{Options, get},
    program, rights, scrape,
};

/// How soon the operator asks again for a kind that it may not read, at the earliest.
const ASKED_AGAIN: Duration = Duration::from_secs(18);
/// How soon it tries again what has failed, at the earliest.
const TRIED_AGAIN: Duration = Duration::from_millis(750);

/// Waits until the look that wrote the status is counted, which comes after that write.
async fn counted(program: &Program) -> Result<()> {
    let expected = [
        "workerapp_operator_reconciles_total{outcome=\"settled\"}",
        "workerapp_operator_reconcile_duration_seconds_count",
        "workerapp_operator_writes_total{kind=\"Deployment\",result=\"ok\",verb=\"apply\"} 1",
        "workerapp_operator_writes_total{kind=\"WorkerApp\",result=\"ok\",verb=\"apply\"}",
        "workerapp_operator_queue_wait_seconds_count{lane=\"edit\"} ",
        "workerapp_operator_leader 1",
        "process_resident_memory_bytes ",
        "workerapp_operator_queue_length 0",
        "workerapp_operator_backing_off 0",
        "workerapp_info{api_version=",
    ];
    let deadline = Instant::now() + PATIENCE;
    loop {
        let (_, metrics) = get(program.address, "/metrics").await?;
        match expected.iter().find(|metric| !metrics.contains(**metric)) {
            None => return Ok(()),
            Some(missing) => ensure!(Instant::now() < deadline, "no {missing} in {metrics}"),
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test]
async fn it_serves_its_endpoints_and_ends_with_0_when_told_to() -> Result<()> {
    let fixture = Fixture::new().await?;
    for (signal, format) in [("TERM", "json"), ("INT", "text")] {
        let program = Program::start(&fixture.namespace, &["--log-format", format]).await?;
        program.ready().await?;
        let name = format!("shop-{format}");
        fixture.apply(&name, app(json!({}))).await?;
        fixture.until_reconciled(&name).await?;

        let (status, _) = get(program.address, "/livez").await?;
        ensure!(status == 200);
        counted(&program).await?;

        let (status, log) = program.end(signal).await?;
        ensure!(status.success(), "{status}: {log}");
        // Nothing runs, and so it doesn't wait for what runs.
        ensure!(!log.contains("stopped with reconciles still running"), "{log}");
        for line in log.lines().filter(|_| format == "json") {
            let line: Value = serde_json::from_str(line).with_context(|| line.to_owned())?;
            ensure!(line["level"].is_string() && line["message"].is_string(), "{line}");
        }
        ensure!(log.contains("stopped"), "{log}");
    }
    fixture.remove().await
}

#[tokio::test]
async fn wrong_flags_are_told_and_end_it() -> Result<()> {
    for (arguments, words) in [
        (&["run"][..], "--supervisor-image"),
        (&["run", "--supervisor-image", "i", "--resync", "10"], "write a number and s, m or h"),
        (&["run", "--supervisor-image", "i", "--concurrency", "0"], "--concurrency"),
        (&["run", "--supervisor-image", "i", "--listen", "8080"], "--listen"),
        (&["dance"], "dance"),
    ] {
        let output =
            Command::new(program::path().await?).args(arguments).env_remove("KUBECONFIG").output().await?;
        let text = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.code() == Some(2) && text.contains(words), "{arguments:?}: {text}");
    }
    Ok(())
}

/// A user who may do in the namespace what `rules` say, and nothing else.
async fn user(fixture: &Fixture, rules: Value) -> Result<String> {
    let name = format!("user-of-{}", fixture.namespace);
    fixture.create::<Role>(json!({ "metadata": { "name": "r" }, "rules": rules })).await?;
    fixture
        .create::<RoleBinding>(json!({
            "metadata": { "name": "r" },
            "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "r" },
            "subjects": [{ "apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": name }],
        }))
        .await?;
    rights::until_given(&fixture.client, &fixture.namespace, &name).await?;
    Ok(name)
}

/// What the operator can't do without.
fn needed() -> Value {
    json!([
        { "apiGroups": ["workerapp.dev"], "resources": ["workerapps"], "verbs": ["get", "list", "watch"] },
        { "apiGroups": ["workerapp.dev"], "resources": ["workerapps/status"], "verbs": ["patch"] },
        { "apiGroups": ["workerapp.dev"], "resources": ["workerapps/finalizers"], "verbs": ["update"] },
        { "apiGroups": ["apps", "", "autoscaling"], "resources": ["deployments", "services", "horizontalpodautoscalers"],
          "verbs": ["get", "list", "watch", "create", "patch", "delete"] },
        { "apiGroups": ["events.k8s.io"], "resources": ["events"], "verbs": ["create"] },
        { "apiGroups": ["policy", "networking.k8s.io"], "resources": ["poddisruptionbudgets", "networkpolicies"],
          "verbs": ["get", "list", "watch", "create", "patch", "delete"] },
    ])
}

#[tokio::test]
async fn restate_operator_103_it_works_without_the_kinds_it_may_not_read() -> Result<()> {
    let fixture = Fixture::new().await?;
    let impersonate = Some(user(&fixture, needed()).await?);
    let begun = Instant::now();
    let operator = Operator::start(Options { impersonate, ..fixture.options() }).await?;
    let port = {
        fixture.apply("first", app(json!({ "autoscaling": { "maxReplicas": 2 } }))).await?;
        fixture.until_reconciled("first").await?;
        let service = fixture.api::<Service>().get("first").await?;
        service.spec.and_then(|spec| spec.ports?[0].node_port).context("no node port")?
    };
    fixture.silent(&operator, "first", SILENCE).await?;

    // The holder of a node port is found among the Services that may be read.
    fixture.apply("second", app(json!({ "service": { "nodePort": port } }))).await?;
    let told = fixture.until_condition("second", ConditionType::Reconciled, "False", "NodePortTaken").await?;
    ensure!(told.message.contains("/first (port app)"), "{}", told.message);

    let (_, metrics) = operator.get("/metrics").await?;
    let restarts = scrape::samples(&metrics, "workerapp_operator_watch_restarts_total");
    let restarts: BTreeMap<_, _> = restarts.map(|(labels, count)| (labels["kind"].clone(), count)).collect();
    let most = 1.0 + (begun.elapsed().as_secs_f64() / ASKED_AGAIN.as_secs_f64()).floor();
    for kind in ["Pod", "LimitRange", "PodMonitor", "ScaledObject"] {
        let count = restarts.get(kind).copied().unwrap_or_default();
        ensure!(
            (1.0..=most).contains(&count),
            "a loop of refused requests? {kind}, at most {most}: {metrics}"
        );
    }
    fixture.end(operator).await
}

#[tokio::test]
async fn a_missing_permission_is_told_and_names_the_kind() -> Result<()> {
    let fixture = Fixture::new().await?;
    let mut rules = needed();
    rules[3]["resources"] = json!(["deployments", "services"]);
    let autoscalers = json!({ "apiGroups": ["autoscaling"], "resources": ["horizontalpodautoscalers"], "verbs": ["get", "list", "watch"] });
    if let Value::Array(rules) = &mut rules {
        rules.push(autoscalers);
    }
    let impersonate = Some(user(&fixture, rules).await?);
    let operator = Operator::start(Options { impersonate, ..fixture.options() }).await?;
    fixture.apply("shop", app(json!({ "autoscaling": { "maxReplicas": 2 } }))).await?;
    let told = fixture.until_condition("shop", ConditionType::Reconciled, "False", "Forbidden").await?;
    ensure!(
        told.message.contains("the operator may not write HorizontalPodAutoscaler shop"),
        "{}",
        told.message
    );
    fixture.api::<Deployment>().get("shop").await?;

    // Without a kind that it can't do without it is not ready, and says why.
    let rules = json!([{ "apiGroups": ["workerapp.dev"], "resources": ["workerapps"], "verbs": ["get", "list", "watch"] }]);
    let other = Fixture::new().await?;
    let impersonate = Some(user(&other, rules).await?);
    let blind = Operator::launch(Options { impersonate, ..other.options() }).await?;
    let told = async {
        loop {
            let (status, text) = blind.get("/readyz").await?;
            ensure!(status == 503, "{status} {text}");
            if text.contains("Deployment") && text.contains("cannot list") {
                return Ok(());
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(PATIENCE, told).await.context("it doesn't say what it can't read")??;
    let (status, _) = blind.get("/livez").await?;
    ensure!(status == 200);
    other.end(blind).await?;
    fixture.end(operator).await
}

#[tokio::test]
async fn nothing_is_made_in_a_namespace_that_is_being_deleted() -> Result<()> {
    let fixture = Fixture::new().await?;
    let operator = fixture.operator().await?;
    fixture.apply("shop", app(json!({ "replicas": 1 }))).await?;
    fixture.until_reconciled("shop").await?;
    fixture.until_quiet(&operator).await?;
    // Something holds the app back, so that it outlives its children.
    let hold = json!({ "metadata": { "finalizers": ["workerapp.dev/test-holds-it"] } });
    fixture.merge::<WorkerApp>("shop", hold).await?;
    operator.recorder.take();
    let namespaces: Api<Namespace> = Api::all(fixture.client.clone());
    namespaces.delete(&fixture.namespace, &DeleteParams::default()).await?;
    fixture.until("shop", "its end", |service: Option<&Service>| service.is_none()).await?;
    fixture.until("shop", "its end", |deployment: Option<&Deployment>| deployment.is_none()).await?;
    fixture.until_quiet(&operator).await?;
    let sent = operator.recorder.all();
    for child in ["/deployments/shop", "/services/shop"] {
        let tries: Vec<_> =
            sent.iter().filter(|sent| sent.path.ends_with(child)).map(|sent| sent.at).collect();
        let Some((first, last)) = tries.first().zip(tries.last()) else { continue };
        // The end of each child and of its pod may bring a look, before the app is known to go as well; all others wait.
        let most = 3 + (*last - *first).as_millis() / TRIED_AGAIN.as_millis();
        ensure!(u128::try_from(tries.len())? <= most, "{} tries of {child}: {sent:?}", tries.len());
    }
    let release = Patch::Merge(json!({ "metadata": { "finalizers": null } }));
    fixture.api::<WorkerApp>().patch("shop", &PatchParams::default(), &release).await?;
    operator.stop().await
}

#[tokio::test]
async fn a_second_app_of_the_name_gets_children_of_its_own() -> Result<()> {
    let fixture = Fixture::new().await?;
    let operator = fixture.operator().await?;
    fixture.apply("shop", app(json!({ "replicas": 1 }))).await?;
    fixture.until_reconciled("shop").await?;
    let first = fixture.api::<Deployment>().get("shop").await?.uid();
    fixture.delete::<WorkerApp>("shop").await?;
    fixture.apply("shop", app(json!({ "replicas": 1 }))).await?;
    fixture.until_is("shop", "a new one", |new: &Deployment| new.uid() != first).await?;
    fixture.until_reconciled("shop").await?;
    fixture.silent(&operator, "shop", SILENCE).await?;
    fixture.end(operator).await
}
