//! Bursts: when they begin, how far they go, how long they hold, and what is told about them.

#![allow(clippy::unwrap_used, clippy::needless_pass_by_value, reason = "helpers of tests, given literals")]

mod common;

use common::{app, facts};
use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};
use workerapp_api::BurstStatus;
use workerapp_plan::{
    Bursts, Facts, Plan, Served,
    burst::{Heard, running},
};

const IN_FLIGHT: &str = "workerapp_requests_in_flight";
const BUSY: &str = "workerapp_busy_workers";
const NOW: &str = "2026-01-01T00:00:00.25Z";

fn spec(more: Value) -> Value {
    let mut autoscaling =
        json!({"minReplicas": 2, "maxReplicas": 10, "inFlight": {"averageValue": 10}, "burst": {}});
    for (key, value) in more.as_object().unwrap() {
        autoscaling[key] = value.clone();
    }
    json!({"autoscaling": autoscaling, "resources": {"requests": {"cpu": "2"}, "limits": {"cpu": "2"}}})
}

fn plan(spec: Value, facts: &Facts) -> Plan {
    workerapp_plan::plan(&app(spec), facts).unwrap()
}

fn bursts(more: Value) -> Bursts {
    plan(spec(more), &facts()).bursts.unwrap()
}

fn now() -> Timestamp {
    NOW.parse().unwrap()
}

fn heard(metric: &'static str, sum: i128) -> Heard {
    Heard { metric, sum_milli: sum * 1000 }
}

/// How many pods so many requests in flight call for.
fn called(bursts: &Bursts, pods: i32, sum: i128) -> Option<i32> {
    bursts.judge(pods, &[heard(IN_FLIGHT, sum)], now()).map(|burst| burst.replicas)
}

#[test]
fn a_burst_begins_far_above_the_target_and_goes_as_far_as_an_autoscaler() {
    let bursts = bursts(json!({}));
    for (pods, sum, replicas) in [
        // 150 % of 10 for each of two pods.
        (2, 30, None),
        (2, 31, Some(4)),
        (2, 61, Some(7)),
        // Never above the maximum, and no burst once it is reached.
        (2, 5000, Some(10)),
        (10, 5000, None),
        (12, 5000, None),
        // Nobody is to serve: the app was turned off.
        (0, 5000, None),
        (2, 0, None),
        (2, i128::MAX / 1000, Some(10)),
    ] {
        assert_eq!(called(&bursts, pods, sum), replicas, "{pods} pods, {sum} in flight");
    }
    let burst = bursts.judge(2, &[heard(IN_FLIGHT, 61)], now()).unwrap();
    assert_eq!(burst.reason, "requests in flight 30.5 per pod, target 10");
    assert_eq!(burst.until, "2026-01-01T00:01:01Z");
}

#[test]
fn how_far_above_is_for_the_spec_to_say() {
    let bursts = bursts(json!({"burst": {"thresholdPercent": 300, "holdSeconds": 5}}));
    assert_eq!(called(&bursts, 2, 60), None);
    assert_eq!(called(&bursts, 2, 61), Some(7));
    let burst = bursts.judge(2, &[heard(IN_FLIGHT, 61)], now()).unwrap();
    assert_eq!(burst.until, "2026-01-01T00:00:06Z");
}

#[test]
fn the_metric_that_calls_for_the_most_pods_counts_and_one_that_is_silent_says_nothing() {
    let bursts = bursts(json!({"busyWorkers": {"targetPercent": 50}}));
    let judged = |heard: &[Heard]| bursts.judge(2, heard, now());
    // Two workers, of which one is to be busy.
    let both = judged(&[heard(IN_FLIGHT, 31), heard(BUSY, 8)]).unwrap();
    assert_eq!((both.replicas, both.reason.as_str()), (8, "busy workers 4 per pod, target 1"));
    assert_eq!(judged(&[heard(IN_FLIGHT, 31)]).unwrap().replicas, 4);
    assert_eq!(judged(&[heard(IN_FLIGHT, 1), heard(BUSY, 4)]).unwrap().replicas, 4);
    assert_eq!(judged(&[]), None);
    assert_eq!(judged(&[heard("somebody_elses", 1000)]), None);
}

#[test]
fn a_floor_raises_the_autoscalers_minimum_and_nothing_else() {
    let with = |floor, more: Value| plan(spec(more), &Facts { floor, ..facts() }).children;
    let least = |floor, more: Value| with(floor, more).autoscaler.unwrap().spec.min_replicas;
    for (floor, replicas) in [(None, 2), (Some(7), 7), (Some(99), 10), (Some(1), 2)] {
        assert_eq!(least(floor, json!({})), Some(replicas), "{floor:?}");
    }
    let keda = json!({"keda": {"prometheusAddress": "http://p"}});
    let scaled = with(Some(7), keda).scaled_object.unwrap().spec;
    assert_eq!((scaled.min_replica_count, scaled.max_replica_count), (7, 10));
    // A budget follows what the app is sure to have.
    let one = json!({"minReplicas": 1});
    assert_eq!(with(Some(7), one.clone()).disruption_budget, with(None, one).disruption_budget);
    assert_eq!(with(Some(7), json!({})).deployment, with(None, json!({})).deployment);
}

#[test]
fn a_burst_ends_by_its_time_and_by_the_spec() {
    let burst = |replicas, until: &str| BurstStatus { replicas, until: until.into(), reason: String::new() };
    let left = |spec: Value, burst: BurstStatus| {
        running(&app(spec), burst, now()).map(|(_, burst)| (burst.replicas, burst.until))
    };
    let soon = || burst(7, "2026-01-01T00:00:30Z");
    assert_eq!(left(spec(json!({})), soon()), Some((7, "2026-01-01T00:00:30Z".into())));
    assert_eq!(left(spec(json!({})), burst(7, "2026-01-01T00:00:00Z")), None);
    assert_eq!(left(spec(json!({})), burst(7, "soon")), None);
    // Set by a clock that goes ahead, or for longer than the spec now has it.
    let ahead = burst(7, "2026-01-01T01:00:00Z");
    assert_eq!(left(spec(json!({})), ahead), Some((7, "2026-01-01T00:01:01Z".into())));
    let (_, again) = running(&app(spec(json!({}))), burst(7, "2026-01-01T00:01:01Z"), now()).unwrap();
    assert_eq!(again.until, "2026-01-01T00:01:01Z", "written once");

    assert_eq!(left(spec(json!({"maxReplicas": 5})), soon()).unwrap().0, 5);
    assert_eq!(left(spec(json!({"minReplicas": 7})), soon()), None);
    assert_eq!(left(spec(json!({"burst": null})), soon()), None);
    assert_eq!(left(json!({"replicas": 3}), soon()), None);
    let mut paused = spec(json!({}));
    paused["paused"] = json!(true);
    assert_eq!(left(paused, soon()), None);
}

#[test]
fn a_burst_that_nobody_could_see_is_told() {
    let told = |more: Value, facts: &Facts| -> Vec<String> {
        plan(spec(more), facts).warnings.iter().map(ToString::to_string).collect()
    };
    let only = |metrics: &[&str]| Facts {
        served: Served::Only(metrics.iter().map(|metric| (*metric).to_owned()).collect()),
        ..facts()
    };
    assert_eq!(told(json!({}), &facts()), Vec::<String>::new());
    assert_eq!(told(json!({}), &only(&[IN_FLIGHT])), Vec::<String>::new());
    let unseen = told(json!({}), &only(&[]));
    assert!(unseen.iter().any(|text| text.contains("there are no bursts")), "{unseen:?}");
    assert_eq!(plan(spec(json!({})), &only(&[])).bursts, None);
    // KEDA asks Prometheus, which answers no burst.
    let keda = json!({"keda": {"prometheusAddress": "http://p"}});
    assert!(told(keda, &only(&[]))[0].contains("there are no bursts"));

    let share = |percent: i32, threshold: i32, more: Value| {
        let mut all = json!({"inFlight": null, "eventLoopUtilization": {"targetPercent": percent},
            "burst": {"thresholdPercent": threshold}});
        for (key, value) in more.as_object().unwrap() {
            all[key] = value.clone();
        }
        told(all, &facts())
    };
    assert_eq!(share(80, 124, json!({})), Vec::<String>::new());
    let out_of_reach = share(80, 125, json!({}));
    for words in ["for eventLoopUtilization is 100 %", "to 124 at most", "now 80"] {
        assert!(out_of_reach.len() == 1 && out_of_reach[0].contains(words), "{words}: {out_of_reach:?}");
    }
    assert_eq!(share(80, 150, json!({"busyWorkers": {"targetPercent": 60}})), Vec::<String>::new());
    assert_eq!(share(80, 150, json!({"queueLength": {"averageValue": 5}})), Vec::<String>::new());
}
