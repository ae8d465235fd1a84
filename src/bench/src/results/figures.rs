//! The figures of one run, whoever measured it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What made the load.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Generator {
    /// This engine.
    #[default]
    Workerapp,
    /// autocannon.
    Autocannon,
    /// wrk.
    Wrk,
    /// k6.
    K6,
}

impl Generator {
    /// As people write it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Workerapp => "workerapp",
            Self::Autocannon => "autocannon",
            Self::Wrk => "wrk",
            Self::K6 => "k6",
        }
    }

    /// To what its latencies are rounded, in milliseconds.
    pub fn resolution_ms(self) -> f64 {
        match self {
            Self::Workerapp => 0.001,
            Self::Autocannon => 1.0,
            Self::Wrk | Self::K6 => 0.01,
        }
    }
}

/// What was measured, without the warm-up.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Figures {
    /// What made the load.
    pub generator: Generator,
    /// How long the measurement really was.
    pub elapsed_seconds: f64,
    /// The run was stopped before its end; everything counts what was until then.
    #[serde(default)]
    pub interrupted: bool,
    /// The load before the measurement; absent if there was none or the source says nothing.
    #[serde(default)]
    pub warm_up: Option<WarmUp>,
    /// Good answers per second.
    pub requests_per_second: f64,
    /// Complete answers with a status of 2xx.
    pub answered: u64,
    /// Requests that failed, by whatever kind.
    pub failed: u64,
    /// Failed requests by kind.
    #[serde(default)]
    pub failures: BTreeMap<String, u64>,
    /// Why the first request failed that did, in words, where there is more to say than its kind.
    #[serde(default)]
    pub fault: Option<String>,
    /// Requests sent for the first time.
    #[serde(default)]
    pub sent: Option<u64>,
    /// Requests that were sent once more, since their connection was closed or they were refused before an answer began.
    #[serde(default)]
    pub resent: Option<u64>,
    /// Planned requests that were never sent, since no connection was free.
    #[serde(default)]
    pub dropped: Option<u64>,
    /// Requests sent over a millisecond after their planned time.
    #[serde(default)]
    pub late: Option<u64>,
    /// Of those: because no connection was free, not because the generator was slow.
    #[serde(default)]
    pub late_for_want_of_a_connection: Option<u64>,
    /// Bytes that came, heads and bodies.
    #[serde(default)]
    pub bytes_received: Option<u64>,
    /// Latencies of good answers.
    #[serde(default)]
    pub latency: Option<Latency>,
    /// Good answers of one second, over all seconds.
    #[serde(default)]
    pub requests_each_second: Option<Spread>,
    /// Bytes of one second, over all seconds.
    #[serde(default)]
    pub bytes_each_second: Option<Spread>,
    /// What happened in each second.
    #[serde(default)]
    pub seconds: Vec<Second>,
    /// Good answers of each connection.
    #[serde(default)]
    pub connections: Vec<u64>,
    /// Good answers by what the worker header says.
    #[serde(default)]
    pub workers: BTreeMap<String, u64>,
    /// CPUs that the generator used, all threads together.
    #[serde(default)]
    pub generator_cpus: Option<f64>,
    /// The largest part of one CPU that one thread of the generator used, 0 to 1.
    #[serde(default)]
    pub busiest_thread: Option<f64>,
}

/// Load before the measurement.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WarmUp {
    /// How long it was meant to be.
    pub seconds: f64,
    /// Good answers in it; absent if the source doesn't say.
    pub answered: Option<u64>,
}

/// Latencies in milliseconds.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Latency {
    /// Mean.
    pub mean_ms: f64,
    /// Standard deviation.
    #[serde(default)]
    pub stddev_ms: Option<f64>,
    /// The shortest.
    #[serde(default)]
    pub min_ms: Option<f64>,
    /// The longest.
    #[serde(default)]
    pub max_ms: Option<f64>,
    /// In ascending order.
    pub quantiles: Vec<Quantile>,
    /// The part of the latencies within one standard deviation of the mean, in percent.
    #[serde(default)]
    pub within_stddev_percent: Option<f64>,
}

/// So many percent of the answers came within this time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Quantile {
    /// 0 to 100.
    pub percent: f64,
    /// Milliseconds.
    pub ms: f64,
}

impl Latency {
    /// The latency that so many percent of the answers kept; nothing is interpolated.
    pub fn at(&self, percent: f64) -> Option<f64> {
        if percent >= 100.0 {
            return self.max_ms;
        }
        self.quantiles.iter().find(|quantile| (quantile.percent - percent).abs() < 1e-6).map(|q| q.ms)
    }
}

/// How a figure that is taken once a second spreads.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Spread {
    /// How many seconds.
    pub samples: u64,
    /// 1 % of the seconds had less.
    pub p1: f64,
    /// 2.5 %.
    pub p2_5: f64,
    /// The middle one.
    pub p50: f64,
    /// 97.5 %.
    pub p97_5: f64,
    /// Mean.
    pub mean: f64,
    /// Standard deviation.
    pub stddev: f64,
    /// The least.
    pub min: f64,
    /// The most.
    pub max: f64,
    /// The part of the seconds within one standard deviation of the mean, in percent.
    #[serde(default)]
    pub within_stddev_percent: Option<f64>,
}

impl Spread {
    /// Of one value for each second. `None` of nothing.
    pub fn of(values: &[f64]) -> Option<Self> {
        let mut sorted: Vec<f64> = values.iter().copied().filter(|value| value.is_finite()).collect();
        sorted.sort_by(f64::total_cmp);
        let (min, max) = (*sorted.first()?, *sorted.last()?);
        let samples = u64::try_from(sorted.len()).ok()?;
        let count = crate::report::as_f64(samples);
        let mean = sorted.iter().sum::<f64>() / count;
        let variance = sorted.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / count;
        let stddev = variance.sqrt();
        let within = sorted.iter().filter(|value| (*value - mean).abs() <= stddev).count();
        // The smallest value that at least so many percent don't exceed.
        let at = |percent: u64| {
            let rank = (samples * percent).div_ceil(1000).max(1);
            usize::try_from(rank - 1).ok().and_then(|place| sorted.get(place)).copied().unwrap_or(max)
        };
        let percent = 100.0 * crate::report::as_f64(u64::try_from(within).ok()?) / count;
        Some(Self {
            samples,
            p1: at(10),
            p2_5: at(25),
            p50: at(500),
            p97_5: at(975),
            mean,
            stddev,
            min,
            max,
            within_stddev_percent: Some(percent),
        })
    }
}

/// One second of a run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Second {
    /// Good answers that came in it.
    pub answered: u64,
    /// Requests that failed in it.
    #[serde(default)]
    pub failed: u64,
    /// Bytes of the bodies that came in it.
    #[serde(default)]
    pub bytes: u64,
    /// Mean latency of its answers in milliseconds.
    #[serde(default)]
    pub mean_ms: f64,
    /// The longest of them.
    #[serde(default)]
    pub longest_ms: f64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spread_of_seconds() {
        let spread = Spread::of(&[40.0, 10.0, 20.0, 30.0]).unwrap();
        assert_eq!((spread.samples, spread.min, spread.max), (4, 10.0, 40.0));
        assert_eq!((spread.p1, spread.p2_5, spread.p50, spread.p97_5), (10.0, 10.0, 20.0, 40.0));
        assert!((spread.mean - 25.0).abs() < 1e-9 && (spread.stddev - 11.180).abs() < 1e-3);
        assert_eq!(spread.within_stddev_percent, Some(50.0));
        assert_eq!(Spread::of(&[]), None);
        assert_eq!(Spread::of(&[f64::NAN]), None);
    }

    #[test]
    fn a_quantile_that_nobody_measured_is_none() {
        let quantiles = vec![Quantile { percent: 50.0, ms: 3.0 }, Quantile { percent: 97.5, ms: 9.0 }];
        let latency = Latency { mean_ms: 4.0, max_ms: Some(10.0), quantiles, ..Latency::default() };
        assert_eq!(latency.at(97.5), Some(9.0));
        assert_eq!(latency.at(99.0), None);
        assert_eq!(latency.at(100.0), Some(10.0));
    }
}
