//! What can't be planned, and what is planned and told.

#![allow(clippy::unwrap_used, reason = "a failed step is a failed test")]

mod common;

use common::{app, facts, plan, resources};
use serde_json::json;

#[test]
fn nothing_is_mounted_over_the_supervisor() {
    for (path, volume, allowed) in [
        ("/workerapp", "v", false),
        ("/workerapp/", "v", false),
        ("//workerapp/x", "v", false),
        ("/./workerapp", "v", false),
        ("/", "v", false),
        ("/opt", "workerapp", false),
        ("/workerapp2", "v", true),
        ("/opt/workerapp", "v", true),
    ] {
        let app = app(json!({"volumeMounts": [{"name": volume, "mountPath": path}]}));
        let planned = workerapp_plan::plan(&app, &facts());
        assert_eq!(planned.is_ok(), allowed, "{path} {volume} {planned:?}");
    }
}

#[test]
fn problems_are_told_all_at_once_and_name_what_to_change() {
    let app = app(json!({
        "runtime": "Watt", "ports": [{"name": "ws", "port": 80, "nodePort": 30001}, {"name": "m", "port": 9090}],
        "service": {"nodePort": 30001}, "env": [{"name": "A=B"}],
    }));
    let text = workerapp_plan::plan(&app, &facts()).unwrap_err().to_string();
    for expected in [
        "port 80 twice, as app and ws",
        "node port 30001 is asked for twice, by the ports app and ws",
        "its own metrics on port 9090, which is also the port m",
        r#"a variable named "A=B""#,
    ] {
        assert!(text.contains(expected), "{expected}: {text}");
    }
}

#[test]
fn a_target_that_can_never_be_reached_is_told_with_its_numbers() {
    let warnings = |spec| plan(spec).warnings.iter().map(ToString::to_string).collect::<Vec<_>>();
    let one_thread = json!({"resources": {"requests": {"cpu": "2"}}, "workers": {"count": 1}, "autoscaling": {"maxReplicas": 4, "cpu": {"averageUtilization": 50}}});
    assert!(warnings(one_thread).iter().any(|warning| warning.contains("never uses more than about 50 %")));
    let three = json!({"resources": resources(), "autoscaling": {"maxReplicas": 4, "cpu": {"averageUtilization": 50}}});
    assert_eq!(warnings(three), Vec::<String>::new());
    let no_request = json!({"autoscaling": {"maxReplicas": 4}});
    assert!(warnings(no_request).iter().any(|warning| warning.contains("set spec.resources.requests.cpu")));
    let fraction = json!({"resources": {"limits": {"cpu": "2500m"}}});
    assert!(
        warnings(fraction)
            .iter()
            .any(|warning| warning.contains("3 workers share a CPU limit of 2500m")
                && warning.contains("16 %"))
    );
    let half = json!({"resources": {"limits": {"cpu": "500m"}}});
    let told = warnings(half);
    assert!(
        told[0]
            .starts_with("1 worker has a CPU limit of 500m: when it is busy it is throttled for up to 50 %"),
        "{told:?}"
    );
    let thousandths = json!({"resources": {"limits": {"memory": "512m"}}});
    assert!(warnings(thousandths).iter().any(|warning| warning.contains("gives 512m of memory")));
}
