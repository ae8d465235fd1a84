//! `spec.metadata`: extra labels and annotations of each child.

use std::collections::BTreeMap;

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::validation as rule;

/// Extra labels and annotations of each child.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ChildrenMetadata {
    /// Of the Deployment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deployment: Option<ChildMetadata>,
    /// Of the pods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod: Option<ChildMetadata>,
    /// Of the Service. Example: a cloud load balancer's annotations.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service: Option<ChildMetadata>,
    /// Of the HorizontalPodAutoscaler, or the ScaledObject in its place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub autoscaler: Option<ChildMetadata>,
    /// Of the PodDisruptionBudget.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disruption_budget: Option<ChildMetadata>,
    /// Of the NetworkPolicy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network_policy: Option<ChildMetadata>,
    /// Of the PodMonitor: most Prometheus installations select by a label. Example:
    /// `{labels: {release: kube-prometheus-stack}}`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub monitor: Option<ChildMetadata>,
}

/// Extra labels and annotations of one child.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct ChildMetadata {
    /// Labels. `app.kubernetes.io/name`, `instance` and `managed-by` are the operator's own. Example: `{team: web}`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 64))]
    #[x_kube(validation = rule::reserved_labels())]
    pub labels: BTreeMap<String, String>,
    /// Annotations. Those under `workerapp.dev/` are the operator's own.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 64))]
    #[x_kube(validation = rule::reserved_annotations())]
    pub annotations: BTreeMap<String, String>,
}
