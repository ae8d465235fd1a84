//! `spec.autoscaling.keda`: a ScaledObject in the place of a HorizontalPodAutoscaler.

use std::collections::BTreeMap;

use kube::KubeSchema;
use serde::{Deserialize, Serialize};

use crate::validation as rule;

/// How the app scales through KEDA.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct KedaSpec {
    /// Where KEDA asks for the workers' metrics, which it can read from Prometheus alone: needed with `inFlight` and all that
    /// follow it. Example: `http://prometheus.monitoring:9090`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[x_kube(validation = rule::http_address())]
    #[schemars(length(max = 512))]
    pub prometheus_address: Option<String>,
    /// Seconds between two looks of KEDA at the triggers. Default: KEDA's own, 30. Example: `10`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 86400))]
    pub polling_interval_seconds: Option<i32>,
    /// Further triggers, passed on as they are: <https://keda.sh/docs/latest/scalers/>. Example:
    /// `[{type: cron, metadata: {timezone: Europe/Vienna, start: 0 8 * * *, end: 0 18 * * *, desiredReplicas: "4"}}]`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    pub triggers: Vec<KedaTrigger>,
}

/// One of KEDA's triggers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct KedaTrigger {
    /// Which of KEDA's scalers. Example: `rabbitmq`.
    #[serde(rename = "type")]
    #[schemars(length(min = 1, max = 63))]
    pub type_: String,
    /// A name, by which messages and `status` tell triggers apart. Example: `orders`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub name: Option<String>,
    /// `AverageValue`, `Value` or `Utilization`. Default: the scaler's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[x_kube(validation = rule::keda_metric_type())]
    #[schemars(length(max = 63))]
    pub metric_type: Option<String>,
    /// The scaler's settings, all of them text. Example: `{queueName: orders, mode: QueueLength, value: "20"}`.
    #[schemars(extend("maxProperties" = 64))]
    pub metadata: BTreeMap<String, String>,
    /// Where the scaler's credentials come from. Example: `{name: rabbitmq}`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub authentication_ref: Option<KedaAuthentication>,
}

/// A TriggerAuthentication.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct KedaAuthentication {
    /// Its name.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// `TriggerAuthentication`, of the app's namespace, or `ClusterTriggerAuthentication`. Default: the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[x_kube(validation = rule::keda_authentication_kind())]
    #[schemars(length(max = 63))]
    pub kind: Option<String>,
}
