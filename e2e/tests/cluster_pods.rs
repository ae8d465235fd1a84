//! What happens to pods while they serve: they are replaced, deleted, asked to stop, and one of their workers is killed.

use std::{
    slice,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use futures::{AsyncBufReadExt as _, TryStreamExt as _};
use k8s_openapi::api::apps::v1::Deployment;
use kube::{ResourceExt as _, api::LogParams};
use serde_json::{Value, json};
use workerapp_e2e::{
    Pod,
    nodes::{
        Nodes, container, eventually, hello, on_nodes,
        requests::{self, Load},
        restarts, until_all_answer,
    },
    scrape,
};

/// Between the requests of one client.
const PAUSE: Duration = Duration::from_millis(10);
const RESTARTED: &str = "kubectl.kubernetes.io/restartedAt";

fn pid(answer: &Value) -> String {
    answer["pid"].to_string()
}

/// Waits until exactly these pods are gone and as many others are Ready.
async fn until_replaced(nodes: &Nodes, app: &str, old: &[Pod]) -> Result<Vec<Pod>> {
    eventually(&format!("other pods of {app}"), async || {
        let all = nodes.all_pods(app).await?;
        let left = all.iter().filter(|pod| old.iter().any(|old| old.uid() == pod.uid())).count();
        let ready = nodes.ready_pods(app).await?;
        ensure!(left == 0 && ready.len() == old.len(), "{left} old pods are left, {} are ready", ready.len());
        Ok(ready)
    })
    .await
}

/// Short connections through the node port of every node while all pods are replaced, three times, and once can't be.
#[tokio::test]
async fn kubernetes_43576_no_request_is_lost_while_pods_are_replaced() -> Result<()> {
    on_nodes("rolling", async |nodes| {
        let spec =
            |colour: &str| hello(json!({ "replicas": 2, "env": [{ "name": "COLOUR", "value": colour }] }));
        let app = nodes.serve_app("shop", spec("red")).await?;
        let first = nodes.ready_pods("shop").await?;
        let load = Load::start(&nodes.endpoints(&app).await?, "/sleep?ms=20", 6, PAUSE);
        load.until_answered(50).await?;

        nodes.kubectl(&["rollout", "restart", "deployment/shop"]).await?;
        let second = until_replaced(nodes, "shop", &first).await?;

        nodes.serve_app("shop", spec("blue")).await?;
        let third = until_replaced(nodes, "shop", &second).await?;
        // ledger_1764, toolhive_6344: the restart that someone asked for is not taken back by the next change.
        let deployment = nodes.api::<Deployment>().get("shop").await?;
        let template = deployment.spec.template.metadata.unwrap_or_default();
        let annotations = template.annotations.unwrap_or_default();
        ensure!(annotations.contains_key(RESTARTED), "{RESTARTED} is gone: {annotations:?}");

        // An image that doesn't exist: the pods that serve go on.
        let mut wrong = spec("blue");
        wrong["image"] = json!("localhost/nothing-here:1");
        nodes.apply("shop", wrong).await?;
        nodes.until_not_ready("shop", "ImagePullBackOff").await?;
        load.until_answered(50).await?;
        nodes.serve_app("shop", spec("blue")).await?;

        // One pod after the other, as an eviction does it.
        for pod in &third {
            nodes.delete::<Pod>(&pod.name_any()).await?;
            eventually("a pod in its place", async || {
                let ready = nodes.ready_pods("shop").await?;
                ensure!(
                    ready.len() == 2 && ready.iter().all(|one| one.uid() != pod.uid()),
                    "{} are ready",
                    ready.len()
                );
                Ok(())
            })
            .await?;
        }
        until_replaced(nodes, "shop", &third).await?;
        load.until_answered(50).await?;
        let answered = load.stop_without_failure().await?;
        ensure!(answered > 1000, "only {answered} requests: that was no load");
        Ok(())
    })
    .await
}

/// A shell that doesn't pass signals on, as `npm start` is: the server is asked to stop all the same, and finishes what it has begun.
#[tokio::test]
async fn npm_4603_a_wrapper_does_not_keep_the_server_from_stopping_in_time() -> Result<()> {
    on_nodes("wrapper", async |nodes| {
        // The last command makes the shell stay; the trap is there to be ended with the signal, as npm does.
        let wrapper = "export GREETING=hello; node server.js; echo the wrapper ends";
        let spec = hello(json!({
            "command": ["sh", "-c", wrapper],
            "supervisor": { "lameDuckSeconds": 1 },
            "terminationGracePeriodSeconds": 60,
        }));
        let app = nodes.serve_app("wrapped", spec).await?;
        let pod = nodes.only_pod("wrapped").await?;
        until_all_answer(&nodes.endpoints(&app).await?, "/", slice::from_ref(&pod), 2, pid).await?;

        let follow = LogParams { follow: true, container: Some("app".into()), ..LogParams::default() };
        let log = nodes.api::<Pod>().log_stream(&pod.name_any(), &follow).await?;
        let log = tokio::spawn(log.lines().try_collect::<Vec<_>>());
        let endpoint = nodes.endpoints(&app).await?[0];
        let in_flight = tokio::spawn(async move { requests::get_json(endpoint, "/sleep?ms=4000").await });
        tokio::time::sleep(Duration::from_millis(500)).await;

        let asked = Instant::now();
        nodes.delete::<Pod>(&pod.name_any()).await?;
        in_flight.await?.context("the request that was in flight")?;
        until_replaced(nodes, "wrapped", &[pod]).await?;
        let took = asked.elapsed();
        ensure!(took < Duration::from_secs(20), "the pod took {took:.1?} of 60 s to end");

        let log =
            tokio::time::timeout(Duration::from_secs(10), log).await.context("the log goes on")???;
        let asked = log.iter().filter(|line| line.ends_with("was asked to stop")).count();
        ensure!(asked == 2, "{asked} of 2 servers were asked to stop: {log:#?}");
        let killed = log.iter().any(|line| line.contains("killing them"));
        ensure!(!killed, "something had to be killed: {log:#?}");
        Ok(())
    })
    .await
}

/// The sum of the worker restarts in the supervisor's metrics.
async fn counted_restarts(nodes: &Nodes, pod: &Pod) -> Result<f64> {
    Ok(scrape::total(&nodes.admin(pod, "/metrics").await?, "workerapp_worker_restarts_total"))
}

#[tokio::test]
async fn uvicorn_517_a_killed_worker_is_replaced_on_the_same_port() -> Result<()> {
    on_nodes("killed", async |nodes| {
        let spec = hello(json!({ "resources": { "requests": { "cpu": "100m" }, "limits": { "cpu": "3" } } }));
        let app = nodes.serve_app("shop", spec).await?;
        let endpoints = nodes.endpoints(&app).await?;
        let pod = nodes.only_pod("shop").await?;
        let before = until_all_answer(&endpoints, "/", slice::from_ref(&pod), 3, pid).await?;
        let before = &before[&pod.name_any()];
        assert!(counted_restarts(nodes, &pod).await? < 0.5);

        let clients = 3;
        let load = Load::start(&endpoints, "/", clients, PAUSE);
        load.until_answered(20).await?;
        let victim = before.first().context("no worker")?;
        nodes.kubectl(&["exec", &pod.name_any(), "-c", "app", "--", "kill", "-9", victim]).await?;

        let after = eventually("a successor", async || {
            until_all_answer(&endpoints, "/", slice::from_ref(&pod), 3, pid).await
        });
        let after = &after.await?[&pod.name_any()];
        ensure!(!after.contains(victim), "{victim} was killed and answers: {after:?}");
        assert_eq!(after.intersection(before).count(), 2, "the others went on: {before:?} → {after:?}");
        load.until_answered(50).await?;
        let outcome = load.stop().await?;
        // What the killed worker was busy with is lost with it, and nothing else.
        ensure!(outcome.failed.len() <= clients, "{:#?}", outcome.failed);

        let counted = counted_restarts(nodes, &pod).await?;
        assert!((counted - 1.0).abs() < 0.5, "{counted} restarts");
        let pod = nodes.only_pod("shop").await?;
        assert_eq!(restarts(&pod), 0, "the container was restarted");
        nodes.until_logged("shop", "SIGKILL").await
    })
    .await
}

/// A server that, asked for `/eat`, takes more and more memory.
const GLUTTON: &str = r"
const eaten = []
const whoami = JSON.stringify({ pid: process.pid, host: require('node:os').hostname() })
require('node:http').createServer((request, response) => {
  response.end(whoami)
  if (request.url === '/eat') setInterval(() => eaten.push(Buffer.alloc(2e7, 1)), 5)
}).listen(process.env.PORT, '0.0.0.0')";

/// With version 1 of cgroups the kernel kills the worker alone, with version 2 Kubernetes has it kill the whole container.
#[tokio::test]
async fn uvicorn_517_a_worker_that_runs_out_of_memory_is_replaced() -> Result<()> {
    on_nodes("memory", async |nodes| {
        let spec = hello(json!({
            "command": ["node", "-e", GLUTTON],
            "resources": { "requests": { "cpu": "100m" }, "limits": { "cpu": "2", "memory": "200Mi" } },
        }));
        let app = nodes.serve_app("eats", spec).await?;
        let endpoints = nodes.endpoints(&app).await?;
        let pod = nodes.only_pod("eats").await?;
        let before = until_all_answer(&endpoints, "/", slice::from_ref(&pod), 2, pid).await?;
        let started = container(&pod).and_then(|container| container.container_id.clone());

        let victim = pid(&requests::get_json(endpoints[0], "/eat").await?);
        ensure!(before[&pod.name_any()].contains(&victim), "{victim} is none of {before:?}");
        let after = eventually("a successor", async || {
            let pod = nodes.only_pod("eats").await?;
            let anew = container(&pod).and_then(|container| container.container_id.clone()) != started;
            let after = until_all_answer(&endpoints, "/", slice::from_ref(&pod), 2, pid).await?;
            let told = if anew {
                nodes.all_pods("eats").await?.iter().any(ran_out_of_memory)
            } else {
                counted_restarts(nodes, &pod).await? > 0.5
            };
            ensure!(told, "nobody says that a worker of {after:?} was killed");
            ensure!(anew || !after[&pod.name_any()].contains(&victim), "{victim} still eats: {after:?}");
            Ok(after)
        });
        assert_eq!(after.await?[&pod.name_any()].len(), 2);
        nodes.until_ready("eats").await?;
        Ok(())
    })
    .await
}

fn ran_out_of_memory(pod: &Pod) -> bool {
    let last = container(pod).and_then(|container| container.last_state.as_ref()?.terminated.as_ref());
    last.is_some_and(|end| end.reason.as_deref() == Some("OOMKilled"))
}
