//! epoll, level-triggered.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::time::Duration;

/// What a file descriptor is watched for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Interest {
    /// There is something to read (or the other side is gone).
    Read,
    /// There is room to write again.
    Write,
}

impl Interest {
    fn bits(self) -> u32 {
        let bits = match self {
            Self::Read => libc::EPOLLIN,
            Self::Write => libc::EPOLLOUT,
        };
        bits.cast_unsigned()
    }
}

/// One thing that became ready.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ready {
    /// The number given to [`Poll::add`].
    pub(crate) token: u64,
    /// There is data; when it is false the other side has only gone away.
    pub(crate) readable: bool,
}

/// A set of watched file descriptors.
#[derive(Debug)]
pub(crate) struct Poll {
    epoll: OwnedFd,
}

impl Poll {
    pub(crate) fn new() -> io::Result<Self> {
        // SAFETY: no pointers are passed; the returned descriptor is new and owned by nobody else.
        let epoll = unsafe {
            let fd = super::check(libc::epoll_create1(libc::EPOLL_CLOEXEC))?;
            OwnedFd::from_raw_fd(fd)
        };
        Ok(Self { epoll })
    }

    pub(crate) fn add(&self, fd: &impl AsRawFd, token: u64, interest: Interest) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_ADD, fd.as_raw_fd(), token, interest)
    }

    pub(crate) fn change(&self, fd: &impl AsRawFd, token: u64, interest: Interest) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_MOD, fd.as_raw_fd(), token, interest)
    }

    /// Stops watching something that stays open.
    pub(crate) fn forget(&self, fd: &impl AsRawFd) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_DEL, fd.as_raw_fd(), 0, Interest::Read)
    }

    fn control(&self, operation: libc::c_int, fd: RawFd, token: u64, interest: Interest) -> io::Result<()> {
        let mut event = libc::epoll_event { events: interest.bits(), u64: token };
        // SAFETY: `event` lives across the call and the kernel copies it.
        super::check(unsafe { libc::epoll_ctl(self.epoll.as_raw_fd(), operation, fd, &raw mut event) })?;
        Ok(())
    }

    /// Sleeps until something is ready or `timeout` has passed (`None`: for ever). An interrupted sleep is an
    /// empty answer.
    pub(crate) fn wait(&self, timeout: Option<Duration>) -> io::Result<Vec<Ready>> {
        const MOST: usize = 64;
        let milliseconds = match timeout {
            None => -1,
            // Rounded up: waking a fraction too early would make the loop spin until the deadline.
            Some(t) => i32::try_from(t.as_nanos().div_ceil(1_000_000)).unwrap_or(i32::MAX),
        };
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; MOST];
        // SAFETY: the pointer and the length describe `events`, which outlives the call.
        let n = unsafe {
            libc::epoll_wait(self.epoll.as_raw_fd(), events.as_mut_ptr(), MOST as libc::c_int, milliseconds)
        };
        match super::check(n) {
            Ok(n) => Ok(events.iter().take(n.unsigned_abs() as usize).map(ready).collect()),
            Err(e) if e.kind() == io::ErrorKind::Interrupted => Ok(Vec::new()),
            Err(e) => Err(e),
        }
    }
}

fn ready(event: &libc::epoll_event) -> Ready {
    let bits = event.events;
    Ready { token: event.u64, readable: bits & libc::EPOLLIN.cast_unsigned() != 0 }
}
