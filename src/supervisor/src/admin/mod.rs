//! The admin port: a small HTTP/1.1 server for probes, metrics, the command line, and the workers themselves.

mod answers;
mod channel;
mod connection;
mod http;
mod json;
mod metrics_page;
mod snapshot;
mod status_page;

pub(crate) use answers::{Answer, answer, metrics, readiness, status, text};
pub(crate) use channel::{Durations, Stats};
pub(crate) use http::{Request, Response};
pub(crate) use snapshot::{Snapshot, WorkerSnapshot};

use crate::error::Error;
use crate::fleet::{Generation, Time};
use crate::sys::poll::{Interest, Poll};
use crate::sys::socket;
use channel::Channel;
use connection::{Connection, Next, Received};
use http::Parsed;
use std::collections::BTreeMap;
use std::io::Write;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

/// A client that sends or reads more slowly than this is cut off.
const PATIENCE: Duration = Duration::from_secs(10);
/// Probes, a scraper and a person need a handful.
const MOST_CONNECTIONS: usize = 64;
/// Each worker may be a cluster of processes.
const MOST_CHANNELS: usize = 4096;

pub(crate) fn fuzz_request(bytes: &[u8]) {
    if let Parsed::Complete(request) = http::parse(bytes) {
        let _ = answer(&request);
    }
}

pub(crate) fn fuzz_channel(bytes: &[u8]) {
    let mut channel = Channel::new(0);
    let _ = channel.receive(bytes);
    let _ = channel.stats.map(|stats| stats.add(stats));
}

/// The server and its connections.
#[derive(Debug)]
pub(crate) struct Admin {
    listener: TcpListener,
    connections: BTreeMap<u64, Connection>,
    channels: BTreeMap<u64, (TcpStream, Channel)>,
    last_id: u64,
}

impl Admin {
    pub(crate) fn listen(port: u16) -> Result<Self, Error> {
        let listener = socket::listen_everywhere(port).map_err(|source| Error::AdminPort { port, source })?;
        Ok(Self { listener, connections: BTreeMap::new(), channels: BTreeMap::new(), last_id: 0 })
    }

    pub(crate) fn listener(&self) -> &TcpListener {
        &self.listener
    }

    /// Takes in new connections; `token` makes the number that the poll knows each by.
    pub(crate) fn accept(&mut self, poll: &Poll, now: Time, token: impl Fn(u64) -> u64) {
        while let Ok((stream, peer)) = self.listener.accept() {
            if self.connections.len() >= MOST_CONNECTIONS {
                continue;
            }
            self.last_id += 1;
            let id = self.last_id;
            if stream.set_nonblocking(true).is_ok() && poll.add(&stream, token(id), Interest::Read).is_ok() {
                let local = peer.ip().to_canonical().is_loopback();
                self.connections.insert(id, Connection::new(stream, local, now + PATIENCE));
            }
        }
    }

    /// Reads from a connection; answers its request once that is complete.
    pub(crate) fn read(&mut self, id: u64) -> Option<Request> {
        if self.channels.contains_key(&id) {
            self.read_channel(id);
            return None;
        }
        let connection = self.connections.get_mut(&id).filter(|connection| !connection.is_answered())?;
        let received = connection.read();
        match (http::parse(connection.request()), received) {
            (_, Err(_)) | (Parsed::Incomplete, Ok(Received::End)) => {
                self.connections.remove(&id);
            }
            (Parsed::Complete(request), Ok(_)) => {
                return Some(Request { local: connection.is_local(), ..request });
            }
            (Parsed::Incomplete, Ok(Received::More)) => {}
            (Parsed::Wrong(response), Ok(_)) => self.respond(id, response),
        }
        None
    }

    pub(crate) fn respond(&mut self, id: u64, response: Response) {
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.answer(response.into_bytes());
        }
    }

    /// Sends what there is to send.
    pub(crate) fn write(&mut self, poll: &Poll, id: u64, token: u64) {
        let Some(connection) = self.connections.get_mut(&id).filter(|connection| connection.is_answered())
        else {
            return;
        };
        match connection.write() {
            Ok(Next::WaitToWrite) if poll.change(connection.stream(), token, Interest::Write).is_ok() => {}
            _ => {
                self.connections.remove(&id);
            }
        }
    }

    /// Gives a connection away; somebody else answers its request.
    pub(crate) fn give_away(&mut self, poll: &Poll, id: u64) -> Option<TcpStream> {
        let stream = self.connections.remove(&id)?.into_stream();
        poll.forget(&stream).ok()?;
        Some(stream)
    }

    /// From here on the connection is a worker's channel.
    pub(crate) fn open_channel(&mut self, id: u64, generation: Generation) {
        if self.channels.len() >= MOST_CHANNELS {
            return;
        }
        if let Some(connection) = self.connections.remove(&id) {
            let mut channel = Channel::new(generation);
            // What follows the head may have come with it.
            let head = connection.request().windows(4).position(|bytes| bytes == b"\r\n\r\n");
            let rest = head.and_then(|end| connection.request().get(end + 4..)).unwrap_or_default();
            if channel.receive(rest) {
                self.channels.insert(id, (connection.into_stream(), channel));
            }
        }
    }

    fn read_channel(&mut self, id: u64) {
        let Some((stream, channel)) = self.channels.get_mut(&id) else { return };
        let mut bytes = Vec::new();
        let received = connection::read(stream, &mut bytes, usize::MAX);
        let is_sane = channel.receive(&bytes);
        if !is_sane || !matches!(received, Ok(Received::More)) {
            self.channels.remove(&id);
        }
    }

    /// Where processes have begun to listen on a port that they share by themselves.
    pub(crate) fn take_listens(&mut self) -> Vec<(Generation, SocketAddr)> {
        let channels = self.channels.values_mut().map(|(_, channel)| channel);
        channels.flat_map(|c| c.listens.drain(..).map(|at| (c.generation, at)).collect::<Vec<_>>()).collect()
    }

    /// Says something to every process of a start that has a channel.
    pub(crate) fn say(&mut self, generation: Generation, line: &str) {
        for (stream, channel) in self.channels.values_mut() {
            if channel.generation == generation {
                // A few bytes: if they do not fit the process has not read for long, and is not going to drain.
                let _ = stream.write_all(line.as_bytes());
            }
        }
    }

    /// Has every process of a start that has a channel finished its connections?
    pub(crate) fn is_drained(&self, generation: Generation) -> bool {
        let mut mine = self.channels.values().filter(|(_, channel)| channel.generation == generation);
        mine.all(|(_, channel)| channel.drained)
    }

    /// What the processes of a start told about themselves.
    pub(crate) fn stats(&self, generation: Generation) -> impl Iterator<Item = Stats> {
        let mine = self.channels.values().filter(move |(_, channel)| channel.generation == generation);
        mine.filter_map(|(_, channel)| channel.stats)
    }

    pub(crate) fn next_deadline(&self) -> Option<Time> {
        self.connections.values().map(Connection::deadline).min()
    }

    pub(crate) fn expire(&mut self, now: Time) {
        self.connections.retain(|_, connection| connection.deadline() > now);
    }
}
