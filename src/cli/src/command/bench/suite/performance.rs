//! `performance`: one page about the results of suites. The same results give the same bytes.

use std::{
    cmp::Ordering,
    path::{Path, PathBuf},
    process::ExitCode,
};

use clap::Args;
use workerapp_bench::{
    comparison::Comparison,
    import,
    reports::{autocannon, markdown, ratios, table, wrk},
    results::{Results, Run},
};

use super::{
    claims,
    file::{self, Layout, Suite},
};
use crate::{command::bench::write, error::Error, output};

/// The page.
#[derive(Args)]
pub(crate) struct Performance {
    /// A suite and the results of it: SUITE.yaml=RESULTS.json
    #[arg(value_name = "SUITE=RESULTS", required = true, value_parser = pair)]
    pairs: Vec<(PathBuf, PathBuf)>,
    /// Write a plot of each suite as SVG into this folder, and show it in the page; as the page is to find it
    #[arg(long, value_name = "FOLDER")]
    plots: Option<PathBuf>,
}

fn pair(text: &str) -> Result<(PathBuf, PathBuf), String> {
    let (suite, results) = text.split_once('=').ok_or("it has no =; example: suite.yaml=results.json")?;
    Ok((suite.into(), results.into()))
}

/// What ratios are shown of, first the one that is plotted.
const RATIOS: [&str; 3] = ["requests/s", "mean ms", "p99 ms"];

impl Performance {
    /// Writes it to stdout.
    pub(crate) fn run(&self) -> Result<ExitCode, Error> {
        let mut page = "# Performance\n\n\
            Written by `kubectl workerapp bench performance` from the results of [the suites](config/suites); changes made by hand are lost. \
            `make compare SUITE=all` measures them anew.\n\n\
            Figures of different machines can't be compared; ratios within one run can. So each suite has ratios to its first app, \
            from pairs of runs of the same round, with an interval of 95 %, and beside them the ratios that others published. How figures \
            come about, and what makes a run invalid: [docs/benchmarking.md](docs/benchmarking.md).\n"
            .to_owned();
        for (suite, results) in &self.pairs {
            let (suite, _) = file::read(suite, &[])?;
            let results = read(results)?;
            let plot = self.plot(&suite, &results)?;
            page += &section(&suite, &results, plot.as_deref());
        }
        output::print(&page)?;
        Ok(ExitCode::SUCCESS)
    }

    /// Writes the plot and answers where.
    fn plot(&self, suite: &Suite, results: &Results) -> Result<Option<PathBuf>, Error> {
        let Some(folder) = &self.plots else { return Ok(None) };
        let Some(svg) = ratios::svg(results, RATIOS[0]) else { return Ok(None) };
        let path = folder.join(format!("{}.svg", suite.name));
        std::fs::create_dir_all(folder)
            .map_err(|source| Error::WriteFile { place: folder.clone(), source })?;
        write::write(&path, &svg)?;
        Ok(Some(path))
    }
}

fn read(path: &Path) -> Result<Results, Error> {
    let text =
        std::fs::read_to_string(path).map_err(|source| Error::Read { place: path.to_owned(), source })?;
    import::document(&text)
        .map_err(|error| Error::NoResults { place: path.to_owned(), why: error.to_string() })
}

fn section(suite: &Suite, results: &Results, plot: Option<&Path>) -> String {
    let mut parts = vec![format!("\n## {}", suite.title), suite.about.trim().to_owned()];
    parts.extend(variants(&results.provenance.command_line).into_iter().map(|name| {
        let about = suite.variants.get(name).map_or("", |variant| variant.about.trim());
        format!("Measured as its variant `{name}`. {about}").trim_end().to_owned()
    }));
    parts.extend(plot.map(|plot| format!("![requests a second as ratios]({})", plot.display())));
    parts.extend(["### Ratios".to_owned(), markdown_table(&ratio_rows(results))]);
    parts.extend(published(suite, results));
    if !suite.remarks.is_empty() {
        parts.extend(["### Remarks".to_owned(), list(suite.remarks.iter().map(String::as_str))]);
    }
    parts.extend([
        "### What was used, and what was left idle".to_owned(),
        markdown_table(&idle_rows(results)),
    ]);
    parts.push(folded("All figures, and how they were measured", &all_figures(results)));
    let (name, layout): (_, fn(&Run) -> String) = match suite.layout {
        Layout::Autocannon => ("autocannon", autocannon::text),
        Layout::Wrk => ("wrk", wrk::text),
    };
    let head = format!("The runs in the middle, as {name} prints them");
    parts.push(folded(&head, &format!("```\n{}\n```", middles(results, layout))));
    parts.join("\n\n") + "\n"
}

/// The variants that a command line names: what was measured isn't what the suite's own text says then.
fn variants(command_line: &[String]) -> Vec<&str> {
    let mut names = Vec::new();
    let mut words = command_line.iter();
    while let Some(word) = words.next() {
        if word == "--variant" {
            names.extend(words.next().map(String::as_str));
        } else {
            names.extend(word.strip_prefix("--variant="));
        }
    }
    names
}

fn markdown_table(rows: &[Vec<String>]) -> String {
    table::markdown(rows).trim_end().to_owned()
}

fn list<'a>(lines: impl Iterator<Item = &'a str>) -> String {
    lines.map(|line| format!("- {}", line.trim())).collect::<Vec<_>>().join("\n")
}

fn folded(head: &str, text: &str) -> String {
    format!("<details><summary>{head}</summary>\n\n{text}\n\n</details>")
}

/// What others published, as paragraphs: ratios beside ours, and what can't be compared in words.
fn published(suite: &Suite, results: &Results) -> Vec<String> {
    if suite.published.is_empty() {
        return Vec::new();
    }
    let mut parts = vec!["### What was published".to_owned()];
    let rows = claims::rows(suite, results);
    if rows.len() > 1 {
        parts.push(markdown_table(&rows));
    }
    let words = suite.published.iter().filter(|claim| claim.ratio.is_none()).map(|claim| claim.says.as_str());
    parts.extend(Some(list(words)).filter(|list| !list.is_empty()));
    let mut sources: Vec<_> = suite.published.iter().map(|claim| claim.source.as_str()).collect();
    sources.dedup();
    parts.push(format!("Published at: {}.", sources.join(", ")));
    parts
}

/// The report of the results, as a part of the page: what follows its title stands two steps lower.
fn all_figures(results: &Results) -> String {
    let text = markdown::text(results, "");
    let lower = |line: &str| if line.starts_with("##") { format!("##{line}") } else { line.to_owned() };
    text.lines().skip(2).map(lower).collect::<Vec<_>>().join("\n")
}

/// For each row and target the run in the middle.
fn middles(results: &Results, layout: fn(&Run) -> String) -> String {
    let blocks = results.rows().into_iter().flat_map(|row| {
        results.targets.iter().filter_map(move |target| {
            let run = middle(results, row, target)?;
            Some(format!("{target}, {row}, round {}\n{}\n", run.round, layout(run).trim_end()))
        })
    });
    blocks.collect::<Vec<_>>().join("\n")
}

/// Ratios of each target and row to the first target.
fn ratio_rows(results: &Results) -> Vec<Vec<String>> {
    let base = results.targets.first().map(String::as_str).unwrap_or_default();
    let mut head = vec![format!("against {base}")];
    head.extend(RATIOS.map(str::to_owned));
    head.push("valid pairs".to_owned());
    let mut rows = vec![head];
    for row in results.rows() {
        for target in results.targets.iter().skip(1) {
            let of = |metric: &str| {
                let here =
                    |one: &&Comparison| one.row == row && one.target == *target && one.metric == metric;
                results.comparisons.iter().find(here)
            };
            let cell = |metric: &str| {
                of(metric).map_or("–".to_owned(), |one| {
                    let ratio = &one.ratio;
                    format!(
                        "{:.2} ({:.2} to {:.2}) {}",
                        ratio.ratio,
                        ratio.low,
                        ratio.high,
                        one.finding.sign()
                    )
                })
            };
            // A target that isn't asked for this has no row.
            if results.runs_of(row, target).next().is_none() {
                continue;
            }
            let mut cells = vec![format!("{target}, {row}")];
            cells.extend(RATIOS.map(cell));
            cells.push(of(RATIOS[0]).map_or("0".to_owned(), |one| one.ratio.pairs.to_string()));
            rows.push(cells);
        }
    }
    rows
}

/// What each server used and left, and what held it back.
fn idle_rows(results: &Results) -> Vec<Vec<String>> {
    let head = ["", "requests/s", "CPUs used", "of its limit %", "throttled %", "machine idle %"];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    let number = |value: Option<f64>| value.map_or("–".to_owned(), |value| format!("{value:.1}"));
    for row in results.rows() {
        for target in &results.targets {
            if results.runs_of(row, target).next().is_none() {
                continue;
            }
            let of = |figure: fn(&Run) -> Option<f64>| results.median(row, target, figure);
            let used_part = |run: &Run| {
                let cpu = run.observations.cpu?;
                Some(100.0 * cpu.used_cores / cpu.available_cores?)
            };
            rows.push(vec![
                format!("{target}, {row}"),
                of(|run| Some(run.figures.requests_per_second))
                    .map_or("–".to_owned(), |rate| format!("{rate:.0}")),
                of(|run| Some(run.observations.cpu?.used_cores))
                    .map_or("–".to_owned(), |used| format!("{used:.2}")),
                number(of(used_part)),
                number(of(|run| run.observations.cpu?.throttled_percent)),
                number(of(|run| run.observations.cpu?.idle_percent)),
            ]);
        }
    }
    rows
}

/// The run whose throughput is in the middle: of the valid ones if there are any.
fn middle<'a>(results: &'a Results, row: &'a str, target: &'a str) -> Option<&'a Run> {
    let mut runs = results.counted(row, target);
    let rate = |run: &Run| run.figures.requests_per_second;
    runs.sort_by(|one, other| rate(one).partial_cmp(&rate(other)).unwrap_or(Ordering::Equal));
    runs.get(runs.len() / 2).copied()
}

#[cfg(test)]
mod tests {
    use super::variants;

    #[test]
    fn the_page_names_the_variants_that_were_measured() {
        let line = "bench --suite next.yaml --variant small --rounds 3 --variant=published-probes".split(' ');
        let line: Vec<_> = line.map(str::to_owned).collect();
        assert_eq!(variants(&line), ["small", "published-probes"]);
        assert!(variants(&line[..3]).is_empty());
    }
}
