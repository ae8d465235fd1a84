//! How fast an app gets its pods after a step of load: the same app on CPU, on requests in flight and on the event loop,
//! interleaved, each trial in a namespace of its own.
//!
//! - [`signal`]: what the app scales on
//! - [`trial`]: load, and what happens meanwhile
//! - [`share`]: what of the load each pod got
//! - [`chart`]: pods over time, as SVG

mod chart;
mod share;
mod signal;
mod trial;

use std::{fs, io::Write as _, path::PathBuf, time::Duration};

use anyhow::{Context as _, Result};
use clap::Parser;
use workerapp_bench::statistics::median;

use crate::{signal::Signal, trial::Trial};

/// Measures how fast an app gets its pods after a step of load, by the signal that it scales on.
#[derive(Debug, Parser)]
pub(crate) struct Arguments {
    /// Where the results are written: PATH.json and PATH.svg.
    #[arg(long, value_name = "PATH")]
    output: PathBuf,
    /// How many trials of each signal.
    #[arg(long, default_value = "2")]
    rounds: u32,
    /// Which signals, of cpu, in-flight and event-loop.
    #[arg(long, value_enum, value_delimiter = ',', default_value = "cpu,in-flight,event-loop")]
    signals: Vec<Signal>,
    /// Seconds of the low load.
    #[arg(long, default_value = "20")]
    low: u64,
    /// Seconds of the high load.
    #[arg(long, default_value = "90")]
    high: u64,
    /// Clients keep their connections, and each ends after so many requests; 0: never. Default: a connection for each request.
    #[arg(long, value_name = "REQUESTS")]
    keep_alive: Option<u32>,
    /// CPU time of one request, in milliseconds.
    #[arg(long, default_value = "5")]
    work: u32,
    /// The pods' CPU limit and request, in thousandths.
    #[arg(long, default_value = "200")]
    cpu: u32,
}

impl Arguments {
    /// Requests per second that one pod can answer.
    fn capacity(&self) -> f64 {
        f64::from(self.cpu) / f64::from(self.work)
    }
}

#[tokio::main]
async fn main() -> Result<()> {
    let arguments = Arguments::parse();
    let mut trials = Vec::new();
    for round in 0..arguments.rounds {
        for signal in &arguments.signals {
            let trial = Box::pin(trial::run(&arguments, *signal, round)).await?;
            let mut out = std::io::stderr();
            writeln!(out, "round {} {}: {}", round + 1, signal.name(), line(&trial))?;
            trials.push(trial);
            // What there is, should a later trial fail.
            write(&arguments, &trials)?;
        }
    }
    let mut out = std::io::stdout();
    writeln!(
        out,
        "signal       decided s  ready s  failed  slow  pod-seconds  changes after 60 s  least share %   (medians of {})",
        arguments.rounds
    )?;
    for signal in &arguments.signals {
        let of = |number: fn(&Trial) -> Option<f64>| {
            let of_signal = trials.iter().filter(|trial| trial.signal == signal.name());
            let values: Vec<f64> = of_signal.filter_map(number).collect();
            median(&values).map_or_else(|| "-".to_owned(), |median| format!("{median:.1}"))
        };
        writeln!(
            out,
            "{:<12} {:>9}  {:>7}  {:>6}  {:>4}  {:>11}  {:>18}  {:>13}",
            signal.name(),
            of(|trial| trial.decided),
            of(|trial| trial.ready),
            of(|trial| Some(trial.failed)),
            of(|trial| Some(trial.slow)),
            of(|trial| Some(trial.pod_seconds)),
            of(|trial| Some(trial.late_changes)),
            of(|trial| trial.least_share_percent),
        )?;
    }
    Ok(())
}

fn line(trial: &Trial) -> String {
    let seconds = |time: Option<f64>| time.map_or_else(|| "never".to_owned(), |time| format!("{time:.1} s"));
    format!(
        "decided {}, three pods ready {}, failed {}, slow {} of {}",
        seconds(trial.decided),
        seconds(trial.ready),
        trial.failed,
        trial.slow,
        trial.requests
    )
}

fn write(arguments: &Arguments, trials: &[Trial]) -> Result<()> {
    let file = |extension| arguments.output.with_extension(extension);
    let json = serde_json::json!({
        "low_seconds": arguments.low, "high_seconds": arguments.high,
        "pod_capacity_per_second": arguments.capacity(), "trials": trials,
    });
    fs::write(file("json"), serde_json::to_vec_pretty(&json)?).context("the results can't be written")?;
    let high = Duration::from_secs(arguments.high);
    fs::write(file("svg"), chart::svg(trials, high)).context("the chart can't be written")
}
