//! Open loop: latencies at a part of the capacity, the same rate for all.

use crate::arguments::Effort;
use crate::contender::Contender;
use crate::measure::{Case, Turn, cases};
use crate::results::Results;
use crate::server::Server;
use anyhow::{Context, Result};
use workerapp_bench::{Arrivals, Load};

/// As many as an ingress keeps to a pod. In an open loop they are used in turn.
const KEPT: usize = 20;
/// With a connection per request: the most at one time.
const SHORT: usize = 200;

pub(crate) fn measure(
    servers: &[Server],
    effort: &Effort,
    random: &mut fastrand::Rng,
    results: &mut Results,
) -> Result<()> {
    for round in 1..=effort.rounds {
        for percent in &effort.loads_percent {
            for case in cases(&effort.handlers_ms, Some(*percent)) {
                let per_second = capacity(results, case)? * f64::from(*percent) / 100.0;
                // The same for all in a round, another in the next.
                let arrivals = Arrivals::Random { seed: random.u64(..) };
                let connections = if case.keep_alive { KEPT } else { SHORT };
                let load = Load::Rate { per_second, arrivals };
                // The single process has half of the capacity: it could only be overloaded.
                let pairs = servers.iter().filter(|server| server.contender != Contender::Single);
                let turn = Turn { part: "latency", effort, round, case, connections, load };
                turn.take(pairs, random, results)?;
            }
        }
    }
    Ok(())
}

/// The lowest of all with two workers, so that nobody is asked for more than it can do.
fn capacity(results: &Results, case: Case) -> Result<f64> {
    let closed = Case { load_percent: None, ..case };
    Contender::ALL
        .into_iter()
        .filter(|contender| *contender != Contender::Single)
        .filter_map(|contender| results.median(contender, closed, |sample| sample.requests_per_second))
        .reduce(f64::min)
        .with_context(|| format!("the capacity was never measured: {}", closed.name()))
}
