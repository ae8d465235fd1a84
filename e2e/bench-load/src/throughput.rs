//! Closed loop against the fast server: who gets more answers with one thread.

use crate::Effort;
use crate::generator::{Generator, OURS, Task, WRK};
use crate::server::Responder;
use anyhow::Result;
use std::fmt::Write;
use workerapp_bench::campaign::order;
use workerapp_bench::comparison::compare;
use workerapp_bench::reports::matrix;
use workerapp_bench::results::{Provenance, Results, VERSION};
use workerapp_bench::statistics::Goal;

/// The only row of the ladder.
pub(crate) const ROW: &str = "closed loop, one thread";
/// Of wrk's requests per second.
const GOAL: f64 = 0.95;

pub(crate) fn measure(
    generators: &[Generator],
    server: &Responder,
    effort: Effort,
    provenance: Provenance,
) -> Result<Results> {
    let mut results = Results {
        version: VERSION,
        title: "Load generators against one fast server".to_owned(),
        provenance,
        targets: generators.iter().map(|generator| generator.name.to_owned()).collect(),
        ..Results::default()
    };
    let task = Task {
        address: server.address,
        connections: effort.connections,
        seconds: effort.seconds,
        rate: None,
    };
    for turn in order(effort.rounds, generators.len(), 1, effort.seed) {
        let Some(generator) = generators.get(turn.contender) else { continue };
        let mut run = generator.run(task)?;
        generator.name.clone_into(&mut run.target);
        ROW.clone_into(&mut run.row);
        run.round = turn.round;
        // Not judged: here a generator is meant to be the limit.
        results.runs.push(run);
    }
    results.comparisons = compare(&results, effort.seed);
    Ok(results)
}

pub(crate) fn table(results: &Results) -> String {
    matrix::text(results)
}

/// A line for each pair, with the goal where there is one.
pub(crate) fn ratios(results: &Results) -> String {
    let mut text = String::new();
    for one in results.comparisons.iter().filter(|one| one.metric == "requests/s") {
        let goal = match (one.target.as_str(), one.base.as_str()) {
            (OURS, WRK) => format!("  {}", Goal::AtLeast(GOAL).verdict(&one.ratio)),
            _ => String::new(),
        };
        // A String takes everything.
        let _ = writeln!(text, "ratio requests/s {}/{}: {}{goal}", one.target, one.base, one.ratio);
    }
    text
}
