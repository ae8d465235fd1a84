//! Everything that can end the supervisor before or beside its workers.

use std::io;
use std::path::PathBuf;

/// One variant per cause, with what the user needs to know.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "each variant's text is its documentation")]
pub enum Error {
    #[error("{0}; see --help")]
    Usage(String),
    #[error("cannot listen on the admin port {port}: {source}; choose another with --admin-port")]
    AdminPort { port: u16, source: io::Error },
    #[error("cannot set up signal handling: {0}")]
    Signals(io::Error),
    #[error("cannot set up the event loop: {0}")]
    EventLoop(io::Error),
    #[error("cannot read this program's own file: {0}")]
    OwnFile(io::Error),
    #[error("cannot install to {}: {source}; is its directory writable for user {uid}?", path.display())]
    Install { path: PathBuf, uid: u32, source: io::Error },
}

impl Error {
    /// What the process ends with.
    pub fn exit_code(&self) -> i32 {
        match self {
            // EX_USAGE of sysexits.h.
            Self::Usage(_) => 64,
            _ => 1,
        }
    }
}
