//! What can be told about two targets from runs that took turns.
//!
//! Figures are compared in pairs, one for each round, so that what disturbed a whole round cancels out. Only rounds in which both runs are
//! valid count. Below [`FEWEST_PAIRS`] nothing is told, whatever the figures say.

use crate::results::{Results, Run};
use crate::statistics::{Ratio, paired_ratio, smallest_difference};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// Fewer pairs tell nothing: the interval would be wrong too often.
pub const FEWEST_PAIRS: usize = 5;

/// A figure that targets are compared by.
#[derive(Debug, Clone, Copy)]
pub struct Metric {
    /// As it appears in reports, with its unit.
    pub name: &'static str,
    /// More is better.
    pub more_is_better: bool,
    /// The figure of a run, if it has it.
    pub figure: fn(&Run) -> Option<f64>,
}

fn latency(run: &Run, percent: f64) -> Option<f64> {
    run.figures.latency.as_ref()?.at(percent)
}

/// All of them, in the order in which reports list them.
pub const METRICS: &[Metric] = &[
    Metric { name: "requests/s", more_is_better: true, figure: |run| Some(run.figures.requests_per_second) },
    Metric {
        name: "highest rate/s",
        more_is_better: true,
        figure: |run| run.search.as_ref()?.highest_per_second,
    },
    Metric { name: "goodput/s", more_is_better: true, figure: |run| run.observations.goodput_per_second },
    Metric { name: "requests/s per core", more_is_better: true, figure: Run::requests_per_core },
    Metric {
        name: "mean ms",
        more_is_better: false,
        figure: |run| Some(run.figures.latency.as_ref()?.mean_ms),
    },
    Metric { name: "p50 ms", more_is_better: false, figure: |run| latency(run, 50.0) },
    Metric { name: "p97.5 ms", more_is_better: false, figure: |run| latency(run, 97.5) },
    Metric { name: "p99 ms", more_is_better: false, figure: |run| latency(run, 99.0) },
    Metric { name: "max ms", more_is_better: false, figure: |run| latency(run, 100.0) },
];

/// What the figures say.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Finding {
    /// The target is better than the base.
    Better,
    /// The target is worse.
    Worse,
    /// Nothing can be told.
    Unclear,
}

impl Finding {
    /// For tables: `~` where nothing can be told.
    pub fn sign(self) -> &'static str {
        match self {
            Self::Better => "+",
            Self::Worse => "-",
            Self::Unclear => "~",
        }
    }
}

/// A target against the base, by one metric, in one row of the ladder.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Comparison {
    /// The row of the ladder.
    pub row: String,
    /// The metric's name.
    pub metric: Cow<'static, str>,
    /// What the target is compared with.
    pub base: String,
    /// The target.
    pub target: String,
    /// The target's figure over the base's, with an interval of 95 %.
    pub ratio: Ratio,
    /// What that says.
    pub finding: Finding,
    /// The smallest difference that so many pairs with this noise would have shown in four of five tries, in percent. Absent with
    /// fewer pairs than are needed.
    pub smallest_difference_percent: Option<f64>,
    /// Rounds left out, since a gate marked one of the two runs invalid.
    pub rounds_left_out: usize,
}

/// Every other target against the first one.
pub fn compare(results: &Results, seed: u64) -> Vec<Comparison> {
    let Some((base, others)) = results.targets.split_first() else { return Vec::new() };
    let mut all = Vec::new();
    for row in results.rows() {
        for target in others {
            let (pairs, left_out) = pairs(results, row, base, target);
            let of = |metric| by_metric(metric, &pairs, seed);
            all.extend(METRICS.iter().filter_map(|metric| {
                let (ratio, finding, smallest) = of(metric)?;
                Some(Comparison {
                    row: row.to_owned(),
                    metric: Cow::Borrowed(metric.name),
                    base: base.clone(),
                    target: target.clone(),
                    ratio,
                    finding,
                    smallest_difference_percent: smallest,
                    rounds_left_out: left_out,
                })
            }));
        }
    }
    all
}

/// The ratio of one metric between two targets in a row; nothing where there is no pair.
pub fn ratio(
    results: &Results,
    row: &str,
    base: &str,
    target: &str,
    metric: &str,
    seed: u64,
) -> Option<Ratio> {
    let metric = METRICS.iter().find(|known| known.name == metric)?;
    by_metric(metric, &pairs(results, row, base, target).0, seed).map(|(ratio, ..)| ratio)
}

/// The valid pairs of a row, base and target, and how many rounds are left out.
fn pairs<'a>(
    results: &'a Results,
    row: &'a str,
    base: &'a str,
    target: &'a str,
) -> (Vec<(&'a Run, &'a Run)>, usize) {
    let both: Vec<_> = results
        .runs_of(row, base)
        .filter_map(|ours| {
            let theirs = results.runs_of(row, target).find(|theirs| theirs.round == ours.round)?;
            Some((ours, theirs))
        })
        .collect();
    let rounds = both.len();
    let valid: Vec<_> =
        both.into_iter().filter(|(ours, theirs)| ours.is_valid() && theirs.is_valid()).collect();
    let left_out = rounds - valid.len();
    (valid, left_out)
}

fn by_metric(metric: &Metric, pairs: &[(&Run, &Run)], seed: u64) -> Option<(Ratio, Finding, Option<f64>)> {
    // A pair without the figure is one round less.
    let (base, target): (Vec<f64>, Vec<f64>) = pairs
        .iter()
        .filter_map(|(base, target)| Some(((metric.figure)(base)?, (metric.figure)(target)?)))
        .filter(|(base, target)| *base > 0.0 && *target > 0.0)
        .unzip();
    let ratio = paired_ratio(&target, &base, seed)?;
    let enough = ratio.pairs >= FEWEST_PAIRS;
    let finding = match enough && ratio.tells() {
        false => Finding::Unclear,
        true if (ratio.ratio > 1.0) == metric.more_is_better => Finding::Better,
        true => Finding::Worse,
    };
    let smallest = enough.then(|| smallest_difference(&target, &base)).flatten();
    Some((ratio, finding, smallest.map(|part| 100.0 * part)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gates::{Outcome, Verdict};
    use crate::results::Figures;

    fn results(runs: &[(&str, &[f64])]) -> Results {
        let run = |target: &str, round: usize, rate: f64| Run {
            target: target.into(),
            row: "50".into(),
            round: u32::try_from(round).unwrap(),
            figures: Figures { requests_per_second: rate, ..Figures::default() },
            ..Run::default()
        };
        Results {
            targets: runs.iter().map(|(target, _)| (*target).to_owned()).collect(),
            runs: runs
                .iter()
                .flat_map(|(target, rates)| {
                    rates.iter().enumerate().map(move |(round, rate)| run(target, round + 1, *rate))
                })
                .collect(),
            ..Results::default()
        }
    }

    fn finding(runs: &[(&str, &[f64])]) -> Comparison {
        let all = compare(&results(runs), 1);
        assert_eq!(all.len(), 1, "{all:?}");
        all[0].clone()
    }

    #[test]
    fn what_can_be_told_is_told() {
        let base: &[f64] = &[100.0, 104.0, 98.0, 101.0, 99.0];
        let better = finding(&[("a", base), ("b", &[121.0, 124.0, 119.0, 120.0, 118.0])]);
        assert_eq!((better.finding, better.ratio.pairs, better.finding.sign()), (Finding::Better, 5, "+"));
        assert!(better.smallest_difference_percent.unwrap() < 10.0, "{better:?}");
        let worse = finding(&[("a", base), ("b", &[81.0, 84.0, 79.0, 80.0, 78.0])]);
        assert_eq!(worse.finding, Finding::Worse);
        let unclear = finding(&[("a", base), ("b", &[99.0, 107.0, 97.0, 103.0, 95.0])]);
        assert_eq!((unclear.finding, unclear.finding.sign()), (Finding::Unclear, "~"));
        assert!(unclear.smallest_difference_percent.unwrap() > 1.0, "{unclear:?}");
    }

    #[test]
    fn less_latency_is_better() {
        let mut results = results(&[("a", &[1.0; 5]), ("b", &[1.0; 5])]);
        for run in &mut results.runs {
            let mean_ms = if run.target == "a" { 20.0 } else { 10.0 };
            run.figures.latency = Some(crate::results::Latency { mean_ms, ..Default::default() });
        }
        let mean = compare(&results, 1).into_iter().find(|one| one.metric == "mean ms").unwrap();
        assert_eq!((mean.finding, mean.ratio.ratio), (Finding::Better, 0.5));
    }

    #[test]
    fn four_pairs_tell_nothing() {
        let four = finding(&[("a", &[100.0; 4]), ("b", &[200.0; 4])]);
        assert_eq!(
            (four.finding, four.ratio.pairs, four.smallest_difference_percent),
            (Finding::Unclear, 4, None)
        );
    }

    #[test]
    fn a_round_with_an_invalid_run_is_left_out() {
        let mut results = results(&[("a", &[100.0; 6]), ("b", &[200.0; 6])]);
        let outcome = Outcome::Invalid("for a test".into());
        results.runs[8].verdicts = vec![Verdict { gate: "errors".into(), outcome }];
        let all = compare(&results, 1);
        assert_eq!((all[0].ratio.pairs, all[0].rounds_left_out, all[0].finding), (5, 1, Finding::Better));
    }

    #[test]
    fn one_target_has_nothing_to_be_compared_with() {
        assert_eq!(compare(&results(&[("a", &[1.0])]), 1), []);
        assert_eq!(compare(&results(&[]), 1), []);
        assert_eq!(compare(&results(&[("a", &[0.0; 5]), ("b", &[1.0; 5])]), 1), []);
    }
}
