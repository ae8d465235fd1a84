//! What a benchmark found, as a document: the same type whether this engine measured it or it was read from another tool's output.
//!
//! Everything here is plain data with a published JSON schema. Fields that a source may not have are optional; nothing is
//! filled with a guess.

mod figures;
mod from_report;
mod observations;
mod provenance;

pub use figures::{Figures, Generator, Latency, Quantile, Second, Spread, WarmUp};
pub use observations::{Autoscaler, Observations, Pod, Replicas, ServerCpu, Worker};
pub use provenance::{Machine, Provenance, load_averages, timestamp};

use crate::comparison::Comparison;
use crate::gates::Verdict;
use crate::plan::{Load, Protocol};
use crate::schedule::Arrivals;
use crate::search::Sought;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The version of the document's layout; a change that readers notice increases it.
pub const VERSION: u32 = 1;

/// Everything that goes into a report.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Results {
    /// The layout of this document: 1.
    pub version: u32,
    /// A line for the head of the report.
    #[serde(default)]
    pub title: String,
    /// Where, when and how this was measured.
    pub provenance: Provenance,
    /// The targets in the order in which reports list them; others are compared with the first.
    pub targets: Vec<String>,
    /// Every run, in the order in which they took place.
    pub runs: Vec<Run>,
    /// The targets against the first one.
    #[serde(default)]
    pub comparisons: Vec<Comparison>,
}

/// One measurement of one target.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Run {
    /// The target's name.
    pub target: String,
    /// Where the load went.
    #[serde(default)]
    pub url: String,
    /// The row of a ladder: runs are compared within a row, for example `50 connections`.
    pub row: String,
    /// The round, from 1.
    pub round: u32,
    /// When the measurement began, as in RFC 3339; empty if the source doesn't say.
    #[serde(default)]
    pub started: String,
    /// How requests followed each other.
    #[serde(default)]
    pub mode: Mode,
    /// What was spoken, if the source says so.
    #[serde(default)]
    pub protocol: Option<Protocol>,
    /// It was spoken over TLS.
    #[serde(default)]
    pub tls: bool,
    /// HTTP/2: requests at a time on each connection.
    #[serde(default)]
    pub streams: Option<u64>,
    /// Connections, if the source says how many.
    #[serde(default)]
    pub connections: Option<u64>,
    /// Threads of the generator.
    #[serde(default)]
    pub threads: Option<u64>,
    /// What was measured.
    pub figures: Figures,
    /// What was looked for, if the run is the end of a search.
    #[serde(default)]
    pub search: Option<Sought>,
    /// What was seen at the server meanwhile.
    #[serde(default)]
    pub observations: Observations,
    /// What the gates say; see [`crate::gates::judge`].
    #[serde(default)]
    pub verdicts: Vec<Verdict>,
}

impl Run {
    /// No gate marked it invalid. A run that was never judged is valid.
    pub fn is_valid(&self) -> bool {
        !self.verdicts.iter().any(Verdict::is_invalid)
    }

    /// Requests that are on their way at a time in a closed loop, if the source says how many.
    pub fn places(&self) -> Option<u64> {
        self.connections.map(|connections| connections * self.streams.unwrap_or(1))
    }

    /// Good answers for each CPU that the server used, if that was observed: requests per core and second.
    pub fn requests_per_core(&self) -> Option<f64> {
        let used = self.observations.cpu?.used_cores;
        (used > 0.0).then(|| self.figures.requests_per_second / used)
    }
}

/// How requests followed each other.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Mode {
    /// The source doesn't say.
    #[default]
    Unknown,
    /// A connection's next request follows the answer to the one before.
    Closed,
    /// Requests at planned times; latencies count from those.
    Open {
        /// Requests per second that were planned.
        per_second: f64,
        /// The seed of random arrivals; none: evenly spaced.
        seed: Option<u64>,
    },
    /// As `open`, at a rate that goes evenly from one to another.
    Ramp {
        /// Requests per second at the begin.
        from: f64,
        /// Requests per second at the end.
        to: f64,
        /// The seed of random arrivals; none: evenly spaced.
        seed: Option<u64>,
    },
}

impl From<Load> for Mode {
    fn from(load: Load) -> Self {
        let seed = |arrivals| match arrivals {
            Arrivals::Even => None,
            Arrivals::Random { seed } => Some(seed),
        };
        match load {
            Load::Capacity => Self::Closed,
            Load::Rate { per_second, arrivals } => Self::Open { per_second, seed: seed(arrivals) },
            Load::Ramp { from, to, arrivals } => Self::Ramp { from, to, seed: seed(arrivals) },
        }
    }
}

impl Results {
    /// The rows of the ladder, in the order in which they were first run.
    pub fn rows(&self) -> Vec<&str> {
        let mut rows: Vec<&str> = Vec::new();
        for run in &self.runs {
            if !rows.contains(&run.row.as_str()) {
                rows.push(&run.row);
            }
        }
        rows
    }

    /// The runs of a target in a row, by their rounds.
    pub fn runs_of<'a>(&'a self, row: &'a str, target: &'a str) -> impl Iterator<Item = &'a Run> {
        self.runs.iter().filter(move |run| run.row == row && run.target == target)
    }

    /// A target's valid runs in a row; all of them if none is valid.
    pub fn counted<'a>(&'a self, row: &'a str, target: &'a str) -> Vec<&'a Run> {
        let valid: Vec<_> = self.runs_of(row, target).filter(|run| run.is_valid()).collect();
        if valid.is_empty() { self.runs_of(row, target).collect() } else { valid }
    }

    /// The median of a figure over [`Self::counted`].
    pub fn median(&self, row: &str, target: &str, figure: impl Fn(&Run) -> Option<f64>) -> Option<f64> {
        let figures: Vec<f64> = self.counted(row, target).into_iter().filter_map(figure).collect();
        crate::statistics::median(&figures)
    }
}
