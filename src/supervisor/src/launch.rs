//! What a worker is started with: its arguments and its environment.

use crate::fleet::{Generation, WorkerId};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

/// Marks the processes of one start, so that they are recognised after they left the session and their parents.
pub(crate) const GENERATION_VARIABLE: &str = "WORKER_GENERATION";

/// The parts that are the same for every worker.
#[derive(Debug, Clone)]
pub struct Template {
    /// The user's command and its arguments.
    pub command: Vec<OsString>,
    /// The container's environment.
    pub environment: Vec<(OsString, OsString)>,
    /// Variables that stay as the container has them (`--keep-env`).
    pub keep: Vec<String>,
    /// Variables of the workers (`--worker-env`, and our own).
    pub variables: Vec<Variable>,
    /// Whether each process is one worker, and so has a number. One process that makes its own workers numbers them itself: pm2
    /// leaves a `NODE_APP_INSTANCE` alone that is there already, and all of its workers would be number 0.
    pub numbered: bool,
}

/// A variable that workers get.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Variable {
    /// Its name.
    pub name: String,
    /// Its value, in which references are replaced.
    pub value: String,
    /// What becomes of a value that the container has.
    pub rule: Rule,
}

/// What becomes of a variable that the container has already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rule {
    /// It stays.
    Default,
    /// Ours is added to it, after a space.
    Append,
    /// Ours takes its place.
    Replace,
}

impl Variable {
    /// Reads `NAME=VALUE` or `NAME+=VALUE`.
    pub fn parse(text: &str) -> Option<Self> {
        let (name, value) = text.split_once('=')?;
        let (name, rule) = name.strip_suffix('+').map_or((name, Rule::Default), |name| (name, Rule::Append));
        (!name.is_empty()).then(|| Self { name: name.to_owned(), value: value.to_owned(), rule })
    }
}

/// One worker's command line and environment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Launch {
    /// The program.
    pub program: OsString,
    /// Its arguments.
    pub arguments: Vec<OsString>,
    /// Its whole environment.
    pub environment: Vec<(OsString, OsString)>,
}

impl Template {
    /// Fills in one worker's numbers. `share` are variables that follow from the limits of the moment.
    pub fn launch(
        &self,
        worker: WorkerId,
        generation: Generation,
        workers: u32,
        share: &[Variable],
    ) -> Launch {
        let (worker, workers) = (worker.to_string(), workers.to_string());
        let references = [("$(WORKERS)", workers.as_str()), ("$(WORKER_ID)", worker.as_str())];
        let fill = |text: &OsStr| {
            let bytes = references
                .iter()
                .fold(text.as_bytes().to_vec(), |bytes, (from, to)| replace(&bytes, from, to));
            OsString::from_vec(bytes)
        };
        let mut words = self.command.iter().map(|word| fill(word));
        let mut environment = Environment(self.environment.clone());
        let is_kept = |name: &str| self.keep.iter().any(|kept| kept == name);
        let share = share.iter().filter(|variable| !is_kept(&variable.name));
        for Variable { name, value, rule } in self.variables.iter().chain(share) {
            environment.put(name, fill(OsStr::new(value)), *rule);
        }
        let numbers = [("WORKERS", &workers), ("WORKER_ID", &worker), ("NODE_APP_INSTANCE", &worker)];
        let count = if self.numbered { numbers.len() } else { 1 };
        for (name, value) in numbers.into_iter().take(count) {
            if !(is_kept(name) && environment.has(name)) {
                environment.set(name, value.into());
            }
        }

        environment.set(GENERATION_VARIABLE, generation.to_string().into());
        Launch {
            program: words.next().unwrap_or_default(),
            arguments: words.collect(),
            environment: environment.0,
        }
    }
}

struct Environment(Vec<(OsString, OsString)>);

impl Environment {
    fn has(&self, name: &str) -> bool {
        self.0.iter().any(|(known, _)| known == name)
    }

    fn set(&mut self, name: &str, value: OsString) {
        self.0.retain(|(known, _)| known != name);
        self.0.push((name.into(), value));
    }

    fn put(&mut self, name: &str, value: OsString, rule: Rule) {
        let known = self.0.iter().find(|(known, _)| known == name).map(|(_, value)| value);
        match (known, rule) {
            (Some(_), Rule::Default) => {}
            (Some(known), Rule::Append) if !known.is_empty() => {
                let mut both = known.clone();
                both.push(" ");
                both.push(value);
                self.set(name, both);
            }
            _ => self.set(name, value),
        }
    }
}

fn replace(text: &[u8], from: &str, to: &str) -> Vec<u8> {
    let mut result = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.first() {
        if let Some(after) = rest.strip_prefix(from.as_bytes()) {
            result.extend_from_slice(to.as_bytes());
            rest = after;
        } else {
            result.push(*first);
            rest = rest.get(1..).unwrap_or_default();
        }
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    fn template(environment: &[(&str, &str)], keep: &[&str], variables: &[&str]) -> Template {
        Template {
            command: ["serve", "--id=$(WORKER_ID)", "$(WORKERS)/$(WORKERS)", "$(PORT)"]
                .map(Into::into)
                .into(),
            environment: environment.iter().map(|(n, v)| (n.into(), v.into())).collect(),
            keep: keep.iter().map(ToString::to_string).collect(),
            variables: variables.iter().map(|text| Variable::parse(text).unwrap()).collect(),
            numbered: true,
        }
    }

    fn variable(launch: &Launch, name: &str) -> Option<String> {
        let found = launch.environment.iter().filter(|(n, _)| n == name).collect::<Vec<_>>();
        assert!(found.len() <= 1, "{name} twice");
        found.first().map(|(_, value)| value.to_string_lossy().into_owned())
    }

    #[test]
    fn references_in_arguments() {
        let launch = template(&[], &[], &[]).launch(2, 9, 3, &[]);
        assert_eq!(launch.program, "serve");
        assert_eq!(launch.arguments, ["--id=2", "3/3", "$(PORT)"]);
    }

    #[test]
    fn variables_of_a_worker() {
        let launch = template(&[("PORT", "3000"), ("WORKERS", "9")], &[], &[]).launch(1, 5, 4, &[]);
        for (name, value) in [
            ("WORKERS", "4"),
            ("WORKER_ID", "1"),
            ("NODE_APP_INSTANCE", "1"),
            ("PORT", "3000"),
            ("WORKER_GENERATION", "5"),
        ] {
            assert_eq!(variable(&launch, name).as_deref(), Some(value), "{name}");
        }
    }

    #[test]
    fn a_process_that_makes_its_own_workers_has_no_number() {
        let template = Template { numbered: false, ..template(&[], &[], &[]) };
        let launch = template.launch(0, 1, 3, &[]);
        assert_eq!(variable(&launch, "WORKERS").as_deref(), Some("3"));
        assert_eq!(variable(&launch, "WORKER_ID"), None);
        assert_eq!(variable(&launch, "NODE_APP_INSTANCE"), None);
    }

    #[test]
    fn the_users_own_values_win() {
        let defaults = ["UV_THREADPOOL_SIZE=4", "THREADS=$(WORKERS)"];
        let launch =
            template(&[("WORKERS", "9"), ("UV_THREADPOOL_SIZE", "1")], &["WORKERS", "WORKER_ID"], &defaults)
                .launch(0, 1, 4, &[]);
        for (name, value) in
            [("WORKERS", "9"), ("UV_THREADPOOL_SIZE", "1"), ("THREADS", "4"), ("WORKER_ID", "0")]
        {
            assert_eq!(variable(&launch, name).as_deref(), Some(value), "{name}");
        }
    }

    #[test]
    fn values_that_are_added() {
        let variables = ["JAVA_TOOL_OPTIONS+=-Dworker=$(WORKER_ID)", "EMPTY+=x", "NEW+=a=b", "NEW+=c"];
        let launch =
            template(&[("JAVA_TOOL_OPTIONS", "-Xmx1g"), ("EMPTY", "")], &[], &variables).launch(2, 1, 4, &[]);
        for (name, value) in [("JAVA_TOOL_OPTIONS", "-Xmx1g -Dworker=2"), ("EMPTY", "x"), ("NEW", "a=b c")] {
            assert_eq!(variable(&launch, name).as_deref(), Some(value), "{name}");
        }
        for wrong in ["", "A", "=x", "+=x"] {
            assert_eq!(Variable::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_share_of_the_limits_comes_last_and_can_be_refused() {
        let share = ["GOMAXPROCS=2", "OMP_NUM_THREADS=2", "NODE_OPTIONS+=--heap"]
            .map(|t| Variable::parse(t).unwrap());
        let launch = template(&[("GOMAXPROCS", "7")], &["OMP_NUM_THREADS"], &["NODE_OPTIONS+=--require=x"]);
        let launch = launch.launch(0, 1, 2, &share);
        assert_eq!(variable(&launch, "GOMAXPROCS").as_deref(), Some("7"));
        assert_eq!(variable(&launch, "OMP_NUM_THREADS"), None);
        assert_eq!(variable(&launch, "NODE_OPTIONS").as_deref(), Some("--require=x --heap"));
    }

    #[test]
    fn text_that_is_not_unicode_stays_as_it_is() {
        let mut template = template(&[], &[], &[]);
        template.command = vec!["x".into(), OsString::from_vec(b"\xff$(WORKER_ID)$(WORK".to_vec())];
        assert_eq!(template.launch(7, 1, 8, &[]).arguments, [OsString::from_vec(b"\xff7$(WORK".to_vec())]);
    }
}
