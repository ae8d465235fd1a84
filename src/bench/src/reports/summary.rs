//! What every format for people says: the same tables, as cells. The first row of each is its head.

use super::numbers::{counted, grouped, or_dash, short, trimmed};
use crate::comparison::{FEWEST_PAIRS, METRICS};
use crate::gates::Outcome;
use crate::plan::Protocol;
use crate::report::as_f64;
use crate::results::{Generator, Mode, Results, Run};

/// Beside the table of comparisons.
pub(super) const HOW_TO_READ: &str = "Each target against the first one, in pairs of runs of the same round. The interval holds the true ratio with a \
     confidence of 95 %. + is better, - is worse, ~ means that nothing can be told; then the last column says how large a difference would have been seen in \
     four of five tries.";

fn texts<const N: usize>(cells: [&str; N]) -> Vec<String> {
    cells.map(str::to_owned).to_vec()
}

/// A line: when, where, how often.
pub(super) fn when_and_where(results: &Results) -> String {
    let provenance = &results.provenance;
    let mut parts = Vec::new();
    if !provenance.started.is_empty() {
        parts.push(provenance.started.clone());
    }
    if let Some(machine) = &provenance.machine {
        parts.push(format!("load from {} of {}", counted(machine.cpus, "CPU"), machine.cpu));
    }
    if let Some(seed) = provenance.seed {
        parts.push(format!("seed {seed}"));
    }
    let rounds = results.runs.iter().map(|run| run.round).max().unwrap_or(0);
    parts.push(format!("{} in {}", counted(results.runs.len(), "run"), counted(rounds, "round")));
    parts.join(" · ")
}

/// What must be known before any figure is believed.
pub(super) fn warnings(results: &Results) -> Vec<String> {
    let mut lines = Vec::new();
    if results.provenance.interrupted {
        lines.push("Interrupted: not all runs were done, and the last one may be shorter.".to_owned());
    }
    let invalid = results.runs.iter().filter(|run| !run.is_valid()).count();
    if invalid > 0 {
        lines.push(format!(
            "{invalid} of {} invalid; comparisons leave such runs out, and the reasons are below.",
            counted(results.runs.len(), "run")
        ));
    }
    lines
}

/// A figure of the table, from one run: name and how it is taken and written.
struct Line {
    name: &'static str,
    figure: fn(&Run) -> Option<f64>,
    text: fn(f64) -> String,
}

const MORE: &[Line] = &[
    Line { name: "failed", figure: |run| Some(as_f64(run.figures.failed)), text: |value| grouped(value, 1) },
    Line {
        name: "sent once more",
        figure: |run| run.figures.resent.filter(|count| *count > 0).map(as_f64),
        text: |value| grouped(value, 1),
    },
    Line {
        name: "never sent",
        figure: |run| run.figures.dropped.map(as_f64),
        text: |value| grouped(value, 1),
    },
    Line {
        name: "generator, busiest thread %",
        figure: |run| Some(100.0 * run.figures.busiest_thread?),
        text: short,
    },
    Line { name: "server CPUs", figure: |run| Some(run.observations.cpu?.used_cores), text: short },
    Line { name: "server idle %", figure: |run| run.observations.cpu?.idle_percent, text: short },
    Line { name: "throttled %", figure: |run| run.observations.cpu?.throttled_percent, text: short },
    Line { name: "pods, busiest/mean", figure: |run| run.observations.pods_busiest_over_mean(), text: short },
    Line {
        name: "workers, busiest/mean",
        figure: |run| run.observations.workers_busiest_over_mean(),
        text: short,
    },
];

/// Metrics down, targets across, medians of the valid runs. Lines that no target has are left out.
pub(super) fn figures(results: &Results, row: &str) -> Vec<Vec<String>> {
    let targets: Vec<&String> =
        results.targets.iter().filter(|target| results.runs_of(row, target).next().is_some()).collect();
    let mut head = vec!["median".to_owned()];
    head.extend(targets.iter().map(|target| (*target).clone()));
    let mut rows = vec![head];
    let mut add = |name: &str, figure: fn(&Run) -> Option<f64>, text: fn(f64) -> String| {
        let values: Vec<_> = targets.iter().map(|target| results.median(row, target, figure)).collect();
        if values.iter().any(Option::is_some) {
            let cells = values.into_iter().map(|value| or_dash(value, text));
            rows.push(std::iter::once(name.to_owned()).chain(cells).collect());
        }
    };
    for metric in METRICS {
        add(metric.name, metric.figure, short);
    }
    for line in MORE {
        add(line.name, line.figure, line.text);
    }
    let valid = targets.iter().map(|target| {
        let (valid, all) = results
            .runs_of(row, target)
            .fold((0, 0), |(valid, all), run| (valid + usize::from(run.is_valid()), all + 1));
        format!("{valid} of {all}")
    });
    rows.push(std::iter::once("valid runs".to_owned()).chain(valid).collect());
    let spoken = |target: &&String| results.runs_of(row, target).find_map(spoken).unwrap_or_default();
    let spoken: Vec<_> = targets.iter().map(spoken).collect();
    // What is usual needs no line.
    if spoken.iter().any(|one| !one.is_empty() && one != Protocol::Http1.name()) {
        rows.push(std::iter::once("spoken".to_owned()).chain(spoken).collect());
    }
    rows
}

/// A table for each row and target, with what stands above it.
pub(super) fn comparisons(results: &Results) -> Vec<(String, Vec<Vec<String>>)> {
    let mut tables: Vec<(String, Vec<Vec<String>>)> = Vec::new();
    for one in &results.comparisons {
        let mut caption =
            format!("{} against {}, {}: {}", one.target, one.base, one.row, counted(one.ratio.pairs, "pair"));
        if one.rounds_left_out > 0 {
            push!(caption, ", {} left out", one.rounds_left_out);
        }
        let ratio = &one.ratio;
        // So few runs span no interval that could be believed.
        let enough = ratio.pairs >= FEWEST_PAIRS;
        if !enough {
            push!(caption, "; too few to tell anything, which takes {FEWEST_PAIRS}");
        }
        let line = vec![
            one.metric.to_string(),
            format!("{:.3}", ratio.ratio),
            if enough { format!("{:.3} to {:.3}", ratio.low, ratio.high) } else { "–".to_owned() },
            one.finding.sign().to_owned(),
            or_dash(one.smallest_difference_percent, |percent| format!("{} %", short(percent))),
        ];
        if let Some((_, rows)) = tables.last_mut().filter(|(last, _)| *last == caption) {
            rows.push(line);
        } else {
            tables.push((
                caption,
                vec![texts(["metric", "ratio", "95 % interval", "", "would have seen"]), line],
            ));
        }
    }
    tables
}

/// What to know of runs that can be believed.
pub(super) fn notices(results: &Results) -> Vec<Vec<String>> {
    verdicts(results, "notice", |outcome| match outcome {
        Outcome::Notice(why) => Some(why),
        _ => None,
    })
}

/// Searches: what was kept until where, and what broke it.
pub(super) fn searches(results: &Results) -> Vec<Vec<String>> {
    let mut rows = vec![texts(["search", "promise", "kept until", "not at", "why"])];
    for run in &results.runs {
        let Some(search) = &run.search else { continue };
        let rate = |rate: f64| format!("{}/s", trimmed(rate, 0));
        let broken = search.lowest_broken();
        rows.push(vec![
            named(run),
            search.promise.clone(),
            or_dash(search.highest_per_second, rate),
            or_dash(broken.map(|step| step.per_second), rate),
            broken.and_then(|step| step.why.clone()).unwrap_or_default(),
        ]);
    }
    rows
}

fn named(run: &Run) -> String {
    format!("{}, {}, round {}", run.target, run.row, run.round)
}

/// Runs that a gate marked invalid, and why.
pub(super) fn invalid(results: &Results) -> Vec<Vec<String>> {
    verdicts(results, "why", |outcome| match outcome {
        Outcome::Invalid(why) => Some(why),
        _ => None,
    })
}

fn verdicts(results: &Results, head: &str, of: fn(&Outcome) -> Option<&String>) -> Vec<Vec<String>> {
    let mut rows = vec![texts(["run", "gate", head])];
    for run in &results.runs {
        let told = run.verdicts.iter().filter_map(|verdict| Some((verdict, of(&verdict.outcome)?)));
        rows.extend(told.map(|(verdict, why)| vec![named(run), verdict.gate.to_string(), why.clone()]));
    }
    rows
}

/// What was spoken, if that is known: `HTTP/2 over TLS, 10 streams on each connection`.
pub(super) fn spoken(run: &Run) -> Option<String> {
    let mut text = run.protocol?.name().to_owned();
    if run.tls {
        text.push_str(" over TLS");
    }
    if let Some(streams) = run.streams.filter(|streams| *streams > 1) {
        push!(text, ", {streams} streams on each connection");
    }
    Some(text)
}

/// How a run's load was made.
pub(super) fn load(run: &Run) -> String {
    spoken(run).map_or_else(|| mode(run), |spoken| format!("{}, {spoken}", mode(run)))
}

fn mode(run: &Run) -> String {
    let spaced =
        |seed: Option<u64>| seed.map_or("evenly spaced".to_owned(), |seed| format!("at random, seed {seed}"));
    match run.mode {
        Mode::Unknown => "not known".to_owned(),
        Mode::Closed => "closed loop".to_owned(),
        Mode::Open { per_second, seed } => {
            format!("open loop, {} requests/s, {}", trimmed(per_second, 2), spaced(seed))
        }
        Mode::Ramp { from, to, seed } => {
            format!("open loop, {} to {} requests/s, {}", trimmed(from, 2), trimmed(to, 2), spaced(seed))
        }
    }
}

/// Name and value of everything that it takes to do it again.
pub(super) fn provenance(results: &Results) -> Vec<Vec<String>> {
    let provenance = &results.provenance;
    let mut rows = vec![texts(["", ""])];
    let mut add = |name: &str, value: String| {
        if !value.trim().is_empty() {
            rows.push(vec![name.to_owned(), value]);
        }
    };
    add("program", format!("{} {}", provenance.program, provenance.version));
    add("command line", provenance.command_line.join(" "));
    add("seed", provenance.seed.map(|seed| seed.to_string()).unwrap_or_default());
    add("began", provenance.started.clone());
    add("ended", provenance.finished.clone());
    if let Some(machine) = &provenance.machine {
        add("machine", format!("{} × {}", machine.cpus, machine.cpu));
        add("memory", format!("{:.1} GiB", as_f64(machine.memory_bytes >> 20) / 1024.0));
        add("kernel", machine.kernel.clone());
        add("load average before", machine.load_average.map(|load| trimmed(load, 2)).unwrap_or_default());
    }
    for (name, version) in &provenance.versions {
        add(name, version.clone());
    }
    add("read from", provenance.sources.join(", "));
    let mut loads: Vec<String> = Vec::new();
    for run in &results.runs {
        let line = format!(
            "{}: {}, {} for {} s",
            run.row,
            run.figures.generator.name(),
            load(run),
            trimmed(run.figures.elapsed_seconds, 0)
        );
        if !loads.contains(&line) {
            loads.push(line);
        }
    }
    for line in loads {
        add("load", line);
    }
    if results.runs.iter().any(|run| run.figures.generator == Generator::Autocannon) {
        add("note", "autocannon rounds latencies down to whole milliseconds".to_owned());
    }
    rows
}
