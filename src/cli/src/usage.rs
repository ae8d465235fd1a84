//! How this program was called, so that its help shows what a person would type.

use std::{env, ffi::OsStr, path::Path};

use clap::{Command, CommandFactory, FromArgMatches, Parser};

/// The name in all examples.
const WRITTEN: &str = "kubectl workerapp";

/// Reads the command line; and the name by which this program was called. Ends the program on wrong flags.
pub(crate) fn parse<T: Parser + CommandFactory + FromArgMatches>() -> (T, String) {
    let name = name(env::args_os().next().as_deref(), env::var_os("_").as_deref());
    let matches = command::<T>(&name).get_matches();
    match T::from_arg_matches(&matches) {
        Ok(parsed) => (parsed, name),
        Err(error) => error.exit(),
    }
}

/// The command line's description with that name in its usage and examples.
pub(crate) fn command<T: CommandFactory>(name: &str) -> Command {
    let examples = |command: Command| {
        let text = command.get_after_help().map(|text| text.to_string().replace(WRITTEN, name));
        match text {
            Some(text) => command.after_help(text),
            None => command,
        }
    };
    T::command().bin_name(name).mut_subcommands(examples)
}

/// kubectl takes a plugin's place by `exec`: what was typed stands in the variable `_`, which shells set.
fn name(program: Option<&OsStr>, typed: Option<&OsStr>) -> String {
    let file = |path: &OsStr| Path::new(path).file_name().map(|name| name.to_string_lossy().into_owned());
    match typed.and_then(file).as_deref() {
        Some("kubectl" | "k" | "oc") => WRITTEN.to_owned(),
        _ => program.and_then(file).unwrap_or_else(|| "kubectl-workerapp".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn help_names_how_it_was_called() {
        for (program, typed, expected) in [
            ("/usr/local/bin/kubectl-workerapp", "/usr/bin/kubectl", "kubectl workerapp"),
            ("target/image/kubectl-workerapp", "target/image/kubectl-workerapp", "kubectl-workerapp"),
            ("kubectl-workerapp", "/bin/make", "kubectl-workerapp"),
        ] {
            assert_eq!(name(Some(OsStr::new(program)), Some(OsStr::new(typed))), expected);
        }
        assert_eq!(name(None, None), "kubectl-workerapp");
    }

    #[test]
    fn the_command_line_is_consistent_and_every_command_has_examples() {
        let command = command::<crate::Cli>("kubectl-workerapp");
        command.clone().debug_assert();
        for sub in command.get_subcommands().filter(|sub| !sub.is_hide_set()) {
            let examples = sub.get_after_help().map(ToString::to_string).unwrap_or_default();
            assert!(examples.contains("  kubectl-workerapp "), "{}: {examples}", sub.get_name());
        }
    }
}
