//! Closed loop: how many requests a second, at how much CPU each.

use crate::arguments::Effort;
use crate::measure::{Turn, cases};
use crate::results::Results;
use crate::server::Server;
use anyhow::Result;
use workerapp_bench::Load;

/// Enough to keep two workers busy without a queue that hides everything.
const KEPT: usize = 64;
/// With a connection per request each connects while another is served.
const SHORT: usize = 32;

pub(crate) fn measure(
    servers: &[Server],
    effort: &Effort,
    random: &mut fastrand::Rng,
    results: &mut Results,
) -> Result<()> {
    for round in 1..=effort.rounds {
        for case in cases(&effort.handlers_ms, None) {
            let connections = if case.keep_alive { KEPT } else { SHORT };
            let turn = Turn { part: "throughput", effort, round, case, connections, load: Load::Capacity };
            turn.take(servers, random, results)?;
        }
    }
    Ok(())
}
