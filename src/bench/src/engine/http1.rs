//! HTTP/1.1: a slot is a connection, with one request at a time.

use super::poller::Ready;
use super::stream::{Stream, fault};
use super::wire::{Again, Hub, News, Wire};
use crate::error::{Failure, Fault};
use crate::plan::Plan;
use crate::response::{Answer, Decoder};
use std::io::ErrorKind;
use std::net::SocketAddr;

/// What a connection does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// No request is on it; it may be open or not.
    Idle,
    /// Connecting, or a request isn't sent completely.
    Writing,
    /// An answer is expected.
    Reading,
}

#[derive(Debug)]
struct Connection {
    address: SocketAddr,
    stream: Option<Stream>,
    state: State,
    decoder: Decoder,
    /// Which of the plan's requests.
    request: usize,
    /// Bytes of it that were sent.
    sent: usize,
    /// Answers that came on this socket.
    answers: u64,
}

#[derive(Debug)]
pub(super) struct Http1(Vec<Connection>);

impl Wire for Http1 {
    fn new(addresses: Vec<SocketAddr>, _: &Plan) -> Self {
        let connection = |address| Connection {
            address,
            stream: None,
            state: State::Idle,
            decoder: Decoder::default(),
            request: 0,
            sent: 0,
            answers: 0,
        };
        Self(addresses.into_iter().map(connection).collect())
    }

    fn send(&mut self, hub: &mut Hub<'_>, slot: usize, request: usize) {
        let Some(connection) = self.0.get_mut(slot) else { return };
        if let Err(fault) = connection.send(hub, slot, request) {
            connection.lost(hub, slot, fault);
        }
    }

    fn ready(&mut self, hub: &mut Hub<'_>, Ready { key, readable }: Ready) {
        let Some(connection) = self.0.get_mut(key) else { return };
        match connection.advance(hub, key, readable) {
            Ok(None) => {}
            Ok(Some(answer)) => connection.answered(hub, key, answer),
            Err(fault) => connection.lost(hub, key, fault),
        }
    }

    fn cancel(&mut self, _: &mut Hub<'_>, slot: usize) {
        if let Some(connection) = self.0.get_mut(slot) {
            connection.close();
        }
    }

    fn worker(&self, slot: usize) -> &[u8] {
        self.0.get(slot).map(|connection| connection.decoder.worker()).unwrap_or_default()
    }
}

impl Connection {
    fn send(&mut self, hub: &mut Hub<'_>, slot: usize, request: usize) -> Result<(), Fault> {
        let plan = hub.plan;
        self.decoder.expect(plan.requests.get(request).is_some_and(|request| request.head));
        (self.request, self.sent, self.state) = (request, 0, State::Writing);
        if self.stream.is_none() {
            hub.opened += 1;
            self.answers = 0;
            self.stream = Some(Stream::connect(self.address, plan)?);
        }
        self.write(hub, slot)
    }

    /// Sends as much of the request as the connection takes.
    fn write(&mut self, hub: &Hub<'_>, slot: usize) -> Result<(), Fault> {
        let Some(stream) = &mut self.stream else { return Err(Failure::Local.into()) };
        let bytes = hub.plan.requests.get(self.request).map(|request| &*request.bytes).unwrap_or_default();
        while let Some(rest) = bytes.get(self.sent..).filter(|rest| !rest.is_empty()) {
            match stream.write(rest) {
                Ok(taken) => self.sent += taken,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => return Err(fault(&error)),
            }
        }
        if self.sent >= bytes.len() {
            self.state = State::Reading;
        }
        stream.watch(&hub.poller, slot)
    }

    /// Does what the socket is ready for.
    fn advance(&mut self, hub: &mut Hub<'_>, slot: usize, readable: bool) -> Result<Option<Answer>, Fault> {
        let Some(stream) = &mut self.stream else { return Ok(None) };
        if stream.is_blocked() {
            stream.flush().map_err(|error| fault(&error))?;
        }
        if self.state == State::Writing {
            self.write(hub, slot)?;
        }
        // It may answer before it has read everything.
        let answer = if readable { self.read(hub)? } else { None };
        match (&mut self.stream, self.state) {
            // TLS takes the rest of a long request only after its handshake, which that may have been.
            (Some(_), State::Writing) if answer.is_none() => self.write(hub, slot)?,
            (Some(stream), _) => stream.watch(&hub.poller, slot)?,
            (None, _) => {}
        }
        Ok(answer)
    }

    /// One read for each event: an endless body must not keep the others waiting.
    fn read(&mut self, hub: &mut Hub<'_>) -> Result<Option<Answer>, Fault> {
        let Some(stream) = &mut self.stream else { return Ok(None) };
        let length = match stream.read(&mut hub.buffer) {
            Ok(length) => length,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(None),
            // Many servers end TLS as they end TCP; what ends with that ends here too.
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => 0,
            Err(error) => return Err(fault(&error)),
        };
        if self.state == State::Idle {
            // Nothing was asked, so this is the end of the connection, or bytes that nobody wants.
            return Err(Failure::ClosedEarly.into());
        }
        if length == 0 {
            return self.decoder.end().map(Some).ok_or_else(|| Failure::ClosedEarly.into());
        }
        hub.received += u64::try_from(length).unwrap_or(0);
        let bytes = hub.buffer.get(..length).unwrap_or_default();
        self.decoder
            .feed(bytes, hub.plan.worker_header.as_deref())
            .map_err(|malformed| Fault { kind: Failure::BadResponse, why: Some(malformed.to_string()) })
    }

    fn answered(&mut self, hub: &mut Hub<'_>, slot: usize, answer: Answer) {
        self.answers += 1;
        // Early, while the request was still being sent: what is left of it must not become part of the next.
        if self.state == State::Writing || !answer.keep_alive || !hub.plan.keep_alive {
            self.close();
        }
        self.state = State::Idle;
        hub.tell(slot, News::Answered(answer));
    }

    fn lost(&mut self, hub: &mut Hub<'_>, slot: usize, fault: Fault) {
        let news = if self.state == State::Idle {
            News::ClosedIdle
        } else {
            // If it was used before and the server said nothing to this request, the server probably closed it while the request
            // was on its way.
            let closed = matches!(fault.kind, Failure::Reset | Failure::ClosedEarly);
            let race = closed && self.answers > 0 && !self.decoder.begun();
            News::Failed(fault, if race { Again::IfIdempotent } else { Again::No })
        };
        self.close();
        hub.tell(slot, news);
    }

    fn close(&mut self) {
        self.stream = None;
        self.answers = 0;
        self.state = State::Idle;
    }
}
