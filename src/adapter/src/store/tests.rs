use std::time::Duration;

use kube::core::Selector;

use super::{Absent, Facts, Key, STALE, Store, Value};
use crate::{metric, page::Reading};

fn key(name: &str) -> Key {
    Key { namespace: "shop".into(), name: name.into() }
}

fn facts(uid: &str, ready: bool) -> Facts {
    let labels = [("app.kubernetes.io/instance".to_owned(), "web".to_owned())].into();
    Facts { uid: uid.into(), labels, app: Some("web".into()), ready, terminating: false, admin: None }
}

fn seconds(at: u64) -> Duration {
    Duration::from_secs(at)
}

/// A page of Node's workers, each with: requests, requests in flight, utilisation.
fn node(workers: &[(u32, u32, f64)]) -> Reading {
    use std::fmt::Write as _;
    let mut page = String::new();
    for (id, (requests, in_flight, utilization)) in workers.iter().enumerate() {
        writeln!(page, "workerapp_worker_requests_total{{worker=\"{id}\"}} {requests}").unwrap();
        writeln!(page, "workerapp_worker_requests_in_flight{{worker=\"{id}\"}} {in_flight}").unwrap();
        writeln!(page, "workerapp_worker_event_loop_utilization{{worker=\"{id}\"}} {utilization}").unwrap();
        writeln!(page, "workerapp_worker_queue_length{{worker=\"{id}\"}} 0").unwrap();
    }
    Reading::of(&page)
}

fn cpu(seconds: &[f64]) -> Reading {
    let lines = seconds.iter().enumerate();
    let page: Vec<_> = lines
        .map(|(id, cpu)| format!("workerapp_worker_cpu_seconds_total{{worker=\"{id}\"}} {cpu}"))
        .collect();
    Reading::of(&page.join("\n"))
}

fn with(samples: &[(u64, Reading)]) -> Store {
    let mut store = Store::default();
    store.track(key("a"), facts("1", true));
    for (at, reading) in samples {
        store.record(&key("a"), "1", seconds(*at), reading.clone());
    }
    store
}

fn value(store: &Store, name: &str, now: u64) -> Option<f64> {
    store.pod(metric::find(name).unwrap(), &key("a"), seconds(now)).ok().map(|value| value.value)
}

const RATE: &str = "workerapp_requests_per_second";
const IN_FLIGHT: &str = "workerapp_requests_in_flight";

#[test]
fn a_rate_takes_two_samples_and_is_no_zero_before() {
    let first = (0, node(&[(100, 0, 0.0)]));
    assert_eq!(value(&with(std::slice::from_ref(&first)), RATE, 1), None);
    assert_eq!(value(&with(&[first, (5, node(&[(150, 0, 0.0)]))]), RATE, 6), Some(10.0));
}

#[test]
fn the_newest_sample_follows_a_leap_at_once() {
    let steps = [(0, 2, 100), (5, 2, 110), (10, 2, 120), (15, 15, 220)];
    let store = with(&steps.map(|(at, in_flight, requests)| (at, node(&[(requests, in_flight, 0.5)]))));
    let newest = |name: &str| {
        let values = store.newest(metric::find(name).unwrap(), "shop", &Selector::default(), seconds(16));
        values.first().map(|(_, value)| (value.value, value.age))
    };
    assert_eq!(newest(IN_FLIGHT), Some((15.0, seconds(1))));
    assert_eq!(newest(RATE), Some((20.0, seconds(1))));
    assert!(value(&store, IN_FLIGHT, 16).unwrap() < 7.0);
    let stale =
        store.newest(metric::find(IN_FLIGHT).unwrap(), "shop", &Selector::default(), seconds(15) + STALE);
    assert_eq!(stale, []);
}

#[test]
fn a_worker_that_was_started_anew_makes_no_negative_rate() {
    let store = with(&[(0, node(&[(1000, 0, 0.0), (0, 0, 0.0)])), (5, node(&[(20, 0, 0.0), (50, 0, 0.0)]))]);
    assert_eq!(value(&store, RATE, 5), Some(14.0));
}

#[test]
fn old_samples_leave_the_window() {
    let samples: Vec<_> = (0..10).map(|n| (n * 5, node(&[(0, u32::from(n < 7) * 9, 0.0)]))).collect();
    let store = with(&samples);
    assert_eq!(value(&store, IN_FLIGHT, 45), Some(0.0));
    assert_eq!(store.pods[&key("a")].samples.len(), 4);
}

#[test]
fn a_level_is_the_mean_over_time_of_the_sum_over_workers() {
    let store = with(&[(0, node(&[(0, 2, 0.5), (0, 4, 1.0)])), (5, node(&[(0, 0, 0.5), (0, 0, 0.0)]))]);
    assert_eq!(value(&store, IN_FLIGHT, 5), Some(3.0));
    assert_eq!(value(&store, "workerapp_event_loop_utilization", 5), Some(0.5));
    assert_eq!(value(&store, "workerapp_busy_workers", 5), Some(1.0));
}

#[test]
fn what_a_runtime_does_not_tell_is_absent_and_not_zero() {
    let store = with(&[(0, cpu(&[1.0, 1.0])), (10, cpu(&[6.0, 21.0]))]);
    for name in [RATE, IN_FLIGHT, "workerapp_event_loop_utilization"] {
        assert_eq!(value(&store, name, 10), None, "{name}");
    }
    // Half a worker, and one that used two CPUs, which is one worker all the same.
    assert_eq!(value(&store, "workerapp_busy_workers", 10), Some(1.5));
}

/// `kubernetes_61007`: a value that is missing must be missing, for zeros would scale down.
#[test]
fn kubernetes_61007_a_stale_sample_is_dropped() {
    let store = with(&[(0, node(&[(0, 7, 0.0)]))]);
    let metric = metric::find(IN_FLIGHT).unwrap();
    let told = store.pod(metric, &key("a"), seconds(19)).unwrap();
    assert_eq!(told, Value { value: 7.0, age: seconds(19) });
    assert_eq!(store.pod(metric, &key("a"), STALE), Err(Absent::Silent("a".into())));
    assert_eq!(store.pods(metric, "shop", &Selector::default(), STALE), []);
    assert_eq!(store.app(metric, "shop", "web", STALE), Err(Absent::Silent("a".into())));
    assert_eq!((store.heard(seconds(19)), store.heard(STALE)), (1, 0));
}

#[test]
fn an_app_has_no_value_while_a_ready_pod_has_none() {
    let metric = metric::find(IN_FLIGHT).unwrap();
    let mut store = with(&[(0, node(&[(0, 6, 0.0)]))]);
    let sum = |store: &Store| store.app(metric, "shop", "web", seconds(1)).map(|value| value.value);
    assert_eq!(sum(&store), Ok(6.0));
    // A fresh pod has nothing to tell yet, and serves nothing.
    store.track(key("b"), facts("2", false));
    assert_eq!(sum(&store), Ok(6.0));
    store.track(key("b"), facts("2", true));
    assert_eq!(sum(&store), Err(Absent::Silent("b".into())));
    store.record(&key("b"), "2", seconds(1), node(&[(0, 1, 0.0)]));
    assert_eq!(sum(&store), Ok(7.0));
    assert_eq!(store.apps(metric, "shop", seconds(1)).len(), 1);
    store.track(key("b"), Facts { terminating: true, ..facts("2", true) });
    assert_eq!(sum(&store), Ok(6.0));
    let nobody = store.app(metric, "shop", "other", seconds(1));
    assert_eq!(nobody, Err(Absent::NoApp("other".into())));
}

#[test]
fn a_share_is_not_added_up_over_pods() {
    let metric = metric::find("workerapp_event_loop_utilization").unwrap();
    let mut store = with(&[(0, node(&[(0, 0, 0.8)]))]);
    store.track(key("b"), facts("2", true));
    store.record(&key("b"), "2", seconds(0), node(&[(0, 0, 0.4)]));
    let value = store.app(metric, "shop", "web", seconds(1)).unwrap().value;
    assert!((value - 0.6).abs() < 1e-9, "{value}");
}

#[test]
fn a_pod_with_the_same_name_begins_anew() {
    let mut store = with(&[(0, node(&[(0, 5, 0.0)]))]);
    store.track(key("a"), facts("2", true));
    assert_eq!(value(&store, IN_FLIGHT, 1), None);
    // What the old one still had to say, and its end, come late.
    store.record(&key("a"), "1", seconds(1), node(&[(0, 5, 0.0)]));
    store.forget(&key("a"), "1");
    assert_eq!((value(&store, IN_FLIGHT, 1), store.len()), (None, 1));
    store.forget(&key("a"), "2");
    assert!(store.is_empty());
}

#[test]
fn pods_are_found_by_namespace_and_labels() {
    let metric = metric::find(IN_FLIGHT).unwrap();
    let mut store = with(&[(0, node(&[(0, 5, 0.0)]))]);
    let elsewhere = Key { namespace: "shop2".into(), name: "a".into() };
    store.track(elsewhere.clone(), facts("3", true));
    store.record(&elsewhere, "3", seconds(0), node(&[(0, 1, 0.0)]));
    let names = |selector: &str| -> Vec<String> {
        let selector = crate::selector::parse(selector).unwrap();
        store
            .pods(metric, "shop", &selector, seconds(1))
            .into_iter()
            .map(|(name, _)| name.to_owned())
            .collect()
    };
    assert_eq!(names(""), ["a"]);
    assert_eq!(names("app.kubernetes.io/instance=web"), ["a"]);
    assert_eq!(names("app.kubernetes.io/instance=other"), [""; 0]);
}
