//! What was found: the tables, the ratios, the JSON.

use std::{collections::BTreeMap, fmt::Write as _, fs, path::Path, time::Duration};

use anyhow::{Context as _, Result};
use serde::Serialize;
use workerapp_bench::{
    reports::table::aligned,
    results::load_averages,
    row,
    statistics::{Goal, Ratio, median, paired_ratio},
};

use crate::{
    arguments::Effort,
    calm::Calm,
    edits::Edits,
    settle::{Round, count},
};

/// The size at which the operator is compared with the loop.
const COMPARED: usize = 1000;

/// Everything that goes into the JSON.
#[derive(Debug, Serialize)]
pub(crate) struct Results {
    cpus: usize,
    load_average_before: String,
    load_average_after: String,
    took_seconds: f64,
    effort: Effort,
    pub(crate) rounds: Vec<Round>,
    pub(crate) calm: Option<Calm>,
    pub(crate) edits: Vec<Edits>,
    ratios: Vec<Compared>,
    goals: Vec<Bound>,
}

/// A line `ratio …`.
#[derive(Debug, Clone, Serialize)]
struct Compared {
    what: String,
    #[serde(flatten)]
    ratio: Ratio,
    at_least: Option<f64>,
}

/// A figure that is to stay within a bound.
#[derive(Debug, Clone, Serialize)]
struct Bound {
    what: String,
    figure: f64,
    at_most: f64,
}

impl Compared {
    fn line(&self) -> String {
        let goal = self.at_least.map(|goal| format!("  {}", Goal::AtLeast(goal).verdict(&self.ratio)));
        format!("ratio {}: {}{}\n", self.what, self.ratio, goal.unwrap_or_default())
    }
}

impl Results {
    pub(crate) fn new(effort: &Effort) -> Self {
        Self {
            cpus: std::thread::available_parallelism().map_or(0, usize::from),
            load_average_before: load_averages().unwrap_or_default(),
            load_average_after: String::new(),
            took_seconds: 0.0,
            effort: effort.clone(),
            rounds: Vec::new(),
            calm: None,
            edits: Vec::new(),
            ratios: Vec::new(),
            goals: Vec::new(),
        }
    }

    pub(crate) fn summary(&mut self) -> String {
        self.ratios = self.compare();
        self.goals = self.bounds();
        let mut text = self.settle_table() + &self.writes_table() + &self.edits_table();
        if !self.goals.is_empty() {
            let mut rows = vec![row!["bound", "figure", "goal", ""]];
            rows.extend(self.goals.iter().map(|goal| {
                let verdict = if goal.figure <= goal.at_most { "met" } else { "missed" };
                row![goal.what, format!("{:.2}", goal.figure), format!("<= {}", goal.at_most), verdict]
            }));
            let _ = writeln!(text, "{}", aligned(&rows));
        }
        self.ratios.iter().for_each(|compared| text.push_str(&compared.line()));
        text
    }

    fn sizes(&self) -> Vec<usize> {
        let mut sizes: Vec<_> = self.rounds.iter().map(|round| round.apps).collect();
        sizes.sort_unstable();
        sizes.dedup();
        sizes
    }

    fn figures(&self, apps: usize, figure: impl Fn(&Round) -> f64) -> Vec<f64> {
        self.rounds.iter().filter(|round| round.apps == apps).map(figure).collect()
    }

    fn middle(&self, apps: usize, figure: impl Fn(&Round) -> f64) -> f64 {
        median(&self.figures(apps, figure)).unwrap_or(f64::NAN)
    }

    fn settle_table(&self) -> String {
        if self.rounds.is_empty() {
            return String::new();
        }
        let mut rows = vec![row![
            "apps",
            "rounds",
            "operator s",
            "loop s",
            "apps/s",
            "loop apps/s",
            "loop writes/s",
            "ready ms",
            "CPU ms/app",
            "RSS MiB",
            "peak MiB"
        ]];
        for apps in self.sizes() {
            let middle = |figure: fn(&Round) -> f64| self.middle(apps, figure);
            rows.push(row![
                apps,
                self.figures(apps, |_| 0.0).len(),
                format!("{:.2}", middle(|round| round.operator.as_secs_f64())),
                format!("{:.2}", middle(|round| round.bare.as_secs_f64())),
                format!("{:.1}", middle(operator_rate)),
                format!("{:.1}", middle(bare_rate)),
                format!("{:.0}", 4.0 * middle(bare_rate)),
                format!("{:.0}", middle(|round| 1000.0 * round.ready.as_secs_f64())),
                format!("{:.2}", middle(|round| 1000.0 * round.cpu.as_secs_f64() / count(round.apps))),
                format!("{:.1}", middle(|round| round.rss_mib)),
                format!("{:.1}", middle(|round| round.peak_mib)),
            ]);
        }
        aligned(&rows) + "\n"
    }

    /// Writes for each app, as the operator counts them and as the API server does.
    fn writes_table(&self) -> String {
        let mut rows = vec![row![
            "writes per app",
            "Deployment",
            "Service",
            "autoscaler",
            "status",
            "events",
            "the API server's count"
        ]];
        let mut add = |what: String, writes: &BTreeMap<String, f64>, served: String| {
            let kinds = ["Deployment", "Service", "HorizontalPodAutoscaler", "WorkerApp", "Event"];
            let mut row = row![what];
            row.extend(kinds.map(|kind| format!("{:.3}", writes.get(kind).copied().unwrap_or(0.0))));
            row.push(served);
            rows.push(row);
        };
        for round in &self.rounds {
            let served = round.served.iter().filter(|(_, n)| **n > 0.0);
            let served: Vec<_> = served.map(|(resource, n)| format!("{resource} {n:.3}")).collect();
            add(format!("created, {} apps", round.apps), &round.writes, served.join(", "));
        }
        for edits in &self.edits {
            if let Some(writes) = &edits.writes {
                add(format!("edited, {} edits", edits.made), writes, String::new());
            }
        }
        if rows.len() == 1 { String::new() } else { aligned(&rows) + "\n" }
    }

    fn edits_table(&self) -> String {
        let mut rows = vec![row!["edit until child applied", "apps", "edits", "p50 ms", "p99 ms", "max ms"]];
        rows.extend(self.edits.iter().map(|edits| {
            let ms = |ms: f64| format!("{ms:.1}");
            row![edits.what, edits.apps, edits.made, ms(edits.p50_ms), ms(edits.p99_ms), ms(edits.longest_ms)]
        }));
        if rows.len() == 1 { String::new() } else { aligned(&rows) + "\n" }
    }

    fn compare(&self) -> Vec<Compared> {
        let mut ratios = Vec::new();
        let mut add = |what: String, ours: &[f64], theirs: &[f64], at_least| {
            if let Some(ratio) = paired_ratio(ours, theirs, 1) {
                ratios.push(Compared { what, ratio, at_least });
            }
        };
        let sizes = self.sizes();
        for apps in &sizes {
            let goal = (*apps >= COMPARED).then_some(0.8);
            let (ours, theirs) = (self.figures(*apps, operator_rate), self.figures(*apps, bare_rate));
            add(format!("apps/s operator/loop [{apps} apps]"), &ours, &theirs, goal);
        }
        if let (Some(most), true) = (sizes.last().copied(), sizes.contains(&COMPARED))
            && most > COMPARED
        {
            let pair = |rate: fn(&Round) -> f64| ([self.middle(most, rate)], [self.middle(COMPARED, rate)]);
            let (ours, less) = pair(operator_rate);
            add(format!("apps/s of the operator [{most}/{COMPARED} apps]"), &ours, &less, Some(1.0));
            let (theirs, less) = pair(bare_rate);
            add(format!("apps/s of the loop [{most}/{COMPARED} apps]"), &theirs, &less, None);
        }
        ratios
    }

    fn bounds(&self) -> Vec<Bound> {
        let mut goals = Vec::new();
        let mut add = |what: String, figure: f64, at_most: f64| goals.push(Bound { what, figure, at_most });
        let sizes = self.sizes();
        let rss = |apps| self.middle(apps, |round| round.rss_mib);
        if sizes.contains(&COMPARED) {
            add(format!("RSS at {COMPARED} apps, MiB"), rss(COMPARED), 64.0);
        }
        if let (Some(least), Some(most)) =
            (sizes.iter().find(|size| **size >= COMPARED).or(sizes.first()), sizes.last())
            && most > least
        {
            let thousands = count(most - least) / 1000.0;
            add("RSS for each further 1000 apps, MiB".into(), (rss(*most) - rss(*least)) / thousands, 6.0);
        }
        for round in &self.rounds {
            let writes = |kind: &str| round.writes.get(kind).copied().unwrap_or(0.0);
            let children = writes("Deployment") + writes("Service") + writes("HorizontalPodAutoscaler");
            // The most of all rounds is what counts; each is to be exactly 3, and less would not have stood.
            add(format!("children written per create, {} apps", round.apps), children, 3.0);
            add(format!("status written per create, {} apps", round.apps), writes("WorkerApp"), 2.0);
        }
        goals.sort_by(|a, b| a.what.cmp(&b.what).then(b.figure.total_cmp(&a.figure)));
        goals.dedup_by(|next, kept| next.what == kept.what);
        let mut add = |what: String, figure: f64, at_most: f64| goals.push(Bound { what, figure, at_most });
        for edits in &self.edits {
            if let Some(writes) = &edits.writes {
                let children =
                    writes.iter().filter(|(kind, _)| !["WorkerApp", "Event"].contains(&kind.as_str()));
                add("children written per edit".into(), children.map(|(_, n)| n).sum(), 1.0);
                add("status written per edit".into(), writes.get("WorkerApp").copied().unwrap_or(0.0), 1.0);
            }
            add(format!("edit, p50 ms: {}", edits.what), edits.p50_ms, 50.0);
            add(format!("edit, p99 ms: {}", edits.what), edits.p99_ms, 500.0);
        }
        if let Some(calm) = &self.calm {
            add(format!("CPU when settled, millicores, {} apps", calm.apps), calm.millicores, 5.0);
            add(format!("writes when settled, in {:.0} s", calm.seconds), calm.writes, 0.0);
        }
        goals
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

fn operator_rate(round: &Round) -> f64 {
    count(round.apps) / round.operator.as_secs_f64()
}

fn bare_rate(round: &Round) -> f64 {
    count(round.apps) / round.bare.as_secs_f64()
}
