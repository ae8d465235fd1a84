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
    /// Variables to set unless the container has them (`--worker-env`).
    pub defaults: Vec<(String, String)>,
    /// Variables to set in any case.
    pub own: Vec<(String, String)>,
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
    /// Fills in one worker's numbers.
    pub fn launch(&self, worker: WorkerId, generation: Generation, workers: u32) -> Launch {
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
        for (name, value) in &self.defaults {
            environment.set_default(name, fill(OsStr::new(value)));
        }
        for (name, value) in [("WORKERS", &workers), ("WORKER_ID", &worker), ("NODE_APP_INSTANCE", &worker)] {
            if !(self.keep.iter().any(|kept| kept == name) && environment.has(name)) {
                environment.set(name, value.into());
            }
        }
        for (name, value) in &self.own {
            environment.set(name, value.into());
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

    fn set_default(&mut self, name: &str, value: OsString) {
        if !self.has(name) {
            self.set(name, value);
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

    fn template(environment: &[(&str, &str)], keep: &[&str], defaults: &[(&str, &str)]) -> Template {
        Template {
            command: ["serve", "--id=$(WORKER_ID)", "$(WORKERS)/$(WORKERS)", "$(PORT)"]
                .map(Into::into)
                .into(),
            environment: environment.iter().map(|(n, v)| (n.into(), v.into())).collect(),
            keep: keep.iter().map(ToString::to_string).collect(),
            defaults: defaults.iter().map(|(n, v)| (n.to_string(), v.to_string())).collect(),
            own: vec![("NODE_OPTIONS".into(), "--require=x".into())],
        }
    }

    fn variable(launch: &Launch, name: &str) -> Option<String> {
        let found = launch.environment.iter().filter(|(n, _)| n == name).collect::<Vec<_>>();
        assert!(found.len() <= 1, "{name} twice");
        found.first().map(|(_, value)| value.to_string_lossy().into_owned())
    }

    #[test]
    fn references_in_arguments() {
        let launch = template(&[], &[], &[]).launch(2, 9, 3);
        assert_eq!(launch.program, "serve");
        assert_eq!(launch.arguments, ["--id=2", "3/3", "$(PORT)"]);
    }

    #[test]
    fn variables_of_a_worker() {
        let launch = template(&[("PORT", "3000"), ("WORKERS", "9")], &[], &[]).launch(1, 5, 4);
        for (name, value) in [
            ("WORKERS", "4"),
            ("WORKER_ID", "1"),
            ("NODE_APP_INSTANCE", "1"),
            ("PORT", "3000"),
            ("WORKER_GENERATION", "5"),
            ("NODE_OPTIONS", "--require=x"),
        ] {
            assert_eq!(variable(&launch, name).as_deref(), Some(value), "{name}");
        }
    }

    #[test]
    fn the_users_own_values_win() {
        let defaults = [("UV_THREADPOOL_SIZE", "4"), ("THREADS", "$(WORKERS)")];
        let launch =
            template(&[("WORKERS", "9"), ("UV_THREADPOOL_SIZE", "1")], &["WORKERS", "WORKER_ID"], &defaults)
                .launch(0, 1, 4);
        for (name, value) in
            [("WORKERS", "9"), ("UV_THREADPOOL_SIZE", "1"), ("THREADS", "4"), ("WORKER_ID", "0")]
        {
            assert_eq!(variable(&launch, name).as_deref(), Some(value), "{name}");
        }
    }

    #[test]
    fn text_that_is_not_unicode_stays_as_it_is() {
        let mut template = template(&[], &[], &[]);
        template.command = vec!["x".into(), OsString::from_vec(b"\xff$(WORKER_ID)$(WORK".to_vec())];
        assert_eq!(template.launch(7, 1, 8).arguments, [OsString::from_vec(b"\xff7$(WORK".to_vec())]);
    }
}
