//! What the app's container is started with: the supervisor's flags, the command, the environment.

#![allow(clippy::unwrap_used, reason = "helpers of tests, given literals")]

mod common;

use common::{container, plan, resources};
use serde_json::{Value, json};

fn env(container: &Value, name: &str) -> Value {
    container["env"]
        .as_array()
        .unwrap()
        .iter()
        .find(|variable| variable["name"] == name)
        .cloned()
        .unwrap_or_default()
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
