//! From flags to a supervisor that is ready to start its workers.

use super::housekeeping::Housekeeping;
use super::{Supervisor, Token};
use crate::admin::Admin;
use crate::broker::Broker;
use crate::cgroup::Cgroup;
use crate::error::Error;
use crate::flags::{Flags, Processes, Sharing};
use crate::fleet::{Fleet, Settings, Severity};
use crate::follow::Follower;
use crate::launch::{Rule, Template, Variable};
use crate::limits::Basis;
use crate::log;
use crate::preload;
use crate::relay::Relay;
use crate::sharing::{self, Mode};
use crate::sys::poll::{Interest, Poll};
use crate::sys::process;
use crate::sys::signal::{Signal, SignalFd};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

impl Supervisor {
    pub(super) fn new(flags: Flags) -> Result<Self, Error> {
        let start = Instant::now();
        let poll = Poll::new().map_err(Error::EventLoop)?;
        let signals = SignalFd::new(&handled_signals(&flags)).map_err(Error::Signals)?;
        poll.add(&signals, Token::Signals.number(), Interest::Read).map_err(Error::EventLoop)?;
        let admin = Admin::listen(flags.admin_port)?;
        poll.add(admin.listener(), Token::AdminListener.number(), Interest::Read)
            .map_err(Error::EventLoop)?;
        process::adopt_orphans().map_err(Error::EventLoop)?;

        let mode = choose_mode(&flags);
        let cgroup = Cgroup::find();
        let workers = basis(&flags, &cgroup).workers();
        log::write(Severity::Info, &format!("WORKERS={} ({})", workers.count, workers.reason));
        let processes = match (flags.processes, &mode) {
            (Processes::One, _) | (_, Mode::Single(_)) => 1,
            (Processes::Workers, _) => workers.count,
        };
        let shared_ports = if mode == Mode::Slots { flags.ports.clone() } else { Vec::new() };
        let settings = Settings {
            workers: processes,
            main_port: flags.main_port(),
            lame_duck: flags.lame_duck,
            grace: flags.grace,
            drain: flags.drain,
            overlap: mode == Mode::Slots,
            canary: flags.canary,
            seed: seed(),
        };
        let mut template = Template {
            command: flags.command.clone(),
            environment: std::env::vars_os().collect(),
            keep: flags.keep_env.clone(),
            variables: flags.worker_env.clone(),
            numbered: flags.processes == Processes::Workers,
        };
        let preload = if flags.node_preload { load_into_node(&flags, &mode, &mut template) } else { None };

        Ok(Self {
            template,
            mode,
            start,
            poll,
            signals,
            admin,
            broker: Broker::new(shared_ports, flags.app_metrics.is_some()),
            fleet: Fleet::new(settings),
            trees: BTreeMap::new(),
            pid: std::process::id().cast_signed(),
            exit_code: None,
            preload,
            troubles: Vec::new(),
            follower: Follower::new(workers.count),
            recycling: flags.recycling,
            housekeeping: Housekeeping::of(&cgroup),
            collecting: Arc::default(),
            relay: if flags.log_prefix { start_relay() } else { None },
            cgroup,
            workers,
            flags,
        })
    }
}

impl Supervisor {
    /// What the number of workers follows from now.
    pub(super) fn basis(&self) -> Basis {
        basis(&self.flags, &self.cgroup)
    }
}

fn choose_mode(flags: &Flags) -> Mode {
    let mode = match (flags.sharing, sharing::probe()) {
        (Sharing::Slots, Ok(())) => Mode::Slots,
        (Sharing::None, Ok(())) => Mode::HandsOff,
        (Sharing::Slots, Err(refusal)) => Mode::Single(refusal.to_string()),
        (Sharing::None, Err(refusal)) => Mode::Unwatched(refusal.to_string()),
    };
    match &mode {
        Mode::Slots | Mode::HandsOff | Mode::ReusePort(_) => {}
        Mode::Single(why) => {
            let text = format!(
                "{why}: the port cannot be shared, so one worker runs; more if it turns out to be Node 22.12, 23.1 or newer"
            );
            log::write(Severity::Warning, &text);
        }
        Mode::Unwatched(why) => {
            let text = format!("{why}: whether the app listens is seen in /proc/net/tcp instead");
            log::write(Severity::Warning, &text);
        }
    }
    mode
}

/// After the last process is forked that does more than run the command: from here on there are threads.
fn start_relay() -> Option<Relay> {
    let relay = Relay::start().and_then(|relay| {
        log::redirect(Some(relay.for_us()?));
        Ok(relay)
    });
    match relay {
        Ok(relay) => Some(relay),
        Err(e) => {
            let text = format!("--log-prefix on: {e}: the workers' lines stay as they are");
            log::write(Severity::Warning, &text);
            None
        }
    }
}

/// Has the workers' Node load our few lines; answers the file they are in.
fn load_into_node(flags: &Flags, mode: &Mode, template: &mut Template) -> Option<PathBuf> {
    let path = match preload::locate() {
        Ok(path) => path,
        Err(e) => {
            let text =
                format!("no file for Node can be written ({e}): workers end keep-alive connections abruptly");
            log::write(Severity::Warning, &text);
            return None;
        }
    };
    let own = std::env::var_os("NODE_OPTIONS");
    if let Some(option) = preload::node_option(&path, own.as_deref(), &flags.command) {
        let port = flags.admin_port.to_string();
        template.variables.extend([
            Variable { name: "NODE_OPTIONS".into(), value: option, rule: Rule::Append },
            Variable { name: "WORKERAPP_ADMIN_PORT".into(), value: port, rule: Rule::Replace },
        ]);
        template.variables.extend(flags.connections.variables());
        if matches!(mode, Mode::Single(_)) && flags.processes == Processes::Workers {
            let ports: Vec<String> = flags.ports.iter().map(ToString::to_string).collect();
            let (name, value) = ("WORKERAPP_REUSE_PORTS".into(), ports.join(","));
            template.variables.push(Variable { name, value, rule: Rule::Replace });
        }
    }
    Some(path)
}

fn basis(flags: &Flags, cgroup: &Cgroup) -> Basis {
    let limits = cgroup.limits();
    Basis {
        wanted: flags.workers,
        most: flags.max_workers,
        memory_per_worker: flags.memory_per_worker,
        variable: std::env::var("WORKERS").ok(),
        cpu: limits.cpu,
        memory: limits.memory,
    }
}

/// Different in each pod, so that they do not restart in step.
fn seed() -> u64 {
    let time = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    u64::from(time.subsec_nanos()) << 32 | u64::from(std::process::id())
}

/// Signals that are read instead of taking effect.
fn handled_signals(flags: &Flags) -> Vec<Signal> {
    let mut signals = vec![
        Signal::CHILD,
        Signal::TERM,
        Signal::INT,
        Signal::QUIT,
        Signal::HUP,
        Signal::USR1,
        Signal::USR2,
        Signal::WINCH,
        Signal::TTIN,
        Signal::TTOU,
        Signal::ALRM,
    ];
    if !signals.contains(&flags.stop_signal) {
        signals.push(flags.stop_signal);
    }
    signals
}
