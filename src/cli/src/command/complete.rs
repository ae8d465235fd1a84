//! Completion: scripts for shells, and what kubectl asks a plugin for.

use std::{process::ExitCode, time::Duration};

use clap::{Args, Parser as _};
use clap_complete::Shell;

use crate::{Cli, cluster::Place, error::Error, output, usage, view::candidates};

/// For `--help`.
pub(crate) const EXAMPLES: &str = "Examples:
  kubectl workerapp completion bash > /etc/bash_completion.d/kubectl-workerapp
  kubectl workerapp completion zsh > ~/.zfunc/_kubectl-workerapp

For `kubectl workerapp` itself put the script kubectl_complete-workerapp on the PATH, beside this program.";

/// What scripts complete.
const PROGRAM: &str = "kubectl-workerapp";

/// A person waits with a finger on the Tab key.
const PATIENCE: Duration = Duration::from_secs(2);

#[derive(Args)]
pub(crate) struct Arguments {
    /// The shell
    shell: Shell,
}

/// What was typed so far; the last word is the one to complete.
#[derive(Args)]
pub(crate) struct Words {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    words: Vec<String>,
}

pub(crate) fn script(arguments: &Arguments) -> Result<ExitCode, Error> {
    let mut script = Vec::new();
    let mut command = usage::command::<Cli>(PROGRAM);
    // Bash's generator calls the same command differently in two places if its name has a dash: it gets one without, which then is
    // the name of functions alone.
    let name = if arguments.shell == Shell::Bash { PROGRAM.replace('-', "_") } else { PROGRAM.to_owned() };
    clap_complete::generate(arguments.shell, &mut command, &name, &mut script);
    let script = String::from_utf8_lossy(&script);
    output::print(&script.replace(&format!("default {name}"), &format!("default {PROGRAM}")))?;
    Ok(ExitCode::SUCCESS)
}

/// One candidate a line, then what kubectl is to do with them.
pub(crate) async fn candidates(words: &Words, name: &str) -> Result<ExitCode, Error> {
    let command = usage::command::<Cli>(name);
    let wanted = candidates::of(&command, &words.words);
    let mut found = wanted.words;
    if wanted.apps {
        found.extend(apps(&words.words, &wanted.last).await);
    }
    let directive = if wanted.files { candidates::FILES } else { candidates::NO_FILES };
    let lines: String = output::lines(found);
    output::print(&format!("{lines}:{directive}\n"))?;
    Ok(ExitCode::SUCCESS)
}

/// The names of apps where the words so far look for them. None is no error: there is nobody to tell it to.
async fn apps(words: &[String], start: &str) -> Vec<String> {
    #[derive(clap::Parser)]
    #[command(ignore_errors = true, disable_help_flag = true)]
    struct Typed {
        #[command(flatten)]
        place: Place,
        #[arg(trailing_var_arg = false, allow_hyphen_values = false)]
        rest: Vec<String>,
    }
    let typed = std::iter::once("x".to_owned()).chain(words.iter().cloned());
    let Ok(Typed { place, rest: _ }) = Typed::try_parse_from(typed) else { return Vec::new() };
    let found = async { place.connect().await?.apps().await };
    let Ok(Ok(apps)) = tokio::time::timeout(PATIENCE, found).await else { return Vec::new() };
    apps.iter().map(kube::ResourceExt::name_any).filter(|name| name.starts_with(start)).collect()
}
