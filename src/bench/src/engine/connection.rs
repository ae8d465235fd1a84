//! One connection: its socket, the request on it, and how far the answer is.

use super::poller::Poller;
use crate::error::Failure;
use crate::request::Request;
use crate::response::{Answer, Decoder};
use rustix::io::Errno;
use rustix::net::{self, AddressFamily, SendFlags, SocketFlags, SocketType};
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::time::Instant;

/// What a connection does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    /// No request is on it; it may be open or not.
    Idle,
    /// Connecting, or a request isn't sent completely.
    Writing,
    /// An answer is expected.
    Reading,
}

/// The request that a connection has.
#[derive(Debug, Clone, Copy)]
pub(super) struct Task {
    /// Its latency counts from here.
    pub(super) planned: Instant,
    /// Then it has failed.
    pub(super) deadline: Instant,
    /// Which of the plan's requests, modulo their number.
    pub(super) request: usize,
    /// Bytes sent.
    sent: usize,
    /// It was sent before, on a connection that the server closed.
    pub(super) repeated: bool,
}

/// What came of reading.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Read {
    /// There is more to come.
    More,
    Answer(Answer),
    Failed(Failure),
}

#[derive(Debug)]
pub(super) struct Connection {
    address: SocketAddr,
    socket: Option<OwnedFd>,
    pub(super) state: State,
    pub(super) decoder: Decoder,
    pub(super) task: Task,
    /// Answers that came on this socket.
    pub(super) answers: u64,
    /// Where this connection's worker stands in the list of workers.
    pub(super) worker: usize,
    /// `None`: not watched yet. Else whether for writing too.
    watched: Option<bool>,
}

impl Connection {
    pub(super) fn new(address: SocketAddr, request: usize, now: Instant) -> Self {
        Self {
            address,
            socket: None,
            state: State::Idle,
            decoder: Decoder::default(),
            task: Task { planned: now, deadline: now, request, sent: 0, repeated: false },
            answers: 0,
            worker: 0,
            watched: None,
        }
    }

    pub(super) fn is_open(&self) -> bool {
        self.socket.is_some()
    }

    /// Begins to connect; `write` goes on with it.
    pub(super) fn open(&mut self, keep_alive: bool) -> Result<(), Failure> {
        self.close();
        let family = if self.address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let socket = net::socket_with(family, SocketType::STREAM, flags, None).map_err(|_| Failure::Local)?;
        if keep_alive {
            // A request that doesn't fit into one packet must not wait for the acknowledgement of its first.
            net::sockopt::set_tcp_nodelay(&socket, true).map_err(|_| Failure::Local)?;
        }
        match net::connect(&socket, &self.address) {
            Ok(()) | Err(Errno::INPROGRESS) => {}
            Err(error) => return Err(connect_failure(error)),
        }
        self.socket = Some(socket);
        Ok(())
    }

    pub(super) fn close(&mut self) {
        self.socket = None;
        self.watched = None;
        self.answers = 0;
        self.state = State::Idle;
    }

    /// Puts a request on the connection; `write` sends it.
    pub(super) fn assign(&mut self, request: &Request, planned: Instant, deadline: Instant, repeated: bool) {
        self.decoder.expect(request.head);
        self.task = Task { planned, deadline, sent: 0, repeated, ..self.task };
        self.state = State::Writing;
    }

    /// Sends as much of the request as the socket takes.
    pub(super) fn write(&mut self, poller: &Poller, slot: usize, bytes: &[u8]) -> Result<(), Failure> {
        let Some(socket) = &self.socket else { return Err(Failure::Local) };
        loop {
            let rest = bytes.get(self.task.sent..).unwrap_or_default();
            if rest.is_empty() {
                self.state = State::Reading;
                return self.watch(poller, slot, false);
            }
            match net::send(socket, rest, SendFlags::NOSIGNAL) {
                Ok(n) => self.task.sent += n,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return self.watch(poller, slot, true),
                Err(Errno::PIPE | Errno::CONNRESET) => return Err(Failure::Reset),
                Err(error) => return Err(connect_failure(error)),
            }
        }
    }

    fn watch(&mut self, poller: &Poller, slot: usize, write: bool) -> Result<(), Failure> {
        let Some(socket) = &self.socket else { return Err(Failure::Local) };
        let done = match self.watched {
            None => poller.add(socket, slot, write),
            Some(before) if before != write => poller.change(socket, slot, write),
            Some(_) => return Ok(()),
        };
        self.watched = Some(write);
        done.map_err(|_| Failure::Local)
    }

    /// Reads what is there. `received` is increased by the number of bytes.
    pub(super) fn read(
        &mut self,
        buffer: &mut [u8],
        worker_header: Option<&str>,
        received: &mut u64,
    ) -> Read {
        let Some(socket) = &self.socket else { return Read::Failed(Failure::Local) };
        let length = loop {
            match rustix::io::read(socket, &mut *buffer) {
                Ok(0) => return self.decoder.end().map_or(Read::Failed(Failure::ClosedEarly), Read::Answer),
                Ok(length) => break length,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return Read::More,
                Err(Errno::CONNREFUSED) => return Read::Failed(Failure::Refused),
                Err(_) => return Read::Failed(Failure::Reset),
            }
        };
        *received = received.saturating_add(u64::try_from(length).unwrap_or(0));
        // One read for each event: an endless body must not keep the others waiting.
        match self.decoder.feed(buffer.get(..length).unwrap_or_default(), worker_header) {
            Ok(Some(answer)) => Read::Answer(answer),
            Ok(None) => Read::More,
            Err(_) => Read::Failed(Failure::BadResponse),
        }
    }
}

/// What an error while connecting means; it may come with the first `send`.
fn connect_failure(error: Errno) -> Failure {
    match error {
        Errno::CONNREFUSED => Failure::Refused,
        Errno::CONNRESET => Failure::Reset,
        Errno::TIMEDOUT => Failure::Timeout,
        Errno::ADDRNOTAVAIL | Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM => Failure::Local,
        _ => Failure::Unreachable,
    }
}
