//! Open loop at half of the capacity: are requests sent when they are due?

use crate::Effort;
use crate::generator::{Task, plan};
use crate::server::Responder;
use anyhow::Result;
use serde::Serialize;
use std::fmt::Write;
use workerapp_bench::Control;

/// Of the requests, in percent.
const GOAL: f64 = 1.0;

/// One run.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Sample {
    per_second: u32,
    sent: u64,
    /// Over 1 ms after the planned time, for whatever reason.
    late_percent: f64,
    /// Of those, for want of a free connection.
    waited_percent: f64,
    dropped: u64,
    p50_ms: f64,
    p99_ms: f64,
    max_ms: f64,
}

pub(crate) fn measure(server: &Responder, effort: Effort, rate: f64) -> Result<Vec<Sample>> {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a rate is far below 2^32")]
    let per_second = rate as u32;
    let task = Task {
        address: server.address,
        connections: effort.connections,
        seconds: effort.seconds,
        rate: Some(per_second),
    };
    (0..effort.rounds.min(5))
        .map(|_| {
            let report = workerapp_bench::run(&plan(task)?, &Control::default())?;
            let counts = &report.counts;
            let percent = |count| 100.0 * to_f64(count) / to_f64(counts.sent.max(1));
            Ok(Sample {
                per_second,
                sent: counts.sent,
                late_percent: percent(counts.late),
                waited_percent: percent(counts.late_for_want_of_a_connection),
                dropped: counts.dropped,
                p50_ms: report.quantile_ms(0.5),
                p99_ms: report.quantile_ms(0.99),
                max_ms: report.quantile_ms(1.0),
            })
        })
        .collect()
}

/// Exact below 2^32, and counts are.
fn to_f64(count: u64) -> f64 {
    u32::try_from(count).map_or(f64::INFINITY, f64::from)
}

pub(crate) fn table(samples: &[Sample]) -> String {
    let mut text =
        String::from("open loop, half of it   sent     late %  waited %  p50 ms  p99 ms  max ms\n");
    for sample in samples {
        // A String takes everything.
        let _ = writeln!(
            text,
            "{:>8} requests/s  {:>9}  {:>8.3}  {:>8.3}  {:>6.2}  {:>6.2}  {:>6.1}",
            sample.per_second,
            sample.sent,
            sample.late_percent,
            sample.waited_percent,
            sample.p50_ms,
            sample.p99_ms,
            sample.max_ms
        );
    }
    text
}

pub(crate) fn verdict(samples: &[Sample]) -> String {
    let middle = |figure: fn(&Sample) -> f64| {
        let figures: Vec<f64> = samples.iter().map(figure).collect();
        workerapp_bench::statistics::median(&figures).unwrap_or(f64::NAN)
    };
    let (late, waited) = (middle(|sample| sample.late_percent), middle(|sample| sample.waited_percent));
    let met = if late < GOAL { "met" } else { "missed" };
    // Without a free connection it is the server that is late, or the machine that stopped both.
    format!(
        "requests sent over 1 ms late: {late:.3} % (median), {waited:.3} % for want of a free connection  goal < {GOAL} %: {met}\n"
    )
}
