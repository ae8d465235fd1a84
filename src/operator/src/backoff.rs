//! How long an app that failed waits for its next turn.

use std::{collections::HashMap, sync::Mutex, time::Duration};

use crate::{cache::Key, sync::lock};

/// The first wait.
const FIRST: Duration = Duration::from_secs(1);
/// The longest wait.
const LONGEST: Duration = Duration::from_mins(2);

/// Counts failures per app: one that fails for ever costs less and less, and delays no other.
#[derive(Debug, Default)]
pub(crate) struct Backoff {
    failures: Mutex<HashMap<Key, u32>>,
}

impl Backoff {
    /// The wait after one more failure, twice the one before up to `longest`, and up to a quarter off, so that apps
    /// that failed together don't come back together.
    pub(crate) fn next(&self, key: &Key, longest: Option<Duration>) -> Duration {
        let mut failures = lock(&self.failures);
        let count = failures.entry(key.clone()).or_default();
        let wait = FIRST.saturating_mul(1 << (*count).min(16));
        *count = count.saturating_add(1);
        let longest = longest.unwrap_or(LONGEST).min(LONGEST);
        wait.min(longest).mul_f64(1.0 - fastrand::f64() / 4.0)
    }

    /// Forgets the failures, after a success or when the app is gone.
    pub(crate) fn reset(&self, key: &Key) {
        lock(&self.failures).remove(key);
    }

    /// How many apps are failing.
    pub(crate) fn len(&self) -> usize {
        lock(&self.failures).len()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::Backoff;
    use crate::cache::Key;

    #[test]
    fn waits_double_up_to_the_longest_and_start_anew_after_a_success() {
        let backoff = Backoff::default();
        let app = Key::new("ns", "app");
        for exact in [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 120.0, 120.0] {
            let wait = backoff.next(&app, None).as_secs_f64();
            assert!(wait <= exact && wait >= exact * 0.75, "{wait} for {exact}");
        }
        assert!(backoff.next(&app, Some(Duration::from_secs(10))) <= Duration::from_secs(10));
        backoff.reset(&app);
        assert!(backoff.next(&app, None) <= Duration::from_secs(1));
    }
}
