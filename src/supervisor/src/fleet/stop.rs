//! The end of everything: readiness off, lame duck, drain, SIGKILL, all within the grace period.

use super::{Action, Fleet, Notice, Time};
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
    /// The workers were told to stop.
    Draining,
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
            Stage::Draining => Some(self.kill_at),
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
                self.drain();
            }
            Some(Stage::Draining) => {
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
            self.drain();
        }
    }

    /// Ends with `code` because nothing works.
    pub(super) fn abandon(&mut self, now: Time, code: i32) {
        let patience = ABANDON.min(self.settings.grace);
        self.stop = Some(Stop { stage: Stage::Draining, kill_at: now + patience, code });
        self.actions.push(Action::TerminateAll);
    }

    fn drain(&mut self) {
        if let Some(stop) = &mut self.stop {
            stop.stage = Stage::Draining;
            self.actions.push(Action::TerminateAll);
        }
    }

    fn kill_all(&mut self, now: Time) {
        let Some(stop) = &mut self.stop else { return };
        let round = match stop.stage {
            Stage::Killing { round, .. } => round + 1,
            Stage::LameDuck { .. } | Stage::Draining | Stage::Over => 1,
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
            Stage::LameDuck { .. } => self.drain(),
            Stage::Draining | Stage::Killing { .. } => self.kill_all(now),
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
