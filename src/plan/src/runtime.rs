//! The table of runtime profiles: who makes the workers, and how the count reaches it.
//!
//! A new runtime is one more row here and its variant in [`Runtime`]; no other file names a runtime.

use workerapp_api::Runtime;

/// The number of workers in an argument or a variable. The kubelet would fill in `$(WORKERS)` with what the plan worked out; with
/// two dollars it leaves it to the supervisor, which knows the container's real limit.
const COUNT: &str = "$$(WORKERS)";

/// What is particular to one runtime.
pub struct Profile {
    /// How many copies of the command the supervisor runs.
    pub processes: Processes,
    /// Whether the supervisor puts its own sockets in the place of the app's.
    pub sharing: Sharing,
    /// The command that is run, made from the person's own and the app's port.
    pub command: fn(Vec<String>, port: i32) -> Vec<String>,
    /// Variables that the supervisor sets for each worker: a name, `=` (unless the container has it) or `+=` (added, after a
    /// space, to what the container has), and the value.
    pub variables: &'static [&'static str],
    /// The signal at which the program ends in order, where that isn't SIGTERM.
    pub stop_signal: Option<&'static str>,
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
        Runtime::Python => &PYTHON,
        Runtime::Ruby => &RUBY,
        Runtime::Jvm => &JVM,
        Runtime::Go => &GO,
        Runtime::Nginx => &NGINX,
        Runtime::Cloudgate => &CLOUDGATE,
        Runtime::Generic => &GENERIC,
    }
}

const GENERIC: Profile = Profile {
    processes: Processes::PerWorker,
    sharing: Sharing::Slots,
    command: as_given,
    variables: &[],
    stop_signal: None,
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

/// `WEB_CONCURRENCY` is how many workers gunicorn and uvicorn make by themselves: each copy is one worker already.
const PYTHON: Profile = Profile { variables: &["WEB_CONCURRENCY=1"], ..GENERIC };

/// The same for puma and unicorn.
const RUBY: Profile = Profile { variables: &["WEB_CONCURRENCY=1"], ..GENERIC };

/// One virtual machine whose thread pools follow the number of processors that it believes in.
const JVM: Profile = Profile {
    processes: Processes::One,
    variables: &["JAVA_TOOL_OPTIONS+=-XX:ActiveProcessorCount=$$(WORKERS)"],
    parallel: true,
    ..GENERIC
};

const GO: Profile =
    Profile { processes: Processes::One, variables: &["GOMAXPROCS=$$(WORKERS)"], parallel: true, ..GENERIC };

/// nginx makes its own worker processes, which inherit the socket.
const NGINX: Profile = Profile {
    processes: Processes::One,
    command: nginx,
    // SIGTERM is its fast shutdown, which breaks off requests.
    stop_signal: Some("SIGQUIT"),
    parallel: true,
    ..GENERIC
};

/// Cloudgate's threads listen with `SO_REUSEPORT` by themselves. It takes its port from `-p` alone.
const CLOUDGATE: Profile = Profile {
    processes: Processes::One,
    sharing: Sharing::None,
    command: cloudgate,
    variables: &["THREADS=$$(WORKERS)"],
    parallel: true,
    ..GENERIC
};

fn as_given(command: Vec<String>, _: i32) -> Vec<String> {
    command
}

/// The ends of a pm2 configuration file's name.
const PM2_CONFIGURATIONS: [&str; 6] = [".json", ".yml", ".yaml", ".config.js", ".config.cjs", ".config.mjs"];

/// Adds `-i` with the count unless the person chose a number, or starts a configuration file, in which the number stands
/// (`instances: process.env.WORKERS`; pm2 ignores `-i` then).
fn pm2(mut command: Vec<String>, _: i32) -> Vec<String> {
    let end = command.iter().position(|word| word == "--").unwrap_or(command.len());
    let chosen = command[..end].iter().any(|word| word.starts_with("-i") || word.starts_with("--instances"));
    let configuration = command[..end]
        .iter()
        .any(|word| PM2_CONFIGURATIONS.iter().any(|suffix| word.to_ascii_lowercase().ends_with(suffix)));
    if !chosen && !configuration {
        command.splice(end..end, ["-i".to_owned(), COUNT.to_owned()]);
    }
    command
}

/// Adds the global directive `worker_processes`, unless one of the arguments has it. A second one in the configuration file is
/// an error to nginx, so the file has to leave it out.
fn nginx(mut command: Vec<String>, _: i32) -> Vec<String> {
    if !command.iter().any(|word| word.contains("worker_processes")) {
        let directive = format!("worker_processes {COUNT};");
        match command.iter().position(|word| word == "-g").and_then(|flag| command.get_mut(flag + 1)) {
            Some(directives) => *directives = format!("{directive} {directives}"),
            None => command.extend(["-g".to_owned(), directive]),
        }
    }
    command
}

fn cloudgate(mut command: Vec<String>, port: i32) -> Vec<String> {
    if !command.iter().any(|word| word == "-p" || word == "--port") {
        command.extend(["-p".to_owned(), port.to_string()]);
    }
    command
}

#[cfg(test)]
mod tests {
    use super::{cloudgate, nginx, pm2};

    fn words(line: &str) -> Vec<String> {
        line.split(' ').map(str::to_owned).collect()
    }

    #[test]
    fn pm2_is_told_the_count_unless_the_person_chose_one() {
        for (given, expected) in [
            ("pm2-runtime server.js", "pm2-runtime server.js -i $$(WORKERS)"),
            (
                "node bin/pm2-runtime start s.js -- --title x",
                "node bin/pm2-runtime start s.js -i $$(WORKERS) -- --title x",
            ),
            ("pm2-runtime server.js -i 4", "pm2-runtime server.js -i 4"),
            ("pm2-runtime server.js --instances=4", "pm2-runtime server.js --instances=4"),
            ("pm2-runtime server.js -imax", "pm2-runtime server.js -imax"),
            ("pm2-runtime ecosystem.config.js", "pm2-runtime ecosystem.config.js"),
            ("pm2-runtime server.js -- -i 3", "pm2-runtime server.js -i $$(WORKERS) -- -i 3"),
        ] {
            assert_eq!(pm2(words(given), 3000), words(expected), "{given}");
        }
    }

    #[test]
    fn nginx_is_told_the_count_beside_other_directives() {
        let told = |given: &[&str]| nginx(given.iter().map(|word| (*word).to_owned()).collect(), 80);
        assert_eq!(told(&["nginx"]), ["nginx", "-g", "worker_processes $$(WORKERS);"]);
        assert_eq!(
            told(&["nginx", "-g", "daemon off;", "-c", "/n.conf"]),
            ["nginx", "-g", "worker_processes $$(WORKERS); daemon off;", "-c", "/n.conf"]
        );
        assert_eq!(told(&["nginx", "-g", "worker_processes 2;"]), ["nginx", "-g", "worker_processes 2;"]);
    }

    #[test]
    fn cloudgate_gets_its_port_as_a_flag() {
        assert_eq!(cloudgate(words("cloudgate -r /app"), 3000), words("cloudgate -r /app -p 3000"));
        assert_eq!(cloudgate(words("cloudgate -p 80"), 3000), words("cloudgate -p 80"));
    }
}
