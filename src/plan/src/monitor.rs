//! The PodMonitor: how Prometheus finds the workers' metrics.
//!
//! A PodMonitor and not a ServiceMonitor, since the supervisor's port is none of the Service's: that would open it on every node. It
//! also sees pods that are not ready, which have the most to tell.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::CustomResource;
use serde::{Deserialize, Serialize};
use workerapp_api::{WorkerApp, names};

use crate::{digest, metadata, runtime::Profile};

/// The part of the Prometheus operator's `PodMonitor` that is used here.
///
/// Source: <https://prometheus-operator.dev/docs/api-reference/api/#monitoring.coreos.com/v1.PodMonitor>.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "monitoring.coreos.com",
    version = "v1",
    kind = "PodMonitor",
    namespaced,
    schema = "disabled",
    derive = "PartialEq"
)]
#[serde(rename_all = "camelCase")]
pub struct PodMonitorSpec {
    /// The pods that are asked, in the PodMonitor's own namespace.
    pub selector: LabelSelector,
    /// The pod's label whose value becomes the metrics' label `job`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job_label: Option<String>,
    /// Where each pod serves metrics.
    pub pod_metrics_endpoints: Vec<PodMetricsEndpoint>,
}

/// A place where a pod serves metrics.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PodMetricsEndpoint {
    /// The name of the container's port.
    pub port: String,
    /// The path.
    pub path: String,
    /// How often it is asked; `None`: as Prometheus is configured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval: Option<String>,
}

pub(crate) fn build(app: &WorkerApp, profile: &Profile) -> Option<PodMonitor> {
    let asked = app.spec.monitor.as_ref()?;
    let endpoint = |port: &str, path: &str| PodMetricsEndpoint {
        port: port.into(),
        path: path.into(),
        interval: asked.interval.clone(),
    };
    let mut endpoints = vec![endpoint(names::PORT_ADMIN, "/metrics")];
    if app.spec.supervisor.as_ref().is_some_and(|supervisor| supervisor.app_metrics.is_some()) {
        endpoints.push(endpoint(names::PORT_ADMIN, "/app-metrics"));
    }
    if profile.metrics_port.is_some() {
        endpoints.push(endpoint(names::PORT_METRICS, "/metrics"));
    }
    Some(digest::stamp(PodMonitor {
        metadata: metadata::child(app, |children| children.monitor.as_ref()),
        spec: PodMonitorSpec {
            selector: LabelSelector {
                match_labels: Some(metadata::managed_selector(app)),
                ..LabelSelector::default()
            },
            job_label: Some(names::LABEL_NAME.into()),
            pod_metrics_endpoints: endpoints,
        },
    }))
}
