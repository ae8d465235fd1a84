//! A place for one request: a connection, or with HTTP/2 a stream of one.

use std::time::Instant;

/// What the reactor knows of it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Slot {
    /// It has a request.
    pub(super) busy: bool,
    /// Its request's latency counts from here.
    pub(super) planned: Instant,
    /// Then the request has failed.
    pub(super) deadline: Instant,
    /// Which of the plan's requests, modulo their number.
    pub(super) request: usize,
    /// How often it was sent before, and the server did nothing with it.
    pub(super) repeats: u8,
    /// Where its last worker stands in the list of workers.
    pub(super) worker: usize,
}

impl Slot {
    /// Without a request; its first will be this one.
    pub(super) fn new(request: usize, now: Instant) -> Self {
        Self { busy: false, planned: now, deadline: now, request, repeats: 0, worker: 0 }
    }
}
