//! `spec.networkPolicy`: who may reach the pods.

use k8s_openapi::api::networking::v1::NetworkPolicyPeer;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Who may reach the pods.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NetworkPolicySpec {
    /// Who may reach the app's ports: pods, namespaces, or blocks of addresses. What comes through a port of a node has that node's
    /// address, unless `service.externalTrafficPolicy` is `Local`. Default: everybody. Example:
    /// `[{namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: ingress-nginx}}}]`.
    /// See `kubectl explain networkpolicy.spec.ingress.from`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub from: Vec<NetworkPolicyPeer>,
    /// Who may reach the supervisor's port (probes and metrics) and a runtime's own metrics port, beside the operator's namespace and
    /// the kubelet, whose probes always get through: traffic between a pod and its own node can't be refused. Default: nobody else.
    /// Example: `[{namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: monitoring}}}]`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub admin_from: Vec<NetworkPolicyPeer>,
}
