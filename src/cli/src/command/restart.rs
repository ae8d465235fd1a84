//! `restart`: new pods for an app, as `kubectl rollout restart` does.

use std::{process::ExitCode, time::Duration};

use clap::Args;
use k8s_openapi::api::apps::v1::Deployment;
use kube::ResourceExt as _;
use workerapp_api::{Condition, WorkerApp, condition::ConditionType};

use crate::{
    cluster::{Cluster, Place},
    error::Error,
    output,
    view::status::{condition, paused},
};

/// For `--help`.
pub(crate) const EXAMPLES: &str = "Examples:
  kubectl workerapp restart shop
  kubectl workerapp restart shop && kubectl wait --for=condition=Ready workerapp/shop --timeout=5m";

/// How long the operator may take to tell that the pods are being replaced.
const TOLD_WITHIN: Duration = Duration::from_secs(10);
/// Between two looks at that.
const AGAIN: Duration = Duration::from_millis(100);

#[derive(Args)]
pub(crate) struct Arguments {
    /// The app
    #[arg(value_name = "APP")]
    name: String,
}

pub(crate) async fn run(arguments: &Arguments, place: &Place) -> Result<ExitCode, Error> {
    let cluster = place.connect().await?;
    let app = cluster.app(&arguments.name).await?;
    let name = app.name_any();
    let uid = app.uid();
    let deployment = cluster.deployment(&cluster.namespace, &name).await?;
    // One that merely has the same name isn't the app's, and is left alone.
    let owned = deployment.filter(|deployment| {
        deployment.owner_references().iter().any(|owner| Some(&owner.uid) == uid.as_ref())
    });
    let Some(deployment) = owned else { return Err(Error::NoDeployment { name }) };
    cluster.restart(&cluster.namespace, &name).await?;
    let told = until_told(&cluster, &app, &deployment).await?;
    output::print(&format!("workerapp.{}/{name} restarted\n", workerapp_api::names::GROUP))?;
    if paused(&app) {
        output::note("it is paused; new pods come all the same, since Kubernetes makes them");
    }
    if !told {
        output::note("the app's status says nothing of it yet: does the operator run? `doctor` looks");
    }
    Ok(ExitCode::SUCCESS)
}

/// Waits until the app's status is about the new pods, so that whoever waits for `Ready` next waits for those. A restart
/// leaves the app's spec as it is, and until the operator has seen it `Ready` is about the old ones.
async fn until_told(cluster: &Cluster, before: &WorkerApp, deployment: &Deployment) -> Result<bool, Error> {
    let was = condition(before, ConditionType::Ready);
    let is_ready = |ready: &Condition| ready.status == workerapp_api::ConditionStatus::True;
    let none = deployment.spec.replicas == Some(0);
    if none || !was.is_some_and(is_ready) {
        return Ok(true);
    }
    let told = async {
        loop {
            let app = cluster.app(&before.name_any()).await?;
            let now = condition(&app, ConditionType::Ready);
            let since = |ready: Option<&Condition>| ready.map(|ready| ready.last_transition_time.clone());
            if !now.is_some_and(is_ready) || since(now) != since(was) {
                return Ok(());
            }
            tokio::time::sleep(AGAIN).await;
        }
    };
    match tokio::time::timeout(TOLD_WITHIN, told).await {
        Ok(told) => told.map(|()| true),
        Err(_) => Ok(false),
    }
}
