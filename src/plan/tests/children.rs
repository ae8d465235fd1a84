//! What the child objects look like.

#![allow(clippy::unwrap_used, reason = "helpers of tests, given literals")]

mod common;

use common::{app, facts, plan};
use serde_json::{Value, json};
use workerapp_api::names;

fn deployment(spec: Value) -> Value {
    serde_json::to_value(plan(spec).children.deployment).unwrap()
}

fn container(spec: Value) -> Value {
    deployment(spec)["spec"]["template"]["spec"]["containers"][0].clone()
}

fn service(spec: Value) -> Value {
    serde_json::to_value(plan(spec).children.service).unwrap()
}

fn env(container: &Value, name: &str) -> Value {
    container["env"]
        .as_array()
        .unwrap()
        .iter()
        .find(|variable| variable["name"] == name)
        .cloned()
        .unwrap_or_default()
}

fn resources() -> Value {
    json!({"requests": {"cpu": "2", "memory": "450Mi"}, "limits": {"cpu": "3"}})
}

#[test]
fn the_supervisor_stands_in_front_of_the_command() {
    let container = container(json!({"resources": resources(), "args": ["--title", "x"]}));
    assert_eq!(
        container["command"],
        json!([
            "/workerapp/supervisor",
            "--workers=auto",
            "--port=3000",
            "--admin-port=9913",
            "--lame-duck=5",
            "--grace=30",
            "--"
        ])
    );
    assert_eq!(container["args"], json!(["node", "server.js", "--title", "x"]));
    assert_eq!(env(&container, "WORKERS")["value"], "3");
    assert_eq!(env(&container, "PORT")["value"], "3000");
    assert_eq!(env(&container, "HOSTNAME")["value"], "0.0.0.0");
}

#[test]
fn each_runtime_is_told_the_count_in_its_own_way() {
    let java = "--worker-env=JAVA_TOOL_OPTIONS+=-XX:ActiveProcessorCount=$$(WORKERS)";
    let one_server = "--worker-env=WEB_CONCURRENCY=1";
    for (runtime, command, flags, args) in [
        ("Node", "node s.js", vec![], "node s.js"),
        ("Generic", "./serve", vec![], "./serve"),
        ("NodeCluster", "node s.js", vec!["--processes=1"], "node s.js"),
        ("Pm2", "pm2-runtime s.js", vec!["--processes=1"], "pm2-runtime s.js -i $$(WORKERS)"),
        ("Watt", "wattpm start", vec!["--processes=1", "--sharing=none"], "wattpm start"),
        ("Python", "gunicorn app:app", vec![one_server], "gunicorn app:app"),
        ("Ruby", "puma", vec![one_server], "puma"),
        ("Jvm", "java -jar a.jar", vec!["--processes=1", java], "java -jar a.jar"),
        ("Go", "/server", vec!["--processes=1", "--worker-env=GOMAXPROCS=$$(WORKERS)"], "/server"),
        (
            "Nginx",
            "nginx -g daemon_off;",
            vec!["--processes=1"],
            "nginx -g worker_processes $$(WORKERS); daemon_off;",
        ),
        (
            "Cloudgate",
            "cloudgate -r /app",
            vec!["--processes=1", "--sharing=none", "--worker-env=THREADS=$$(WORKERS)"],
            "cloudgate -r /app -p 3000",
        ),
    ] {
        let command: Vec<_> = command.split(' ').collect();
        let container = container(json!({"runtime": runtime, "command": command, "resources": resources()}));
        let special: Vec<_> = container["command"]
            .as_array()
            .unwrap()
            .iter()
            .filter_map(Value::as_str)
            .filter(|flag| {
                ["--processes", "--sharing", "--worker-env"].iter().any(|name| flag.starts_with(name))
            })
            .collect();
        let words: Vec<_> = container["args"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
        assert_eq!((special, words.join(" ").as_str()), (flags, args), "{runtime}");
        assert_eq!(env(&container, "WORKERS")["value"], "3", "{runtime}");
    }
}

#[test]
fn the_supervisors_settings_become_flags() {
    let flags = |spec| {
        container(spec)["command"]
            .as_array()
            .unwrap()
            .iter()
            .filter_map(Value::as_str)
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    let all = flags(json!({"supervisor": {
        "adminPort": 9000, "lameDuckSeconds": 1, "drainSeconds": 4, "stopSignal": "SIGINT", "hangTimeoutSeconds": 0,
        "logPrefix": true, "appMetrics": "/metrics", "maxAgeSeconds": 60, "maxMemory": "300Mi", "maxRequests": 1000, "nodePreload": false,
        "connectionMaxRequests": 500, "connectionMaxAgeSeconds": 30,
    }}));
    for flag in [
        "--admin-port=9000",
        "--lame-duck=1",
        "--drain=4",
        "--stop-signal=SIGINT",
        "--hang-timeout=0",
        "--app-metrics=/metrics",
        "--log-prefix=on",
        "--max-age=60",
        "--max-memory=314572800",
        "--max-requests=1000",
        "--connection-requests=500",
        "--connection-age=30",
        "--node-preload=off",
    ] {
        assert!(all.iter().any(|given| given == flag), "{flag}: {all:?}");
    }
    assert!(flags(json!({"runtime": "Nginx"})).contains(&"--stop-signal=SIGQUIT".to_owned()));
}

#[test]
fn an_explicit_count_is_passed_on_as_a_number() {
    let container = container(json!({"workers": {"count": 4, "max": 8, "memoryPerWorker": "200Mi"}}));
    let command = container["command"].as_array().unwrap();
    for flag in ["--workers=4", "--max-workers=8", "--memory-per-worker=209715200"] {
        assert!(command.contains(&json!(flag)), "{flag}: {command:?}");
    }
}

#[test]
fn the_apps_own_environment_wins_and_the_clash_is_told() {
    let plan = plan(
        json!({"env": [{"name": "PORT", "value": "8080"}, {"name": "WORKERS", "value": "7"}, {"name": "A", "value": "$(HOSTNAME)"}]}),
    );
    let container =
        serde_json::to_value(&plan.children.deployment).unwrap()["spec"]["template"]["spec"]["containers"][0]
            .clone();
    let names: Vec<_> =
        container["env"].as_array().unwrap().iter().map(|variable| variable["name"].clone()).collect();
    assert_eq!(names, ["HOSTNAME", "PORT", "WORKERS", "A"], "each once, the operator's first");
    assert_eq!(env(&container, "PORT")["value"], "8080");
    assert!(container["command"].as_array().unwrap().contains(&json!("--keep-env=WORKERS")));
    let warnings: Vec<_> = plan.warnings.iter().map(ToString::to_string).collect();
    assert!(warnings.iter().any(|warning| warning.contains(r#"sets PORT to "8080""#)), "{warnings:?}");
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
    let thousandths = json!({"resources": {"limits": {"memory": "512m"}}});
    assert!(warnings(thousandths).iter().any(|warning| warning.contains("gives 512m of memory")));
}
