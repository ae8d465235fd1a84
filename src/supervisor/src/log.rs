//! Lines for the container's log, on standard error.

use crate::fleet::Severity;
use std::fmt::Display;
use std::io::{self, PipeWriter, Write};
use std::sync::{Mutex, PoisonError};

/// Where lines go instead.
static DETOUR: Mutex<Option<PipeWriter>> = Mutex::new(None);

/// From now on lines go there; with `None`, to standard error again.
pub(crate) fn redirect(to: Option<PipeWriter>) {
    *DETOUR.lock().unwrap_or_else(PoisonError::into_inner) = to;
}

/// Writes one line, marked as ours: it stands between the app's own.
pub(crate) fn write(severity: Severity, text: &impl Display) {
    let mark = match severity {
        Severity::Info => "",
        Severity::Warning => "warning: ",
        Severity::Error => "error: ",
    };
    let line = format!("[workerapp] {mark}{text}\n");
    // In one piece, so that lines of workers do not get into it. If nobody reads the log there is nobody to tell.
    let mut detour = DETOUR.lock().unwrap_or_else(PoisonError::into_inner);
    let _ = match detour.as_mut() {
        Some(pipe) => pipe.write_all(line.as_bytes()),
        None => io::stderr().write_all(line.as_bytes()),
    };
}
