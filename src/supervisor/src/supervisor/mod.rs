//! The event loop: one thread, asleep until something happens.

mod evening;
mod housekeeping;
mod setup;
mod trees;
mod view;
mod workers;

use crate::admin::{self, Admin, Answer, Request};
use crate::balance::Weight;
use crate::broker::Broker;
use crate::cgroup::Cgroup;
use crate::error::Error;
use crate::flags::Flags;
use crate::fleet::{Action, Event, Fleet, Generation, Severity, Slot, Time, Worker};
use crate::follow::Follower;
use crate::launch::Template;
use crate::limits::Workers;
use crate::log;
use crate::preload;
use crate::recycle;
use crate::relay::Relay;
use crate::sharing::Mode;
use crate::slots::GroupId;
use crate::sys::poll::{Poll, Ready};
use crate::sys::process::{self, Pid};
use crate::sys::signal::{Signal, SignalFd};
use housekeeping::Housekeeping;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};
use trees::Tree;

/// How often listening sockets are looked for where nobody tells about them.
const LOOK_AGAIN: Duration = Duration::from_millis(200);
/// How often the queue of a worker that is to go is looked at.
const LOOK_AT_QUEUE: Duration = Duration::from_millis(50);

/// Runs the workers until the end; answers the exit code.
pub(crate) fn run(flags: Flags) -> Result<i32, Error> {
    let mut supervisor = Supervisor::new(flags)?;
    supervisor.dispatch(Event::Begin);
    let result = supervisor.turn_until_the_end();
    if let Some(path) = &supervisor.preload {
        preload::remove(path);
    }
    log::redirect(None);
    if let Some(relay) = supervisor.relay {
        relay.finish();
    }
    result
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
    /// The file that is loaded into Node.
    preload: Option<PathBuf>,
    troubles: Vec<String>,
    cgroup: Cgroup,
    follower: Follower,
    recycling: recycle::Limits,
    housekeeping: Housekeeping,
    /// The app's own metrics are being collected.
    collecting: Arc<AtomicBool>,
    /// What the workers write takes this way.
    relay: Option<Relay>,
}

impl Supervisor {
    fn now(&self) -> Time {
        self.start.elapsed()
    }

    fn turn_until_the_end(&mut self) -> Result<i32, Error> {
        loop {
            if let Some(code) = self.exit_code {
                return Ok(code);
            }
            self.turn()?;
        }
    }

    /// Sleeps until something happens, and handles it.
    fn turn(&mut self) -> Result<(), Error> {
        let now = self.now();
        let looking = self.looked_for().next().map(|_| now + LOOK_AGAIN);
        let draining = self.trees.values().any(|tree| tree.draining.is_some()).then(|| now + LOOK_AT_QUEUE);
        let own = [looking, draining, self.listen_deadline(), self.housekeeping_due()];
        let deadlines = [self.fleet.next_deadline(), self.admin.next_deadline()].into_iter().chain(own);
        let deadline = deadlines.flatten().min();
        let ready = self.poll.wait(deadline.map(|at| at.saturating_sub(now))).map_err(Error::EventLoop)?;
        for event in ready {
            self.handle(event);
        }
        let now = self.now();
        self.admin.expire(now);
        self.look_for_listeners();
        self.assume_listening();
        self.look_at_queues();
        self.keep_house();
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
                    self.answer(id, &request);
                }
                self.admin.write(&self.poll, id, ready.token);
                self.look_for_sharers();
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

    fn answer(&mut self, id: u64, request: &Request) {
        let response = match admin::answer(request) {
            Answer::Respond(response) => response,
            Answer::Readiness => admin::readiness(&self.fleet.readiness(self.now())),
            Answer::Metrics => admin::metrics(&self.snapshot()),
            Answer::Status => admin::status(&self.snapshot()),
            Answer::AppMetrics => match self.app_metrics(id) {
                Some(response) => response,
                None => return,
            },
            Answer::Restart(response) => {
                self.dispatch(Event::Roll);
                response
            }
            Answer::Channel(generation) => return self.admin.open_channel(id, generation),
        };
        self.admin.respond(id, response.with_head_only(request.is_head()));
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
            Action::Drain { generation, settle, patience } => self.drain(generation, settle, patience),
            Action::Abort(generation) => self.signal_tree(generation, Signal::ABRT),
            Action::Kill(generation) => self.signal_tree(generation, Signal::KILL),
            Action::TerminateAll => self.ask_all_to_stop(),
            Action::KillAll => self.signal_all(Signal::KILL),
            Action::Steer => self.steer(),
            Action::Tell(notice) => log::write(notice.severity(), &notice),
            Action::Exit(code) => self.exit_code = Some(code),
        }
    }

    /// Tells about a trouble, each kind once: a program may repeat what causes it.
    fn trouble(&mut self, text: String) {
        if !self.troubles.contains(&text) {
            log::write(Severity::Warning, &text);
            self.troubles.push(text);
        }
    }

    /// Sends new connections to workers that listen and are not to go; to those whose queue stands still only when there
    /// is no other.
    fn steer(&mut self) {
        let slot_of = |group: GroupId, worker: &Worker| -> Option<Slot> {
            let generation = worker.current.filter(|generation| self.fleet.takes_connections(*generation))?;
            let tree = self.trees.get(&generation)?;
            tree.watched.as_ref()?.listens_in(group).then_some(tree.slot)
        };
        let balance = &self.housekeeping.balance;
        let place_of = |group: GroupId, worker: &Worker| {
            Some((slot_of(group, worker)?, balance.weight(worker.current.unwrap_or_default())))
        };
        let places = |group: GroupId| -> Vec<Option<(Slot, Weight)>> {
            let all: Vec<_> = self.fleet.workers().iter().map(|worker| place_of(group, worker)).collect();
            let is_good = |(slot, _): &(Slot, Weight)| !self.housekeeping.avoided.contains(slot);
            let good: Vec<_> = all.iter().map(|place| place.filter(is_good)).collect();
            if good.iter().all(Option::is_none) { all } else { good }
        };
        if let Err(e) = self.broker.slots.steer(self.flags.policy, places) {
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
            } else if [Signal::HUP, Signal::USR2].contains(&signal) {
                self.dispatch(Event::Roll);
            } else {
                for tree in self.trees.values() {
                    process::kill(tree.root, signal);
                }
            }
        }
    }
}

/// An image's STOPSIGNAL reaches us instead of its own program, so each that is usual means stop, as does the one that
/// we were told of.
fn is_stop(signal: Signal, stop_signal: Signal) -> bool {
    [Signal::TERM, Signal::INT, Signal::QUIT, stop_signal].contains(&signal)
}
