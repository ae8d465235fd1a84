//! A load engine for HTTP/1.1 and HTTP/2, with TLS and without, and what it takes to compare servers truthfully.
//!
//! # Modes
//! - [`Load::Capacity`], a closed loop: each connection sends its next request when the answer to the one before is there.
//!   It finds what a server can do. Its latencies say little: a slow server is asked less often.
//! - [`Load::Rate`], an open loop: requests are planned ahead, whatever the server does, and a latency counts from the
//!   planned start. A request that finds no free connection waits, and that wait is part of its latency; one that
//!   could not be sent at all is counted as dropped. [`Load::Ramp`] changes the rate evenly.
//! - [`search`] finds the highest rate at which a promise about latencies is kept.
//!
//! # How it works
//! [`run`] starts threads with a reactor each ([`engine`]) that share nothing while they run. Requests are built
//! beforehand ([`request`]); of answers only the framing is looked at ([`response`]), bodies are counted and thrown away.
//! What is spoken is part of the plan and never negotiated: two runs of a plan are alike. [`tls`] says who is trusted.
//! [`schedule`] says when a request is due, [`record`] counts, [`report`] is the outcome.
//!
//! # From runs to a result
//! [`presets`] are well-known settings. A [`campaign`] runs rows of them against several targets, interleaved in random order. Each
//! run becomes a [`results::Run`], as does what [`import`] reads from other tools. [`gates`] mark runs that can't be
//! believed, [`comparison`] says what can be told, [`reports`] writes it down.
//!
//! # Units
//! Latencies are recorded in microseconds, rounded down, with three significant digits; everything else carries its unit in its type or
//! name.

/// Appends a formatted text to a `String`, which takes everything.
macro_rules! push {
    ($text:expr, $($arguments:tt)*) => {{
        use std::fmt::Write as _;
        let _ = write!($text, $($arguments)*);
    }};
}

pub mod campaign;
pub mod comparison;
pub mod engine;
pub mod error;
pub mod gates;
pub mod import;
pub mod plan;
pub mod presets;
pub mod record;
pub mod report;
pub mod reports;
pub mod request;
pub mod response;
pub mod results;
pub mod schedule;
pub mod search;
pub mod statistics;
pub mod target;
pub mod tls;
pub mod values;

pub use engine::{Control, Stop, Watched, run, run_watched};
pub use error::{Error, Failure};
pub use plan::{Load, Plan, Protocol};
pub use report::Report;
pub use request::{Request, Template};
pub use schedule::Arrivals;
pub use target::Target;
pub use tls::{Tls, Trust};
