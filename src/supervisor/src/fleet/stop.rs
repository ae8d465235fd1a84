//! The end of everything: readiness off, lame duck, drain, SIGKILL, all within the grace period.

use super::{Action, Fleet, Generation, Notice, Phase, Time};
use crate::sys::signal::Signal;
use std::time::Duration;

/// How long processes that were starting may take to end when the supervisor gives up.
const ABANDON: Duration = Duration::from_secs(5);
/// Pause between two rounds of SIGKILL: a process may fork between being listed and being killed.
const KILL_PAUSE: Duration = Duration::from_millis(200);
/// After so many rounds what is left hangs in the kernel; the container's runtime has to deal with it.
const MOST_KILLS: u32 = 5;
/// The code of a container that SIGKILL ended.
const KILLED: i32 = 128 + 9;

/// A stop under way.
#[derive(Debug)]
pub(super) struct Stop {
    stage: Stage,
    /// When patience ends.
    kill_at: Time,
    /// What the supervisor ends with.
    code: i32,
}

#[derive(Debug, PartialEq, Eq)]
enum Stage {
    /// Not ready any more, but serving: endpoints take a while to leave every node's tables.
    LameDuck { until: Time },
    /// The workers finish what they have begun; each is asked to stop when it has.
    Draining,
    /// Everything was asked to stop.
    Terminated,
    /// They are being killed.
    Killing { round: u32, next: Time },
    /// Nothing is left to do.
    Over,
}

impl Stop {
    pub(super) fn still_serves(&self) -> bool {
        matches!(self.stage, Stage::LameDuck { .. })
    }

    pub(super) fn deadline(&self) -> Option<Time> {
        match self.stage {
            Stage::LameDuck { until } => Some(until),
            Stage::Draining | Stage::Terminated => Some(self.kill_at),
            Stage::Killing { next, .. } => Some(next),
            Stage::Over => None,
        }
    }
}

impl Fleet {
    pub(super) fn stop_requested(&mut self, now: Time, signal: Signal, interactive: bool) {
        match self.stop.as_ref().map(|stop| &stop.stage) {
            None => self.begin_stop(now, signal, interactive),
            Some(Stage::LameDuck { .. }) => {
                self.tell(Notice::Hastened { signal });
                self.drain(now);
            }
            Some(Stage::Draining) => {
                self.tell(Notice::Hastened { signal });
                self.terminate_all(now);
            }
            Some(Stage::Terminated) => {
                self.tell(Notice::Hastened { signal });
                self.kill_all(now);
            }
            Some(Stage::Killing { .. } | Stage::Over) => {}
        }
    }

    fn begin_stop(&mut self, now: Time, signal: Signal, interactive: bool) {
        // A little of the grace period stays unused: the kubelet's own SIGKILL must find nobody.
        let reserve = (self.settings.grace / 20).min(Duration::from_secs(1));
        let patience = self.settings.grace.saturating_sub(reserve);
        let nobody_serves = self.serving().next().is_none();
        let lame_duck = if interactive || nobody_serves {
            Duration::ZERO
        } else {
            // There must be time left to drain.
            self.settings.lame_duck.min(patience / 2)
        };
        let until = now + lame_duck;
        self.stop = Some(Stop { stage: Stage::LameDuck { until }, kill_at: now + patience, code: 0 });
        self.tell(Notice::Stopping { signal, lame_duck, patience });
        if lame_duck.is_zero() {
            self.drain(now);
        }
    }

    /// Ends with `code` because nothing works.
    pub(super) fn abandon(&mut self, now: Time, code: i32) {
        let patience = ABANDON.min(self.settings.grace);
        self.stop = Some(Stop { stage: Stage::Draining, kill_at: now + patience, code });
        self.terminate_all(now);
    }

    fn drain(&mut self, now: Time) {
        let Some(stop) = &mut self.stop else { return };
        stop.stage = Stage::Draining;
        let all: Vec<Generation> = self.instances.keys().copied().collect();
        for generation in all {
            self.retire(now, generation, Duration::ZERO);
        }
        self.stop_the_rest();
    }

    /// How long a worker may finish what it has begun: not so long that no time is left to stop.
    pub(super) fn drain_patience(&self, now: Time) -> Duration {
        let most = self.stop.as_ref().map_or(Duration::MAX, |stop| stop.kill_at.saturating_sub(now) / 2);
        self.settings.drain.min(most)
    }

    fn terminate_all(&mut self, now: Time) {
        let all: Vec<Generation> = self.instances.keys().copied().collect();
        for generation in all {
            self.terminate(now, generation);
        }
        self.stop_the_rest();
    }

    /// When every worker was asked to stop, what is left below us is asked too.
    pub(super) fn stop_the_rest(&mut self) {
        let all_asked =
            self.instances.values().all(|i| matches!(i.phase, Phase::Stopping { .. } | Phase::Ended { .. }));
        if let Some(stop) = self.stop.as_mut().filter(|stop| stop.stage == Stage::Draining && all_asked) {
            stop.stage = Stage::Terminated;
            self.actions.push(Action::TerminateAll);
        }
    }

    fn kill_all(&mut self, now: Time) {
        let Some(stop) = &mut self.stop else { return };
        let round = match stop.stage {
            Stage::Killing { round, .. } => round + 1,
            _ => 1,
        };
        if stop.code == 0 {
            stop.code = KILLED;
        }
        if round > MOST_KILLS {
            self.end();
            return;
        }
        stop.stage = Stage::Killing { round, next: now + KILL_PAUSE };
        if round == 1 {
            self.tell(Notice::Killing);
        }
        self.actions.push(Action::KillAll);
    }

    pub(super) fn advance_stop(&mut self, now: Time) {
        let Some(stop) = &self.stop else { return };
        if stop.deadline().is_none_or(|at| at > now) {
            return;
        }
        match stop.stage {
            Stage::LameDuck { .. } => self.drain(now),
            Stage::Draining | Stage::Terminated | Stage::Killing { .. } => self.kill_all(now),
            Stage::Over => {}
        }
    }

    pub(super) fn childless(&mut self) {
        if self.stop.is_some() && !self.serves() {
            self.end();
        }
    }

    fn end(&mut self) {
        if let Some(stop) = self.stop.as_mut().filter(|stop| stop.stage != Stage::Over) {
            stop.stage = Stage::Over;
            self.actions.push(Action::Exit(stop.code));
        }
    }
}
