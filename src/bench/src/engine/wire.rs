//! What the reactor and a version of HTTP have to say to each other.
//!
//! The reactor knows *slots*: places for one request each. A wire knows what a slot is: a connection (HTTP/1.1), or a stream
//! of one (HTTP/2).

use super::poller::{Poller, Ready};
use crate::error::{Error, Fault};
use crate::plan::Plan;
use crate::response::Answer;
use std::net::SocketAddr;

const BUFFER: usize = 64 << 10;

/// A version of HTTP.
pub(super) trait Wire {
    /// Connections to these addresses, none of which is open; slot `n` belongs to connection `n` modulo their number.
    fn new(addresses: Vec<SocketAddr>, plan: &Plan) -> Self;

    /// Puts the plan's request of this number on a slot that has none. It is sent at once or by [`Wire::flush`].
    fn send(&mut self, hub: &mut Hub<'_>, slot: usize, request: usize);

    /// Something happened at the connection that is watched by this key.
    fn ready(&mut self, hub: &mut Hub<'_>, ready: Ready);

    /// The slot's request is given up.
    fn cancel(&mut self, hub: &mut Hub<'_>, slot: usize);

    /// Sends what was put on slots. Once: what comes of that may be more of it.
    fn flush(&mut self, _hub: &mut Hub<'_>) {}

    /// Is there something to flush?
    fn has_more(&self) -> bool {
        false
    }

    /// The value of the header that names the worker, of the slot's last answer; empty without it.
    fn worker(&self, slot: usize) -> &[u8];
}

/// What wires share, and where they put what they have to tell.
pub(super) struct Hub<'a> {
    pub(super) plan: &'a Plan,
    pub(super) poller: Poller,
    /// For what is read.
    pub(super) buffer: Vec<u8>,
    news: Vec<(usize, News)>,
    /// Bytes that came, since it was last set to 0.
    pub(super) received: u64,
    /// The same of connections that were opened.
    pub(super) opened: u64,
}

/// What became of a slot's request.
#[derive(Debug)]
pub(super) enum News {
    Answered(Answer),
    Failed(Fault, Again),
    /// There was no request: the server closed the connection.
    ClosedIdle,
}

/// May a request be sent once more, since the server did nothing with it?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Again {
    No,
    /// The server closed a used connection without a word to this request: probably while it was on its way.
    IfIdempotent,
    /// It said so, or the request was never sent.
    Yes,
}

impl<'a> Hub<'a> {
    pub(super) fn new(plan: &'a Plan) -> Result<Self, Error> {
        Ok(Self {
            plan,
            poller: Poller::new().map_err(Error::Thread)?,
            buffer: vec![0; BUFFER],
            news: Vec::new(),
            received: 0,
            opened: 0,
        })
    }

    pub(super) fn tell(&mut self, slot: usize, news: News) {
        self.news.push((slot, news));
    }

    pub(super) fn next_news(&mut self) -> Option<(usize, News)> {
        self.news.pop()
    }
}
