//! `pause` and `resume`: the annotation by which the operator leaves an app's objects alone.

use std::process::ExitCode;

use clap::Args;
use kube::ResourceExt as _;
use workerapp_api::names;

use crate::{cluster::Place, error::Error, output};

/// For `--help`.
pub(crate) const EXAMPLES: &str = "Examples:
  kubectl workerapp pause shop     # then edit the Deployment by hand
  kubectl workerapp resume shop    # the operator makes it what the spec says again";

#[derive(Args)]
pub(crate) struct Arguments {
    /// The app
    #[arg(value_name = "APP")]
    name: String,
}

/// Sets the annotation to `value`, or removes it.
pub(crate) async fn run(
    arguments: &Arguments,
    place: &Place,
    value: Option<&str>,
) -> Result<ExitCode, Error> {
    let cluster = place.connect().await?;
    let app = cluster.app(&arguments.name).await?;
    let annotated = app.annotations().get(names::ANNOTATION_PAUSED).is_some_and(|set| set == "true");
    let done = match (value.is_some(), annotated) {
        (true, true) => "already paused",
        (false, false) => "not paused",
        (true, false) => "paused",
        (false, true) => "resumed",
    };
    if value.is_some() != annotated {
        cluster.annotate(&app.name_any(), names::ANNOTATION_PAUSED, value).await?;
    }
    if value.is_none() && app.spec.paused == Some(true) {
        return Err(Error::PausedBySpec { name: app.name_any() });
    }
    output::print(&format!("workerapp.{}/{} {done}\n", names::GROUP, app.name_any()))?;
    Ok(ExitCode::SUCCESS)
}
