//! How many workers: from cgroup files (v1 and v2), flags and the environment. Text in, numbers out.

use std::fmt;

/// A CPU limit, exact: `quota` microseconds of CPU time in every `period`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CpuLimit {
    /// Microseconds of CPU time …
    pub quota: u64,
    /// … in each of these many microseconds.
    pub period: u64,
}

impl CpuLimit {
    /// cgroup v2: `cpu.max`, for example `150000 100000` or `max 100000`.
    pub fn from_v2(text: &str) -> Option<Self> {
        let mut words = text.split_ascii_whitespace();
        let quota = words.next()?.parse().ok()?;
        let period = words.next().map_or(Some(100_000), |word| word.parse().ok())?;
        Self::new(quota, period)
    }

    /// cgroup v1: `cpu.cfs_quota_us` (−1: no limit) and `cpu.cfs_period_us`.
    pub fn from_v1(quota: &str, period: &str) -> Option<Self> {
        Self::new(quota.trim().parse().ok()?, period.trim().parse().ok()?)
    }

    fn new(quota: u64, period: u64) -> Option<Self> {
        (quota > 0 && period > 0).then_some(Self { quota, period })
    }

    /// Rounded up to whole CPUs.
    pub fn ceil(self) -> u64 {
        self.quota.div_ceil(self.period)
    }

    /// The smaller of two limits: a cgroup's parents bound it too.
    #[must_use]
    pub fn min(self, other: Self) -> Self {
        let mine = u128::from(self.quota) * u128::from(other.period);
        let theirs = u128::from(other.quota) * u128::from(self.period);
        if theirs < mine { other } else { self }
    }
}

impl fmt::Display for CpuLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let millis = u128::from(self.quota) * 1000 / u128::from(self.period);
        match (millis / 1000, millis % 1000) {
            (whole, 0) => write!(f, "{whole}"),
            (whole, rest) => f.write_str(format!("{whole}.{rest:03}").trim_end_matches('0')),
        }
    }
}

/// A memory limit in bytes: v2 `memory.max` or v1 `memory.limit_in_bytes`. `max`, and the enormous number that v1
/// has for no limit, are none.
pub fn memory_limit(text: &str) -> Option<u64> {
    /// v1 says "no limit" with the largest page-aligned number; nobody has an exbibyte.
    const NONE_FROM: u64 = 1 << 60;
    text.trim().parse().ok().filter(|bytes| (1..NONE_FROM).contains(bytes))
}

/// How many workers were asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wanted {
    /// Exactly this many.
    Count(u32),
    /// As many as the CPU limit is worth.
    Auto,
}

/// Everything that the number of workers follows from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Basis {
    /// `--workers`.
    pub wanted: Wanted,
    /// `--max-workers`.
    pub most: Option<u32>,
    /// `--memory-per-worker`.
    pub memory_per_worker: Option<u64>,
    /// The variable `WORKERS` that the container has.
    pub variable: Option<String>,
    /// The cgroup's CPU limit.
    pub cpu: Option<CpuLimit>,
    /// The cgroup's memory limit.
    pub memory: Option<u64>,
}

/// A number of workers, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Workers {
    /// At least 1.
    pub count: u32,
    /// One line for a person.
    pub reason: String,
}

/// More workers than this in one container is a mistake somewhere.
const SANE_MAXIMUM: u32 = 1024;

impl Basis {
    /// The rule.
    pub fn workers(&self) -> Workers {
        let (mut count, mut reason) = match (self.wanted, self.cpu, &self.variable) {
            (Wanted::Count(count), _, _) => return Workers { count, reason: format!("--workers {count}") },
            (Wanted::Auto, Some(limit), _) => {
                let count = u32::try_from(limit.ceil()).unwrap_or(u32::MAX);
                (count, format!("CPU limit of {limit}, rounded up"))
            }
            (Wanted::Auto, None, Some(text)) => match text.trim().parse() {
                Ok(count) if count > 0 => {
                    (count, format!("no CPU limit; WORKERS={count} in the environment"))
                }
                _ => {
                    (1, format!("no CPU limit; WORKERS={text:?} in the environment is not a number above 0"))
                }
            },
            (Wanted::Auto, None, None) => (1, "no CPU limit and no WORKERS in the environment".to_owned()),
        };
        let mut bound = |most: u32, why: String| {
            if count > most {
                count = most;
                reason = format!("{reason}, but {why}");
            }
        };
        bound(SANE_MAXIMUM, format!("never more than {SANE_MAXIMUM}"));
        if let Some(most) = self.most {
            bound(most.max(1), format!("at most {most} (--max-workers)"));
        }
        if let (Some(each), Some(limit)) = (self.memory_per_worker.filter(|each| *each > 0), self.memory) {
            let fit = u32::try_from(limit / each).unwrap_or(u32::MAX).max(1);
            bound(fit, format!("the memory limit of {limit} bytes has room for {fit} of {each} bytes each"));
        }
        Workers { count, reason }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn auto() -> Basis {
        Basis {
            wanted: Wanted::Auto,
            most: None,
            memory_per_worker: None,
            variable: None,
            cpu: None,
            memory: None,
        }
    }

    #[test]
    fn cpu_max_of_v2() {
        for (text, ceil) in [
            ("max 100000\n", None),
            ("100000 100000\n", Some(1)),
            ("150000 100000", Some(2)),
            ("300000 100000\n", Some(3)),
            ("12700 100000", Some(1)),
            ("1000 1000000", Some(1)),
            ("25000 10000", Some(3)),
            ("50000", Some(1)),
            ("", None),
            ("abc 100000", None),
            ("100000 abc", None),
            ("0 100000", None),
            ("100000 0", None),
            ("-1 100000", None),
            ("99999999999999999999999 100000", None),
        ] {
            assert_eq!(CpuLimit::from_v2(text).map(CpuLimit::ceil), ceil, "{text:?}");
        }
    }

    #[test]
    fn quota_of_v1() {
        for (quota, period, ceil) in [
            ("-1\n", "100000\n", None),
            ("300000\n", "100000\n", Some(3)),
            ("250000", "100000", Some(3)),
            ("5000", "10000", Some(1)),
            ("", "", None),
        ] {
            assert_eq!(CpuLimit::from_v1(quota, period).map(CpuLimit::ceil), ceil, "{quota:?} {period:?}");
        }
    }

    #[test]
    fn limits_are_shown_exactly() {
        for (quota, period, text) in
            [(150_000, 100_000, "1.5"), (300_000, 100_000, "3"), (12_700, 100_000, "0.127")]
        {
            assert_eq!(CpuLimit { quota, period }.to_string(), text);
        }
    }

    #[test]
    fn the_smaller_limit() {
        let (a, b) =
            (CpuLimit { quota: 200_000, period: 100_000 }, CpuLimit { quota: 15_000, period: 10_000 });
        assert_eq!((a.min(b), b.min(a), a.min(a)), (b, b, a));
    }

    #[test]
    fn no_memory_limit() {
        for text in ["max\n", "9223372036854771712\n", "", "0", "-1"] {
            assert_eq!(memory_limit(text), None, "{text:?}");
        }
        assert_eq!(memory_limit("471859200\n"), Some(471_859_200));
    }

    #[test]
    fn workers() {
        let cpu = |quota| Some(CpuLimit { quota, period: 100_000 });
        let variable = |text: &str| Some(text.to_owned());
        for (basis, count, reason) in [
            (auto(), 1, "no CPU limit and no WORKERS in the environment"),
            (Basis { cpu: cpu(300_000), ..auto() }, 3, "CPU limit of 3, rounded up"),
            (
                Basis { cpu: cpu(250_000), variable: variable("7"), ..auto() },
                3,
                "CPU limit of 2.5, rounded up",
            ),
            (Basis { variable: variable("7"), ..auto() }, 7, "no CPU limit; WORKERS=7 in the environment"),
            (
                Basis { variable: variable("abc"), ..auto() },
                1,
                "no CPU limit; WORKERS=\"abc\" in the environment is not a number above 0",
            ),
            (
                Basis { cpu: cpu(800_000), most: Some(4), ..auto() },
                4,
                "CPU limit of 8, rounded up, but at most 4 (--max-workers)",
            ),
            (
                Basis { cpu: cpu(400_000), memory_per_worker: Some(200), memory: Some(500), ..auto() },
                2,
                "CPU limit of 4, rounded up, but the memory limit of 500 bytes has room for 2 of 200 bytes each",
            ),
            (
                Basis { cpu: cpu(200_000), memory_per_worker: Some(600), memory: Some(500), ..auto() },
                1,
                "CPU limit of 2, rounded up, but the memory limit of 500 bytes has room for 1 of 600 bytes each",
            ),
            (
                Basis { wanted: Wanted::Count(5), cpu: cpu(100_000), most: Some(2), ..auto() },
                5,
                "--workers 5",
            ),
        ] {
            let workers = basis.workers();
            assert_eq!((workers.count, workers.reason.as_str()), (count, reason));
        }
    }

    #[test]
    fn damaged_limits() {
        let samples = ["150000 100000\n", "max 100000\n", "-1\n", "100000\n", "9223372036854771712\n", "max"];
        crate::testing::with_damaged_text(&samples, |text| {
            let _ = memory_limit(text);
            for limit in [CpuLimit::from_v2(text), CpuLimit::from_v1(text, text)].into_iter().flatten() {
                assert!(limit.quota > 0 && limit.period > 0, "{text:?}");
            }
        });
    }
}
