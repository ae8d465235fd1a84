//! Tables of text.

fn widths(rows: &[Vec<String>]) -> Vec<usize> {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    (0..columns)
        .map(|column| rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max())
        .map(Option::unwrap_or_default)
        .collect()
}

/// With lines around every cell and a space on both sides of it, cells to the left.
pub(super) fn boxed(rows: &[Vec<String>]) -> String {
    let widths = widths(rows);
    let line = |left: &str, cross: &str, right: &str| {
        let bars: Vec<String> = widths.iter().map(|width| "─".repeat(width + 2)).collect();
        format!("{left}{}{right}\n", bars.join(cross))
    };
    let mut text = line("┌", "┬", "┐");
    for (place, row) in rows.iter().enumerate() {
        if place > 0 {
            text.push_str(&line("├", "┼", "┤"));
        }
        for (column, width) in widths.iter().enumerate() {
            let cell = row.get(column).map_or("", String::as_str);
            push!(text, "│ {cell:width$} ");
        }
        text.push_str("│\n");
    }
    text.push_str(&line("└", "┴", "┘"));
    text
}

/// Two spaces between columns; the first to the left, the others to the right, as numbers stand.
pub fn aligned(rows: &[Vec<String>]) -> String {
    spaced(
        rows,
        |column, cell, width| {
            if column == 0 { format!("{cell:width$}") } else { format!("{cell:>width$}") }
        },
    )
}

/// Two spaces between columns, all of them to the left.
pub fn to_the_left(rows: &[Vec<String>]) -> String {
    spaced(rows, |_, cell, width| format!("{cell:width$}"))
}

/// Nothing stands after a row's last text.
fn spaced(rows: &[Vec<String>], padded: impl Fn(usize, &str, usize) -> String) -> String {
    let widths = widths(rows);
    let mut text = String::new();
    for row in rows {
        let cells = row.iter().zip(&widths).enumerate();
        let cells: Vec<_> = cells.map(|(column, (cell, width))| padded(column, cell, *width)).collect();
        text.push_str(cells.join("  ").trim_end());
        text.push('\n');
    }
    text
}

/// A row of anything that can be shown.
#[macro_export]
macro_rules! row {
    ($($cell:expr),* $(,)?) => { vec![$($cell.to_string()),*] };
}

/// For markdown; the first row is the head. Columns but the first are to the right.
pub fn markdown(rows: &[Vec<String>]) -> String {
    let mut text = String::new();
    for (place, row) in rows.iter().enumerate() {
        let cells: Vec<String> = row.iter().map(|cell| cell.replace('|', "\\|").replace('\n', " ")).collect();
        push!(text, "| {} |\n", cells.join(" | "));
        if place == 0 {
            let marks: Vec<&str> =
                (0..row.len()).map(|column| if column == 0 { "---" } else { "---:" }).collect();
            push!(text, "| {} |\n", marks.join(" | "));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows() -> Vec<Vec<String>> {
        [["a", "µs"], ["long", "1"]].map(|row| row.map(str::to_owned).to_vec()).to_vec()
    }

    #[test]
    fn tables() {
        assert_eq!(aligned(&rows()), "a     µs\nlong   1\n");
        assert_eq!(
            boxed(&rows()),
            "┌──────┬────┐\n│ a    │ µs │\n├──────┼────┤\n│ long │ 1  │\n└──────┴────┘\n"
        );
        assert_eq!(markdown(&rows()), "| a | µs |\n| --- | ---: |\n| long | 1 |\n");
        assert_eq!(markdown(&[vec!["a|b".to_owned()]]), "| a\\|b |\n| --- |\n");
        assert_eq!(aligned(&[]), "");
    }

    #[test]
    fn rows_may_be_longer_than_the_first() {
        let rows = [row!["name", "n"], row!["a", 100], row!["µs", 7, "more"]];
        assert_eq!(aligned(&rows), "name    n\na     100\nµs      7  more\n");
        assert_eq!(to_the_left(&rows), "name  n\na     100\nµs    7    more\n");
    }
}
