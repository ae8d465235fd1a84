//! What the metrics API costs: the operator's own program asks many pods, whose supervisors are sockets of this benchmark on loopback
//! addresses, and a client asks it through the API server as an autoscaler does.

use std::{
    fs,
    io::Write as _,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    path::PathBuf,
    process::Stdio,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use clap::Parser;
use futures::{StreamExt as _, TryStreamExt as _};
use kube::Client;
use serde_json::json;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpListener,
    process::{Child, Command},
};
use workerapp_bench::statistics::median;
use workerapp_e2e::{
    Fixture, Pod, cluster,
    metrics_api::{self, NAME, containers, eventually, labels, raw, run_pod},
    procfs,
};

/// Measures what the metrics API costs with many pods, and how fast it answers.
#[derive(Debug, Parser)]
struct Arguments {
    /// The operator's program.
    #[arg(long, value_name = "PATH")]
    operator: PathBuf,
    /// Where the results are written, as JSON.
    #[arg(long, value_name = "PATH")]
    output: PathBuf,
    /// How many pods.
    #[arg(long, default_value = "1000")]
    pods: u32,
    /// How many of them each app has.
    #[arg(long, default_value = "20")]
    pods_per_app: u32,
    /// How many workers each pod has.
    #[arg(long, default_value = "3")]
    workers: u32,
    /// Seconds between two looks at a pod.
    #[arg(long, default_value = "5")]
    interval: u32,
    /// How long is measured, in seconds.
    #[arg(long, default_value = "60")]
    seconds: u32,
}

/// How many requests to the API server are under way while pods are made.
const AT_ONCE: usize = 32;
/// How many lists are asked for, of each kind.
const LISTS: usize = 200;
const IN_FLIGHT: &str = "workerapp_requests_in_flight";

#[tokio::main]
async fn main() -> Result<()> {
    let arguments = Arguments::parse();
    let _turn = metrics_api::turn().await?;
    let fixture = Fixture::new().await?;
    let measured = Box::pin(measure(&fixture, &arguments)).await;
    fixture.remove().await?;
    let results = measured?;
    fs::write(&arguments.output, serde_json::to_vec_pretty(&results)?)
        .context("the results can't be written")?;
    writeln!(std::io::stdout(), "{results:#}")?;
    Ok(())
}

async fn measure(fixture: &Fixture, arguments: &Arguments) -> Result<serde_json::Value> {
    let supervisors = Supervisors::start(arguments.workers).await?;
    make_pods(fixture, arguments, supervisors.port).await?;
    let mut adapter = Adapter::start(fixture, arguments).await?;

    let list = |app: &str| {
        let namespace = &fixture.namespace;
        format!("/apis/custom.metrics.k8s.io/v1beta2/namespaces/{namespace}/pods/*/{IN_FLIGHT}{app}")
    };
    let all = usize::try_from(arguments.pods)?;
    eventually("all pods to have a value", async || {
        let heard = raw(&fixture.client, &list("")).await?["items"].as_array().map_or(0, Vec::len);
        ensure!(heard == all, "{heard} of {all}");
        Ok(())
    })
    .await?;

    let (begin, asked) = (Instant::now(), supervisors.asked());
    let cpu = procfs::cpu(adapter.pid)?;
    tokio::time::sleep(Duration::from_secs(arguments.seconds.into())).await;
    let took = begin.elapsed().as_secs_f64();
    let used = procfs::cpu(adapter.pid)?.saturating_sub(cpu).as_secs_f64() / took;
    let scrapes = supervisors.asked() - asked;
    let memory = procfs::memory_mib(adapter.pid, "VmHWM")?;

    let one_app =
        times(&fixture.client, &list("?labelSelector=app.kubernetes.io%2Finstance%3Dapp-0")).await?;
    let whole = times(&fixture.client, &list("")).await?;
    adapter.end().await?;
    Ok(json!({
        "pods": arguments.pods, "workers_per_pod": arguments.workers, "interval_seconds": arguments.interval,
        "seconds": took, "scrapes": scrapes,
        "cpus": used, "memory_mib_highest": memory,
        "list_of_one_app_ms": one_app, "list_of_all_pods_ms": whole,
    }))
}

/// The pods, as the API server has them when they run: each with a loopback address of its own.
async fn make_pods(fixture: &Fixture, arguments: &Arguments, port: u16) -> Result<()> {
    futures::stream::iter(0..arguments.pods)
        .map(async |number| {
            let name = format!("pod-{number}");
            let app = format!("app-{}", number / arguments.pods_per_app.max(1));
            fixture
                .create::<Pod>(json!({
                    "metadata": { "name": name, "labels": labels(&app) },
                    "spec": { "containers": containers(port) },
                }))
                .await?;
            // From 127.1.0.1 on: as many as anybody asks for.
            let address = Ipv4Addr::from_bits(Ipv4Addr::new(127, 1, 0, 1).to_bits() + number);
            run_pod(fixture, &name, IpAddr::V4(address)).await
        })
        .buffer_unordered(AT_ONCE)
        .try_collect::<Vec<()>>()
        .await?;
    Ok(())
}

/// How long a list takes, in milliseconds: median and 99th percentile.
async fn times(client: &Client, path: &str) -> Result<serde_json::Value> {
    let mut times = Vec::with_capacity(LISTS);
    for _ in 0..LISTS {
        let begin = Instant::now();
        raw(client, path).await?;
        times.push(begin.elapsed().as_secs_f64() * 1000.0);
    }
    times.sort_unstable_by(f64::total_cmp);
    Ok(json!({ "p50": median(&times), "p99": times.get(LISTS * 99 / 100) }))
}

/// Supervisors at every loopback address: one socket, since they all say much the same.
struct Supervisors {
    port: u16,
    asked: Arc<AtomicU64>,
}

impl Supervisors {
    async fn start(workers: u32) -> Result<Self> {
        let listener = TcpListener::bind("0.0.0.0:0").await?;
        let port = listener.local_addr()?.port();
        let asked: Arc<AtomicU64> = Arc::default();
        let count = Arc::clone(&asked);
        // It ends with this program.
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let number = count.fetch_add(1, Ordering::Relaxed);
                tokio::spawn(async move {
                    let _ = stream.read(&mut [0; 1024]).await;
                    let page = page(workers, number);
                    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", page.len());
                    let _ = stream.write_all((head + &page).as_bytes()).await;
                });
            }
        });
        Ok(Self { port, asked })
    }

    fn asked(&self) -> u64 {
        self.asked.load(Ordering::Relaxed)
    }
}

/// A page as long as a supervisor's own, with all that the metrics API reads and as much again that it doesn't.
fn page(workers: u32, number: u64) -> String {
    const READ: [&str; 6] = [
        "workerapp_worker_requests_in_flight",
        "workerapp_worker_requests_total",
        "workerapp_worker_event_loop_utilization",
        "workerapp_worker_cpu_seconds_total",
        "workerapp_worker_queue_length",
        "workerapp_worker_connections",
    ];
    /// Series of each worker that are passed over: restarts by reason, a histogram, memory.
    const OTHER: u32 = 30;
    let workers = || 0..workers;
    let read = READ.iter().flat_map(|name| {
        let head = format!("# HELP {name} What it is, in a sentence.\n# TYPE {name} gauge\n");
        let value = number % 100;
        let samples = workers().map(move |worker| format!("{name}{{worker=\"{worker}\"}} {value}.25\n"));
        std::iter::once(head).chain(samples)
    });
    let name = "workerapp_worker_request_duration_seconds_bucket";
    let other = (0..OTHER).flat_map(|bound| {
        workers().map(move |worker| format!("{name}{{worker=\"{worker}\",le=\"{bound}\"}} {number}\n"))
    });
    read.chain(other).collect()
}

/// The metrics API, as a process of its own.
struct Adapter {
    child: Child,
    pid: u32,
}

impl Adapter {
    async fn start(fixture: &Fixture, arguments: &Arguments) -> Result<Self> {
        let host = cluster::host(&cluster::config().await?)?;
        // Both ports are free a moment later.
        let free = async |host: IpAddr| TcpListener::bind(SocketAddr::new(host, 0)).await?.local_addr();
        let (api, plain) = (free(host).await?, free(IpAddr::V4(Ipv4Addr::LOCALHOST)).await?);
        metrics_api::lead(fixture, api).await?;
        let namespace = &*fixture.namespace;
        let child = Command::new(&arguments.operator)
            .args(["metrics-api", "--namespace", namespace, "--own-namespace", namespace])
            .args(["--pod", NAME, "--service", NAME, "--deployment", NAME])
            .args(["--api-listen", &api.to_string(), "--listen", &plain.to_string()])
            .args(["--interval", &arguments.interval.to_string()])
            .env("KUBECONFIG", std::env::var_os(cluster::VARIABLE).context(cluster::VARIABLE)?)
            .stdout(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .context("the operator's program can't be started")?;
        let pid = child.id().context("it has ended")?;
        Ok(Self { child, pid })
    }

    /// Has it end by itself: without a Deployment it takes its APIServices along.
    async fn end(&mut self) -> Result<()> {
        let pid = self.pid.to_string();
        let told = Command::new("kill").args(["-TERM", &pid]).status().await?;
        ensure!(told.success(), "it could not be told to stop");
        let status = tokio::time::timeout(Duration::from_secs(30), self.child.wait()).await??;
        ensure!(status.success(), "it ended with {status}");
        Ok(())
    }
}
