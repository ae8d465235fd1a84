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

/// How many requests are due by when: a rate, or one that changes evenly.
#[derive(Debug, Clone, Copy)]
pub struct Pace {
    /// Requests per second until `ramp_begin`.
    from: f64,
    /// Requests per second from `ramp_end`.
    to: f64,
    /// Seconds.
    ramp_begin: f64,
    ramp_end: f64,
}

impl Pace {
    /// The same rate all the time.
    pub fn even(per_second: f64) -> Self {
        Self { from: per_second, to: per_second, ramp_begin: 0.0, ramp_end: 0.0 }
    }

    /// One rate first, another at last, and between these times evenly from one to the other.
    pub fn ramp(from: f64, to: f64, begin: Duration, end: Duration) -> Self {
        Self { from, to, ramp_begin: begin.as_secs_f64(), ramp_end: end.as_secs_f64() }
    }

    /// Seconds until the n-th request, counted from 0 and not necessarily whole.
    fn seconds_until(&self, n: f64) -> f64 {
        let before = self.from * self.ramp_begin;
        if n <= before {
            return n / self.from;
        }
        let length = self.ramp_end - self.ramp_begin;
        let within = f64::midpoint(self.from, self.to) * length;
        let n = n - before;
        if n >= within {
            return self.ramp_end + (n - within) / self.to;
        }
        // from·t + (to - from)/(2·length)·t² = n, written so that it holds for a slope of 0 and loses no digits near it.
        let slope = (self.to - self.from) / length;
        let root = (self.from * self.from + 2.0 * slope * n).max(0.0).sqrt();
        self.ramp_begin + 2.0 * n / (self.from + root)
    }
}

/// One thread's part of the planned times, which go on for ever. Times are counted from the begin of the run.
#[derive(Debug)]
pub struct Schedule {
    next: Duration,
    pace: Pace,
    /// The number of the next request among those of all threads; with random arrivals not a whole one.
    number: f64,
    step: f64,
    /// `None`: evenly spaced.
    random: Option<fastrand::Rng>,
}

impl Schedule {
    /// The part of thread `thread` of `threads`, at a pace of all threads together.
    pub fn new(pace: Pace, arrivals: Arrivals, thread: u32, threads: u32) -> Self {
        let (thread, step) = (f64::from(thread), f64::from(threads.max(1)));
        let (number, random) = match arrivals {
            Arrivals::Even => (thread, None),
            Arrivals::Random { seed } => {
                (0.0, Some(fastrand::Rng::with_seed(seed.wrapping_add(thread.to_bits()))))
            }
        };
        let mut schedule = Self { next: Duration::ZERO, pace, number, step, random };
        if schedule.random.is_some() {
            schedule.advance();
        } else {
            schedule.plan();
        }
        schedule
    }

    /// When the next request is due.
    pub fn next(&self) -> Duration {
        self.next
    }

    /// Goes on to the one after it.
    pub fn advance(&mut self) {
        // Numbers are added up, not times: after a billion requests they are still exact.
        self.number += match &mut self.random {
            None => self.step,
            // The distance of a Poisson process.
            Some(random) => -(1.0 - random.f64()).ln() * self.step,
        };
        self.plan();
    }

    fn plan(&mut self) {
        self.next = seconds(self.pace.seconds_until(self.number));
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
                    times(&mut Schedule::new(Pace::even(rate), Arrivals::Even, thread, threads), 10 * SECOND)
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
        let mut schedule = Schedule::new(Pace::even(30_000.0), Arrivals::Even, 0, 1);
        for _ in 0..30_000 * 100 {
            schedule.advance();
        }
        assert_eq!(schedule.next(), 100 * SECOND);
    }

    #[test]
    fn random_arrivals_are_a_poisson_process() {
        let mut all: Vec<_> = (0..4)
            .flat_map(|thread| {
                times(
                    &mut Schedule::new(Pace::even(1000.0), Arrivals::Random { seed: 1 }, thread, 4),
                    100 * SECOND,
                )
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
        let with = |seed, thread| {
            times(&mut Schedule::new(Pace::even(100.0), Arrivals::Random { seed }, thread, 2), SECOND)
        };
        assert_eq!(with(1, 0), with(1, 0));
        assert_ne!(with(1, 0), with(2, 0));
        assert_ne!(with(1, 0), with(1, 1));
    }

    #[test]
    fn a_ramp_goes_evenly_from_one_rate_to_another() {
        for (from, to) in [(100.0, 300.0), (300.0, 100.0), (200.0, 200.0)] {
            // Two seconds of warm-up, a ramp of ten, and on.
            let pace = Pace::ramp(from, to, 2 * SECOND, 12 * SECOND);
            let all = times(&mut Schedule::new(pace, Arrivals::Even, 0, 1), 14 * SECOND);
            let count = |begin: f64, end: f64| {
                let within = all.iter().filter(|at| (begin..end).contains(&at.as_secs_f64())).count();
                f64::from(u32::try_from(within).unwrap())
            };
            for (begin, end, rate) in [
                (0.0, 2.0, from),
                (2.0, 3.0, from + (to - from) * 0.05),
                (6.0, 8.0, f64::midpoint(from, to)),
                (11.0, 12.0, from + (to - from) * 0.95),
                (12.0, 14.0, to),
            ] {
                let wanted = rate * (end - begin);
                assert!((count(begin, end) - wanted).abs() <= 1.0, "{from} to {to}, {begin}");
            }
            assert!(all.windows(2).all(|pair| pair[0] < pair[1]));
            let random = times(&mut Schedule::new(pace, Arrivals::Random { seed: 2 }, 0, 1), 14 * SECOND);
            assert!(random.len().abs_diff(all.len()) < 200, "{} of {}", random.len(), all.len());
        }
    }

    #[test]
    fn odd_rates_end_nowhere() {
        let mut schedule = Schedule::new(Pace::even(f64::MIN_POSITIVE), Arrivals::Even, 0, 1);
        schedule.advance();
        assert_eq!(schedule.next(), Duration::MAX);
        schedule.advance();
        assert_eq!(schedule.next(), Duration::MAX);
        let mut schedule = Schedule::new(Pace::even(f64::MIN_POSITIVE), Arrivals::Random { seed: 1 }, 0, 1);
        schedule.advance();
        assert_eq!(schedule.next(), Duration::MAX);
    }
}
