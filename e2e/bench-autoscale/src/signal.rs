//! What the app scales on.

use clap::ValueEnum;
use serde_json::{Value, json};

/// What the app scales on. The targets mean about the same: 60 % of what a pod can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Signal {
    /// CPU, from metrics-server.
    Cpu,
    /// Requests in flight, from the metrics API.
    InFlight,
    /// The event loops' utilisation, from the metrics API.
    EventLoop,
    /// Busy workers, from the metrics API.
    BusyWorkers,
}

impl Signal {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
            Self::InFlight => "in-flight",
            Self::EventLoop => "event-loop",
            Self::BusyWorkers => "busy-workers",
        }
    }

    /// The part of `spec.autoscaling` that names it.
    pub(crate) fn target(self) -> Value {
        match self {
            Self::Cpu => json!({ "cpu": { "targetPercent": 60 } }),
            // A queue of one server that is busy for 60 % of the time holds 1.5 on average.
            Self::InFlight => json!({ "inFlight": { "averageValue": "1500m" } }),
            Self::EventLoop => json!({ "eventLoopUtilization": { "targetPercent": 60 } }),
            Self::BusyWorkers => json!({ "busyWorkers": { "targetPercent": 60 } }),
        }
    }
}
