//! `doctor`: looks at everything, and says what doesn't work and what to do.

use std::process::ExitCode;

use clap::Args;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec,
};

use crate::{
    cluster::{Cluster, Place, Scope},
    error::Error,
    look::Look,
    output::{self, Color, Format},
    view::check::{self, Evidence, Unread},
};

/// For `--help`.
pub(crate) const EXAMPLES: &str = "Examples:
  kubectl workerapp doctor
  kubectl workerapp doctor -A -o json
  kubectl workerapp doctor -n shop || echo 'something is wrong'";

/// Apps that are looked at together.
const AT_ONCE: usize = 4;

/// What the commands of this program do: verb, group, resource, subresource.
const NEEDS: [(&str, &str, &str, &str); 8] = [
    ("list", "workerapp.dev", "workerapps", ""),
    ("list", "apps", "deployments", ""),
    ("list", "autoscaling", "horizontalpodautoscalers", ""),
    ("list", "", "services", ""),
    ("list", "", "pods", ""),
    ("get", "", "pods", "proxy"),
    ("get", "", "pods", "log"),
    ("list", "events.k8s.io", "events", ""),
];

#[derive(Args)]
pub(crate) struct Arguments {
    /// The form of the result
    #[arg(short, long, value_enum, value_name = "FORM")]
    output: Option<Format>,
    /// When colours are used
    #[arg(long, value_enum, value_name = "WHEN", default_value_t)]
    color: Color,
}

pub(crate) async fn run(arguments: &Arguments, place: &Place) -> Result<ExitCode, Error> {
    let cluster = place.connect().await?;
    let results = check::all(&gather(&cluster).await);
    let text = match arguments.output.unwrap_or_default() {
        Format::Text | Format::Wide => check::text(&results, arguments.color.wanted()),
        Format::Name => {
            output::lines(results.iter().map(|result| format!("{} {}", result.code, result.state)))
        }
        format => output::structured(format, &results)?,
    };
    output::print(&text)?;
    Ok(if check::failed(&results) { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Nothing that can't be read ends the gathering: that is what is to be told.
async fn gather(cluster: &Cluster) -> Evidence {
    let version = cluster.version().await;
    // Nothing else is worth waiting for then.
    if let Err(error) = version {
        return Evidence {
            version: Err(error.to_string()),
            definition: Err(Unread::NoServer),
            operators: Err(Unread::NoServer),
            metrics: Err(Unread::NoServer),
            denied: Err(Unread::NoServer),
            looks: Err(Unread::NoServer),
        };
    }
    Evidence {
        version: version.map(|info| (info.major, info.minor)).map_err(|error| error.to_string()),
        definition: cluster.definition().await.map_err(Unread::from),
        operators: cluster.operators().await.map_err(Unread::from),
        metrics: cluster.offers("metrics.k8s.io").await.map_err(Unread::from),
        denied: denied(cluster).await.map_err(Unread::from),
        looks: looks(cluster).await.map_err(Unread::from),
    }
}

async fn looks(cluster: &Cluster) -> Result<Vec<Look>, Error> {
    let nodes = cluster.nodes().await?;
    let apps = cluster.apps().await?;
    stream::iter(apps.into_iter().map(|app| cluster.look(app, nodes.clone())))
        .buffered(AT_ONCE)
        .try_collect()
        .await
}

async fn denied(cluster: &Cluster) -> Result<Vec<String>, Error> {
    let mut denied = Vec::new();
    for (verb, group, resource, subresource) in NEEDS {
        let namespace = match &cluster.scope {
            Scope::All => None,
            Scope::Namespace(name) => Some(name.clone()),
        };
        let attributes = ResourceAttributes {
            namespace,
            verb: Some(verb.into()),
            group: Some(group.into()),
            resource: Some(resource.into()),
            subresource: Some(subresource.to_owned()).filter(|name| !name.is_empty()),
            ..ResourceAttributes::default()
        };
        let spec = SelfSubjectAccessReviewSpec {
            resource_attributes: Some(attributes),
            ..SelfSubjectAccessReviewSpec::default()
        };
        if !cluster.may(SelfSubjectAccessReview { spec, ..SelfSubjectAccessReview::default() }).await? {
            let slash = if subresource.is_empty() { "" } else { "/" };
            denied.push(format!("{verb} {resource}{slash}{subresource}"));
        }
    }
    Ok(denied)
}
