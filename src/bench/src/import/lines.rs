//! Lines of a text with their numbers, and the numbers in them.

use super::Error;
use super::fields::shortened;

/// A line without colours, and where it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Line {
    pub(super) format: &'static str,
    /// From 1.
    pub(super) number: usize,
    pub(super) text: String,
}

impl Line {
    pub(super) fn wrong(&self, why: &'static str) -> Error {
        Error::Line { format: self.format, number: self.number, line: shortened(&self.text), why }
    }
}

pub(super) fn lines(format: &'static str, text: &str) -> Vec<Line> {
    let line = |(place, text): (usize, &str)| Line { format, number: place + 1, text: without_colours(text) };
    text.lines().enumerate().map(line).collect()
}

/// Leaves out what a terminal takes as colours: ESC, `[`, up to a letter.
fn without_colours(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        if character == '\u{1b}' {
            if characters.next() == Some('[') {
                characters.by_ref().find(char::is_ascii_alphabetic);
            }
        } else {
            plain.push(character);
        }
    }
    plain
}

/// A number that is not negative, with or without commas between thousands.
pub(super) fn number(text: &str) -> Option<f64> {
    let plain = text.trim().replace(',', "");
    let digits = !plain.is_empty() && plain.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    plain.parse().ok().filter(|number: &f64| digits && number.is_finite())
}

/// A number with one of these units: `21.3 MB`, `1.5k`, `635.91us`. A unit of nothing comes last.
pub(super) fn with_unit(text: &str, units: &[(&str, f64)]) -> Option<f64> {
    let text = text.trim();
    units.iter().find_map(|(unit, factor)| Some(number(text.strip_suffix(unit)?)? * factor))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_in_texts() {
        assert_eq!(number(" 3,321.2 "), Some(3321.2));
        for text in ["", "-1", "inf", "NaN", "1e5", "1.2.3", "5x"] {
            assert_eq!(number(text), None, "{text}");
        }
        let units = [("MB", 1e6), ("B", 1.0), ("", 1.0)];
        assert_eq!(with_unit("21.3 MB", &units), Some(21.3e6));
        assert_eq!(with_unit("7", &units), Some(7.0));
        assert_eq!(with_unit("7 kB", &units), None);
    }

    #[test]
    fn colours_are_left_out() {
        assert_eq!(without_colours("\u{1b}[36mStat\u{1b}[39m"), "Stat");
        assert_eq!(without_colours("a\u{1b}"), "a");
        assert_eq!(without_colours("a\u{1b}[3"), "a");
    }
}
