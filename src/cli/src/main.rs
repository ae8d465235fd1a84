//! `kubectl workerapp`: plans apps, runs them here, shows what happens in a cluster, and measures.
//!
//! What an app becomes is decided by the crate `workerapp-plan`, which the operator uses too, so the two can't disagree.
//! Results go to stdout, everything else to stderr. Exit status: 0; 1 with the error on stderr; 2 for wrong flags. `diff`, `run`,
//! `doctor` and `bench` say in their help what else theirs means.
//!
//! # Layout
//! - `command`: one file per command: its flags, and what it does, read from top to bottom
//! - `manifest`, `schema`: reads WorkerApps from files and checks them as the API server would
//! - `cluster`: the only place with a client
//! - `look`, `supervisor`: what was seen in a cluster; `view`: what is said about it, pure
//! - `local`: the supervisor on this machine
//! - `usage`: how this program was called

mod cluster;
mod command;
mod error;
mod local;
mod look;
mod manifest;
mod output;
mod schema;
mod supervisor;
mod usage;
mod view;

use std::process::ExitCode;

use clap::Parser;

use crate::{cluster::Place, command::Command, error::Error};

/// Plans WorkerApps, runs them on this machine, shows them in a cluster, and measures them
#[derive(Parser)]
#[command(name = "kubectl-workerapp", version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
    #[command(flatten)]
    place: Place,
}

fn main() -> ExitCode {
    let (cli, name) = usage::parse::<Cli>();
    let result = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(Error::System)
        .and_then(|runtime| runtime.block_on(cli.command.run(&cli.place, &name)));
    match result {
        Ok(code) => code,
        Err(Error::Closed) => ExitCode::SUCCESS,
        Err(error) => {
            output::note(&format!("error: {error}"));
            if error.is_usage() { ExitCode::from(2) } else { cli.command.failure() }
        }
    }
}
