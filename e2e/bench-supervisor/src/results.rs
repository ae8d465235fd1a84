//! What was found: the table, the ratios, the JSON.

use crate::arguments::Effort;
use crate::contender::{Contender, Setup, WORKERS};
use crate::footprint::Footprint;
use crate::loss::{Disturbance, Loss, Omission};
use crate::measure::{Case, Sample};
use anyhow::{Context, Result};
use serde::Serialize;
use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;
use workerapp_bench::reports::table::aligned;
use workerapp_bench::results::load_averages;
use workerapp_bench::row;
use workerapp_bench::statistics::{Goal, Ratio, median, paired_ratio};

/// Everything that goes into the JSON.
#[derive(Debug, Serialize)]
pub(crate) struct Results {
    pub(crate) seed: u64,
    node: String,
    cpus: usize,
    iterations_per_ms: u64,
    load_average_before: String,
    load_average_after: String,
    took_seconds: f64,
    effort: Effort,
    /// Whether each was measured in a cgroup of its own, as a container is.
    pub(crate) cgroups: bool,
    pub(crate) samples: Vec<Sample>,
    pub(crate) losses: Vec<Loss>,
    pub(crate) omissions: Vec<Omission>,
    pub(crate) footprint: Option<Footprint>,
    ratios: Vec<Compared>,
}

/// A line `ratio …`.
#[derive(Debug, Clone, Serialize)]
struct Compared {
    what: String,
    case: String,
    /// Whom we are compared with.
    with: &'static str,
    #[serde(flatten)]
    ratio: Ratio,
    goal: Option<Goal>,
}

impl Results {
    pub(crate) fn new(seed: u64, setup: &Setup, effort: &Effort) -> Self {
        let version = Command::new(&setup.node).arg("--version").output();
        let version = version.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
        Self {
            seed,
            node: version.unwrap_or_default(),
            cpus: std::thread::available_parallelism().map_or(0, usize::from),
            iterations_per_ms: setup.iterations_per_ms,
            load_average_before: load_averages().unwrap_or_default(),
            load_average_after: String::new(),
            took_seconds: 0.0,
            effort: effort.clone(),
            cgroups: false,
            samples: Vec::new(),
            losses: Vec::new(),
            omissions: Vec::new(),
            footprint: None,
            ratios: Vec::new(),
        }
    }

    /// A figure of every round, in their order.
    fn figures(&self, contender: Contender, case: Case, figure: fn(&Sample) -> f64) -> Vec<f64> {
        self.samples.iter().filter(|s| s.contender == contender && s.case == case).map(figure).collect()
    }

    pub(crate) fn median(&self, contender: Contender, case: Case, figure: fn(&Sample) -> f64) -> Option<f64> {
        median(&self.figures(contender, case, figure))
    }

    /// In the order in which they were first measured.
    fn cases(&self) -> Vec<Case> {
        let mut cases: Vec<Case> = self.samples.iter().map(|sample| sample.case).collect();
        cases.sort_by_key(|case| (case.load_percent, case.handler_ms, !case.keep_alive));
        cases.dedup();
        cases
    }

    pub(crate) fn summary(&mut self) -> String {
        let mut text = String::new();
        for case in self.cases() {
            text.push_str(&self.case_table(case));
        }
        text.push_str(&self.loss_table());
        text.push_str(&self.footprint_table());
        self.ratios = self.cases().into_iter().flat_map(|case| self.compare(case)).collect();
        for compared in &self.ratios {
            let Compared { what, case, with, ratio, goal } = compared;
            let goal = goal.map_or(String::new(), |goal| format!("  {}", goal.verdict(ratio)));
            // A String takes everything.
            let _ = writeln!(text, "ratio {what}/{with} [{case}]: {ratio}{goal}");
        }
        text
    }

    fn case_table(&self, case: Case) -> String {
        let mut rows = vec![row![
            case.name(),
            "req/s",
            "min",
            "max",
            "p50 ms",
            "p99 ms",
            "CPU µs/req",
            "CPUs",
            "busiest/mean",
            "failed",
            "late %",
            "other CPUs"
        ]];
        for contender in Contender::ALL {
            let figures = |figure| self.figures(contender, case, figure);
            let middle = |figure| median(&figures(figure)).unwrap_or(f64::NAN);
            let rates = figures(|s| s.requests_per_second);
            if rates.is_empty() {
                continue;
            }
            let failed: u64 = self
                .samples
                .iter()
                .filter(|s| s.contender == contender && s.case == case)
                .map(|s| s.failed)
                .sum();
            rows.push(row![
                contender.name(),
                format!("{:.0}", middle(|s| s.requests_per_second)),
                format!("{:.0}", rates.iter().copied().fold(f64::INFINITY, f64::min)),
                format!("{:.0}", rates.iter().copied().fold(0.0, f64::max)),
                format!("{:.2}", middle(|s| s.p50_ms)),
                format!("{:.2}", middle(|s| s.p99_ms)),
                format!("{:.1}", middle(|s| s.cpu_us_per_request)),
                format!("{:.2}", middle(|s| s.server_cpus)),
                format!("{:.2}", middle(|s| s.busiest_over_mean)),
                failed,
                format!("{:.2}", 100.0 * middle(|s| s.late)),
                format!("{:.2}", middle(|s| s.other_cpus)),
            ]);
        }
        format!("{}\n", aligned(&rows))
    }

    fn loss_table(&self) -> String {
        let tables = Disturbance::ALL.map(|disturbance| {
            let mut rows: Vec<_> =
                self.losses.iter().filter(|loss| loss.disturbance == disturbance).map(Loss::row).collect();
            let omissions = self.omissions.iter().filter(|omission| omission.disturbance == disturbance);
            rows.extend(omissions.map(Omission::row));
            rows.sort();
            let times =
                self.losses.iter().find(|loss| loss.disturbance == disturbance).map(|loss| loss.times);
            let head = times.map(|times| Loss::head(&format!("{times} times {}", disturbance.name())));
            head.map_or(String::new(), |head| format!("{}\n", aligned(&[vec![head], rows].concat())))
        });
        tables.concat()
    }

    fn footprint_table(&self) -> String {
        let Some(footprint) = &self.footprint else { return String::new() };
        let goal = |met| if met { "met" } else { "missed" };
        let added = footprint.added_ms();
        let alone = median(&footprint.alone_ms).unwrap_or(f64::NAN);
        let rows = [
            row!["the supervisor itself", "figure", "goal", ""],
            row!["RSS, MiB", format!("{:.2}", footprint.rss_mib), "<= 4", goal(footprint.rss_mib <= 4.0)],
            row![
                "wake-ups per second, idle",
                format!("{:.2}", footprint.wakeups_per_second),
                "<= 1",
                goal(footprint.wakeups_per_second <= 1.0)
            ],
            row![
                format!("added to the {alone:.0} ms until node listens, ms"),
                format!("{added:.1}"),
                "<= 5",
                goal(added <= 5.0)
            ],
            row![
                "program, MiB",
                format!("{:.2}", footprint.binary_mib),
                "<= 2",
                goal(footprint.binary_mib <= 2.0)
            ],
        ];
        format!("{}\n", aligned(&rows))
    }

    /// Us against each peer, against the best of them, and against so many single processes.
    fn compare(&self, case: Case) -> Vec<Compared> {
        let rate: fn(&Sample) -> f64 = |s| s.requests_per_second;
        let p99: fn(&Sample) -> f64 = |s| s.p99_ms;
        let cpu: fn(&Sample) -> f64 = |s| s.cpu_us_per_request;
        let best = |figure, better: fn(&f64, &f64) -> bool| {
            let known = Contender::PEERS.into_iter().filter_map(|c| Some((c, self.median(c, case, figure)?)));
            known.reduce(|a, b| if better(&b.1, &a.1) { b } else { a }).map(|(contender, _)| contender)
        };
        let compared = |what: &str, with, figure, peer: Option<Contender>, times: f64, goal| {
            let theirs: Vec<f64> =
                self.figures(peer?, case, figure).iter().map(|value| value * times).collect();
            let ratio = paired_ratio(&self.figures(Contender::Ours, case, figure), &theirs, self.seed)?;
            Some(Compared { what: what.to_owned(), case: case.name(), with, ratio, goal })
        };
        let lines = if case.load_percent.is_some() {
            vec![compared("p99", "best-peer", p99, best(p99, |a, b| a < b), 1.0, Some(Goal::AtMost(1.0)))]
        } else {
            let cheap = !case.keep_alive && case.handler_ms == 0;
            let mut lines = vec![compared(
                "throughput",
                "best-peer",
                rate,
                best(rate, |a, b| a > b),
                1.0,
                Some(Goal::AtLeast(1.0)),
            )];
            for peer in Contender::PEERS {
                let goal = (cheap && peer != Contender::Watt).then_some(Goal::AtLeast(1.8));
                lines.push(compared("throughput", peer.name(), rate, Some(peer), 1.0, goal));
            }
            let workers = f64::from(u32::try_from(WORKERS).unwrap_or(1));
            // With a trivial handler the generator needs as much of the two CPUs as the app.
            let goal = (case.handler_ms > 0).then_some(Goal::AtLeast(0.97));
            lines.push(compared(
                "throughput",
                "2 × node alone",
                rate,
                Some(Contender::Single),
                workers,
                goal,
            ));
            lines.push(compared("CPU per request", "best-peer", cpu, best(cpu, |a, b| a < b), 1.0, None));
            lines
        };
        lines.into_iter().flatten().collect()
    }

    pub(crate) fn finish(&mut self, took: Duration) -> Result<()> {
        self.took_seconds = took.as_secs_f64();
        self.load_average_after = load_averages()?;
        Ok(())
    }

    pub(crate) fn write(&self, path: &Path) -> Result<()> {
        let text = serde_json::to_string_pretty(self)?;
        fs::write(path, text).with_context(|| format!("can't write {}", path.display()))
    }
}
