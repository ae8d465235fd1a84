//! One trial: an app with two pods, 20 % of what they can do, then 150 %; and what happens meanwhile.

use std::{
    net::SocketAddr,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result};
use k8s_openapi::api::{apps::v1::Deployment, autoscaling::v2::HorizontalPodAutoscaler};
use serde::Serialize;
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use workerapp_bench::{Arrivals, Control, Load, Plan, Report, Target, Template};
use workerapp_e2e::nodes::{Nodes, hello, on_nodes};

use crate::{Arguments, share, signal::Signal};

/// The pods at the beginning, and what they get of what they can do.
const PODS: u32 = 2;
const LOW: f64 = 0.2;
const HIGH: f64 = 1.5;
/// The pods that the high load fills.
const NEEDED: i32 = 3;
const MOST: i32 = 8;
/// An answer that takes longer is slow.
const SLOW: Duration = Duration::from_secs(1);
/// How often the number of pods is looked at.
const LOOK: Duration = Duration::from_millis(250);
/// After so long the number of pods should stay.
const SETTLED: Duration = Duration::from_mins(1);

/// What a trial showed. Times count from the step.
#[derive(Debug, Serialize)]
pub(crate) struct Trial {
    pub(crate) signal: &'static str,
    pub(crate) round: u32,
    /// Seconds until more pods were asked for.
    pub(crate) decided: Option<f64>,
    /// Seconds until as many pods were ready as the load fills.
    pub(crate) ready: Option<f64>,
    pub(crate) requests: u64,
    pub(crate) failed: f64,
    /// Answers that took longer than a second.
    pub(crate) slow: f64,
    pub(crate) pod_seconds: f64,
    /// How often the number of pods changed after the first minute.
    pub(crate) late_changes: f64,
    /// Of the requests of the last seconds, what the pod got that got the fewest, in percent of an even share.
    pub(crate) least_share_percent: Option<f64>,
    /// The number of pods over time.
    pub(crate) looks: Vec<Look>,
    load: Value,
}

/// The pods at one moment.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Look {
    /// Seconds since the step; below 0 before it.
    pub(crate) at: f64,
    pub(crate) wanted: i32,
    pub(crate) ready: i32,
}

pub(crate) async fn run(arguments: &Arguments, signal: Signal, round: u32) -> Result<Trial> {
    let mut trial = None;
    on_nodes("autoscale", async |nodes| {
        trial = Some(Box::pin(on(nodes, arguments, signal, round)).await?);
        Ok(())
    })
    .await?;
    trial.context("no trial was made")
}

async fn on(nodes: &Nodes, arguments: &Arguments, signal: Signal, round: u32) -> Result<Trial> {
    let cpu = format!("{}m", arguments.cpu);
    let mut autoscaling = json!({ "minReplicas": PODS, "maxReplicas": MOST });
    if let (Some(all), Some(target)) = (autoscaling.as_object_mut(), signal.target().as_object()) {
        all.extend(target.clone());
    }
    let mut supervisor = json!({ "lameDuckSeconds": 3 });
    if let Some(requests) = arguments.keep_alive.filter(|requests| *requests > 0) {
        supervisor["connectionMaxRequests"] = requests.into();
    }
    let app = nodes
        .serve_app(
            "app",
            hello(json!({
                "resources": { "requests": { "cpu": cpu, "memory": "64Mi" }, "limits": { "cpu": cpu } },
                "workers": { "count": 1 },
                "autoscaling": autoscaling,
                "supervisor": supervisor,
            })),
        )
        .await?;
    let endpoints = nodes.endpoints(&app).await?;
    let reads = |autoscaler: &HorizontalPodAutoscaler| {
        let conditions = autoscaler.status.iter().flat_map(|status| status.conditions.iter().flatten());
        conditions.into_iter().any(|one| one.type_ == "ScalingActive" && one.status == "True")
    };
    nodes.wait("app", "the autoscaler to read its metric", reads).await?;

    let capacity = arguments.capacity() * f64::from(PODS);
    let low = load(&endpoints, arguments, capacity * LOW, arguments.low)?;
    low.await??;
    let begin = Instant::now();
    let high = load(&endpoints, arguments, capacity * HIGH, arguments.high)?;
    let mut looks: Vec<Look> = Vec::new();
    let mut counted = None;
    let last = Duration::from_secs(arguments.high).saturating_sub(share::LAST);
    while !high.is_finished() {
        let deployment = nodes.api::<Deployment>().get("app").await?;
        looks.push(Look {
            at: begin.elapsed().as_secs_f64(),
            wanted: deployment.spec.replicas.unwrap_or_default(),
            ready: deployment.status.and_then(|status| status.ready_replicas).unwrap_or_default(),
        });
        if counted.is_none() && begin.elapsed() >= last {
            counted = Some(share::requests(nodes, "app").await?);
        }
        tokio::time::sleep(LOOK).await;
    }
    let least_share_percent = match counted {
        Some(before) => share::least_percent(&before, &share::requests(nodes, "app").await?),
        None => None,
    };
    let report = high.await??;

    let first = |reached: fn(&Look) -> bool| looks.iter().find(|look| reached(look)).map(|look| look.at);
    let late = looks.iter().filter(|look| look.at > SETTLED.as_secs_f64()).map(|look| look.wanted);
    let late: Vec<i32> = late.collect();
    let pod_seconds = looks.windows(2).map(|pair| f64::from(pair[0].ready) * (pair[1].at - pair[0].at)).sum();
    let slow = report.latency.count_between(u64::try_from(SLOW.as_micros())?, u64::MAX);
    let failed = report.failures.values().sum::<u64>() + report.counts.dropped;
    let load = serde_json::to_value(&report)?;
    Ok(Trial {
        signal: signal.name(),
        round,
        decided: first(|look| look.wanted > 2),
        ready: first(|look| look.ready >= NEEDED),
        requests: report.latency.len() + failed,
        failed: f64::from(u32::try_from(failed)?),
        slow: f64::from(u32::try_from(slow)?),
        pod_seconds,
        least_share_percent,
        late_changes: f64::from(u32::try_from(late.windows(2).filter(|pair| pair[0] != pair[1]).count())?),
        load: json!({ "latency_ms": load["latency_ms"], "counts": load["counts"], "failures": load["failures"] }),
        looks,
    })
}

/// Requests at a rate, planned ahead; unless `--keep-alive` says otherwise each on a connection of its own: new pods are met by new
/// connections.
fn load(
    endpoints: &[SocketAddr],
    arguments: &Arguments,
    rate: f64,
    seconds: u64,
) -> Result<JoinHandle<Result<Report>>> {
    let first = endpoints.first().context("no endpoint")?;
    let target = Target::parse(&format!("http://{first}/cpu?ms={}", arguments.work))?;
    let request = Template::default().build(&target, arguments.keep_alive.is_some())?;
    let plan = Plan {
        load: Load::Rate { per_second: rate, arrivals: Arrivals::Random { seed: 1 } },
        connections: 512,
        threads: 1,
        keep_alive: arguments.keep_alive.is_some(),
        warm_up: Duration::ZERO,
        duration: Duration::from_secs(seconds),
        timeout: Duration::from_secs(10),
        ..Plan::new(endpoints.to_vec(), request)
    };
    Ok(tokio::task::spawn_blocking(move || Ok(workerapp_bench::run(&plan, &Control::default())?)))
}
