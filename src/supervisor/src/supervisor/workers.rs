//! Starting workers, listening to their calls, and letting them finish.

use super::trees::{Draining, Tree, roots, tree_members};
use super::{Supervisor, Token};
use crate::broker::{Outcome, Watched};
use crate::explain;
use crate::flags::Processes;
use crate::fleet::{Cause, Event, Generation, Phase, Severity, Slot, Time, WorkerId};
use crate::launch::Launch;
use crate::log;
use crate::procfs;
use crate::share::Share;
use crate::sharing::Mode;
use crate::sys::poll::Interest;
use crate::sys::spawn;
use std::net::SocketAddr;
use std::process::{Command, Stdio};
use std::time::Duration;

/// A program that calls `listen` after `bind` does so at once.
const LISTEN_PATIENCE: Duration = Duration::from_millis(200);

impl Supervisor {
    pub(super) fn start_worker(&mut self, worker: WorkerId, generation: Generation, slot: Slot) -> Event {
        let count = if matches!(self.mode, Mode::Single(_)) { 1 } else { self.workers.count };
        let share = self.share().variables(&self.flags.command, std::env::var_os("NODE_OPTIONS").as_deref());
        let launch = self.template.launch(worker, generation, count, &share);
        let mut command = Command::new(&launch.program);
        command.args(&launch.arguments).env_clear().envs(launch.environment.iter().map(|(n, v)| (n, v)));
        if worker > 0 {
            // A terminal or a pipe can have one reader.
            command.stdin(Stdio::null());
        }
        if let Some(relay) = &self.relay {
            match relay.for_worker(worker) {
                Ok([out, errors]) => {
                    command.stdout(out).stderr(errors);
                }
                Err(e) => self.trouble(format!("no pipe for the lines of worker {worker}: {e}")),
            }
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
                    may_listen: None,
                    blind,
                    draining: None,
                    asked_to_stop: false,
                };
                self.trees.insert(generation, tree);
                Event::Started { generation, pid: spawned.pid }
            }
            Err(error) => start_failed(generation, &launch, &error),
        }
    }

    /// What each worker's share follows from now.
    fn share(&self) -> Share {
        let limits = self.cgroup.limits();
        let single = matches!(self.mode, Mode::Single(_));
        Share {
            cpu: limits.cpu,
            machine_cpus: std::thread::available_parallelism().map_or(1, |n| n.get() as u64),
            memory: limits.memory,
            workers: if single { 1 } else { self.workers.count.into() },
            copies: single || self.flags.processes == Processes::Workers,
        }
    }

    pub(super) fn answer_call(&mut self, generation: Generation) {
        let (pid, roots) = (self.pid, roots(&self.trees));
        let holds = |inode| {
            let members = tree_members(pid, &roots);
            let mut mine = members.iter().filter(|member| member.generation == Some(generation));
            mine.any(|member| procfs::holds_socket(member.process.pid, inode))
        };
        let now = self.now();
        let mut taken = self.trees.get_mut(&generation).and_then(|tree| tree.watched.take());
        let Some(watched) = &mut taken else { return };
        let outcome = self.broker.handle(watched, holds);
        let Some(tree) = self.trees.get_mut(&generation) else { return };
        tree.watched = taken;
        match outcome {
            Outcome::Nothing => {}
            Outcome::ListensOnUnix(name) => self.dispatch(Event::ListensOnUnix { generation, name }),
            Outcome::KeepsPort(text) => {
                self.dispatch(Event::KeepsPort { generation });
                self.trouble(text);
            }
            Outcome::Trouble(text) => self.trouble(text),
            Outcome::Blind(text) => {
                tree.blind = true;
                self.trouble(text);
            }
            Outcome::MayListen(group) => tree.may_listen = Some((now + LISTEN_PATIENCE, group)),
            Outcome::Listens(address) => {
                tree.may_listen = None;
                self.listens(generation, address);
            }
        }
    }

    fn listens(&mut self, generation: Generation, address: SocketAddr) {
        if let Some(tree) = self.trees.get_mut(&generation).filter(|tree| !tree.listens.contains(&address)) {
            tree.listens.push(address);
        }
        self.steer();
        self.dispatch(Event::Listens { generation, address });
    }

    /// Trees that were given a socket which listens already and have not called `listen` since.
    pub(super) fn assume_listening(&mut self) {
        let now = self.now();
        let mut found = Vec::new();
        for (generation, tree) in &mut self.trees {
            let Some((_, group)) = tree.may_listen.take_if(|(at, _)| *at <= now) else { continue };
            if let (Some(watched), Some(binding)) = (&mut tree.watched, self.broker.slots.binding(group)) {
                watched.assume_listening(group);
                found.push((*generation, binding.address));
            }
        }
        for (generation, address) in found {
            self.listens(generation, address);
        }
    }

    pub(super) fn listen_deadline(&self) -> Option<Time> {
        self.trees.values().filter_map(|tree| tree.may_listen).map(|(at, _)| at).min()
    }

    /// Starts of which nobody tells when they listen; the kernel's table does.
    pub(super) fn looked_for(&self) -> impl Iterator<Item = Generation> {
        let starting =
            |generation| self.fleet.instance(generation).is_some_and(|i| i.phase == Phase::Starting);
        let blind = self.trees.iter().filter(|(_, tree)| tree.blind).map(|(generation, _)| *generation);
        let is_told = matches!(self.mode, Mode::ReusePort(_));
        blind.filter(move |g| !is_told && self.flags.main_port().is_some() && starting(*g))
    }

    pub(super) fn look_for_listeners(&mut self) {
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

    /// Where slots are refused, Node may share the port by itself; then one worker need not be all.
    pub(super) fn look_for_sharers(&mut self) {
        for (generation, address) in self.admin.take_listens() {
            if let Mode::Single(why) = &self.mode {
                let text = "Node shares the port by itself (SO_REUSEPORT); \
                            a connection that arrives while a worker stops can be lost";
                log::write(Severity::Warning, &format!("WORKERS={}: {text}", self.workers.count));
                self.mode = Mode::ReusePort(format!("{why}; {text}"));
                self.fleet.allow_overlap();
                self.listens(generation, address);
                self.dispatch(Event::Resize { workers: self.workers.count });
                // It was told that it is alone, and that it may use all of the memory.
                self.dispatch(Event::Replace { generation, cause: Cause::Requested });
            } else {
                self.listens(generation, address);
            }
        }
    }

    pub(super) fn drain(&mut self, generation: Generation, settle: Duration, patience: Duration) {
        self.admin.say(generation, &format!("drain {}\n", patience.as_millis()));
        if let Some(tree) = self.trees.get_mut(&generation) {
            tree.draining = Some(Draining { settle, empty_since: None });
        }
    }

    /// Notices when trees that are to go have finished.
    pub(super) fn look_at_queues(&mut self) {
        let now = self.now();
        let mut quiet = Vec::new();
        for (generation, tree) in &mut self.trees {
            let Some(draining) = &mut tree.draining else { continue };
            if self.broker.slots.queue_length(tree.slot) > 0 {
                draining.empty_since = None;
                continue;
            }
            let since = *draining.empty_since.get_or_insert(now);
            if now.saturating_sub(since) >= draining.settle && self.admin.is_drained(*generation) {
                tree.draining = None;
                quiet.push(*generation);
            }
        }
        for generation in quiet {
            self.dispatch(Event::Quiet { generation });
        }
    }
}

fn start_failed(generation: Generation, launch: &Launch, error: &std::io::Error) -> Event {
    let explain::CannotRun { code, permanent, why } = explain::explain(launch, error);
    Event::StartFailed { generation, code, permanent, why }
}
