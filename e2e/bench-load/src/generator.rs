//! Load generators: ours, in this process, and others as they are installed.

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;
use workerapp_bench::import::{Source, read};
use workerapp_bench::results::{Figures, Latency, Quantile, Run};
use workerapp_bench::{Arrivals, Control, Load, Plan, Target, Template};

pub(crate) const OURS: &str = "workerapp";
pub(crate) const WRK: &str = "wrk";
pub(crate) const AUTOCANNON: &str = "autocannon";
pub(crate) const OHA: &str = "oha";

/// A generator.
#[derive(Debug, Clone)]
pub(crate) struct Generator {
    pub(crate) name: &'static str,
    /// None: this process.
    program: Option<PathBuf>,
}

/// What it is to do, with one thread.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Task {
    pub(crate) address: SocketAddr,
    pub(crate) connections: usize,
    pub(crate) seconds: u64,
    /// None: as much as the server answers.
    pub(crate) rate: Option<u32>,
}

/// Ours and those whose programs were given; wrk first, since others are compared with it.
pub(crate) fn available(
    wrk: Option<&PathBuf>,
    autocannon: Option<&PathBuf>,
    oha: Option<&PathBuf>,
) -> Vec<Generator> {
    let others = [(WRK, wrk), (OHA, oha), (AUTOCANNON, autocannon)];
    let mut all: Vec<Generator> = others
        .into_iter()
        .filter_map(|(name, program)| Some(Generator { name, program: Some(program?.clone()) }))
        .collect();
    all.insert(all.len().min(1), Generator { name: OURS, program: None });
    all
}

impl Generator {
    /// Name and version, if it tells.
    pub(crate) fn version(&self) -> Option<(String, String)> {
        let flag = if self.name == WRK { "-v" } else { "--version" };
        let output = Command::new(self.program.as_ref()?).arg(flag).output().ok()?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        Some((self.name.to_owned(), text.lines().next()?.trim().to_owned()))
    }

    /// One run. Warms up by itself: ours within its plan, the others by what they are.
    pub(crate) fn run(&self, task: Task) -> Result<Run> {
        let Some(program) = &self.program else { return ours(task) };
        let url = format!("http://{}/", task.address);
        let (seconds, connections) = (task.seconds.to_string(), task.connections.to_string());
        let mut command = Command::new(program);
        match self.name {
            WRK => command.args(["--latency", "-t1", "-c", &connections, "-d", &seconds, &url]),
            OHA => {
                let length = format!("{seconds}s");
                command.env("TOKIO_WORKER_THREADS", "1");
                command.args(["--no-tui", "--output-format", "json", "-c", &connections, "-z", &length, &url])
            }
            _ => command.args(["--json", "--no-progress", "-c", &connections, "-d", &seconds]),
        };
        if self.name == AUTOCANNON {
            if let Some(rate) = task.rate {
                command.args(["-R", &rate.to_string()]);
            }
            command.arg(&url);
        }
        let output = command.output().with_context(|| format!("{} can't be started", program.display()))?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let errors = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "{} failed: {text}{errors}", self.name);
        if self.name == OHA {
            return oha(&text, task);
        }
        let source = Source { name: self.name.to_owned(), path: self.name.to_owned(), text };
        let mut runs = read(&source).with_context(|| format!("what {} printed", self.name))?;
        ensure!(runs.len() == 1, "{} printed {} runs", self.name, runs.len());
        Ok(runs.remove(0))
    }
}

/// The report of our engine, for what isn't in a [`Run`].
pub(crate) fn plan(task: Task) -> Result<Plan> {
    let target = Target::parse(&format!("http://{}/", task.address))?;
    let request = Template::default().build(&target, true)?;
    let load = task
        .rate
        .map_or(Load::Capacity, |rate| Load::Rate { per_second: rate.into(), arrivals: Arrivals::Even });
    Ok(Plan {
        load,
        connections: task.connections,
        warm_up: Duration::ZERO,
        duration: Duration::from_secs(task.seconds),
        ..Plan::new(vec![task.address], request)
    })
}

fn ours(task: Task) -> Result<Run> {
    let plan = plan(task)?;
    let report = workerapp_bench::run(&plan, &Control::default())?;
    Ok(Run::of(&plan, &report))
}

/// oha's JSON; seconds.
fn oha(text: &str, task: Task) -> Result<Run> {
    let value: Value = serde_json::from_str(text).context("what oha printed")?;
    let number =
        |path: &str| value.pointer(path).and_then(Value::as_f64).with_context(|| format!("oha: no {path}"));
    let quantile = |(name, percent): (&str, f64)| {
        Some(Quantile {
            percent,
            ms: value.pointer(&format!("/latencyPercentiles/{name}"))?.as_f64()? * 1000.0,
        })
    };
    let latency = Latency {
        mean_ms: number("/summary/average")? * 1000.0,
        max_ms: Some(number("/summary/slowest")? * 1000.0),
        quantiles: [("p50", 50.0), ("p90", 90.0), ("p99", 99.0)].into_iter().filter_map(quantile).collect(),
        ..Latency::default()
    };
    let figures = Figures {
        elapsed_seconds: number("/summary/total")?,
        requests_per_second: number("/summary/requestsPerSec")?,
        latency: Some(latency),
        ..Figures::default()
    };
    Ok(Run { connections: u64::try_from(task.connections).ok(), figures, ..Run::default() })
}
