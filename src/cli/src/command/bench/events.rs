//! What the program in the cluster tells the one that started it, beside the lines for people: a line for each moment at which the
//! pods are to be looked at.

use std::fmt;

/// No line for people begins with it.
const MARK: char = '@';

/// A moment of a campaign.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Event {
    /// A run of the target with this number begins with its warm-up.
    Begin(usize),
    /// The warm-up is over.
    Measure,
    /// In a search: a rate was tried.
    Tried,
    /// The run is over.
    End,
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Begin(target) => write!(f, "{MARK}begin {target}"),
            Self::Measure => write!(f, "{MARK}measure"),
            Self::Tried => write!(f, "{MARK}tried"),
            Self::End => write!(f, "{MARK}end"),
        }
    }
}

impl Event {
    /// Reads a line; nothing if it is one for people.
    pub(super) fn read(line: &str) -> Option<Self> {
        match line.strip_prefix(MARK)? {
            "measure" => Some(Self::Measure),
            "tried" => Some(Self::Tried),
            "end" => Some(Self::End),
            other => other.strip_prefix("begin ")?.parse().ok().map(Self::Begin),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        for event in [Event::Begin(3), Event::Measure, Event::Tried, Event::End] {
            assert_eq!(Event::read(&event.to_string()), Some(event));
        }
        for line in ["", "run 1 of 2", "@", "@begin x", "begin 1"] {
            assert_eq!(Event::read(line), None, "{line}");
        }
    }
}
