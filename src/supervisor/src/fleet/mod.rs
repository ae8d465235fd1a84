//! Decides what happens to the workers: starts, restarts, backoff, giving up, readiness and the stop.
//!
//! A state machine without effects. Events and the time come in as values, actions go out; the event loop carries
//! them out. So every rule here can be tested without a process or a clock.

mod backoff;
mod lifecycle;
mod messages;
mod notice;
mod readiness;
mod replace;
mod restarts;
mod stop;
#[cfg(test)]
mod tests;

pub use messages::{Action, Event};
pub use notice::{Failure, Notice, Severity};
pub use readiness::{Readiness, Reason};
pub use restarts::{Cause, Restarts};

use crate::sys::process::{ExitStatus, Pid};
use backoff::Random;
use replace::Replacements;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;
use stop::Stop;

/// Time since the supervisor's start.
pub type Time = Duration;

/// The number of a worker: `WORKER_ID`, from 0.
pub type WorkerId = u32;

/// The number of one start of one worker; never used twice.
pub type Generation = u64;

/// The number of a listening socket; see [`crate::slots`].
pub type Slot = usize;

/// What does not change while the supervisor runs.
#[derive(Debug, Clone)]
pub struct Settings {
    /// How many workers.
    pub workers: u32,
    /// The port that a worker has to listen on to count as ready. `None`: one that keeps running is ready.
    pub main_port: Option<u16>,
    /// Between the request to stop and the drain.
    pub lame_duck: Duration,
    /// From the request to stop to its end, all included.
    pub grace: Duration,
    /// A worker that is to go may finish what it has begun for so long.
    pub drain: Duration,
    /// A successor starts beside its predecessor, which stops only when the successor listens.
    pub overlap: bool,
    /// The first worker starts alone, and the others once it listens. When it ends before that, everything does.
    pub canary: bool,
    /// Where randomness starts.
    pub seed: u64,
}

/// How far one start of a worker has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// It runs but does not listen yet.
    Starting,
    /// It takes connections.
    Listening {
        /// Since then.
        since: Time,
    },
    /// It gets no new connections and finishes those it has.
    Draining {
        /// Then it is asked to stop in any case.
        until: Time,
    },
    /// It was asked to stop.
    Stopping {
        /// When it is killed.
        kill_at: Time,
        /// How often that was tried.
        kills: u32,
    },
    /// Its first process is dead; what it left behind is being removed.
    Ended {
        /// How it ended.
        status: ExitStatus,
        /// When the rest is killed.
        kill_at: Time,
        /// How often that was tried.
        kills: u32,
    },
}

/// One start of one worker.
#[derive(Debug, Clone)]
pub struct Instance {
    /// Of which worker.
    pub worker: WorkerId,
    /// Whose sockets it uses.
    pub slot: Slot,
    /// Its first process, once it runs.
    pub pid: Option<Pid>,
    /// When.
    pub started: Time,
    /// How far it has come.
    pub phase: Phase,
    /// Where it listens in vain: not on the declared port, or not for others.
    pub elsewhere: Option<SocketAddr>,
    /// The Unix socket that it listened on first.
    pub unix_socket: Option<String>,
    /// It has a port that no successor can have as long as it runs.
    pub keeps_port: bool,
    /// Why it is to end, when that was decided here.
    pub cause: Option<Cause>,
}

/// One worker over all its starts.
#[derive(Debug, Clone)]
pub struct Worker {
    /// Its number.
    pub id: WorkerId,
    /// The start that counts now.
    pub current: Option<Generation>,
    /// The start that is to take its place.
    pub successor: Option<Generation>,
    /// The slot that is its own, also between two starts: connections may wait there.
    pub slot: Slot,
    /// When it is started next, if it does not run.
    pub start_at: Option<Time>,
    /// Starts in a row that did not last.
    pub failures: u32,
    /// All restarts.
    pub restarts: Restarts,
    /// How it ended last.
    pub last_exit: Option<ExitStatus>,
    /// The complaint that was told last, so that each is told once.
    complained: Option<std::mem::Discriminant<Reason>>,
}

/// The workers and everything that is decided about them.
#[derive(Debug)]
pub struct Fleet {
    settings: Settings,
    workers: Vec<Worker>,
    instances: BTreeMap<Generation, Instance>,
    last_generation: Generation,
    /// Has the command ever been run? Before that, a command that cannot be run ends everything at once.
    ever_started: bool,
    /// The first worker still has to show that the command serves.
    on_trial: bool,
    /// Have all workers been ready once?
    was_complete: bool,
    replacements: Replacements,
    stop: Option<Stop>,
    random: Random,
    actions: Vec<Action>,
}

impl Fleet {
    /// All workers, none of them started yet.
    pub fn new(settings: Settings) -> Self {
        let workers = (0..settings.workers).zip(0..).map(|(id, slot)| Worker::new(id, slot)).collect();
        Self {
            random: Random::new(settings.seed),
            on_trial: settings.canary,
            settings,
            workers,
            instances: BTreeMap::new(),
            last_generation: 0,
            ever_started: false,
            was_complete: false,
            replacements: Replacements::default(),
            stop: None,
            actions: Vec::new(),
        }
    }

    /// Takes in one event; answers what is to be done, in that order.
    pub fn handle(&mut self, now: Time, event: Event) -> Vec<Action> {
        match event {
            Event::Begin => self.start_due(now),
            Event::Started { generation, pid } => self.started(generation, pid),
            Event::StartFailed { generation, code, permanent, why } => {
                self.start_failed(now, generation, code, permanent, why);
            }
            Event::Listens { generation, address } => self.listens(now, generation, address),
            Event::KeepsPort { generation } => self.keeps_port(generation),
            Event::ListensOnUnix { generation, name } => self.listens_on_unix(generation, name),
            Event::Exited { generation, status } => self.exited(now, generation, status),
            Event::Gone { generation } => self.gone(now, generation),
            Event::Quiet { generation } => self.quiet(now, generation),
            Event::Roll => self.roll(now),
            Event::Replace { generation, cause } => self.replace(now, generation, cause),
            Event::Hung { generation, time } => self.hung(now, generation, time),
            Event::Resize { workers } => self.resize(now, workers),
            Event::Childless => self.childless(),
            Event::StopRequested { signal, interactive } => self.stop_requested(now, signal, interactive),
            Event::Tick => self.tick(now),
        }
        std::mem::take(&mut self.actions)
    }

    /// When [`Event::Tick`] is due next.
    pub fn next_deadline(&self) -> Option<Time> {
        let mut times: Vec<Time> = Vec::new();
        times.extend(self.stop.as_ref().and_then(Stop::deadline));
        if self.serves() {
            times.extend(self.may_start().filter_map(|worker| worker.start_at));
            times.extend(self.instances.values().filter_map(|instance| self.complaint_due(instance)));
            times.extend(self.replacement_deadline());
        }
        times.extend(self.instances.values().filter_map(|instance| self.phase_deadline(instance)));
        times.into_iter().min()
    }

    /// The starts that are ready.
    pub fn serving(&self) -> impl Iterator<Item = Generation> {
        self.instances.iter().filter(|(_, i)| i.listening_since().is_some()).map(|(g, _)| *g)
    }

    /// May new connections go to this start, once it listens?
    pub fn takes_connections(&self, generation: Generation) -> bool {
        let phase = self.instances.get(&generation).map(|instance| instance.phase);
        matches!(phase, Some(Phase::Starting | Phase::Listening { .. }))
    }

    /// All workers, by number.
    pub fn workers(&self) -> &[Worker] {
        &self.workers
    }

    /// One start, while anything of it is left.
    pub fn instance(&self, generation: Generation) -> Option<&Instance> {
        self.instances.get(&generation)
    }

    /// From now on a successor starts beside its predecessor: it has turned out that they can share the port.
    pub fn allow_overlap(&mut self) {
        self.settings.overlap = true;
    }

    /// Is everything to end?
    pub fn is_stopping(&self) -> bool {
        self.stop.is_some()
    }

    fn tick(&mut self, now: Time) {
        self.advance_phases(now);
        if self.stop.is_some() {
            self.advance_stop(now);
        }
        if self.serves() {
            self.start_due(now);
            self.complain(now);
            self.finish_replacement(now);
            self.advance_replacements(now);
        }
    }

    /// Those that are not held back until another one listens.
    fn may_start(&self) -> impl Iterator<Item = &Worker> {
        self.workers.iter().take(if self.on_trial { 1 } else { usize::MAX })
    }

    /// Are connections still wanted? During the lame-duck time they are.
    fn serves(&self) -> bool {
        self.stop.as_ref().is_none_or(Stop::still_serves)
    }

    fn tell(&mut self, notice: Notice) {
        self.actions.push(Action::Tell(notice));
    }
}

impl Worker {
    fn new(id: WorkerId, slot: Slot) -> Self {
        Self {
            id,
            current: None,
            successor: None,
            slot,
            start_at: Some(Time::ZERO),
            failures: 0,
            restarts: Restarts::default(),
            last_exit: None,
            complained: None,
        }
    }
}

impl Instance {
    /// Since when it takes connections, if it does.
    pub fn listening_since(&self) -> Option<Time> {
        match self.phase {
            Phase::Listening { since } => Some(since),
            _ => None,
        }
    }

    /// Since when it took connections, as it was in an earlier phase.
    fn listened(&self, phase: Phase) -> Option<Time> {
        match phase {
            Phase::Listening { since } => Some(since),
            // It would not have been drained otherwise.
            Phase::Draining { .. } => Some(self.started),
            Phase::Starting | Phase::Stopping { .. } | Phase::Ended { .. } => None,
        }
    }
}
