//! The command line on real nodes: what it shows of pods that run, and what it measures.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::api::{apps::v1::Deployment, batch::v1::Job};
use kube::{ResourceExt as _, api::ListParams};
use serde_json::json;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use workerapp_e2e::{
    cli::{Said, cli, command, interrupt},
    nodes::{Nodes, eventually, hello, on_nodes, pod_is_ready, requests},
};

async fn here(nodes: &Nodes, arguments: &[&str]) -> Result<Said> {
    cli(&[&["-n", &nodes.namespace], arguments].concat(), "").await
}

#[tokio::test]
async fn status_top_logs_and_doctor_see_single_workers() -> Result<()> {
    on_nodes("cli-see", async |nodes| {
        let app = nodes
            .serve_app("shop", hello(json!({ "replicas": 2, "supervisor": { "logPrefix": true } })))
            .await?;
        let endpoints = nodes.endpoints(&app).await?;

        let status = here(nodes, &["status", "shop", "-o", "json"]).await?.well()?.json()?;
        let pods = status["app"]["children"][0]["children"].as_array().context("no pods")?;
        ensure!(pods.len() == 2, "{status}");
        for pod in pods {
            let workers = pod["children"].as_array().context("no workers")?;
            ensure!(workers.len() == 2 && workers.iter().all(|one| one["state"] == "listening"), "{pod}");
        }
        // One URL for each node, and each answers.
        let urls = status["urls"].as_array().context("no urls")?;
        ensure!(urls.len() == nodes.addresses.len(), "{urls:?}");
        for url in urls {
            let address = url.as_str().and_then(|url| url.strip_prefix("http://")).context("no http://")?;
            requests::get_json(address.parse()?, "/").await?;
        }

        let ask = async || -> Result<()> {
            loop {
                for endpoint in &endpoints {
                    requests::get(*endpoint, "/").await?;
                }
            }
        };
        let top =
            async { here(nodes, &["top", "shop", "--interval", "3", "-o", "json"]).await?.well()?.json() };
        let rows = tokio::select! {
            rows = top => rows?,
            failed = ask() => return failed,
        };
        let rows = rows.as_array().context("no rows")?;
        ensure!(rows.len() == 4, "{rows:?}");
        let rate: f64 = rows.iter().filter_map(|row| row["requestsPerSecond"].as_f64()).sum();
        ensure!(rate > 1.0, "no worker has answered: {rows:?}");
        ensure!(
            rows.iter()
                .all(|row| row["residentBytes"].as_u64() > Some(1 << 20) && row["throttled"].is_number()),
            "{rows:?}"
        );

        let logs = here(nodes, &["logs", "shop", "--worker", "1"]).await?.well()?.out;
        ensure!(
            logs.lines().count() > 0 && logs.lines().all(|line| line.contains("] [worker 1] ")),
            "{logs}"
        );

        let doctor = here(nodes, &["doctor", "-o", "json"]).await?.json()?;
        let wrong: Vec<_> =
            doctor.as_array().into_iter().flatten().filter(|one| one["state"] == "failed").collect();
        ensure!(wrong.is_empty(), "{wrong:?}");
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_pod_whose_program_is_not_there_is_found_by_status_and_doctor() -> Result<()> {
    on_nodes("cli-ill", async |nodes| {
        nodes.apply("shop", hello(json!({ "command": ["no-such-program"] }))).await?;
        eventually("status to tell", async || {
            let text = here(nodes, &["status", "shop"]).await?.well()?.out;
            ensure!(text.contains("CrashLoopBackOff") && text.contains("Last events"), "{text}");
            Ok(())
        })
        .await?;
        let said = here(nodes, &["doctor"]).await?;
        ensure!(
            said.code == 1 && said.out.contains("×  ready") && said.out.contains("CrashLoopBackOff"),
            "{said:?}"
        );
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_paused_app_keeps_what_is_changed_by_hand_until_it_is_resumed() -> Result<()> {
    on_nodes("cli-pause", async |nodes| {
        nodes.serve_app("shop", hello(json!({ "replicas": 1 }))).await?;
        here(nodes, &["pause", "shop"]).await?.well()?;
        let grace = json!({ "spec": { "minReadySeconds": 7 } });
        // The operator may not have seen the annotation yet, and undo it once.
        eventually("the change to stay", async || {
            nodes.merge::<Deployment>("shop", grace.clone()).await?;
            tokio::time::sleep(Duration::from_secs(2)).await;
            let deployment: Deployment = nodes.api().get("shop").await?;
            ensure!(deployment.spec.min_ready_seconds == Some(7), "{:?}", deployment.spec.min_ready_seconds);
            Ok(())
        })
        .await?;
        let status = here(nodes, &["status", "shop"]).await?.well()?.out;
        ensure!(status.contains("paused"), "{status}");
        here(nodes, &["resume", "shop"]).await?.well()?;
        Ok(())
    })
    .await
}

#[tokio::test]
async fn bench_finds_the_annotated_services_and_sees_their_pods() -> Result<()> {
    on_nodes("cli-bench", async |nodes| {
        let one = nodes.serve_app("one", hello(json!({ "replicas": 1 }))).await?;
        nodes.endpoints(&one).await?;
        let two = nodes.serve_app("two", hello(json!({ "replicas": 2 }))).await?;
        nodes.serve_app("hidden", hello(json!({ "service": { "expose": false } }))).await?;
        nodes.endpoints(&two).await?;

        let flags =
            ["bench", "-c", "4", "-d", "2s", "--warm-up", "1s", "--rounds", "5", "--seed", "3", "-o", "json"];
        let said = here(nodes, &flags).await?;
        ensure!(matches!(said.code, 0 | 3), "{said:?}");
        let results = said.json()?;
        ensure!(results["targets"] == json!(["one", "two"]), "{}", results["targets"]);
        let runs = results["runs"].as_array().context("no runs")?;
        ensure!(runs.len() == 10, "{} runs", runs.len());
        for run in runs {
            let observed = &run["observations"];
            let pods = observed["pods"].as_array().with_context(|| format!("no pods in {observed}"))?;
            ensure!(pods.len() == if run["target"] == "one" { 1 } else { 2 }, "{observed}");
            ensure!(observed["cpu"]["used_cores"].as_f64() > Some(0.0), "{observed}");
            // The warm-up is in the pods' count and not in the figures.
            let answered = run["figures"]["answered"].as_u64().unwrap_or_default();
            let counted: u64 = pods.iter().filter_map(|pod| pod["requests"].as_u64()).sum();
            ensure!(answered > 0 && counted >= answered, "{counted} requests of pods, {answered} answers");
            ensure!(
                run["url"].as_str().is_some_and(|url| url.split(' ').count() == nodes.addresses.len()),
                "{run}"
            );
        }
        Ok(())
    })
    .await
}

#[tokio::test]
async fn bench_in_the_cluster_leaves_nothing_behind() -> Result<()> {
    on_nodes("cli-job", async |nodes| {
        nodes.serve_app("shop", hello(json!({ "replicas": 1 }))).await?;
        let flags = ["bench", "--in-cluster", "-c", "2", "-d", "1s", "--warm-up", "5s", "-o", "json"];
        let said = here(nodes, &flags).await?;
        ensure!(matches!(said.code, 0 | 3), "{said:?}");
        let results = said.json()?;
        ensure!(results["runs"][0]["figures"]["answered"].as_u64() > Some(0), "{results}");
        // The pods are seen from here, as if the load came from here.
        let observed = &results["runs"][0]["observations"];
        let pod = &observed["pods"][0];
        ensure!(pod["requests"].as_u64() > Some(0) && pod["restarts"] == 0, "{observed}");
        ensure!(observed["cpu"]["used_cores"].as_f64() > Some(0.0), "{observed}");
        ensure!(observed["replicas"][0]["ready"] == 1, "{observed}");
        until_no_job(nodes).await?;

        // Ended in the middle, it cleans up too, and tells what was measured.
        let arguments = ["-n", &nodes.namespace, "bench", "--in-cluster", "-d", "60s", "-o", "json"];
        let mut child = command(&arguments)?.spawn()?;
        let mut said = BufReader::new(child.stderr.take().context("no stderr")?).lines();
        while let Some(line) = said.next_line().await? {
            if line.contains("run 1 of 1") {
                break;
            }
        }
        let rest = tokio::spawn(async move { while let Ok(Some(_)) = said.next_line().await {} });
        interrupt(&child).await?;
        let output = child.wait_with_output().await?;
        rest.await?;
        let text = String::from_utf8_lossy(&output.stdout);
        ensure!(output.status.code() == Some(130), "{:?}: {text}", output.status);
        let partial: serde_json::Value = serde_json::from_str(&text).with_context(|| format!("{text:?}"))?;
        ensure!(partial["provenance"]["interrupted"] == true, "{text}");
        until_no_job(nodes).await
    })
    .await
}

async fn until_no_job(nodes: &Nodes) -> Result<()> {
    eventually("no Job", async || {
        let jobs = nodes.api::<Job>().list(&ListParams::default()).await?.items;
        ensure!(jobs.is_empty(), "{:?}", jobs.iter().map(kube::ResourceExt::name_any).collect::<Vec<_>>());
        Ok(())
    })
    .await
}

#[tokio::test]
async fn restart_replaces_every_pod() -> Result<()> {
    on_nodes("cli-new", async |nodes| {
        nodes.serve_app("shop", hello(json!({ "replicas": 1 }))).await?;
        let old = nodes.only_pod("shop").await?.name_any();
        here(nodes, &["restart", "shop"]).await?.well()?;
        // Whoever waits for Ready now waits for the new pod.
        let told = here(nodes, &["status", "shop", "-o", "json"]).await?.well()?.out;
        let told: serde_json::Value = serde_json::from_str(&told)?;
        ensure!(told["app"]["state"] == "RollingOut", "{}", told["app"]);
        eventually("another pod", async || {
            let pods = nodes.all_pods("shop").await?;
            ensure!(pods.iter().any(|pod| pod_is_ready(pod) && pod.name_any() != old), "{old} still");
            Ok(())
        })
        .await
    })
    .await
}
