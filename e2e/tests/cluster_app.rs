//! The whole path on real nodes: a WorkerApp is applied, and its workers answer on every node.

use std::{collections::BTreeSet, slice};

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::api::core::v1::LimitRange;
use kube::ResourceExt as _;
use serde_json::{Value, json};
use workerapp_api::{WorkerApp, WorkerAppStatus, condition::ConditionType};
use workerapp_e2e::{
    Pod,
    fixture::condition,
    nodes::{self, NEXT, Nodes, eventually, hello, on_labelled_nodes, on_nodes, requests, until_all_answer},
};

/// What kubectl's table may be wide at most.
const COLUMNS: usize = 100;
/// How the benchmark finds the apps; the dots of the annotation are escaped.
const DISCOVERY: &str = r#"jsonpath={range .items[?(@.metadata.annotations.benchmark\.platformatic\.dev/expose=="true")]}{.metadata.name}{" "}{.spec.ports[0].nodePort}{"\n"}{end}"#;

fn status(app: &WorkerApp) -> Result<&WorkerAppStatus> {
    app.status.as_ref().context("no status")
}

fn pid(answer: &Value) -> String {
    answer["pid"].to_string()
}

/// What the supervisor says agrees with what answered: as many processes, all ready, on the port.
async fn until_supervisor_agrees(
    nodes: &Nodes,
    pod: &Pod,
    workers: usize,
    processes: usize,
) -> Result<Value> {
    eventually("the supervisor's account", async || {
        let account = nodes.supervisor(pod).await?;
        let listed = account["processes"].as_array().context("no processes")?;
        let all_ready = listed.iter().all(|process| process["state"] == "listening");
        let agrees = account["ready"] == true && account["workers"] == workers && listed.len() == processes;
        ensure!(
            agrees && all_ready,
            "{workers} workers in {processes} listening processes were expected: {account}"
        );
        Ok(account)
    })
    .await
}

#[tokio::test]
async fn an_app_becomes_ready_and_all_its_workers_answer_on_every_node() -> Result<()> {
    on_nodes("path", async |nodes| {
        let spec = hello(json!({
            "replicas": 2,
            "resources": { "requests": { "cpu": "2", "memory": "450Mi" }, "limits": { "cpu": "3" } },
        }));
        let app = nodes.serve_app("shop", spec).await?;
        let told = status(&app)?;
        assert_eq!(
            (told.workers, told.workers_reason.as_deref()),
            (Some(3), Some("CPU limit 3 → 3 workers"))
        );
        assert_eq!((told.replicas, told.ready_replicas, told.updated_replicas), (Some(2), Some(2), Some(2)));
        let node_port = told.node_port.context("no status.nodePort")?;

        // The address in the status answers, and so does the port on every node, whether a pod runs there or not.
        let url = told.url.clone().context("no status.url")?;
        let at = url.strip_prefix("http://").context("no http:// in status.url")?.parse()?;
        eventually("status.url to answer", async || requests::get_json(at, "/").await).await?;
        ensure!(at.port() == u16::try_from(node_port)?, "status.url is {url}, status.nodePort {node_port}");
        let endpoints = nodes.endpoints(&app).await?;
        for endpoint in &endpoints {
            let answer = requests::get_json(*endpoint, "/").await?;
            assert_eq!(answer["workers"], "3", "{answer}");
        }
        let pods = nodes.ready_pods("shop").await?;
        assert_eq!(pods.len(), 2);
        let answers = until_all_answer(&endpoints, "/", &pods, 3, pid).await?;

        for pod in &pods {
            let account = until_supervisor_agrees(nodes, pod, 3, 3).await?;
            let listed = account["processes"].as_array().into_iter().flatten().map(pid);
            assert_eq!(listed.collect::<BTreeSet<_>>(), answers[&pod.name_any()], "{account}");
            assert_eq!(account["sharing"]["mode"], "slots", "{account}");
            let first =
                ["exec", &pod.name_any(), "-c", "app", "--", "sh", "-c", "tr '\\0' ' ' </proc/1/cmdline"];
            let first = nodes.kubectl(&first).await?;
            ensure!(
                first.starts_with("/workerapp/supervisor "),
                "the container's first process is {first:?}"
            );
        }

        let table = nodes.kubectl(&["get", "wa"]).await?;
        let widest = table.lines().map(|line| line.chars().count()).max().unwrap_or_default();
        ensure!(widest <= COLUMNS, "the table is {widest} columns wide:\n{table}");
        let row: Vec<_> = table.lines().last().unwrap_or_default().split_whitespace().collect();
        assert_eq!(row[..5], ["shop", "True", "3", "2", &node_port.to_string()], "{table}");
        let found = nodes.kubectl(&["get", "service", "-o", DISCOVERY]).await?;
        assert_eq!(found, format!("shop {node_port}\n"));
        Ok(())
    })
    .await
}

#[tokio::test]
async fn an_app_runs_where_pod_security_is_restricted() -> Result<()> {
    let labels = json!({ "pod-security.kubernetes.io/enforce": "restricted" });
    on_labelled_nodes("restricted", labels, async |nodes| {
        let spec = hello(json!({
            "podSecurityContext": { "runAsNonRoot": true, "seccompProfile": { "type": "RuntimeDefault" } },
            "securityContext": {
                "runAsUser": 1000,
                "allowPrivilegeEscalation": false,
                "readOnlyRootFilesystem": true,
                "capabilities": { "drop": ["ALL"] },
            },
        }));
        let app = nodes.serve_app("tight", spec).await?;
        let pod = nodes.only_pod("tight").await?;
        until_all_answer(&nodes.endpoints(&app).await?, "/", slice::from_ref(&pod), 2, pid).await?;
        let account = until_supervisor_agrees(nodes, &pod, 2, 2).await?;
        assert_eq!(account["sharing"]["mode"], "slots", "{account}");

        // The level is in force: without the settings nothing comes of it, and the reason is told where one looks.
        nodes.apply("loose", hello(json!({}))).await?;
        let refused = nodes.until_not_ready("loose", "PodsRefused").await?;
        for words in ["PodSecurity", "restricted", "allowPrivilegeEscalation"] {
            ensure!(refused.message.contains(words), "{words} is not in: {}", refused.message);
        }
        // What the operator adds to a pod is not what is complained about.
        ensure!(!refused.message.contains("workerapp-install"), "{}", refused.message);
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_node_cluster_app_is_told_the_count_and_forks_by_itself() -> Result<()> {
    on_nodes("cluster", async |nodes| {
        let spec = hello(json!({
            "runtime": "NodeCluster", "command": ["node", "cluster.js"], "workers": { "count": 3 },
        }));
        let app = nodes.serve_app("forks", spec).await?;
        let pod = nodes.only_pod("forks").await?;
        let endpoints = nodes.endpoints(&app).await?;
        until_all_answer(&endpoints, "/", slice::from_ref(&pod), 3, pid).await?;
        assert_eq!(requests::get_json(endpoints[0], "/").await?["workers"], "3");
        until_supervisor_agrees(nodes, &pod, 3, 1).await?;
        Ok(())
    })
    .await
}

#[tokio::test]
async fn pm2_is_told_the_count() -> Result<()> {
    on_nodes("pm2", async |nodes| {
        let spec = hello(json!({
            "image": NEXT,
            "runtime": "Pm2",
            "command": ["node", "/tools/node_modules/pm2/bin/pm2-runtime", "start", "server.js"],
            "resources": { "requests": { "cpu": "1", "memory": "450Mi" }, "limits": { "cpu": "3" } },
        }));
        let app = nodes.serve_app("pm2", spec).await?;
        let pod = nodes.only_pod("pm2").await?;
        until_supervisor_agrees(nodes, &pod, 3, 1).await?;
        let endpoints = nodes.endpoints(&app).await?;
        // pm2 takes connections as soon as its first worker listens.
        let answers = eventually("three workers of pm2", async || {
            until_all_answer(&endpoints, "/api/info", slice::from_ref(&pod), 3, |answer| {
                assert_eq!(answer["workers"], "3", "{answer}");
                format!("{} {}", answer["worker"], answer["pid"])
            })
            .await
        });
        answers.await?;
        Ok(())
    })
    .await
}

#[tokio::test]
async fn watt_is_told_the_count_and_its_metrics_are_offered() -> Result<()> {
    on_nodes("watt", async |nodes| {
        let spec = hello(json!({
            "image": NEXT,
            "runtime": "Watt",
            "command": ["node", "/tools/node_modules/wattpm/bin/cli.js", "start"],
            "workingDir": "/watt",
            "resources": { "requests": { "cpu": "1", "memory": "450Mi" }, "limits": { "cpu": "3" } },
        }));
        let app = nodes.serve_app("watt", spec).await?;
        let pod = nodes.only_pod("watt").await?;
        until_supervisor_agrees(nodes, &pod, 3, 1).await?;
        let endpoints = nodes.endpoints(&app).await?;
        // Its workers are threads of one process, which listen one after the other.
        let answers = eventually("three threads of Watt", async || {
            until_all_answer(&endpoints, "/api/info", slice::from_ref(&pod), 3, |answer| {
                answer["thread"].to_string()
            })
            .await
        });
        answers.await?;

        let port =
            ["get", "service", "watt", "-o", "jsonpath={.spec.ports[?(@.name==\"metrics\")].nodePort}"];
        let mut metrics = endpoints[0];
        metrics.set_port(nodes.kubectl(&port).await?.parse()?);
        let text =
            eventually("the metrics of Watt", async || requests::get(metrics, "/metrics").await).await?;
        ensure!(text.contains("# TYPE "), "no metrics: {text}");
        Ok(())
    })
    .await
}

/// A server that is no Node program and knows nothing of workers: busybox, with a file that says who it is.
const BUSYBOX: &str = r#"mkdir "/tmp/$WORKER_ID"
printf '{"host": "%s", "worker": "%s", "workers": "%s"}' "$(hostname)" "$WORKER_ID" "$WORKERS" >"/tmp/$WORKER_ID/index.html"
exec busybox httpd -f -p "$PORT" -h "/tmp/$WORKER_ID""#;

#[tokio::test]
async fn a_generic_server_runs_in_several_workers() -> Result<()> {
    on_nodes("generic", async |nodes| {
        let spec = hello(json!({
            "runtime": "Generic", "command": ["sh", "-ec", BUSYBOX], "workers": { "count": 3 },
        }));
        let app = nodes.serve_app("web", spec).await?;
        let pod = nodes.only_pod("web").await?;
        let endpoints = nodes.endpoints(&app).await?;
        let who = |answer: &Value| answer["worker"].to_string();
        let answers = until_all_answer(&endpoints, "/", slice::from_ref(&pod), 3, who).await?;
        let expected = ["0", "1", "2"].map(|id| format!("\"{id}\""));
        assert_eq!(answers[&pod.name_any()], expected.into_iter().collect());
        until_supervisor_agrees(nodes, &pod, 3, 3).await?;
        Ok(())
    })
    .await
}

/// A limit that the author never wrote comes from a LimitRange; the workers that really run follow it.
#[tokio::test]
async fn platform_1727_the_workers_follow_the_limit_of_a_limit_range() -> Result<()> {
    on_nodes("limitrange", async |nodes| {
        let limits =
            json!([{ "type": "Container", "default": { "cpu": "2500m" }, "defaultRequest": { "cpu": "100m" } }]);
        let range = json!({ "metadata": { "name": "house-rules" }, "spec": { "limits": limits } });
        nodes.create::<LimitRange>(range).await?;
        let spec = hello(json!({ "resources": { "requests": { "cpu": "100m" } } }));
        let app = nodes.serve_app("quiet", spec).await?;

        let told = status(&app)?;
        let reason = told.workers_reason.clone().unwrap_or_default();
        assert_eq!(told.workers, Some(3), "{reason}");
        for words in ["2500m", "LimitRange house-rules", "rounded up"] {
            ensure!(reason.contains(words), "{words} is not in status.workersReason: {reason}");
        }
        let reconciled = condition(&app, ConditionType::Reconciled).context("no condition")?;
        for words in ["LimitRange house-rules", "spec.resources.limits.cpu", "throttled"] {
            ensure!(reconciled.message.contains(words), "{words} is not in: {}", reconciled.message);
        }

        let pod = nodes.only_pod("quiet").await?;
        until_all_answer(&nodes.endpoints(&app).await?, "/", slice::from_ref(&pod), 3, pid).await?;
        until_supervisor_agrees(nodes, &pod, 3, 3).await?;
        let limit = nodes::container(&pod).and_then(|container| container.resources.clone()).unwrap_or_default();
        let limit = limit.limits.unwrap_or_default().remove("cpu");
        assert_eq!(limit.map(|limit| limit.0).as_deref(), Some("2500m"));
        Ok(())
    })
    .await
}
