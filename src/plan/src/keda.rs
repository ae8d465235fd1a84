//! KEDA's ScaledObject, in the place of the HorizontalPodAutoscaler: KEDA makes one of its own from it.
//!
//! The metrics of the spec become triggers: CPU and memory as KEDA's `cpu` and `memory`, of which it makes what the operator's own
//! autoscaler would have; those of the workers as queries to Prometheus, since KEDA's autoscaler asks KEDA alone.

use std::collections::BTreeMap;

use k8s_openapi::api::autoscaling::v2::{
    CrossVersionObjectReference, HorizontalPodAutoscalerBehavior, MetricSpec,
};
use kube::{CustomResource, ResourceExt as _};
use serde::{Deserialize, Serialize};
use workerapp_api::{AutoscalingSpec, KedaSpec, KedaTrigger, Quantity, names};

use crate::{
    autoscaler::{self, Basis},
    digest, metadata,
};

/// Labels of the ScaledObject that KEDA leaves out of the autoscaler that it makes: it isn't the operator's child.
const EXCLUDED_LABELS: &str = "scaledobject.keda.sh/hpa-excluded-labels";

/// The part of KEDA's `ScaledObject` that is used here.
///
/// Source: <https://keda.sh/docs/latest/reference/scaledobject-spec/>.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "keda.sh",
    version = "v1alpha1",
    kind = "ScaledObject",
    namespaced,
    schema = "disabled",
    derive = "PartialEq"
)]
#[serde(rename_all = "camelCase")]
pub struct ScaledObjectSpec {
    /// What is scaled.
    pub scale_target_ref: CrossVersionObjectReference,
    /// Never fewer pods.
    pub min_replica_count: i32,
    /// Never more pods.
    pub max_replica_count: i32,
    /// Seconds between two looks at the triggers; `None`: KEDA's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub polling_interval: Option<i32>,
    /// What the autoscaler gets as it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub advanced: Option<Advanced>,
    /// What it scales on.
    pub triggers: Vec<KedaTrigger>,
}

/// Settings of the autoscaler that KEDA makes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Advanced {
    /// As in a HorizontalPodAutoscaler.
    pub horizontal_pod_autoscaler_config: AutoscalerConfig,
}

/// What the autoscaler gets as it is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AutoscalerConfig {
    /// How fast pods are added and removed.
    pub behavior: HorizontalPodAutoscalerBehavior,
}

/// The one that the spec asks for.
pub(crate) fn build(basis: &Basis<'_>, autoscaling: &AutoscalingSpec, keda: &KedaSpec) -> ScaledObject {
    let mut metadata = metadata::child(basis.app, |children| children.autoscaler.as_ref());
    metadata
        .annotations
        .get_or_insert_default()
        .insert(EXCLUDED_LABELS.into(), names::LABEL_MANAGED_BY.into());
    let behavior = autoscaling.behavior.clone();
    digest::stamp(ScaledObject {
        metadata,
        spec: ScaledObjectSpec {
            scale_target_ref: basis.scale_target(),
            min_replica_count: basis.least_pods(autoscaling),
            max_replica_count: autoscaling.max_replicas,
            polling_interval: keda.polling_interval_seconds,
            advanced: behavior
                .map(|behavior| Advanced { horizontal_pod_autoscaler_config: AutoscalerConfig { behavior } }),
            triggers: triggers(basis, autoscaling, keda),
        },
    })
}

fn triggers(basis: &Basis<'_>, autoscaling: &AutoscalingSpec, keda: &KedaSpec) -> Vec<KedaTrigger> {
    let mut triggers: Vec<KedaTrigger> =
        autoscaler::resource_metrics(basis, autoscaling).into_iter().filter_map(resource).collect();
    if let Some(address) = &keda.prometheus_address {
        let pods = pods_of(basis);
        triggers.extend(
            autoscaler::worker_metrics(basis, autoscaling)
                .map(|(metric, target)| prometheus(address, metric.field, &(metric.query)(&pods), &target)),
        );
    }
    triggers.extend(keda.triggers.iter().cloned());
    triggers
}

/// A metric of the app's container as KEDA's `cpu` or `memory`.
fn resource(metric: MetricSpec) -> Option<KedaTrigger> {
    let source = metric.container_resource?;
    let value = match (source.target.average_utilization, source.target.average_value) {
        (Some(percent), _) => percent.to_string(),
        (None, value) => value?.0,
    };
    let metadata = [("containerName".into(), source.container), ("value".into(), value)];
    Some(KedaTrigger {
        type_: source.name,
        metric_type: Some(source.target.type_),
        metadata: BTreeMap::from(metadata),
        ..KedaTrigger::default()
    })
}

/// The app's sum; KEDA's autoscaler divides it by the number of pods.
fn prometheus(address: &str, field: &str, query: &str, target: &Quantity) -> KedaTrigger {
    let metadata = [
        ("serverAddress", address.to_owned()),
        ("query", query.to_owned()),
        // KEDA reads plain numbers.
        ("threshold", target.plain()),
        // Missing numbers are no zeros: without an answer the number of pods stays.
        ("ignoreNullValues", "false".to_owned()),
    ];
    KedaTrigger {
        type_: "prometheus".into(),
        name: Some(field.to_owned()),
        metric_type: Some("AverageValue".into()),
        metadata: metadata.map(|(key, value)| (key.to_owned(), value)).into(),
        ..KedaTrigger::default()
    }
}

/// The labels by which Prometheus finds the app's pods and no other's: names of a Deployment's pods end in a template's hash and five
/// letters, which hold no dash.
fn pods_of(basis: &Basis<'_>) -> String {
    let namespace = basis.app.namespace().map(|name| format!("namespace=\"{name}\",")).unwrap_or_default();
    format!("{namespace}pod=~\"{}-[a-z0-9]+-[a-z0-9]{{5}}\"", basis.app.name_any())
}
