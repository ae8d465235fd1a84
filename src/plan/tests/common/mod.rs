//! WorkerApps and facts for the plan's tests.

#![allow(clippy::expect_used, clippy::needless_pass_by_value, reason = "helpers of tests, given literals")]

use serde_json::{Value, json};
use workerapp_api::WorkerApp;
use workerapp_plan::{Facts, Plan};

/// An app whose spec is a minimal one with `spec` laid over it.
pub(crate) fn app(spec: Value) -> WorkerApp {
    let mut whole = json!({"image": "shop:1", "command": ["node", "server.js"], "port": 3000});
    for (key, value) in spec.as_object().expect("a spec is an object") {
        whole[key] = value.clone();
    }
    serde_json::from_value(json!({
        "apiVersion": "workerapp.dev/v1alpha1",
        "kind": "WorkerApp",
        "metadata": {"name": "shop", "namespace": "web"},
        "spec": whole,
    }))
    .expect("the spec can be read")
}

/// Facts of a cluster without LimitRanges.
pub(crate) fn facts() -> Facts {
    Facts { supervisor_image: "workerapp:test".into(), ..Facts::default() }
}

/// Facts of a cluster whose LimitRange `defaults` has these container defaults.
#[allow(dead_code, reason = "not every test file needs it")]
pub(crate) fn facts_with_limit_range(item: Value) -> Facts {
    let mut item = item;
    item["type"] = json!("Container");
    let limit_range = json!({"metadata": {"name": "defaults"}, "spec": {"limits": [item]}});
    Facts { limit_ranges: vec![serde_json::from_value(limit_range).expect("a LimitRange")], ..facts() }
}

/// The plan of [`app`].
#[allow(dead_code, reason = "not every test file needs it")]
pub(crate) fn plan(spec: Value) -> Plan {
    workerapp_plan::plan(&app(spec), &facts()).expect("a plan")
}

/// The Deployment of [`app`].
#[allow(dead_code, reason = "not every test file needs it")]
pub(crate) fn deployment(spec: Value) -> Value {
    serde_json::to_value(plan(spec).children.deployment).expect("a Deployment")
}

/// The app's container of [`app`].
#[allow(dead_code, reason = "not every test file needs it")]
pub(crate) fn container(spec: Value) -> Value {
    deployment(spec)["spec"]["template"]["spec"]["containers"][0].clone()
}

/// Resources that make three workers.
#[allow(dead_code, reason = "not every test file needs it")]
pub(crate) fn resources() -> Value {
    json!({"requests": {"cpu": "2", "memory": "450Mi"}, "limits": {"cpu": "3"}})
}
