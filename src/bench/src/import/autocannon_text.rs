//! The tables that autocannon prints, with any number of runs in one text.

use super::Error;
use super::fields::whole;
use super::lines::{Line, lines, number, with_unit};
use crate::results::{Figures, Generator, Latency, Mode, Quantile, Run, Spread, WarmUp};

const FORMAT: &str = "autocannon text";
const BYTES: [(&str, f64); 7] =
    [("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3), ("B", 1.0), ("k", 1e3), ("", 1.0)];
const MS: [(&str, f64); 2] = [("ms", 1.0), ("", 1.0)];
/// `133k`, `212`.
const COUNT: [(&str, f64); 3] = [("M", 1e6), ("k", 1e3), ("", 1.0)];

pub(super) fn is_it(text: &str) -> bool {
    text.contains("Req/Bytes counts sampled") || (text.contains("Running ") && text.contains("Stat"))
}

/// A run that isn't complete yet.
#[derive(Debug, Default)]
struct Reader {
    /// The line before a run that ends with a colon.
    title: String,
    warm_up: Option<WarmUp>,
    /// After `Running … warmup`, until the line with its connections.
    in_warm_up: bool,
    /// Columns of the table that comes.
    head: Vec<String>,
    run: Option<Run>,
    runs: Vec<Run>,
}

pub(super) fn read(text: &str) -> Result<Vec<Run>, Error> {
    let mut reader = Reader::default();
    for line in lines(FORMAT, text) {
        reader.line(&line)?;
    }
    reader.end();
    Ok(reader.runs)
}

impl Reader {
    fn line(&mut self, line: &Line) -> Result<(), Error> {
        let text = line.text.trim();
        if let Some(rest) = text.strip_prefix("Running ") {
            return self.running(line, rest);
        }
        if let Some(before) = text.strip_suffix("connections").or_else(|| text.strip_suffix("connection")) {
            self.connections(before);
        } else if text.starts_with('│') {
            let cells: Vec<String> =
                text.trim_matches('│').split('│').map(|cell| cell.trim().to_owned()).collect();
            return self.row(line, cells);
        } else if let Some(samples) = text.strip_prefix("# of samples:") {
            let samples = number(samples).ok_or_else(|| line.wrong("the number of samples is none"))?;
            self.samples(whole(samples));
        } else if let Some((sent, rest)) = text.split_once(" requests in ") {
            return self.total(line, sent, rest);
        } else if let Some((errors, rest)) = text.split_once(" errors (") {
            let timeouts = rest.split(' ').next().unwrap_or_default();
            let both = with_unit(errors, &COUNT).zip(with_unit(timeouts, &COUNT));
            let (errors, timeouts) = both.ok_or_else(|| line.wrong("the numbers of errors are none"))?;
            self.failed("timeout", timeouts);
            self.failed("error", (errors - timeouts).max(0.0));
        } else if let Some((good, rest)) = text.split_once(" 2xx responses, ") {
            let bad = rest.split(' ').next().unwrap_or_default();
            let both = number(good).zip(number(bad));
            let (good, bad) = both.ok_or_else(|| line.wrong("the numbers of responses are none"))?;
            self.failed("not 2xx", bad);
            if let Some(run) = &mut self.run {
                run.figures.answered = whole(good);
            }
        } else if let Some(title) =
            text.strip_suffix(':').filter(|_| self.run.is_none() || self.is_complete())
        {
            self.end();
            title.clone_into(&mut self.title);
        }
        Ok(())
    }

    /// `40s test @ http://…`, or `warmup` instead of `test`.
    fn running(&mut self, line: &Line, rest: &str) -> Result<(), Error> {
        self.end();
        let (what, url) = rest.split_once(" @ ").ok_or_else(|| line.wrong("it names no URL after @"))?;
        let (length, kind) = what.split_once(' ').ok_or_else(|| line.wrong("it names no duration"))?;
        self.in_warm_up = kind == "warmup";
        if self.in_warm_up {
            let seconds = length.strip_suffix('s').and_then(number);
            let seconds = seconds.ok_or_else(|| line.wrong("its duration is not a number of seconds"))?;
            self.warm_up = Some(WarmUp { seconds, answered: None });
            return Ok(());
        }
        self.run = Some(self.begin(url.trim()));
        Ok(())
    }

    fn begin(&mut self, url: &str) -> Run {
        let warm_up = self.warm_up.take();
        let figures = Figures { generator: Generator::Autocannon, warm_up, ..Figures::default() };
        Run { target: self.title.clone(), url: url.to_owned(), mode: Mode::Closed, figures, ..Run::default() }
    }

    /// What stands before the word. A warm-up whose arguments were quoted as one has no number there, opens no connection, and
    /// sends nothing.
    fn connections(&mut self, before: &str) {
        let count = number(before).map(whole);
        if self.in_warm_up {
            self.in_warm_up = false;
            if count.is_none_or(|count| count == 0) {
                self.warm_up = self.warm_up.map(|warm_up| WarmUp { answered: Some(0), ..warm_up });
            }
        } else if let Some(run) = &mut self.run {
            run.connections = count;
        }
    }

    fn row(&mut self, line: &Line, cells: Vec<String>) -> Result<(), Error> {
        let Some(name) = cells.first() else { return Ok(()) };
        if name == "Stat" {
            self.head = cells;
            return Ok(());
        }
        let units: &[(&str, f64)] = match name.as_str() {
            "Latency" => &MS,
            "Req/Sec" => &COUNT,
            "Bytes/Sec" => &BYTES,
            _ => return Ok(()),
        };
        let at = |column: &str| -> Result<f64, Error> {
            let place = self.head.iter().position(|head| head == column);
            let cell = place.and_then(|place| cells.get(place));
            let cell = cell.ok_or_else(|| line.wrong("the table lacks one of its columns"))?;
            with_unit(cell, units).ok_or_else(|| line.wrong("a cell has no number"))
        };
        if name == "Latency" {
            // `--no-progress` leaves out the line that begins a run.
            let missing = self.run.is_none() || self.is_complete();
            let mut quantiles = Vec::new();
            for (column, percent) in [("2.5%", 2.5), ("50%", 50.0), ("97.5%", 97.5), ("99%", 99.0)] {
                quantiles.push(Quantile { percent, ms: at(column)? });
            }
            let latency = Latency {
                mean_ms: at("Avg")?,
                stddev_ms: Some(at("Stdev")?),
                max_ms: Some(at("Max")?),
                quantiles,
                ..Latency::default()
            };
            if missing {
                self.end();
                self.run = Some(self.begin(""));
            }
            self.figures(line)?.latency = Some(latency);
            return Ok(());
        }
        let spread = Spread {
            samples: 0,
            p1: at("1%")?,
            p2_5: at("2.5%")?,
            p50: at("50%")?,
            p97_5: at("97.5%")?,
            mean: at("Avg")?,
            stddev: at("Stdev")?,
            min: at("Min")?,
            // The table has none; no second had less than this.
            max: at("97.5%")?,
            within_stddev_percent: None,
        };
        let requests = name == "Req/Sec";
        let figures = self.figures(line)?;
        if requests {
            figures.requests_per_second = spread.mean;
            figures.requests_each_second = Some(spread);
        } else {
            figures.bytes_each_second = Some(spread);
        }
        Ok(())
    }

    fn figures(&mut self, line: &Line) -> Result<&mut Figures, Error> {
        match &mut self.run {
            Some(run) => Ok(&mut run.figures),
            None => Err(line.wrong("there is no table of latencies before it")),
        }
    }

    fn samples(&mut self, samples: u64) {
        if let Some(run) = &mut self.run {
            let figures = &mut run.figures;
            for spread in
                [&mut figures.requests_each_second, &mut figures.bytes_each_second].into_iter().flatten()
            {
                spread.samples = samples;
            }
            // More exact than the line with the total, which is rounded to thousands.
            figures.answered = whole(figures.requests_per_second * crate::report::as_f64(samples));
        }
    }

    /// `133k requests in 40.03s, 1.75 GB read`
    fn total(&mut self, line: &Line, sent: &str, rest: &str) -> Result<(), Error> {
        let sent = with_unit(sent, &COUNT).ok_or_else(|| line.wrong("the number of requests is none"))?;
        let (seconds, read) =
            rest.split_once(", ").ok_or_else(|| line.wrong("it doesn't say how much was read"))?;
        let seconds = seconds.strip_suffix('s').and_then(number).filter(|seconds| *seconds > 0.0);
        let seconds = seconds.ok_or_else(|| line.wrong("the duration is not a number of seconds above 0"))?;
        let bytes = read.strip_suffix(" read").and_then(|text| with_unit(text, &BYTES));
        let bytes = bytes.ok_or_else(|| line.wrong("what was read is no size"))?;
        let figures = self.figures(line)?;
        figures.elapsed_seconds = seconds;
        figures.bytes_received = Some(whole(bytes));
        if figures.answered == 0 {
            figures.answered = whole(sent);
        }
        Ok(())
    }

    fn failed(&mut self, kind: &str, count: f64) {
        if let Some(run) = self.run.as_mut().filter(|_| count >= 1.0) {
            run.figures.failed = run.figures.failed.saturating_add(whole(count));
            run.figures.failures.insert(kind.to_owned(), whole(count));
        }
    }

    /// The line with the total has come.
    fn is_complete(&self) -> bool {
        self.run
            .as_ref()
            .is_some_and(|run| run.figures.elapsed_seconds > 0.0 && run.figures.latency.is_some())
    }

    /// Takes the run if it is complete: what a break left behind is none.
    fn end(&mut self) {
        let complete = self.is_complete();
        if let Some(mut run) = self.run.take().filter(|_| complete) {
            let figures = &mut run.figures;
            if figures.failures.contains_key("not 2xx") {
                figures.requests_per_second =
                    crate::report::as_f64(figures.answered) / figures.elapsed_seconds;
            }
            self.runs.push(run);
        }
    }
}
