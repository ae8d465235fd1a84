//! A plot as SVG. Colours come from the page's style, so that it follows light and dark.

use super::escape;
use super::scale::{Kind, Scale};

const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 300.0;
const LEFT: f64 = 72.0;
/// Half of the longest text below the axis.
const RIGHT: f64 = 24.0;
const TOP: f64 = 12.0;
const BOTTOM: f64 = 46.0;

/// A line.
#[derive(Debug, Clone)]
pub(super) struct Series {
    /// For the legend; one that is faint has none.
    pub(super) name: String,
    /// Its classes in the page's style: colour and dashes.
    pub(super) look: String,
    /// In ascending order of x.
    pub(super) points: Vec<(f64, f64)>,
    /// One run among several, behind their median.
    pub(super) faint: bool,
    /// A value holds until the next.
    pub(super) steps: bool,
}

/// An axis: its text, with the unit, and its kind.
#[derive(Debug, Clone, Copy)]
pub(super) struct Axis {
    pub(super) text: &'static str,
    pub(super) kind: Kind,
}

/// With a title and a legend. Nothing if there is no line to draw, which takes two points.
pub(super) fn figure(title: &str, x: Axis, y: Axis, series: &[Series]) -> String {
    let points = || series.iter().flat_map(|line| line.points.iter().copied());
    if series.iter().all(|line| line.points.len() < 2) {
        return String::new();
    }
    let across = Scale::holding(x.kind, points().map(|(x, _)| x));
    let up = Scale::holding(y.kind, points().map(|(_, y)| y));
    let (inner_width, inner_height) = (WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM);
    let at_x = |value: f64| LEFT + inner_width * across.place(value);
    let at_y = |value: f64| TOP + inner_height * (1.0 - up.place(value));
    let bottom = HEIGHT - BOTTOM;
    let mut svg = String::new();
    for (value, text) in up.ticks() {
        let y = at_y(value);
        let end = WIDTH - RIGHT;
        push!(svg, "<path class=\"grid\" d=\"M{LEFT} {y:.1}H{end}\"/>");
        let (x, y) = (LEFT - 8.0, y + 4.0);
        push!(svg, "<text x=\"{x}\" y=\"{y:.1}\" text-anchor=\"end\">{text}</text>");
    }
    let mut last = f64::NEG_INFINITY;
    for (value, text) in across.ticks() {
        let x = at_x(value);
        push!(svg, "<path class=\"tick\" d=\"M{x:.1} {bottom}v5\"/>");
        // Texts that would run into each other are left out.
        if x - last > 34.0 {
            let y = bottom + 18.0;
            push!(svg, "<text x=\"{x:.1}\" y=\"{y}\" text-anchor=\"middle\">{text}</text>");
            last = x;
        }
    }
    push!(svg, "<path class=\"axis\" d=\"M{LEFT} {TOP}V{bottom}H{}\"/>", WIDTH - RIGHT);
    let middle = LEFT + inner_width / 2.0;
    push!(
        svg,
        "<text class=\"label\" x=\"{middle}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
        HEIGHT - 8.0,
        escape(x.text)
    );
    let middle = TOP + inner_height / 2.0;
    push!(
        svg,
        "<text class=\"label\" transform=\"translate(14 {middle}) rotate(-90)\" text-anchor=\"middle\">{}</text>",
        escape(y.text)
    );
    for line in series {
        let mut path = String::new();
        for (place, (x, y)) in line.points.iter().enumerate() {
            let (x, y) = (at_x(*x), at_y(*y));
            match (place, line.steps) {
                (0, _) => push!(path, "M{x:.1} {y:.1}"),
                (_, true) => push!(path, "H{x:.1}V{y:.1}"),
                (_, false) => push!(path, "L{x:.1} {y:.1}"),
            }
        }
        let class = if line.faint { "faint" } else { "line" };
        let look = &line.look;
        push!(svg, "<path class=\"{class} {look}\" d=\"{path}\"/>");
    }
    let mut legend = String::new();
    for line in series.iter().filter(|line| !line.faint) {
        let name = escape(&line.name);
        let sample = format!("<path class=\"line {}\" d=\"M0 4H28\"/>", line.look);
        push!(legend, "<span><svg class=\"key\" viewBox=\"0 0 28 8\">{sample}</svg>{name}</span>");
    }
    format!(
        "<figure><figcaption>{0}<div class=\"legend\">{legend}</div></figcaption>\
         <svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{0}\">{svg}</svg></figure>\n",
        escape(title)
    )
}
