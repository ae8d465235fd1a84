//! Short and keep-alive clients through node ports while every pod is replaced: plain Node, and the same app under the operator.

use std::{
    fmt::Write as _,
    io::{self, Write as _},
    net::SocketAddr,
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::api::{apps::v1::Deployment, core::v1::Service};
use kube::ResourceExt as _;
use serde_json::json;
use tokio::task::JoinHandle;
use workerapp_api::names;
use workerapp_bench::{Arrivals, Control, Load, Plan, Report, Target, Template};
use workerapp_e2e::nodes::{HELLO, Nodes, eventually, hello, on_nodes, requests};

/// Requests per second of each kind of clients; far below what a pod can do.
const PER_SECOND: f64 = 50.0;
/// Connections of each kind at most; they take the nodes in turns.
const CONNECTIONS: usize = 16;
/// A run ends by itself after so long, whatever happens.
const LONGEST: Duration = Duration::from_mins(20);
/// Longer than anyone waits for a page.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Load before and after.
const CALM: Duration = Duration::from_secs(3);
const PATH: &str = "/sleep?ms=20";

/// What the clients of one app saw.
struct Seen {
    app: &'static str,
    short: Report,
    kept: Report,
    took: Duration,
}

impl Seen {
    fn row(&self) -> String {
        let mut row = format!("{:<22} {:>5.1}", self.app, self.took.as_secs_f64());
        let mut remarks = Vec::new();
        for (kind, report) in [("short", &self.short), ("kept", &self.kept)] {
            let counts = &report.counts;
            let times = format!("{:.0} / {:.0}", report.quantile_ms(0.99), report.quantile_ms(1.0));
            remarks.extend(report.failures.iter().map(|(why, n)| format!("{kind} {}: {n}", why.name())));
            // A String takes everything.
            let _ = write!(
                row,
                " {:>8} {:>7} {:>8} {:>7} {times:>12}",
                counts.answered, counts.failed, counts.reconnects, counts.dropped
            );
        }
        format!("{row}  {}", remarks.join(", "))
    }
}

fn clients(
    endpoints: &[SocketAddr],
    keep_alive: bool,
    control: &Arc<Control>,
) -> Result<JoinHandle<Result<Report, workerapp_bench::Error>>> {
    let target = Target::parse(&format!("http://{}{PATH}", endpoints.first().context("no endpoint")?))?;
    let request = Template::default().build(&target, keep_alive)?;
    let arrivals = Arrivals::Random { seed: u64::from(keep_alive) };
    let plan = Plan {
        load: Load::Rate { per_second: PER_SECOND, arrivals },
        connections: CONNECTIONS,
        keep_alive,
        resend: true,
        warm_up: Duration::ZERO,
        duration: LONGEST,
        timeout: TIMEOUT,
        ..Plan::new(endpoints.to_vec(), request)
    };
    let control = Arc::clone(control);
    Ok(tokio::task::spawn_blocking(move || workerapp_bench::run(&plan, &control)))
}

/// Replaces all pods of a Deployment under load.
async fn roll(nodes: &Nodes, name: &str, app: &'static str, endpoints: &[SocketAddr]) -> Result<Seen> {
    let old: Vec<_> = nodes.all_pods(name).await?.iter().map(kube::ResourceExt::uid).collect();
    let control = Arc::new(Control::default());
    let (short, kept) = (clients(endpoints, false, &control)?, clients(endpoints, true, &control)?);
    tokio::time::sleep(CALM).await;
    let begun = Instant::now();
    let rolled = async {
        nodes.kubectl(&["rollout", "restart", &format!("deployment/{name}")]).await?;
        eventually(&format!("other pods of {name}"), async || {
            let pods = nodes.all_pods(name).await?;
            let left = pods.iter().filter(|pod| old.contains(&pod.uid())).count();
            let ready = nodes.ready_pods(name).await?.len();
            ensure!(left == 0 && ready == old.len(), "{left} old pods are left, {ready} are ready");
            Ok(())
        })
        .await
    };
    let rolled = rolled.await;
    let took = begun.elapsed();
    tokio::time::sleep(CALM).await;
    // Also when it failed: the clients would go on.
    control.stop();
    let (short, kept) = (short.await??, kept.await??);
    rolled?;
    Ok(Seen { app, short, kept, took })
}

/// As it is done without the operator: a Deployment with a readiness probe, whose process ends after SIGTERM when it has answered.
async fn serve_plain(nodes: &Nodes, name: &str) -> Result<Vec<SocketAddr>> {
    let labels = json!({ (names::LABEL_INSTANCE): name });
    let container = json!({
        "name": "app",
        "image": HELLO,
        "command": ["node", "server.js"],
        "env": [{ "name": "PORT", "value": "3000" }, { "name": "HOSTNAME", "value": "0.0.0.0" }],
        "ports": [{ "containerPort": 3000 }],
        "readinessProbe": { "httpGet": { "path": "/", "port": 3000 }, "periodSeconds": 1 },
        "resources": { "requests": { "cpu": "100m", "memory": "64Mi" }, "limits": { "cpu": "2" } },
    });
    nodes
        .create::<Deployment>(json!({
            "metadata": { "name": name },
            "spec": {
                "replicas": 2,
                "selector": { "matchLabels": labels },
                "template": { "metadata": { "labels": labels }, "spec": { "containers": [container] } },
            },
        }))
        .await?;
    let service = nodes
        .create::<Service>(json!({
            "metadata": { "name": name },
            "spec": { "type": "NodePort", "selector": labels, "ports": [{ "port": 80, "targetPort": 3000 }] },
        }))
        .await?;
    let ports = service.spec.unwrap_or_default().ports.unwrap_or_default();
    let port = u16::try_from(ports.first().and_then(|port| port.node_port).context("no node port")?)?;
    eventually(&format!("two pods of {name}"), async || {
        let ready = nodes.ready_pods(name).await?.len();
        ensure!(ready == 2, "{ready} are ready");
        Ok(())
    })
    .await?;
    let endpoints: Vec<_> = nodes.addresses.iter().map(|address| SocketAddr::new(*address, port)).collect();
    for endpoint in &endpoints {
        eventually(&format!("{endpoint} to answer"), async || requests::get(*endpoint, "/").await).await?;
    }
    Ok(endpoints)
}

/// pm2#3143, kubernetes#43576, nodejs#27363: requests are refused or reset while pods are replaced.
#[tokio::test]
async fn kubernetes_43576_a_rolling_update_loses_neither_short_nor_kept_connections() -> Result<()> {
    on_nodes("loss", async |nodes| {
        let endpoints = serve_plain(nodes, "plain").await?;
        let plain = roll(nodes, "plain", "node in a Deployment", &endpoints).await?;
        let app = nodes.serve_app("ours", hello(json!({ "replicas": 2 }))).await?;
        let endpoints = nodes.endpoints(&app).await?;
        let ours = roll(nodes, "ours", "WorkerApp, 2 workers", &endpoints).await?;

        // Straight to standard error: these figures are of interest when the test passes.
        let columns = |kind: &str| {
            format!("{kind:>8} {:>7} {:>8} {:>7} {:>12}", "failed", "retried", "unsent", "p99/max ms")
        };
        let mut error = io::stderr();
        writeln!(error, "rolling update, 2 pods     s {} {}", columns("short ok"), columns("kept ok"))?;
        for seen in [&plain, &ours] {
            writeln!(error, "{}", seen.row())?;
        }
        for (kind, report) in [("short", &ours.short), ("kept", &ours.kept)] {
            let counts = &report.counts;
            let lost = counts.failed + counts.dropped;
            ensure!(lost == 0, "{kind}: {lost} of {} requests are lost: {:?}", counts.sent, report.failures);
            ensure!(counts.answered > 200, "only {} answers: that was no load", counts.answered);
        }
        Ok(())
    })
    .await
}
