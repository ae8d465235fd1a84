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

/// Clients of each kind.
const CLIENTS: usize = 8;
/// Part of the server's capacity that each kind asks for: one worker must be able to do both while the other is replaced, on a machine that
/// has other things to do as well.
const PART: f64 = 0.15;
/// How long the capacity is looked at.
const LOOK: Duration = Duration::from_secs(1);
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
    /// Failed for good.
    pub(crate) failed: u64,
    /// Never sent, since all clients waited: the server was too slow for this part of its capacity.
    pub(crate) unsent: u64,
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
            failed: report.counts.failed,
            unsent: report.counts.dropped,
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
    /// Planned for each kind of clients.
    pub(crate) requests_per_second: f64,
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
    let case = |keep_alive| Case { handler_ms: 1, keep_alive, load_percent: None };
    let look = measure::plan(server.port, case(true), 2 * CLIENTS, Load::Capacity)?;
    let look = workerapp_bench::run(&Plan { duration: LOOK, ..look }, &Control::default())?;
    let per_second = (look.per_second() * PART).max(1.0);
    let clients = |keep_alive, seed| -> Result<Plan> {
        let load = Load::Rate { per_second, arrivals: Arrivals::Random { seed } };
        let plan = measure::plan(server.port, case(keep_alive), CLIENTS, load)?;
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
        requests_per_second: per_second,
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
