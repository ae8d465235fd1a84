//! Signals as something to read, and their names.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

/// Every name that `--stop-signal` takes, and that messages use.
const NAMES: &[(&str, libc::c_int)] = &[
    ("SIGHUP", libc::SIGHUP),
    ("SIGINT", libc::SIGINT),
    ("SIGQUIT", libc::SIGQUIT),
    ("SIGILL", libc::SIGILL),
    ("SIGTRAP", libc::SIGTRAP),
    ("SIGABRT", libc::SIGABRT),
    ("SIGBUS", libc::SIGBUS),
    ("SIGFPE", libc::SIGFPE),
    ("SIGKILL", libc::SIGKILL),
    ("SIGUSR1", libc::SIGUSR1),
    ("SIGSEGV", libc::SIGSEGV),
    ("SIGUSR2", libc::SIGUSR2),
    ("SIGPIPE", libc::SIGPIPE),
    ("SIGALRM", libc::SIGALRM),
    ("SIGTERM", libc::SIGTERM),
    ("SIGCONT", libc::SIGCONT),
    ("SIGSTOP", libc::SIGSTOP),
    ("SIGTSTP", libc::SIGTSTP),
    ("SIGTTIN", libc::SIGTTIN),
    ("SIGTTOU", libc::SIGTTOU),
    ("SIGXCPU", libc::SIGXCPU),
    ("SIGXFSZ", libc::SIGXFSZ),
    ("SIGWINCH", libc::SIGWINCH),
    ("SIGSYS", libc::SIGSYS),
];

/// A signal, by its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Signal(pub i32);

impl Signal {
    /// A child changed its state.
    pub const CHILD: Self = Self(libc::SIGCHLD);
    /// Stop, politely.
    pub const TERM: Self = Self(libc::SIGTERM);
    /// Stop, from a terminal.
    pub const INT: Self = Self(libc::SIGINT);
    /// Stop (nginx, php-fpm: gracefully).
    pub const QUIT: Self = Self(libc::SIGQUIT);
    /// Stop, not to be refused.
    pub const KILL: Self = Self(libc::SIGKILL);
    /// Reload, for most servers.
    pub const HUP: Self = Self(libc::SIGHUP);
    /// The first of the two that mean whatever a program wants.
    pub const USR1: Self = Self(libc::SIGUSR1);
    /// The second.
    pub const USR2: Self = Self(libc::SIGUSR2);
    /// The terminal's size changed; httpd: stop gracefully.
    pub const WINCH: Self = Self(libc::SIGWINCH);
    /// gunicorn, puma: one worker more.
    pub const TTIN: Self = Self(libc::SIGTTIN);
    /// gunicorn, puma: one worker less.
    pub const TTOU: Self = Self(libc::SIGTTOU);
    /// A timer that somebody else set for us.
    pub const ALRM: Self = Self(libc::SIGALRM);
    /// Abort, with a core dump or a report.
    pub const ABRT: Self = Self(libc::SIGABRT);

    /// Reads `SIGTERM`, `TERM` or `15`.
    pub fn parse(text: &str) -> Option<Self> {
        if let Ok(number) = text.parse::<i32>() {
            return (1..=64).contains(&number).then_some(Self(number));
        }
        let upper = text.to_ascii_uppercase();
        let bare = upper.strip_prefix("SIG").unwrap_or(&upper);
        NAMES.iter().find(|(name, _)| name.strip_prefix("SIG") == Some(bare)).map(|(_, n)| Self(*n))
    }
}

impl std::fmt::Display for Signal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match NAMES.iter().find(|(_, n)| *n == self.0) {
            Some((name, _)) => f.write_str(name),
            None => write!(f, "signal {}", self.0),
        }
    }
}

/// Lets every signal take effect again: a mask survives `exec`, and most programs never look at theirs.
///
/// Called between `fork` and `exec`: it must not allocate.
pub(super) fn unblock_all() -> io::Result<()> {
    let mut mask = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: `mask` is initialised by sigemptyset; the pointers outlive the calls.
    unsafe {
        super::check(libc::sigemptyset(mask.as_mut_ptr()))?;
        super::check(libc::sigprocmask(libc::SIG_SETMASK, mask.as_ptr(), std::ptr::null_mut()))?;
    }
    Ok(())
}

/// Signals that are blocked for this process and read from a descriptor instead.
#[derive(Debug)]
pub(crate) struct SignalFd {
    fd: OwnedFd,
}

impl SignalFd {
    /// Blocks `signals` and makes them readable.
    pub(crate) fn new(signals: &[Signal]) -> io::Result<Self> {
        // SAFETY: `mask` is initialised by sigemptyset before any other use; the pointers outlive the calls; the
        // returned descriptor is new.
        let fd = unsafe {
            let mut mask = MaybeUninit::<libc::sigset_t>::uninit();
            super::check(libc::sigemptyset(mask.as_mut_ptr()))?;
            for signal in signals {
                super::check(libc::sigaddset(mask.as_mut_ptr(), signal.0))?;
            }
            super::check(libc::sigprocmask(libc::SIG_BLOCK, mask.as_ptr(), std::ptr::null_mut()))?;
            let fd = libc::signalfd(-1, mask.as_ptr(), libc::SFD_CLOEXEC | libc::SFD_NONBLOCK);
            OwnedFd::from_raw_fd(super::check(fd)?)
        };
        Ok(Self { fd })
    }

    /// The next pending signal.
    pub(crate) fn read(&self) -> Option<Signal> {
        const SIZE: usize = size_of::<libc::signalfd_siginfo>();
        let mut info = MaybeUninit::<libc::signalfd_siginfo>::uninit();
        // SAFETY: the kernel writes at most SIZE bytes to `info`; it is read only when all of them were written.
        unsafe {
            let n = libc::read(self.fd.as_raw_fd(), info.as_mut_ptr().cast(), SIZE);
            (n == SIZE.cast_signed()).then(|| Signal(info.assume_init().ssi_signo.cast_signed()))
        }
    }
}

impl AsRawFd for SignalFd {
    fn as_raw_fd(&self) -> RawFd {
        self.fd.as_raw_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_numbers() {
        for text in ["SIGTERM", "TERM", "term", "15"] {
            assert_eq!(Signal::parse(text), Some(Signal::TERM), "{text}");
        }
        assert_eq!(Signal::parse("SIGQUIT").map(|s| s.to_string()).as_deref(), Some("SIGQUIT"));
        for text in ["", "SIG", "SIGNOPE", "0", "65", "-1"] {
            assert_eq!(Signal::parse(text), None, "{text}");
        }
        assert_eq!(Signal(34).to_string(), "signal 34");
    }
}
