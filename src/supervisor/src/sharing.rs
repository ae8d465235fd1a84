//! How the workers share the port here, found out before the first worker starts.

use crate::inspect;
use crate::procfs;
use crate::sys::seccomp::{Answer, Listener};
use crate::sys::{socket, spawn};
use std::fmt;
use std::io;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::{AsFd, AsRawFd};

/// The way that is used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Each worker's bind is answered with the socket of its slot.
    Slots,
    /// The command shares the port by itself; its calls are only watched.
    HandsOff,
    /// Slots are refused, and Node shares the port by itself (`SO_REUSEPORT`), as our lines in it have told.
    ReusePort(String),
    /// Nobody can share: one copy of the command runs, and nobody sees its calls.
    Single(String),
    /// The command shares the port by itself, and nobody sees its calls.
    Unwatched(String),
}

impl Mode {
    pub(crate) const NAMES: &[&str] = &["slots", "none", "reuseport", "single", "unwatched"];

    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Slots => "slots",
            Self::HandsOff => "none",
            Self::ReusePort(_) => "reuseport",
            Self::Single(_) => "single",
            Self::Unwatched(_) => "unwatched",
        }
    }

    /// Why it is not what was asked for.
    pub(crate) fn detail(&self) -> Option<String> {
        match self {
            Self::Slots | Self::HandsOff => None,
            Self::ReusePort(why) | Self::Single(why) | Self::Unwatched(why) => Some(why.clone()),
        }
    }

    /// Are the workers' calls handed to us?
    pub(crate) fn is_watched(&self) -> bool {
        matches!(self, Self::Slots | Self::HandsOff)
    }
}

/// What the kernel or the sandbox refused.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Refusal {
    #[error("a seccomp listener is refused ({}; a kernel before 5.0, a sandbox such as gVisor, or a listener of the container runtime's own)", Errno(.0))]
    Install(io::Error),
    #[error("a seccomp listener gets no calls ({})", Errno(.0))]
    Receive(io::Error),
    #[error("/proc of the workers may not be read ({})", Errno(.0))]
    Inspect(io::Error),
    #[error("a socket may not be put into a worker ({}; needs Linux 5.9)", Errno(.0))]
    Inject(io::Error),
    #[error("a bind call under a seccomp listener failed (errno {0})")]
    Result(i32),
}

/// An errno by the name that people search for.
struct Errno<'a>(&'a io::Error);

impl fmt::Display for Errno<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self.0.raw_os_error() {
            Some(libc::EINVAL) => "EINVAL",
            Some(libc::EPERM) => "EPERM",
            Some(libc::EBUSY) => "EBUSY",
            Some(libc::EACCES) => "EACCES",
            Some(libc::ENOSYS) => "ENOSYS",
            _ => return self.0.fmt(f),
        };
        f.write_str(name)
    }
}

/// Does all of it once, with a throw-away process: filter, call, look, replace, answer.
pub(crate) fn probe() -> Result<(), Refusal> {
    const PATIENCE_MS: i32 = 2_000;
    let theirs = socket::unbound().map_err(Refusal::Install)?;
    let number = theirs.as_raw_fd().unsigned_abs();
    let anywhere = SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0);
    let (pid, listener) = spawn::trial(&theirs, anywhere).map_err(Refusal::Install)?;
    let result = if spawn::readable_within(&listener, PATIENCE_MS) {
        answer_trial(&listener, number)
    } else {
        Err(Refusal::Receive(io::ErrorKind::TimedOut.into()))
    };
    // Without a listener the child's call fails at once, so that the wait cannot last.
    drop(listener);
    match (result, spawn::wait(pid)) {
        (Err(refusal), _) => Err(refusal),
        (Ok(()), Some(0)) => Ok(()),
        (Ok(()), code) => Err(Refusal::Result(code.unwrap_or(-1))),
    }
}

fn answer_trial(listener: &Listener, number: u32) -> Result<(), Refusal> {
    let call = listener.receive().map_err(Refusal::Receive)?;
    let call = call.ok_or_else(|| Refusal::Receive(io::ErrorKind::NotFound.into()))?;
    let looked = inspect::as_caller(call.thread, || {
        procfs::file_flags(call.thread, number)?;
        procfs::protocol(call.thread, number)?;
        procfs::socket_inode(call.thread, number)?;
        let mut family = [0; 2];
        procfs::read_memory(call.thread, call.arguments[1], &mut family)
    });
    looked.map_err(Refusal::Inspect)?;
    let ours = socket::unbound().map_err(Refusal::Inject)?;
    listener.replace(&call, number, ours.as_fd(), true).map_err(Refusal::Inject)?;
    listener.answer(&call, Answer::Success).map_err(Refusal::Inject)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_name_the_errno() {
        let text = Refusal::Install(io::Error::from_raw_os_error(libc::EBUSY)).to_string();
        assert!(text.contains("(EBUSY;"), "{text}");
    }
}
