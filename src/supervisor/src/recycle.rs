//! When a worker has served its time: by age, memory or requests.

use crate::fleet::{Cause, Generation};
use std::time::Duration;

/// The limits; none by default.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Limits {
    /// `--max-age`.
    pub age: Option<Duration>,
    /// `--max-memory`: resident bytes of a worker's process tree.
    pub memory: Option<u64>,
    /// `--max-requests`, which only Node tells.
    pub requests: Option<u64>,
}

/// What one start of a worker has come to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Facts {
    /// Since its start.
    pub age: Duration,
    /// Resident bytes of its tree.
    pub memory: u64,
    /// Requests answered, if it tells.
    pub requests: u64,
}

impl Limits {
    /// Is there anything to look for?
    pub fn any(&self) -> bool {
        *self != Self::default()
    }

    /// Has this start served its time? Age and requests vary by a tenth from one to the next: workers that started
    /// together would all be due together, again and again.
    pub fn due(&self, generation: Generation, facts: &Facts) -> Option<Cause> {
        let share = share(generation);
        if self.age.is_some_and(|limit| facts.age >= limit.mul_f64(share)) {
            return Some(Cause::Age);
        }
        if self.memory.is_some_and(|limit| facts.memory >= limit) {
            return Some(Cause::Memory);
        }
        let reached =
            |limit: u64| Duration::from_secs(facts.requests) >= Duration::from_secs(limit).mul_f64(share);
        // A program that tells nothing has answered nothing.
        if self.requests.is_some_and(|limit| facts.requests > 0 && reached(limit)) {
            return Some(Cause::Requests);
        }
        None
    }
}

/// From 0.9 to 1.1, the same for the same start, and far apart for starts that follow each other.
fn share(generation: Generation) -> f64 {
    let steps = u32::try_from(generation.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32).unwrap_or_default();
    0.9 + 0.2 * f64::from(steps) / f64::from(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FRESH: Facts = Facts { age: Duration::from_secs(1), memory: 50, requests: 1 };

    #[test]
    fn each_limit() {
        let limits = Limits { age: Some(Duration::from_secs(100)), memory: Some(100), requests: Some(1000) };
        for (facts, cause) in [
            (FRESH, None),
            (Facts { age: Duration::from_secs(111), ..FRESH }, Some(Cause::Age)),
            (Facts { age: Duration::from_secs(89), ..FRESH }, None),
            (Facts { memory: 100, ..FRESH }, Some(Cause::Memory)),
            (Facts { requests: 1101, ..FRESH }, Some(Cause::Requests)),
            (Facts { requests: 899, ..FRESH }, None),
        ] {
            assert_eq!(limits.due(1, &facts), cause, "{facts:?}");
        }
        let worn = Facts { age: Duration::MAX, memory: u64::MAX, requests: u64::MAX };
        assert!(!Limits::default().any() && Limits::default().due(1, &worn).is_none());
    }

    #[test]
    fn workers_that_started_together_are_not_due_together() {
        let shares: Vec<f64> = (1..5).map(share).collect();
        for (at, one) in shares.iter().enumerate() {
            assert!((0.9..=1.1).contains(one));
            assert!(shares.iter().skip(at + 1).all(|other| (one - other).abs() > 0.01), "{shares:?}");
        }
    }
}
