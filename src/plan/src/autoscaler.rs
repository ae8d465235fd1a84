//! The HorizontalPodAutoscaler.

use k8s_openapi::api::autoscaling::v2::{
    ContainerResourceMetricSource, CrossVersionObjectReference, HorizontalPodAutoscaler,
    HorizontalPodAutoscalerSpec, MetricSpec, MetricTarget,
};
use kube::ResourceExt as _;
use workerapp_api::{AutoscalingSpec, WorkerApp, names};

use crate::{digest, metadata};

/// The CPU target unless the spec says otherwise: Kubernetes' own default.
pub(crate) const DEFAULT_CPU_UTILIZATION: i32 = 80;

pub(crate) fn build(app: &WorkerApp, autoscaling: &AutoscalingSpec) -> HorizontalPodAutoscaler {
    digest::stamp(HorizontalPodAutoscaler {
        metadata: metadata::child(app, |children| children.autoscaler.as_ref()),
        spec: HorizontalPodAutoscalerSpec {
            scale_target_ref: CrossVersionObjectReference {
                api_version: Some("apps/v1".into()),
                kind: "Deployment".into(),
                name: app.name_any(),
            },
            min_replicas: Some(autoscaling.min_replicas.unwrap_or(1)),
            max_replicas: autoscaling.max_replicas,
            metrics: Some(vec![cpu(utilization(autoscaling))]),
            behavior: autoscaling.behavior.clone(),
        },
        status: None,
    })
}

/// The CPU target in percent of the request.
pub(crate) fn utilization(autoscaling: &AutoscalingSpec) -> i32 {
    autoscaling.cpu.as_ref().and_then(|cpu| cpu.average_utilization).unwrap_or(DEFAULT_CPU_UTILIZATION)
}

/// On the app's container alone: a container that something else puts into the pod, and that has no CPU request, would
/// otherwise leave the whole pod's utilisation unknown.
fn cpu(average_utilization: i32) -> MetricSpec {
    MetricSpec {
        type_: "ContainerResource".into(),
        container_resource: Some(ContainerResourceMetricSource {
            container: names::CONTAINER_APP.into(),
            name: "cpu".into(),
            target: MetricTarget {
                type_: "Utilization".into(),
                average_utilization: Some(average_utilization),
                ..MetricTarget::default()
            },
        }),
        ..MetricSpec::default()
    }
}
