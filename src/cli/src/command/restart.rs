//! `restart`: new pods for an app, one after the other, as `kubectl rollout restart` does.

use std::process::ExitCode;

use clap::Args;
use kube::ResourceExt as _;

use crate::{cluster::Place, error::Error, output, view::status::paused};

/// For `--help`.
pub(crate) const EXAMPLES: &str = "Examples:
  kubectl workerapp restart shop
  kubectl workerapp restart shop && kubectl rollout status deployment/shop";

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
    let owned = deployment.is_some_and(|deployment| {
        deployment.owner_references().iter().any(|owner| Some(&owner.uid) == uid.as_ref())
    });
    if !owned {
        return Err(Error::NoDeployment { name });
    }
    cluster.restart(&cluster.namespace, &name).await?;
    output::print(&format!("workerapp.{}/{name} restarted\n", workerapp_api::names::GROUP))?;
    if paused(&app) {
        output::note("it is paused; new pods come all the same, since Kubernetes makes them");
    }
    Ok(ExitCode::SUCCESS)
}
