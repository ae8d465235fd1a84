//! `spec.disruptionBudget`: how many pods may be away at once while nodes are emptied.

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::KubeSchema;
use serde::{Deserialize, Serialize};

use crate::validation as rule;

/// How many pods may be away at once while nodes are emptied.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = rule::one_budget())]
pub struct DisruptionBudgetSpec {
    /// Whether there is a PodDisruptionBudget. Default: true where the app never has fewer than two pods (`replicas` or
    /// `autoscaling.minReplicas` is 2 or more) or one of the other two fields is given, else false. Never where somebody made one for
    /// the app's pods: Kubernetes evicts no pod that has two.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
    /// At most so many pods, or so many percent of them, may be away at once. Default: 1. Example: `25%`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[x_kube(validation = rule::some_unavailable())]
    pub max_unavailable: Option<IntOrString>,
    /// At least so many pods, or so many percent of them, must stay; not together with `maxUnavailable`. Where that is every pod
    /// that the app is sure to have, no node could ever be emptied, and `maxUnavailable: 1` is used instead. Example: `2`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[x_kube(validation = rule::some_available())]
    pub min_available: Option<IntOrString>,
}
