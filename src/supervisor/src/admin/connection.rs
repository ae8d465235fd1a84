//! One connection with one request and one response.

use crate::admin::http::LONGEST_HEAD;
use crate::fleet::Time;
use std::io::{self, Read, Write};
use std::net::TcpStream;

#[derive(Debug)]
pub(super) struct Connection {
    stream: TcpStream,
    /// The other side is in this pod.
    local: bool,
    request: Vec<u8>,
    /// Empty until the request is complete.
    response: Vec<u8>,
    sent: usize,
    deadline: Time,
}

/// What becomes of a connection.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Next {
    WaitToWrite,
    Close,
}

/// What a read has shown about the other side.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Received {
    /// It may send more.
    More,
    /// It has finished.
    End,
}

impl Connection {
    pub(super) fn new(stream: TcpStream, local: bool, deadline: Time) -> Self {
        Self { stream, local, request: Vec::new(), response: Vec::new(), sent: 0, deadline }
    }

    pub(super) fn is_local(&self) -> bool {
        self.local
    }

    pub(super) fn deadline(&self) -> Time {
        self.deadline
    }

    pub(super) fn stream(&self) -> &TcpStream {
        &self.stream
    }

    pub(super) fn into_stream(self) -> TcpStream {
        self.stream
    }

    pub(super) fn request(&self) -> &[u8] {
        &self.request
    }

    pub(super) fn is_answered(&self) -> bool {
        !self.response.is_empty()
    }

    pub(super) fn answer(&mut self, response: Vec<u8>) {
        self.response = response;
    }

    pub(super) fn read(&mut self) -> io::Result<Received> {
        read(&mut self.stream, &mut self.request, LONGEST_HEAD)
    }

    pub(super) fn write(&mut self) -> io::Result<Next> {
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

/// Reads what there is, until there is more than `enough`.
pub(super) fn read(stream: &mut TcpStream, into: &mut Vec<u8>, enough: usize) -> io::Result<Received> {
    let mut buffer = [0; 4096];
    while into.len() <= enough {
        match stream.read(&mut buffer) {
            Ok(0) => return Ok(Received::End),
            Ok(n) => into.extend_from_slice(buffer.get(..n).unwrap_or_default()),
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(Received::More),
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(Received::More)
}
