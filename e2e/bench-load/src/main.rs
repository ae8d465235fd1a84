//! The load engine beside wrk and autocannon against one fast server, and against servers whose delays are known.
//!
//! Figures go into a table and a JSON file; nothing is asserted, since a figure depends on the machine.

mod delays;
mod generator;
mod open_loop;
mod server;
mod throughput;

use anyhow::{Context, Result};
use clap::Parser;
use serde::Serialize;
use std::io::{self, Write};
use std::path::PathBuf;
use workerapp_bench::results::{Provenance, Results, timestamp};

/// Measures the load engine beside wrk and autocannon
#[derive(Debug, Parser)]
struct Arguments {
    /// The release build of the example `responder`
    #[arg(long)]
    responder: PathBuf,
    /// autocannon's program, if it is there
    #[arg(long)]
    autocannon: Option<PathBuf>,
    /// wrk's program, if it is there
    #[arg(long)]
    wrk: Option<PathBuf>,
    /// oha's program, if it is there
    #[arg(long)]
    oha: Option<PathBuf>,
    /// The file that the results are written to, as JSON
    #[arg(long, default_value = "target/bench/load.json")]
    output: PathBuf,
    /// Rounds, in each of which every generator runs once
    #[arg(long, default_value_t = 7)]
    rounds: u32,
    /// Seconds of each run
    #[arg(long, default_value_t = 4)]
    seconds: u64,
    /// Decides the order within each round
    #[arg(long)]
    seed: Option<u64>,
    /// Connections of every generator
    #[arg(long, default_value_t = 100)]
    connections: usize,
    /// Short: shows that everything works; its figures say little
    #[arg(long)]
    quick: bool,
}

/// How much is measured.
#[derive(Debug, Clone, Copy, Serialize)]
struct Effort {
    rounds: u32,
    seconds: u64,
    connections: usize,
    seed: u64,
}

/// Everything that goes into the JSON.
#[derive(Debug, Serialize)]
struct Output {
    effort: Effort,
    throughput: Results,
    open_loop: Vec<open_loop::Sample>,
    delays: Vec<delays::Sample>,
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    let effort = Effort {
        rounds: if arguments.quick { 5 } else { arguments.rounds },
        seconds: if arguments.quick { 1 } else { arguments.seconds },
        connections: arguments.connections,
        seed: arguments.seed.unwrap_or_else(|| fastrand::u64(..1_000_000)),
    };
    let mut provenance = Provenance::here("bench-load", env!("CARGO_PKG_VERSION"), Some(effort.seed));
    let generators =
        generator::available(arguments.wrk.as_ref(), arguments.autocannon.as_ref(), arguments.oha.as_ref());
    for generator in &generators {
        provenance.versions.extend(generator.version());
    }
    let mut out = io::stdout().lock();
    writeln!(out, "seed {}", effort.seed)?;
    let server = server::Responder::start(&arguments.responder)?;
    let mut results = throughput::measure(&generators, &server, effort, provenance)?;
    write!(out, "{}", throughput::table(&results))?;
    let capacity =
        results.median(throughput::ROW, generator::OURS, |run| Some(run.figures.requests_per_second));
    let open_loop =
        open_loop::measure(&server, effort, capacity.context("our own generator was not measured")? / 2.0)?;
    write!(out, "\n{}", open_loop::table(&open_loop))?;
    drop(server);
    let delays = delays::measure(&generators, effort)?;
    write!(out, "\n{}", delays::table(&delays))?;
    results.provenance.finished = timestamp();
    write!(out, "\n{}{}", throughput::ratios(&results), open_loop::verdict(&open_loop))?;
    write!(out, "{}", delays::verdict(&delays))?;
    let output = Output { effort, throughput: results, open_loop, delays };
    if let Some(folder) = arguments.output.parent() {
        std::fs::create_dir_all(folder).with_context(|| format!("{} can't be made", folder.display()))?;
    }
    let text = serde_json::to_string_pretty(&output)? + "\n";
    std::fs::write(&arguments.output, text)
        .with_context(|| format!("{} can't be written", arguments.output.display()))?;
    writeln!(out, "written to {}", arguments.output.display())?;
    Ok(())
}
