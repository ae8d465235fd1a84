//! What has to be looked at now and then, since nothing tells about it: limits, hangs, age and size.

use super::Supervisor;
use super::trees::{roots, tree_members};
use crate::balance::{Balance, Census};
use crate::cgroup::Cgroup;
use crate::flags::Processes;
use crate::fleet::{Event, Generation, Phase, Severity, Slot, Time};
use crate::hang::{HangWatch, Queue};
use crate::limits::{Wanted, Workers};
use crate::log;
use crate::recycle::Facts;
use crate::sharing::Mode;
use crate::sys::diag;
use crate::sys::process;
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::time::Duration;

/// An idle supervisor may cost one wake-up a second, and there are others than this one.
const PERIOD: Duration = Duration::from_millis(1_250);
/// Memory and requests change slowly, and reading them costs more.
const RECYCLE_EVERY: u64 = 4;

/// When to look next, and what was seen last.
#[derive(Debug, Default)]
pub(super) struct Housekeeping {
    next: Time,
    pub(super) round: u64,
    pub(super) hang: HangWatch,
    throttled: Duration,
    /// What the cgroup's count was when it was last looked at.
    oom_kills: u64,
    /// Slots that get no new connections while others can take them.
    pub(super) avoided: BTreeSet<Slot>,
    pub(super) census: Census,
    pub(super) balance: Balance,
}

impl Housekeeping {
    /// From what the cgroup counts already: a container's begins at 0, that of a shell does not.
    pub(super) fn of(cgroup: &Cgroup) -> Self {
        Self { oom_kills: cgroup.oom_kills(), ..Self::default() }
    }

    /// Whether the kernel has killed a process for want of memory since the last look.
    pub(super) fn ran_out_of_memory(&mut self, cgroup: &Cgroup) -> bool {
        let before = std::mem::replace(&mut self.oom_kills, cgroup.oom_kills());
        self.oom_kills > before
    }
}

impl Supervisor {
    /// When the next look is due. Nothing is looked at any more once the workers are to go.
    pub(super) fn housekeeping_due(&self) -> Option<Time> {
        (!self.fleet.is_stopping()).then_some(self.housekeeping.next)
    }

    pub(super) fn keep_house(&mut self) {
        let now = self.now();
        if self.housekeeping_due().is_none_or(|at| at > now) {
            return;
        }
        self.housekeeping.next = now + PERIOD;
        self.housekeeping.round += 1;
        self.follow_limits(now);
        self.look_for_hangs(now);
        self.look_at_the_spread();
        if self.recycling.any() && self.housekeeping.round.is_multiple_of(RECYCLE_EVERY) {
            self.look_for_the_worn_out(now);
        }
    }

    fn follow_limits(&mut self, now: Time) {
        if self.flags.workers != Wanted::Auto {
            return;
        }
        let workers = self.basis().workers();
        let Some(count) = self.follower.observe(now, workers.count) else { return };
        let before = self.workers.count;
        log::write(Severity::Info, &format!("WORKERS={count} ({}), was {before}", workers.reason));
        self.workers = Workers { count, ..workers };
        self.resize();
    }

    fn resize(&mut self) {
        match (self.flags.processes, &self.mode) {
            (_, Mode::Single(_)) => {}
            (Processes::Workers, _) => self.dispatch(Event::Resize { workers: self.workers.count }),
            // It makes its workers when it starts, so it has to start anew; with slots nothing is lost.
            (Processes::One, Mode::Slots) => self.dispatch(Event::Roll),
            (Processes::One, _) => {
                let text = "the command makes its own workers and shares the port by itself: \
                            the new number holds from its next start on";
                log::write(Severity::Info, &text);
            }
        }
    }

    fn look_for_hangs(&mut self, now: Time) {
        if self.mode != Mode::Slots {
            return;
        }
        let listening: Vec<(Generation, Slot)> = self.listening().collect();
        let queues: Vec<Queue> = listening
            .iter()
            .map(|(_, slot)| Queue { slot: *slot, length: self.broker.slots.queue_length(*slot) })
            .collect();
        let throttled = self.newly_throttled(&queues);
        let ports = &self.flags.ports;
        let waiting = || -> BTreeSet<SocketAddr> {
            let all = diag::connections(ports).unwrap_or_default();
            all.into_iter()
                .filter(|connection| connection.inode == 0)
                .map(|connection| connection.peer)
                .collect()
        };
        let hangs = self.housekeeping.hang.observe(now, &queues, self.flags.hang_timeout, waiting, throttled);
        let avoided = self.housekeeping.hang.suspects(now);
        if avoided != self.housekeeping.avoided {
            self.housekeeping.avoided = avoided;
            self.steer();
        }
        for hang in hangs {
            if let Some((generation, _)) = listening.iter().find(|(_, slot)| *slot == hang.slot) {
                self.dispatch(Event::Hung { generation: *generation, time: hang.time });
            }
        }
    }

    /// For how long the container has been throttled since the last look; asked only when somebody waits.
    fn newly_throttled(&mut self, queues: &[Queue]) -> Duration {
        if queues.iter().all(|queue| queue.length == 0) {
            return Duration::ZERO;
        }
        let total = self.cgroup.throttled();
        let before = std::mem::replace(&mut self.housekeeping.throttled, total);
        // At the first look nobody knows when it was.
        if before.is_zero() { Duration::ZERO } else { total.saturating_sub(before).min(PERIOD) }
    }

    fn look_for_the_worn_out(&mut self, now: Time) {
        let members = tree_members(self.pid, &roots(&self.trees));
        let listening: Vec<(Generation, Slot)> = self.listening().collect();
        for (generation, _) in listening {
            if self.recycling.requests.is_some() {
                self.admin.say(generation, "stats\n");
            }
            let mine = members.iter().filter(|member| member.generation == Some(generation));
            let pages: u64 = mine.map(|member| member.process.resident_pages).sum();
            let started = self.fleet.instance(generation).map_or(now, |instance| instance.started);
            let facts = Facts {
                age: now.saturating_sub(started),
                memory: pages * process::page_size(),
                requests: self.admin.stats(generation).map(|stats| stats.requests).sum(),
            };
            if let Some(cause) = self.recycling.due(generation, &facts) {
                self.dispatch(Event::Replace { generation, cause });
            }
        }
    }

    pub(super) fn listening(&self) -> impl Iterator<Item = (Generation, Slot)> {
        let trees = self.trees.iter().map(|(generation, tree)| (*generation, tree.slot));
        trees.filter(|(generation, _)| {
            let phase = self.fleet.instance(*generation).map(|instance| instance.phase);
            matches!(phase, Some(Phase::Listening { .. }))
        })
    }
}
