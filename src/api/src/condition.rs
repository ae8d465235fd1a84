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
    /// The operator leaves the children alone; only while that is so.
    Paused,
    /// It can't go on without somebody's help; only while that is so.
    Stalled,
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
            Self::Paused => "Paused",
            Self::Stalled => "Stalled",
            Self::Ready => "Ready",
        }
    }
}

impl fmt::Display for ConditionType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Defines [`Reason`], whose names and texts stand in one place.
macro_rules! reasons {
    ($($(#[doc = $doc:literal])+ $name:ident,)+) => {
        /// Why a condition is as it is: one word for programs, the same in the condition, in the event and in the
        /// metric's label.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Reason {
            $($(#[doc = $doc])+ $name,)+
        }

        impl Reason {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$name,)+];

            /// The word.
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Self::$name => stringify!($name),)+
                }
            }
        }
    };
}

reasons! {
    /// The children stand as the spec says.
    Applied,
    /// The operator leaves the children alone, as `spec.paused` or an annotation says.
    Paused,
    /// The spec can't be read; the message names the field.
    Unreadable,
    /// The spec can't be carried out; the message names each problem.
    Invalid,
    /// An object with the app's name exists and belongs to something else, which is left alone.
    NameClash,
    /// A child is being deleted; it is made anew once it is gone.
    ChildTerminating,
    /// A node port that the spec asks for is in use; the message names the holder.
    NodePortTaken,
    /// Apps ask for node ports that they have of each other; the message says how they get them.
    NodePortsSwapped,
    /// A node port that the spec asks for lies outside the API server's range.
    NodePortOutOfRange,
    /// The cluster has no node port left.
    NodePortsExhausted,
    /// The API server refused a child; the message holds its words.
    Rejected,
    /// A ResourceQuota refused a child.
    QuotaExceeded,
    /// The operator lacks a permission.
    Forbidden,
    /// The namespace is being deleted, or is gone.
    NamespaceTerminating,
    /// Someone else wrote at the same moment; it is tried again.
    Conflict,
    /// The API server could not be reached or was too busy; it is tried again.
    ApiUnavailable,

    /// The newest pods are being rolled out.
    RollingOut,
    /// The newest pods run, as many as wanted.
    RolledOut,
    /// The rollout made no progress for `spec.progressDeadlineSeconds`.
    ProgressDeadlineExceeded,
    /// Somebody paused the Deployment, so that it makes no new pods.
    RolloutPaused,
    /// As many pods serve as must.
    PodsAvailable,
    /// Fewer pods serve than must.
    PodsUnavailable,
    /// Pods are refused before they exist, by a LimitRange, a quota or an admission rule.
    PodsRefused,
    /// No node has room for a pod, or may run it.
    Unschedulable,
    /// The image can't be pulled.
    ImagePullBackOff,
    /// The image's name is malformed.
    InvalidImageName,
    /// A container refers to something that doesn't exist, such as a Secret's key.
    CreateContainerConfigError,
    /// A container could not be started, for example since its command doesn't exist.
    StartError,
    /// A container ends again and again.
    CrashLoopBackOff,
    /// A container was killed since it used more memory than its limit.
    OOMKilled,
    /// A container runs and is not ready.
    NotReady,

    /// The autoscaler reads its metrics and acts.
    ScalingActive,
    /// The autoscaler has nothing to go by yet, as when the pods are new.
    ScalingPending,
    /// The number of pods is 0, at which the autoscaler rests.
    ScalingDisabled,
    /// The autoscaler can't read CPU metrics, and that won't pass by itself: metrics-server or a CPU request is missing.
    MetricsUnavailable,

    /// Reconciled, rolled out and available.
    Ready,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
