//! The engine's outcome as figures.

use super::{Figures, Generator, Latency, Quantile, Run, Second, Spread, WarmUp};
use crate::plan::{Plan, Protocol};
use crate::report::{Report, as_f64};
use crate::reports::numbers::counted;

/// Percentiles that are kept, fine enough to draw a curve.
const PERCENTS: [f64; 26] = [
    1.0, 2.5, 5.0, 10.0, 20.0, 25.0, 30.0, 40.0, 50.0, 60.0, 70.0, 75.0, 80.0, 85.0, 90.0, 92.5, 95.0, 97.5,
    98.0, 99.0, 99.5, 99.75, 99.9, 99.95, 99.99, 99.999,
];

/// Seconds of a series that are filled up, so that a clock gone mad costs no memory.
const LONGEST_SERIES: usize = 1 << 20;

impl Latency {
    fn of(report: &Report) -> Option<Self> {
        let histogram = &report.latency;
        if histogram.is_empty() {
            return None;
        }
        let ms = |micros: u64| as_f64(micros) / 1000.0;
        let (mean, stddev) = (histogram.mean(), histogram.stdev());
        // Bounds of a histogram in whole microseconds.
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "latencies are below an hour"
        )]
        let within = histogram.count_between((mean - stddev).max(0.0) as u64, (mean + stddev) as u64);
        Some(Self {
            mean_ms: mean / 1000.0,
            stddev_ms: Some(stddev / 1000.0),
            min_ms: Some(ms(histogram.min())),
            max_ms: Some(ms(histogram.max())),
            quantiles: PERCENTS
                .map(|percent| Quantile { percent, ms: ms(histogram.value_at_percentile(percent)) })
                .to_vec(),
            within_stddev_percent: Some(100.0 * as_f64(within) / as_f64(histogram.len())),
        })
    }
}

impl Figures {
    /// Of a run that this engine made.
    pub fn of(plan: &Plan, report: &Report) -> Self {
        let seconds: Vec<Second> = report
            .seconds
            .iter()
            .map(|second| Second {
                answered: second.answered,
                failed: second.failed,
                bytes: second.body_bytes,
                mean_ms: as_f64(second.sum_us) / as_f64(second.answered.max(1)) / 1000.0,
                longest_ms: as_f64(second.longest_us) / 1000.0,
            })
            .collect();
        // Only whole seconds of the measurement: a part of one would look like a dip.
        let whole = usize::try_from(report.elapsed.as_secs()).unwrap_or(usize::MAX);
        let each = |figure: fn(&Second) -> u64| {
            // Seconds at the end in which nothing happened have no entry.
            let mut values: Vec<f64> =
                seconds.iter().take(whole).map(|second| as_f64(figure(second))).collect();
            values.resize(whole.min(LONGEST_SERIES).max(values.len()), 0.0);
            Spread::of(&values)
        };
        let counts = &report.counts;
        let open = !matches!(plan.load, crate::Load::Capacity);
        Self {
            generator: Generator::Workerapp,
            elapsed_seconds: report.elapsed.as_secs_f64(),
            interrupted: report.partial,
            warm_up: (!plan.warm_up.is_zero()).then_some(WarmUp {
                seconds: plan.warm_up.as_secs_f64(),
                answered: Some(report.warm_up_answers),
            }),
            requests_per_second: report.per_second(),
            answered: counts.answered,
            failed: counts.failed,
            failures: report.failures.iter().map(|(kind, count)| (kind.name().to_owned(), *count)).collect(),
            fault: report.fault.clone(),
            sent: Some(counts.sent),
            resent: Some(counts.reconnects),
            dropped: open.then_some(counts.dropped),
            late: open.then_some(counts.late),
            late_for_want_of_a_connection: open.then_some(counts.late_for_want_of_a_connection),
            bytes_received: Some(counts.bytes_received),
            latency: Latency::of(report),
            requests_each_second: each(|second| second.answered),
            bytes_each_second: each(|second| second.bytes),
            seconds,
            connections: report.connections.clone(),
            workers: report.workers.clone(),
            generator_cpus: Some(report.cpu.div_duration_f64(report.elapsed)),
            busiest_thread: Some(report.busiest_thread),
        }
    }
}

impl Run {
    /// Of a run that this engine made: all but names, times and observations.
    pub fn of(plan: &Plan, report: &Report) -> Self {
        let count = |n: usize| u64::try_from(n).ok();
        Self {
            mode: plan.load.into(),
            protocol: Some(plan.protocol),
            tls: plan.tls.is_some(),
            streams: if plan.protocol == Protocol::Http2 { count(plan.streams) } else { None },
            connections: count(plan.connections),
            threads: count(plan.threads),
            round: 1,
            row: counted(plan.connections, "connection"),
            figures: Figures::of(plan, report),
            ..Self::default()
        }
    }
}
