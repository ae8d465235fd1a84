//! A load engine for HTTP/1.1, and the statistics to compare servers with.
//!
//! # Two modes
//! - [`Load::Capacity`], a closed loop: each connection sends its next request when the answer to the one before is there.
//!   It finds what a server can do. Its latencies say little: a slow server is asked less often.
//! - [`Load::Rate`], an open loop: requests are planned ahead, whatever the server does, and a latency counts from the
//!   planned start. A request that finds no free connection waits, and that wait is part of its latency; one that
//!   could not be sent at all is counted as dropped.
//!
//! # How it works
//! [`run`] starts threads with a reactor each ([`engine`]) that share nothing while they run. Requests are built
//! beforehand ([`request`]); of answers only the framing is looked at ([`response`]), bodies are counted and thrown away.
//! [`schedule`] says when a request is due, [`record`] counts, [`report`] is the outcome, [`statistics`] compares.
//!
//! # Units
//! Latencies are recorded in microseconds, rounded down, with three significant digits; everything else carries its unit in its type or
//! name.

pub mod engine;
pub mod error;
pub mod plan;
pub mod record;
pub mod report;
pub mod request;
pub mod response;
pub mod schedule;
pub mod statistics;
pub mod target;

pub use engine::{Control, run};
pub use error::{Error, Failure};
pub use plan::{Load, Plan};
pub use report::Report;
pub use request::{Request, Template};
pub use schedule::Arrivals;
pub use target::Target;
