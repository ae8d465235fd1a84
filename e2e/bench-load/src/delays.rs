//! Servers whose delays are known: who reports them?
//!
//! What is right is what requests at planned times meet, whether or not they could be sent: the time from when a request was due to its
//! answer.

use crate::Effort;
use crate::generator::{AUTOCANNON, Generator, OURS, Task};
use crate::server::slow;
use anyhow::Result;
use serde::Serialize;
use std::fmt::Write;
use std::time::{Duration, Instant};
use workerapp_bench::results::Latency;

const PER_SECOND: u32 = 200;
const CONNECTIONS: usize = 50;
/// How long each run is; the stall is in its middle.
const SECONDS: u64 = 10;
const STALL: (f64, f64) = (4.0, 6.0);

/// Percentiles and what they must be, in milliseconds.
type Truth = &'static [(f64, f64)];

/// A server and what is true of it.
struct Case {
    name: &'static str,
    truth: Truth,
    /// How long the server waits before it answers the n-th request, this long after the begin.
    wait: fn(u64, Duration) -> Duration,
}

const CASES: [Case; 3] = [
    Case {
        name: "30 ms",
        truth: &[(50.0, 30.0), (90.0, 30.0), (99.0, 30.0)],
        wait: |_, _| Duration::from_millis(30),
    },
    Case {
        name: "5 ms, one in five 80 ms",
        truth: &[(50.0, 5.0), (75.0, 5.0), (90.0, 80.0), (99.0, 80.0)],
        wait: |number, _| Duration::from_millis(if number % 5 == 0 { 80 } else { 5 }),
    },
    // A fifth of the requests is due while it stands still, and waits for what is left of two seconds.
    Case {
        name: "2 s stall in 10 s",
        truth: &[(50.0, 0.0), (90.0, 1000.0), (97.5, 1750.0), (99.0, 1900.0)],
        wait: |_, at| {
            let at = at.as_secs_f64();
            if (STALL.0..STALL.1).contains(&at) {
                Duration::from_secs_f64(STALL.1 - at)
            } else {
                Duration::ZERO
            }
        },
    },
];

/// One percentile as one generator reports it.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Sample {
    case: &'static str,
    generator: &'static str,
    percent: f64,
    truth_ms: f64,
    reported_ms: Option<f64>,
    right: bool,
}

/// Within 5 %, or 5 ms: timers of server and generator, and what a loaded machine adds.
fn right(truth: f64, reported: f64) -> bool {
    (reported - truth).abs() <= (0.05 * truth).max(5.0)
}

pub(crate) fn measure(generators: &[Generator], effort: Effort) -> Result<Vec<Sample>> {
    let mut samples = Vec::new();
    let able = generators.iter().filter(|generator| [OURS, AUTOCANNON].contains(&generator.name));
    for (case, generator) in
        CASES.iter().flat_map(|case| able.clone().map(move |generator| (case, generator)))
    {
        // The begin is the first request's: starting a program takes its time.
        let (wait, begun) = (case.wait, std::sync::OnceLock::<Instant>::new());
        let address = slow(move |number| wait(number, begun.get_or_init(Instant::now).elapsed()))?;
        let seconds = if effort.seconds > 1 || case.name.contains("stall") { SECONDS } else { 2 };
        let task = Task { address, connections: CONNECTIONS, seconds, rate: Some(PER_SECOND) };
        let latency = generator.run(task)?.figures.latency.unwrap_or_default();
        samples.extend(
            case.truth.iter().map(|(percent, truth)| sample(case, generator, &latency, *percent, *truth)),
        );
    }
    Ok(samples)
}

fn sample(case: &Case, generator: &Generator, latency: &Latency, percent: f64, truth_ms: f64) -> Sample {
    let reported_ms = latency.at(percent);
    Sample {
        case: case.name,
        generator: generator.name,
        percent,
        truth_ms,
        reported_ms,
        right: reported_ms.is_some_and(|reported| right(truth_ms, reported)),
    }
}

pub(crate) fn table(samples: &[Sample]) -> String {
    let mut text = format!(
        "{:24}  {:11}  {:>7}  {:>8}  {:>11}\n",
        "known delay", "generator", "percent", "true ms", "reported ms"
    );
    for sample in samples {
        let reported = sample.reported_ms.map_or_else(|| "–".to_owned(), |ms| format!("{ms:.1}"));
        let mark = if sample.right { "" } else { "  wrong" };
        // A String takes everything.
        let _ = writeln!(
            text,
            "{:24}  {:11}  {:>7}  {:>8.0}  {reported:>11}{mark}",
            sample.case, sample.generator, sample.percent, sample.truth_ms
        );
    }
    text
}

pub(crate) fn verdict(samples: &[Sample]) -> String {
    let mut text = String::new();
    for name in [OURS, AUTOCANNON] {
        let all = samples.iter().filter(|sample| sample.generator == name);
        let (wrong, count) = (all.clone().filter(|sample| !sample.right).count(), all.count());
        let goal = match (name, wrong) {
            (OURS, 0) => "  goal: none: met",
            (OURS, _) => "  goal: none: missed",
            _ => "",
        };
        if count > 0 {
            let _ = writeln!(text, "known delays reported wrong by {name}: {wrong} of {count}{goal}");
        }
    }
    text
}
