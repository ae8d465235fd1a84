//! The metrics, one row each.

use workerapp_api::names;

use crate::{page::Series, store::Window};

/// A metric as autoscalers know it.
pub struct Metric {
    /// The name, as `kubectl get --raw …/pods/*/NAME` and a HorizontalPodAutoscaler write it.
    pub name: &'static str,
    /// What it says, with its unit.
    pub about: &'static str,
    /// A pod's value; `None` while it isn't known.
    pub of_pod: fn(&Window<'_>) -> Option<f64>,
    /// How the pods' values become the app's.
    pub of_app: Over,
}

/// How the values of an app's pods become one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Over {
    /// What adds up.
    Sum,
    /// A share, which doesn't.
    Mean,
}

/// All of them. A new one is a new row.
pub const METRICS: &[Metric] = &[
    Metric {
        name: names::METRIC_IN_FLIGHT,
        about: "Requests that have begun and not ended, and connections that wait to be accepted (Node).",
        of_pod: |window| Some(window.level(Series::InFlight)? + window.level(Series::Queue)?),
        of_app: Over::Sum,
    },
    Metric {
        name: names::METRIC_REQUESTS,
        about: "Requests that began, per second (Node).",
        of_pod: |window| window.rate(Series::Requests),
        of_app: Over::Sum,
    },
    Metric {
        name: names::METRIC_UTILIZATION,
        about: "Share of the time in which the workers' event loops were busy, from 0 to 1 (Node).",
        of_pod: |window| window.share(Series::Utilization),
        of_app: Over::Mean,
    },
    Metric {
        name: names::METRIC_BUSY,
        about: "How many workers were busy: by the event loop where it can be asked (Node), else by CPU time, of which one worker \
                counts one CPU at most.",
        of_pod: |window| window.busy(),
        of_app: Over::Sum,
    },
    Metric {
        name: names::METRIC_QUEUE,
        about: "Connections that wait to be accepted.",
        of_pod: |window| window.level(Series::Queue),
        of_app: Over::Sum,
    },
    Metric {
        name: names::METRIC_CONNECTIONS,
        about: "Open connections that were accepted; clients that keep them open count while they are silent too.",
        of_pod: |window| window.level(Series::Connections),
        of_app: Over::Sum,
    },
];

/// The metric of that name.
pub fn find(name: &str) -> Option<&'static Metric> {
    METRICS.iter().find(|metric| metric.name == name)
}
