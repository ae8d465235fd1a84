//! What wrk prints, with any number of runs in one text.

use super::Error;
use super::fields::whole;
use super::lines::{Line, lines, number, with_unit};
use crate::results::{Figures, Generator, Latency, Mode, Quantile, Run};

const FORMAT: &str = "wrk text";
/// Milliseconds. Longer ends first.
const TIME: [(&str, f64); 5] =
    [("us", 0.001), ("ms", 1.0), ("s", 1000.0), ("m", 60_000.0), ("h", 3_600_000.0)];
const BYTES: [(&str, f64); 5] =
    [("TB", 1_099_511_627_776.0), ("GB", 1_073_741_824.0), ("MB", 1_048_576.0), ("KB", 1024.0), ("B", 1.0)];

pub(super) fn is_it(text: &str) -> bool {
    text.contains(" threads and ") && text.contains("Running ")
}

pub(super) fn read(text: &str) -> Result<Vec<Run>, Error> {
    let mut runs: Vec<Run> = Vec::new();
    let mut run: Option<Run> = None;
    for line in lines(FORMAT, text) {
        let trimmed = line.text.trim();
        if let Some(rest) = trimmed.strip_prefix("Running ") {
            let (_, url) = rest.split_once(" @ ").ok_or_else(|| line.wrong("it names no URL after @"))?;
            let figures = Figures { generator: Generator::Wrk, ..Figures::default() };
            let url = url.trim().to_owned();
            run = Some(Run { url, mode: Mode::Closed, figures, ..Run::default() });
        } else if let Some(current) = &mut run {
            let is_last = trimmed.starts_with("Requests/sec:");
            read_line(&line, trimmed, current)?;
            // Its rate is the last that every run has; without it, it was broken off.
            if is_last && current.figures.elapsed_seconds > 0.0 {
                runs.extend(run.take());
            }
        }
    }
    Ok(runs)
}

fn read_line(line: &Line, text: &str, run: &mut Run) -> Result<(), Error> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let figures = &mut run.figures;
    match words.as_slice() {
        [threads, "threads", "and", connections, "connections"] => {
            let both = number(threads).zip(number(connections));
            let (threads, connections) =
                both.ok_or_else(|| line.wrong("threads or connections are no numbers"))?;
            (run.threads, run.connections) = (Some(whole(threads)), Some(whole(connections)));
        }
        ["Latency", mean, stddev, max, within] => {
            let time = |text: &str| with_unit(text, &TIME).ok_or_else(|| line.wrong("a latency is no time"));
            let latency = figures.latency.get_or_insert_default();
            latency.mean_ms = time(mean)?;
            latency.stddev_ms = Some(time(stddev)?);
            latency.max_ms = Some(time(max)?);
            latency.within_stddev_percent = within.strip_suffix('%').and_then(number);
        }
        [percent, time] if percent.ends_with('%') => {
            let both = percent.strip_suffix('%').and_then(number).zip(with_unit(time, &TIME));
            let (percent, ms) = both.ok_or_else(|| line.wrong("a percentile is no time"))?;
            figures.latency.get_or_insert_with(Latency::default).quantiles.push(Quantile { percent, ms });
        }
        [count, "requests", "in", time, size, "read"] => {
            let count = number(count).ok_or_else(|| line.wrong("the number of requests is none"))?;
            let ms = time.strip_suffix(',').and_then(|time| with_unit(time, &TIME)).filter(|ms| *ms > 0.0);
            let ms = ms.ok_or_else(|| line.wrong("the duration is no time above 0"))?;
            let bytes = with_unit(size, &BYTES).ok_or_else(|| line.wrong("what was read is no size"))?;
            figures.answered = whole(count);
            figures.elapsed_seconds = ms / 1000.0;
            figures.bytes_received = Some(whole(bytes));
        }
        ["Socket", "errors:", rest @ ..] => {
            for pair in rest.chunks(2) {
                let [kind, count] = pair else { return Err(line.wrong("a kind of error has no number")) };
                let count = number(count.trim_end_matches(',')).map(whole);
                let count = count.ok_or_else(|| line.wrong("a kind of error has no number"))?;
                failed(figures, kind, count);
            }
        }
        ["Non-2xx", "or", "3xx", "responses:", count] => {
            let count =
                number(count).map(whole).ok_or_else(|| line.wrong("the number of responses is none"))?;
            figures.answered = figures.answered.saturating_sub(count);
            failed(figures, "not 2xx", count);
        }
        ["Requests/sec:", rate] => {
            number(rate).ok_or_else(|| line.wrong("the rate is no number"))?;
            let answered = crate::report::as_f64(figures.answered);
            // wrk's own rate counts answers other than 2xx too.
            figures.requests_per_second =
                if figures.elapsed_seconds > 0.0 { answered / figures.elapsed_seconds } else { 0.0 };
        }
        _ => {}
    }
    Ok(())
}

fn failed(figures: &mut Figures, kind: &str, count: u64) {
    if count > 0 {
        figures.failed = figures.failed.saturating_add(count);
        figures.failures.insert(kind.to_owned(), count);
    }
}
