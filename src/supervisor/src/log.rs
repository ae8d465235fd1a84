//! Lines for the container's log, on standard error.

use crate::fleet::Severity;
use std::fmt::Display;
use std::io::{self, Write};

/// Writes one line, marked as ours: it stands between the app's own.
pub(crate) fn write(severity: Severity, text: &impl Display) {
    let mark = match severity {
        Severity::Info => "",
        Severity::Warning => "warning: ",
        Severity::Error => "error: ",
    };
    let line = format!("[workerapp] {mark}{text}\n");
    // In one piece, so that lines of workers do not get into it. If nobody reads the log there is nobody to tell.
    let _ = io::stderr().write_all(line.as_bytes());
}
