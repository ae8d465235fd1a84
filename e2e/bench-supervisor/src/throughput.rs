//! Closed loop: how many requests a second, at how much CPU each.

use crate::arguments::Effort;
use crate::measure::{self, cases};
use crate::progress;
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
            progress(&format!("throughput, round {round} of {}: {}", effort.rounds, case.name()))?;
            let mut order: Vec<&Server> = servers.iter().collect();
            random.shuffle(&mut order);
            for server in order {
                let connections = if case.keep_alive { KEPT } else { SHORT };
                let mut plan = measure::plan(server.port, case, connections, Load::Capacity)?;
                plan.duration = effort.measurement;
                results.samples.push(measure::sample(server, case, round, &plan, effort.warm_up)?);
            }
        }
    }
    Ok(())
}
