//! A cluster without a free node port. A file of its own: meanwhile nobody else gets one.

use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

use anyhow::{Result, ensure};
use k8s_openapi::api::{
    apps::v1::Deployment,
    core::v1::{Namespace, Service},
};
use kube::{
    Api, Client, ResourceExt as _,
    api::{DeleteParams, ListParams},
};
use serde_json::{Value, json};
use workerapp_api::condition::ConditionType;
use workerapp_e2e::{Fixture, app, fixture::PATIENCE, wait::within};

/// A Service with so many node ports.
fn filler(number: usize, ports: i32) -> Value {
    let ports: Vec<_> = (1..=ports).map(|port| json!({ "name": format!("p{port}"), "port": port })).collect();
    json!({ "metadata": { "name": format!("filler-{number}") }, "spec": { "type": "NodePort", "ports": ports } })
}

/// Waits until nobody frees a node port any more: namespaces of tests that have ended go by and by, and their Services with them.
async fn until_none_is_freed(client: &Client) -> Result<()> {
    let (namespaces, services) = (Api::<Namespace>::all(client.clone()), Api::<Service>::all(client.clone()));
    within(PATIENCE, "the Services of namespaces that go to be gone", async || {
        let going = namespaces.list(&ListParams::default()).await?.into_iter();
        let going: BTreeSet<_> = going
            .filter(|namespace| namespace.metadata.deletion_timestamp.is_some())
            .map(|namespace| namespace.name_any())
            .collect();
        let left = services.list(&ListParams::default()).await?;
        let left = left.iter().find(|service| service.namespace().is_some_and(|it| going.contains(&it)));
        ensure!(left.is_none(), "{left:?}");
        Ok(())
    })
    .await
}

/// Takes every node port; returns how many Services that took.
async fn fill(fixture: &Fixture) -> Result<usize> {
    let mut number = 0;
    for ports in [200, 20, 1] {
        loop {
            match fixture.create::<Service>(filler(number, ports)).await {
                Ok(_) => number += 1,
                Err(error) if error.to_string().contains("range is full") => break,
                Err(error) => return Err(error),
            }
        }
    }
    Ok(number)
}

#[tokio::test]
async fn node_ports_that_have_run_out_are_told_with_the_range_and_taken_up_when_freed() -> Result<()> {
    let fixture = Fixture::new().await?;
    let operator = fixture.operator().await?;
    until_none_is_freed(&fixture.client).await?;
    let fillers = fill(&fixture).await?;
    fixture.apply("shop", app(json!({}))).await?;
    let told =
        fixture.until_condition("shop", ConditionType::Reconciled, "False", "NodePortsExhausted").await?;
    ensure!(told.message.contains("every node port of 30000-32767 is taken"), "{}", told.message);
    ensure!(told.message.contains("--service-node-port-range"), "{}", told.message);
    fixture.until_is("shop", "the other child", |_: &Deployment| true).await?;
    let probes: Vec<_> = fixture.api::<Service>().list(&ListParams::default()).await?.items;
    ensure!(probes.len() == fillers, "asking for the range left a Service behind");

    let freed = Instant::now();
    fixture.delete::<Service>(&format!("filler-{}", fillers - 1)).await?;
    fixture.until_reconciled("shop").await?;
    // No event tells of it, and the usual waits grow to minutes.
    ensure!(freed.elapsed() < Duration::from_secs(90), "{:?}", freed.elapsed());

    // Others need some too.
    let services: Api<Service> = fixture.api();
    for number in 0..fillers - 1 {
        services.delete(&format!("filler-{number}"), &DeleteParams::default()).await?;
    }
    fixture.end(operator).await
}
