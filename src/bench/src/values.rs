//! Settings as people write them. Each error names the field, the value and what is allowed.

use crate::error::Error;
use crate::search::Promise;
use std::time::Duration;

const DURATION: &str = "write a number with ms, s, m or h, for example 40s or 1.5m";
const COUNT: &str = "write a whole number above 0";
const RATE: &str = "write a number above 0, requests per second";
const LADDER: &str = "write whole numbers above 0 with commas, for example 50,500,1000";
const RAMP: &str = "write two rates with two dots between them, for example 100..5000";
const PROMISE: &str = "write a percentile and a time, and if you like how many may fail, for example p99<50ms or p99.9<200ms,failed<1%";
/// Failed and unsent requests that a promise allows if it says nothing of them.
const FAILURES: f64 = 0.001;

fn wrong(field: &'static str, text: &str, allowed: &'static str) -> Error {
    Error::Value { field, value: text.to_owned(), allowed }
}

/// `40s`, `1.5m`, `250ms`, `2h`; a number alone is seconds.
pub fn duration(field: &'static str, text: &str) -> Result<Duration, Error> {
    let text = text.trim();
    // The longer unit first: `ms` ends with `s`.
    let units = [("ms", 0.001), ("s", 1.0), ("m", 60.0), ("h", 3600.0)];
    let (number, unit) = units
        .into_iter()
        .find_map(|(unit, seconds)| Some((text.strip_suffix(unit)?, seconds)))
        .unwrap_or((text, 1.0));
    decimal(number)
        .and_then(|number| Duration::try_from_secs_f64(number * unit).ok())
        .ok_or_else(|| wrong(field, text, DURATION))
}

/// A whole number above 0.
pub fn count(field: &'static str, text: &str) -> Result<usize, Error> {
    let number = text.trim().parse().ok().filter(|number| *number > 0);
    number.ok_or_else(|| wrong(field, text, COUNT))
}

/// Requests per second.
pub fn rate(field: &'static str, text: &str) -> Result<f64, Error> {
    decimal(text.trim()).filter(|rate| *rate > 0.0).ok_or_else(|| wrong(field, text, RATE))
}

/// `50,500,1000`.
pub fn ladder(field: &'static str, text: &str) -> Result<Vec<usize>, Error> {
    text.split(',').map(|part| count(field, part).map_err(|_| wrong(field, text, LADDER))).collect()
}

/// `100..5000`: from one rate to another.
pub fn ramp(field: &'static str, text: &str) -> Result<(f64, f64), Error> {
    let both =
        text.split_once("..").and_then(|(from, to)| Some((rate(field, from).ok()?, rate(field, to).ok()?)));
    both.ok_or_else(|| wrong(field, text, RAMP))
}

/// `p99<50ms`, `max<1s,failed<0.5%`; at most 0.1 % may fail if that isn't said.
pub fn promise(field: &'static str, text: &str) -> Result<Promise, Error> {
    read_promise(field, text).ok_or_else(|| wrong(field, text, PROMISE))
}

fn read_promise(field: &'static str, text: &str) -> Option<Promise> {
    let mut latency = None;
    let mut failures = None;
    for part in text.split(',') {
        let (name, bound) = part.split_once('<')?;
        let bound = bound.strip_prefix('=').unwrap_or(bound).trim();
        match name.trim() {
            "failed" => {
                let percent = decimal(bound.strip_suffix('%')?.trim())?;
                failures.replace(percent / 100.0).is_none().then_some(())?;
            }
            quantile => {
                let part = match quantile {
                    "max" => 1.0,
                    other => decimal(other.strip_prefix('p')?)? / 100.0,
                };
                let within = duration(field, bound).ok()?;
                latency.replace((part, within)).is_none().then_some(())?;
            }
        }
    }
    let (part, within) = latency?;
    let promise = Promise { part, within, failures: failures.unwrap_or(FAILURES) };
    promise.check().is_ok().then_some(promise)
}

/// Digits and a point: no sign, no exponent, no `inf`.
fn decimal(text: &str) -> Option<f64> {
    let plain = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    text.parse().ok().filter(|_| plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations() {
        for (text, seconds) in [
            ("40s", 40.0),
            ("1.5m", 90.0),
            ("250ms", 0.25),
            ("2h", 7200.0),
            ("3", 3.0),
            (" 1s ", 1.0),
            ("0s", 0.0),
        ] {
            assert_eq!(duration("duration", text).unwrap(), Duration::from_secs_f64(seconds), "{text}");
        }
        for text in
            ["5x", "", "s", "-1s", "1 s", "1e3s", "inf", "NaN", "1.2.3s", "5d", "99999999999999999999999h"]
        {
            let message = duration("warm-up", text).unwrap_err().to_string();
            assert!(message.starts_with("warm-up: ") && message.contains(&format!("{text:?}")), "{message}");
            assert!(message.contains("40s"), "{message}");
        }
    }

    #[test]
    fn numbers() {
        assert_eq!(count("connections", "100").unwrap(), 100);
        assert_eq!(ladder("connections", "50,500, 1000").unwrap(), [50, 500, 1000]);
        assert!((rate("rate", "0.5").unwrap() - 0.5).abs() < 1e-9);
        assert_eq!(ramp("ramp", "10..20.5").unwrap(), (10.0, 20.5));
        for text in ["0", "", "-1", "x", "1.5", "99999999999999999999999999"] {
            let message = count("connections", text).unwrap_err().to_string();
            assert!(message.contains("connections") && message.contains("above 0"), "{message}");
            assert!(ladder("connections", &format!("50,{text}")).is_err(), "{text}");
        }
        for text in ["0", "-5", "fast", "inf", ""] {
            assert!(rate("rate", text).is_err(), "{text}");
            assert!(ramp("ramp", &format!("10..{text}")).is_err(), "{text}");
        }
        assert!(ramp("ramp", "10-20").unwrap_err().to_string().contains("100..5000"));
    }

    #[test]
    fn promises() {
        for (text, part, ms, failures) in [
            ("p99<50ms", 0.99, 50, 0.001),
            ("p99.9 <= 0.2s", 0.999, 200, 0.001),
            ("max<1s,failed<0.5%", 1.0, 1000, 0.005),
            ("failed<0%, p50<5ms", 0.5, 5, 0.0),
        ] {
            let found = promise("search", text).unwrap();
            let right = (found.part - part).abs() < 1e-9 && (found.failures - failures).abs() < 1e-9;
            assert!(right && found.within == Duration::from_millis(ms), "{text}: {found:?}");
        }
        for text in [
            "",
            "p99",
            "50ms",
            "p99>50ms",
            "p0<1s",
            "p101<1s",
            "p99<0ms",
            "failed<1%",
            "p99<1s,p50<1s",
            "p9<1s,failed<1",
        ] {
            let message = promise("search", text).unwrap_err().to_string();
            assert!(
                message.contains(&format!("search: {text:?}")) && message.contains("p99<50ms"),
                "{message}"
            );
        }
    }
}
