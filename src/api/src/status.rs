//! What the operator found out and did: `WorkerApp.status`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What the operator worked out and what the cluster says. Written by the operator only.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WorkerAppStatus {
    /// The `metadata.generation` that this status speaks about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// How many workers each pod runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workers: Option<i32>,
    /// The rule that decided `workers`, with its numbers. Example: `CPU limit 3 → 3 workers`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workers_reason: Option<String>,
    /// The port on every node at which the app answers; absent when the Service has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_port: Option<i32>,
    /// An address at which the app answers. Example: `http://192.168.7.12:30000`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// Pods that exist, old and new ones of a rollout together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
    /// Pods that are Ready.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ready_replicas: Option<i32>,
    /// Pods of the newest template.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub updated_replicas: Option<i32>,
    /// The label selector of the app's pods, as text, for the scale subresource.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selector: Option<String>,
    /// The burst that is running (`spec.autoscaling.burst`); absent while there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub burst: Option<BurstStatus>,
    /// `Reconciled`, `Available`, `Progressing`, `ScalingActive`, `Paused`, `Stalled` and `Ready`, each with a reason and a message
    /// that names what to do.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
}

/// A burst that is running: for a while the app has at least so many pods.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BurstStatus {
    /// No fewer pods than this meanwhile.
    pub replicas: i32,
    /// When it ends, by the operator's clock. Example: `2026-01-01T00:01:00Z`.
    #[schemars(extend("format" = "date-time"))]
    pub until: String,
    /// What called for it, with the numbers. Example: `requests in flight 31 per pod, target 10`.
    pub reason: String,
}

/// Whether a condition holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ConditionStatus {
    /// It holds.
    True,
    /// It does not hold; the reason says why.
    False,
    /// It can't be told yet.
    Unknown,
}

/// One condition, in the form that Kubernetes' own conditions have.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Condition {
    /// What the condition speaks about: `Reconciled`, `Available`, `Progressing`, `ScalingActive`, `Paused`, `Stalled` or
    /// `Ready`.
    #[serde(rename = "type")]
    pub type_: String,
    /// `True`, `False` or `Unknown`.
    pub status: ConditionStatus,
    /// The `metadata.generation` that this condition speaks about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// When `status` last changed.
    #[schemars(extend("format" = "date-time"))]
    pub last_transition_time: String,
    /// One word for programs. Example: `NodePortTaken`.
    pub reason: String,
    /// What was seen and what to do about it, for people.
    #[serde(default)]
    pub message: String,
}
