//! The layout that autocannon prints, for eyes and scripts that are used to it.

use super::numbers::{grouped, or_dash, trimmed};
use super::table::boxed;
use crate::report::as_f64;
use crate::results::{Latency, Run, Spread};

/// One run.
pub fn text(run: &Run) -> String {
    let figures = &run.figures;
    let connections = run.connections.map_or_else(|| "?".to_owned(), |count| count.to_string());
    let mut text = String::new();
    if let Some(warm_up) = figures.warm_up {
        let length = trimmed(warm_up.seconds, 1);
        push!(text, "Running {length}s warmup @ {}\n{connections} connections\n", run.url);
    }
    // Timers are never early and little late: the planned length is a whole number below.
    let planned = trimmed(figures.elapsed_seconds, usize::from(figures.elapsed_seconds < 1.0));
    push!(text, "Running {planned}s test @ {}\n{connections} connections\n", run.url);
    text.push_str(&latency_table(figures.latency.as_ref()));
    text.push_str(&second_table(figures.requests_each_second.as_ref(), figures.bytes_each_second.as_ref()));
    let samples = figures.requests_each_second.map_or(0, |spread| spread.samples);
    push!(text, "Req/Bytes counts sampled once per second.\n# of samples: {samples}\n");
    let non2xx = figures.failures.get(crate::Failure::Status.name()).copied().unwrap_or(0);
    if non2xx > 0 {
        push!(text, "{} 2xx responses, {non2xx} non 2xx responses\n", figures.answered);
    }
    let sent = figures.sent.unwrap_or(figures.answered + figures.failed);
    push!(
        text,
        "{} requests in {}s, {} read\n",
        thousands(sent),
        trimmed(figures.elapsed_seconds, 2),
        or_dash(figures.bytes_received.map(as_f64), bytes)
    );
    let errors = figures.failed.saturating_sub(non2xx);
    if errors > 0 {
        let timeouts = figures.failures.get(crate::Failure::Timeout.name()).copied().unwrap_or(0);
        push!(text, "{} errors ({} timeouts)\n", thousands(errors), thousands(timeouts));
    }
    if figures.interrupted {
        text.push_str("interrupted: the figures count what was until then\n");
    }
    text
}

fn row(name: &str, cells: impl IntoIterator<Item = String>) -> Vec<String> {
    std::iter::once(name.to_owned()).chain(cells).collect()
}

fn head(names: [&str; 8]) -> Vec<String> {
    names.map(str::to_owned).to_vec()
}

fn latency_table(latency: Option<&Latency>) -> String {
    let ms = |value| or_dash(value, |ms| format!("{} ms", trimmed(ms, 2)));
    let at = |percent| ms(latency.and_then(|latency| latency.at(percent)));
    let cells = [
        at(2.5),
        at(50.0),
        at(97.5),
        at(99.0),
        ms(latency.map(|latency| latency.mean_ms)),
        ms(latency.and_then(|latency| latency.stddev_ms)),
        ms(latency.and_then(|latency| latency.max_ms)),
    ];
    boxed(&[head(["Stat", "2.5%", "50%", "97.5%", "99%", "Avg", "Stdev", "Max"]), row("Latency", cells)])
}

fn second_table(requests: Option<&Spread>, received: Option<&Spread>) -> String {
    let cells = |spread: Option<&Spread>, text: fn(f64) -> String| {
        let figures: [fn(&Spread) -> f64; 7] =
            [|s| s.p1, |s| s.p2_5, |s| s.p50, |s| s.p97_5, |s| s.mean, |s| s.stddev, |s| s.min];
        figures.map(|figure| or_dash(spread.map(figure), text))
    };
    boxed(&[
        head(["Stat", "1%", "2.5%", "50%", "97.5%", "Avg", "Stdev", "Min"]),
        row("Req/Sec", cells(requests, |value| grouped(value, 2))),
        row("Bytes/Sec", cells(received, bytes)),
    ])
}

/// Three digits that matter, in powers of 1000.
fn bytes(value: f64) -> String {
    const UNITS: [&str; 7] = ["B", "kB", "MB", "GB", "TB", "PB", "EB"];
    let (mut value, mut unit) = (value, 0);
    while value >= 1000.0 && unit + 1 < UNITS.len() {
        value /= 1000.0;
        unit += 1;
    }
    let decimals = match value {
        value if value >= 100.0 => 0,
        value if value >= 10.0 => 1,
        _ => 2,
    };
    format!("{} {}", trimmed(value, decimals), UNITS.get(unit).unwrap_or(&"B"))
}

/// `999`, `133k`.
fn thousands(count: u64) -> String {
    if count < 1000 { count.to_string() } else { format!("{:.0}k", as_f64(count) / 1000.0) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::{Figures, Generator, Quantile};

    fn spread(figures: [f64; 7]) -> Spread {
        let [p1, p2_5, p50, p97_5, mean, stddev, min] = figures;
        Spread {
            samples: 40,
            p1,
            p2_5,
            p50,
            p97_5,
            mean,
            stddev,
            min,
            max: p97_5,
            within_stddev_percent: None,
        }
    }

    fn run(latency: [f64; 7], requests: [f64; 7], received: [f64; 7]) -> Run {
        let [p2_5, p50, p97_5, p99, mean_ms, stddev_ms, max_ms] = latency;
        Run {
            url: "http://10.0.1.210:30000".into(),
            connections: Some(100),
            figures: Figures {
                generator: Generator::Autocannon,
                elapsed_seconds: 40.03,
                latency: Some(Latency {
                    mean_ms,
                    stddev_ms: Some(stddev_ms),
                    max_ms: Some(max_ms),
                    quantiles: [(2.5, p2_5), (50.0, p50), (97.5, p97_5), (99.0, p99)]
                        .map(|(percent, ms)| Quantile { percent, ms })
                        .to_vec(),
                    ..Latency::default()
                }),
                requests_each_second: Some(spread(requests)),
                bytes_each_second: Some(spread(received)),
                ..Figures::default()
            },
            ..Run::default()
        }
    }

    /// A published run of Node.js, figure by figure.
    #[test]
    fn the_layout_of_a_run_without_errors() {
        let mut run = run(
            [24.0, 29.0, 57.0, 59.0, 29.62, 9.85, 826.0],
            [1621.0, 1621.0, 3479.0, 3513.0, 3321.2, 417.58, 1621.0],
            [21.3e6, 21.3e6, 45.8e6, 46.3e6, 43.7e6, 5.5e6, 21.3e6],
        );
        run.figures.answered = 132_848;
        run.figures.bytes_received = Some(1_750_000_000);
        assert_eq!(
            text(&run),
            "\
Running 40s test @ http://10.0.1.210:30000
100 connections
┌─────────┬───────┬───────┬───────┬───────┬──────────┬─────────┬────────┐
│ Stat    │ 2.5%  │ 50%   │ 97.5% │ 99%   │ Avg      │ Stdev   │ Max    │
├─────────┼───────┼───────┼───────┼───────┼──────────┼─────────┼────────┤
│ Latency │ 24 ms │ 29 ms │ 57 ms │ 59 ms │ 29.62 ms │ 9.85 ms │ 826 ms │
└─────────┴───────┴───────┴───────┴───────┴──────────┴─────────┴────────┘
┌───────────┬─────────┬─────────┬─────────┬─────────┬─────────┬────────┬─────────┐
│ Stat      │ 1%      │ 2.5%    │ 50%     │ 97.5%   │ Avg     │ Stdev  │ Min     │
├───────────┼─────────┼─────────┼─────────┼─────────┼─────────┼────────┼─────────┤
│ Req/Sec   │ 1,621   │ 1,621   │ 3,479   │ 3,513   │ 3,321.2 │ 417.58 │ 1,621   │
├───────────┼─────────┼─────────┼─────────┼─────────┼─────────┼────────┼─────────┤
│ Bytes/Sec │ 21.3 MB │ 21.3 MB │ 45.8 MB │ 46.3 MB │ 43.7 MB │ 5.5 MB │ 21.3 MB │
└───────────┴─────────┴─────────┴─────────┴─────────┴─────────┴────────┴─────────┘
Req/Bytes counts sampled once per second.
# of samples: 40
133k requests in 40.03s, 1.75 GB read
"
        );
    }

    /// A published run of three workers, whose last line tells of errors.
    #[test]
    fn the_layout_of_a_run_with_errors() {
        let mut run = run(
            [7.0, 13.0, 81.0, 99.0, 19.54, 21.77, 689.0],
            [2025.0, 2025.0, 5903.0, 7451.0, 5298.25, 1960.19, 2025.0],
            [26.7e6, 26.7e6, 77.8e6, 98.2e6, 69.8e6, 25.8e6, 26.7e6],
        );
        run.url = "http://10.0.1.210:30042".into();
        (run.figures.answered, run.figures.failed) = (211_930, 123);
        run.figures.failures = [("reset".to_owned(), 123)].into();
        run.figures.bytes_received = Some(2_790_000_000);
        assert_eq!(
            text(&run),
            "\
Running 40s test @ http://10.0.1.210:30042
100 connections
┌─────────┬──────┬───────┬───────┬───────┬──────────┬──────────┬────────┐
│ Stat    │ 2.5% │ 50%   │ 97.5% │ 99%   │ Avg      │ Stdev    │ Max    │
├─────────┼──────┼───────┼───────┼───────┼──────────┼──────────┼────────┤
│ Latency │ 7 ms │ 13 ms │ 81 ms │ 99 ms │ 19.54 ms │ 21.77 ms │ 689 ms │
└─────────┴──────┴───────┴───────┴───────┴──────────┴──────────┴────────┘
┌───────────┬─────────┬─────────┬─────────┬─────────┬──────────┬──────────┬─────────┐
│ Stat      │ 1%      │ 2.5%    │ 50%     │ 97.5%   │ Avg      │ Stdev    │ Min     │
├───────────┼─────────┼─────────┼─────────┼─────────┼──────────┼──────────┼─────────┤
│ Req/Sec   │ 2,025   │ 2,025   │ 5,903   │ 7,451   │ 5,298.25 │ 1,960.19 │ 2,025   │
├───────────┼─────────┼─────────┼─────────┼─────────┼──────────┼──────────┼─────────┤
│ Bytes/Sec │ 26.7 MB │ 26.7 MB │ 77.8 MB │ 98.2 MB │ 69.8 MB  │ 25.8 MB  │ 26.7 MB │
└───────────┴─────────┴─────────┴─────────┴─────────┴──────────┴──────────┴─────────┘
Req/Bytes counts sampled once per second.
# of samples: 40
212k requests in 40.03s, 2.79 GB read
123 errors (0 timeouts)
"
        );
    }

    #[test]
    fn what_is_missing_is_a_dash() {
        let text = text(&Run::default());
        assert!(text.contains("│ Latency │ –"), "{text}");
        assert!(text.contains("0 requests in 0s, – read"), "{text}");
    }

    #[test]
    fn sizes() {
        for (value, text) in [
            (0.0, "0 B"),
            (999.0, "999 B"),
            (1000.0, "1 kB"),
            (5.5e6, "5.5 MB"),
            (46.34e6, "46.3 MB"),
            (1.75e9, "1.75 GB"),
        ] {
            assert_eq!(bytes(value), text);
        }
        assert_eq!((thousands(999).as_str(), thousands(132_848).as_str()), ("999", "133k"));
    }
}
