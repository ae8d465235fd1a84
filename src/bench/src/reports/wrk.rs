//! The layout that wrk prints with `--latency`.

use super::numbers::trimmed;
use crate::Failure::{self, BadResponse, ClosedEarly, Local, Refused, Reset, Timeout, Unreachable};
use crate::report::as_f64;
use crate::results::{Figures, Run};

/// One run. wrk samples the requests of each thread every 100 ms; here they are those of one second, divided by the threads.
pub fn text(run: &Run) -> String {
    let figures = &run.figures;
    let threads = run.threads.unwrap_or(1).max(1);
    let mut text = format!("Running {} test @ {}\n", whole_seconds(figures.elapsed_seconds), run.url);
    let connections = run.connections.map_or_else(|| "?".to_owned(), |count| count.to_string());
    push!(text, "  {threads} threads and {connections} connections\n");
    text.push_str("  Thread Stats   Avg      Stdev     Max   +/- Stdev\n");
    if let Some(latency) = &figures.latency {
        let of = |ms: Option<f64>| time(ms.unwrap_or(0.0) * 1000.0);
        text.push_str(&stats(
            "Latency",
            [of(Some(latency.mean_ms)), of(latency.stddev_ms), of(latency.max_ms)],
            latency.within_stddev_percent,
        ));
    }
    if let Some(spread) = &figures.requests_each_second {
        let of = |value: f64| scaled(value / as_f64(threads), 1000.0, "", &["k", "M", "G"]);
        let cells = [of(spread.mean), of(spread.stddev), of(spread.max)];
        text.push_str(&stats("Req/Sec", cells, spread.within_stddev_percent));
    }
    if let Some(latency) = &figures.latency {
        text.push_str("  Latency Distribution\n");
        for percent in [50.0, 75.0, 90.0, 99.0] {
            if let Some(ms) = latency.at(percent) {
                push!(text, "{percent:7.0}%{}\n", padded(&time(ms * 1000.0), 10));
            }
        }
    }
    let bytes = as_f64(figures.bytes_received.unwrap_or(0));
    push!(
        text,
        "  {} requests in {}, {}B read\n",
        figures.answered + non2xx(figures),
        time(figures.elapsed_seconds * 1e6),
        binary(bytes)
    );
    text.push_str(&errors(figures));
    push!(text, "Requests/sec: {:9.2}\n", figures.requests_per_second);
    let transfer = binary(bytes / figures.elapsed_seconds.max(1e-9));
    push!(text, "Transfer/sec: {transfer:>10}B\n");
    text
}

fn non2xx(figures: &Figures) -> u64 {
    figures.failures.get(Failure::Status.name()).copied().unwrap_or(0)
}

fn errors(figures: &Figures) -> String {
    // Our kinds, and those that wrk itself counts.
    let count = |kinds: &[&str]| -> u64 { kinds.iter().filter_map(|kind| figures.failures.get(*kind)).sum() };
    let connect = count(&[Refused.name(), Unreachable.name(), Local.name(), "connect"]);
    let read = count(&[Reset.name(), ClosedEarly.name(), BadResponse.name(), "read"]);
    let write = count(&["write"]);
    let timeout = count(&[Timeout.name()]);
    let mut text = String::new();
    if connect + read + write + timeout > 0 {
        push!(text, "  Socket errors: connect {connect}, read {read}, write {write}, timeout {timeout}\n");
    }
    if non2xx(figures) > 0 {
        push!(text, "  Non-2xx or 3xx responses: {}\n", non2xx(figures));
    }
    text
}

/// A line of the first table.
fn stats(name: &str, [mean, stddev, max]: [String; 3], within: Option<f64>) -> String {
    let within = within.unwrap_or(0.0);
    format!("    {name:<10}{}{}{}{within:8.2}%\n", padded(&mean, 8), padded(&stddev, 10), padded(&max, 9))
}

/// To the right, with the digits of different units below each other.
fn padded(text: &str, width: usize) -> String {
    let letters = text.chars().rev().take(2).filter(char::is_ascii_alphabetic).count();
    let pad = 2 - letters;
    format!("{text:>0$}{1:2$}", width - pad, "", pad)
}

/// The first unit in which the number is below 0.85 of the next.
fn scaled(value: f64, scale: f64, base: &str, units: &[&str]) -> String {
    let (mut value, mut unit) = (value, base);
    for next in units {
        if value < scale * 0.85 {
            break;
        }
        value /= scale;
        unit = next;
    }
    format!("{value:.2}{unit}")
}

fn time(micros: f64) -> String {
    if micros >= 1e6 {
        return scaled(micros / 1e6, 60.0, "s", &["m"]);
    }
    scaled(micros, 1000.0, "us", &["ms"])
}

fn binary(bytes: f64) -> String {
    scaled(bytes, 1024.0, "", &["K", "M", "G", "T"])
}

fn whole_seconds(seconds: f64) -> String {
    if seconds < 51.0 {
        return format!("{}s", trimmed(seconds, usize::from(seconds < 1.0)));
    }
    format!("{:.0}m", seconds / 60.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::{Latency, Quantile, Spread};

    #[test]
    fn the_layout_of_wrk() {
        let quantile = |(percent, ms)| Quantile { percent, ms };
        let run = Run {
            url: "http://127.0.0.1:3999/".into(),
            connections: Some(100),
            threads: Some(2),
            figures: Figures {
                elapsed_seconds: 30.0,
                requests_per_second: 748_868.53,
                answered: 22_464_657,
                failed: 6,
                failures: [("timeout".to_owned(), 1), ("not 2xx".to_owned(), 5)].into(),
                bytes_received: Some(19_069_655_122),
                latency: Some(Latency {
                    mean_ms: 0.63591,
                    stddev_ms: Some(0.89),
                    max_ms: Some(12.92),
                    quantiles: [(50.0, 0.25), (75.0, 0.491), (90.0, 0.7), (99.0, 5.8)].map(quantile).to_vec(),
                    within_stddev_percent: Some(93.69),
                    ..Latency::default()
                }),
                requests_each_second: Some(Spread {
                    mean: 112_400.0,
                    stddev: 16_140.0,
                    max: 124_000.0,
                    within_stddev_percent: Some(86.54),
                    ..Spread::default()
                }),
                ..Figures::default()
            },
            ..Run::default()
        };
        assert_eq!(
            text(&run),
            "\
Running 30s test @ http://127.0.0.1:3999/
  2 threads and 100 connections
  Thread Stats   Avg      Stdev     Max   +/- Stdev
    Latency   635.91us    0.89ms  12.92ms   93.69%
    Req/Sec    56.20k     8.07k   62.00k    86.54%
  Latency Distribution
     50%  250.00us
     75%  491.00us
     90%  700.00us
     99%    5.80ms
  22464662 requests in 30.00s, 17.76GB read
  Socket errors: connect 0, read 0, write 0, timeout 1
  Non-2xx or 3xx responses: 5
Requests/sec: 748868.53
Transfer/sec:    606.21MB
"
        );
    }
}
