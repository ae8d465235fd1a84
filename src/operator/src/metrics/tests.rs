use std::{collections::BTreeSet, time::Duration};

use prometheus::proto::{LabelPair, Metric};
use workerapp_api::{Condition, ConditionStatus, condition::Reason};

use super::{Metrics, Sample};
use crate::{burst::Step, cache::Key, kind::Kind, queue::Lane};

const DOCUMENT: &str = include_str!("../../../../docs/metrics.md");

fn sample() -> Sample {
    Sample { queued: 2, running: 1, backing_off: 3, cached: Kind::ALL.map(|kind| (kind, 7)) }
}

fn render(metrics: &Metrics) -> String {
    String::from_utf8(metrics.render(&sample())).unwrap()
}

fn ready(status: ConditionStatus, reason: &str) -> Condition {
    Condition {
        type_: "Ready".into(),
        status,
        reason: reason.into(),
        message: String::new(),
        observed_generation: None,
        last_transition_time: String::new(),
    }
}

/// Name, type and labels of each metric in the section of the operator.
fn documented() -> BTreeSet<(String, String, String)> {
    let section = DOCUMENT.split("\n## ").find(|section| section.starts_with("Of the operator")).unwrap();
    let rows = section.lines().filter(|line| line.starts_with("| `"));
    rows.map(|row| {
        let cells: Vec<_> =
            row.trim_matches('|').split('|').map(|cell| cell.trim().replace('`', "")).collect();
        let labels = if cells[2] == "–" { "" } else { &cells[2] };
        (cells[0].clone(), cells[1].clone(), labels.to_owned())
    })
    .collect()
}

#[test]
fn the_document_lists_exactly_what_is_served() {
    let metrics = Metrics::new().unwrap();
    metrics.error(Reason::NameClash);
    metrics.write("Deployment", "apply", "ok");
    metrics.sampled.fill(&sample(), &metrics.apps);
    let served: BTreeSet<_> = metrics
        .registry
        .gather()
        .iter()
        .map(|family| {
            let labels: BTreeSet<_> =
                family.get_metric().iter().flat_map(Metric::get_label).map(LabelPair::name).collect();
            let kind = format!("{:?}", family.get_field_type()).to_lowercase();
            (family.name().to_owned(), kind, labels.into_iter().collect::<Vec<_>>().join(", "))
        })
        .collect();
    let documented = documented();
    let missing: Vec<_> = served.difference(&documented).collect();
    let stale: Vec<_> = documented.difference(&served).collect();
    assert!(
        missing.is_empty() && stale.is_empty(),
        "docs/metrics.md lacks {missing:?}, and has of old {stale:?}"
    );
}

#[test]
fn names_follow_the_conventions_of_prometheus() {
    let metrics = Metrics::new().unwrap();
    metrics.error(Reason::NameClash);
    metrics.write("Deployment", "apply", "ok");
    let text = render(&metrics);
    for line in text.lines().filter_map(|line| line.strip_prefix("# TYPE ")) {
        let (name, kind) = line.split_once(' ').unwrap();
        assert!(name.starts_with("workerapp_") || name.starts_with("process_"), "{name} has no prefix");
        assert_eq!(name.ends_with("_total"), kind == "counter", "{line}");
        assert!(kind != "histogram" || name.ends_with("_seconds"), "{name} has no unit");
    }
}

#[test]
fn apps_are_counted_by_their_condition_and_forgotten() {
    let metrics = Metrics::new().unwrap();
    let (a, b) = (Key::new("ns", "a"), Key::new("ns", "b"));
    metrics.app(&a, Some(&ready(ConditionStatus::True, "Ready")));
    metrics.app(&b, Some(&ready(ConditionStatus::False, "NameClash")));
    let text = render(&metrics);
    assert!(text.contains("workerapp_operator_apps{ready=\"True\",reason=\"Ready\"} 1\n"), "{text}");
    assert!(text.contains("workerapp_operator_apps{ready=\"False\",reason=\"NameClash\"} 1\n"), "{text}");
    metrics.forget(&b);
    let text = render(&metrics);
    assert!(!text.contains("NameClash"), "{text}");
    metrics.forget(&a);
    assert!(render(&metrics).contains("workerapp_operator_apps{ready=\"True\",reason=\"Ready\"} 0\n"));
}

#[test]
fn what_is_noted_is_served() {
    let metrics = Metrics::new().unwrap();
    metrics.leader(true);
    metrics.reconcile("settled", Duration::from_millis(20));
    metrics.waited(Lane::Edit, Duration::from_millis(2));
    metrics.burst(Step::Began);
    let text = render(&metrics);
    let resident = text.lines().find_map(|line| line.strip_prefix("process_resident_memory_bytes "));
    assert!(resident.is_some_and(|bytes| bytes.parse::<u64>().unwrap() > 1 << 20), "{text}");
    for line in [
        "workerapp_operator_leader 1",
        "workerapp_operator_reconciles_total{outcome=\"settled\"} 1",
        "workerapp_operator_reconciles_total{outcome=\"panicked\"} 0",
        "workerapp_operator_reconcile_duration_seconds_bucket{le=\"0.025\"} 1",
        "workerapp_operator_reconcile_duration_seconds_bucket{le=\"0.01\"} 0",
        "workerapp_operator_queue_wait_seconds_count{lane=\"edit\"} 1",
        "workerapp_operator_queue_length 2",
        "workerapp_operator_running 1",
        "workerapp_operator_backing_off 3",
        "workerapp_operator_cached_objects{kind=\"Pod\"} 7",
        "workerapp_operator_watch_restarts_total{kind=\"Pod\"} 0",
        "workerapp_operator_bursts_total{step=\"began\"} 1",
        "workerapp_operator_bursts_total{step=\"ended\"} 0",
    ] {
        assert!(text.lines().any(|served| served == line), "no {line} in {text}");
    }
}
