//! Starts, ends and restarts of single workers.

use super::{Action, Cause, Fleet, Generation, Instance, Notice, Phase, Slot, Time, WorkerId, backoff};
use crate::sys::process::{ExitStatus, Pid};
use std::net::SocketAddr;
use std::time::Duration;

/// A worker that took connections for this long is a good one, whatever ended it.
const LASTING: Duration = Duration::from_secs(10);
/// Without a port to listen on, running for this long counts as ready.
const SETTLED: Duration = Duration::from_secs(1);
/// So many failures in a row of every worker, and none that listens: starting again will not help.
pub(super) const GIVE_UP_AFTER: u32 = 5;
/// How long processes that outlived their parent may take to stop.
const LEFTOVERS: Duration = Duration::from_secs(5);
/// Pause between two attempts to kill them.
const KILL_PAUSE: Duration = Duration::from_millis(500);
/// After so many attempts they are in the kernel's hands and nothing waits for them any longer.
const MOST_KILLS: u32 = 4;

impl Fleet {
    /// Starts every worker whose time has come.
    pub(super) fn start_due(&mut self, now: Time) {
        let due: Vec<WorkerId> =
            self.may_start().filter(|w| w.start_at.is_some_and(|at| at <= now)).map(|w| w.id).collect();
        for id in due {
            self.start(now, id);
        }
    }

    fn start(&mut self, now: Time, id: WorkerId) {
        let Some(slot) = self.workers.iter().find(|w| w.id == id).map(|worker| worker.slot) else { return };
        let generation = self.launch(now, id, slot);
        if let Some(worker) = self.workers.iter_mut().find(|w| w.id == id) {
            worker.start_at = None;
            worker.current = Some(generation);
        }
    }

    /// A new start of a worker, whatever it is for.
    pub(super) fn launch(&mut self, now: Time, worker: WorkerId, slot: Slot) -> Generation {
        self.last_generation += 1;
        let generation = self.last_generation;
        let instance = Instance {
            worker,
            slot,
            pid: None,
            started: now,
            phase: Phase::Starting,
            elsewhere: None,
            unix_socket: None,
            keeps_port: false,
            cause: None,
        };
        self.instances.insert(generation, instance);
        self.actions.push(Action::Start { worker, generation, slot });
        generation
    }

    pub(super) fn started(&mut self, generation: Generation, pid: Pid) {
        self.ever_started = true;
        if let Some(instance) = self.instances.get_mut(&generation) {
            instance.pid = Some(pid);
        }
    }

    pub(super) fn start_failed(
        &mut self,
        now: Time,
        generation: Generation,
        code: i32,
        permanent: bool,
        why: String,
    ) {
        let Some(instance) = self.instances.get(&generation) else { return };
        let worker = instance.worker;
        self.tell(Notice::CannotRun { worker, why });
        if self.ever_started || !permanent {
            self.exited(now, generation, ExitStatus::Code(code));
            self.gone(now, generation);
        } else {
            self.instances.remove(&generation);
            self.actions.push(Action::Exit(code));
        }
    }

    pub(super) fn listens(&mut self, now: Time, generation: Generation, address: SocketAddr) {
        let main_port = self.settings.main_port;
        let Some(instance) = self.instances.get_mut(&generation) else { return };
        if instance.phase != Phase::Starting {
            return;
        }
        if main_port == Some(address.port()) && !address.ip().to_canonical().is_loopback() {
            self.ready(now, generation);
        } else if instance.elsewhere.is_none_or(|known| main_port != Some(known.port())) {
            // The declared port on the wrong address says more than another port does.
            instance.elsewhere = Some(address);
            if main_port == Some(address.port()) {
                self.end_trial(now);
            }
            self.finish_replacement(now);
        }
    }

    pub(super) fn keeps_port(&mut self, generation: Generation) {
        if let Some(instance) = self.instances.get_mut(&generation) {
            instance.keeps_port = true;
        }
    }

    /// It says where a worker that has no port is to be found, and nothing more: nobody can use that from outside.
    pub(super) fn listens_on_unix(&mut self, generation: Generation, name: String) {
        if let Some(instance) = self.instances.get_mut(&generation) {
            instance.unix_socket.get_or_insert(name);
        }
    }

    fn ready(&mut self, now: Time, generation: Generation) {
        let Some(instance) = self.instances.get_mut(&generation) else { return };
        instance.phase = Phase::Listening { since: now };
        let (worker, took) = (instance.worker, now.saturating_sub(instance.started));
        self.tell(Notice::Ready { worker, took, port: self.settings.main_port });
        self.end_trial(now);
        self.note_completeness();
        self.succeed(now, generation);
        self.finish_replacement(now);
    }

    /// The command serves: the other workers may start.
    fn end_trial(&mut self, now: Time) {
        if std::mem::take(&mut self.on_trial) {
            self.start_due(now);
        }
    }

    pub(super) fn exited(&mut self, now: Time, generation: Generation, status: ExitStatus) {
        let Some(instance) = self.instances.get_mut(&generation) else { return };
        let before = instance.phase;
        instance.phase = Phase::Ended { status, kill_at: now + LEFTOVERS, kills: 0 };
        let end = End {
            worker: instance.worker,
            status,
            ran: now.saturating_sub(instance.started),
            listened: instance.listened(before).map(|since| now.saturating_sub(since)),
            planned: matches!(before, Phase::Draining { .. } | Phase::Stopping { .. }),
            cause: instance.cause,
        };
        self.actions.push(Action::Steer);
        if !self.serves() {
            self.tell(Notice::Stopped { worker: end.worker, status });
            self.stop_the_rest();
        } else if self.successor_ended(generation, status, end.ran) {
            // Told; the predecessor goes on.
        } else if self.workers.iter().any(|worker| worker.current == Some(generation)) {
            self.worker_ended(now, &end);
        } else {
            self.tell(Notice::Stopped { worker: end.worker, status });
        }
    }

    /// A worker's current start ended, while connections are wanted.
    fn worker_ended(&mut self, now: Time, end: &End) {
        let Some(worker) = self.workers.iter_mut().find(|w| w.id == end.worker) else { return };
        worker.last_exit = Some(end.status);
        let lasted = end.planned || end.listened.is_some_and(|time| time >= LASTING);
        worker.failures = if lasted { 0 } else { worker.failures + 1 };
        let cause = match (end.cause.filter(|_| end.planned), end.listened, end.status) {
            (Some(cause), _, _) => cause,
            (None, _, ExitStatus::OutOfMemory) => Cause::OutOfMemory,
            (None, None, _) => Cause::NeverListened,
            (None, _, ExitStatus::Code(_)) => Cause::Exit,
            (None, _, ExitStatus::Signal(_)) => Cause::Signal,
        };
        worker.restarts.count(cause);
        let (failures, listened) = (worker.failures, end.listened.is_some());
        let hopeless = self.is_hopeless();
        let again = (!hopeless).then_some(failures);
        self.tell(Notice::Exited { worker: end.worker, status: end.status, ran: end.ran, listened, again });
        if !listened {
            // What another worker does wrong is often why this one can't listen; said once, its own lines would hide it.
            self.complain_again();
        }
        if !end.planned {
            self.drop_successor_of(now, end.worker);
        }
        self.note_completeness();
        if hopeless {
            self.give_up(now, end.status);
        }
    }

    pub(super) fn gone(&mut self, now: Time, generation: Generation) {
        let Some(instance) = self.instances.remove(&generation) else { return };
        if let Some(worker) = self.workers.iter_mut().find(|w| w.current == Some(generation)) {
            worker.current = None;
            worker.slot = instance.slot;
            let delay = backoff::delay(worker.failures, &mut self.random);
            worker.start_at = Some(now + delay);
            if self.serves() {
                self.start_due(now);
            }
        }
        self.finish_replacement(now);
    }

    /// Every worker keeps failing and none listens.
    fn is_hopeless(&self) -> bool {
        let enough = if self.on_trial { 1 } else { GIVE_UP_AFTER };
        self.may_start().all(|worker| worker.failures >= enough)
            && self.stop.is_none()
            && self.serving().next().is_none()
    }

    /// The container had better end: with the worker's own code, so that the kubelet shows it and backs off in its turn.
    fn give_up(&mut self, now: Time, status: ExitStatus) {
        let failures = if self.on_trial { None } else { Some(GIVE_UP_AFTER) };
        self.tell(Notice::GivingUp { status, failures });
        self.abandon(now, status.code());
    }

    /// Moves instances on whose time has come.
    pub(super) fn advance_phases(&mut self, now: Time) {
        let due: Vec<Generation> = self
            .instances
            .iter()
            .filter(|(_, instance)| self.phase_deadline(instance).is_some_and(|at| at <= now))
            .map(|(generation, _)| *generation)
            .collect();
        for generation in due {
            let Some(instance) = self.instances.get_mut(&generation) else { continue };
            match &mut instance.phase {
                Phase::Starting => self.ready(now, generation),
                Phase::Listening { .. } => {}
                Phase::Draining { .. } => self.quiet(now, generation),
                Phase::Stopping { kills, .. } | Phase::Ended { kills, .. } if *kills == MOST_KILLS => {
                    self.gone(now, generation);
                }
                Phase::Stopping { kill_at, kills } | Phase::Ended { kill_at, kills, .. } => {
                    *kills += 1;
                    *kill_at = now + KILL_PAUSE;
                    self.actions.push(Action::Kill(generation));
                }
            }
        }
    }

    /// When an instance has to be looked at again, if nothing else happens to it.
    pub(super) fn phase_deadline(&self, instance: &Instance) -> Option<Time> {
        match instance.phase {
            Phase::Starting if self.settings.main_port.is_none() => Some(instance.started + SETTLED),
            Phase::Starting | Phase::Listening { .. } => None,
            Phase::Draining { until } => Some(until),
            Phase::Stopping { kill_at, .. } | Phase::Ended { kill_at, .. } => Some(kill_at),
        }
    }
}

/// The end of one start, with what is to be known about it.
struct End {
    worker: WorkerId,
    status: ExitStatus,
    ran: Duration,
    /// For how long it took connections.
    listened: Option<Duration>,
    /// It was asked to end.
    planned: bool,
    /// Why it was.
    cause: Option<Cause>,
}
