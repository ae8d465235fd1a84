//! When requests are due in an open loop.

use std::time::Duration;

/// How planned requests are spaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arrivals {
    /// The same time between any two.
    Even,
    /// As if many people asked, each by themselves: a Poisson process. Harder for a server than [`Arrivals::Even`].
    Random {
        /// The same seed, the same times.
        seed: u64,
    },
}

/// One thread's part of the planned times, which go on for ever. Times are counted from the begin of the run.
#[derive(Debug)]
pub struct Schedule {
    next: Duration,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    /// The number of the next request, the distance to this thread's next one, and the seconds between two.
    Even { number: f64, step: f64, gap: f64 },
    /// Mean seconds between two of this thread.
    Random { random: fastrand::Rng, gap: f64 },
}

impl Schedule {
    /// The part of thread `thread` of `threads`, at so many requests per second of all threads together.
    pub fn new(per_second: f64, arrivals: Arrivals, thread: u32, threads: u32) -> Self {
        let (thread, step) = (f64::from(thread), f64::from(threads.max(1)));
        let kind = match arrivals {
            Arrivals::Even => Kind::Even { number: thread, step, gap: 1.0 / per_second },
            Arrivals::Random { seed } => {
                let own = seed.wrapping_add(thread.to_bits());
                Kind::Random { random: fastrand::Rng::with_seed(own), gap: step / per_second }
            }
        };
        let mut schedule = Self { next: Duration::ZERO, kind };
        match schedule.kind {
            Kind::Even { number, gap, .. } => schedule.next = seconds(number * gap),
            Kind::Random { .. } => schedule.advance(),
        }
        schedule
    }

    /// When the next request is due.
    pub fn next(&self) -> Duration {
        self.next
    }

    /// Goes on to the one after it.
    pub fn advance(&mut self) {
        match &mut self.kind {
            Kind::Even { number, step, gap } => {
                // Multiplied, not added up: after a billion requests the time is still exact.
                *number += *step;
                self.next = seconds(*number * *gap);
            }
            Kind::Random { random, gap } => {
                let gap = -(1.0 - random.f64()).ln() * *gap;
                self.next = self.next.saturating_add(seconds(gap));
            }
        }
    }
}

fn seconds(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(schedule: &mut Schedule, until: Duration) -> Vec<Duration> {
        let mut times = Vec::new();
        while schedule.next() < until {
            times.push(schedule.next());
            schedule.advance();
        }
        times
    }

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn threads_together_keep_the_rate_evenly() {
        for (rate, threads) in [(1000.0, 1), (1000.0, 3), (7.0, 2), (333.3, 4)] {
            let mut all: Vec<_> = (0..threads)
                .flat_map(|thread| {
                    times(&mut Schedule::new(rate, Arrivals::Even, thread, threads), 10 * SECOND)
                })
                .collect();
            all.sort();
            let count = f64::from(u32::try_from(all.len()).unwrap());
            assert!((count - rate * 10.0).abs() <= 1.0, "{count}");
            let gap = 1.0 / rate;
            for pair in all.windows(2) {
                assert!((pair[1].as_secs_f64() - pair[0].as_secs_f64() - gap).abs() < 1e-8);
            }
        }
    }

    #[test]
    fn an_even_schedule_does_not_drift() {
        let mut schedule = Schedule::new(30_000.0, Arrivals::Even, 0, 1);
        for _ in 0..30_000 * 100 {
            schedule.advance();
        }
        assert_eq!(schedule.next(), 100 * SECOND);
    }

    #[test]
    fn random_arrivals_are_a_poisson_process() {
        let mut all: Vec<_> = (0..4)
            .flat_map(|thread| {
                times(&mut Schedule::new(1000.0, Arrivals::Random { seed: 1 }, thread, 4), 100 * SECOND)
            })
            .collect();
        all.sort();
        assert!((99_000..101_000).contains(&all.len()), "{}", all.len());
        // The variance of the counts per 100 ms is their mean, which is 100.
        let mut counts = vec![0.0_f64; 1000];
        for time in &all {
            counts[(time.as_millis() / 100) as usize] += 1.0;
        }
        let variance = counts.iter().map(|n| (n - 100.0).powi(2)).sum::<f64>() / 1000.0;
        assert!((85.0..115.0).contains(&variance), "{variance}");
    }

    #[test]
    fn the_seed_decides() {
        let with =
            |seed, thread| times(&mut Schedule::new(100.0, Arrivals::Random { seed }, thread, 2), SECOND);
        assert_eq!(with(1, 0), with(1, 0));
        assert_ne!(with(1, 0), with(2, 0));
        assert_ne!(with(1, 0), with(1, 1));
    }

    #[test]
    fn odd_rates_end_nowhere() {
        let mut schedule = Schedule::new(f64::MIN_POSITIVE, Arrivals::Even, 0, 1);
        schedule.advance();
        assert_eq!(schedule.next(), Duration::MAX);
        schedule.advance();
        assert_eq!(schedule.next(), Duration::MAX);
        let mut schedule = Schedule::new(f64::MIN_POSITIVE, Arrivals::Random { seed: 1 }, 0, 1);
        schedule.advance();
        assert_eq!(schedule.next(), Duration::MAX);
    }
}
