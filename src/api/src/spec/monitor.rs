//! `spec.monitor`: how Prometheus finds the workers' metrics.

use kube::KubeSchema;
use serde::{Deserialize, Serialize};

use crate::validation as rule;

/// How Prometheus finds the workers' metrics.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct MonitorSpec {
    /// How often each pod is asked. Default: as Prometheus is configured. Example: `15s`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[x_kube(validation = rule::interval())]
    #[schemars(length(max = 32))]
    pub interval: Option<String>,
}
