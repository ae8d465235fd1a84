//! k6's summary: what `--summary-export` writes, or `JSON.stringify(data)` in `handleSummary`.

use super::Error;
use super::fields::{Fields, whole};
use crate::results::{Figures, Generator, Latency, Mode, Quantile, Run};
use serde_json::Value;

const PERCENTS: [(&str, f64); 7] = [
    ("med", 50.0),
    ("p(75)", 75.0),
    ("p(90)", 90.0),
    ("p(95)", 95.0),
    ("p(99)", 99.0),
    ("p(99.9)", 99.9),
    ("p(99.99)", 99.99),
];

pub(super) fn is_it(value: &Value) -> bool {
    value.get("metrics").is_some_and(|metrics| metrics.get("http_reqs").is_some())
}

pub(super) fn read(value: &Value) -> Result<Run, Error> {
    let all = Fields::new("k6 JSON", value).within("metrics")?;
    let requests = metric(&all, "http_reqs")?;
    let total = whole(requests.number("count")?);
    let rate = requests.positive("rate")?;
    let failed = match maybe_metric(&all, "http_req_failed")? {
        // A request that failed is one that the rate counts as passed.
        Some(failed) => failed.count("passes")?.min(total),
        None => 0,
    };
    let answered = total - failed;
    let elapsed_seconds = crate::report::as_f64(total) / rate;
    let count_of = |name: &str| -> Result<Option<u64>, Error> {
        Ok(match maybe_metric(&all, name)? {
            Some(metric) => metric.maybe("count")?.map(whole),
            None => None,
        })
    };
    let most = match maybe_metric(&all, "vus_max")? {
        Some(users) => users.maybe("max")?.or(users.maybe("value")?).map(whole),
        None => None,
    };
    let figures = Figures {
        generator: Generator::K6,
        elapsed_seconds,
        requests_per_second: if elapsed_seconds > 0.0 {
            crate::report::as_f64(answered) / elapsed_seconds
        } else {
            0.0
        },
        answered,
        failed,
        failures: if failed > 0 { [("error".to_owned(), failed)].into() } else { [].into() },
        sent: Some(total),
        dropped: count_of("dropped_iterations")?,
        bytes_received: count_of("data_received")?,
        latency: Some(latency(&metric(&all, "http_req_duration")?)?),
        ..Figures::default()
    };
    // A user may rest between requests, so the number of users is not that of requests on their way.
    Ok(Run { mode: Mode::Unknown, connections: most, figures, ..Run::default() })
}

/// The older of the two formats has no `values`.
fn metric<'a>(all: &Fields<'a>, name: &str) -> Result<Fields<'a>, Error> {
    let metric = all.within(name)?;
    Ok(metric.maybe_within("values")?.unwrap_or(metric))
}

fn maybe_metric<'a>(all: &Fields<'a>, name: &str) -> Result<Option<Fields<'a>>, Error> {
    if all.maybe_within(name)?.is_some() { metric(all, name).map(Some) } else { Ok(None) }
}

fn latency(fields: &Fields<'_>) -> Result<Latency, Error> {
    let mut quantiles = Vec::new();
    for (name, percent) in PERCENTS {
        quantiles.extend(fields.maybe(name)?.map(|ms| Quantile { percent, ms }));
    }
    Ok(Latency {
        mean_ms: fields.number("avg")?,
        stddev_ms: None,
        min_ms: fields.maybe("min")?,
        max_ms: fields.maybe("max")?,
        quantiles,
        within_stddev_percent: None,
    })
}
