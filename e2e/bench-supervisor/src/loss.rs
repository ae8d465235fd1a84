//! Requests that fail while workers are replaced, and while they are killed.

use crate::arguments::Effort;
use crate::contender::{Contender, Setup};
use crate::http;
use crate::measure::{self, Case};
use crate::progress;
use crate::results::Results;
use crate::server::Server;
use anyhow::{Context, Result};
use rustix::process::{Pid, Signal, kill_process};
use serde::Serialize;
use std::collections::BTreeMap;
use std::thread;
use std::time::{Duration, Instant};
use workerapp_bench::{Arrivals, Control, Failure, Load, Plan, Report};

/// Clients of each kind, and requests per second that they make together: with both kinds, less than one worker can do.
const CLIENTS: usize = 8;
const PER_SECOND: f64 = 300.0;
/// Longer than anyone waits for a page.
const TIMEOUT: Duration = Duration::from_secs(8);
const REPLACED: Duration = Duration::from_secs(40);
/// A run ends by itself after so long, whatever happens.
const LONGEST: Duration = Duration::from_mins(5);

/// What happens to the workers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Disturbance {
    RollingRestarts,
    Kills,
}

impl Disturbance {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::RollingRestarts => "rolling restarts",
            Self::Kills => "kill -9",
        }
    }
}

/// What clients of one kind saw.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Clients {
    pub(crate) answered: u64,
    /// Failed for good, or never sent because all clients waited.
    pub(crate) failed: u64,
    pub(crate) failures: BTreeMap<Failure, u64>,
    /// Requests that found their kept connection closed and succeeded on a new one.
    pub(crate) retried: u64,
    pub(crate) p99_ms: f64,
    pub(crate) longest_ms: f64,
}

impl From<&Report> for Clients {
    fn from(report: &Report) -> Self {
        Self {
            answered: report.counts.answered,
            failed: report.counts.failed + report.counts.dropped,
            failures: report.failures.clone(),
            retried: report.counts.reconnects,
            p99_ms: report.quantile_ms(0.99),
            longest_ms: report.quantile_ms(1.0),
        }
    }
}

/// The outcome for one contender.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Loss {
    pub(crate) contender: Contender,
    pub(crate) disturbance: Disturbance,
    pub(crate) times: u32,
    /// A connection for each request.
    pub(crate) short: Clients,
    pub(crate) kept: Clients,
    /// Mean time until new connections met new workers only, in milliseconds.
    pub(crate) replaced_ms: f64,
    /// Why it ended early.
    pub(crate) problem: Option<String>,
}

pub(crate) fn measure(
    setup: &Setup,
    effort: &Effort,
    random: &mut fastrand::Rng,
    results: &mut Results,
) -> Result<()> {
    let mut contenders = [Contender::Cluster, Contender::Pm2, Contender::Ours];
    random.shuffle(&mut contenders);
    for disturbance in [Disturbance::RollingRestarts, Disturbance::Kills] {
        for contender in contenders {
            progress(&format!(
                "loss: {} times {} of {}",
                effort.disturbances,
                disturbance.name(),
                contender.name()
            ))?;
            results.losses.push(one(setup, effort, contender, disturbance)?);
        }
    }
    Ok(())
}

fn one(setup: &Setup, effort: &Effort, contender: Contender, disturbance: Disturbance) -> Result<Loss> {
    let server = Server::start(setup, contender)?;
    let clients = |keep_alive, seed| -> Result<Plan> {
        let case = Case { handler_ms: 1, keep_alive, load_percent: None };
        let load = Load::Rate { per_second: PER_SECOND, arrivals: Arrivals::Random { seed } };
        let plan = measure::plan(server.port, case, CLIENTS, load)?;
        Ok(Plan { timeout: TIMEOUT, duration: LONGEST, ..plan })
    };
    let (short, kept) = (clients(false, 1)?, clients(true, 2)?);
    let control = Control::default();
    let (short, kept, replaced) = thread::scope(|scope| {
        let [short, kept] = [&short, &kept].map(|plan| scope.spawn(|| workerapp_bench::run(plan, &control)));
        let replaced = disturb(setup, effort, &server, disturbance);
        // What is on its way may come to its end, or to its timeout.
        thread::sleep(effort.calm);
        control.stop();
        (short.join(), kept.join(), replaced)
    });
    let report = |joined: thread::Result<Result<Report, workerapp_bench::Error>>| {
        joined.map_err(|_| anyhow::anyhow!("a client died"))?.context("a client failed")
    };
    let (replaced, problem) = match replaced {
        Ok(replaced) => (replaced, None),
        Err(error) => (Duration::ZERO, Some(format!("{error:#}"))),
    };
    Ok(Loss {
        contender,
        disturbance,
        times: effort.disturbances,
        short: (&report(short)?).into(),
        kept: (&report(kept)?).into(),
        replaced_ms: replaced.as_secs_f64() * 1000.0 / f64::from(effort.disturbances),
        problem,
    })
}

/// Disturbs the server, each time after a calm, and says how long all replacements took.
fn disturb(setup: &Setup, effort: &Effort, server: &Server, disturbance: Disturbance) -> Result<Duration> {
    let mut replaced = Duration::ZERO;
    for _ in 0..effort.disturbances {
        thread::sleep(effort.calm);
        let before = http::workers(server.port);
        let begun = Instant::now();
        match disturbance {
            Disturbance::RollingRestarts => {
                setup.roll(server)?;
                let all_new = |now: &[String]| {
                    now.len() == before.len() && now.iter().all(|name| !before.contains(name))
                };
                server.wait_until(REPLACED, all_new)?;
            }
            Disturbance::Kills => {
                let victim = before.first().context("no worker answers")?;
                kill_process(worker_pid(victim)?, Signal::KILL)?;
                server.wait_until(REPLACED, |now| now.len() == before.len() && !now.contains(victim))?;
            }
        }
        replaced += begun.elapsed();
    }
    Ok(replaced)
}

/// Workers call themselves PID-THREAD.
fn worker_pid(name: &str) -> Result<Pid> {
    let pid = name.split('-').next().and_then(|text| text.parse().ok()).and_then(Pid::from_raw);
    pid.with_context(|| format!("{name:?} names no process"))
}
