//! One page that needs nothing else: style and plots are in it, and no script.

mod plot;
mod scale;
mod series;

use super::summary;
use crate::results::Results;
use plot::{Axis, figure};
use scale::Kind;

/// The page.
pub fn page(results: &Results) -> String {
    let title = if results.title.is_empty() { "Benchmark" } else { &results.title };
    let title = escape(title);
    let mut body = format!("<h1>{title}</h1>\n");
    push!(body, "<p class=\"soft\">{}</p>\n", escape(&summary::when_and_where(results)));
    for line in summary::warnings(results) {
        push!(body, "<p class=\"bad\">{}</p>\n", escape(&line));
    }
    for row in results.rows() {
        push!(body, "<h2>{}</h2>\n", escape(row));
        body.push_str(&table(&summary::figures(results, row), "figures"));
        body.push_str(&plots(results, row));
    }
    let searches = summary::searches(results);
    if searches.len() > 1 {
        push!(body, "<h2>The highest rates</h2>\n{}", table(&searches, "prose"));
    }
    if !results.comparisons.is_empty() {
        body.push_str("<h2>What can be told</h2>\n");
        push!(body, "<p>{}</p>\n", escape(summary::HOW_TO_READ));
        for (caption, rows) in summary::comparisons(results) {
            push!(body, "<h3>{}</h3>\n{}", escape(&caption), table(&rows, "findings"));
        }
    }
    let invalid = summary::invalid(results);
    if invalid.len() > 1 {
        body.push_str("<h2>Runs that can’t be believed</h2>\n");
        body.push_str(&table(&invalid, "prose verdicts"));
    }
    let notices = summary::notices(results);
    if notices.len() > 1 {
        push!(body, "<h2>What to know of the others</h2>\n{}", table(&notices, "prose"));
    }
    body.push_str("<h2>How it was measured</h2>\n");
    body.push_str(&table(&summary::provenance(results), "prose"));
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>{title}</title>\n\
         <style>\n{}</style>\n</head>\n<body>\n{body}</body>\n</html>\n",
        include_str!("style.css")
    )
}

fn plots(results: &Results, row: &str) -> String {
    let seconds = Axis { text: "seconds since the begin of the measurement", kind: Kind::Linear };
    let latency = series::of(results, row, series::latency, false);
    // Latencies that lie far apart are all seen only on a logarithmic axis.
    let values = || latency.iter().flat_map(|line| &line.points).map(|(_, ms)| *ms);
    let spread = values().fold(0.0, f64::max) > 20.0 * values().fold(f64::INFINITY, f64::min);
    let kind = if spread { Kind::Logarithmic } else { Kind::Linear };
    let text = if spread { "latency in ms (logarithmic)" } else { "latency in ms" };
    let percentile = Axis { text: "percent of the answers that came within it", kind: Kind::Nines };
    let axis = |text| Axis { text, kind: Kind::Linear };
    [
        figure("Latency percentiles", percentile, Axis { text, kind }, &latency),
        figure(
            "Throughput over time",
            seconds,
            axis("good answers per second"),
            &series::of(results, row, series::throughput, false),
        ),
        figure(
            "Mean latency over time",
            seconds,
            axis("latency in ms"),
            &series::of(results, row, series::latency_over_time, false),
        ),
        figure(
            "Replicas over time",
            seconds,
            Axis { text: "pods that were ready", kind: Kind::Whole },
            &series::of(results, row, series::replicas, true),
        ),
    ]
    .concat()
}

/// The first row is the head; one without a word is left out.
fn table(rows: &[Vec<String>], class: &str) -> String {
    let mut text = format!("<div class=\"scroll\"><table class=\"{class}\">\n");
    for (place, row) in rows.iter().enumerate() {
        if place == 0 && row.iter().all(String::is_empty) {
            continue;
        }
        let tag = if place == 0 { "th" } else { "td" };
        text.push_str("<tr>");
        for cell in row {
            push!(text, "<{tag}>{}</{tag}>", escape(cell));
        }
        text.push_str("</tr>\n");
    }
    text + "</table></div>\n"
}

/// For text and for attributes in double quotes.
pub(super) fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reports::samples;

    #[test]
    fn everything_is_on_one_page_that_loads_nothing() {
        let page = page(&samples::results());
        for text in [
            "Latency percentiles",
            "Throughput over time",
            "Replicas over time",
            "latency in ms",
            "good answers per second",
            "50 connections",
            "What can be told",
            "can’t be believed",
            "seed",
            "prefers-color-scheme: dark",
        ] {
            assert!(page.contains(text), "{text}");
        }
        for reference in ["http-equiv", "<script", "src=", "href=", "url(", "@import"] {
            assert!(!page.contains(reference), "{reference}");
        }
        assert!(!page.contains("NaN") && !page.contains("inf"), "a place that is no number");
    }

    #[test]
    fn names_are_text_and_nothing_else() {
        let mut results = samples::results();
        let name = "<script>alert(\"1\")</script>";
        results.title = name.into();
        results.targets[0] = name.into();
        results.runs.iter_mut().for_each(|run| run.target = name.into());
        assert!(!page(&results).contains("<script"));
    }

    #[test]
    fn nothing_measured_is_a_page_too() {
        assert!(page(&Results::default()).contains("<h1>Benchmark</h1>"));
    }
}
