//! A PERFORMANCE.md. The same results give the same bytes, so that it can be written anew from the JSON and compared.

use super::summary;
use super::table::markdown;
use crate::results::Results;

/// The whole file. `regenerate`: the command that writes it, for its head.
pub fn text(results: &Results, regenerate: &str) -> String {
    let title = if results.title.is_empty() { "Performance" } else { &results.title };
    let mut text = format!("# {title}\n\n");
    if !regenerate.is_empty() {
        push!(text, "Written by `{regenerate}`; changes made by hand are lost.\n\n");
    }
    push!(text, "{}\n", summary::when_and_where(results));
    for line in summary::warnings(results) {
        push!(text, "\n**{line}**\n");
    }
    for row in results.rows() {
        push!(text, "\n## {row}\n\n{}", markdown(&summary::figures(results, row)));
    }
    let searches = summary::searches(results);
    if searches.len() > 1 {
        push!(text, "\n## The highest rates\n\n{}", markdown(&searches));
    }
    if !results.comparisons.is_empty() {
        push!(text, "\n## What can be told\n\n{}\n", summary::HOW_TO_READ);
        for (caption, rows) in summary::comparisons(results) {
            push!(text, "\n{caption}\n\n{}", markdown(&rows));
        }
    }
    let invalid = summary::invalid(results);
    if invalid.len() > 1 {
        push!(text, "\n## Runs that can't be believed\n\n{}", markdown(&invalid));
    }
    let notices = summary::notices(results);
    if notices.len() > 1 {
        push!(text, "\n## What to know of the others\n\n{}", markdown(&notices));
    }
    let provenance = markdown(&summary::provenance(results)).replace("---:", "---");
    push!(text, "\n## How it was measured\n\n{provenance}");
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reports::{json, samples};

    #[test]
    fn it_is_the_same_when_written_anew_from_the_json() {
        let results = samples::results();
        let first = text(&results, "kubectl workerapp bench report");
        let read: Results = serde_json::from_str(&json::text(&results).unwrap()).unwrap();
        assert_eq!(text(&read, "kubectl workerapp bench report"), first);
        for part in [
            "# Two ways",
            "## 50 connections",
            "| median | one | workers |",
            "can't be believed",
            "| seed | 7 |",
        ] {
            assert!(first.contains(part), "{part}:\n{first}");
        }
    }
}
