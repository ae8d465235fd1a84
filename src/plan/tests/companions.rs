//! What stands beside the Deployment: disruption budget, network policy, pod monitor; and what spreads and restarts the pods.

#![allow(clippy::unwrap_used, reason = "helpers of tests, given literals")]

mod common;

use common::{app, facts, plan};
use serde_json::{Value, json};
use workerapp_plan::{Facts, Pause};

fn child(spec: Value, kind: &str) -> Option<Value> {
    child_with(spec, kind, &facts())
}

fn child_with(spec: Value, kind: &str, facts: &Facts) -> Option<Value> {
    let plan = workerapp_plan::plan(&app(spec), facts).unwrap();
    plan.children.each().into_iter().find(|child| child.kind == kind).unwrap().object
}

fn template(spec: Value) -> Value {
    serde_json::to_value(plan(spec).children.deployment.spec.template).unwrap()
}

fn warnings(spec: Value) -> Vec<String> {
    plan(spec).warnings.iter().map(|warning| warning.reason().to_owned()).collect()
}

#[test]
fn an_app_of_two_or_more_pods_loses_one_at_a_time() {
    let budget = |spec| child(spec, "PodDisruptionBudget").map(|budget| budget["spec"].clone());
    let shown =
        |spec| budget(spec).map(|spec| (spec["maxUnavailable"].clone(), spec["minAvailable"].clone()));
    let (none, one) = (Value::Null, json!(1));
    for (spec, expected) in [
        (json!({}), None),
        (json!({"replicas": 0}), None),
        (json!({"replicas": 1}), None),
        (json!({"replicas": 2}), Some((one.clone(), none.clone()))),
        (json!({"autoscaling": {"maxReplicas": 9}}), None),
        (json!({"autoscaling": {"minReplicas": 2, "maxReplicas": 9}}), Some((one.clone(), none.clone()))),
        (json!({"replicas": 3, "disruptionBudget": {"enabled": false}}), None),
        (json!({"replicas": 3, "disruptionBudget": {"enabled": false, "maxUnavailable": 2}}), None),
        (json!({"replicas": 1, "disruptionBudget": {"enabled": true}}), Some((one.clone(), none.clone()))),
        (json!({"disruptionBudget": {"maxUnavailable": "25%"}}), Some((json!("25%"), none.clone()))),
        (json!({"replicas": 3, "disruptionBudget": {"maxUnavailable": "2"}}), Some((json!(2), none.clone()))),
        (json!({"replicas": 3, "disruptionBudget": {"minAvailable": 2}}), Some((none.clone(), json!(2)))),
        (
            json!({"replicas": 4, "disruptionBudget": {"minAvailable": "50%"}}),
            Some((none.clone(), json!("50%"))),
        ),
    ] {
        assert_eq!(shown(spec.clone()), expected, "{spec}");
    }
    // A pod that isn't ready may go whatever the others do.
    assert_eq!(budget(json!({"replicas": 2})).unwrap()["unhealthyPodEvictionPolicy"], "AlwaysAllow");
}

#[test]
fn a_budget_that_would_keep_every_pod_lets_one_go_and_is_told() {
    for (pods, stay, kept) in [
        (2, json!(2), false),
        (2, json!("60%"), false),
        (10, json!("95%"), false),
        (3, json!(2), true),
        (0, json!(1), true),
    ] {
        let spec = json!({"replicas": pods, "disruptionBudget": {"minAvailable": stay}});
        let budget = child(spec.clone(), "PodDisruptionBudget").unwrap();
        assert_eq!(budget["spec"]["minAvailable"].is_null(), !kept, "{spec}");
        assert_eq!(budget["spec"]["maxUnavailable"] == 1, !kept, "{spec}");
        assert_eq!(warnings(spec.clone()).contains(&"BudgetBlocksDrains".to_owned()), !kept, "{spec}");
    }
}

#[test]
fn pods_that_have_somebody_elses_budget_get_no_second_one() {
    let with = |selector: Value| {
        let budget =
            json!({"metadata": {"name": "theirs"}, "spec": {"maxUnavailable": 1, "selector": selector}});
        Facts { foreign_budgets: vec![serde_json::from_value(budget).unwrap()], ..facts() }
    };
    let spec = json!({"replicas": 2, "metadata": {"pod": {"labels": {"team": "web"}}}});
    for (selector, selects) in [
        (json!({"matchLabels": {"app.kubernetes.io/instance": "shop"}}), true),
        (
            json!({"matchLabels": {"team": "web"}, "matchExpressions": [{"key": "x", "operator": "DoesNotExist"}]}),
            true,
        ),
        (json!({}), true),
        (json!({"matchLabels": {"team": "db"}}), false),
        (json!({"matchExpressions": [{"key": "team", "operator": "NotIn", "values": ["web"]}]}), false),
        (json!(null), false),
    ] {
        let facts = with(selector.clone());
        assert_eq!(child_with(spec.clone(), "PodDisruptionBudget", &facts).is_none(), selects, "{selector}");
        let warnings = workerapp_plan::plan(&app(spec.clone()), &facts).unwrap().warnings;
        assert_eq!(warnings.iter().any(|it| it.reason() == "ForeignBudget"), selects, "{selector}");
    }
    // Nobody is told of what stands in the way of nothing.
    let single = workerapp_plan::plan(&app(json!({"replicas": 1})), &with(json!({}))).unwrap();
    assert!(single.warnings.iter().all(|it| it.reason() != "ForeignBudget"));
}

#[test]
fn a_network_policy_closes_the_admin_port_but_for_the_operator_and_who_is_named() {
    let facts = Facts { operator_namespace: Some("ops".into()), ..facts() };
    assert_eq!(child_with(json!({}), "NetworkPolicy", &facts), None);

    let spec =
        |policy| json!({"networkPolicy": policy, "ports": [{"name": "ws", "port": 3001}], "runtime": "Watt"});
    let policy = child_with(spec(json!({})), "NetworkPolicy", &facts).unwrap();
    let operator = json!({"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "ops"}}});
    let tcp = |port: i32| json!({"port": port, "protocol": "TCP"});
    assert_eq!(policy["spec"]["policyTypes"], json!(["Ingress"]));
    assert_eq!(
        policy["spec"]["ingress"],
        json!([
            {"ports": [tcp(3000), tcp(3001)]},
            {"from": [operator], "ports": [tcp(9913), tcp(9090)]},
        ])
    );

    let peer = json!({"podSelector": {"matchLabels": {"a": "b"}}});
    let policy =
        child_with(spec(json!({"from": [peer], "adminFrom": [peer]})), "NetworkPolicy", &facts).unwrap();
    assert_eq!(policy["spec"]["ingress"][0]["from"], json!([peer]));
    assert_eq!(policy["spec"]["ingress"][1]["from"], json!([operator, peer]));

    // A rule without peers would let everybody in.
    let nobody = child(spec(json!({})), "NetworkPolicy").unwrap();
    assert_eq!(nobody["spec"]["ingress"].as_array().unwrap().len(), 1);
}

#[test]
fn a_monitor_names_each_place_with_metrics() {
    let endpoints = |spec| child(spec, "PodMonitor").unwrap()["spec"]["podMetricsEndpoints"].clone();
    assert_eq!(child(json!({}), "PodMonitor"), None);
    assert_eq!(endpoints(json!({"monitor": {}})), json!([{"port": "admin", "path": "/metrics"}]));
    assert_eq!(
        endpoints(
            json!({"monitor": {"interval": "15s"}, "runtime": "Watt", "supervisor": {"appMetrics": "/metrics"}})
        ),
        json!([
            {"port": "admin", "path": "/metrics", "interval": "15s"},
            {"port": "admin", "path": "/app-metrics", "interval": "15s"},
            {"port": "metrics", "path": "/metrics", "interval": "15s"},
        ])
    );
    let labels = json!({"monitor": {}, "metadata": {"monitor": {"labels": {"release": "prometheus"}}}});
    assert_eq!(child(labels, "PodMonitor").unwrap()["metadata"]["labels"]["release"], "prometheus");
}

#[test]
fn restate_operator_103_a_kind_that_the_cluster_lacks_is_told_and_not_asked_for() {
    let spec = json!({"monitor": {}});
    let without = Facts { absent: vec!["PodMonitor"], ..facts() };
    assert_eq!(child_with(spec.clone(), "PodMonitor", &without), None);
    let plan = workerapp_plan::plan(&app(spec), &without).unwrap();
    assert_eq!(plan.warnings.iter().map(workerapp_plan::Warning::reason).collect::<Vec<_>>(), ["NoMonitors"]);
    assert_eq!(warnings(json!({"monitor": {}, "networkPolicy": {}})), ["MonitorShutOut"]);
    assert!(
        warnings(json!({"monitor": {}, "networkPolicy": {"adminFrom": [{"podSelector": {}}]}})).is_empty()
    );
}

#[test]
fn opentelemetry_operator_2585_what_stands_beside_the_pods_leaves_their_template_alone() {
    let before = template(json!({"replicas": 1}));
    for spec in [
        json!({"replicas": 5}),
        json!({"autoscaling": {"minReplicas": 3, "maxReplicas": 9}}),
        json!({"disruptionBudget": {"enabled": true}}),
        json!({"networkPolicy": {}}),
        json!({"monitor": {}}),
        json!({"paused": true}),
    ] {
        assert_eq!(template(spec.clone()), before, "{spec}");
    }
}

#[test]
fn pods_are_spread_over_nodes_unless_the_spec_says_how() {
    let constraints = |spec| template(spec)["spec"]["topologySpreadConstraints"].clone();
    let default = constraints(json!({}));
    assert_eq!(default.as_array().unwrap().len(), 1);
    assert_eq!(default[0]["topologyKey"], "kubernetes.io/hostname");
    assert_eq!(default[0]["whenUnsatisfiable"], "ScheduleAnyway");
    let own = json!([{"maxSkew": 2, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}]);
    assert_eq!(constraints(json!({"topologySpreadConstraints": own})), own);
}

#[test]
fn a_restart_is_an_annotation_of_the_pods() {
    let annotation = |spec| template(spec)["metadata"]["annotations"]["workerapp.dev/restarted-at"].clone();
    assert!(annotation(json!({})).is_null());
    assert_eq!(annotation(json!({"restartAt": "2026-05-31T12:00:00Z"})), "2026-05-31T12:00:00Z");
}

#[test]
fn an_app_is_paused_by_field_or_annotation() {
    let paused = |field: Option<bool>, annotation: Option<&str>| {
        let mut app = app(field.map_or(json!({}), |paused| json!({"paused": paused})));
        if let Some(value) = annotation {
            let annotations = app.metadata.annotations.get_or_insert_default();
            annotations.insert("workerapp.dev/paused".into(), value.into());
        }
        Pause::of(&app)
    };
    assert_eq!(paused(None, None), None);
    assert_eq!(paused(Some(false), None), None);
    assert_eq!(paused(Some(true), None), Some(Pause::Field));
    assert_eq!(paused(None, Some("true")), Some(Pause::Annotation));
    assert_eq!(paused(Some(false), Some("true")), Some(Pause::Annotation));
    assert_eq!(paused(None, Some("false")), None);
}
