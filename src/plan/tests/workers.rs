//! WORKERS and its reason.

mod common;

use common::{app, facts, facts_with_limit_range, plan};
use serde_json::json;

#[test]
fn the_count_follows_the_limit_then_the_request_and_says_so() {
    for (spec, count, reason) in [
        (json!({"requests": {"cpu": "2"}, "limits": {"cpu": "3"}}), 3, "CPU limit 3 → 3 workers"),
        (json!({"requests": {"cpu": "2"}}), 2, "no CPU limit, CPU request 2 → 2 workers"),
        (json!({"requests": {"memory": "1Gi"}}), 1, "no CPU limit and no CPU request → 1 worker"),
        (json!({}), 1, "no CPU limit and no CPU request → 1 worker"),
        (json!({"limits": {"cpu": "2500m"}}), 3, "CPU limit 2500m, rounded up → 3 workers"),
        (json!({"limits": {"cpu": "0.127"}}), 1, "CPU limit 127m, rounded up → 1 worker"),
        (json!({"limits": {"cpu": "3001m"}}), 4, "CPU limit 3001m, rounded up → 4 workers"),
        (json!({"limits": {"cpu": "2e0"}}), 2, "CPU limit 2 → 2 workers"),
        (json!({"limits": {"cpu": 2}}), 2, "CPU limit 2 → 2 workers"),
        (json!({"limits": {"cpu": 0.5}}), 1, "CPU limit 500m, rounded up → 1 worker"),
    ] {
        let workers = plan(json!({"resources": spec})).workers;
        assert_eq!((workers.count, workers.reason.as_str()), (count, reason), "{spec}");
    }
}

#[test]
fn overrides_and_bounds() {
    let resources = json!({"limits": {"cpu": "8", "memory": "1Gi"}});
    for (workers, count, reason) in [
        (json!({"count": 5}), 5, "workers.count → 5 workers"),
        (json!({"count": 5, "max": 2}), 5, "workers.count → 5 workers"),
        (json!({"max": 4}), 4, "CPU limit 8 → 8 workers, cut to 4 by workers.max 4"),
        (json!({"max": 9}), 8, "CPU limit 8 → 8 workers"),
        (
            json!({"memoryPerWorker": "300Mi"}),
            3,
            "CPU limit 8 → 8 workers, cut to 3 by memory limit 1Gi / 300Mi per worker",
        ),
        (
            json!({"memoryPerWorker": "300Mi", "max": 2}),
            2,
            "CPU limit 8 → 8 workers, cut to 2 by workers.max 2",
        ),
        (
            json!({"memoryPerWorker": "2Gi"}),
            1,
            "CPU limit 8 → 8 workers, cut to 1 by memory limit 1Gi / 2Gi per worker",
        ),
    ] {
        let planned = plan(json!({"resources": resources, "workers": workers})).workers;
        assert_eq!((planned.count, planned.reason.as_str()), (count, reason), "{workers}");
    }
}

/// devantler-tech/platform#1727: a limit that the author never wrote throttled the app; WORKERS follows the effective limit,
/// and the plan tells where it comes from.
#[test]
fn platform_1727_the_limit_of_a_limit_range_counts() {
    let facts = facts_with_limit_range(json!({"default": {"cpu": "500m"}}));
    let plan = workerapp_plan::plan(&app(json!({})), &facts).unwrap();
    assert_eq!(plan.workers.count, 1);
    assert_eq!(plan.workers.reason, "CPU limit 500m (set by LimitRange defaults), rounded up → 1 worker");
    let warnings: Vec<_> = plan.warnings.iter().map(ToString::to_string).collect();
    assert!(
        warnings.iter().any(|warning| warning.contains("LimitRange defaults sets a CPU limit of 500m")),
        "{warnings:?}"
    );
}

/// kubernetes#51430: a default limit below the request is accepted for the Deployment and refused for every pod.
#[test]
fn kubernetes_51430_a_default_limit_below_the_request_is_told() {
    let facts = facts_with_limit_range(json!({"default": {"cpu": "500m", "memory": "64Mi"}}));
    let app = app(json!({"resources": {"requests": {"cpu": "2", "memory": "450Mi"}}}));
    let warnings: Vec<_> =
        workerapp_plan::plan(&app, &facts).unwrap().warnings.iter().map(ToString::to_string).collect();
    for expected in
        ["cpu limit of 500m, below the request of 2", "memory limit of 64Mi, below the request of 450Mi"]
    {
        assert!(warnings.iter().any(|warning| warning.contains(expected)), "{expected}: {warnings:?}");
    }
}

#[test]
fn editing_a_limit_range_restarts_no_pod() {
    let app = app(json!({"resources": {"requests": {"cpu": "1"}}}));
    let without = workerapp_plan::plan(&app, &facts()).unwrap();
    let with = workerapp_plan::plan(&app, &facts_with_limit_range(json!({"default": {"cpu": "4"}}))).unwrap();
    assert_eq!((without.workers.count, with.workers.count), (1, 4));
    assert_eq!(without.children, with.children);
}

#[test]
fn a_quantity_out_of_all_proportion_is_a_problem_not_a_number() {
    for cpu in ["1e400", "1Ei", "1025"] {
        let problem =
            workerapp_plan::plan(&app(json!({"resources": {"limits": {"cpu": cpu}}})), &facts()).unwrap_err();
        let text = problem.to_string();
        assert!(
            text.contains("at most 1024 are possible") && text.contains("spec.workers.max"),
            "{cpu}: {text}"
        );
    }
    assert_eq!(
        plan(json!({"resources": {"limits": {"cpu": "1e400"}}, "workers": {"max": 4}})).workers.count,
        4
    );
}
