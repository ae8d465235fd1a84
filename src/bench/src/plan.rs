//! What a run is to do.

use crate::error::Error;
use crate::request::Request;
use crate::schedule::{Arrivals, Pace, Schedule};
use crate::tls::Tls;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;
use std::time::Duration;

/// How requests follow each other.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Load {
    /// Closed loop: a connection's next request follows the answer to the one before.
    Capacity,
    /// Open loop: requests are due at planned times.
    Rate {
        /// Requests per second, of all threads together.
        per_second: f64,
        /// How they are spaced.
        arrivals: Arrivals,
    },
    /// Open loop, at a rate that goes evenly from one to another during the measurement; the warm-up has the first.
    Ramp {
        /// Requests per second at the begin, of all threads together.
        from: f64,
        /// Requests per second at the end.
        to: f64,
        /// How they are spaced.
        arrivals: Arrivals,
    },
}

impl Load {
    /// Requests are due at planned times.
    pub fn is_open(&self) -> bool {
        !matches!(self, Self::Capacity)
    }
}

/// What is spoken with the server. It is never chosen by itself: a run says which.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Protocol {
    /// HTTP/1.1: one request at a time on a connection.
    #[default]
    #[serde(rename = "HTTP/1.1")]
    Http1,
    /// HTTP/2, without TLS by prior knowledge: several requests at a time on a connection, as streams.
    #[serde(rename = "HTTP/2")]
    Http2,
}

impl Protocol {
    /// As people write it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Http1 => "HTTP/1.1",
            Self::Http2 => "HTTP/2",
        }
    }
}

/// A run.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Where the server is; connections take them in turn.
    pub addresses: Vec<SocketAddr>,
    /// What is sent; connections take them in turn.
    pub requests: Vec<Request>,
    /// What is spoken; the requests must be built for it.
    pub protocol: Protocol,
    /// HTTP/2: the most requests at a time on each connection.
    pub streams: usize,
    /// With TLS: who is trusted, and the server's name.
    pub tls: Option<Tls>,
    /// Closed or open loop.
    pub load: Load,
    /// Connections of all threads together. In an open loop, or with a connection per request, the most at one time.
    pub connections: usize,
    /// Threads that share them.
    pub threads: usize,
    /// Use a connection again. Else each request gets one of its own; then build the requests so that they say it.
    pub keep_alive: bool,
    /// Send a request that may be sent twice (GET and the like) once more where its kept connection ended before the answer began, as
    /// browsers and most HTTP libraries do; it is counted. Else it has failed: it may have been lost in a server that died.
    pub resend: bool,
    /// Load before the measurement; not counted.
    pub warm_up: Duration,
    /// The measurement.
    pub duration: Duration,
    /// A request has failed when its answer isn't complete after so long; an arrival that waited so long for a
    /// connection is dropped.
    pub timeout: Duration,
    /// The header whose value tells which worker answered.
    pub worker_header: Option<String>,
}

/// More is no load that one machine makes.
const MOST_PER_SECOND: f64 = 1e8;
/// HTTP/2 servers allow a hundred or so.
const MOST_STREAMS: usize = 10_000;
/// More need more addresses than a machine has.
const MOST_CONNECTIONS: usize = 1_000_000;
/// As many as there are ports on this side.
const MOST_TO_AN_ADDRESS: usize = 65_535;
const LONGEST: Duration = Duration::from_hours(7 * 24);

fn wrong(field: &'static str, value: &impl ToString, allowed: &'static str) -> Error {
    Error::Value { field, value: value.to_string(), allowed }
}

fn seconds(duration: Duration) -> String {
    format!("{}s", duration.as_secs_f64())
}

impl Plan {
    /// A closed loop over kept connections, for ten seconds after a warm-up of one.
    pub fn new(addresses: Vec<SocketAddr>, request: Request) -> Self {
        Self {
            addresses,
            requests: vec![request],
            protocol: Protocol::Http1,
            streams: 1,
            tls: None,
            load: Load::Capacity,
            connections: 64,
            threads: 1,
            keep_alive: true,
            resend: false,
            warm_up: Duration::from_secs(1),
            duration: Duration::from_secs(10),
            timeout: Duration::from_secs(10),
            worker_header: None,
        }
    }

    /// Looks for what makes no sense.
    pub fn check(&self) -> Result<(), Error> {
        self.check_protocol()?;
        let rates: &[(&'static str, f64)] = match &self.load {
            Load::Capacity => &[],
            Load::Rate { per_second, .. } => &[("rate", *per_second)],
            Load::Ramp { from, to, .. } => &[("ramp from", *from), ("ramp to", *to)],
        };
        for (field, rate) in rates {
            if !(*rate > 0.0 && *rate <= MOST_PER_SECOND) {
                return Err(wrong(
                    field,
                    rate,
                    "it must be above 0 and at most 100 million requests a second",
                ));
            }
        }
        if self.addresses.is_empty() {
            Err(wrong("addresses", &"none", "there must be one to send to"))
        } else if self.requests.is_empty() {
            Err(wrong("requests", &"none", "there must be one to send"))
        } else if self.connections == 0 || self.connections > MOST_CONNECTIONS {
            Err(wrong("connections", &self.connections, "from 1 to 1,000,000 are possible"))
        } else if self.connections > MOST_TO_AN_ADDRESS.saturating_mul(self.addresses.len()) {
            Err(wrong(
                "connections",
                &self.connections,
                "one machine can have at most 65,535 to each address of a target: TCP has no more ports",
            ))
        } else if self.threads == 0 {
            Err(wrong("threads", &self.threads, "at least 1 is needed"))
        } else if self.connections < self.threads {
            let why = "each thread needs a connection: take fewer threads or more connections";
            Err(wrong("threads", &self.threads, why))
        } else if self.duration.is_zero() || self.duration > LONGEST {
            Err(wrong("duration", &seconds(self.duration), "it must be above 0 and at most a week"))
        } else if self.warm_up > LONGEST {
            Err(wrong("warm-up", &seconds(self.warm_up), "it must be at most a week"))
        } else if self.timeout.is_zero() || self.timeout > LONGEST {
            let why = "it must be above 0, or no request could succeed, and at most a week";
            Err(wrong("timeout", &seconds(self.timeout), why))
        } else {
            Ok(())
        }
    }

    fn check_protocol(&self) -> Result<(), Error> {
        let http2 = self.protocol == Protocol::Http2;
        if self.streams == 0 || self.streams > MOST_STREAMS {
            Err(wrong("streams", &self.streams, "from 1 to 10,000 are possible"))
        } else if self.streams > 1 && !http2 {
            Err(wrong("streams", &self.streams, "HTTP/1.1 has one at a time; more need HTTP/2"))
        } else if self.streams > 1 && !self.keep_alive {
            let why = "a connection for each request has one; keep connections, or take 1";
            Err(wrong("streams", &self.streams, why))
        } else if self.requests.iter().any(|request| request.message.is_some() != http2) {
            Err(wrong(
                "requests",
                &"for another version of HTTP",
                "they must be built for the plan's protocol",
            ))
        } else {
            Ok(())
        }
    }

    /// When this thread's requests are due; `None` in a closed loop.
    pub(crate) fn schedule_of(&self, thread: usize) -> Option<Schedule> {
        let (pace, arrivals) = match self.load {
            Load::Capacity => return None,
            Load::Rate { per_second, arrivals } => (Pace::even(per_second), arrivals),
            Load::Ramp { from, to, arrivals } => {
                (Pace::ramp(from, to, self.warm_up, self.warm_up + self.duration), arrivals)
            }
        };
        let number = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        Some(Schedule::new(pace, arrivals, number(thread), number(self.threads)))
    }

    /// How many connections this thread has; those that can't be shared evenly go to the first ones.
    pub(crate) fn connections_of(&self, thread: usize) -> usize {
        self.connections / self.threads + usize::from(thread < self.connections % self.threads)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Target, Template};

    fn plan() -> Plan {
        let target = Target::parse("127.0.0.1:1").unwrap();
        Plan::new(target.addresses().unwrap(), Template::default().build(&target, true).unwrap())
    }

    #[test]
    fn plans_that_make_no_sense() {
        assert!(plan().check().is_ok());
        let ramp = |from, to| Load::Ramp { from, to, arrivals: Arrivals::Even };
        let rate = |per_second| Load::Rate { per_second, arrivals: Arrivals::Even };
        for (plan, why) in [
            (Plan { streams: 0, ..plan() }, "streams: \"0\""),
            (Plan { streams: 2, ..plan() }, "HTTP/1.1 has one at a time"),
            (Plan { streams: 2, keep_alive: false, protocol: Protocol::Http2, ..plan() }, "keep connections"),
            (Plan { protocol: Protocol::Http2, ..plan() }, "requests"),
            (Plan { addresses: vec![], ..plan() }, "address"),
            (Plan { requests: vec![], ..plan() }, "request"),
            (Plan { threads: 0, ..plan() }, "thread"),
            (Plan { connections: 0, ..plan() }, "connection"),
            (Plan { connections: usize::MAX, ..plan() }, "connection"),
            (Plan { connections: 70_000, ..plan() }, "at most 65,535 to each address"),
            (Plan { connections: 2, threads: 3, ..plan() }, "connection"),
            (Plan { duration: Duration::MAX, ..plan() }, "duration"),
            (Plan { warm_up: Duration::MAX, ..plan() }, "warm-up"),
            (Plan { load: ramp(0.0, 5.0), ..plan() }, "ramp from: \"0\""),
            (Plan { load: ramp(5.0, 1e12), ..plan() }, "ramp to"),
            (Plan { duration: Duration::ZERO, ..plan() }, "duration"),
            (Plan { timeout: Duration::ZERO, ..plan() }, "timeout"),
            (Plan { load: rate(0.0), ..plan() }, "rate"),
            (Plan { load: rate(-1.0), ..plan() }, "rate"),
            (Plan { load: rate(f64::NAN), ..plan() }, "rate"),
            (Plan { load: rate(f64::INFINITY), ..plan() }, "rate"),
        ] {
            assert!(plan.check().unwrap_err().to_string().contains(why), "{why}");
        }
    }

    #[test]
    fn every_connection_belongs_to_one_thread() {
        for (connections, threads) in [(1, 1), (7, 3), (9, 3), (100, 16)] {
            let plan = Plan { connections, threads, ..plan() };
            let parts: Vec<usize> = (0..threads).map(|thread| plan.connections_of(thread)).collect();
            assert_eq!(parts.iter().sum::<usize>(), connections);
            assert!(parts.iter().all(|n| *n >= 1 && n.abs_diff(parts[0]) <= 1), "{parts:?}");
        }
    }
}
