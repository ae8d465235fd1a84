//! The operator as a process of its own.

use std::{
    collections::BTreeMap,
    fs::File,
    net::SocketAddr,
    process::Stdio,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};
use tokio::{
    net::TcpListener,
    process::{Child, Command},
    time::{sleep, timeout},
};
use workerapp_e2e::{
    cluster::VARIABLE,
    operator::{SUPERVISOR_IMAGE, get},
    procfs, scrape,
};

use crate::cluster::Cluster;

/// How often the operator is asked how far it is.
const LOOK: Duration = Duration::from_millis(20);
/// How long a state may last in which nothing gets done.
const PATIENCE: Duration = Duration::from_mins(2);

/// A running operator.
pub(crate) struct Operator {
    child: Child,
    address: SocketAddr,
    pub(crate) pid: u32,
    pub(crate) begun: Instant,
}

/// The operator's metrics at one moment.
pub(crate) struct Metrics(String);

impl Metrics {
    fn sum(&self, metric: &str, wanted: &[(&str, &str)]) -> f64 {
        let fits = |labels: &BTreeMap<&str, String>| {
            wanted.iter().all(|(name, value)| labels.get(name).is_some_and(|found| found == value))
        };
        scrape::samples(&self.0, metric).filter(|(labels, _)| fits(labels)).map(|(_, value)| value).sum()
    }

    /// Whether it has read the cluster and works.
    pub(crate) fn works(&self) -> bool {
        self.sum("workerapp_operator_leader", &[]) > 0.0
    }

    /// Whether nothing is waiting or being worked on.
    pub(crate) fn idle(&self) -> bool {
        self.works()
            && self.sum("workerapp_operator_queue_length", &[]) == 0.0
            && self.sum("workerapp_operator_running", &[]) == 0.0
    }

    /// Writes of this kind that the API server took.
    pub(crate) fn written(&self, kind: &str) -> f64 {
        self.sum("workerapp_operator_writes_total", &[("kind", kind), ("result", "ok")])
    }

    /// Writes by kind, whatever became of them.
    pub(crate) fn writes(&self) -> BTreeMap<String, f64> {
        let mut writes = BTreeMap::new();
        for (labels, count) in scrape::samples(&self.0, "workerapp_operator_writes_total") {
            *writes.entry(labels.get("kind").cloned().unwrap_or_default()).or_default() += count;
        }
        writes
    }
}

impl Operator {
    /// Starts one for this namespace; returns at once.
    pub(crate) async fn start(cluster: &Cluster, namespace: &str) -> Result<Self> {
        // Free now, and nobody else is in this network.
        let address = TcpListener::bind("127.0.0.1:0").await?.local_addr()?;
        let log = cluster.logs.join(format!("operator-{}.log", cluster.number()));
        let begun = Instant::now();
        let child = Command::new(&cluster.program)
            .args(["run", "--supervisor-image", SUPERVISOR_IMAGE, "--namespace", namespace])
            .args(["--listen", &address.to_string(), "--concurrency", &cluster.concurrency.to_string()])
            .env("KUBECONFIG", std::env::var_os(VARIABLE).context(VARIABLE)?)
            .stdout(Stdio::null())
            .stderr(File::create(&log).with_context(|| format!("can't write {}", log.display()))?)
            .kill_on_drop(true)
            .spawn()
            .with_context(|| format!("can't start {}", cluster.program.display()))?;
        let pid = child.id().context("the operator has ended at once")?;
        Ok(Self { child, address, pid, begun })
    }

    /// Its metrics; `None` while it doesn't answer yet.
    pub(crate) async fn try_metrics(&mut self) -> Result<Option<Metrics>> {
        if let Some(status) = self.child.try_wait()? {
            bail!("the operator has ended: {status}; its log is beside the results");
        }
        Ok(get(self.address, "/metrics").await.ok().map(|(_, text)| Metrics(text)))
    }

    pub(crate) async fn metrics(&self) -> Result<Metrics> {
        Ok(Metrics(get(self.address, "/metrics").await?.1))
    }

    /// Waits until its metrics are as wanted; says how long it has run then.
    pub(crate) async fn until(&mut self, what: &str, wanted: impl Fn(&Metrics) -> bool) -> Result<Duration> {
        let (mut moved, mut writes) = (Instant::now(), 0.0);
        loop {
            if let Some(metrics) = self.try_metrics().await? {
                if wanted(&metrics) {
                    return Ok(self.begun.elapsed());
                }
                let now = metrics.sum("workerapp_operator_writes_total", &[]);
                if now > writes {
                    (moved, writes) = (Instant::now(), now);
                }
            }
            ensure!(
                moved.elapsed() < PATIENCE,
                "the operator is not {what}, and has written nothing for {PATIENCE:?}"
            );
            sleep(LOOK).await;
        }
    }

    /// Waits until it has nothing to do for a while.
    pub(crate) async fn until_calm(&mut self) -> Result<()> {
        // Longer than it gathers what comes in of an app's children.
        let mut calm = Instant::now();
        let begun = Instant::now();
        while calm.elapsed() < Duration::from_secs(1) {
            let idle = self.try_metrics().await?.is_some_and(|metrics| metrics.idle());
            if !idle {
                calm = Instant::now();
            }
            ensure!(begun.elapsed() < PATIENCE, "the operator still works after {PATIENCE:?}");
            sleep(LOOK).await;
        }
        Ok(())
    }

    /// CPU time so far.
    pub(crate) fn cpu(&self) -> Result<Duration> {
        procfs::cpu(self.pid)
    }

    /// Tells it to stop, and waits.
    pub(crate) async fn end(mut self) -> Result<()> {
        let pid = i32::try_from(self.pid).ok().and_then(Pid::from_raw).context("no process id")?;
        kill_process(pid, Signal::TERM)?;
        let status = timeout(Duration::from_secs(15), self.child.wait())
            .await
            .context("the operator did not stop")??;
        ensure!(status.success(), "the operator ended with {status}");
        Ok(())
    }
}
