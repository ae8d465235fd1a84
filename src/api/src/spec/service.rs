//! `spec.service`: how the app is reached.

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::validation as rule;

/// How the app is reached.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = rule::node_port_needs_type(),
    validation = rule::traffic_policy_needs_type(),
    validation = rule::distinct_node_ports()
)]
pub struct ServiceSpec {
    /// `NodePort`, `ClusterIP` or `LoadBalancer`. Default: `NodePort`.
    #[serde(default, rename = "type", skip_serializing_if = "Option::is_none")]
    pub type_: Option<ServiceType>,
    /// The port of the Service. Default: 80.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 65535))]
    pub port: Option<i32>,
    /// The port on every node at which the app answers. Default: one that Kubernetes picks and keeps. Example: `30000`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[x_kube(validation = rule::node_port())]
    pub node_port: Option<i32>,
    /// Whether the Service carries the annotation `benchmark.platformatic.dev/expose: "true"`, by which benchmark tools find
    /// it. Default: true.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expose: Option<bool>,
    /// Offers the workers' metrics as a further port of the Service, named `metrics`. Default: only for runtimes that serve
    /// metrics themselves (`Watt`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metrics: Option<MetricsPort>,
    /// `Cluster` or `Local`, as in a Service. Default: `Cluster`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[x_kube(validation = rule::traffic_policy())]
    pub external_traffic_policy: Option<String>,
    /// `ClientIP`: the same client address meets the same pod and in it the same worker, for programs that keep
    /// sessions in memory. From outside the cluster it needs `externalTrafficPolicy: Local`, without which a pod sees its node's
    /// address. Default: `None`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[x_kube(validation = rule::session_affinity())]
    pub session_affinity: Option<String>,
}

/// `NodePort`, `ClusterIP` or `LoadBalancer`. Default: `NodePort`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ServiceType {
    /// Answers on a port of every node.
    #[default]
    NodePort,
    /// Answers inside the cluster only.
    ClusterIP,
    /// Answers at an address that the cloud provides.
    LoadBalancer,
}

/// A port of the Service for metrics.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct MetricsPort {
    /// The port of the Service. Default: 9090.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 65535))]
    pub port: Option<i32>,
    /// The port on every node. Default: one that Kubernetes picks. Example: `30090`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[x_kube(validation = rule::node_port())]
    pub node_port: Option<i32>,
}
