//! What can go wrong: with a run as a whole, and with one request of it.

use crate::reports::numbers::counted;
use serde::Serialize;
use std::io;
use std::time::Duration;

/// Why there was no run.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The URL can't be used.
    #[error("{url:?} is no URL that can be asked: {why}")]
    Url {
        /// As it was given.
        url: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// The host has no address.
    #[error("no address for {host}: {source}")]
    Resolve {
        /// Name and port.
        host: String,
        /// What the resolver said.
        source: io::Error,
    },
    /// The request can't be built.
    #[error("the request's {part} {value:?} can't be sent: {why}")]
    Request {
        /// Method, header name, …
        part: &'static str,
        /// As it was given.
        value: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// A setting has a value that it can't have.
    #[error("{field}: {value:?} is not allowed; {allowed}")]
    Value {
        /// The setting's name.
        field: &'static str,
        /// As it was given.
        value: String,
        /// What is.
        allowed: &'static str,
    },
    /// A file with certificate authorities can't be used.
    #[error("the certificate authorities in {file}: {why}")]
    Authorities {
        /// As it was given.
        file: String,
        /// What is wrong with it.
        why: String,
    },
    /// This machine trusts nobody, so that no certificate could be checked.
    #[error(
        "this machine has no certificate authorities{why}: name a file with --ca, or check no certificate with --insecure"
    )]
    NoAuthorities {
        /// What was tried, in words, or nothing.
        why: String,
    },
    /// TLS can't be set up.
    #[error("TLS can't be set up for {host}: {why}")]
    Tls {
        /// The server's name.
        host: String,
        /// What is wrong.
        why: String,
    },
    /// This process may not have so many connections.
    #[error(
        "connections: {connections} are more than the {limit} file descriptors that this process may have: take fewer, or raise the limit (ulimit -n)"
    )]
    Descriptors {
        /// How many were asked for.
        connections: usize,
        /// The hard limit.
        limit: u64,
    },
    /// The warm-up ended without a good answer, so there is nothing to measure.
    #[error(
        "the warm-up of {warm_up:?} got no answer to {}{why}; is the server up, the path right, and the time long enough?",
        counted(*sent, "request")
    )]
    WarmUp {
        /// How long it was.
        warm_up: Duration,
        /// Requests that were sent.
        sent: u64,
        /// The failures by kind, in words, or nothing.
        why: String,
    },
    /// The system refused something that every thread needs.
    #[error("a load thread can't run: {0}")]
    Thread(io::Error),
    /// A fault of the load engine itself.
    #[error("the load engine has a fault: {0}")]
    Internal(&'static str),
}

/// Why one request has no good answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Failure {
    /// Nobody listens.
    Refused,
    /// No route, or another error while connecting.
    Unreachable,
    /// This machine has no free port or file descriptor: the generator's limit, not the server's.
    Local,
    /// The server reset the connection.
    Reset,
    /// The server closed the connection before its answer was complete.
    ClosedEarly,
    /// No complete answer in time.
    Timeout,
    /// No TLS came about: the certificate isn't trusted, no common version, no HTTP/2, …
    Tls,
    /// An answer that breaks HTTP.
    BadResponse,
    /// A complete answer with a status other than 2xx.
    Status,
}

impl Failure {
    /// All kinds, in the order in which results list them.
    pub const ALL: [Self; 9] = [
        Self::Refused,
        Self::Unreachable,
        Self::Local,
        Self::Reset,
        Self::ClosedEarly,
        Self::Timeout,
        Self::Tls,
        Self::BadResponse,
        Self::Status,
    ];

    /// For tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Refused => "refused",
            Self::Unreachable => "unreachable",
            Self::Local => "local",
            Self::Reset => "reset",
            Self::ClosedEarly => "closed early",
            Self::Timeout => "timeout",
            Self::Tls => "TLS",
            Self::BadResponse => "bad response",
            Self::Status => "not 2xx",
        }
    }
}

/// A failure, and what there is to say of it beyond its kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) kind: Failure,
    /// In the words of whoever noticed it.
    pub(crate) why: Option<String>,
}

impl From<Failure> for Fault {
    fn from(kind: Failure) -> Self {
        Self { kind, why: None }
    }
}
