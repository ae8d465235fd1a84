//! Measures the worker supervisor beside what else runs Node on several CPUs: the same tiny app, the same machine, taking turns.
//!
//! `run` beside this crate builds and installs what is needed and starts this program; `make bench-supervisor` starts that.
//!
//! - `contender`: who is compared, and how each is started and asked to replace its workers.
//! - `server`, `procfs`, `http`: starting, watching and stopping them, by process id and on loopback only.
//! - `cgroup`: what a container is to the scheduler, and a CPU limit that can be changed.
//! - `measure`, `throughput`, `latency`, `loss`, `footprint`: the parts.
//! - `placement`: a simulation of how connections fall on more workers than this machine has CPUs for.
//! - `results`, `table`: what comes out.

mod arguments;
mod cgroup;
mod contender;
mod footprint;
mod http;
mod latency;
mod loss;
mod measure;
mod placement;
mod procfs;
mod results;
mod server;
mod simulation;
mod throughput;

use anyhow::Result;
use arguments::{Arguments, Part};
use clap::Parser;
use contender::{Contender, Setup};
use results::Results;
use server::Server;
use std::io::{self, Write};
use std::time::{Duration, Instant};

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    let effort = arguments.effort();
    let parts = arguments.parts();
    if parts == [Part::Placement] {
        return say(&placement::tables(effort.trials));
    }
    let seed = arguments.seed.unwrap_or_else(|| fastrand::u64(..1_000_000));
    let expected = parts.iter().map(|part| part.duration(&effort)).sum::<Duration>();
    say(&format!(
        "seed {seed} (for the same order again: --seed {seed}); load average {}; about {} min",
        workerapp_bench::results::load_averages()?,
        expected.as_secs().div_ceil(60)
    ))?;
    // What loses its parent becomes ours, so that it can be found and ended.
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
    let begun = Instant::now();
    let setup = Setup::prepare(&arguments)?;
    let mut results = Results::new(seed, &setup, &effort);
    let outcome = run(&parts, &setup, &effort, &mut results);
    server::end_leftovers()?;
    say(&results.summary())?;
    results.finish(begun.elapsed())?;
    results.write(&arguments.output)?;
    say(&format!("took {:.1} min; {}", begun.elapsed().as_secs_f64() / 60.0, arguments.output.display()))?;
    outcome
}

fn run(parts: &[Part], setup: &Setup, effort: &arguments::Effort, results: &mut Results) -> Result<()> {
    let mut random = fastrand::Rng::with_seed(results.seed);
    if parts.contains(&Part::Throughput) || parts.contains(&Part::Latency) {
        progress("starting all of them")?;
        let servers = Contender::ALL.map(|contender| Server::start_apart(setup, contender));
        let servers = servers.into_iter().collect::<Result<Vec<_>>>()?;
        results.cgroups = servers.iter().all(Server::is_apart);
        throughput::measure(&servers, effort, &mut random, results)?;
        if parts.contains(&Part::Latency) {
            latency::measure(&servers, effort, &mut random, results)?;
        }
    }
    if parts.contains(&Part::Loss) {
        loss::measure(setup, effort, &mut random, results)?;
    }
    if parts.contains(&Part::Footprint) {
        footprint::measure(setup, effort, &mut random, results)?;
    }
    if parts.contains(&Part::Placement) {
        say(&placement::tables(effort.trials))?;
    }
    Ok(())
}

/// Results go to standard output.
fn say(text: &str) -> Result<()> {
    Ok(writeln!(io::stdout(), "{text}")?)
}

/// What is going on goes to standard error.
fn progress(text: &str) -> Result<()> {
    Ok(writeln!(io::stderr(), "  {text}")?)
}
