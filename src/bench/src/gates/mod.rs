//! What makes a run one that can't be believed.
//!
//! Every gate is a row of [`GATES`]: a name and a pure function over the run. It passes, marks the run invalid and says why, or says what it
//! would have needed to know.

mod load;
mod server;

pub(crate) use load::{MOST_GENERATOR_CPU, MOST_LATE};

use crate::results::Run;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// What a gate says of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "outcome", content = "why", rename_all = "snake_case")]
pub enum Outcome {
    /// Nothing wrong.
    Passed,
    /// The run can be believed; but this is to be known when its figures are read.
    Notice(String),
    /// The run can't be believed, for this reason.
    Invalid(String),
    /// Nobody looked: what is missing.
    NotChecked(String),
}

/// A gate and what it says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Verdict {
    /// The gate's name.
    pub gate: Cow<'static, str>,
    /// What it says.
    #[serde(flatten)]
    pub outcome: Outcome,
}

impl Verdict {
    /// It marks the run invalid.
    pub fn is_invalid(&self) -> bool {
        matches!(self.outcome, Outcome::Invalid(_))
    }
}

/// A condition that a run must meet.
#[derive(Debug, Clone, Copy)]
pub struct Gate {
    /// As it appears in reports.
    pub name: &'static str,
    /// What it is for, for people who ask why.
    pub about: &'static str,
    check: fn(&Run) -> Outcome,
}

/// All gates, in the order in which reports list them.
pub const GATES: &[Gate] = &[
    Gate {
        name: "errors",
        about: "a request that failed costs a server less than one that it answered",
        check: load::errors,
    },
    Gate {
        name: "warm-up",
        about: "a server that saw no load before is measured while it compiles and scales",
        check: load::warm_up,
    },
    Gate {
        name: "interrupted",
        about: "a run that was stopped doesn't have the length of the others",
        check: load::interrupted,
    },
    Gate {
        name: "generator-cpu",
        about: "a generator without CPU to spare measures itself",
        check: load::generator_cpu,
    },
    Gate {
        name: "littles-law",
        about: "in a closed loop, throughput times latency is the number of connections; else one of the two is wrong",
        check: load::littles_law,
    },
    Gate {
        name: "arrivals",
        about: "requests that were sent late or never are a load other than the one that was planned",
        check: load::arrivals,
    },
    Gate {
        name: "search",
        about: "where the generator gives up first, the rate that was found is the generator's",
        check: load::search,
    },
    Gate {
        name: "pod-restarts",
        about: "a container or worker that started anew wasn't there for a while",
        check: server::restarts,
    },
    Gate {
        name: "probe-failures",
        about: "a pod that fails its readiness probe gets no requests",
        check: server::probe_failures,
    },
    Gate {
        name: "replicas",
        about: "figures of a changing number of pods are figures of none of them",
        check: server::replicas,
    },
    Gate {
        name: "autoscaler",
        about: "an autoscaler that can't read its metric doesn't do what it is there for",
        check: server::autoscaler,
    },
    Gate {
        name: "throttling",
        about: "at a given rate, a server held back by its CPU limit shows the limit's size in its latencies; at full load the limit is part of what is measured",
        check: server::throttling,
    },
];

/// What every gate says of this run.
pub fn judge(run: &Run) -> Vec<Verdict> {
    let verdict = |gate: &Gate| Verdict { gate: Cow::Borrowed(gate.name), outcome: (gate.check)(run) };
    GATES.iter().map(verdict).collect()
}

#[cfg(test)]
mod tests;
