//! How long to wait before the next start.

use std::time::Duration;

/// The first wait.
const FIRST: Duration = Duration::from_millis(100);
/// The longest.
const LONGEST: Duration = Duration::from_secs(30);

/// The wait after so many starts in a row that did not last. None: the worker had served well, and its queue waits.
///
/// ±25 %, so that workers that failed together do not start together for ever.
pub(super) fn delay(failures: u32, random: &mut Random) -> Duration {
    let Some(doublings) = failures.checked_sub(1) else { return Duration::ZERO };
    let wait = FIRST.saturating_mul(1_u32.checked_shl(doublings).unwrap_or(u32::MAX)).min(LONGEST);
    wait.mul_f64(0.75 + 0.5 * random.fraction())
}

/// xorshift64*: enough to spread restarts, and the same for the same seed.
#[derive(Debug)]
pub(super) struct Random(u64);

impl Random {
    pub(super) fn new(seed: u64) -> Self {
        // The generator would stay at zero for ever.
        Self(seed | 1)
    }

    /// From 0 up to but not including 1.
    fn fraction(&mut self) -> f64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let high = self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 32;
        f64::from(u32::try_from(high).unwrap_or_default()) / (f64::from(u32::MAX) + 1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubles_up_to_half_a_minute_and_varies_by_a_quarter() {
        let mut random = Random::new(7);
        assert_eq!(delay(0, &mut random), Duration::ZERO);
        for (failures, milliseconds) in
            [(1, 100), (2, 200), (5, 1_600), (9, 25_600), (10, 30_000), (99, 30_000)]
        {
            let middle = Duration::from_millis(milliseconds);
            let waits: Vec<Duration> = (0..100).map(|_| delay(failures, &mut random)).collect();
            assert!(
                waits.iter().all(|w| *w >= middle.mul_f64(0.75) && *w < middle.mul_f64(1.25)),
                "{failures}"
            );
            assert!(waits.iter().any(|w| *w < middle) && waits.iter().any(|w| *w > middle), "{failures}");
        }
    }
}
