//! One measurement of one server.

use crate::arguments::Effort;
use crate::contender::Contender;
use crate::http::{self, WORKER_HEADER};
use crate::procfs;
use crate::progress;
use crate::results::Results;
use crate::server::Server;
use anyhow::{Context, Result, ensure};
use serde::Serialize;
use std::time::Duration;
use workerapp_bench::{Control, Load, Plan, Report, Target, Template};

/// What is asked of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub(crate) struct Case {
    /// CPU time of the handler, in milliseconds.
    pub(crate) handler_ms: u32,
    /// Kept connections, or one for each request.
    pub(crate) keep_alive: bool,
    /// Percent of the capacity in an open loop; none: a closed loop.
    pub(crate) load_percent: Option<u32>,
}

impl Case {
    pub(crate) fn name(&self) -> String {
        let connections = if self.keep_alive { "keep-alive" } else { "connection per request" };
        let load = self.load_percent.map_or(String::new(), |percent| format!(", {percent} % load"));
        format!("{} ms, {connections}{load}", self.handler_ms)
    }
}

/// Everything with each handler, with kept connections and without.
pub(crate) fn cases(handlers_ms: &[u32], load_percent: Option<u32>) -> Vec<Case> {
    let both = |handler_ms: &u32| {
        [true, false].map(|keep_alive| Case { handler_ms: *handler_ms, keep_alive, load_percent })
    };
    handlers_ms.iter().flat_map(both).collect()
}

/// The figures of a measurement.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Sample {
    pub(crate) contender: Contender,
    pub(crate) case: Case,
    pub(crate) round: u32,
    pub(crate) requests_per_second: f64,
    pub(crate) p50_ms: f64,
    pub(crate) p99_ms: f64,
    /// User and system time of the server's whole tree.
    pub(crate) cpu_us_per_request: f64,
    pub(crate) server_cpus: f64,
    pub(crate) busiest_over_mean: f64,
    /// Requests that failed or could not be sent.
    pub(crate) failed: u64,
    /// Part of the requests that the generator sent over 1 ms late by its own fault.
    pub(crate) late: f64,
    /// CPUs used by what is neither the server nor the generator: noise.
    pub(crate) other_cpus: f64,
    /// Part of a CPU that the busiest thread of the generator used.
    pub(crate) generator: f64,
}

pub(crate) fn plan(port: u16, case: Case, connections: usize, load: Load) -> Result<Plan> {
    let target = Target::parse(&format!("http://127.0.0.1:{port}/{}", case.handler_ms))?;
    let request = Template::default().build(&target, case.keep_alive)?;
    Ok(Plan {
        load,
        connections,
        keep_alive: case.keep_alive,
        // As browsers do; how often stands in a column of its own.
        resend: true,
        warm_up: Duration::ZERO,
        worker_header: Some(WORKER_HEADER.to_owned()),
        ..Plan::new(vec![http::address(port)], request)
    })
}

/// One case in one round.
pub(crate) struct Turn<'a> {
    pub(crate) part: &'a str,
    pub(crate) effort: &'a Effort,
    pub(crate) round: u32,
    pub(crate) case: Case,
    pub(crate) connections: usize,
    pub(crate) load: Load,
}

impl Turn<'_> {
    /// Measures each once, in an order that chance decides.
    pub(crate) fn take<'s>(
        &self,
        servers: impl IntoIterator<Item = &'s Server>,
        random: &mut fastrand::Rng,
        results: &mut Results,
    ) -> Result<()> {
        let Self { part, effort, round, case, connections, load } = *self;
        progress(&format!("{part}, round {round} of {}: {}", effort.rounds, case.name()))?;
        let mut order: Vec<&Server> = servers.into_iter().collect();
        random.shuffle(&mut order);
        for server in order {
            let plan = plan(server.port, case, connections, load)?;
            let plan = Plan { duration: effort.measurement, ..plan };
            results.samples.push(sample(server, case, round, &plan, effort.warm_up)?);
        }
        Ok(())
    }
}

/// On a busy machine a short warm-up may see no answer.
const WARM_UPS: u32 = 20;

/// Warms up, on connections of its own, and measures.
fn sample(server: &Server, case: Case, round: u32, plan: &Plan, warm_up: Duration) -> Result<Sample> {
    let what = || format!("{}, {}", server.contender.name(), case.name());
    let warm_up = Plan { duration: warm_up, ..plan.clone() };
    let mut tries = 0..WARM_UPS;
    while workerapp_bench::run(&warm_up, &Control::default()).with_context(what)?.counts.answered == 0 {
        tries.next().with_context(|| format!("{}: no answer while warming up", what()))?;
    }
    let before = Cpu::now(server)?;
    let report = workerapp_bench::run(plan, &Control::default()).with_context(what)?;
    let used = Cpu::now(server)?.since(&before);
    let wall = report.elapsed;
    let answered = report.counts.answered;
    ensure!(answered > 0, "{}: no answer; {:?}", what(), report.failures);
    let per_request = used.server.as_secs_f64() * 1e6 / to_f64(answered);
    Ok(Sample {
        contender: server.contender,
        case,
        round,
        requests_per_second: report.per_second(),
        p50_ms: report.quantile_ms(0.5),
        p99_ms: report.quantile_ms(0.99),
        cpu_us_per_request: per_request,
        server_cpus: used.server.div_duration_f64(wall),
        busiest_over_mean: report.busiest_over_mean(server.contender.workers()).unwrap_or(f64::NAN),
        failed: report.counts.failed + report.counts.dropped,
        late: late(&report),
        other_cpus: used.machine.saturating_sub(used.server + used.generator).div_duration_f64(wall),
        generator: report.busiest_thread,
    })
}

fn late(report: &Report) -> f64 {
    let own = report.counts.late - report.counts.late_for_want_of_a_connection;
    to_f64(own) / to_f64(report.counts.sent.max(1))
}

/// Exact below 2^32, and counts are.
pub(crate) fn to_f64(count: u64) -> f64 {
    u32::try_from(count).map_or(f64::INFINITY, f64::from)
}

/// CPU times.
struct Cpu {
    server: Duration,
    generator: Duration,
    machine: Duration,
}

impl Cpu {
    fn now(server: &Server) -> Result<Self> {
        Ok(Self {
            server: procfs::tree_cpu(server.raw_pid()?)?,
            generator: procfs::process_cpu(std::process::id())?,
            machine: procfs::machine_cpu()?,
        })
    }

    fn since(&self, before: &Self) -> Self {
        Self {
            server: self.server.saturating_sub(before.server),
            generator: self.generator.saturating_sub(before.generator),
            machine: self.machine.saturating_sub(before.machine),
        }
    }
}
