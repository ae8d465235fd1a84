//! What may follow on a command line.

use clap::{Arg, Command, ValueHint};

/// kubectl's words for "offer files too" and "offer no files".
pub(crate) const FILES: u8 = 0;
/// See [`FILES`].
pub(crate) const NO_FILES: u8 = 4;

/// What may follow.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Candidates {
    /// Commands, flags or values that begin with what was typed.
    pub(crate) words: Vec<String>,
    /// The names of apps too.
    pub(crate) apps: bool,
    /// Files too.
    pub(crate) files: bool,
    /// The begun word.
    pub(crate) last: String,
}

/// What may follow `words`, of which the last is begun and may be empty.
pub(crate) fn of(command: &Command, words: &[String]) -> Candidates {
    let Some((last, before)) = words.split_last() else { return of(command, &[String::new()]) };
    let sub = before.iter().find_map(|word| command.find_subcommand(word)).filter(|sub| !sub.is_hide_set());
    let begins = |word: &str| word.starts_with(last.as_str());
    let mut found = Candidates { last: last.clone(), ..Candidates::default() };

    // A flag's value.
    let arguments = || command.get_arguments().chain(sub.into_iter().flat_map(Command::get_arguments));
    if let Some(flag) = before.last().and_then(|word| arguments().find(|argument| is(argument, word)))
        && flag.get_action().takes_values()
    {
        let values = flag.get_possible_values();
        found.words =
            values.iter().map(|value| value.get_name().to_owned()).filter(|word| begins(word)).collect();
        found.files = values.is_empty();
        return found;
    }
    if last.starts_with('-') {
        let flags = arguments().filter(|argument| !argument.is_hide_set());
        found.words = flags
            .filter_map(Arg::get_long)
            .map(|long| format!("--{long}"))
            .filter(|word| begins(word))
            .collect();
        return found;
    }
    let Some(sub) = sub else {
        let commands = command.get_subcommands().filter(|sub| !sub.is_hide_set());
        found.words = commands.map(|sub| sub.get_name().to_owned()).filter(|word| begins(word)).collect();
        return found;
    };
    for argument in sub.get_positionals() {
        let name = argument.get_value_names().and_then(<[_]>::first).map(ToString::to_string);
        found.apps |= name.as_deref() == Some("APP");
        found.files |= name.as_deref() == Some("FILE") || argument.get_value_hint() == ValueHint::FilePath;
        let values = argument.get_possible_values();
        found
            .words
            .extend(values.iter().map(|value| value.get_name().to_owned()).filter(|word| begins(word)));
    }
    found
}

fn is(argument: &Arg, word: &str) -> bool {
    let long = word.strip_prefix("--").is_some_and(|word| argument.get_long() == Some(word));
    let mut letters = word.chars();
    let short = letters.next() == Some('-')
        && letters.next().is_some_and(|letter| argument.get_short() == Some(letter))
        && letters.next().is_none();
    long || short
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(line: &str) -> Candidates {
        let words: Vec<_> = line.split(' ').map(str::to_owned).collect();
        of(&crate::usage::command::<crate::Cli>("kubectl workerapp"), &words)
    }

    #[test]
    fn commands_flags_and_values_are_completed() {
        assert_eq!(after("re").words, ["render", "restart", "resume"]);
        assert!(after("status --w").words.contains(&"--watch".to_owned()));
        assert!(after("status --name").words.contains(&"--namespace".to_owned()));
        assert_eq!(after("status shop -o j").words, ["json"]);
        assert_eq!(after("completion z").words, ["zsh"]);
        assert!(!after("").words.contains(&"__complete".to_owned()));
    }

    #[test]
    fn apps_and_files_are_completed_where_they_belong() {
        assert!(after("status ").apps && !after("status ").files);
        assert!(after("plan ").files && !after("plan ").apps);
        assert!(after("-n web logs s").apps);
        assert!(after("status --kubeconfig ").files);
        assert!(!after("status").apps);
    }
}
