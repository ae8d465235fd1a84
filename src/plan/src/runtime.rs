//! The table of runtime profiles: who makes the workers, and how the count reaches it.
//!
//! A new runtime is one more row here and its variant in [`Runtime`]; no other file names a runtime.

use workerapp_api::Runtime;

/// What is particular to one runtime.
pub struct Profile {
    /// How many copies of the command the supervisor runs.
    pub processes: Processes,
    /// Whether the supervisor puts its own sockets in the place of the app's.
    pub sharing: Sharing,
    /// The command that is run, made from the person's own, with `$(WORKERS)` where the count belongs.
    pub command: fn(Vec<String>) -> Vec<String>,
    /// The port at which the runtime serves metrics itself.
    pub metrics_port: Option<i32>,
    /// Whether one process of the command can use more than one CPU.
    pub parallel: bool,
}

/// How many copies of the command the supervisor runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Processes {
    /// One per worker.
    PerWorker,
    /// One, which makes its own workers.
    One,
}

/// Whether the supervisor owns the sockets on which the app listens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sharing {
    /// One socket per process, kept by the supervisor and given to each successor.
    Slots,
    /// The program shares the port by itself.
    None,
}

/// The row of `runtime`.
pub fn profile(runtime: Runtime) -> &'static Profile {
    match runtime {
        Runtime::Node => &NODE,
        Runtime::NodeCluster => &NODE_CLUSTER,
        Runtime::Pm2 => &PM2,
        Runtime::Watt => &WATT,
        Runtime::Generic => &GENERIC,
    }
}

const GENERIC: Profile = Profile {
    processes: Processes::PerWorker,
    sharing: Sharing::Slots,
    command: as_given,
    metrics_port: None,
    parallel: false,
};

const NODE: Profile = Profile { ..GENERIC };

/// The app's own `cluster` code reads `WORKERS`.
const NODE_CLUSTER: Profile = Profile { processes: Processes::One, parallel: true, ..GENERIC };

const PM2: Profile = Profile { processes: Processes::One, command: pm2, parallel: true, ..GENERIC };

/// Watt's workers are threads that listen with `SO_REUSEPORT`, one socket each; `WORKERS` is read by its configuration.
const WATT: Profile = Profile {
    processes: Processes::One,
    sharing: Sharing::None,
    metrics_port: Some(9090),
    parallel: true,
    ..GENERIC
};

fn as_given(command: Vec<String>) -> Vec<String> {
    command
}

/// The ends of a pm2 configuration file's name.
const PM2_CONFIGURATIONS: [&str; 6] = [".json", ".yml", ".yaml", ".config.js", ".config.cjs", ".config.mjs"];

/// Adds `-i $(WORKERS)` unless the person chose a number, or starts a configuration file, in which the number stands
/// (`instances: process.env.WORKERS`; pm2 ignores `-i` then).
fn pm2(mut command: Vec<String>) -> Vec<String> {
    let end = command.iter().position(|word| word == "--").unwrap_or(command.len());
    let chosen = command[..end].iter().any(|word| word.starts_with("-i") || word.starts_with("--instances"));
    let configuration = command[..end]
        .iter()
        .any(|word| PM2_CONFIGURATIONS.iter().any(|suffix| word.to_ascii_lowercase().ends_with(suffix)));
    if !chosen && !configuration {
        command.splice(end..end, ["-i".to_owned(), "$(WORKERS)".to_owned()]);
    }
    command
}

#[cfg(test)]
mod tests {
    use super::pm2;

    fn words(line: &str) -> Vec<String> {
        line.split(' ').map(str::to_owned).collect()
    }

    #[test]
    fn pm2_is_told_the_count_unless_the_person_chose_one() {
        for (given, expected) in [
            ("pm2-runtime server.js", "pm2-runtime server.js -i $(WORKERS)"),
            (
                "node node_modules/.bin/pm2-runtime start server.js -- --title x",
                "node node_modules/.bin/pm2-runtime start server.js -i $(WORKERS) -- --title x",
            ),
            ("pm2-runtime server.js -i 4", "pm2-runtime server.js -i 4"),
            ("pm2-runtime server.js --instances=4", "pm2-runtime server.js --instances=4"),
            ("pm2-runtime server.js -imax", "pm2-runtime server.js -imax"),
            ("pm2-runtime ecosystem.config.js", "pm2-runtime ecosystem.config.js"),
            ("pm2-runtime server.js -- -i 3", "pm2-runtime server.js -i $(WORKERS) -- -i 3"),
        ] {
            assert_eq!(pm2(words(given)), words(expected), "{given}");
        }
    }
}
