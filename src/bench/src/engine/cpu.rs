//! CPU time of a load thread.

use rustix::time::{ClockId, clock_gettime};
use std::time::Duration;

/// CPU time of this thread within the measurement.
#[derive(Debug, Default)]
pub(super) struct CpuMeter {
    begin: Option<Duration>,
    ended: bool,
    /// What it used between `begin` and `end`.
    pub(super) used: Duration,
}

impl CpuMeter {
    /// Answers whether this is the first time.
    pub(super) fn begin(&mut self) -> bool {
        let first = self.begin.is_none();
        if first {
            self.begin = Some(cpu_time());
        }
        first
    }

    pub(super) fn end(&mut self) {
        if let Some(begin) = self.begin.filter(|_| !self.ended) {
            self.ended = true;
            self.used = cpu_time().saturating_sub(begin);
        }
    }
}

fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.try_into().unwrap_or(0), time.tv_nsec.try_into().unwrap_or(0))
}
