//! Requests that fail while workers are replaced, killed, added and taken away.

use crate::arguments::Effort;
use crate::cgroup::Cgroup;
use crate::contender::{Contender, Setup};
use crate::http;
use crate::measure::{self, Case};
use crate::progress;
use crate::results::Results;
use crate::server::Server;
use anyhow::{Context, Result, ensure};
use rustix::process::{Pid, Signal, kill_process};
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};
use workerapp_bench::row;
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
/// How often it is looked whether a worker is gone.
const GONE: Duration = Duration::from_millis(20);
/// A run ends by itself after so long, whatever happens.
const LONGEST: Duration = Duration::from_mins(5);

/// What happens to the workers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Disturbance {
    RollingRestarts,
    Kills,
    /// Of the CPU limit and the number of workers: 1, 2, 1.
    Resize,
}

impl Disturbance {
    pub(crate) const ALL: [Self; 3] = [Self::RollingRestarts, Self::Kills, Self::Resize];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::RollingRestarts => "rolling restarts",
            Self::Kills => "kill -9",
            Self::Resize => "resize 1-2-1",
        }
    }

    fn times(self, effort: &Effort) -> u32 {
        match self {
            Self::RollingRestarts | Self::Kills => effort.disturbances,
            Self::Resize => 1,
        }
    }

    /// At the begin.
    fn workers(self, contender: Contender) -> usize {
        match self {
            Self::RollingRestarts | Self::Kills => contender.workers(),
            Self::Resize => 1,
        }
    }

    /// Why it can't be done to a contender.
    fn impossible_for(self, contender: Contender) -> Option<&'static str> {
        match (self, contender) {
            (Self::Kills, Contender::Watt) => Some("its workers are threads: none can be killed alone"),
            (Self::Resize, Contender::Watt) => Some("has no command for it, only a policy of its own"),
            (Self::Resize, Contender::Cluster) => Some("has no command for it: the app's code would have to"),
            _ => None,
        }
    }
}

/// What was not done to a contender.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Omission {
    pub(crate) contender: Contender,
    pub(crate) disturbance: Disturbance,
    pub(crate) why: String,
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
    /// Mean time until new connections met those workers only that were to be there, in milliseconds.
    pub(crate) took_ms: f64,
    /// Why it ended early.
    pub(crate) problem: Option<String>,
}

impl Loss {
    pub(crate) fn head(what: &str) -> Vec<String> {
        row![
            what,
            "planned/s",
            "short ok",
            "failed",
            "p99 ms",
            "max ms",
            "kept ok",
            "failed",
            "retried",
            "p99 ms",
            "max ms",
            "took ms",
            "remarks"
        ]
    }

    pub(crate) fn row(&self) -> Vec<String> {
        let ms = |ms: f64| format!("{ms:.0}");
        let (short, kept) = (&self.short, &self.kept);
        let both = [("short", short), ("kept", kept)];
        let kinds = both.into_iter().flat_map(|(name, clients)| {
            clients.failures.iter().map(move |(kind, n)| format!("{name} {}: {n}", kind.name()))
        });
        let unsent = both.into_iter().filter(|(_, clients)| clients.unsent > 0);
        let unsent = unsent.map(|(name, clients)| format!("{name} unsent: {}", clients.unsent));
        let remarks: Vec<String> = kinds.chain(unsent).chain(self.problem.clone()).collect();
        row![
            self.contender.name(),
            format!("2 x {:.0}", self.requests_per_second),
            short.answered,
            short.failed,
            ms(short.p99_ms),
            ms(short.longest_ms),
            kept.answered,
            kept.failed,
            kept.retried,
            ms(kept.p99_ms),
            ms(kept.longest_ms),
            ms(self.took_ms),
            remarks.join(", ")
        ]
    }
}

impl Omission {
    pub(crate) fn row(&self) -> Vec<String> {
        let mut row = vec![String::from("-"); Loss::head("").len()];
        if let Some(name) = row.first_mut() {
            self.contender.name().clone_into(name);
        }
        if let Some(remarks) = row.last_mut() {
            remarks.clone_from(&self.why);
        }
        row
    }
}

pub(crate) fn measure(
    setup: &Setup,
    effort: &Effort,
    random: &mut fastrand::Rng,
    results: &mut Results,
) -> Result<()> {
    let mut contenders = [Contender::Cluster, Contender::Pm2, Contender::Watt, Contender::Ours];
    random.shuffle(&mut contenders);
    for disturbance in Disturbance::ALL {
        for contender in contenders {
            let workers = disturbance.workers(contender);
            let cgroup = (disturbance == Disturbance::Resize)
                .then(|| Cgroup::make("resized", Some(workers)).map_err(|e| format!("{e:#}")));
            let why = match (disturbance.impossible_for(contender), &cgroup) {
                (Some(why), _) => Some(why.to_owned()),
                (None, Some(Err(why))) => Some(why.clone()),
                (None, _) => None,
            };
            if let Some(why) = why {
                results.omissions.push(Omission { contender, disturbance, why });
                continue;
            }
            let times = disturbance.times(effort);
            progress(&format!("loss: {times} times {} of {}", disturbance.name(), contender.name()))?;
            let cgroup = cgroup.and_then(Result::ok);
            results.losses.push(one(setup, effort, contender, disturbance, cgroup.as_ref())?);
        }
    }
    Ok(())
}

fn one(
    setup: &Setup,
    effort: &Effort,
    contender: Contender,
    disturbance: Disturbance,
    cgroup: Option<&Cgroup>,
) -> Result<Loss> {
    let workers = disturbance.workers(contender);
    let server = Server::start_with(setup, contender, workers, cgroup)?;
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
    let (short, kept, took) = thread::scope(|scope| {
        let [short, kept] = [&short, &kept].map(|plan| scope.spawn(|| workerapp_bench::run(plan, &control)));
        let took = disturb(setup, effort, &server, disturbance, cgroup);
        // What is on its way may come to its end, or to its timeout.
        thread::sleep(effort.calm);
        control.stop();
        (short.join(), kept.join(), took)
    });
    let report = |joined: thread::Result<Result<Report, workerapp_bench::Error>>| {
        joined.map_err(|_| anyhow::anyhow!("a client died"))?.context("a client failed")
    };
    let (took, problem) = match took {
        Ok(took) => (took, None),
        Err(error) => (Duration::ZERO, Some(format!("{error:#}"))),
    };
    Ok(Loss {
        contender,
        disturbance,
        times: disturbance.times(effort),
        requests_per_second: per_second,
        short: (&report(short)?).into(),
        kept: (&report(kept)?).into(),
        took_ms: took.as_secs_f64() * 1000.0 / f64::from(disturbance.times(effort)),
        problem,
    })
}

/// Disturbs the server, each time after a calm, and says how long all of it took.
fn disturb(
    setup: &Setup,
    effort: &Effort,
    server: &Server,
    disturbance: Disturbance,
    cgroup: Option<&Cgroup>,
) -> Result<Duration> {
    let mut took = Duration::ZERO;
    for _ in 0..disturbance.times(effort) {
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
            Disturbance::Resize => {
                resize(setup, server, cgroup, 2)?;
                let both = http::workers(server.port);
                resize(setup, server, cgroup, 1)?;
                let left = http::workers(server.port);
                let gone: Vec<&String> = both.iter().filter(|name| !left.contains(name)).collect();
                until_ended(&gone)?;
            }
        }
        took += begun.elapsed();
    }
    Ok(took)
}

/// Changes the CPU limit, tells those that do not look by themselves, and waits until so many workers answer.
fn resize(setup: &Setup, server: &Server, cgroup: Option<&Cgroup>, workers: usize) -> Result<()> {
    if let Some(cgroup) = cgroup {
        cgroup.set_cpus(workers)?;
    }
    setup.scale(server, workers)?;
    server.wait_until(REPLACED, |names| names.len() == workers).map(|_| ())
}

/// A worker that gets no new connections may still have old ones to lose.
fn until_ended(workers: &[&String]) -> Result<()> {
    let begun = Instant::now();
    for worker in workers {
        let pid = worker_pid(worker)?.as_raw_nonzero();
        while Path::new(&format!("/proc/{pid}")).exists() {
            ensure!(begun.elapsed() < REPLACED, "worker {worker} doesn't end");
            thread::sleep(GONE);
        }
    }
    Ok(())
}

/// Workers call themselves PID-THREAD.
fn worker_pid(name: &str) -> Result<Pid> {
    let pid = name.split('-').next().and_then(|text| text.parse().ok()).and_then(Pid::from_raw);
    pid.with_context(|| format!("{name:?} names no process"))
}
