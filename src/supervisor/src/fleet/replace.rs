//! Planned changes: rolling restarts, recycling, and another number of workers.
//!
//! One worker at a time. Its successor starts beside it on a slot of its own; only when the successor listens does the
//! predecessor get no more new connections, finish what it has begun, and stop. A successor that fails changes nothing:
//! the predecessor goes on.

use super::{Action, Cause, Fleet, Generation, Instance, Notice, Phase, Slot, Time, Worker, WorkerId};
use std::collections::VecDeque;
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
}

impl Fleet {
    /// Puts every worker on the list.
    pub(super) fn roll(&mut self, now: Time) {
        if self.stop.is_some() {
            return;
        }
        let running: Vec<Generation> = self.workers.iter().filter_map(|worker| worker.current).collect();
        self.tell(Notice::Rolling { workers: running.len() });
        for generation in running {
            self.replace(now, generation, Cause::Requested);
        }
    }

    /// Puts one worker on the list.
    pub(super) fn replace(&mut self, now: Time, generation: Generation, cause: Cause) {
        let is_known = self.replacements.waiting.iter().any(|(known, _)| *known == generation)
            || self.replacements.current.is_some_and(|current| current.old == generation);
        let listens = self.instances.get(&generation).is_some_and(|i| i.listening_since().is_some());
        // A worker that does not listen yet is as new as it could be.
        if listens && !is_known && self.stop.is_none() {
            self.replacements.waiting.push_back((generation, cause));
            self.advance_replacements(now);
        }
    }

    /// Begins the next replacement when none is under way.
    pub(super) fn advance_replacements(&mut self, now: Time) {
        self.drop_late_successors(now);
        while self.replacements.current.is_none() && self.stop.is_none() {
            let Some((old, cause)) = self.replacements.waiting.pop_front() else { return };
            let Some(instance) = self.instances.get_mut(&old).filter(|i| i.listening_since().is_some())
            else {
                continue;
            };
            instance.cause = Some(cause);
            let worker = instance.worker;
            self.tell(Notice::Replacing { worker, cause });
            self.replacements.current = Some(Replacement { worker, old });
            if self.settings.overlap {
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

    /// A successor listens: its predecessor may go.
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
    pub(super) fn successor_failed(&mut self, generation: Generation) -> bool {
        let Some(worker) = self.workers.iter_mut().find(|w| w.successor == Some(generation)) else {
            return false;
        };
        worker.successor = None;
        let id = worker.id;
        self.replacements = Replacements::default();
        self.tell(Notice::ReplacementFailed { worker: id });
        true
    }

    fn drop_late_successors(&mut self, now: Time) {
        let late = |instance: &Instance| {
            instance.phase == Phase::Starting && instance.started + SUCCESSOR_PATIENCE <= now
        };
        let successors = self.workers.iter().filter_map(|worker| worker.successor);
        let late: Vec<Generation> =
            successors.filter(|generation| self.instances.get(generation).is_some_and(late)).collect();
        for generation in late {
            self.successor_failed(generation);
            self.terminate(now, generation);
        }
    }

    /// When [`Self::drop_late_successors`] has to look again.
    pub(super) fn successor_deadline(&self) -> Option<Time> {
        let successors = self.workers.iter().filter_map(|worker| worker.successor);
        successors.filter_map(|g| self.instances.get(&g)).map(|i| i.started + SUCCESSOR_PATIENCE).min()
    }

    /// The worker that was to be replaced ended by itself, and its restart will do.
    pub(super) fn drop_successor_of(&mut self, now: Time, id: WorkerId) {
        let Some(worker) = self.workers.iter_mut().find(|w| w.id == id) else { return };
        if let Some(successor) = worker.successor.take() {
            self.terminate(now, successor);
        }
    }

    /// If nothing is left of the start that is replaced, and its worker listens again, the next may begin.
    pub(super) fn finish_replacement(&mut self, now: Time) {
        let Some(Replacement { worker, old }) = self.replacements.current else { return };
        let current = self.workers.iter().find(|w| w.id == worker).and_then(|w| w.current);
        let listens =
            current.and_then(|g| self.instances.get(&g)).is_some_and(|i| i.listening_since().is_some());
        if listens && !self.instances.contains_key(&old) {
            self.replacements.current = None;
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
        if instance.listening_since().is_none() {
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
