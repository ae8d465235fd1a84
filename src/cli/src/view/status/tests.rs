use serde_json::{Value, json};

use super::*;
use crate::supervisor::Account;

const NOW: &str = "2026-01-01T00:10:00Z";

fn parse<T: serde::de::DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

fn look() -> Look {
    let account: Account = parse(json!({
        "workers": 2, "sharing": {"mode": "slots"},
        "processes": [
            {"id": 0, "state": "listening", "connections": 3, "residentBytes": 41_943_040},
            {"id": 1, "state": "starting", "reason": "has not listened yet", "restarts": {"crash": 2, "hang": 0}},
        ],
    }));
    let pod = |name: &str, ready: &str| {
        json!({
            "metadata": {"name": name, "namespace": "web", "creationTimestamp": "2026-01-01T00:05:00Z"},
            "spec": {"nodeName": "node1", "containers": []},
            "status": {"phase": "Running", "hostIP": "10.0.0.9", "conditions": [{"type": "Ready", "status": ready}],
                "containerStatuses": [{"name": "app", "image": "", "imageID": "", "ready": true, "restartCount": 1}]},
        })
    };
    Look {
        app: parse(json!({
            "apiVersion": "workerapp.dev/v1alpha1", "kind": "WorkerApp",
            "metadata": {"name": "shop", "namespace": "web", "generation": 2},
            "spec": {"image": "i", "command": ["c"], "port": 3000, "autoscaling": {"minReplicas": 2, "maxReplicas": 10}},
            "status": {"workers": 2, "workersReason": "CPU limit 2 → 2 workers", "conditions": [
                {"type": "Ready", "status": "False", "reason": "NotReady", "message": "1 of 2 pods is ready", "observedGeneration": 2, "lastTransitionTime": NOW},
                {"type": "Reconciled", "status": "True", "reason": "Applied", "message": "", "observedGeneration": 2, "lastTransitionTime": NOW},
            ]},
        })),
        deployment: Some(parse(json!({
            "metadata": {"name": "shop"}, "spec": {"replicas": 2, "selector": {}, "template": {}},
            "status": {"readyReplicas": 1, "updatedReplicas": 2},
        }))),
        service: Some(parse(json!({
            "metadata": {"name": "shop", "namespace": "web"},
            "spec": {"type": "NodePort", "ports": [{"name": "app", "port": 80, "nodePort": 30000}]},
        }))),
        autoscaler: Some(parse(json!({
            "spec": {"minReplicas": 2, "maxReplicas": 10, "scaleTargetRef": {"kind": "Deployment", "name": "shop"},
                "metrics": [{"type": "ContainerResource", "containerResource": {"name": "cpu", "container": "app", "target": {"type": "Utilization", "averageUtilization": 50}}}]},
            "status": {"currentReplicas": 2, "desiredReplicas": 3, "conditions": [{"type": "ScalingActive", "status": "True", "reason": "ValidMetricFound"}],
                "currentMetrics": [{"type": "ContainerResource", "containerResource": {"name": "cpu", "container": "app", "current": {"averageUtilization": 73}}}]},
        }))),
        pods: vec![
            PodLook { pod: parse(pod("shop-1-a", "True")), account: Ok(account) },
            PodLook {
                pod: parse(pod("shop-1-b", "False")),
                account: Err("its supervisor doesn't answer in 5 s".into()),
            },
        ],
        nodes: None,
        events: vec![
            event("shop-1-a", "Pod", "Pulled", "2026-01-01T00:09:30Z"),
            event("shop", "WorkerApp", "NotReady", "2026-01-01T00:09:00Z"),
            event("shop-1", "ReplicaSet", "SuccessfulCreate", "2026-01-01T00:05:00Z"),
            event("cart", "WorkerApp", "Ready", NOW),
        ],
    }
}

fn event(name: &str, kind: &str, reason: &str, time: &str) -> Event {
    parse(json!({
        "regarding": {"kind": kind, "name": name}, "reason": reason, "type": "Normal", "note": "text\n",
        "eventTime": null, "deprecatedLastTimestamp": time,
    }))
}

fn status(look: &Look) -> Status {
    Status::of(look, NOW.parse().unwrap())
}

#[test]
fn the_tree_shows_everything_of_the_app_down_to_its_workers() {
    let text = status(&look()).app.text(false);
    let lines: Vec<String> =
        text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    assert_eq!(
        lines,
        [
            "WorkerApp/shop NotReady 2 per pod (CPU limit 2 → 2 workers)",
            "├─Deployment/shop 1/2 ready",
            "│ ├─Pod/shop-1-a Ready node1, 5m, container restarted 1 ×",
            "│ │ ├─worker/0 listening 3 connections, 40Mi",
            "│ │ └─worker/1 starting 0 connections, 0, restarts: crash 2, has not listened yet",
            "│ └─Pod/shop-1-b not ready node1, 5m, container restarted 1 ×, its supervisor doesn't answer in 5 s",
            "├─HorizontalPodAutoscaler/shop active cpu 73 % / 50 %, 2 pods (2 to 10), 3 wanted",
            "└─Service/shop NodePort http://10.0.0.9:30000",
        ]
    );
}

#[test]
fn conditions_that_hold_are_told_with_wide_only() {
    let status = status(&look());
    let text = status.text(false, false);
    assert!(
        text.contains("Ready  False  NotReady  1 of 2 pods is ready") && !text.contains("Reconciled"),
        "{text}"
    );
    assert!(status.text(false, true).contains("Reconciled"));
}

#[test]
fn events_of_the_app_and_its_own_are_told_oldest_first() {
    let reasons: Vec<_> = status(&look()).events.into_iter().map(|event| (event.age, event.reason)).collect();
    let expected = [("5m", "SuccessfulCreate"), ("60s", "NotReady"), ("30s", "Pulled")];
    assert_eq!(reasons, expected.map(|(age, reason)| (age.to_owned(), reason.to_owned())));
}

#[test]
fn what_is_missing_is_said() {
    let mut look = look();
    (look.deployment, look.service, look.autoscaler, look.app.status) = (None, None, None, None);
    let text = status(&look).app.text(false);
    assert_eq!(text.matches("missing").count(), 3, "{text}");
    assert!(text.contains("does the operator run?"), "{text}");
}

#[test]
fn an_app_that_was_changed_and_not_looked_at_is_pending_and_a_paused_one_says_so() {
    let mut look = look();
    look.app.metadata.generation = Some(3);
    assert_eq!(ready(&look.app), (Health::Pending, "changed just now".into()));
    look.app.annotations_mut().insert(names::ANNOTATION_PAUSED.into(), "true".into());
    assert!(status(&look).app.detail.starts_with("paused"));
}

#[test]
fn a_pod_is_called_what_kubectl_calls_it() {
    for (change, expected) in [
        (
            json!({"status": {"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]}}),
            "Unschedulable",
        ),
        (
            json!({"status": {"phase": "Running", "containerStatuses": [{"name": "app", "image": "", "imageID": "", "ready": false, "restartCount": 4, "state": {"waiting": {"reason": "CrashLoopBackOff"}}}]}}),
            "CrashLoopBackOff",
        ),
        (json!({"metadata": {"deletionTimestamp": NOW}}), "Terminating"),
        (json!({"status": {"phase": "Pending"}}), "Pending"),
    ] {
        assert_eq!(pod_state(&parse(change)).1, expected);
    }
}

#[test]
fn a_burst_that_runs_is_told_with_its_reason_and_what_is_left_of_it() {
    let mut look = look();
    let autoscaling = look.app.spec.autoscaling.as_mut().unwrap();
    autoscaling.burst = Some(workerapp_api::BurstSpec::default());
    let burst = json!({"replicas": 7, "until": "2026-01-01T00:10:42Z", "reason": "requests in flight 31 per pod, target 10"});
    look.app.status.as_mut().unwrap().burst = Some(parse(burst));
    let text = status(&look).text(false, false);
    let told = "burst, 42s more: at least 7 pods (requests in flight 31 per pod, target 10)";
    assert!(text.contains(told), "{text}");

    let over = Status::of(&look, "2026-01-01T00:10:42Z".parse().unwrap()).text(false, false);
    assert!(!over.contains("burst"), "{over}");
}
