//! Columns that line up, and the text of metrics.

use std::collections::BTreeMap;

/// The first row is the head. The first column is to the left, all others to the right.
pub(crate) fn aligned(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut text = String::new();
    for row in rows {
        let mut line = String::new();
        for (column, (cell, width)) in row.iter().zip(&widths).enumerate() {
            let padding = " ".repeat(width.saturating_sub(cell.chars().count()));
            if column == 0 {
                line.push_str(cell);
                line.push_str(&padding);
            } else {
                line.push_str("  ");
                line.push_str(&padding);
                line.push_str(cell);
            }
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// The samples of one metric in the text that Prometheus reads: labels and value. The values of the labels hold no quotes here.
pub(crate) fn scrape<'a>(
    text: &'a str,
    metric: &'a str,
) -> impl Iterator<Item = (BTreeMap<&'a str, String>, f64)> {
    text.lines().filter_map(move |line| {
        let (series, value) = line.rsplit_once(' ')?;
        let labels = series.strip_prefix(metric)?;
        let labels = match labels.strip_prefix('{') {
            Some(labels) => labels.strip_suffix('}')?,
            None if labels.is_empty() => "",
            None => return None,
        };
        let labels = labels.split("\",").filter_map(|label| label.split_once("=\""));
        let labels = labels.map(|(name, value)| (name, value.trim_end_matches('"').to_owned())).collect();
        Some((labels, value.parse().ok()?))
    })
}

/// Strings of anything that can be shown.
#[macro_export]
macro_rules! row {
    ($($cell:expr),* $(,)?) => { vec![$($cell.to_string()),*] };
}

#[cfg(test)]
mod tests {
    #[test]
    fn samples_are_read() {
        let text = "# HELP a b\na{x=\"1\",y=\"a,b\"} 2\na_more 3\na 4\n";
        let samples: Vec<_> = super::scrape(text, "a").collect();
        assert_eq!(samples.len(), 2, "{samples:?}");
        assert_eq!((samples[0].0["x"].as_str(), samples[0].0["y"].as_str(), samples[0].1), ("1", "a,b", 2.0));
        assert_eq!((samples[1].0.len(), samples[1].1), (0, 4.0));
    }

    #[test]
    fn columns_line_up() {
        let rows = [row!["name", "n"], row!["a", 100], row!["µs", 7, "more"]];
        assert_eq!(super::aligned(&rows), "name    n\na     100\nµs      7  more\n");
        assert_eq!(super::aligned(&[]), "");
    }
}
