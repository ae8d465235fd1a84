//! HTTP/2: a slot is a stream, and several share a connection.
//!
//! The state machines are `h2`'s. They are futures, so this polls them: a session when its socket has something to do or a request
//! was put on it, an exchange when its session woke it. No runtime is needed for that, and none would know when requests are due to
//! the microsecond.

use super::exchange::{Exchange, Slots};
use super::poller::Ready;
use super::session::Session;
use super::wire::{Again, Hub, News, Wire};
use crate::error::{Failure, Fault};
use crate::plan::Plan;
use std::net::SocketAddr;

/// A connection that is opened anew when it ends.
struct Line {
    address: SocketAddr,
    /// The session that takes new requests.
    session: Option<usize>,
}

pub(super) struct Http2 {
    lines: Vec<Line>,
    /// By the key under which their sockets are watched. One that takes no new requests is there until its last answer.
    sessions: Vec<Option<Session>>,
    /// Sessions on which requests were put. They are sent together, and not from within what led here: with a server that answers at
    /// once that would go on for ever.
    unsent: Vec<usize>,
    slots: Slots,
}

impl Wire for Http2 {
    fn new(addresses: Vec<SocketAddr>, plan: &Plan) -> Self {
        let count = addresses.len() * plan.streams;
        let lines = addresses.into_iter().map(|address| Line { address, session: None }).collect();
        Self { lines, sessions: Vec::new(), unsent: Vec::new(), slots: Slots::new(count) }
    }

    fn send(&mut self, hub: &mut Hub<'_>, slot: usize, request: usize) {
        match self.session_for(hub, slot) {
            Ok(key) => {
                self.slots.set(slot, Exchange::Queued(request));
                if let Some(session) = self.sessions.get_mut(key).and_then(Option::as_mut) {
                    session.slots.push(slot);
                    if !session.unsent {
                        session.unsent = true;
                        self.unsent.push(key);
                    }
                }
            }
            Err(fault) => hub.tell(slot, News::Failed(fault, Again::No)),
        }
    }

    fn ready(&mut self, hub: &mut Hub<'_>, ready: Ready) {
        self.drive(hub, ready.key);
    }

    fn cancel(&mut self, hub: &mut Hub<'_>, slot: usize) {
        self.slots.set(slot, Exchange::None);
        let holds = |session: &Option<Session>| session.as_ref().is_some_and(|s| s.slots.contains(&slot));
        let Some(key) = self.sessions.iter().position(holds) else { return };
        if let Some(session) = self.sessions.get_mut(key).and_then(Option::as_mut) {
            session.slots.retain(|other| *other != slot);
            // A connection over which nothing comes isn't used again; the next request opens another.
            session.retiring |= session.last_heard.elapsed() >= hub.plan.timeout;
        }
        self.drive(hub, key);
    }

    fn flush(&mut self, hub: &mut Hub<'_>) {
        for key in std::mem::take(&mut self.unsent) {
            self.drive(hub, key);
        }
    }

    fn has_more(&self) -> bool {
        !self.unsent.is_empty()
    }

    fn worker(&self, slot: usize) -> &[u8] {
        self.slots.worker(slot)
    }
}

impl Http2 {
    /// The session on which the slot's next request goes.
    fn session_for(&mut self, hub: &mut Hub<'_>, slot: usize) -> Result<usize, Fault> {
        let number = slot % self.lines.len().max(1);
        let Some(line) = self.lines.get_mut(number) else { return Err(Failure::Local.into()) };
        let usable = |key: &usize| {
            self.sessions
                .get(*key)
                .and_then(Option::as_ref)
                .is_some_and(|session| session.line == number && !session.retiring)
        };
        if let Some(key) = line.session.filter(usable) {
            return Ok(key);
        }
        hub.opened += 1;
        let session = Session::open(number, line.address, hub.plan)?;
        let key = self.sessions.iter().position(Option::is_none).unwrap_or(self.sessions.len());
        match self.sessions.get_mut(key) {
            Some(free) => *free = Some(session),
            None => self.sessions.push(Some(session)),
        }
        line.session = Some(key);
        Ok(key)
    }

    /// Does all that can be done for a session now.
    fn drive(&mut self, hub: &mut Hub<'_>, key: usize) {
        let Some(mut session) = self.sessions.get_mut(key).and_then(Option::take) else { return };
        session.unsent = false;
        let done = session.advance(hub, &mut self.slots).and_then(|()| session.watch(&hub.poller, key));
        match done {
            Ok(()) if session.retiring && session.slots.is_empty() => {}
            Ok(()) => {
                if let Some(place) = self.sessions.get_mut(key) {
                    *place = Some(session);
                }
            }
            Err(fault) => self.lost(hub, session, &fault),
        }
    }

    /// The session is over, and every request on it has failed.
    fn lost(&mut self, hub: &mut Hub<'_>, session: Session, fault: &Fault) {
        if session.slots.is_empty() && !session.retiring {
            hub.tell(0, News::ClosedIdle);
        }
        let closed = matches!(fault.kind, Failure::Reset | Failure::ClosedEarly);
        for slot in session.slots {
            let exchange = self.slots.take(slot);
            let untouched = matches!(exchange, Exchange::Queued(_) | Exchange::Head(_));
            let again =
                if closed && session.answers > 0 && untouched { Again::IfIdempotent } else { Again::No };
            hub.tell(slot, News::Failed(fault.clone(), again));
        }
    }
}
