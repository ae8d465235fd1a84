//! Planned changes: rolling restarts, recycling, and another number of workers.
//!
//! One worker at a time. Its successor starts beside it on a slot of its own; only when the successor listens does the
//! predecessor get no more new connections, finish what it has begun, and stop. A successor that fails changes nothing:
//! the predecessor goes on.
//!
//! A worker that does not listen where it should is replaced too: its restart may be the remedy. Its successor need not come
//! further than it did. Only the declared port can have two at once, and not where a worker keeps it to
//! itself; where the worker listens on something else, or on nothing, it stops first.

use super::readiness::PATIENCE;
use super::{
    Action, Cause, Failure, Fleet, Generation, Instance, Notice, Phase, Slot, Time, Worker, WorkerId,
};
use crate::sys::process::ExitStatus;
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::Duration;

/// A successor that does not listen within this time will not do so.
const SUCCESSOR_PATIENCE: Duration = Duration::from_mins(2);
/// A connection whose handshake was under way when its worker was left out still arrives; most do within this time.
const SETTLE: Duration = Duration::from_millis(250);
/// How long a hung worker may take to write down where it hangs.
const ABORT_PATIENCE: Duration = Duration::from_secs(2);

/// Replacements that are under way or wait for their turn.
#[derive(Debug, Default)]
pub(super) struct Replacements {
    waiting: VecDeque<(Generation, Cause)>,
    current: Option<Replacement>,
}

#[derive(Debug, Clone, Copy)]
struct Replacement {
    worker: WorkerId,
    /// The start that is to go.
    old: Generation,
    /// How far it had come.
    reached: Reached,
    /// Then the others are not kept waiting any longer.
    give_up_at: Time,
}

/// How far a start has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reached {
    /// It takes connections.
    Ready,
    /// It listens here, in vain.
    Elsewhere(SocketAddr),
    /// It has been running for a while and listens nowhere that could be seen.
    Nowhere,
}

impl Fleet {
    /// Puts every worker on the list.
    pub(super) fn roll(&mut self, now: Time) {
        if self.stop.is_some() {
            return;
        }
        let running = self.workers.iter().filter_map(|worker| worker.current);
        let old: Vec<Generation> =
            running.filter(|generation| self.reached(now, *generation).is_some()).collect();
        self.tell(Notice::Rolling { workers: old.len() });
        for generation in old {
            self.replace(now, generation, Cause::Requested);
        }
    }

    /// How far a start has come. `None`: nobody knows yet, and it is as new as it could be.
    fn reached(&self, now: Time, generation: Generation) -> Option<Reached> {
        let instance = self.instances.get(&generation)?;
        let has_had_time = now >= instance.started + PATIENCE;
        match (instance.phase, instance.elsewhere) {
            (Phase::Listening { .. }, _) => Some(Reached::Ready),
            // Another port may be one that it opens before the declared one.
            (Phase::Starting, Some(address)) if self.is_shared(address) || has_had_time => {
                Some(Reached::Elsewhere(address))
            }
            (Phase::Starting, None) if has_had_time => Some(Reached::Nowhere),
            _ => None,
        }
    }

    /// Can a successor listen here, too?
    fn is_shared(&self, address: SocketAddr) -> bool {
        self.settings.main_port == Some(address.port())
    }

    /// Has the start in place of another come as far as that one had?
    fn has_come_as_far(&self, now: Time, instance: &Instance, reached: Reached) -> bool {
        let listens = instance.listening_since().is_some();
        let starting = instance.phase == Phase::Starting;
        match reached {
            Reached::Ready => listens,
            Reached::Elsewhere(address) => {
                let same = instance.elsewhere.is_some_and(|new| new == address || !self.is_shared(address));
                listens || (starting && same)
            }
            Reached::Nowhere => {
                let has_had_time = now >= instance.started + PATIENCE;
                listens || (starting && (instance.elsewhere.is_some() || has_had_time))
            }
        }
    }

    /// Puts one worker on the list.
    pub(super) fn replace(&mut self, now: Time, generation: Generation, cause: Cause) {
        let is_known = self.replacements.waiting.iter().any(|(known, _)| *known == generation)
            || self.replacements.current.is_some_and(|current| current.old == generation);
        if self.reached(now, generation).is_some() && !is_known && self.stop.is_none() {
            self.replacements.waiting.push_back((generation, cause));
            self.advance_replacements(now);
        }
    }

    /// Begins the next replacement when none is under way.
    pub(super) fn advance_replacements(&mut self, now: Time) {
        self.drop_late_successors(now);
        while self.replacements.current.is_none() && self.stop.is_none() {
            let Some((old, cause)) = self.replacements.waiting.pop_front() else { return };
            let Some(reached) = self.reached(now, old) else { continue };
            let Some(instance) = self.instances.get_mut(&old) else { continue };
            instance.cause = Some(cause);
            let (worker, keeps_port) = (instance.worker, instance.keeps_port);
            let give_up_at = now + SUCCESSOR_PATIENCE + self.settings.drain + self.settings.grace;
            self.tell(Notice::Replacing { worker, cause });
            self.replacements.current = Some(Replacement { worker, old, reached, give_up_at });
            let can_be_two = match reached {
                Reached::Ready => true,
                Reached::Elsewhere(address) => self.is_shared(address),
                Reached::Nowhere => false,
            };
            if self.settings.overlap && can_be_two && !keeps_port {
                self.start_successor(now, worker);
            } else {
                self.retire(now, old, SETTLE);
            }
        }
    }

    fn start_successor(&mut self, now: Time, id: WorkerId) {
        let slot = self.free_slot();
        let generation = self.launch(now, id, slot);
        if let Some(worker) = self.workers.iter_mut().find(|w| w.id == id) {
            worker.successor = Some(generation);
        }
    }

    /// A successor has come far enough: its predecessor may go.
    pub(super) fn succeed(&mut self, now: Time, generation: Generation) {
        let Some(worker) = self.workers.iter_mut().find(|w| w.successor == Some(generation)) else { return };
        let Some(instance) = self.instances.get(&generation) else { return };
        worker.successor = None;
        worker.slot = instance.slot;
        worker.failures = 0;
        let old = worker.current.replace(generation);
        if let Some(cause) = old.and_then(|old| self.instances.get(&old)).and_then(|old| old.cause) {
            worker.restarts.count(cause);
        }
        if let Some(old) = old {
            self.retire(now, old, SETTLE);
        }
    }

    /// A successor ended before it listened: the predecessors go on, and so do all that wait for their turn.
    pub(super) fn successor_ended(
        &mut self,
        generation: Generation,
        status: ExitStatus,
        ran: Duration,
    ) -> bool {
        let why = Failure::Ended { status, ran };
        let Some(id) = self.workers.iter().find(|w| w.successor == Some(generation)).map(|w| w.id) else {
            return false;
        };
        self.call_off(id, why);
        true
    }

    fn call_off(&mut self, id: WorkerId, why: Failure) {
        if let Some(worker) = self.workers.iter_mut().find(|w| w.id == id) {
            worker.successor = None;
        }
        self.replacements = Replacements::default();
        self.tell(Notice::ReplacementFailed { worker: id, why });
    }

    fn drop_late_successors(&mut self, now: Time) {
        let is_late = |generation: &Generation| {
            self.instances
                .get(generation)
                .is_some_and(|i| i.phase == Phase::Starting && i.started + SUCCESSOR_PATIENCE <= now)
        };
        let successors = self.workers.iter().filter_map(|worker| Some((worker.id, worker.successor?)));
        let late: Vec<(WorkerId, Generation)> = successors.filter(|(_, g)| is_late(g)).collect();
        for (id, generation) in late {
            let reason = self.instances.get(&generation).and_then(|i| self.reason(i, now));
            self.call_off(id, reason.map_or(Failure::Lost, Failure::Late));
            self.terminate(now, generation);
        }
        if let Some(Replacement { worker, .. }) =
            self.replacements.current.filter(|current| current.give_up_at <= now)
        {
            let reason = self.workers.iter().find(|w| w.id == worker).and_then(|w| self.shortcoming(w, now));
            self.call_off(worker, reason.map_or(Failure::Lost, Failure::Late));
        }
    }

    /// When the replacement under way has to be looked at again.
    pub(super) fn replacement_deadline(&self) -> Option<Time> {
        let successors = self.workers.iter().filter_map(|worker| worker.successor);
        let late = successors.filter_map(|g| self.instances.get(&g)).map(|i| i.started + SUCCESSOR_PATIENCE);
        let current = self.replacements.current;
        let silent = current.filter(|current| current.reached == Reached::Nowhere).and_then(|current| {
            let new = self.workers.iter().find(|w| w.id == current.worker)?.current?;
            let instance = self.instances.get(&new).filter(|_| new != current.old)?;
            (instance.phase == Phase::Starting).then_some(instance.started + PATIENCE)
        });
        late.chain(silent).chain(current.map(|current| current.give_up_at)).min()
    }

    /// The worker that was to be replaced ended by itself, and its restart will do.
    pub(super) fn drop_successor_of(&mut self, now: Time, id: WorkerId) {
        let Some(worker) = self.workers.iter_mut().find(|w| w.id == id) else { return };
        if let Some(successor) = worker.successor.take() {
            self.terminate(now, successor);
        }
    }

    /// Lets a successor that has come far enough take its predecessor's place. When nothing is left of that one, the next may
    /// begin.
    pub(super) fn finish_replacement(&mut self, now: Time) {
        let Some(Replacement { worker, old, reached, .. }) = self.replacements.current else { return };
        let has_come_as_far = |fleet: &Self, start: Option<Generation>| {
            let instance = start.and_then(|g| fleet.instances.get(&g));
            instance.is_some_and(|i| fleet.has_come_as_far(now, i, reached))
        };
        let find = |fleet: &Self| fleet.workers.iter().find(|w| w.id == worker).cloned();
        let successor = find(self).and_then(|w| w.successor);
        if let Some(successor) = successor.filter(|_| has_come_as_far(self, successor)) {
            self.succeed(now, successor);
        }
        let Some(found) = find(self) else { return };
        if has_come_as_far(self, found.current) && !self.instances.contains_key(&old) {
            self.replacements.current = None;
            if let Some(reason) = self.shortcoming(&found, now) {
                self.tell(Notice::ReplacedInVain(reason));
            }
            if self.replacements.waiting.is_empty() {
                self.tell(Notice::Replaced);
            }
            self.advance_replacements(now);
        }
    }

    /// No new connections for this start; it finishes what it has begun.
    pub(super) fn retire(&mut self, now: Time, generation: Generation, settle: Duration) {
        let patience = self.drain_patience(now);
        let Some(instance) = self.instances.get_mut(&generation) else { return };
        // Also where nobody else can reach it, somebody in the pod may.
        if instance.listening_since().is_none()
            && (instance.elsewhere.is_none() || instance.phase != Phase::Starting)
        {
            return self.terminate(now, generation);
        }
        instance.phase = Phase::Draining { until: now + patience };
        self.actions.push(Action::Steer);
        self.actions.push(Action::Drain { generation, settle, patience });
    }

    /// Asks a start to stop.
    pub(super) fn terminate(&mut self, now: Time, generation: Generation) {
        let kill_at = now + self.settings.grace;
        let Some(instance) = self.instances.get_mut(&generation) else { return };
        if matches!(instance.phase, Phase::Starting | Phase::Listening { .. } | Phase::Draining { .. }) {
            instance.phase = Phase::Stopping { kill_at, kills: 0 };
            self.actions.push(Action::Steer);
            self.actions.push(Action::Terminate(generation));
        }
    }

    pub(super) fn quiet(&mut self, now: Time, generation: Generation) {
        let phase = self.instances.get(&generation).map(|instance| instance.phase);
        if matches!(phase, Some(Phase::Draining { .. })) {
            self.terminate(now, generation);
            self.stop_the_rest();
        }
    }

    /// Ends a worker that takes no connections any more. Its successor gets the same slot, where they wait.
    pub(super) fn hung(&mut self, now: Time, generation: Generation, time: Duration) {
        let Some(instance) = self.instances.get_mut(&generation).filter(|i| i.listening_since().is_some())
        else {
            return;
        };
        instance.cause = Some(Cause::Hung);
        instance.phase = Phase::Stopping { kill_at: now + ABORT_PATIENCE, kills: 0 };
        let worker = instance.worker;
        self.tell(Notice::Hung { worker, time });
        self.actions.push(Action::Steer);
        self.actions.push(Action::Abort(generation));
    }

    /// Another number of workers. The highest go first, so that numbers stay dense.
    pub(super) fn resize(&mut self, now: Time, count: u32) {
        if self.stop.is_some() {
            return;
        }
        let wanted = usize::try_from(count.max(1)).unwrap_or(usize::MAX);
        while self.workers.len() > wanted {
            let Some(worker) = self.workers.pop() else { break };
            self.drop_worker(now, &worker);
        }
        while self.workers.len() < wanted {
            let id = self.workers.last().map_or(0, |last| last.id + 1);
            let slot = self.free_slot();
            self.workers.push(Worker { start_at: Some(now), ..Worker::new(id, slot) });
        }
        self.start_due(now);
    }

    fn drop_worker(&mut self, now: Time, worker: &Worker) {
        if let Some(successor) = worker.successor {
            self.terminate(now, successor);
        }
        if let Some(current) = worker.current {
            self.retire(now, current, SETTLE);
        }
        if self.replacements.current.is_some_and(|current| current.worker == worker.id) {
            self.replacements.current = None;
            self.advance_replacements(now);
        }
    }

    /// The lowest slot that nobody uses and in whose queue no connection can wait for anybody.
    fn free_slot(&self) -> Slot {
        let used = |slot: Slot| {
            self.instances.values().any(|i| i.slot == slot) || self.workers.iter().any(|w| w.slot == slot)
        };
        let most = self.instances.len() + self.workers.len();
        (0..=most).find(|slot| !used(*slot)).unwrap_or(most)
    }
}
