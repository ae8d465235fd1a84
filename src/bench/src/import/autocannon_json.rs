//! What `autocannon --json` prints.

use super::Error;
use super::fields::{Fields, whole};
use crate::results::{Figures, Generator, Latency, Mode, Quantile, Run, Spread, WarmUp};
use serde_json::Value;

const PERCENTS: [(&str, f64); 12] = [
    ("p1", 1.0),
    ("p2_5", 2.5),
    ("p10", 10.0),
    ("p25", 25.0),
    ("p50", 50.0),
    ("p75", 75.0),
    ("p90", 90.0),
    ("p97_5", 97.5),
    ("p99", 99.0),
    ("p99_9", 99.9),
    ("p99_99", 99.99),
    ("p99_999", 99.999),
];

pub(super) fn is_it(value: &Value) -> bool {
    ["latency", "requests", "throughput"].iter().all(|name| value.get(name).is_some())
}

pub(super) fn read(value: &Value) -> Result<Run, Error> {
    let all = Fields::new("autocannon JSON", value);
    let (requests, throughput) = (all.within("requests")?, all.within("throughput")?);
    let elapsed_seconds = all.positive("duration")?;
    let samples = all.count("samples")?;
    let (timeouts, non2xx, resets) = (all.count("timeouts")?, all.count("non2xx")?, all.count("resets")?);
    let errors = all.count("errors")?;
    let total = whole(requests.number("total")?);
    let answered = total.saturating_sub(non2xx);
    let failures = [
        ("timeout", timeouts),
        ("not 2xx", non2xx),
        ("reset", resets),
        ("error", errors.saturating_sub(timeouts).saturating_sub(resets)),
    ];
    let figures = Figures {
        generator: Generator::Autocannon,
        elapsed_seconds,
        warm_up: warm_up(&all)?,
        requests_per_second: crate::report::as_f64(answered) / elapsed_seconds,
        answered,
        failed: errors.max(timeouts).saturating_add(non2xx),
        failures: failures
            .into_iter()
            .filter(|(_, n)| *n > 0)
            .map(|(kind, n)| (kind.to_owned(), n))
            .collect(),
        sent: requests.maybe("sent")?.map(whole),
        bytes_received: throughput.maybe("total")?.map(whole),
        latency: Some(latency(&all.within("latency")?)?),
        requests_each_second: Some(spread(&requests, samples)?),
        bytes_each_second: Some(spread(&throughput, samples)?),
        ..Figures::default()
    };
    let pipelining = all.maybe("pipelining")?.unwrap_or(1.0);
    Ok(Run {
        target: all.text("title"),
        url: all.text("url"),
        started: all.text("start"),
        // With several requests on a connection their number is no longer that of the connections.
        mode: if pipelining > 1.0 { Mode::Unknown } else { Mode::Closed },
        connections: all.maybe("connections")?.map(whole),
        figures,
        ..Run::default()
    })
}

fn warm_up(all: &Fields<'_>) -> Result<Option<WarmUp>, Error> {
    let Some(warm_up) = all.maybe_within("warmup")? else { return Ok(None) };
    let answered = match warm_up.maybe_within("requests")? {
        Some(requests) => requests.maybe("total")?.map(whole),
        None => None,
    };
    Ok(Some(WarmUp { seconds: warm_up.maybe("duration")?.unwrap_or(0.0), answered }))
}

fn latency(fields: &Fields<'_>) -> Result<Latency, Error> {
    let mut quantiles = Vec::new();
    for (name, percent) in PERCENTS {
        quantiles.extend(fields.maybe(name)?.map(|ms| Quantile { percent, ms }));
    }
    Ok(Latency {
        mean_ms: fields.number("average")?,
        stddev_ms: fields.maybe("stddev")?,
        min_ms: fields.maybe("min")?,
        max_ms: fields.maybe("max")?,
        quantiles,
        within_stddev_percent: None,
    })
}

fn spread(fields: &Fields<'_>, samples: u64) -> Result<Spread, Error> {
    Ok(Spread {
        samples,
        p1: fields.number("p1")?,
        p2_5: fields.number("p2_5")?,
        p50: fields.number("p50")?,
        p97_5: fields.number("p97_5")?,
        mean: fields.number("average")?,
        stddev: fields.number("stddev")?,
        min: fields.number("min")?,
        max: fields.number("max")?,
        within_stddev_percent: None,
    })
}
