//! When a derived number of workers follows its limit: soon upwards, later downwards, and never back and forth.

use crate::fleet::Time;
use std::time::Duration;

/// More CPUs are there to be used.
const GROW_AFTER: Duration = Duration::from_secs(2);
/// Fewer may be fewer for a moment only; a worker that goes has to come back.
const SHRINK_AFTER: Duration = Duration::from_secs(10);

/// The number in force, and one that may become it.
#[derive(Debug)]
pub struct Follower {
    current: u32,
    candidate: Option<(u32, Time)>,
}

impl Follower {
    /// With this number in force.
    pub fn new(current: u32) -> Self {
        Self { current, candidate: None }
    }

    /// Takes in the number that the limits give now; answers the new number in force, if it is to change.
    pub fn observe(&mut self, now: Time, count: u32) -> Option<u32> {
        if count == self.current {
            self.candidate = None;
            return None;
        }
        let since = match self.candidate {
            Some((known, since)) if known == count => since,
            _ => now,
        };
        self.candidate = Some((count, since));
        let wait = if count > self.current { GROW_AFTER } else { SHRINK_AFTER };
        if now.saturating_sub(since) < wait {
            return None;
        }
        self.current = count;
        self.candidate = None;
        Some(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn follow(counts: &[u32]) -> Vec<(usize, u32)> {
        let mut follower = Follower::new(1);
        let times = counts.iter().enumerate();
        times.filter_map(|(s, n)| Some((s, follower.observe(Duration::from_secs(s as u64), *n)?))).collect()
    }

    #[test]
    fn grows_soon_and_shrinks_later() {
        assert_eq!(follow(&[1, 3, 3, 3, 3]), [(3, 3)]);
        let down = [[3; 4].as_slice(), &[1; 12]].concat();
        assert_eq!(follow(&down), [(2, 3), (14, 1)]);
    }

    #[test]
    fn does_not_go_back_and_forth() {
        assert_eq!(follow(&[2, 1, 2, 1, 2, 1, 2, 3, 2, 3, 1]), []);
        let dips = [[2; 3].as_slice(), &[1, 1, 1, 1, 1, 2, 1, 1, 1, 1, 1, 2]].concat();
        assert_eq!(follow(&dips), [(2, 2)]);
    }
}
