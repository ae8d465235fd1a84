//! What the supervisor tells the user in the container's log.

use super::{Cause, Reason, WorkerId};
use crate::sys::process::ExitStatus;
use crate::sys::signal::Signal;
use std::fmt;
use std::time::Duration;

/// How much a line in the log matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Severity {
    /// Good to know.
    Info,
    /// Something is not as it should be.
    Warning,
    /// Something failed for good.
    Error,
}

/// One line in the log.
///
/// A worker that ended is started `again` after so many failures in a row, or not. Without a number of failures, giving up is for a
/// canary's.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs, reason = "each variant's text is its documentation")]
pub enum Notice {
    Ready { worker: WorkerId, took: Duration, port: Option<u16> },
    Exited { worker: WorkerId, status: ExitStatus, ran: Duration, listened: bool, again: Option<u32> },
    Stopped { worker: WorkerId, status: ExitStatus },
    CannotRun { worker: WorkerId, why: String },
    GivingUp { status: ExitStatus, failures: Option<u32> },
    Complaint(Reason),
    Rolling { workers: usize },
    Replacing { worker: WorkerId, cause: Cause },
    ReplacementFailed { worker: WorkerId, why: Failure },
    ReplacedInVain(Reason),
    Replaced,
    Hung { worker: WorkerId, time: Duration },
    Stopping { signal: Signal, lame_duck: Duration, patience: Duration },
    Hastened { signal: Signal },
    Killing,
}

/// Why a rolling restart, or another replacement, was called off.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Failure {
    /// The successor ended.
    Ended {
        /// How.
        status: ExitStatus,
        /// After this time.
        ran: Duration,
    },
    /// The successor did not come as far as its predecessor in time.
    Late(Reason),
    /// What was replaced does not go.
    Lost,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ended { status, ran } => {
                write!(f, "it ended with {status} after {}, before it listened", Seconds(*ran))
            }
            Self::Late(reason) => reason.fmt(f),
            Self::Lost => f.write_str("its predecessor does not end"),
        }
    }
}

impl Notice {
    /// How much it matters.
    pub fn severity(&self) -> Severity {
        match self {
            Self::Ready { .. }
            | Self::Stopped { .. }
            | Self::Stopping { .. }
            | Self::Hastened { .. }
            | Self::Rolling { .. }
            | Self::Replacing { .. }
            | Self::Replaced => Severity::Info,
            Self::Exited { .. }
            | Self::Complaint(_)
            | Self::Killing
            | Self::Hung { .. }
            | Self::ReplacedInVain(_)
            | Self::ReplacementFailed { .. } => Severity::Warning,
            Self::CannotRun { .. } | Self::GivingUp { .. } => Severity::Error,
        }
    }
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ready { worker, took, port: Some(port) } => {
                write!(f, "worker {worker} listens on port {port} after {}", Seconds(*took))
            }
            Self::Ready { worker, took, port: None } => {
                write!(f, "worker {worker} has been running for {}", Seconds(*took))
            }
            Self::Exited { worker, status, ran, listened, again } => {
                write!(f, "worker {worker} ended with {status} after {}", Seconds(*ran))?;
                if !listened {
                    f.write_str(", before it listened")?;
                }
                match again {
                    None => Ok(()),
                    Some(0 | 1) => f.write_str("; restarting it"),
                    Some(n) => write!(f, "; restarting it (failure {n} in a row)"),
                }
            }
            Self::Stopped { worker, status } => write!(f, "worker {worker} stopped ({status})"),
            Self::CannotRun { worker, why } => write!(f, "cannot start worker {worker}: {why}"),
            Self::GivingUp { status, failures: None } => write!(
                f,
                "giving up: the first worker ended before it listened; ending with code {}",
                status.code()
            ),
            Self::GivingUp { status, failures: Some(failures) } => write!(
                f,
                "giving up: no worker listens and each has failed at least {failures} times in a row, the last with {status}; ending with code {}",
                status.code()
            ),
            Self::Complaint(reason) => reason.fmt(f),
            Self::Rolling { workers: 0 } => f.write_str(
                "rolling restart: nothing to replace, every worker has just been started or is about to be",
            ),
            Self::Rolling { workers: 1 } => f.write_str("rolling restart of 1 worker"),
            Self::Rolling { workers } => write!(f, "rolling restart of {workers} workers, one at a time"),
            Self::Replacing { worker, cause } => {
                let why = match cause {
                    Cause::Age => "has reached its age",
                    Cause::Memory => "has grown too large",
                    Cause::Requests => "has answered enough requests",
                    _ => "is due",
                };
                write!(f, "worker {worker} {why}: replacing it")
            }
            Self::ReplacementFailed { worker, why } => {
                let what = "did not come to listen: the restart is off, the old workers go on";
                write!(f, "the successor of worker {worker} {what} ({why})")
            }
            Self::ReplacedInVain(reason) => write!(f, "replaced, but {reason}"),
            Self::Replaced => f.write_str("every worker that was due is replaced"),
            Self::Hung { worker, time } => {
                let time = Seconds(*time);
                write!(f, "worker {worker} has taken no connection for {time}, though some wait: ending it")
            }
            Self::Stopping { signal, lame_duck, patience } if lame_duck.is_zero() => {
                write!(f, "{signal}: stopping; workers get {} before they are killed", Seconds(*patience))
            }
            Self::Stopping { signal, lame_duck, patience } => write!(
                f,
                "{signal}: not ready any more; serving for another {}, then stopping, all within {}",
                Seconds(*lame_duck),
                Seconds(*patience)
            ),
            Self::Hastened { signal } => write!(f, "{signal} again: not waiting any longer"),
            Self::Killing => f.write_str("some processes did not stop in time: killing them"),
        }
    }
}

/// A duration as people write it.
struct Seconds(Duration);

impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.0.as_secs_f64();
        if seconds < 10.0 { write!(f, "{seconds:.2} s") } else { write!(f, "{seconds:.0} s") }
    }
}
