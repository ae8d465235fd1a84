//! A picture of what can be told: each target's ratio to the first one, with its interval. A file of its own that loads nothing.

use super::html::escape;
use crate::comparison::{Comparison, Finding};
use crate::results::Results;

const WIDTH: f64 = 760.0;
const LINE: f64 = 22.0;
const LEFT: f64 = 300.0;
const RIGHT: f64 = 120.0;
const TOP: f64 = 46.0;
const BOTTOM: f64 = 34.0;

/// The ratios of one metric, such as `requests/s`, as SVG; nothing if there are none.
pub fn svg(results: &Results, metric: &str) -> Option<String> {
    let all: Vec<&Comparison> = results.comparisons.iter().filter(|one| one.metric == metric).collect();
    let base = &all.first()?.base;
    let scale = Scale::holding(&all);
    let height = TOP + BOTTOM + LINE * f64::from(u32::try_from(all.len()).ok()?);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" font-family=\"system-ui, sans-serif\" font-size=\"12\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n\
         <text x=\"10\" y=\"20\" font-size=\"14\" font-weight=\"600\" fill=\"#1c1f24\">{}</text>\n",
        escape(&format!("{metric} against {base}, with 95 % intervals"))
    );
    let bottom = height - BOTTOM;
    for tick in scale.ticks() {
        let x = scale.place(tick);
        let colour = if (tick - 1.0).abs() < 1e-9 { "#5b6470" } else { "#d5dae1" };
        push!(svg, "<path d=\"M{x:.1} {}V{bottom}\" stroke=\"{colour}\"/>\n", TOP - 10.0);
        push!(
            svg,
            "<text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\" fill=\"#5b6470\">{tick}×</text>\n",
            bottom + 18.0
        );
    }
    for (place, one) in (0_u32..).zip(&all) {
        let y = TOP + LINE * (f64::from(place) + 0.5);
        let colour = match one.finding {
            Finding::Better => "#146c43",
            Finding::Worse => "#b3261e",
            Finding::Unclear => "#5b6470",
        };
        let [low, middle, high] =
            [one.ratio.low, one.ratio.ratio, one.ratio.high].map(|ratio| scale.place(ratio));
        let name = escape(&format!("{}, {}", one.target, one.row));
        push!(
            svg,
            "<text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\" fill=\"#1c1f24\">{name}</text>\n",
            LEFT - 12.0,
            y + 4.0
        );
        push!(svg, "<path d=\"M{low:.1} {y:.1}H{high:.1}\" stroke=\"{colour}\" stroke-width=\"3\"/>\n");
        push!(svg, "<circle cx=\"{middle:.1}\" cy=\"{y:.1}\" r=\"4.5\" fill=\"{colour}\"/>\n");
        let text = format!("{:.2} {}", one.ratio.ratio, one.finding.sign());
        push!(
            svg,
            "<text x=\"{}\" y=\"{:.1}\" fill=\"{colour}\">{text}</text>\n",
            WIDTH - RIGHT + 14.0,
            y + 4.0
        );
    }
    Some(svg + "</svg>\n")
}

/// Logarithmic: twice as much is as far from 1 as half as much.
struct Scale {
    low: f64,
    high: f64,
}

const TICKS: [f64; 13] = [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0];

impl Scale {
    fn holding(all: &[&Comparison]) -> Self {
        let low = all.iter().map(|one| one.ratio.low).fold(0.5, f64::min);
        let high = all.iter().map(|one| one.ratio.high).fold(2.0, f64::max);
        let [least, most] = [TICKS[0], TICKS[12]];
        let below = TICKS.into_iter().rev().find(|tick| *tick <= low).unwrap_or(least);
        let above = TICKS.into_iter().find(|tick| *tick >= high).unwrap_or(most);
        Self { low: below, high: above }
    }

    fn place(&self, ratio: f64) -> f64 {
        let on = |value: f64| value.max(f64::MIN_POSITIVE).ln();
        let part = (on(ratio) - on(self.low)) / (on(self.high) - on(self.low));
        LEFT + part.clamp(0.0, 1.0) * (WIDTH - LEFT - RIGHT)
    }

    fn ticks(&self) -> impl Iterator<Item = f64> {
        TICKS.into_iter().filter(|tick| (self.low..=self.high).contains(tick))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reports::samples;

    #[test]
    fn every_target_and_row_has_its_place_and_names_are_text() {
        let mut results = samples::results();
        results.targets[1] = "<b>".into();
        results
            .runs
            .iter_mut()
            .filter(|run| run.target == "workers")
            .for_each(|run| run.target = "<b>".into());
        results.comparisons = crate::comparison::compare(&results, 1);
        let svg = svg(&results, "requests/s").unwrap();
        assert_eq!(svg.matches("<circle").count(), 2);
        for text in
            ["requests/s against one", "&lt;b&gt;, 50 connections", "&lt;b&gt;, 500 connections", "1.80 +"]
        {
            assert!(svg.contains(text), "{text}: {svg}");
        }
        assert!(!svg.contains("NaN") && !svg.contains("<b>"), "{svg}");
    }

    #[test]
    fn without_a_comparison_there_is_no_picture() {
        assert_eq!(svg(&Results::default(), "requests/s"), None);
        assert_eq!(svg(&samples::results(), "no such metric"), None);
    }
}
