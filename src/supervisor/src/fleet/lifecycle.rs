//! Starts, ends and restarts of single workers.

use super::{Action, Fleet, Generation, Instance, Notice, Phase, Time, WorkerId, backoff};
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
            self.workers.iter().filter(|w| w.start_at.is_some_and(|at| at <= now)).map(|w| w.id).collect();
        for id in due {
            self.start(now, id);
        }
    }

    fn start(&mut self, now: Time, id: WorkerId) {
        self.last_generation += 1;
        let generation = self.last_generation;
        let Some(worker) = self.workers.iter_mut().find(|w| w.id == id) else { return };
        worker.start_at = None;
        worker.current = Some(generation);
        let slot = worker.slot;
        let instance =
            Instance { worker: id, slot, pid: None, started: now, phase: Phase::Starting, elsewhere: None };
        self.instances.insert(generation, instance);
        self.actions.push(Action::Start { worker: id, generation, slot });
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
        }
    }

    fn ready(&mut self, now: Time, generation: Generation) {
        let Some(instance) = self.instances.get_mut(&generation) else { return };
        instance.phase = Phase::Listening { since: now };
        let (worker, took) = (instance.worker, now.saturating_sub(instance.started));
        self.tell(Notice::Ready { worker, took, port: self.settings.main_port });
        self.note_completeness();
    }

    pub(super) fn exited(&mut self, now: Time, generation: Generation, status: ExitStatus) {
        let Some(instance) = self.instances.get_mut(&generation) else { return };
        let listened = instance.listening_since().map(|since| now.saturating_sub(since));
        let kill_at = now + LEFTOVERS;
        instance.phase = Phase::Ended { status, listened, kill_at, kills: 0 };
        let (id, ran) = (instance.worker, now.saturating_sub(instance.started));
        self.actions.push(Action::Steer);
        let serves = self.serves();
        let Some(worker) = self.workers.iter_mut().find(|w| w.id == id && w.current == Some(generation))
        else {
            return;
        };
        worker.last_exit = Some(status);
        let lasted = listened.is_some_and(|time| time >= LASTING);
        worker.failures = if lasted { 0 } else { worker.failures + 1 };
        if !serves {
            self.tell(Notice::Stopped { worker: id, status });
            return;
        }
        match (listened, status) {
            (None, _) => worker.restarts.never_listened += 1,
            (_, ExitStatus::Code(_)) => worker.restarts.exit += 1,
            (_, ExitStatus::Signal(_)) => worker.restarts.signal += 1,
        }
        let failures = worker.failures;
        self.tell(Notice::Exited { worker: id, status, ran, listened: listened.is_some(), failures });
        self.note_completeness();
        self.give_up_if_hopeless(now, status);
    }

    pub(super) fn gone(&mut self, now: Time, generation: Generation) {
        let Some(instance) = self.instances.remove(&generation) else { return };
        let Some(worker) = self.workers.iter_mut().find(|w| w.current == Some(generation)) else { return };
        worker.current = None;
        worker.slot = instance.slot;
        let delay = backoff::delay(worker.failures, &mut self.random);
        worker.start_at = Some(now + delay);
        if self.serves() {
            self.start_due(now);
        }
    }

    /// When every worker keeps failing and none listens, the container had better end: with the worker's own code,
    /// so that the kubelet shows it and backs off in its turn.
    fn give_up_if_hopeless(&mut self, now: Time, status: ExitStatus) {
        let hopeless = self.workers.iter().all(|worker| worker.failures >= GIVE_UP_AFTER);
        if hopeless && self.stop.is_none() && self.serving().next().is_none() {
            self.tell(Notice::GivingUp { status, failures: GIVE_UP_AFTER });
            self.abandon(now, status.code());
        }
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
                Phase::Ended { kills, .. } if *kills == MOST_KILLS => self.gone(now, generation),
                Phase::Ended { kill_at, kills, .. } => {
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
            Phase::Ended { kill_at, .. } => Some(kill_at),
        }
    }
}
