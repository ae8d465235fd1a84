//! Pods over time, as SVG: a line for each trial, a colour for each signal.

use std::{fmt::Write as _, time::Duration};

use crate::trial::{Look, Trial};

const WIDTH: f64 = 800.0;
const HEIGHT: f64 = 360.0;
const LEFT: f64 = 50.0;
const RIGHT: f64 = 20.0;
const TOP: f64 = 40.0;
const BOTTOM: f64 = 50.0;
const COLOURS: [&str; 4] = ["#0072b2", "#d55e00", "#009e73", "#cc79a7"];

/// The chart. What was asked for is drawn, since that is what the signals decide.
pub(crate) fn svg(trials: &[Trial], high: Duration) -> String {
    let mut signals: Vec<&str> = trials.iter().map(|trial| trial.signal).collect();
    signals.sort_unstable();
    signals.dedup();
    let most = trials.iter().flat_map(|trial| &trial.looks).map(|look| look.wanted).max().unwrap_or(1).max(1);
    let x = |at: f64| LEFT + at / high.as_secs_f64() * (WIDTH - LEFT - RIGHT);
    let y = |pods: i32| HEIGHT - BOTTOM - f64::from(pods) / f64::from(most) * (HEIGHT - TOP - BOTTOM);

    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n\
         <text x=\"{LEFT}\" y=\"20\">Pods asked for after a step of load from 20 % to 150 % of two pods, by signal</text>\n"
    );
    for pods in 0..=most {
        let y = y(pods);
        // Writing to a String cannot fail.
        let _ = writeln!(
            svg,
            "<line x1=\"{LEFT}\" y1=\"{y:.1}\" x2=\"{}\" y2=\"{y:.1}\" stroke=\"#ddd\"/><text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{pods}</text>",
            WIDTH - RIGHT,
            LEFT - 8.0,
            y + 4.0
        );
    }
    for seconds in (0..=high.as_secs()).step_by(30) {
        let at = x(Duration::from_secs(seconds).as_secs_f64());
        let _ = writeln!(
            svg,
            "<text x=\"{at:.1}\" y=\"{}\" text-anchor=\"middle\">{seconds} s</text>",
            HEIGHT - BOTTOM + 18.0
        );
    }
    for (place, (signal, colour)) in signals.iter().zip(COLOURS.iter().cycle()).enumerate() {
        for trial in trials.iter().filter(|trial| trial.signal == *signal) {
            let path = steps(&trial.looks, x, y);
            let _ = writeln!(
                svg,
                "<path d=\"{path}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\" opacity=\"0.7\"/>"
            );
        }
        let left = LEFT + 130.0 * f64::from(u32::try_from(place).unwrap_or_default());
        let _ = writeln!(
            svg,
            "<rect x=\"{left}\" y=\"{}\" width=\"12\" height=\"12\" fill=\"{colour}\"/><text x=\"{}\" y=\"{}\">{signal}</text>",
            HEIGHT - 22.0,
            left + 18.0,
            HEIGHT - 12.0
        );
    }
    svg + "</svg>\n"
}

fn steps(looks: &[Look], x: impl Fn(f64) -> f64, y: impl Fn(i32) -> f64) -> String {
    let mut path = String::new();
    let mut former = None;
    for look in looks {
        let (at, level) = (x(look.at), y(look.wanted));
        let _ = match former.replace(level) {
            None => write!(path, "M{at:.1} {level:.1}"),
            Some(_) => write!(path, " H{at:.1} V{level:.1}"),
        };
    }
    path
}
