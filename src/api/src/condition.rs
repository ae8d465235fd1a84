//! Condition types and reasons in a [`crate::WorkerAppStatus`].
//!
//! A reason is an enum variant's name everywhere: in the condition, in the event and as the metric's label.

use std::fmt;

/// What a condition speaks about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ConditionType {
    /// The spec is valid and the children stand as it says.
    Reconciled,
    /// Enough pods serve: the Deployment's own `Available`.
    Available,
    /// A rollout is under way or has finished: the Deployment's own `Progressing`.
    Progressing,
    /// The autoscaler reads its metrics and may act; only with `spec.autoscaling`.
    ScalingActive,
    /// Reconciled, rolled out and available: what `kubectl wait --for=condition=Ready` waits for.
    Ready,
}

impl ConditionType {
    /// The name as it stands in `status.conditions[].type`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Reconciled => "Reconciled",
            Self::Available => "Available",
            Self::Progressing => "Progressing",
            Self::ScalingActive => "ScalingActive",
            Self::Ready => "Ready",
        }
    }
}

impl fmt::Display for ConditionType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
