//! `spec.autoscaling`: how the number of pods follows the load.

use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscalerBehavior;
use kube::KubeSchema;
use serde::{Deserialize, Serialize};

use crate::{lenient, validation as rule};

/// How the number of pods follows the load.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = rule::min_within_max(), validation = rule::cpu_needs_target())]
pub struct AutoscalingSpec {
    /// Never fewer pods than this. Default: 1. Example: `2`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub min_replicas: Option<i32>,
    /// Never more pods than this. Example: `10`.
    #[schemars(range(min = 1))]
    pub max_replicas: i32,
    /// Scale on CPU. Default: `{averageUtilization: 80}`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu: Option<CpuTarget>,
    /// How fast pods are added and removed. Default: Kubernetes' own. See
    /// `kubectl explain hpa.spec.behavior --api-version=autoscaling/v2`.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "lenient::deserialize")]
    pub behavior: Option<HorizontalPodAutoscalerBehavior>,
}

/// The CPU at which pods are added.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct CpuTarget {
    /// Average CPU of the app's containers in percent of their CPU *request* (HPA's own meaning, so that with a request
    /// of 2 and a limit of 3 CPUs 150 is a full load). Default: 80. Example: `50`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub average_utilization: Option<i32>,
}
