//! Readiness of sockets: epoll, level-triggered.

use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

/// Events that are fetched at once.
const BATCH: usize = 256;

/// Watches the sockets of one thread.
pub(super) struct Poller {
    epoll: OwnedFd,
    events: Vec<Event>,
}

/// A socket that has something to do.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ready {
    /// Under which it is watched.
    pub(super) key: usize,
    /// It can be read, or has failed.
    pub(super) readable: bool,
}

fn flags(write: bool) -> EventFlags {
    if write { EventFlags::IN | EventFlags::OUT } else { EventFlags::IN }
}

fn data(key: usize) -> EventData {
    EventData::new_u64(u64::try_from(key).unwrap_or(u64::MAX))
}

impl Poller {
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self { epoll: epoll::create(CreateFlags::CLOEXEC)?, events: Vec::with_capacity(BATCH) })
    }

    pub(super) fn add(&self, socket: impl AsFd, key: usize, write: bool) -> io::Result<()> {
        Ok(epoll::add(&self.epoll, socket, data(key), flags(write))?)
    }

    pub(super) fn change(&self, socket: impl AsFd, key: usize, write: bool) -> io::Result<()> {
        Ok(epoll::modify(&self.epoll, socket, data(key), flags(write))?)
    }

    /// Waits, to the microsecond. A signal ends it with nothing.
    pub(super) fn wait(&mut self, timeout: Duration) -> io::Result<usize> {
        self.events.clear();
        let timeout = Timespec {
            tv_sec: timeout.as_secs().try_into().unwrap_or(i64::MAX),
            tv_nsec: timeout.subsec_nanos().into(),
        };
        match epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut self.events), Some(&timeout)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(self.events.len()),
            Err(error) => Err(error.into()),
        }
    }

    /// The n-th of those that [`Poller::wait`] found.
    pub(super) fn get(&self, n: usize) -> Option<Ready> {
        let event = self.events.get(n)?;
        let (flags, data) = (event.flags, event.data);
        let readable = flags.intersects(EventFlags::IN | EventFlags::ERR | EventFlags::HUP);
        Some(Ready { key: usize::try_from(data.u64()).ok()?, readable })
    }
}
