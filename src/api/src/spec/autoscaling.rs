//! `spec.autoscaling`: how the number of pods follows the load.

use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscalerBehavior;
use kube::KubeSchema;
use serde::{Deserialize, Serialize};

use super::keda::KedaSpec;
use crate::{Quantity, lenient, validation as rule};

/// How the number of pods follows the load. Of several metrics the one that asks for the most pods counts.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = rule::min_within_max(), validation = rule::cpu_target(), validation = rule::memory_target(), validation = rule::keda_prometheus(), validation = rule::burst_metric())]
pub struct AutoscalingSpec {
    /// Never fewer pods than this. Default: 1. Example: `2`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub min_replicas: Option<i32>,
    /// Never more pods than this. Example: `10`.
    #[schemars(range(min = 1))]
    pub max_replicas: i32,
    /// Scale on CPU. Default where no other metric is given: `{averageUtilization: 80}`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu: Option<CpuTarget>,
    /// Scale on memory. Few programs give memory back, so that this seldom removes pods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<MemoryTarget>,
    /// Scale on requests in flight, for each pod: those that have begun and not ended, and connections that wait to be
    /// accepted. Node only. As all that follow it needs the operator's metrics API (Helm: `metricsApi.enabled`) or another
    /// one that serves the same numbers; while none answers the app scales on its other metrics, or on CPU where it has none.
    /// Example: `{averageValue: 20}`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub in_flight: Option<PerPodTarget>,
    /// Scale on requests per second, for each pod. Node only. Example: `{averageValue: 500}`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requests_per_second: Option<PerPodTarget>,
    /// Scale on connections that wait to be accepted, for each pod. Example: `{averageValue: 5}`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue_length: Option<PerPodTarget>,
    /// Scale on how busy the workers' event loops are. Node only. Example: `{targetPercent: 60}`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event_loop_utilization: Option<ShareTarget>,
    /// Scale on how many of a pod's workers are busy, by their event loops (Node) or their CPU time. Example: `{targetPercent: 60}`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub busy_workers: Option<ShareTarget>,
    /// How fast pods are added and removed, and which difference from the target is ignored (`tolerance`). Default: Kubernetes'
    /// own. See `kubectl explain hpa.spec.behavior --api-version=autoscaling/v2`.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "lenient::deserialize")]
    pub behavior: Option<HorizontalPodAutoscalerBehavior>,
    /// Adds pods within seconds when one of the workers' metrics leaps far above its target, instead of at the autoscaler's next look
    /// (every 15 s): for a while the app has at least as many pods as the load calls for, within `maxReplicas`. Needs one of `inFlight`,
    /// `requestsPerSecond`, `queueLength`, `eventLoopUtilization` and `busyWorkers`, and a metrics API. Default: off. Example: `{}`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub burst: Option<BurstSpec>,
    /// Scale through KEDA: a `ScaledObject` with the same metrics takes the HorizontalPodAutoscaler's place, where the cluster
    /// has KEDA; until it has, the app keeps the HorizontalPodAutoscaler. Default: none. Example:
    /// `{prometheusAddress: "http://prometheus.monitoring:9090"}`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keda: Option<KedaSpec>,
}

/// When pods are added at once, and for how long they stay at least.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct BurstSpec {
    /// A burst begins when a metric is above so many percent of its target, over the pods that there are. At least 110: an autoscaler
    /// ignores a tenth. Default: 150. Example: `200`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 110, max = 1000))]
    pub threshold_percent: Option<i32>,
    /// Seconds for which the app keeps at least the pods that the burst called for, counted anew whenever it calls for more. After that
    /// the autoscaler alone decides. Default: 60. Example: `120`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 5, max = 3600))]
    pub hold_seconds: Option<i32>,
}

/// The CPU at which pods are added.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct CpuTarget {
    /// Average CPU of the app's containers in percent of their CPU *request* (HPA's own meaning, so that with a request
    /// of 2 and a limit of 3 CPUs 150 is a full load). Example: `50`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub average_utilization: Option<i32>,
    /// The same in percent of what the workers can use: one CPU each, and at most the CPU limit. The operator works out
    /// the percentage of the request. At most 90: an autoscaler ignores a tenth, and more than all can't be seen. Example: `60`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 90))]
    pub target_percent: Option<i32>,
}

/// The memory at which pods are added.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct MemoryTarget {
    /// Average memory of the app's containers in percent of their memory *request*. Example: `80`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub average_utilization: Option<i32>,
    /// Average memory of the app's containers. Example: `400Mi`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[x_kube(validation = rule::quantity(), validation = rule::positive_quantity())]
    pub average_value: Option<Quantity>,
}

/// A number for each pod at which pods are added.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct PerPodTarget {
    /// The average over the pods. Example: `20`.
    #[x_kube(validation = rule::quantity(), validation = rule::positive_quantity())]
    pub average_value: Quantity,
}

/// A share at which pods are added.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct ShareTarget {
    /// The average over the pods, in percent. At most 90: an autoscaler ignores a tenth, and more than all can't be
    /// seen. Example: `60`.
    #[schemars(range(min = 1, max = 90))]
    pub target_percent: i32,
}
