//! What a run is to do.

use crate::error::Error;
use crate::request::Request;
use crate::schedule::Arrivals;
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
}

/// A run.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Where the server is; connections take them in turn.
    pub addresses: Vec<SocketAddr>,
    /// What is sent; connections take them in turn.
    pub requests: Vec<Request>,
    /// Closed or open loop.
    pub load: Load,
    /// Connections of all threads together. In an open loop, or with a connection per request, the most at one time.
    pub connections: usize,
    /// Threads that share them.
    pub threads: usize,
    /// Use a connection again. Else each request gets one of its own; then build the requests so that they say it.
    pub keep_alive: bool,
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

impl Plan {
    /// A closed loop over kept connections, for ten seconds after a warm-up of one.
    pub fn new(addresses: Vec<SocketAddr>, request: Request) -> Self {
        Self {
            addresses,
            requests: vec![request],
            load: Load::Capacity,
            connections: 64,
            threads: 1,
            keep_alive: true,
            warm_up: Duration::from_secs(1),
            duration: Duration::from_secs(10),
            timeout: Duration::from_secs(10),
            worker_header: None,
        }
    }

    /// Looks for what makes no sense.
    pub fn check(&self) -> Result<(), Error> {
        let wrong = |why| Err(Error::Plan(why));
        match self.load {
            Load::Rate { per_second, .. } if !(per_second > 0.0 && per_second <= MOST_PER_SECOND) => {
                return wrong("the rate must be above 0 and at most 100 million a second");
            }
            _ => {}
        }
        if self.addresses.is_empty() {
            wrong("there is no address to send to")
        } else if self.requests.is_empty() {
            wrong("there is no request to send")
        } else if self.threads == 0 {
            wrong("at least one thread is needed")
        } else if self.connections < self.threads {
            wrong("each thread needs a connection: take fewer threads or more connections")
        } else if self.duration.is_zero() {
            wrong("a measurement takes time: its duration is 0")
        } else if self.timeout.is_zero() {
            wrong("a timeout of 0 lets no request succeed")
        } else {
            Ok(())
        }
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
        let rate = |per_second| Load::Rate { per_second, arrivals: Arrivals::Even };
        for (plan, why) in [
            (Plan { addresses: vec![], ..plan() }, "address"),
            (Plan { requests: vec![], ..plan() }, "request"),
            (Plan { threads: 0, ..plan() }, "thread"),
            (Plan { connections: 0, ..plan() }, "connection"),
            (Plan { connections: 2, threads: 3, ..plan() }, "connection"),
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
