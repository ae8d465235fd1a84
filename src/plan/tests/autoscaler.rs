//! The autoscaler's metrics: CPU, memory, the workers' own; and what is told about them.

#![allow(clippy::unwrap_used, clippy::needless_pass_by_value, reason = "helpers of tests, given literals")]

mod common;

use std::sync::Arc;

use common::{app, facts, plan};
use serde_json::{Value, json};
use workerapp_plan::{Facts, NodeSize, Served};

fn metrics_with(spec: Value, facts: &Facts) -> Value {
    let plan = workerapp_plan::plan(&app(spec), facts).unwrap();
    serde_json::to_value(plan.children.autoscaler).unwrap()["spec"]["metrics"].clone()
}

fn warnings_with(spec: Value, facts: &Facts) -> Vec<String> {
    let plan = workerapp_plan::plan(&app(spec), facts).unwrap();
    plan.warnings.iter().map(ToString::to_string).collect()
}

fn cpu(percent: i32) -> Value {
    let target = json!({"type": "Utilization", "averageUtilization": percent});
    json!({"type": "ContainerResource", "containerResource": {"container": "app", "name": "cpu", "target": target}})
}

fn worker_metric(name: &str, value: &str) -> Value {
    json!({"type": "Pods", "pods": {"metric": {"name": name}, "target": {"type": "AverageValue", "averageValue": value}}})
}

fn spec(request: &str, limit: &str, autoscaling: Value) -> Value {
    let mut whole = json!({"maxReplicas": 4});
    for (key, value) in autoscaling.as_object().unwrap() {
        whole[key] = value.clone();
    }
    let mut resources = json!({"requests": {"cpu": request, "memory": "100Mi"}});
    if !limit.is_empty() {
        resources["limits"] = json!({"cpu": limit});
    }
    json!({"resources": resources, "runtime": "Node", "autoscaling": whole})
}

/// `kubernetes_72811`, `rhesis_2553`: users compute 300 % by hand.
#[test]
fn kubernetes_72811_a_share_of_the_capacity_becomes_a_percentage_of_the_request() {
    for (request, limit, count, percent, expected) in [
        ("2", "3", None, 60, 90),
        ("1", "3", None, 60, 180),
        ("500m", "2500m", None, 80, 400),
        // One worker uses one CPU.
        ("2", "3", Some(1), 60, 30),
        // No limit: the workers are what the request is rounded up to.
        ("1500m", "", None, 60, 80),
        // Four workers share three CPUs.
        ("3", "3", Some(4), 50, 50),
    ] {
        let mut spec = spec(request, limit, json!({"cpu": {"targetPercent": percent}}));
        if let Some(count) = count {
            spec["workers"] = json!({"count": count});
        }
        assert_eq!(metrics_with(spec, &facts()), json!([cpu(expected)]), "{request} {limit} {count:?}");
    }
}

#[test]
fn a_share_of_the_capacity_can_always_be_reached() {
    let one_thread = |cpu| {
        let mut spec = spec("2", "2", json!({"cpu": cpu}));
        spec["workers"] = json!({"count": 1});
        warnings_with(spec, &facts())
    };
    assert_eq!(one_thread(json!({"targetPercent": 90})), Vec::<String>::new());
    let told = one_thread(json!({"averageUtilization": 50}));
    assert!(told[0].contains("above 50 %") && told[0].contains("about 50 %"), "{told:?}");
}

#[test]
fn several_metrics_stand_beside_each_other() {
    let spec = spec(
        "2",
        "3",
        json!({
            "cpu": {"averageUtilization": 70}, "memory": {"averageValue": "400Mi"}, "inFlight": {"averageValue": 20},
            "eventLoopUtilization": {"targetPercent": 60}, "busyWorkers": {"targetPercent": 50},
        }),
    );
    let memory = json!({"type": "ContainerResource", "containerResource": {
        "container": "app", "name": "memory", "target": {"type": "AverageValue", "averageValue": "400Mi"}}});
    assert_eq!(
        metrics_with(spec, &facts()),
        json!([
            cpu(70),
            memory,
            worker_metric("workerapp_requests_in_flight", "20"),
            worker_metric("workerapp_event_loop_utilization", "600m"),
            worker_metric("workerapp_busy_workers", "1500m"),
        ])
    );
    let plain = plan(json!({"autoscaling": {"maxReplicas": 2}})).children.autoscaler;
    assert_eq!(serde_json::to_value(plain).unwrap()["spec"]["metrics"], json!([cpu(80)]));
}

/// `kubernetes_119788`, `kubernetes_61007`: one metric that is unknown blocks scale-down for ever.
#[test]
fn kubernetes_119788_a_metric_that_nobody_serves_is_never_asked_for() {
    let only = |metrics: &[&str]| {
        let metrics = metrics.iter().map(|metric| (*metric).to_owned()).collect();
        Facts { served: Served::Only(metrics), ..facts() }
    };
    let in_flight = || spec("2", "3", json!({"inFlight": {"averageValue": 20}}));
    let served = only(&["workerapp_requests_in_flight"]);
    assert_eq!(
        metrics_with(in_flight(), &served),
        json!([worker_metric("workerapp_requests_in_flight", "20")])
    );
    assert_eq!(warnings_with(in_flight(), &served), Vec::<String>::new());

    assert_eq!(metrics_with(in_flight(), &only(&[])), json!([cpu(80)]));
    let told = warnings_with(in_flight(), &only(&[]));
    assert_eq!(told.len(), 1, "{told:?}");
    for words in
        ["autoscaling.inFlight", "scales on CPU alone, at 80 % of the request", "metricsApi.enabled=true"]
    {
        assert!(told[0].contains(words), "{words}: {told:?}");
    }
    let both =
        spec("2", "3", json!({"inFlight": {"averageValue": 20}, "memory": {"averageUtilization": 80}}));
    let told = warnings_with(both, &only(&[]));
    assert!(told[0].contains("on its other metrics"), "{told:?}");
}

#[test]
fn a_percentage_needs_a_request() {
    let spec = json!({"autoscaling": {"maxReplicas": 3, "cpu": {"targetPercent": 50}, "memory": {"averageUtilization": 80}}});
    let told = warnings_with(spec, &facts());
    assert!(told.iter().any(|warning| warning.contains("set spec.resources.requests.cpu")), "{told:?}");
    assert!(told.iter().any(|warning| warning.contains("set spec.resources.requests.memory")), "{told:?}");
}

#[test]
fn more_pods_than_the_nodes_can_hold_are_told() {
    let size = |cpu_milli, tainted| NodeSize { cpu_milli, memory_bytes: 4 << 30, pods: 110, tainted };
    let cluster = |sizes: &[(NodeSize, i128)]| Facts {
        nodes: Some(Arc::new(sizes.iter().cloned().collect())),
        ..facts()
    };
    let told = |max: i32, cpu: &str, facts: &Facts| {
        let mut spec = spec(cpu, "", json!({"maxReplicas": max}));
        spec["workers"] = json!({"count": 8});
        warnings_with(spec, facts)
    };
    // Each node holds two, and the rest of its CPU no third one.
    let three = cluster(&[(size(3900, false), 3)]);
    assert_eq!(told(6, "1500m", &three), Vec::<String>::new());
    let seven = told(7, "1500m", &three);
    for words in [
        "maxReplicas is 7",
        "3 nodes",
        "room for 6 of them",
        "1500m of CPU and 100Mi of memory",
        "adds nodes",
    ] {
        assert!(seven.len() == 1 && seven[0].contains(words), "{words}: {seven:?}");
    }
    // By memory: 40 of 100Mi on each. By the number of pods: 110.
    assert!(told(121, "1m", &three)[0].contains("room for 120 of them"));
    // A tainted node is none for an app that tolerates nothing.
    let tainted = cluster(&[(size(3900, false), 1), (size(3900, true), 5)]);
    assert!(told(3, "1500m", &tainted)[0].contains("the 1 node "));
    let mut tolerant = spec("1500m", "", json!({"maxReplicas": 3}));
    tolerant["tolerations"] = json!([{"operator": "Exists"}]);
    tolerant["workers"] = json!({"count": 8});
    assert_eq!(warnings_with(tolerant, &tainted), Vec::<String>::new());
    // Nobody has looked.
    assert_eq!(told(1000, "1500m", &facts()), Vec::<String>::new());
}
