//! The lines of the plots: for each target the median of its valid runs, with the single runs faintly behind it.

use super::plot::Series;
use crate::report::as_f64;
use crate::results::{Results, Run};
use crate::statistics::median;

/// Colours and ways of dashing that the page's style has.
const COLOURS: usize = 8;
const DASHES: usize = 4;

/// What a run adds to a plot.
type Points = fn(&Run) -> Vec<(f64, f64)>;

/// All lines of a row's plot. `steps`: values hold until the next.
pub(super) fn of(results: &Results, row: &str, points: Points, steps: bool) -> Vec<Series> {
    let mut faint = Vec::new();
    let mut medians = Vec::new();
    for (place, target) in results.targets.iter().enumerate() {
        let look = look(place);
        let runs: Vec<&Run> = results.runs_of(row, target).collect();
        // Figures that can't be believed are better than none, and the page says so.
        let any_valid = runs.iter().any(|run| run.is_valid());
        let lines: Vec<Vec<(f64, f64)>> = runs
            .iter()
            .filter(|run| run.is_valid() || !any_valid)
            .map(|run| points(run))
            .filter(|line| !line.is_empty())
            .collect();
        let series =
            |points, faint| Series { name: target.clone(), look: look.clone(), points, faint, steps };
        if steps {
            // What changes at times of its own has no median.
            faint.extend(lines.iter().skip(1).map(|line| series(line.clone(), true)));
            medians.extend(lines.into_iter().next().map(|line| series(line, false)));
            continue;
        }
        let middle = middle(&lines);
        if lines.len() > 1 {
            faint.extend(lines.into_iter().map(|line| series(line, true)));
        }
        if !middle.is_empty() {
            medians.push(series(middle, false));
        }
    }
    faint.extend(medians);
    faint
}

/// The classes of a target's lines: no two of the first 32 look alike, and each differs from its neighbours also without colours.
fn look(place: usize) -> String {
    format!("c{} d{}", place % COLOURS, (place + place / COLOURS) % DASHES)
}

/// The median at each place. The lines have the same x there; where one has ended, the others go on.
fn middle(lines: &[Vec<(f64, f64)>]) -> Vec<(f64, f64)> {
    let longest = lines.iter().map(Vec::len).max().unwrap_or(0);
    (0..longest)
        .filter_map(|place| {
            let here: Vec<(f64, f64)> = lines.iter().filter_map(|line| line.get(place).copied()).collect();
            let (x, _) = *here.first()?;
            Some((x, median(&here.iter().map(|(_, y)| *y).collect::<Vec<_>>())?))
        })
        .collect()
}

/// Percentile, milliseconds.
pub(super) fn latency(run: &Run) -> Vec<(f64, f64)> {
    let quantiles = run.figures.latency.iter().flat_map(|latency| &latency.quantiles);
    quantiles.map(|quantile| (quantile.percent, quantile.ms)).collect()
}

/// Seconds, answers per second; only whole seconds.
pub(super) fn throughput(run: &Run) -> Vec<(f64, f64)> {
    whole_seconds(run).map(|(at, second)| (at, as_f64(second.answered))).collect()
}

/// Seconds, milliseconds.
pub(super) fn latency_over_time(run: &Run) -> Vec<(f64, f64)> {
    whole_seconds(run).map(|(at, second)| (at, second.mean_ms)).collect()
}

fn whole_seconds(run: &Run) -> impl Iterator<Item = (f64, &crate::results::Second)> {
    let end = run.figures.elapsed_seconds;
    let numbered = (1_u32..).map(f64::from).zip(&run.figures.seconds);
    numbered.take_while(move |(second, _)| *second <= end + 0.05)
}

/// Seconds, ready pods.
pub(super) fn replicas(run: &Run) -> Vec<(f64, f64)> {
    let seen = run.observations.replicas.as_deref().unwrap_or_default();
    let mut points: Vec<_> = seen.iter().map(|at| (at.seconds, f64::from(at.ready))).collect();
    if let Some((_, ready)) = points.last().copied() {
        points.push((run.figures.elapsed_seconds, ready));
    }
    points
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::look;

    #[test]
    fn no_two_targets_look_alike() {
        assert_eq!((0..32).map(look).collect::<BTreeSet<_>>().len(), 32);
    }
}
