//! Metrics down, servers across, one table for each row of a ladder.

use super::summary;
use super::table::{aligned, to_the_left};
use crate::results::Results;

/// Plain text.
pub fn text(results: &Results) -> String {
    let mut text = String::new();
    for row in results.rows() {
        let mut rows = summary::figures(results, row);
        if let Some(corner) = rows.first_mut().and_then(|head| head.first_mut()) {
            row.clone_into(corner);
        }
        text.push_str(&aligned(&rows));
        text.push('\n');
    }
    text
}

/// The comparisons, warnings and invalid runs below it: what a terminal shows at the end.
pub fn findings(results: &Results) -> String {
    let mut text = String::new();
    for line in summary::warnings(results) {
        push!(text, "{line}\n");
    }
    for row in summary::invalid(results).iter().skip(1) {
        push!(text, "invalid: {}\n", row.join(": "));
    }
    for row in summary::notices(results).iter().skip(1) {
        push!(text, "notice: {}\n", row.join(": "));
    }
    let searches = summary::searches(results);
    if searches.len() > 1 {
        push!(text, "\n{}", to_the_left(&searches));
    }
    for (caption, rows) in summary::comparisons(results) {
        push!(text, "\n{caption}\n{}", aligned(&rows));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reports::samples;

    #[test]
    fn every_row_and_server_has_its_place() {
        let text = text(&samples::results());
        let rows: Vec<&str> = text.lines().filter(|line| line.contains("connections")).collect();
        assert_eq!(rows.len(), 2, "{text}");
        assert!(rows[0].contains("50 connections") && rows[0].ends_with("workers"), "{text}");
        assert!(text.contains("requests/s") && text.contains("p99 ms"), "{text}");
    }

    #[test]
    fn what_can_not_be_believed_is_said() {
        let text = findings(&samples::results());
        assert!(text.contains("invalid: workers, 500 connections, round 1: errors: 3 of"), "{text}");
        assert!(
            text.contains("workers against one, 500 connections: 4 pairs, 1 left out") && text.contains('~'),
            "{text}"
        );
    }
}
