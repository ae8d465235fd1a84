//! An operator that looks after some namespaces only.

use std::{
    net::SocketAddr,
    time::{Duration, Instant},
};

use anyhow::{Result, ensure};
use k8s_openapi::api::{apps::v1::Deployment, core::v1::Namespace, rbac::v1::RoleBinding};
use kube::{
    Api,
    api::{DeleteParams, PostParams},
};
use serde_json::json;
use workerapp_e2e::{
    Fixture, Operator, Program, app,
    fixture::{PATIENCE, SILENCE},
    operator::{Options, get},
    rights::{self, Relay},
    wait::within,
};

/// Waits until `/readyz` answers `status` with all of `words`.
async fn until_readyz(address: SocketAddr, status: u16, words: &[&str]) -> Result<String> {
    let start = Instant::now();
    loop {
        let (found, text) = get(address, "/readyz").await?;
        if found == status && words.iter().all(|word| text.contains(word)) {
            return Ok(text);
        }
        ensure!(start.elapsed() < PATIENCE, "waited for {status} with {words:?}; it is {found}: {text}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

async fn until_logged(program: &Program, words: &str) -> Result<()> {
    within(PATIENCE, &format!("{words:?} in the log"), async || {
        let log = program.log();
        ensure!(log.contains(words), "it logged: {log}");
        Ok(())
    })
    .await
}

#[tokio::test]
async fn it_works_in_each_of_its_namespaces_and_in_no_other() -> Result<()> {
    let (one, two, other) = (Fixture::new().await?, Fixture::new().await?, Fixture::new().await?);
    let namespaces = vec![one.namespace.clone(), two.namespace.clone()];
    let impersonate = Some(rights::of_the_chart(&one, &namespaces).await?);
    let operator = Operator::start(Options { namespaces, impersonate, ..one.options() }).await?;
    for fixture in [&one, &two, &other] {
        fixture.apply("shop", app(json!({ "autoscaling": { "maxReplicas": 2 } }))).await?;
    }
    for fixture in [&one, &two] {
        fixture.until_reconciled("shop").await?;
        fixture.silent(&operator, "shop", SILENCE).await?;
    }
    ensure!(other.api::<Deployment>().get_opt("shop").await?.is_none());
    operator.stop().await?;
    for fixture in [one, two, other] {
        fixture.remove().await?;
    }
    Ok(())
}

#[tokio::test]
async fn a_namespace_that_is_not_there_is_told_and_holds_up_no_other() -> Result<()> {
    let fixture = Fixture::new().await?;
    let absent = format!("{}-absent", fixture.namespace);
    let namespaces = vec![fixture.namespace.clone(), absent.clone()];
    let operator = Operator::launch(Options { namespaces, ..fixture.options() }).await?;
    until_readyz(operator.address, 503, &[&format!("namespace {absent} does not exist"), "--namespace"])
        .await?;
    fixture.apply("shop", app(json!({}))).await?;
    fixture.until_reconciled("shop").await?;

    // It is taken up when it comes.
    let api: Api<Namespace> = Api::all(fixture.client.clone());
    let body = serde_json::from_value(json!({ "metadata": { "name": absent } }))?;
    api.create(&PostParams::default(), &body).await?;
    let late = Fixture { client: fixture.client.clone(), namespace: absent };
    until_readyz(operator.address, 200, &["ok"]).await?;
    late.apply("shop", app(json!({}))).await?;
    late.until_reconciled("shop").await?;
    operator.stop().await?;
    late.remove().await?;
    fixture.remove().await
}

#[tokio::test]
async fn without_rights_in_one_namespace_it_works_in_the_other_and_says_so() -> Result<()> {
    let (fixture, closed) = (Fixture::new().await?, Fixture::new().await?);
    let namespaces = vec![fixture.namespace.clone(), closed.namespace.clone()];
    let impersonate = Some(rights::of_the_chart(&fixture, &namespaces[..1]).await?);
    let operator = Operator::launch(Options { namespaces, impersonate, ..fixture.options() }).await?;
    let words = [&*format!("is there a namespace {}", closed.namespace), "cannot list", "RoleBinding"];
    until_readyz(operator.address, 503, &words).await?;
    fixture.apply("shop", app(json!({}))).await?;
    fixture.until_reconciled("shop").await?;
    operator.stop().await?;
    closed.remove().await?;
    fixture.remove().await
}

/// Permission to read WorkerApps can go while the operator runs: it must not go on as if nothing had happened, and has to see
/// everything once it is back.
#[tokio::test]
async fn it_is_not_ready_while_it_may_not_read_its_apps() -> Result<()> {
    let fixture = Fixture::new().await?;
    let user = rights::of_the_chart(&fixture, std::slice::from_ref(&fixture.namespace)).await?;
    let relay = Relay::start().await?;
    let kubeconfig = rights::kubeconfig(&user, &["system:authenticated"], Some(relay.address))?;
    let program = Program::start_as(&kubeconfig, &["--namespace", &fixture.namespace]).await?;
    program.ready().await?;
    fixture.apply("shop", app(json!({}))).await?;
    fixture.until_reconciled("shop").await?;

    let bindings: Api<RoleBinding> = fixture.api();
    let mut binding = bindings.get(rights::ROLE).await?;
    bindings.delete(rights::ROLE, &DeleteParams::default()).await?;
    within(PATIENCE, "the rights to be gone", async || {
        let rights = rights::of_user(&fixture.namespace, &user).await?;
        ensure!(!rights.iter().any(|right| right.resource == "workerapps"), "{rights:?}");
        Ok(())
    })
    .await?;
    // A watch that runs goes on; with a fresh connection it is asked for anew.
    relay.cut();
    until_readyz(program.address, 503, &["WorkerApp", "cannot"]).await?;
    ensure!(get(program.address, "/livez").await?.0 == 200);
    until_logged(&program, "not permitted to read this kind").await?;

    fixture.apply("next", app(json!({}))).await?;
    binding.metadata.resource_version = None;
    binding.metadata.uid = None;
    bindings.create(&PostParams::default(), &binding).await?;
    until_readyz(program.address, 200, &["ok"]).await?;
    fixture.until_reconciled("next").await?;
    program.end("TERM").await?;
    std::fs::remove_file(kubeconfig)?;
    fixture.remove().await
}

#[tokio::test]
async fn a_missing_namespace_is_in_the_log() -> Result<()> {
    let fixture = Fixture::new().await?;
    let absent = format!("{}-absent", fixture.namespace);
    let program = Program::start(&absent, &[]).await?;
    until_logged(&program, &format!("namespace {absent} does not exist")).await?;
    program.end("TERM").await?;
    fixture.remove().await
}
