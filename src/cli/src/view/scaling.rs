//! What an autoscaler goes by, in words.

use k8s_openapi::{
    api::autoscaling::v2::{
        HorizontalPodAutoscaler, MetricSpec, MetricStatus, MetricTarget, MetricValueStatus,
    },
    apimachinery::pkg::api::resource::Quantity as KubeQuantity,
};
use workerapp_api::Quantity;
use workerapp_plan::Plan;

use crate::output::counted;

/// Whether a condition of an autoscaler holds, and its reason.
pub(crate) fn condition(autoscaler: &HorizontalPodAutoscaler, type_: &str) -> Option<(bool, String)> {
    let conditions = autoscaler.status.as_ref()?.conditions.as_ref()?;
    let found = conditions.iter().find(|condition| condition.type_ == type_)?;
    Some((found.status == "True", found.reason.clone().unwrap_or_default()))
}

/// `cpu 12 % / 50 %, requests in flight 3.5 / 20, 2 pods (2 to 10)`.
pub(crate) fn now(autoscaler: &HorizontalPodAutoscaler) -> String {
    let spec = &autoscaler.spec;
    let status = autoscaler.status.clone().unwrap_or_default();
    let current = status.current_metrics.unwrap_or_default();
    let metrics = spec.metrics.iter().flatten().enumerate();
    let mut words: Vec<_> = metrics
        .map(|(place, metric)| match target(metric) {
            Some((name, target)) => {
                let value = current.get(place).and_then(measured);
                let shown = |text: Option<String>| text.unwrap_or_else(|| "?".into());
                format!("{name} {} / {}", shown(value), shown(wanted(target)))
            }
            None => metric.type_.clone(),
        })
        .collect();
    let least = spec.min_replicas.unwrap_or(1);
    let pods = status.current_replicas.unwrap_or_default();
    words.push(format!("{} ({least} to {})", counted(pods, "pod"), spec.max_replicas));
    if pods != status.desired_replicas {
        words.push(format!("{} wanted", status.desired_replicas));
    }
    words.join(", ")
}

/// `cpu 50 % of the request, requests in flight 20 per pod`, or the triggers of KEDA.
pub(crate) fn planned(plan: &Plan) -> Vec<String> {
    let bursts = plan.bursts.as_ref().map(|bursts| {
        format!("bursts above {} % of a target, for {} s", bursts.threshold_percent, bursts.hold_seconds)
    });
    targets(plan).into_iter().chain(bursts).collect()
}

fn targets(plan: &Plan) -> Vec<String> {
    if let Some(scaled) = &plan.children.scaled_object {
        let triggers = scaled.spec.triggers.iter();
        let words = triggers.map(|trigger| match &trigger.name {
            Some(name) => format!("{} {name}", trigger.type_),
            None => trigger.type_.clone(),
        });
        return [format!("KEDA's triggers: {}", words.collect::<Vec<_>>().join(", "))].into();
    }
    let metrics =
        plan.children.autoscaler.iter().flat_map(|autoscaler| autoscaler.spec.metrics.iter().flatten());
    let words = |metric: &MetricSpec| {
        let (name, target) = target(metric)?;
        let kind = if target.average_utilization.is_some() { "of the request" } else { "per pod" };
        Some(format!("{name} {} {kind}", wanted(target)?))
    };
    metrics.filter_map(words).collect()
}

/// A metric's name as a person says it, and its target.
fn target(metric: &MetricSpec) -> Option<(String, &MetricTarget)> {
    let container = metric.container_resource.as_ref().map(|one| (one.name.clone(), &one.target));
    let resource = metric.resource.as_ref().map(|one| (one.name.clone(), &one.target));
    let pods = metric.pods.as_ref().map(|one| {
        let name = &one.metric.name;
        (name.strip_prefix("workerapp_").unwrap_or(name).replace('_', " "), &one.target)
    });
    container.or(resource).or(pods)
}

fn wanted(target: &MetricTarget) -> Option<String> {
    amount(target.average_utilization, target.average_value.as_ref())
}

fn measured(metric: &MetricStatus) -> Option<String> {
    let container = metric.container_resource.as_ref().map(|one| &one.current);
    let resource = metric.resource.as_ref().map(|one| &one.current);
    let pods = metric.pods.as_ref().map(|one| &one.current);
    let MetricValueStatus { average_utilization, average_value, .. } = container.or(resource).or(pods)?;
    amount(*average_utilization, average_value.as_ref())
}

/// Percent, or a plain number: `3500m` in flight mean 3.5.
fn amount(percent: Option<i32>, value: Option<&KubeQuantity>) -> Option<String> {
    if let Some(percent) = percent {
        return Some(format!("{percent} %"));
    }
    let text = &value?.0;
    match text.parse::<Quantity>() {
        Ok(quantity) if text.ends_with('m') => Some(quantity.plain()),
        _ => Some(text.clone()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{now, planned};

    #[test]
    fn bursts_are_told_with_the_numbers_that_hold() {
        let plan = |burst: serde_json::Value| {
            let autoscaling = json!({"maxReplicas": 4, "inFlight": {"averageValue": 20}, "burst": burst});
            let app = serde_json::from_value(json!({
                "apiVersion": "workerapp.dev/v1alpha1", "kind": "WorkerApp", "metadata": {"name": "shop"},
                "spec": {"image": "i", "command": ["c"], "port": 3000, "autoscaling": autoscaling},
            }))
            .unwrap();
            workerapp_plan::plan(&app, &workerapp_plan::Facts::default()).unwrap()
        };
        assert_eq!(
            planned(&plan(json!({}))),
            ["requests in flight 20 per pod", "bursts above 150 % of a target, for 60 s"]
        );
        assert_eq!(planned(&plan(json!(null))), ["requests in flight 20 per pod"]);
    }

    #[test]
    fn metrics_of_the_workers_are_told_as_numbers() {
        let metric = |value: &str, key: &str| {
            json!({"type": "Pods", "pods": {
                "metric": {"name": "workerapp_requests_in_flight"}, key: {"type": "AverageValue", "averageValue": value}}})
        };
        let autoscaler = serde_json::from_value(json!({
            "spec": {"scaleTargetRef": {"kind": "Deployment", "name": "shop"}, "minReplicas": 2, "maxReplicas": 10,
                "metrics": [metric("20", "target"), metric("1500m", "target")]},
            "status": {"currentReplicas": 2, "desiredReplicas": 2, "currentMetrics": [metric("3450m", "current")]},
        }))
        .unwrap();
        assert_eq!(
            now(&autoscaler),
            "requests in flight 3.45 / 20, requests in flight ? / 1.5, 2 pods (2 to 10)"
        );
    }
}
