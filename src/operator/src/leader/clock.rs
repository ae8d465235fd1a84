//! The clock that leases are measured by.

use std::{
    fmt,
    ops::{Add, Sub},
    time::Duration,
};

use rustix::time::{ClockId, clock_gettime};

/// A moment, as the time since this machine was started: it goes on while the process is stopped or the machine sleeps, and nobody
/// can set it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment(Duration);

impl Moment {
    /// This moment.
    pub fn now() -> Self {
        let time = clock_gettime(ClockId::Boottime);
        // Both are never negative for this clock.
        let seconds = u64::try_from(time.tv_sec).unwrap_or_default();
        let nanoseconds = u32::try_from(time.tv_nsec).unwrap_or_default();
        Self(Duration::new(seconds, nanoseconds))
    }

    /// How long after `earlier` that is; zero if it isn't.
    pub fn since(self, earlier: Self) -> Duration {
        self.0.saturating_sub(earlier.0)
    }

    pub(super) fn as_nanos(self) -> u64 {
        u64::try_from(self.0.as_nanos()).unwrap_or(u64::MAX)
    }

    pub(super) fn from_nanos(nanoseconds: u64) -> Self {
        Self(Duration::from_nanos(nanoseconds))
    }
}

impl Add<Duration> for Moment {
    type Output = Self;

    fn add(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(duration))
    }
}

impl Sub<Duration> for Moment {
    type Output = Self;

    fn sub(self, duration: Duration) -> Self {
        Self(self.0.saturating_sub(duration))
    }
}

impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.3} s after the machine's start", self.0.as_secs_f64())
    }
}
