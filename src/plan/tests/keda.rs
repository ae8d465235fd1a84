//! The ScaledObject: the spec's metrics as KEDA's triggers, and what stands in its place without KEDA.

#![allow(clippy::unwrap_used, clippy::needless_pass_by_value, reason = "helpers of tests, given literals")]

mod common;

use common::{app, facts};
use serde_json::{Value, json};
use workerapp_plan::{Facts, Plan, Served};

fn plan_with(autoscaling: Value, facts: &Facts) -> Plan {
    let mut whole = json!({"maxReplicas": 4, "keda": {"prometheusAddress": "http://prometheus:9090"}});
    for (key, value) in autoscaling.as_object().unwrap() {
        whole[key] = value.clone();
    }
    let resources = json!({"requests": {"cpu": "2"}, "limits": {"cpu": "3"}});
    workerapp_plan::plan(
        &app(json!({"runtime": "Node", "resources": resources, "autoscaling": whole})),
        facts,
    )
    .unwrap()
}

fn scaled(autoscaling: Value) -> Value {
    let plan = plan_with(autoscaling, &facts());
    assert_eq!(plan.children.autoscaler, None, "two autoscalers of one Deployment fight each other");
    serde_json::to_value(plan.children.scaled_object).unwrap()
}

#[test]
fn the_metrics_of_the_spec_become_triggers() {
    let scaled = scaled(json!({
        "minReplicas": 2,
        "cpu": {"targetPercent": 60}, "memory": {"averageValue": "400Mi"},
        "inFlight": {"averageValue": "1500m"}, "busyWorkers": {"targetPercent": 50},
        "keda": {"prometheusAddress": "http://prometheus:9090", "pollingIntervalSeconds": 10,
            "triggers": [{"type": "cron", "metadata": {"start": "0 8 * * *"}}]},
    }));
    let spec = &scaled["spec"];
    assert_eq!(
        spec["scaleTargetRef"],
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "shop"})
    );
    assert_eq!(
        (&spec["minReplicaCount"], &spec["maxReplicaCount"], &spec["pollingInterval"]),
        (&json!(2), &json!(4), &json!(10))
    );
    let triggers = spec["triggers"].as_array().unwrap();
    let types: Vec<_> = triggers.iter().map(|trigger| trigger["type"].as_str().unwrap()).collect();
    assert_eq!(types, ["cpu", "memory", "prometheus", "prometheus", "cron"]);
    // What the operator's own autoscaler would be given, as text.
    assert_eq!(triggers[0]["metricType"], "Utilization");
    assert_eq!(triggers[0]["metadata"], json!({"containerName": "app", "value": "90"}));
    assert_eq!(triggers[1]["metricType"], "AverageValue");
    assert_eq!(triggers[1]["metadata"], json!({"containerName": "app", "value": "400Mi"}));
    assert_eq!(
        (&triggers[2]["name"], &triggers[2]["metadata"]["threshold"]),
        (&json!("inFlight"), &json!("1.5"))
    );
    // The whole app, since KEDA divides by the pods: three workers, half of them busy.
    assert_eq!(triggers[3]["metadata"]["threshold"], "1.5");
    assert_eq!(
        triggers[3]["metadata"]["query"],
        "sum(clamp_max(rate(workerapp_worker_cpu_seconds_total{namespace=\"web\",pod=~\"shop-[a-z0-9]+-[a-z0-9]{5}\"}[1m]), 1))"
    );
}

/// `kubernetes_61007`: numbers that are missing are no zeros.
#[test]
fn kubernetes_61007_an_empty_answer_of_prometheus_removes_no_pod() {
    let scaled = scaled(json!({"inFlight": {"averageValue": 20}}));
    let triggers = &scaled["spec"]["triggers"];
    assert_eq!(
        (triggers.as_array().unwrap().len(), &triggers[0]["metadata"]["ignoreNullValues"]),
        (1, &json!("false"))
    );
}

#[test]
fn keda_leaves_the_operators_label_off_the_autoscaler_that_it_makes() {
    let annotations = scaled(json!({}))["metadata"]["annotations"].clone();
    assert_eq!(annotations["scaledobject.keda.sh/hpa-excluded-labels"], "app.kubernetes.io/managed-by");
}

#[test]
fn cpu_is_scaled_on_where_nothing_else_is_named() {
    let types = |autoscaling| -> Vec<String> {
        let scaled = scaled(autoscaling);
        let triggers = scaled["spec"]["triggers"].as_array().unwrap();
        triggers.iter().map(|trigger| trigger["type"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(types(json!({})), ["cpu"]);
    assert_eq!(types(json!({"keda": {"triggers": [{"type": "kafka", "metadata": {}}]}})), ["kafka"]);
}

#[test]
fn without_keda_an_autoscaler_of_the_operators_own_stands_in() {
    let without = Facts { absent: vec!["ScaledObject"], served: Served::Only([].into()), ..facts() };
    let plan = plan_with(json!({"inFlight": {"averageValue": 20}}), &without);
    assert_eq!(plan.children.scaled_object, None);
    let metrics = plan.children.autoscaler.unwrap().spec.metrics.unwrap();
    assert_eq!(metrics.iter().map(|metric| metric.type_.as_str()).collect::<Vec<_>>(), ["ContainerResource"]);
    let told: Vec<_> = plan.warnings.iter().map(workerapp_plan::Warning::reason).collect();
    assert_eq!(told, ["NoKeda", "WorkerMetricsMissing"]);
}
