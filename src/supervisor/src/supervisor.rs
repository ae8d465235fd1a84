//! The event loop: one thread, asleep until something happens.

use crate::admin::{self, Admin, Snapshot, WorkerSnapshot};
use crate::broker::{Broker, Outcome, Watched};
use crate::cgroup::Cgroup;
use crate::error::Error;
use crate::explain;
use crate::flags::{Flags, Processes, Sharing};
use crate::fleet::{
    Action, Event, Fleet, Generation, Phase, Settings, Severity, Slot, Time, Worker, WorkerId,
};
use crate::launch::{GENERATION_VARIABLE, Launch, Template};
use crate::limits::{Basis, Workers};
use crate::log;
use crate::procfs;
use crate::sharing::{self, Mode};
use crate::sys::poll::{Interest, Poll, Ready};
use crate::sys::process::{self, ExitStatus, Pid, Reaped};
use crate::sys::signal::{Signal, SignalFd};
use crate::sys::spawn;
use crate::tree::{self, Member, Root};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// How often listening sockets are looked for where nobody tells about them.
const LOOK_AGAIN: Duration = Duration::from_millis(200);

/// Runs the workers until the end; answers the exit code.
pub(crate) fn run(flags: Flags) -> Result<i32, Error> {
    let mut supervisor = Supervisor::new(flags)?;
    supervisor.dispatch(Event::Begin);
    loop {
        if let Some(code) = supervisor.exit_code {
            return Ok(code);
        }
        supervisor.turn()?;
    }
}

/// What a readiness event of the poll is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Token {
    Signals,
    AdminListener,
    AdminConnection(u64),
    Calls(Generation),
}

impl Token {
    const KIND: u32 = 60;

    fn number(self) -> u64 {
        match self {
            Self::Signals => 0,
            Self::AdminListener => 1 << Self::KIND,
            Self::AdminConnection(id) => (2 << Self::KIND) | id,
            Self::Calls(generation) => (3 << Self::KIND) | generation,
        }
    }

    fn from_number(number: u64) -> Self {
        let id = number & ((1 << Self::KIND) - 1);
        match number >> Self::KIND {
            0 => Self::Signals,
            1 => Self::AdminListener,
            2 => Self::AdminConnection(id),
            _ => Self::Calls(id),
        }
    }
}

/// One start of a worker, as far as the kernel is concerned.
#[derive(Debug)]
struct Tree {
    root: Pid,
    slot: Slot,
    /// Its calls, until the last process that could make one has ended.
    watched: Option<Watched>,
    listens: Vec<SocketAddr>,
    /// Its calls do not tell whether it listens.
    blind: bool,
    /// It was asked to stop. Many programs take a second request for impatience.
    asked_to_stop: bool,
}

struct Supervisor {
    flags: Flags,
    template: Template,
    workers: Workers,
    mode: Mode,
    start: Instant,
    poll: Poll,
    signals: SignalFd,
    admin: Admin,
    broker: Broker,
    fleet: Fleet,
    trees: BTreeMap<Generation, Tree>,
    pid: Pid,
    exit_code: Option<i32>,
    troubles: Vec<String>,
}

impl Supervisor {
    fn new(flags: Flags) -> Result<Self, Error> {
        let start = Instant::now();
        let poll = Poll::new().map_err(Error::EventLoop)?;
        let signals = SignalFd::new(&handled_signals(&flags)).map_err(Error::Signals)?;
        poll.add(&signals, Token::Signals.number(), Interest::Read).map_err(Error::EventLoop)?;
        let admin = Admin::listen(flags.admin_port)?;
        poll.add(admin.listener(), Token::AdminListener.number(), Interest::Read)
            .map_err(Error::EventLoop)?;
        process::adopt_orphans().map_err(Error::EventLoop)?;

        let mode = choose_mode(&flags);
        let workers = count_workers(&flags);
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
            seed: seed(),
        };
        let template = Template {
            command: flags.command.clone(),
            environment: std::env::vars_os().collect(),
            keep: flags.keep_env.clone(),
            defaults: flags.worker_env.clone(),
        };
        Ok(Self {
            template,
            workers,
            mode,
            start,
            poll,
            signals,
            admin,
            broker: Broker::new(shared_ports),
            fleet: Fleet::new(settings),
            trees: BTreeMap::new(),
            pid: std::process::id().cast_signed(),
            exit_code: None,
            troubles: Vec::new(),
            flags,
        })
    }

    fn now(&self) -> Time {
        self.start.elapsed()
    }

    /// Sleeps until something happens, and handles it.
    fn turn(&mut self) -> Result<(), Error> {
        let now = self.now();
        let looking = self.looked_for().next().map(|_| now + LOOK_AGAIN);
        let deadline =
            [self.fleet.next_deadline(), self.admin.next_deadline(), looking].into_iter().flatten().min();
        let ready = self.poll.wait(deadline.map(|at| at.saturating_sub(now))).map_err(Error::EventLoop)?;
        for event in ready {
            self.handle(event);
        }
        let now = self.now();
        self.admin.expire(now);
        self.look_for_listeners();
        if self.fleet.next_deadline().is_some_and(|at| at <= now) {
            self.dispatch(Event::Tick);
        }
        if self.fleet.is_stopping() {
            self.reap();
        }
        Ok(())
    }

    fn handle(&mut self, ready: Ready) {
        match Token::from_number(ready.token) {
            Token::Signals => self.read_signals(),
            Token::AdminListener => {
                let now = self.now();
                self.admin.accept(&self.poll, now, |id| Token::AdminConnection(id).number());
            }
            Token::AdminConnection(id) => {
                if let Some(request) = self.admin.read(id) {
                    let response = admin::answer(&request, || self.snapshot());
                    self.admin.respond(id, response);
                }
                self.admin.write(&self.poll, id, ready.token);
            }
            Token::Calls(generation) if ready.readable => self.answer_call(generation),
            Token::Calls(generation) => {
                // Nobody is left who could call.
                if let Some(tree) = self.trees.get_mut(&generation) {
                    tree.watched = None;
                }
            }
        }
    }

    /// Lets the fleet decide, and does what it says.
    fn dispatch(&mut self, event: Event) {
        for action in self.fleet.handle(self.now(), event) {
            if self.exit_code.is_some() {
                return;
            }
            self.perform(action);
        }
    }

    fn perform(&mut self, action: Action) {
        match action {
            Action::Start { worker, generation, slot } => {
                // Taken in before anything else is done: it may be the end.
                let event = self.start_worker(worker, generation, slot);
                self.dispatch(event);
            }
            Action::Terminate(generation) => self.ask_to_stop(generation),
            Action::Kill(generation) => self.signal_tree(generation, Signal::KILL),
            Action::TerminateAll => self.ask_all_to_stop(),
            Action::KillAll => self.signal_all(Signal::KILL),
            Action::Steer => self.steer(),
            Action::Tell(notice) => log::write(notice.severity(), &notice),
            Action::Exit(code) => self.exit_code = Some(code),
        }
    }

    fn start_worker(&mut self, worker: WorkerId, generation: Generation, slot: Slot) -> Event {
        let count = if matches!(self.mode, Mode::Single(_)) { 1 } else { self.workers.count };
        let launch = self.template.launch(worker, generation, count);
        let mut command = Command::new(&launch.program);
        command.args(&launch.arguments).env_clear().envs(launch.environment.iter().map(|(n, v)| (n, v)));
        if worker > 0 {
            // A terminal or a pipe can have one reader.
            command.stdin(Stdio::null());
        }
        match spawn::spawn(command, self.mode.is_watched()) {
            Ok(spawned) => {
                let watched = spawned.listener.map(|listener| Watched::new(slot, listener));
                if let Some(watched) = &watched
                    && let Err(e) = self.poll.add(watched, Token::Calls(generation).number(), Interest::Read)
                {
                    self.trouble(format!("cannot watch worker {worker}: {e}"));
                }
                let blind = watched.is_none();
                let tree = Tree {
                    root: spawned.pid,
                    slot,
                    watched,
                    listens: Vec::new(),
                    blind,
                    asked_to_stop: false,
                };
                self.trees.insert(generation, tree);
                Event::Started { generation, pid: spawned.pid }
            }
            Err(error) => start_failed(generation, &launch, &error),
        }
    }

    fn answer_call(&mut self, generation: Generation) {
        let (pid, roots) = (self.pid, roots(&self.trees));
        let holds = |inode| {
            let members = tree_members(pid, &roots);
            let mut mine = members.iter().filter(|member| member.generation == Some(generation));
            mine.any(|member| procfs::holds_socket(member.process.pid, inode))
        };
        let mut taken = self.trees.get_mut(&generation).and_then(|tree| tree.watched.take());
        let Some(watched) = &mut taken else { return };
        let outcome = self.broker.handle(watched, holds);
        let Some(tree) = self.trees.get_mut(&generation) else { return };
        tree.watched = taken;
        match outcome {
            Outcome::Nothing => {}
            Outcome::Trouble(text) => self.trouble(text),
            Outcome::Blind(text) => {
                tree.blind = true;
                self.trouble(text);
            }
            Outcome::Listens(address) => {
                if !tree.listens.contains(&address) {
                    tree.listens.push(address);
                }
                self.steer();
                self.dispatch(Event::Listens { generation, address });
            }
        }
    }

    /// Tells about a trouble, each kind once: a program may repeat what causes it.
    fn trouble(&mut self, text: String) {
        if !self.troubles.contains(&text) {
            log::write(Severity::Warning, &text);
            self.troubles.push(text);
        }
    }

    fn steer(&mut self) {
        let serves = |group, slot| {
            self.trees.iter().any(|(generation, tree)| {
                let listens = tree.watched.as_ref().is_some_and(|watched| watched.listens_in(group));
                tree.slot == slot && listens && self.fleet.takes_connections(*generation)
            })
        };
        if let Err(e) = self.broker.slots.steer(serves) {
            self.trouble(format!("cannot steer connections: {e}"));
        }
    }

    fn read_signals(&mut self) {
        while let Some(signal) = self.signals.read() {
            if signal == Signal::CHILD {
                self.reap();
            } else if is_stop(signal, self.flags.stop_signal) {
                let interactive = signal == Signal::INT && process::is_terminal(0);
                self.dispatch(Event::StopRequested { signal, interactive });
            } else {
                for tree in self.trees.values() {
                    process::kill(tree.root, signal);
                }
            }
        }
    }

    /// Collects every ended child, workers and orphans alike.
    fn reap(&mut self) {
        loop {
            match process::reap() {
                Ok(Reaped::Child(pid, status)) => self.ended(pid, status),
                Ok(Reaped::NoneEnded) => break,
                Ok(Reaped::NoChildren) => {
                    self.find_empty_trees(&[]);
                    if self.fleet.is_stopping() {
                        self.dispatch(Event::Childless);
                    }
                    return;
                }
                Err(e) => return self.trouble(format!("cannot reap: {e}")),
            }
        }
        let some_ended = self.trees.keys().any(|generation| self.has_ended(*generation));
        if some_ended {
            let members = tree_members(self.pid, &roots(&self.trees));
            self.find_empty_trees(&members);
        }
    }

    fn ended(&mut self, pid: Pid, status: ExitStatus) {
        let generation =
            self.trees.iter().find(|(_, tree)| tree.root == pid).map(|(generation, _)| *generation);
        let Some(generation) = generation.filter(|generation| !self.has_ended(*generation)) else { return };
        self.dispatch(Event::Exited { generation, status });
        // What the first process left behind would go on serving, unsupervised.
        if self.trees.get(&generation).is_some_and(|tree| !tree.asked_to_stop) {
            self.ask_to_stop(generation);
        }
    }

    fn has_ended(&self, generation: Generation) -> bool {
        self.fleet.instance(generation).is_none_or(|i| matches!(i.phase, Phase::Ended { .. }))
    }

    /// Forgets trees whose first process ended and of which nothing is left.
    fn find_empty_trees(&mut self, members: &[Member]) {
        let empty: Vec<Generation> = self
            .trees
            .keys()
            .copied()
            .filter(|generation| self.has_ended(*generation))
            .filter(|generation| !members.iter().any(|member| member.generation == Some(*generation)))
            .collect();
        for generation in empty {
            self.trees.remove(&generation);
            self.dispatch(Event::Gone { generation });
        }
    }

    fn ask_to_stop(&mut self, generation: Generation) {
        if let Some(tree) = self.trees.get_mut(&generation) {
            tree.asked_to_stop = true;
        }
        self.signal_tree(generation, self.flags.stop_signal);
    }

    fn ask_all_to_stop(&mut self) {
        for tree in self.trees.values_mut() {
            tree.asked_to_stop = true;
        }
        self.signal_all(self.flags.stop_signal);
    }

    fn signal_tree(&self, generation: Generation, signal: Signal) {
        let members = tree_members(self.pid, &roots(&self.trees));
        let mine: Vec<Member> =
            members.into_iter().filter(|member| member.generation == Some(generation)).collect();
        self.signal(&mine, signal);
    }

    fn signal_all(&self, signal: Signal) {
        self.signal(&tree_members(self.pid, &roots(&self.trees)), signal);
    }

    /// Sends each process the signal once: by its group where that is a worker's, else by itself.
    fn signal(&self, members: &[Member], signal: Signal) {
        for tree in self.trees.values() {
            if members.iter().any(|member| member.process.group == tree.root) {
                process::kill_group(tree.root, signal);
            }
        }
        let is_group_of_ours = |group: Pid| self.trees.values().any(|tree| tree.root == group);
        for member in members.iter().filter(|member| !is_group_of_ours(member.process.group)) {
            process::kill(member.process.pid, signal);
        }
    }

    /// Starts of which nobody tells when they listen; the kernel's table does.
    fn looked_for(&self) -> impl Iterator<Item = Generation> {
        let starting =
            |generation| self.fleet.instance(generation).is_some_and(|i| i.phase == Phase::Starting);
        let blind = self.trees.iter().filter(|(_, tree)| tree.blind).map(|(generation, _)| *generation);
        blind.filter(move |generation| self.flags.main_port().is_some() && starting(*generation))
    }

    fn look_for_listeners(&mut self) {
        let generations: Vec<Generation> = self.looked_for().collect();
        if generations.is_empty() {
            return;
        }
        let port = self.flags.main_port();
        let found =
            procfs::all_listening_addresses().into_iter().filter(|address| Some(address.port()) == port);
        for address in found {
            for generation in &generations {
                self.dispatch(Event::Listens { generation: *generation, address });
            }
        }
    }

    fn snapshot(&self) -> Snapshot {
        let now = self.now();
        Snapshot {
            now,
            readiness: self.fleet.readiness(now),
            stopping: self.fleet.is_stopping(),
            workers: self.workers.count,
            workers_reason: self.workers.reason.clone(),
            mode: self.mode.clone(),
            ports: self.flags.ports.clone(),
            processes: self.fleet.workers().iter().map(|worker| self.worker_snapshot(worker, now)).collect(),
        }
    }

    fn worker_snapshot(&self, worker: &Worker, now: Time) -> WorkerSnapshot {
        let instance = worker.current.and_then(|generation| self.fleet.instance(generation));
        let tree = worker.current.and_then(|generation| self.trees.get(&generation));
        let state = match instance.map(|instance| instance.phase) {
            None => "waiting",
            Some(Phase::Starting) => "starting",
            Some(Phase::Listening { .. }) => "listening",
            Some(Phase::Ended { .. }) => "ended",
        };
        WorkerSnapshot {
            id: worker.id,
            state,
            pid: instance.and_then(|instance| instance.pid),
            running: instance.map(|instance| now.saturating_sub(instance.started)),
            ready: instance.is_some_and(|instance| instance.listening_since().is_some()),
            shortcoming: self.fleet.shortcoming(worker, now).map(|reason| reason.to_string()),
            restarts: worker.restarts,
            last_exit: worker.last_exit,
            listens: tree.map(|tree| tree.listens.clone()).unwrap_or_default(),
            queue: self.broker.slots.queue_length(worker.slot),
        }
    }
}

fn start_failed(generation: Generation, launch: &Launch, error: &std::io::Error) -> Event {
    let explain::CannotRun { code, permanent, why } = explain::explain(launch, error);
    Event::StartFailed { generation, code, permanent, why }
}

fn roots(trees: &BTreeMap<Generation, Tree>) -> Vec<Root> {
    trees.iter().map(|(generation, tree)| Root { generation: *generation, pid: tree.root }).collect()
}

fn tree_members(supervisor: Pid, roots: &[Root]) -> Vec<Member> {
    let marker = |pid| procfs::environment_variable(pid, GENERATION_VARIABLE)?.parse().ok();
    tree::members(&procfs::processes(), supervisor, roots, marker)
}

fn choose_mode(flags: &Flags) -> Mode {
    let mode = match (flags.sharing, sharing::probe()) {
        (Sharing::Slots, Ok(())) => Mode::Slots,
        (Sharing::None, Ok(())) => Mode::HandsOff,
        (Sharing::Slots, Err(refusal)) => Mode::Single(refusal.to_string()),
        (Sharing::None, Err(refusal)) => Mode::Unwatched(refusal.to_string()),
    };
    match &mode {
        Mode::Slots | Mode::HandsOff => {}
        Mode::Single(why) => {
            log::write(Severity::Warning, &format!("{why}: the port cannot be shared, so one worker runs"));
        }
        Mode::Unwatched(why) => {
            let text = format!("{why}: whether the app listens is seen in /proc/net/tcp instead");
            log::write(Severity::Warning, &text);
        }
    }
    mode
}

fn count_workers(flags: &Flags) -> Workers {
    let limits = Cgroup::find().limits();
    let basis = Basis {
        wanted: flags.workers,
        most: flags.max_workers,
        memory_per_worker: flags.memory_per_worker,
        variable: std::env::var("WORKERS").ok(),
        cpu: limits.cpu,
        memory: limits.memory,
    };
    basis.workers()
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

/// An image's STOPSIGNAL reaches us instead of its own program, so each that is usual means stop, as does the one that
/// we were told of.
fn is_stop(signal: Signal, stop_signal: Signal) -> bool {
    [Signal::TERM, Signal::INT, Signal::QUIT, stop_signal].contains(&signal)
}
