//! The commands, one file each.

pub(crate) mod bench;
pub(crate) mod complete;
pub(crate) mod diff;
pub(crate) mod doctor;
pub(crate) mod input;
pub(crate) mod logs;
pub(crate) mod pause;
pub(crate) mod plan;
pub(crate) mod render;
pub(crate) mod restart;
pub(crate) mod run;
pub(crate) mod status;
pub(crate) mod top;

use std::process::ExitCode;

use clap::Subcommand;

use crate::{cluster::Place, error::Error};

/// What to do.
#[derive(Subcommand)]
pub(crate) enum Command {
    /// Tell how many workers there will be and why, what will be created, what it costs, and what may surprise
    #[command(display_order = 1, after_help = plan::EXAMPLES)]
    Plan(plan::Arguments),
    /// Print the objects that the operator applies, as YAML
    #[command(display_order = 2, after_help = render::EXAMPLES)]
    Render(render::Arguments),
    /// Show what applying a file would change in the cluster; exit status 0: nothing, 1: something, 2: an error
    #[command(display_order = 3, after_help = diff::EXAMPLES)]
    Diff(diff::Arguments),
    /// Run an app on this machine under the same supervisor, without a cluster
    #[command(display_order = 4, after_help = run::EXAMPLES)]
    Run(run::Arguments),
    /// Show an app and everything that stands for it, down to its workers
    #[command(display_order = 5, after_help = status::EXAMPLES)]
    Status(status::Arguments),
    /// Show what each worker uses and does
    #[command(display_order = 6, after_help = top::EXAMPLES)]
    Top(top::Arguments),
    /// Show or follow what the workers of an app write
    #[command(display_order = 7, after_help = logs::EXAMPLES)]
    Logs(logs::Arguments),
    /// Replace an app's pods by new ones, as kubectl rollout restart does
    #[command(display_order = 8, after_help = restart::EXAMPLES)]
    Restart(restart::Arguments),
    /// Have the operator leave an app's objects alone
    #[command(display_order = 9, after_help = pause::EXAMPLES)]
    Pause(pause::Arguments),
    /// Have the operator look after a paused app again
    #[command(display_order = 10, after_help = pause::EXAMPLES)]
    Resume(pause::Arguments),
    /// Check the cluster, the operator and the apps; exit status 1 if something doesn't work
    #[command(display_order = 11, after_help = doctor::EXAMPLES)]
    Doctor(doctor::Arguments),
    /// Put load on servers, compare them, and say what can't be told
    #[command(display_order = 12, after_help = bench::EXAMPLES)]
    Bench(Box<bench::Arguments>),
    /// Print a completion script for a shell
    #[command(display_order = 13, after_help = complete::EXAMPLES)]
    Completion(complete::Arguments),
    /// What kubectl asks for while the Tab key is pressed
    #[command(name = "__complete", hide = true)]
    Complete(complete::Words),
}

impl Command {
    /// Does it.
    pub(crate) async fn run(&self, place: &Place, name: &str) -> Result<ExitCode, Error> {
        match self {
            Self::Plan(arguments) => plan::run(arguments),
            Self::Render(arguments) => render::run(arguments),
            Self::Diff(arguments) => Box::pin(diff::run(arguments, place)).await,
            Self::Run(arguments) => run::run(arguments).await,
            Self::Status(arguments) => status::run(arguments, place).await,
            Self::Top(arguments) => top::run(arguments, place).await,
            Self::Logs(arguments) => logs::run(arguments, place).await,
            Self::Restart(arguments) => Box::pin(restart::run(arguments, place)).await,
            Self::Pause(arguments) => pause::run(arguments, place, Some("true")).await,
            Self::Resume(arguments) => pause::run(arguments, place, None).await,
            Self::Doctor(arguments) => doctor::run(arguments, place).await,
            Self::Bench(arguments) => bench::run(arguments, place).await,
            Self::Completion(arguments) => complete::script(arguments),
            Self::Complete(words) => complete::candidates(words, name).await,
        }
    }

    /// The exit status of an error: `diff` has 1 for differences.
    pub(crate) fn failure(&self) -> ExitCode {
        match self {
            Self::Diff(_) => ExitCode::from(2),
            _ => ExitCode::FAILURE,
        }
    }
}
