//! The admin port: a small HTTP/1.1 server for probes, metrics and the command line.

mod http;
mod json;
mod metrics;
mod snapshot;
mod status;

pub(crate) use snapshot::{Snapshot, WorkerSnapshot};

use crate::error::Error;
use crate::fleet::{Readiness, Time};
use crate::sys::poll::{Interest, Poll};
use crate::sys::socket;
pub(crate) use http::{Request, Response};

use http::Parsed;
use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

/// A client that sends or reads more slowly than this is cut off.
const PATIENCE: Duration = Duration::from_secs(10);
/// Probes, a scraper and a person need a handful.
const MOST_CONNECTIONS: usize = 64;

/// The server and its connections.
#[derive(Debug)]
pub(crate) struct Admin {
    listener: TcpListener,
    connections: BTreeMap<u64, Connection>,
    last_id: u64,
}

#[derive(Debug)]
struct Connection {
    stream: TcpStream,
    request: Vec<u8>,
    /// Empty until the request is complete.
    response: Vec<u8>,
    sent: usize,
    deadline: Time,
}

/// What becomes of a connection.
#[derive(Debug, PartialEq, Eq)]
enum Next {
    WaitToWrite,
    Close,
}

impl Admin {
    pub(crate) fn listen(port: u16) -> Result<Self, Error> {
        let listener = socket::listen_everywhere(port).map_err(|source| Error::AdminPort { port, source })?;
        Ok(Self { listener, connections: BTreeMap::new(), last_id: 0 })
    }

    pub(crate) fn listener(&self) -> &TcpListener {
        &self.listener
    }

    /// Takes in new connections; `token` makes the number that the poll knows each by.
    pub(crate) fn accept(&mut self, poll: &Poll, now: Time, token: impl Fn(u64) -> u64) {
        while let Ok((stream, _)) = self.listener.accept() {
            if self.connections.len() >= MOST_CONNECTIONS {
                continue;
            }
            self.last_id += 1;
            let id = self.last_id;
            if stream.set_nonblocking(true).is_ok() && poll.add(&stream, token(id), Interest::Read).is_ok() {
                let deadline = now + PATIENCE;
                let connection =
                    Connection { stream, request: Vec::new(), response: Vec::new(), sent: 0, deadline };
                self.connections.insert(id, connection);
            }
        }
    }

    /// Reads from a connection; answers its request once that is complete.
    pub(crate) fn read(&mut self, id: u64) -> Option<Request> {
        let connection = self.connections.get_mut(&id)?;
        if !connection.response.is_empty() {
            return None;
        }
        let ended = connection.read();
        match (http::parse(&connection.request), ended) {
            (_, Err(_)) | (Parsed::Incomplete, Ok(true)) => {
                self.connections.remove(&id);
            }
            (Parsed::Complete(request), Ok(_)) => return Some(request),
            (Parsed::Incomplete, Ok(false)) => {}
            (Parsed::Wrong(response), Ok(_)) => self.respond(id, response),
        }
        None
    }

    pub(crate) fn respond(&mut self, id: u64, response: Response) {
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.response = response.into_bytes();
        }
    }

    /// Sends what there is to send.
    pub(crate) fn write(&mut self, poll: &Poll, id: u64, token: u64) {
        let Some(connection) = self.connections.get_mut(&id).filter(|c| !c.response.is_empty()) else {
            return;
        };
        match connection.write() {
            Ok(Next::WaitToWrite) if poll.change(&connection.stream, token, Interest::Write).is_ok() => {}
            _ => {
                self.connections.remove(&id);
            }
        }
    }

    pub(crate) fn next_deadline(&self) -> Option<Time> {
        self.connections.values().map(|connection| connection.deadline).min()
    }

    pub(crate) fn expire(&mut self, now: Time) {
        self.connections.retain(|_, connection| connection.deadline > now);
    }
}

impl Connection {
    /// Reads what there is; answers whether the client has finished sending.
    fn read(&mut self) -> io::Result<bool> {
        let mut buffer = [0; 4096];
        loop {
            if self.request.len() > http::LONGEST_HEAD {
                return Ok(false);
            }
            match self.stream.read(&mut buffer) {
                Ok(0) => return Ok(true),
                Ok(n) => self.request.extend_from_slice(buffer.get(..n).unwrap_or_default()),
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
    }

    fn write(&mut self) -> io::Result<Next> {
        while let Some(rest) = self.response.get(self.sent..).filter(|rest| !rest.is_empty()) {
            match self.stream.write(rest) {
                Ok(0) => return Ok(Next::Close),
                Ok(n) => self.sent += n,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(Next::WaitToWrite),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        Ok(Next::Close)
    }
}

/// What to say to a request; `snapshot` is asked for only where it is needed.
pub(crate) fn answer(request: &Request, snapshot: impl FnOnce() -> Snapshot) -> Response {
    if !matches!(request.method.as_str(), "GET" | "HEAD") {
        return Response::text(405, "only GET\n").with_head_only(false);
    }
    let response = match request.path.as_str() {
        // It is answered, so the event loop runs; that is all there is to know.
        "/livez" | "/healthz" => Response::text(200, "ok\n"),
        "/readyz" => readyz(&snapshot().readiness),
        "/metrics" => {
            Response::new(200, "text/plain; version=0.0.4; charset=utf-8", metrics::render(&snapshot()))
        }
        "/status" => Response::new(200, "application/json", status::render(&snapshot())),
        _ => Response::text(404, "there are /livez, /readyz, /metrics and /status\n"),
    };
    response.with_head_only(request.method == "HEAD")
}

fn readyz(readiness: &Readiness) -> Response {
    match readiness {
        Readiness::Ready => Response::text(200, "ok\n"),
        Readiness::NotReady(reasons) => {
            let lines: Vec<String> = reasons.iter().map(ToString::to_string).collect();
            Response::text(503, &(lines.join("\n") + "\n"))
        }
    }
}
