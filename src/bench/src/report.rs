//! The outcome of a run.

use crate::error::{Error, Failure};
use crate::record::{Counts, Record, Second, histogram};
use hdrhistogram::Histogram;
use serde::ser::{SerializeMap, SerializeStruct};
use serde::{Serialize, Serializer};
use std::collections::BTreeMap;
use std::time::Duration;

/// What came of a run; of the measurement alone, without the warm-up.
#[derive(Debug, Clone)]
pub struct Report {
    /// How long the measurement really was.
    pub elapsed: Duration,
    /// The run was stopped before its end.
    pub partial: bool,
    /// Answers in the warm-up.
    pub warm_up_answers: u64,
    /// Numbers of requests and bytes.
    pub counts: Counts,
    /// Failed requests by kind; only kinds that occurred.
    pub failures: BTreeMap<Failure, u64>,
    /// Why the first request failed that did, in words, where there is more to say than its kind.
    pub fault: Option<String>,
    /// Latencies of good answers in microseconds.
    pub latency: Histogram<u64>,
    /// What happened in each second.
    pub seconds: Vec<Second>,
    /// Good answers of each connection; one that had to be opened anew counts on.
    pub connections: Vec<u64>,
    /// Good answers by the value of the worker header; empty without one.
    pub workers: BTreeMap<String, u64>,
    /// CPU time of the load threads.
    pub cpu: Duration,
    /// The largest part of one CPU that one of the threads used: near 1, the generator was the limit.
    pub busiest_thread: f64,
}

impl Report {
    pub(crate) fn merge(records: Vec<Record>, elapsed: Duration, partial: bool) -> Result<Self, Error> {
        let mut report = Self {
            elapsed,
            partial,
            warm_up_answers: 0,
            counts: Counts::default(),
            failures: BTreeMap::new(),
            fault: None,
            latency: histogram()?,
            seconds: Vec::new(),
            connections: Vec::new(),
            workers: BTreeMap::new(),
            cpu: Duration::ZERO,
            busiest_thread: 0.0,
        };
        for record in records {
            report.counts.add(&record.counts);
            for (kind, count) in Failure::ALL.into_iter().zip(record.failures).filter(|(_, count)| *count > 0)
            {
                *report.failures.entry(kind).or_default() += count;
            }
            report.latency.add(&record.latency).map_err(|_| Error::Internal("histograms differ"))?;
            if report.seconds.len() < record.seconds.len() {
                report.seconds.resize(record.seconds.len(), Second::default());
            }
            for (sum, second) in report.seconds.iter_mut().zip(&record.seconds) {
                sum.answered += second.answered;
                sum.failed += second.failed;
                sum.body_bytes = sum.body_bytes.saturating_add(second.body_bytes);
                sum.sum_us = sum.sum_us.saturating_add(second.sum_us);
                sum.longest_us = sum.longest_us.max(second.longest_us);
            }
            report.connections.extend(&record.connections);
            for (name, count) in record.workers {
                *report.workers.entry(String::from_utf8_lossy(&name).into_owned()).or_default() += count;
            }
            report.cpu += record.cpu;
            report.busiest_thread = report.busiest_thread.max(record.cpu.div_duration_f64(elapsed));
        }
        Ok(report)
    }

    /// Good answers per second, while the load lasted: those of an open loop that came afterwards are no throughput.
    pub fn per_second(&self) -> f64 {
        let in_time = self.counts.answered.saturating_sub(self.counts.answered_after_the_end);
        as_f64(in_time) / self.elapsed.as_secs_f64()
    }

    /// Latency in milliseconds that this part of the good answers kept, 0.0 to 1.0. 0 without any.
    pub fn quantile_ms(&self, quantile: f64) -> f64 {
        as_f64(self.latency.value_at_quantile(quantile)) / 1000.0
    }

    /// Mean latency in milliseconds.
    pub fn mean_ms(&self) -> f64 {
        self.latency.mean() / 1000.0
    }

    /// Requests that were on their way at a time, by Little's law: with a closed loop it must be about the number of
    /// connections, or latencies and throughput don't belong together.
    pub fn in_flight(&self) -> f64 {
        self.per_second() * self.mean_ms() / 1000.0
    }

    /// Good answers per second that came within this time: the goodput of a promise.
    pub fn within(&self, limit: Duration) -> f64 {
        let micros = u64::try_from(limit.as_micros()).unwrap_or(u64::MAX);
        let good = as_f64(self.latency.count_between(0, micros)) / self.elapsed.as_secs_f64();
        good.min(self.per_second())
    }

    /// Answers of the busiest worker, over the mean of all of them. `None` without a worker header. `workers`: how many there
    /// are, for those that got nothing aren't seen.
    pub fn busiest_over_mean(&self, workers: usize) -> Option<f64> {
        let busiest = self.workers.values().max()?;
        let all: u64 = self.workers.values().sum();
        let workers = u32::try_from(workers.max(self.workers.len())).ok()?;
        (all > 0).then(|| as_f64(*busiest) * f64::from(workers) / as_f64(all))
    }
}

/// Exact up to 2^53, which no count reaches.
#[expect(clippy::cast_precision_loss, reason = "counts are below 2^53")]
pub(crate) fn as_f64(n: u64) -> f64 {
    n as f64
}

/// Parts of the answers whose latencies are shown.
pub const QUANTILES: [f64; 9] = [0.5, 0.75, 0.9, 0.95, 0.99, 0.995, 0.999, 0.9999, 1.0];

struct Latencies<'a>(&'a Report);

impl Serialize for Latencies<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("mean", &self.0.mean_ms())?;
        map.serialize_entry("stddev", &(self.0.latency.stdev() / 1000.0))?;
        map.serialize_entry("min", &(as_f64(self.0.latency.min()) / 1000.0))?;
        for quantile in QUANTILES {
            map.serialize_entry(&quantile_name(quantile), &self.0.quantile_ms(quantile))?;
        }
        map.end()
    }
}

/// `p99`, `p99.9`, `max`.
pub fn quantile_name(quantile: f64) -> String {
    if quantile >= 1.0 {
        return "max".to_owned();
    }
    let text = format!("{:.4}", quantile * 100.0);
    format!("p{}", text.trim_end_matches('0').trim_end_matches('.'))
}

impl Serialize for Report {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut all = serializer.serialize_struct("Report", 14)?;
        all.serialize_field("elapsed_seconds", &self.elapsed.as_secs_f64())?;
        all.serialize_field("partial", &self.partial)?;
        all.serialize_field("warm_up_answers", &self.warm_up_answers)?;
        all.serialize_field("requests_per_second", &self.per_second())?;
        all.serialize_field("in_flight", &self.in_flight())?;
        all.serialize_field("counts", &self.counts)?;
        all.serialize_field("failures", &self.failures)?;
        all.serialize_field("fault", &self.fault)?;
        all.serialize_field("latency_ms", &Latencies(self))?;
        all.serialize_field("seconds", &self.seconds)?;
        all.serialize_field("connections", &self.connections)?;
        all.serialize_field("workers", &self.workers)?;
        all.serialize_field("generator_cpu_seconds", &self.cpu.as_secs_f64())?;
        all.serialize_field("busiest_thread", &self.busiest_thread)?;
        all.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::response::Answer;

    fn record(worker: &str, latencies_ms: &[u64]) -> Record {
        let mut record = Record::new(1).unwrap();
        let answer = Answer { status: 200, keep_alive: true, body: 10 };
        let mut known = 0;
        for ms in latencies_ms {
            record.answered(0, answer, Duration::from_millis(*ms), Duration::ZERO);
            record.worker(worker.as_bytes(), &mut known);
        }
        record.failed(Failure::Timeout, Duration::from_secs(1));
        record.cpu = Duration::from_millis(500);
        record
    }

    fn report() -> Report {
        let records = vec![record("a", &[1, 2, 3]), record("b", &[10])];
        Report::merge(records, Duration::from_secs(2), false).unwrap()
    }

    #[test]
    fn threads_are_added_up() {
        let report = report();
        assert_eq!(report.counts.answered, 4);
        assert_eq!(report.failures, BTreeMap::from([(Failure::Timeout, 2)]));
        assert_eq!(report.connections, [3, 1]);
        assert_eq!(report.seconds.iter().map(|s| s.failed).collect::<Vec<_>>(), [0, 2]);
        assert_eq!(report.cpu, Duration::from_secs(1));
        assert!((report.busiest_thread - 0.25).abs() < 1e-9);
        assert!((report.per_second() - 2.0).abs() < 1e-9);
        assert!((report.mean_ms() - 4.0).abs() < 0.01);
        assert!((report.within(Duration::from_millis(2)) - 1.0).abs() < 1e-9);
        assert!((report.within(Duration::MAX) - 2.0).abs() < 1e-9);
        assert!((report.in_flight() - 0.008).abs() < 1e-4);
        assert!((report.quantile_ms(1.0) - 10.0).abs() < 0.02);
        assert!((report.busiest_over_mean(2).unwrap() - 1.5).abs() < 1e-9);
        assert!((report.busiest_over_mean(4).unwrap() - 3.0).abs() < 1e-9);
    }

    #[test]
    fn answers_that_came_after_the_load_are_no_throughput() {
        let mut late = record("a", &[1, 2, 3, 4]);
        late.counts.answered_after_the_end = 3;
        let report = Report::merge(vec![late], Duration::from_secs(1), false).unwrap();
        assert!(
            (report.per_second() - 1.0).abs() < 1e-9 && (report.within(Duration::MAX) - 1.0).abs() < 1e-9
        );
        // They count as answers all the same: they came.
        assert_eq!((report.counts.answered, report.latency.len()), (4, 4));
    }

    #[test]
    fn nothing_is_no_division_by_zero() {
        let report = Report::merge(vec![Record::new(1).unwrap()], Duration::from_secs(1), true).unwrap();
        assert!(report.per_second().abs() < 1e-9 && report.mean_ms().abs() < 1e-9);
        assert_eq!(report.busiest_over_mean(2), None);
        assert!(serde_json::to_string(&report).is_ok());
    }

    #[test]
    fn json_has_units_in_its_names() {
        let json = serde_json::to_value(report()).unwrap();
        assert_eq!(json["failures"]["timeout"], 2);
        assert_eq!(json["counts"]["answered"], 4);
        assert_eq!(json["workers"]["a"], 3);
        assert!((json["latency_ms"]["max"].as_f64().unwrap() - 10.0).abs() < 0.02);
        for name in ["p50", "p99", "p99.5", "p99.99", "mean"] {
            assert!(json["latency_ms"][name].is_number(), "{name}");
        }
    }
}
