//! What others published, beside what was measured: whether the two agree, and what is only true of another machine.

use workerapp_bench::{
    comparison::{FEWEST_PAIRS, ratio},
    results::Results,
    statistics::Ratio,
};

use super::file::{Claim, Suite};
use crate::output;

/// A claim beside our figures, in one row of the ladder.
pub(super) struct Verdict<'a> {
    pub(super) claim: &'a Claim,
    /// The row of the ladder.
    pub(super) row: String,
    /// Our ratio with its interval; nothing if there is none.
    pub(super) ours: Option<Ratio>,
    /// What follows.
    pub(super) word: &'static str,
}

/// One line for each claim that has a ratio, and each row of the ladder.
pub(super) fn verdicts<'a>(suite: &'a Suite, results: &Results) -> Vec<Verdict<'a>> {
    let mut verdicts = Vec::new();
    for claim in &suite.published {
        let (Some(target), Some(base), Some(published)) = (&claim.target, &claim.base, claim.ratio) else {
            continue;
        };
        let metric = claim.metric.as_deref().unwrap_or("requests/s");
        let seed = results.provenance.seed.unwrap_or_default();
        for row in results.rows() {
            let ours = ratio(results, row, base, target, metric, seed);
            let word = word(published, ours.as_ref());
            verdicts.push(Verdict { claim, row: row.to_owned(), ours, word });
        }
    }
    verdicts
}

/// What our ratio says about a published one.
fn word(published: f64, ours: Option<&Ratio>) -> &'static str {
    match ours {
        None => "not measured",
        Some(ours) if ours.pairs < FEWEST_PAIRS => "too few valid rounds",
        // No difference at all would fit as well.
        Some(ours) if ours.holds(published) && !ours.tells() => "can't be told",
        Some(ours) if ours.holds(published) => "agrees",
        Some(ours) if !ours.tells() => "no difference seen",
        Some(ours) if (ours.ratio > 1.0) != (published > 1.0) => "the opposite",
        Some(ours) if (ours.ratio - 1.0).abs() > (published - 1.0).abs() => "same direction, larger",
        Some(_) => "same direction, smaller",
    }
}

/// Published, ours, what follows: as cells, the first row the head.
pub(super) fn rows(suite: &Suite, results: &Results) -> Vec<Vec<String>> {
    let verdicts = verdicts(suite, results);
    let mut rows = vec![["published", "ratio", "here", "95 % interval", ""].map(str::to_owned).to_vec()];
    let several = results.rows().len() > 1;
    for verdict in &verdicts {
        let says = if several {
            format!("{} — {}", verdict.claim.says, verdict.row)
        } else {
            verdict.claim.says.clone()
        };
        let ours = verdict.ours.as_ref().map_or("–".to_owned(), |ours| format!("{:.2}", ours.ratio));
        let interval = verdict
            .ours
            .as_ref()
            .map_or("–".to_owned(), |ours| format!("{:.2} to {:.2}", ours.low, ours.high));
        let published = verdict.claim.ratio.map_or(String::new(), |ratio| format!("{ratio:.2}"));
        rows.push(vec![says, published, ours, interval, verdict.word.to_owned()]);
    }
    rows
}

/// The same for a terminal; nothing if nothing was published.
pub(super) fn text(suite: &Suite, results: &Results) -> String {
    match rows(suite, results).split_first() {
        Some((head, rows)) if !rows.is_empty() => {
            let head: Vec<&str> = head.iter().map(String::as_str).collect();
            format!("\nWhat was published, and what was measured here\n{}", output::table(&head, rows))
        }
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(published: f64, low: f64, ratio: f64, high: f64, pairs: usize) -> &'static str {
        word(published, Some(&Ratio { ratio, low, high, pairs }))
    }

    #[test]
    fn a_published_ratio_is_judged_by_the_interval_of_ours() {
        assert_eq!(said(1.2, 1.1, 1.19, 1.3, 5), "agrees");
        assert_eq!(said(1.6, 0.9, 1.2, 1.7, 5), "can't be told");
        assert_eq!(said(0.7, 0.6, 0.8, 1.1, 5), "can't be told");
        assert_eq!(said(1.2, 1.3, 1.4, 1.5, 5), "same direction, larger");
        assert_eq!(said(0.5, 0.7, 0.8, 0.9, 5), "same direction, smaller");
        assert_eq!(said(1.2, 0.7, 0.8, 0.9, 5), "the opposite");
        assert_eq!(said(1.5, 0.9, 1.0, 1.1, 5), "no difference seen");
        assert_eq!(said(1.2, 1.1, 1.19, 1.3, 4), "too few valid rounds");
        assert_eq!(word(1.2, None), "not measured");
    }
}
