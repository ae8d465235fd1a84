//! The command line.

use crate::app_metrics::Source;
use crate::error::Error;
use crate::launch::Variable;
use crate::limits::Wanted;
use crate::preload;
use crate::recycle;
use crate::steering::Policy;
use crate::sys::signal::Signal;
use lexopt::prelude::*;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

/// What `--help` prints.
pub const HELP: &str = "\
Runs WORKERS copies of an unmodified server program on one port.

Usage: workerapp-supervisor [flags] -- COMMAND [ARGUMENTS]
       workerapp-supervisor install PATH     copy this program to PATH

  --workers auto|N        how many workers (default auto: the CPU limit, rounded up)
  --max-workers N         upper bound of auto
  --memory-per-worker B   with a memory limit: at most limit / B workers
  --processes workers|1   how many copies of COMMAND run (1: it makes its own workers)
  --sharing slots|none    who shares the port: the supervisor, or COMMAND by itself
  --port P                a TCP port that the workers share; repeatable, the main port first
  --admin-port P          /livez /readyz /metrics /status (default 9913)
  --lame-duck S           seconds of serving on after SIGTERM (default 5)
  --grace S               seconds from SIGTERM to the end, all included (default 30)
  --stop-signal SIG       what asks a worker to stop (default SIGTERM)
  --keep-env NAME         leave this variable as it is; repeatable
  --worker-env NAME=VALUE set for each worker unless it is set already; repeatable;
                          NAME+=VALUE: added to what is set already, after a space
  --drain S               how long a worker may finish what it has begun (default 10)
  --affinity none|ClientIP  the same client, the same worker (default none)
  --hang-timeout S        end a worker that takes no connection for so long (default 30, 0: never)
  --max-age S             replace a worker after so long; one at a time, like the next two
  --max-memory B          replace a worker whose processes use so much memory
  --max-requests N        replace a worker after so many requests (Node)
  --connection-requests N end a keep-alive connection after so many requests (Node)
  --connection-age S      or after so long, with the next answer (Node)
  --app-metrics [PORT]/PATH  the app's own metrics, of all workers, at /app-metrics
  --canary on|off         start worker 0 alone, the others once it listens; if it ends before,
                          end with its code at once (default off)
  --log-prefix on|off     [worker N] before each line that a worker writes (default off)
  --node-preload on|off   end keep-alive connections of Node in order (default on)
  --help, --version

$(WORKERS) and $(WORKER_ID) are replaced in the arguments and in --worker-env.
";

/// What to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Invocation {
    /// Supervise.
    Run(Box<Flags>),
    /// Copy this program.
    Install(PathBuf),
    /// Print the help text.
    Help,
    /// Print the version.
    Version,
}

/// Who shares the port between the workers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sharing {
    /// The supervisor, with a socket per slot.
    Slots,
    /// The command itself (`SO_REUSEPORT`, or one process with workers of its own).
    None,
}

/// How many copies of the command run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Processes {
    /// One per worker.
    Workers,
    /// One; it is told the number of workers and makes them.
    One,
}

/// The flags and the command.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs, reason = "named and explained as in the help text")]
pub struct Flags {
    pub workers: Wanted,
    pub max_workers: Option<u32>,
    pub memory_per_worker: Option<u64>,
    pub processes: Processes,
    pub sharing: Sharing,
    pub ports: Vec<u16>,
    pub admin_port: u16,
    pub lame_duck: Duration,
    pub grace: Duration,
    pub stop_signal: Signal,
    pub keep_env: Vec<String>,
    pub worker_env: Vec<Variable>,
    pub drain: Duration,
    pub node_preload: bool,
    pub log_prefix: bool,
    pub canary: bool,
    pub app_metrics: Option<Source>,
    pub policy: Policy,
    pub hang_timeout: Option<Duration>,
    pub recycling: recycle::Limits,
    pub connections: preload::Limits,
    pub command: Vec<OsString>,
}

impl Default for Flags {
    fn default() -> Self {
        Self {
            workers: Wanted::Auto,
            max_workers: None,
            memory_per_worker: None,
            processes: Processes::Workers,
            sharing: Sharing::Slots,
            ports: Vec::new(),
            admin_port: 9913,
            lame_duck: Duration::from_secs(5),
            grace: Duration::from_secs(30),
            stop_signal: Signal::TERM,
            keep_env: Vec::new(),
            worker_env: Vec::new(),
            drain: Duration::from_secs(10),
            node_preload: true,
            log_prefix: false,
            canary: false,
            app_metrics: None,
            policy: Policy::Even,
            hang_timeout: Some(Duration::from_secs(30)),
            recycling: recycle::Limits::default(),
            connections: preload::Limits::default(),
            command: Vec::new(),
        }
    }
}

/// Reads the command line, without the program's own name.
pub fn parse(arguments: impl IntoIterator<Item = OsString>) -> Result<Invocation, Error> {
    let mut arguments = arguments.into_iter().peekable();
    if arguments.next_if(|first| first == "install").is_some() {
        return install(arguments);
    }
    let mut parser = lexopt::Parser::from_args(arguments);
    let mut flags = Flags::default();
    while let Some(argument) = parser.next().map_err(usage)? {
        match argument {
            Long("help") | Short('h') => return Ok(Invocation::Help),
            Long("version") | Short('V') => return Ok(Invocation::Version),
            Long(name) => {
                let name = format!("--{name}");
                let value = parser.value().map_err(usage)?;
                flags.set(&name, value)?;
            }
            // After `--`, or with the command given without it, everything is the command's own.
            Value(word) => {
                flags.command.push(word);
                flags.command.extend(parser.raw_args().map_err(usage)?);
            }
            Short(other) => return Err(Error::Usage(format!("there is no flag -{other}"))),
        }
    }
    flags.check()?;
    Ok(Invocation::Run(Box::new(flags)))
}

fn install(mut rest: impl Iterator<Item = OsString>) -> Result<Invocation, Error> {
    match (rest.next(), rest.next()) {
        (Some(path), None) => Ok(Invocation::Install(path.into())),
        _ => Err(Error::Usage("install takes one path".into())),
    }
}

#[allow(clippy::needless_pass_by_value, reason = "as map_err wants it")]
fn usage(error: lexopt::Error) -> Error {
    Error::Usage(error.to_string())
}

impl Flags {
    /// The port that a worker has to listen on to count as ready.
    pub fn main_port(&self) -> Option<u16> {
        self.ports.first().copied()
    }

    fn set(&mut self, name: &str, value: OsString) -> Result<(), Error> {
        let value = value
            .into_string()
            .map_err(|raw| Error::Usage(format!("{name}: {} is not UTF-8", raw.display())))?;
        let wrong = |wanted: &str| Error::Usage(format!("{name} {value}: {wanted}"));
        match name {
            "--workers" if value == "auto" => self.workers = Wanted::Auto,
            "--workers" => {
                let count = count(&value).ok_or_else(|| wrong("give auto or a number from 1 to 1024"))?;
                self.workers = Wanted::Count(count);
            }
            "--max-workers" => {
                self.max_workers = Some(count(&value).ok_or_else(|| wrong("give a number from 1 to 1024"))?);
            }
            "--memory-per-worker" => {
                self.memory_per_worker =
                    Some(positive(&value).ok_or_else(|| wrong("give a number of bytes"))?);
            }
            "--processes" => {
                self.processes = match value.as_str() {
                    "workers" => Processes::Workers,
                    "1" => Processes::One,
                    _ => return Err(wrong("give workers or 1")),
                }
            }
            "--sharing" => {
                self.sharing = match value.as_str() {
                    "slots" => Sharing::Slots,
                    "none" => Sharing::None,
                    _ => return Err(wrong("give slots or none")),
                }
            }
            "--port" => {
                let port = port(&value).ok_or_else(|| wrong("give a port from 1 to 65535"))?;
                if !self.ports.contains(&port) {
                    self.ports.push(port);
                }
            }
            "--admin-port" => {
                self.admin_port = port(&value).ok_or_else(|| wrong("give a port from 1 to 65535"))?;
            }
            "--lame-duck" => {
                self.lame_duck = seconds(&value).ok_or_else(|| wrong("give a number of seconds"))?;
            }
            "--grace" => self.grace = seconds(&value).ok_or_else(|| wrong("give a number of seconds"))?,
            "--stop-signal" => {
                self.stop_signal = Signal::parse(&value)
                    .ok_or_else(|| wrong("give a signal's name, for example SIGTERM"))?;
            }
            "--drain" => self.drain = seconds(&value).ok_or_else(|| wrong("give a number of seconds"))?,
            "--affinity" => {
                self.policy = match value.as_str() {
                    "none" => Policy::Even,
                    "ClientIP" => Policy::ClientAddress,
                    _ => return Err(wrong("give none or ClientIP")),
                }
            }
            "--hang-timeout" => {
                let time = seconds(&value).ok_or_else(|| wrong("give a number of seconds"))?;
                self.hang_timeout = Some(time).filter(|time| !time.is_zero());
            }
            "--max-age" => {
                self.recycling.age = Some(seconds(&value).ok_or_else(|| wrong("give a number of seconds"))?);
            }
            "--max-memory" => {
                self.recycling.memory =
                    Some(positive(&value).ok_or_else(|| wrong("give a number of bytes"))?);
            }
            "--max-requests" => {
                self.recycling.requests =
                    Some(positive(&value).ok_or_else(|| wrong("give a number above 0"))?);
            }
            "--connection-requests" => {
                self.connections.requests =
                    Some(positive(&value).ok_or_else(|| wrong("give a number above 0"))?);
            }
            "--connection-age" => {
                self.connections.age =
                    Some(seconds(&value).ok_or_else(|| wrong("give a number of seconds"))?);
            }
            "--node-preload" => {
                self.node_preload = switch(&value).ok_or_else(|| wrong("give on or off"))?;
            }
            "--log-prefix" => self.log_prefix = switch(&value).ok_or_else(|| wrong("give on or off"))?,
            "--canary" => self.canary = switch(&value).ok_or_else(|| wrong("give on or off"))?,
            "--app-metrics" => {
                self.app_metrics =
                    Some(Source::parse(&value).ok_or_else(|| wrong("give /PATH or PORT/PATH"))?);
            }
            "--keep-env" => self.keep_env.push(value),
            "--worker-env" => {
                self.worker_env
                    .push(Variable::parse(&value).ok_or_else(|| wrong("give NAME=VALUE or NAME+=VALUE"))?);
            }
            _ => return Err(Error::Usage(format!("there is no flag {name}"))),
        }
        Ok(())
    }

    fn check(&self) -> Result<(), Error> {
        if self.command.is_empty() {
            return Err(Error::Usage("no command: give it after --".into()));
        }
        if self.ports.contains(&self.admin_port) {
            let port = self.admin_port;
            let text = format!("port {port} is the admin port too: choose another with --admin-port");
            return Err(Error::Usage(text));
        }
        let metrics = self.app_metrics.as_ref();
        if metrics
            .is_some_and(|s| !s.port.or(self.main_port()).is_some_and(|port| self.ports.contains(&port)))
        {
            return Err(Error::Usage("--app-metrics: declare its port with --port, too".into()));
        }
        Ok(())
    }
}

fn count(text: &str) -> Option<u32> {
    text.parse().ok().filter(|n| (1..=1024).contains(n))
}

fn switch(text: &str) -> Option<bool> {
    match text {
        "on" => Some(true),
        "off" => Some(false),
        _ => None,
    }
}

fn positive(text: &str) -> Option<u64> {
    text.parse().ok().filter(|number| *number > 0)
}

fn port(text: &str) -> Option<u16> {
    text.parse().ok().filter(|port| *port != 0)
}

fn seconds(text: &str) -> Option<Duration> {
    Duration::try_from_secs_f64(text.parse().ok()?).ok().filter(|time| time.as_secs() < 1 << 30)
}

#[cfg(test)]
#[path = "flags/tests.rs"]
mod tests;
