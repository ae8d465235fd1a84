//! How results are printed: tables, trees, JSON, YAML, names. Results go to stdout and nowhere else.

use std::io::{IsTerminal as _, Write as _};

use clap::ValueEnum;
use serde::Serialize;
pub(crate) use workerapp_bench::reports::numbers::counted;
use workerapp_bench::reports::table::to_the_left;

use crate::error::Error;

/// The form of a result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// For people
    #[default]
    #[value(skip)]
    Text,
    /// For people, with more columns
    Wide,
    /// For programs
    Json,
    /// For programs and people
    Yaml,
    /// Names, one a line: KIND/NAME of objects
    Name,
}

/// Prints to stdout.
pub(crate) fn print(text: &str) -> Result<(), Error> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Err(Error::Closed),
        Err(error) => Err(Error::Stdout(error)),
    }
}

/// Tells something beside the result, on stderr.
pub(crate) fn note(text: &str) {
    // There is nowhere left to say that this failed.
    let _ = writeln!(std::io::stderr(), "{text}");
}

/// JSON or YAML of a result.
pub(crate) fn structured(format: Format, result: &impl Serialize) -> Result<String, Error> {
    if format == Format::Yaml {
        return yaml(result);
    }
    let mut text = serde_json::to_string_pretty(result)
        .map_err(|error| Error::Format { format: "JSON", why: error.to_string() })?;
    text.push('\n');
    Ok(text)
}

/// YAML, ending with a line break.
pub(crate) fn yaml(result: &impl Serialize) -> Result<String, Error> {
    let mut text = serde_saphyr::to_string(result)
        .map_err(|error| Error::Format { format: "YAML", why: error.to_string() })?;
    if !text.ends_with('\n') {
        text.push('\n');
    }
    Ok(text)
}

/// Texts, each on a line of its own.
pub(crate) fn lines(texts: impl IntoIterator<Item = String>) -> String {
    texts.into_iter().fold(String::new(), |all, text| all + &text + "\n")
}

/// A table with columns as wide as they must be, two spaces apart; nothing stands after a row's last text.
pub(crate) fn table(head: &[&str], rows: &[Vec<String>]) -> String {
    let head: Vec<String> = head.iter().map(|&text| text.to_owned()).collect();
    let head = Some(head).filter(|head| !head.is_empty());
    to_the_left(&head.into_iter().chain(rows.iter().cloned()).collect::<Vec<_>>())
}

/// When colours are used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Color {
    /// On a terminal, unless `NO_COLOR` is set
    #[default]
    Auto,
    /// Always
    Always,
    /// Never
    Never,
}

impl Color {
    /// Whether stdout gets colours.
    pub(crate) fn wanted(self) -> bool {
        match self {
            Self::Always => true,
            Self::Never => false,
            Self::Auto => {
                std::io::stdout().is_terminal()
                    && std::env::var_os("NO_COLOR").is_none_or(|set| set.is_empty())
            }
        }
    }
}

/// Green, for what is new or well.
pub(crate) const GREEN: &str = "\x1b[32m";
/// Red, for what is gone or wrong.
pub(crate) const RED: &str = "\x1b[31m";
/// Yellow, for what may surprise.
pub(crate) const YELLOW: &str = "\x1b[33m";
/// Cyan, for places.
pub(crate) const CYAN: &str = "\x1b[36m";
/// The end of a colour.
pub(crate) const PLAIN: &str = "\x1b[0m";

#[cfg(test)]
mod tests {
    use super::table;

    #[test]
    fn columns_are_aligned_and_lines_have_no_spaces_at_their_end() {
        let rows = [vec!["a".to_owned(), "1".to_owned()], vec!["größer".to_owned(), String::new()]];
        assert_eq!(table(&["NAME", "N"], &rows), "NAME    N\na       1\ngrößer\n");
        assert_eq!(table(&[], &rows), "a       1\ngrößer\n");
    }
}
