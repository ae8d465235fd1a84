//! Comparing servers whose runs took turns: medians, and how sure a ratio is.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;

/// The middle one, or the mean of the middle two. `None` of nothing, or if one is no number.
pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    if sorted.is_empty() || sorted.iter().any(|value| value.is_nan()) {
        return None;
    }
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    let upper = *sorted.get(middle)?;
    if sorted.len() % 2 == 1 {
        return Some(upper);
    }
    Some(f64::midpoint(*sorted.get(middle - 1)?, upper))
}

/// A ratio and the interval that it lies in with 95 % confidence.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Ratio {
    /// The geometric mean of the pairs' ratios.
    pub ratio: f64,
    /// Lower end of the interval.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// How many pairs it comes from.
    pub pairs: usize,
}

impl Ratio {
    /// Whether the interval leaves out 1: one of the two is better.
    pub fn tells(&self) -> bool {
        !self.holds(1.0)
    }

    /// Whether the true ratio may be this one.
    pub fn holds(&self, ratio: f64) -> bool {
        self.low <= ratio && ratio <= self.high
    }
}

impl fmt::Display for Ratio {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.3} ({:.3} to {:.3})", self.ratio, self.low, self.high)
    }
}

/// What a ratio is meant to be.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Goal {
    /// This or more.
    AtLeast(f64),
    /// This or less.
    AtMost(f64),
}

impl Goal {
    /// The goal in words, and what the interval says of it.
    pub fn verdict(self, ratio: &Ratio) -> String {
        let (sign, bound, met, possible) = match self {
            Self::AtLeast(bound) => (">=", bound, ratio.ratio >= bound, ratio.high >= bound),
            Self::AtMost(bound) => ("<=", bound, ratio.ratio <= bound, ratio.low <= bound),
        };
        let verdict = match (met, possible) {
            (true, _) => "met",
            (false, true) => "missed, within the noise",
            (false, false) => "missed",
        };
        format!("goal {sign} {bound:.2}: {verdict}")
    }
}

const RESAMPLES: usize = 4000;

/// The ratio of paired figures, ours over theirs: what both had in one round is compared, so that what disturbed a whole
/// round cancels out.
///
/// The interval comes from drawing rounds anew (a percentile bootstrap of the mean logarithm). From few rounds that is too narrow: its
/// percentiles are moved outwards as far as Student's distribution is wider than the normal one, and where Student's own interval is
/// wider still, that counts. `None` without a pair, or where a figure is zero, negative or no number.
///
/// Source: T. Hesterberg, What Teachers Should Know about the Bootstrap (2014), section 5.3.
pub fn paired_ratio(ours: &[f64], theirs: &[f64], seed: u64) -> Option<Ratio> {
    let logs = logarithms(ours, theirs)?;
    let pairs = logs.len();
    let (mean, error) = mean_and_error(&logs)?;
    let student = student(pairs).0;
    let mut random = fastrand::Rng::with_seed(seed);
    let mut means = Vec::with_capacity(RESAMPLES);
    for _ in 0..RESAMPLES {
        let drawn: f64 = (0..pairs).filter_map(|_| logs.get(random.usize(..pairs))).sum();
        means.push(drawn / count(pairs));
    }
    means.sort_by(f64::total_cmp);
    let tail = normal_below(-student * (count(pairs) / (count(pairs) - 1.0).max(1.0)).sqrt());
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "below the number of resamples"
    )]
    let outside = (tail * count(RESAMPLES)) as usize;
    let low = means.get(outside)?.min(mean - student * error);
    let high = means.get(RESAMPLES - 1 - outside)?.max(mean + student * error);
    Some(Ratio { ratio: mean.exp(), low: low.exp(), high: high.exp(), pairs })
}

/// `None` without a pair, or where one has no logarithm.
fn logarithms(ours: &[f64], theirs: &[f64]) -> Option<Vec<f64>> {
    let logs: Vec<f64> = ours.iter().zip(theirs).map(|(ours, theirs)| (ours / theirs).ln()).collect();
    (!logs.is_empty() && logs.iter().all(|log| log.is_finite())).then_some(logs)
}

/// The mean and its standard error, which is 0 of one value.
fn mean_and_error(values: &[f64]) -> Option<(f64, f64)> {
    let number = count(values.len());
    let mean = values.iter().sum::<f64>() / number;
    let squares = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>();
    let variance = squares / (number - 1.0).max(1.0);
    mean.is_finite().then_some((mean, (variance / number).sqrt()))
}

/// For so many pairs: what Student's t exceeds in 5 % of cases, on both sides, and in 20 %.
fn student(pairs: usize) -> (f64, f64) {
    let last = STUDENT.len() - 1;
    STUDENT.get(pairs.saturating_sub(2).min(last)).copied().unwrap_or((1.960, 0.842))
}

/// The part of a normal distribution below `z`, which is negative: exact to four digits, by Abramowitz and Stegun 26.2.17.
fn normal_below(z: f64) -> f64 {
    let t = 1.0 / (1.0 + 0.231_641_9 * z.abs());
    let series = [1.330_274_429, -1.821_255_978, 1.781_477_937, -0.356_563_782, 0.319_381_53];
    let polynomial = series.iter().fold(0.0, |sum, factor| (sum + factor) * t);
    polynomial * (-z * z / 2.0).exp() / (2.0 * std::f64::consts::PI).sqrt()
}

fn count(n: usize) -> f64 {
    crate::report::as_f64(u64::try_from(n).unwrap_or(u64::MAX))
}

/// What Student's t must exceed for 95 % confidence (two-sided), and what it exceeds in 80 % of tries, by degrees of freedom
/// from 1. The last row is the normal distribution's, near enough from 31 on.
const STUDENT: [(f64, f64); 31] = [
    (12.706, 1.376),
    (4.303, 1.061),
    (3.182, 0.978),
    (2.776, 0.941),
    (2.571, 0.920),
    (2.447, 0.906),
    (2.365, 0.896),
    (2.306, 0.889),
    (2.262, 0.883),
    (2.228, 0.879),
    (2.201, 0.876),
    (2.179, 0.873),
    (2.160, 0.870),
    (2.145, 0.868),
    (2.131, 0.866),
    (2.120, 0.865),
    (2.110, 0.863),
    (2.101, 0.862),
    (2.093, 0.861),
    (2.086, 0.860),
    (2.080, 0.859),
    (2.074, 0.858),
    (2.069, 0.858),
    (2.064, 0.857),
    (2.060, 0.856),
    (2.056, 0.856),
    (2.052, 0.855),
    (2.048, 0.855),
    (2.045, 0.854),
    (2.042, 0.854),
    (1.960, 0.842),
];
/// The interval is the wider one of two, and how much rounds scatter is only an estimate.
const WIDER: f64 = 1.1;

/// The smallest difference that these pairs would have shown with 95 % confidence in 80 % of tries, given how much their ratios
/// scatter: 0.05 means that 5 % more would have been seen. `None` with fewer than two pairs, or without a ratio.
pub fn smallest_difference(ours: &[f64], theirs: &[f64]) -> Option<f64> {
    let logs = logarithms(ours, theirs).filter(|logs| logs.len() > 1)?;
    let (_, error) = mean_and_error(&logs)?;
    let (confidence, power) = student(logs.len());
    Some((WIDER * error * (confidence + power)).exp_m1())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians() {
        for (values, wanted) in [
            (vec![], None),
            (vec![3.0], Some(3.0)),
            (vec![3.0, 1.0], Some(2.0)),
            (vec![9.0, 1.0, 2.0], Some(2.0)),
            (vec![4.0, 1.0, 2.0, 100.0], Some(3.0)),
            (vec![1.0, f64::NAN], None),
        ] {
            assert_eq!(median(&values), wanted, "{values:?}");
        }
    }

    #[test]
    fn a_goal_is_missed_for_sure_only_where_the_interval_leaves_it_out() {
        let ratio = Ratio { ratio: 0.95, low: 0.9, high: 1.02, pairs: 5 };
        assert_eq!(ratio.to_string(), "0.950 (0.900 to 1.020)");
        for (goal, verdict) in [
            (Goal::AtLeast(0.95), "goal >= 0.95: met"),
            (Goal::AtLeast(1.0), "goal >= 1.00: missed, within the noise"),
            (Goal::AtLeast(1.1), "goal >= 1.10: missed"),
            (Goal::AtMost(1.0), "goal <= 1.00: met"),
            (Goal::AtMost(0.92), "goal <= 0.92: missed, within the noise"),
            (Goal::AtMost(0.5), "goal <= 0.50: missed"),
        ] {
            assert_eq!(goal.verdict(&ratio), verdict);
        }
    }

    #[test]
    fn what_disturbs_a_whole_round_cancels_out() {
        let ours = [110.0, 55.0, 220.0, 11.0, 77.0];
        let theirs = [100.0, 50.0, 200.0, 10.0, 70.0];
        let ratio = paired_ratio(&ours, &theirs, 1).unwrap();
        assert!((ratio.ratio - 1.1).abs() < 1e-9 && (ratio.low - 1.1).abs() < 1e-9 && ratio.tells());
    }

    #[test]
    fn noise_around_one_tells_nothing() {
        let ours = [100.0, 105.0, 96.0, 101.0, 99.0, 103.0];
        let ratio = paired_ratio(&ours, &[100.0; 6], 1).unwrap();
        assert!(ratio.low <= ratio.ratio && ratio.ratio <= ratio.high && !ratio.tells(), "{ratio:?}");
        assert_eq!(ratio, paired_ratio(&ours, &[100.0; 6], 1).unwrap());
    }

    /// Few pairs and many, with and without rounds that something disturbed.
    #[test]
    fn the_interval_holds_the_truth_as_often_as_it_says() {
        let mut random = fastrand::Rng::with_seed(3);
        for pairs in [5, 6, 7, 10, 15] {
            for outliers in [0.0, 0.1] {
                let tries = 400;
                let mut held = 0;
                for round in 0..tries {
                    let mut noise = || {
                        let sum = (0..12).map(|_| random.f64()).sum::<f64>() - 6.0;
                        0.05 * sum * if random.f64() < outliers { 5.0 } else { 1.0 }
                    };
                    let ours: Vec<f64> = (0..pairs).map(|_| 1.2 * noise().exp()).collect();
                    held += usize::from(paired_ratio(&ours, &vec![1.0; pairs], round).unwrap().holds(1.2));
                }
                // 95 % but for chance: 372 is three standard deviations below.
                assert!(held >= 367, "{held} of {tries} with {pairs} pairs, outliers {outliers}");
            }
        }
    }

    #[test]
    fn the_normal_distribution() {
        for (z, part) in [(-1.96, 0.025), (-3.0, 0.00135), (0.0, 0.5)] {
            assert!((normal_below(z) - part).abs() < 1e-4, "{z}");
        }
    }

    /// Pairs that really differ by the smallest difference are told apart about as often as it promises.
    #[test]
    fn the_smallest_difference_is_found_most_of_the_time() {
        let mut random = fastrand::Rng::with_seed(5);
        // A sum of twelve is near enough to a normal distribution.
        let mut noise = move || (0..12).map(|_| random.f64()).sum::<f64>() - 6.0;
        let (mut found, tries) = (0, 200);
        for round in 0..tries {
            let pilot: Vec<f64> = (0..15).map(|_| (0.05 * noise()).exp()).collect();
            let difference = 1.0 + smallest_difference(&pilot, &[1.0; 15]).unwrap();
            let ours: Vec<f64> = (0..15).map(|_| difference * (0.05 * noise()).exp()).collect();
            found += usize::from(paired_ratio(&ours, &[1.0; 15], round).unwrap().tells());
        }
        assert!((150..=195).contains(&found), "{found} of {tries}");
        assert_eq!(smallest_difference(&[1.0], &[1.0]), None);
        assert_eq!(smallest_difference(&[1.0, 0.0], &[1.0, 1.0]), None);
        assert!(smallest_difference(&[2.0; 40], &[1.0; 40]).unwrap() < 1e-9);
    }

    #[test]
    fn figures_that_make_no_ratio() {
        for (ours, theirs) in [
            (vec![], vec![]),
            (vec![1.0], vec![]),
            (vec![1.0], vec![0.0]),
            (vec![f64::NAN], vec![1.0]),
            (vec![0.0], vec![1.0]),
        ] {
            assert_eq!(paired_ratio(&ours, &theirs, 1), None);
        }
    }
}
