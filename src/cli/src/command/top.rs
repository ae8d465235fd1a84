//! `top`: what each worker uses and does, from two looks at the supervisors.

use std::{process::ExitCode, time::Duration};

use clap::Args;
use workerapp_api::WorkerApp;

use crate::{
    cluster::{Cluster, Place, Scope},
    error::Error,
    look::SeenPod,
    output::{self, Format},
    view::top,
};

/// For `--help`.
pub(crate) const EXAMPLES: &str = "Examples:
  kubectl workerapp top shop
  kubectl workerapp top shop --interval 5
  kubectl workerapp top -A -o json

CPU in thousandths of a CPU (1000m is one), LOOP: the part of the time in which Node's event loop is busy, \
  THROTTLED: the part of the CPU limit's periods in which the pod had to wait. -: not known, for instance of programs \
  other than Node, or before a worker's first request.";

#[derive(Args)]
pub(crate) struct Arguments {
    /// The app; default: all of them
    #[arg(value_name = "APP")]
    name: Option<String>,
    /// Seconds between the two looks
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = clap::value_parser!(u16).range(1..=3600))]
    interval: u16,
    /// Look again and again, until Ctrl-C
    #[arg(short, long)]
    watch: bool,
    /// The form of the result
    #[arg(short, long, value_enum, value_name = "FORM")]
    output: Option<Format>,
}

pub(crate) async fn run(arguments: &Arguments, place: &Place) -> Result<ExitCode, Error> {
    let cluster = place.connect().await?;
    let apps = cluster.selected(arguments.name.as_deref()).await?;
    if apps.is_empty() {
        output::note(&cluster.no_apps());
    }
    let mut before = all(&cluster, &apps).await?;
    loop {
        tokio::select! {
            () = tokio::time::sleep(Duration::from_secs(arguments.interval.into())) => {}
            _ = tokio::signal::ctrl_c() => return Ok(ExitCode::SUCCESS),
        }
        let after = all(&cluster, &apps).await?;
        let (mut rows, mut silent) = (Vec::new(), Vec::new());
        for ((app, before), after) in apps.iter().zip(&before).zip(&after) {
            let (found, dumb) = top::rows(app, before, after);
            rows.extend(found);
            silent.extend(dumb);
        }
        for line in silent {
            output::note(&line);
        }
        if rows.is_empty() && !apps.is_empty() {
            let pods = after.iter().any(|pods| !pods.is_empty());
            return Err(nothing(&apps, pods));
        }
        let text = match arguments.output.unwrap_or_default() {
            Format::Text | Format::Wide => top::text(&rows, cluster.scope == Scope::All),
            Format::Name => output::lines(rows.iter().map(|row| format!("{}/{}", row.pod, row.worker))),
            format => output::structured(format, &rows)?,
        };
        output::print(&text)?;
        if !arguments.watch {
            return Ok(ExitCode::SUCCESS);
        }
        output::print("\n")?;
        before = after;
    }
}

fn nothing(apps: &[WorkerApp], pods: bool) -> Error {
    let names: Vec<_> = apps.iter().map(kube::ResourceExt::name_any).collect();
    let name = names.join(", ");
    if pods { Error::NoWorkers { name } } else { Error::NoPods { name } }
}

async fn all(cluster: &Cluster, apps: &[WorkerApp]) -> Result<Vec<Vec<SeenPod>>, Error> {
    let mut seen = Vec::new();
    for app in apps {
        seen.push(cluster.seen_pods(app).await?);
    }
    Ok(seen)
}
