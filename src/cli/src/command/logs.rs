//! `logs`: what the workers of all pods of an app write.

use std::process::ExitCode;

use clap::Args;
use futures::{AsyncBufReadExt as _, StreamExt as _, TryStreamExt as _, stream};
use k8s_openapi::api::core::v1::Pod;
use kube::{ResourceExt as _, api::LogParams};
use workerapp_api::names;
use workerapp_bench::values;

use crate::{
    cluster::{Cluster, Place},
    error::Error,
    output,
    view::lines,
};

/// For `--help`.
pub(crate) const EXAMPLES: &str = "Examples:
  kubectl workerapp logs shop
  kubectl workerapp logs shop -f --tail 20
  kubectl workerapp logs shop --since 5m
  kubectl workerapp logs shop --worker 2     # needs spec.supervisor.logPrefix: true
  kubectl workerapp logs shop --previous";

#[derive(Args)]
pub(crate) struct Arguments {
    /// The app
    #[arg(value_name = "APP")]
    name: String,
    /// Lines of this worker only, as the supervisor numbers them; needs spec.supervisor.logPrefix
    #[arg(long, value_name = "NUMBER")]
    worker: Option<u32>,
    /// One pod only
    #[arg(long, value_name = "NAME")]
    pod: Option<String>,
    /// Go on with what is written from now on
    #[arg(short, long)]
    follow: bool,
    /// So many of the last lines of each pod
    #[arg(long, value_name = "LINES", value_parser = clap::value_parser!(i64).range(0..))]
    tail: Option<i64>,
    /// What was written so short a time ago, for example 90s or 5m
    #[arg(long, value_name = "DURATION", value_parser = seconds)]
    since: Option<i64>,
    /// Of the containers before their last restart
    #[arg(short, long)]
    previous: bool,
}

/// Kubernetes knows whole seconds.
fn seconds(text: &str) -> Result<i64, String> {
    let duration = values::duration("since", text).map_err(|error| error.to_string())?;
    let begun = u64::from(duration.subsec_nanos() > 0);
    let seconds = i64::try_from(duration.as_secs().saturating_add(begun)).unwrap_or(i64::MAX);
    if seconds > 0 { Ok(seconds) } else { Err("it has to be longer than nothing".into()) }
}

pub(crate) async fn run(arguments: &Arguments, place: &Place) -> Result<ExitCode, Error> {
    let cluster = place.connect().await?;
    let app = cluster.app(&arguments.name).await?;
    let prefixed = app.spec.supervisor.as_ref().and_then(|supervisor| supervisor.log_prefix).unwrap_or(false);
    if arguments.worker.is_some() && !prefixed {
        let allowed = format!(
            "the lines of WorkerApp {} don't say which worker wrote them; set spec.supervisor.logPrefix: true, or leave --worker out",
            arguments.name
        );
        return Err(Error::Flag {
            flag: "worker",
            value: arguments.worker.unwrap_or_default().to_string(),
            allowed,
        });
    }
    let mut pods = cluster.pods(&app).await?;
    if let Some(wanted) = &arguments.pod {
        let known: Vec<_> = pods.iter().map(kube::ResourceExt::name_any).collect();
        pods.retain(|pod| pod.name_any() == *wanted);
        if pods.is_empty() {
            let allowed = format!("no pod of the app; it has {}", known.join(", "));
            return Err(Error::Flag { flag: "pod", value: wanted.clone(), allowed });
        }
    }
    if pods.is_empty() {
        return Err(Error::NoPods { name: app.name_any() });
    }
    let several = pods.len() > 1;
    let streams = pods.iter().map(|pod| one(&cluster, arguments, pod, several));
    let mut streams =
        stream::select_all(futures::future::join_all(streams).await.into_iter().filter_map(heard));
    loop {
        tokio::select! {
            line = streams.next() => match line {
                Some(line) => output::print(&line)?,
                None => return Ok(ExitCode::SUCCESS),
            },
            _ = tokio::signal::ctrl_c() => return Ok(ExitCode::SUCCESS),
        }
    }
}

/// A pod that has no log (yet) keeps nobody from seeing the others'.
fn heard<S>(opened: Result<S, Error>) -> Option<S> {
    opened.inspect_err(|error| output::note(&error.to_string())).ok()
}

async fn one<'a>(
    cluster: &Cluster,
    arguments: &'a Arguments,
    pod: &Pod,
    several: bool,
) -> Result<stream::BoxStream<'a, String>, Error> {
    let params = LogParams {
        container: Some(names::CONTAINER_APP.into()),
        follow: arguments.follow,
        previous: arguments.previous,
        // Of one worker there may be few lines among the last of its pod.
        tail_lines: arguments.tail.filter(|_| arguments.worker.is_none()),
        since_seconds: arguments.since,
        ..LogParams::default()
    };
    let name = several.then(|| pod.name_any());
    let lines = cluster.log(pod, &params).await?.lines().into_stream();
    let shown = lines.filter_map(move |line| {
        let name = name.clone();
        std::future::ready(match line {
            Ok(line) => {
                lines::of_worker(&line, arguments.worker).then(|| lines::named(name.as_deref(), &line))
            }
            Err(error) => Some(format!("({error})\n")),
        })
    });
    Ok(shown.boxed())
}
