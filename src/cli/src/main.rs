//! `kubectl workerapp`: what the operator would do, told without a cluster.
//!
//! Everything here comes from the crate `workerapp-plan`, which the operator uses too, so the two can't disagree.
//! Results go to stdout, everything else to stderr. Exit status: 0, or 1 with the error on stderr (2 for wrong flags).

mod manifest;
mod plan;
mod render;
mod schema;

use std::{io::Write as _, path::PathBuf, process::ExitCode};

use clap::{Args, Parser, Subcommand};
use workerapp_plan::Facts;

#[derive(Parser)]
#[command(name = "kubectl-workerapp", bin_name = "kubectl workerapp", version, about)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Tell how many workers there will be and why, what will be created, and what may surprise
    #[command(
        after_help = "Examples:\n  kubectl workerapp plan config/samples/next-workers.yaml\n  cat app.yaml | kubectl workerapp plan -"
    )]
    Plan(Input),
    /// Print the objects that the operator applies, as YAML
    #[command(after_help = "Examples:\n  kubectl workerapp render app.yaml > rendered.yaml")]
    Render(Input),
}

#[derive(Args)]
struct Input {
    /// Files with WorkerApps (other kinds in them are passed over), or - for standard input
    #[arg(required_unless_present = "filename", value_name = "FILE")]
    files: Vec<PathBuf>,
    /// A file, as kubectl takes it
    #[arg(short = 'f', long, value_name = "FILE")]
    filename: Vec<PathBuf>,
    /// The image that holds the supervisor; in a cluster it is the operator's own
    #[arg(long, env = "WORKERAPP_SUPERVISOR_IMAGE", default_value = concat!("workerapp:", env!("CARGO_PKG_VERSION")))]
    supervisor_image: String,
    /// When that image is pulled: Always, IfNotPresent or Never
    #[arg(long, env = "WORKERAPP_SUPERVISOR_PULL_POLICY", value_parser = ["Always", "IfNotPresent", "Never"])]
    supervisor_pull_policy: Option<String>,
}

impl Input {
    fn facts(&self) -> Facts {
        Facts {
            supervisor_image: self.supervisor_image.clone(),
            supervisor_pull_policy: self.supervisor_pull_policy.clone(),
            ..Facts::default()
        }
    }
}

fn main() -> ExitCode {
    match run(&Cli::parse()) {
        Ok(output) => match std::io::stdout().write_all(output.as_bytes()) {
            // A reader that has seen enough (`| head`) is no error.
            Ok(()) => ExitCode::SUCCESS,
            Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
            Err(error) => fail(&error),
        },
        Err(error) => fail(&error),
    }
}

fn fail(error: &dyn std::fmt::Display) -> ExitCode {
    eprintln!("error: {error}");
    ExitCode::FAILURE
}

/// What one app's plan is printed as.
type Print = fn(&workerapp_api::WorkerApp, &workerapp_plan::Plan) -> Result<String, manifest::Error>;

fn run(cli: &Cli) -> Result<String, manifest::Error> {
    let (input, separator, print): (&Input, &str, Print) = match &cli.command {
        Command::Plan(input) => (input, "\n", |app, plan| Ok(plan::text(app, plan))),
        Command::Render(input) => (input, "---\n", |_, plan| render::yaml(plan)),
    };
    // Nothing is printed unless all of it is valid: half of a rendered file is worse than none.
    let mut output = Vec::new();
    for file in input.files.iter().chain(&input.filename) {
        for app in manifest::read(file)? {
            let plan = workerapp_plan::plan(&app, &input.facts()).map_err(manifest::Error::Invalid)?;
            output.push(print(&app, &plan)?);
        }
    }
    Ok(output.join(separator))
}
