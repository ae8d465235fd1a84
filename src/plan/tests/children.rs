//! What the child objects look like.

#![allow(clippy::unwrap_used, reason = "helpers of tests, given literals")]

mod common;

use common::{container, deployment, plan, resources};
use serde_json::{Value, json};
use workerapp_api::names;

fn service(spec: Value) -> Value {
    serde_json::to_value(plan(spec).children.service).unwrap()
}

#[test]
fn the_service_has_the_app_first_and_carries_the_annotation() {
    let service = service(json!({
        "runtime": "Watt",
        "service": {"nodePort": 30002, "metrics": {"nodePort": 30090}},
        "ports": [{"name": "ws", "port": 3001}],
    }));
    assert_eq!(service["metadata"]["annotations"]["benchmark.platformatic.dev/expose"], "true");
    assert_eq!(service["spec"]["type"], "NodePort");
    assert_eq!(
        service["spec"]["ports"],
        json!([
            {"name": "app", "port": 80, "targetPort": "app", "protocol": "TCP", "nodePort": 30002},
            {"name": "ws", "port": 3001, "targetPort": "ws", "protocol": "TCP"},
            {"name": "metrics", "port": 9090, "targetPort": "metrics", "protocol": "TCP", "nodePort": 30090},
        ])
    );
}

#[test]
fn metrics_of_a_supervised_app_come_from_the_supervisor() {
    let service = service(json!({"service": {"metrics": {}}}));
    assert_eq!(
        service["spec"]["ports"][1],
        json!({"name": "metrics", "port": 9090, "targetPort": "admin", "protocol": "TCP"})
    );
}

#[test]
fn what_the_api_server_would_fill_in_and_keep_is_sent() {
    for (image, policy) in [
        ("shop", "Always"),
        ("shop:latest", "Always"),
        ("registry:5000/shop", "Always"),
        ("registry:5000/shop:1", "IfNotPresent"),
        ("shop@sha256:0123", "IfNotPresent"),
        ("shop:latest@sha256:0123", "IfNotPresent"),
    ] {
        assert_eq!(container(json!({"image": image}))["imagePullPolicy"], policy, "{image}");
    }
    let pod = deployment(json!({"serviceAccountName": "a", "volumes": [{"name": "tmp"}]}))["spec"]["template"]["spec"].clone();
    assert_eq!((&pod["serviceAccountName"], &pod["serviceAccount"]), (&json!("a"), &json!("a")));
    assert_eq!(pod["volumes"][1], json!({"name": "tmp", "emptyDir": {}}));
}

#[test]
fn a_client_can_be_kept_at_its_pod_and_worker() {
    let spec = json!({"service": {"sessionAffinity": "ClientIP"}});
    assert_eq!(service(spec.clone())["spec"]["sessionAffinity"], "ClientIP");
    assert!(container(spec.clone())["command"].as_array().unwrap().contains(&json!("--affinity=ClientIP")));
    let warnings: Vec<_> = plan(spec).warnings.iter().map(ToString::to_string).collect();
    assert!(
        warnings.iter().any(|warning| warning.contains("externalTrafficPolicy to Local")),
        "{warnings:?}"
    );
    let local = plan(json!({"service": {"sessionAffinity": "ClientIP", "externalTrafficPolicy": "Local"}}));
    assert_eq!(local.warnings, []);
}

#[test]
fn the_annotation_can_be_turned_off() {
    let service = service(json!({"service": {"expose": false, "type": "ClusterIP"}}));
    assert_eq!(service["metadata"]["annotations"].get("benchmark.platformatic.dev/expose"), None);
    assert_eq!(service["spec"]["type"], "ClusterIP");
}

/// defilantech/LLMKube#484: an operator put its own replica count back under an HPA.
#[test]
fn llmkube_484_replicas_are_never_sent_while_an_autoscaler_owns_them() {
    assert_eq!(deployment(json!({"autoscaling": {"maxReplicas": 3}}))["spec"].get("replicas"), None);
    assert_eq!(deployment(json!({}))["spec"].get("replicas"), None);
    assert_eq!(deployment(json!({"replicas": 0}))["spec"]["replicas"], 0);
}

/// open-telemetry/opentelemetry-operator#2585: changing min or max restarted every pod.
#[test]
fn opentelemetry_operator_2585_bounds_leave_the_pod_template_alone() {
    let template = |min, max| {
        deployment(json!({"autoscaling": {"minReplicas": min, "maxReplicas": max}}))["spec"]["template"]
            .clone()
    };
    assert_eq!(template(1, 3), template(2, 10));
}

/// dapr#7813: the autoscaler reads `<unknown>` because an injected container has no CPU request.
#[test]
fn dapr_7813_the_autoscaler_looks_at_the_apps_container_alone() {
    let autoscaler = serde_json::to_value(plan(json!({"resources": resources(), "autoscaling": {"minReplicas": 2, "maxReplicas": 10, "cpu": {"averageUtilization": 50}}})).children.autoscaler).unwrap();
    assert_eq!(
        autoscaler["spec"]["metrics"],
        json!([{"type": "ContainerResource", "containerResource": {"container": "app", "name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}}}])
    );
    assert_eq!(
        (&autoscaler["spec"]["minReplicas"], &autoscaler["spec"]["maxReplicas"]),
        (&json!(2), &json!(10))
    );
    assert_eq!(
        autoscaler["spec"]["scaleTargetRef"],
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "shop"})
    );
}

/// kubernetes#124307: overlapping selectors; user labels never override the operator's.
#[test]
fn kubernetes_124307_labels_of_the_selector_are_the_operators() {
    let deployment =
        deployment(json!({"metadata": {"pod": {"labels": {names::LABEL_NAME: "other", "team": "web"}}}}));
    let labels = &deployment["spec"]["template"]["metadata"]["labels"];
    assert_eq!(
        labels,
        &json!({names::LABEL_NAME: "shop", names::LABEL_INSTANCE: "shop", names::LABEL_MANAGED_BY: names::MANAGED_BY, "team": "web"})
    );
    assert_eq!(
        deployment["spec"]["selector"]["matchLabels"],
        json!({names::LABEL_NAME: "shop", names::LABEL_INSTANCE: "shop"})
    );
}

#[test]
fn injected_parts_meet_pod_security_restricted_and_cost_no_quota() {
    let pod = deployment(json!({"resources": resources()}))["spec"]["template"]["spec"].clone();
    let install = &pod["initContainers"][0];
    assert_eq!(install["resources"], resources());
    let context = &install["securityContext"];
    assert_eq!(context["runAsNonRoot"], true);
    assert_eq!(context["allowPrivilegeEscalation"], false);
    assert_eq!(context["capabilities"], json!({"drop": ["ALL"]}));
    assert_eq!(context["seccompProfile"], json!({"type": "RuntimeDefault"}));
    assert_eq!(
        pod["volumes"],
        json!([{"name": "workerapp", "emptyDir": {}}]),
        "a volume type that restricted allows"
    );
}

#[test]
fn default_probes_ask_the_supervisor_and_given_ones_are_kept() {
    let defaults = container(json!({}));
    assert_eq!(defaults["readinessProbe"]["httpGet"], json!({"path": "/readyz", "port": "admin"}));
    assert_eq!(defaults["livenessProbe"]["httpGet"], json!({"path": "/livez", "port": "admin"}));
    assert_eq!(defaults.get("startupProbe"), None);
    let own =
        container(json!({"livenessProbe": {"httpGet": {"path": "/", "port": 3000}, "failureThreshold": 5}}));
    assert_eq!(own["livenessProbe"], json!({"httpGet": {"path": "/", "port": 3000}, "failureThreshold": 5}));
}

#[test]
fn what_a_pod_and_a_container_may_have_reaches_them() {
    let pod_fields = json!({
        "serviceAccountName": "shop", "priorityClassName": "high", "runtimeClassName": "gvisor", "nodeSelector": {"a": "b"},
        "tolerations": [{"key": "k", "operator": "Exists"}], "affinity": {"nodeAffinity": {}},
        "topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway"}],
        "imagePullSecrets": [{"name": "s"}], "automountServiceAccountToken": false, "terminationGracePeriodSeconds": 60,
    });
    let container_fields = json!({
        "workingDir": "/app", "imagePullPolicy": "Never", "envFrom": [{"configMapRef": {"name": "c"}}],
        "securityContext": {"readOnlyRootFilesystem": true}, "lifecycle": {"preStop": {"sleep": {"seconds": 1}}},
        "startupProbe": {"tcpSocket": {"port": 3000}},
    });
    let deployment_fields = json!({
        "strategy": {"type": "Recreate"}, "minReadySeconds": 3, "progressDeadlineSeconds": 60, "revisionHistoryLimit": 2,
    });
    let mut spec = json!({"podSecurityContext": {"runAsUser": 1000}, "volumes": [{"name": "v", "emptyDir": {"sizeLimit": 1}}], "volumeMounts": [{"name": "v", "mountPath": "/v"}]});
    for fields in [&pod_fields, &container_fields, &deployment_fields] {
        for (key, value) in fields.as_object().unwrap() {
            spec[key] = value.clone();
        }
    }
    let deployment = deployment(spec);
    let pod = &deployment["spec"]["template"]["spec"];
    for (at, fields) in [
        (pod, &pod_fields),
        (&pod["containers"][0], &container_fields),
        (&deployment["spec"], &deployment_fields),
    ] {
        for (key, value) in fields.as_object().unwrap() {
            assert_eq!(&at[key], value, "{key}");
        }
    }
    assert_eq!(pod["securityContext"], json!({"runAsUser": 1000}));
    assert_eq!(pod["volumes"][1], json!({"name": "v", "emptyDir": {"sizeLimit": "1"}}));
    assert_eq!(pod["containers"][0]["volumeMounts"][1], json!({"name": "v", "mountPath": "/v"}));
    assert!(pod["containers"][0]["command"].as_array().unwrap().contains(&json!("--grace=60")));
}

#[test]
fn nothing_empty_is_sent() {
    fn empty(value: &Value, path: &str) -> Option<String> {
        match value {
            // `emptyDir: {}` says which kind of volume it is.
            Value::Object(fields) if fields.is_empty() && !path.ends_with("emptyDir") => Some(path.into()),
            Value::Array(items) if items.is_empty() => Some(path.into()),
            Value::Null => Some(path.into()),
            Value::Object(fields) => {
                fields.iter().find_map(|(key, field)| empty(field, &format!("{path}.{key}")))
            }
            Value::Array(items) => items.iter().find_map(|item| empty(item, path)),
            _ => None,
        }
    }
    let children = plan(json!({"autoscaling": {"maxReplicas": 2}})).children;
    let all = json!([children.deployment, children.service, children.autoscaler]);
    assert_eq!(empty(&all, ""), None);
}

#[test]
fn the_digest_tells_a_field_that_is_no_longer_sent() {
    let digest = |spec| {
        deployment(spec)["metadata"]["annotations"][names::ANNOTATION_APPLIED].as_str().unwrap().to_owned()
    };
    assert_eq!(digest(json!({"minReadySeconds": 5})), digest(json!({"minReadySeconds": 5})));
    assert_ne!(digest(json!({"minReadySeconds": 5})), digest(json!({})));
}
