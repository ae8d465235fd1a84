//! `bench`: finds servers, measures them in turns, and says what can be told.
//!
//! The load, the order, the gates and the comparison are the crate `workerapp-bench`; here are the targets and what is seen at them.
//!
//! - `flags`: the command line → a campaign
//! - `targets`: Services and URLs
//! - `job`: the load from inside the cluster
//! - `suite`: apps that are made for a measurement
//! - `watch`: progress
//! - `observe`: what the cluster says of the pods before, while and after each run
//! - `events`: the moments of a run inside the cluster, for the observer outside
//! - `write`: reports

mod events;
mod flags;
mod job;
mod observe;
mod suite;
mod targets;
mod watch;
mod write;

use std::{path::PathBuf, process::ExitCode};

use clap::{Args, Subcommand};
use tokio::signal::unix::{SignalKind, signal};
use workerapp_bench::{
    Stop,
    campaign::Campaign,
    results::{Provenance, Results},
};

use crate::{cluster::Place, error::Error, output};
use flags::LoadFlags;
use job::JobFlags;
pub(crate) use suite::SuiteError;
use write::ReportFlags;

/// For `--help`.
pub(crate) const EXAMPLES: &str = "Examples:
  kubectl workerapp bench                                   # all annotated Services of the namespace
  kubectl workerapp bench -A --preset watt
  kubectl workerapp bench --service next --service next-workers -c 50,500
  kubectl workerapp bench old=http://10.0.0.7:30000 new=http://10.0.0.7:30001 --rate 500
  kubectl workerapp bench http://localhost:3000 -d 10s --rounds 1
  kubectl workerapp bench --service next --search 'p99<50ms'
  kubectl workerapp bench https://shop.example --http2 --streams 10
  kubectl workerapp bench --preset wrk-ladder --report result.json --report result.html
  kubectl workerapp bench --in-cluster --preset cloudgate
  kubectl workerapp bench import autocannon.json wrk.txt
  kubectl workerapp bench --suite config/suites/next/suite.yaml --report next.json
  kubectl workerapp bench performance config/suites/next/suite.yaml=next.json > PERFORMANCE.md

Without --rate each connection sends its next request when it has an answer (a closed loop: what a server can do). With \
  --rate requests are sent at planned times, from which latencies count (an open loop: what users would feel). With \
  --search such rates double until the promise is broken, and close in on the highest one at which it was kept (to 5 %). \
  Several targets are measured in turns, in random order, and compared in pairs.

Exit status: 0; 1: an error; 3: a run can't be believed, and the report says why; 130: stopped by Ctrl-C, after a partial report.";

/// A run can't be believed.
const INVALID: u8 = 3;
/// Stopped by Ctrl-C, as shells have it.
const INTERRUPTED: u8 = 130;

#[derive(Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    other: Option<Other>,
    /// URLs, or NAME=URL; default: the Services with the annotation benchmark.platformatic.dev/expose: "true"
    #[arg(value_name = "URL")]
    targets: Vec<String>,
    /// Only this annotated Service; repeatable
    #[arg(long, value_name = "NAME", conflicts_with = "targets")]
    service: Vec<String>,
    /// The port of the Services, by its name; default: app, else the first
    #[arg(long, value_name = "NAME", conflicts_with = "targets")]
    port_name: Option<String>,
    /// The path that is asked for at Services
    #[arg(long, value_name = "PATH", default_value = "/")]
    path: String,
    #[command(flatten)]
    load: LoadFlags,
    #[command(flatten)]
    job: JobFlags,
    #[command(flatten)]
    suite: suite::SuiteFlags,
    #[command(flatten)]
    report: ReportFlags,
}

#[derive(Subcommand)]
enum Other {
    /// Read results of autocannon, wrk, k6 or this program, and compare them
    Import(Import),
    /// Write a page about the results of suites: tables, ratios, what others published
    Performance(suite::performance::Performance),
}

#[derive(Args)]
struct Import {
    /// Files: JSON or text of autocannon, text of wrk, JSON of k6; or NAME=FILE
    #[arg(value_name = "FILE", required = true)]
    files: Vec<String>,
    #[command(flatten)]
    report: ReportFlags,
}

pub(crate) async fn run(arguments: &Arguments, place: &Place) -> Result<ExitCode, Error> {
    match &arguments.other {
        Some(Other::Import(import)) => return self::import(import),
        Some(Other::Performance(performance)) => return performance.run(),
        None => {}
    }
    if let Some(file) = &arguments.suite.suite {
        return Box::pin(suite::run(file, arguments, place)).await;
    }
    // Flags are looked at before anything is asked.
    let settings = arguments.load.settings()?;
    if let Some(file) = arguments.load.ca.as_ref().filter(|_| arguments.job.in_cluster) {
        let allowed =
            "with --in-cluster the load comes from a pod, which doesn't have this file; use --insecure";
        let value = file.display().to_string();
        return Err(Error::Flag { flag: "ca", value, allowed: allowed.to_owned() });
    }
    let found = targets::find(arguments, place).await?;
    let campaign = settings.campaign(&found.targets)?;
    campaign.check()?;

    let mut provenance =
        Provenance::here("kubectl-workerapp", env!("CARGO_PKG_VERSION"), Some(campaign.seed));
    provenance.versions.extend(found.versions.clone());
    for target in &found.targets {
        output::note(&target.told());
    }
    output::note(&format!("{}, seed {}", output::counted(campaign.turns().len(), "run"), campaign.seed));

    let results = match (&found.cluster, arguments.job.in_cluster) {
        (Some(cluster), true) => {
            let words = arguments.load.words(campaign.seed, campaign.rounds);
            let job = job::Task { targets: &found.targets, load: &words, threads: settings.threads() };
            match job::measure(&arguments.job, cluster, job).await? {
                Ok(results) => results,
                Err(code) => return Ok(code),
            }
        }
        _ => here(campaign, provenance, found, arguments.job.events, None).await?,
    };
    arguments.report.write(&results)?;
    Ok(exit_code(&results))
}

fn exit_code(results: &Results) -> ExitCode {
    match () {
        () if results.provenance.interrupted => ExitCode::from(INTERRUPTED),
        () if results.runs.iter().any(|run| !run.is_valid()) => ExitCode::from(INVALID),
        () => ExitCode::SUCCESS,
    }
}

/// Measures from this machine. `events`: somebody else looks at the pods; `left`: what to tell when it has to end at once.
async fn here(
    campaign: Campaign,
    provenance: Provenance,
    found: targets::Found,
    events: bool,
    left: Option<String>,
) -> Result<Results, Error> {
    let stop = Stop::default();
    let on_interrupt = stop.clone();
    let interrupts = tokio::spawn(async move {
        interrupted().await;
        on_interrupt.stop();
        output::note("stopping; the report will be of what was measured (again: at once)");
        interrupted().await;
        if let Some(left) = left {
            output::note(&left);
        }
        std::process::exit(i32::from(INTERRUPTED));
    });
    let mut watcher = watch::Watch::new(&campaign, found.targets, found.cluster, events);
    // The engine has threads of its own and blocks; what the watcher asks of the cluster is answered by this one.
    let measuring = tokio::task::spawn_blocking(move || campaign.run(provenance, &stop, &mut watcher));
    let results =
        measuring.await.map_err(|_| workerapp_bench::Error::Internal("the campaign ended by itself"))??;
    interrupts.abort();
    Ok(results)
}

/// Waits for Ctrl-C, or for what stands for it where there is no terminal.
async fn interrupted() {
    match signal(SignalKind::terminate()) {
        Ok(mut terminate) => {
            tokio::select! {
                _ = tokio::signal::ctrl_c() => {}
                _ = terminate.recv() => {}
            }
        }
        Err(_) => drop(tokio::signal::ctrl_c().await),
    }
}

fn import(import: &Import) -> Result<ExitCode, Error> {
    let named = import.files.iter().map(|file| match file.split_once('=') {
        Some((name, file)) => (Some(name.to_owned()), PathBuf::from(file)),
        None => (None, PathBuf::from(file)),
    });
    let results = write::imported(&named.collect::<Vec<_>>())?;
    import.report.write(&results)?;
    Ok(ExitCode::SUCCESS)
}
