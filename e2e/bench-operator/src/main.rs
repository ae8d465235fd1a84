//! Measures the operator against a real API server and etcd, beside a bare loop that makes the same writes: three children and one
//! status for each app, as many at a time, through the same client, with nothing to decide.
//!
//! `run` beside this crate builds what is needed, starts the API server and this program; `make bench-operator` starts that. There are
//! no controllers and no nodes: nothing but the operator or the loop works meanwhile.
//!
//! - `cluster`: namespaces, apps, the API server's own counts
//! - `operator`: the operator as a process: started, asked for its metrics, watched in /proc, ended
//! - `bare`: the loop that it is compared with
//! - `settle`, `edits`, `calm`: the parts
//! - `results`: what comes out

mod arguments;
mod bare;
mod calm;
mod cluster;
mod edits;
mod operator;
mod results;
mod settle;

use std::{
    io::{self, Write as _},
    time::Instant,
};

use anyhow::Result;
use arguments::{Arguments, Part};
use clap::Parser as _;
use cluster::Cluster;
use results::Results;

#[tokio::main]
async fn main() -> Result<()> {
    let arguments = Arguments::parse();
    let effort = arguments.effort();
    let begun = Instant::now();
    say(&format!("load average {}", workerapp_bench::results::load_averages()?))?;
    let cluster = Cluster::connect(&arguments).await?;
    let mut results = Results::new(&effort);
    let outcome = run(&arguments, &cluster, &mut results).await;
    say(&results.summary())?;
    results.finish(begun.elapsed())?;
    results.write(&arguments.output)?;
    say(&format!("took {:.1} min; {}", begun.elapsed().as_secs_f64() / 60.0, arguments.output.display()))?;
    outcome
}

async fn run(arguments: &Arguments, cluster: &Cluster, results: &mut Results) -> Result<()> {
    let parts = arguments.parts();
    let effort = arguments.effort();
    if parts.contains(&Part::Calm) || parts.contains(&Part::Edits) {
        progress(&format!("{} apps that stand", effort.calm_apps))?;
        let (namespace, mut operator) = settle::standing(cluster, effort.calm_apps).await?;
        if parts.contains(&Part::Calm) {
            results.calm = Some(calm::measure(&mut operator, &effort).await?);
        }
        if parts.contains(&Part::Edits) {
            results.edits.push(edits::settled(cluster, &namespace, &operator, &effort).await?);
        }
        operator.end().await?;
    }
    if parts.contains(&Part::Edits) {
        let (fresh, restart) = edits::starts(cluster, &effort).await?;
        results.edits.extend([fresh, restart]);
    }
    // Last: this is what makes most objects.
    if parts.contains(&Part::Settle) {
        settle::measure(cluster, &effort, results).await?;
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
