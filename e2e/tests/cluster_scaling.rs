//! The autoscaler on real metrics: load adds pods, and the operator leaves their number alone.

use std::{
    pin::pin,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use anyhow::{Context as _, Result, ensure};
use futures::StreamExt as _;
use k8s_openapi::api::{apps::v1::Deployment, autoscaling::v2::HorizontalPodAutoscaler};
use kube::runtime::{WatchStreamExt as _, watcher};
use serde_json::json;
use workerapp_api::{WorkerApp, condition::ConditionType};
use workerapp_e2e::nodes::{Nodes, hello, on_nodes, requests::Load};

/// For how long the number of pods is watched not to fall after each change.
const WINDOW: Duration = Duration::from_secs(12);
/// The requests of one client: it burns this long, then pauses as long again.
const BURN: Duration = Duration::from_millis(10);

fn wanted(deployment: &Deployment) -> i32 {
    deployment.spec.replicas.unwrap_or_default()
}

/// Every number of pods that the Deployment has asked for, in order.
fn record(nodes: &Nodes, name: &str) -> Arc<Mutex<Vec<i32>>> {
    let seen: Arc<Mutex<Vec<i32>>> = Arc::default();
    let config = watcher::Config::default().fields(&format!("metadata.name={name}"));
    let deployments = watcher(nodes.api::<Deployment>(), config).default_backoff().applied_objects();
    let into = Arc::clone(&seen);
    // It ends with the test's runtime.
    tokio::spawn(async move {
        let mut deployments = pin!(deployments);
        while let Some(deployment) = deployments.next().await {
            let Ok(deployment) = deployment else { continue };
            let mut seen = into.lock().unwrap_or_else(PoisonError::into_inner);
            if seen.last() != Some(&wanted(&deployment)) {
                seen.push(wanted(&deployment));
            }
        }
    });
    seen
}

/// `llmkube_484` and `rco_68`: an operator that puts its own number back fights the autoscaler for ever.
#[tokio::test]
async fn llmkube_484_load_adds_pods_and_nobody_takes_them_away() -> Result<()> {
    on_nodes("scaling", async |nodes| {
        let spec = |autoscaling, env: &str| {
            hello(json!({
                "resources": { "requests": { "cpu": "100m", "memory": "64Mi" }, "limits": { "cpu": "1" } },
                "autoscaling": autoscaling,
                "env": [{ "name": "COLOUR", "value": env }],
            }))
        };
        let autoscaling = json!({ "minReplicas": 1, "maxReplicas": 3, "cpu": { "averageUtilization": 50 } });
        let app = nodes.serve_app("busy", spec(autoscaling, "red")).await?;
        let scales = |app: &WorkerApp| {
            let active = workerapp_e2e::fixture::condition(app, ConditionType::ScalingActive);
            active.is_some_and(|active| {
                format!("{:?} {}", active.status, active.reason) == "True ScalingActive"
            })
        };

        let path = format!("/cpu?ms={}", BURN.as_millis());
        let load = Load::start(&nodes.endpoints(&app).await?, &path, 1, BURN);
        Box::pin(nodes.wait("busy", "ScalingActive", scales)).await?;
        let most = |deployment: &Deployment| wanted(deployment) >= 2;
        nodes.wait("busy", "more pods than the minimum", most).await?;
        let seen = record(nodes, "busy");

        // The spec is touched in two ways: one that concerns the autoscaler, one that rolls out new pods.
        let autoscaling = json!({ "minReplicas": 1, "maxReplicas": 4, "cpu": { "averageUtilization": 50 } });
        for env in ["red", "blue"] {
            nodes.apply("busy", spec(autoscaling.clone(), env)).await?;
            nodes.until_ready("busy").await?;
            Box::pin(nodes.wait("busy", "ScalingActive", scales)).await?;
            tokio::time::sleep(WINDOW).await;
        }
        let autoscaler = nodes.api::<HorizontalPodAutoscaler>().get("busy").await?;
        assert_eq!(autoscaler.spec.max_replicas, 4);
        load.stop_without_failure().await?;

        let seen = seen.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let fallen = seen.windows(2).find(|pair| pair[1] < pair[0]);
        ensure!(fallen.is_none() && seen.iter().all(|wanted| *wanted >= 2), "the pods wanted: {seen:?}");
        let deployment = nodes.api::<Deployment>().get("busy").await?;
        let owners = deployment.metadata.managed_fields.context("no managed fields")?;
        let ours = owners.iter().filter(|owner| owner.manager.as_deref() == Some("workerapp-operator"));
        for fields in
            ours.filter(|owner| owner.subresource.is_none()).filter_map(|owner| owner.fields_v1.as_ref())
        {
            ensure!(fields.0["f:spec"].get("f:replicas").is_none(), "the operator owns the number of pods");
        }
        Ok(())
    })
    .await
}

#[tokio::test]
async fn more_pods_than_the_nodes_can_hold_are_told() -> Result<()> {
    on_nodes("room", async |nodes| {
        let autoscaling =
            json!({ "minReplicas": 1, "maxReplicas": 10_000, "cpu": { "averageUtilization": 50 } });
        nodes.apply("huge", hello(json!({ "autoscaling": autoscaling }))).await?;
        let told = |app: &WorkerApp| {
            let found = workerapp_e2e::fixture::condition(app, ConditionType::Reconciled);
            let room = format!("on the {} nodes that its pods may run on", nodes.addresses.len());
            found.is_some_and(|found| {
                found.message.contains("maxReplicas is 10000") && found.message.contains(&room)
            })
        };
        nodes.wait("huge", "what the nodes can hold", told).await.map(drop)
    })
    .await
}
