//! The last line of a terminal, which tells what goes on.

use std::io::IsTerminal as _;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// The line at the bottom of a terminal; nothing elsewhere.
#[derive(Clone)]
pub(crate) struct Line(Option<ProgressBar>);

impl Line {
    /// None where it isn't wanted, or stderr is no terminal.
    pub(crate) fn new(quiet: bool) -> Self {
        if quiet || !std::io::stderr().is_terminal() {
            return Self(None);
        }
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
        if let Ok(style) = ProgressStyle::with_template("{wide_msg}") {
            bar.set_style(style);
        }
        Self(Some(bar))
    }

    /// Whether there is one.
    pub(crate) fn shown(&self) -> bool {
        self.0.is_some()
    }

    /// Draws it anew.
    pub(crate) fn set(&self, text: String) {
        if let Some(bar) = &self.0 {
            bar.set_message(text);
            bar.tick();
        }
    }

    /// Writes something that stays, above it.
    pub(crate) fn above(&self, write: impl FnOnce()) {
        match &self.0 {
            Some(bar) => bar.suspend(write),
            None => write(),
        }
    }

    /// Removes it.
    pub(crate) fn end(&self) {
        if let Some(bar) = &self.0 {
            bar.finish_and_clear();
        }
    }
}
