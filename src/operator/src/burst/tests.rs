use k8s_openapi::jiff::{SignedDuration, Timestamp};
use serde_json::json;
use workerapp_api::{BurstStatus, WorkerApp, names};
use workerapp_plan::{Facts, Plan};

use super::{Answer, Bursts, Said, Step, starts};
use crate::cache::Key;

fn key() -> Key {
    Key::new("web", "shop")
}

fn app(burst: Option<&BurstStatus>) -> WorkerApp {
    serde_json::from_value(json!({
        "apiVersion": "workerapp.dev/v1alpha1", "kind": "WorkerApp",
        "metadata": {"name": "shop", "namespace": "web"},
        "spec": {"image": "i", "command": ["c"], "port": 3000, "autoscaling": {
            "minReplicas": 2, "maxReplicas": 10, "inFlight": {"averageValue": 10}, "burst": {}}},
        "status": {"burst": burst},
    }))
    .unwrap()
}

fn plan() -> Plan {
    workerapp_plan::plan(&app(None), &Facts::default()).unwrap()
}

fn start() -> Timestamp {
    "2026-01-01T00:00:00Z".parse().unwrap()
}

fn after(seconds: i64) -> Timestamp {
    start() + SignedDuration::from_secs(seconds)
}

/// What two pods say, which have so much in flight together.
fn answer(sum: i128, at: i64) -> Vec<Answer> {
    let said = |pod: &str, milli| Said { pod: pod.into(), milli, time: after(at).to_string() };
    let said = vec![said("old", 1000), said("new", (sum - 1) * 1000)];
    vec![Answer { metric: names::METRIC_IN_FLIGHT, said }]
}

fn take_in(bursts: &Bursts, answers: Vec<Answer>, pods: i32, at: i64) -> bool {
    bursts.take_in(&key(), answers, pods, |_| true, after(at))
}

/// The floor that runs by now, of an app whose status says this.
fn floor(bursts: &Bursts, status: Option<&BurstStatus>, now: Timestamp) -> Option<(i32, i64)> {
    let (end, burst) = bursts.running(&key(), &app(status), now)?;
    Some((burst.replicas, end.duration_since(start()).as_secs()))
}

#[test]
fn a_proposal_is_carried_out_by_a_look_and_then_stands_in_the_status() {
    let bursts = Bursts::default();
    assert!(!take_in(&bursts, answer(100, 0), 2, 0), "nobody follows it");
    bursts.follow(&key(), Some(&plan()), None);
    assert!(!take_in(&bursts, answer(20, 0), 2, 0));
    assert_eq!(floor(&bursts, None, start()), None);
    assert!(take_in(&bursts, answer(61, 1), 2, 1));
    assert_eq!(floor(&bursts, None, after(1)), Some((7, 61)));
    // Neither the same again nor silence says anything, whatever became of the pods meanwhile.
    assert!(!take_in(&bursts, answer(61, 1), 2, 2));
    assert!(!take_in(&bursts, Vec::new(), 2, 3));

    // A look whose status could not be written leaves it to the next one.
    bursts.follow(&key(), Some(&plan()), None);
    let (_, carried_out) = bursts.running(&key(), &app(None), after(3)).unwrap();
    bursts.follow(&key(), Some(&plan()), Some(&carried_out));
    assert_eq!(floor(&bursts, None, after(3)), None, "the status is what counts");
    assert_eq!(floor(&bursts, Some(&carried_out), after(3)), Some((7, 61)));
    assert_eq!(floor(&bursts, Some(&carried_out), after(61)), None);

    // It rises in the same way, and its end moves; less load changes nothing, nor does it that pods are still on their way.
    assert!(!take_in(&bursts, answer(30, 4), 7, 4));
    assert!(!take_in(&bursts, answer(105, 5), 2, 5));
    assert!(take_in(&bursts, answer(106, 6), 2, 6));
    assert_eq!(floor(&bursts, Some(&carried_out), after(6)), Some((10, 66)));
}

#[test]
fn the_next_leader_goes_on_with_what_the_status_tells() {
    let told = BurstStatus { replicas: 7, until: after(60).to_string(), reason: String::new() };
    let bursts = Bursts::default();
    assert_eq!(floor(&bursts, Some(&told), after(10)), Some((7, 60)));
    bursts.follow(&key(), Some(&plan()), Some(&told));
    assert!(!take_in(&bursts, answer(100, 10), 2, 10), "as many pods are on their way");
    assert!(take_in(&bursts, answer(106, 12), 2, 12));
}

#[test]
fn a_burst_that_is_gone_on_with_takes_no_step() {
    let burst =
        |replicas, until| BurstStatus { replicas, until: after(until).to_string(), reason: "r".into() };
    let (low, high) = (burst(3, 60), burst(7, 90));
    for (former, now, step) in [
        (None, None, None),
        (None, Some(&low), Some(Step::Began)),
        (Some(&low), Some(&high), Some(Step::Rose)),
        // A bound that was edited, or an end that another clock has set.
        (Some(&high), Some(&low), None),
        (Some(&low), Some(&burst(3, 61)), None),
        (Some(&high), None, Some(Step::Ended)),
    ] {
        assert_eq!(Step::between(former, now), step, "{former:?} → {now:?}");
    }
}

#[test]
fn what_is_no_longer_asked_for_is_forgotten() {
    let bursts = Bursts::default();
    for end in [|bursts: &Bursts| bursts.follow(&key(), None, None), |bursts: &Bursts| bursts.forget(&key())]
    {
        bursts.follow(&key(), Some(&plan()), None);
        assert!(take_in(&bursts, answer(61, 1), 2, 1));
        end(&bursts);
        assert_eq!(floor(&bursts, None, after(2)), None);
        assert_eq!(bursts.all(), []);
    }
}

/// Pods that are busy with their own start call for more, which are busy with theirs.
#[test]
fn what_a_pod_does_before_it_was_ever_ready_is_no_load() {
    let bursts = Bursts::default();
    bursts.follow(&key(), Some(&plan()), None);
    let without_new = |pod: &str| pod != "new";
    assert!(!bursts.take_in(&key(), answer(100, 1), 2, without_new, after(1)));
    assert!(bursts.take_in(&key(), answer(100, 2), 2, |_| true, after(2)));

    let status = |ready: &str, since: i64| {
        serde_json::from_value(json!({"conditions": [
            {"type": "PodScheduled", "status": "True", "lastTransitionTime": after(0).to_string()},
            {"type": "Ready", "status": ready, "lastTransitionTime": after(since).to_string()},
        ]}))
        .unwrap()
    };
    assert!(starts(&status("False", 0)));
    assert!(!starts(&status("True", 5)));
    // It was Ready, and has too much to do to say so now.
    assert!(!starts(&status("False", 100)));
}
