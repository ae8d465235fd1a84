//! The operator as a program of its own: what it takes to stop it in the middle, kill it, and run two.

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    process::{ExitStatus, Stdio},
    time::Duration,
};

use anyhow::{Context as _, Result, bail, ensure};
use tokio::{
    process::{Child, Command},
    sync::OnceCell,
};

use crate::{
    cluster,
    fixture::PATIENCE,
    operator::{SUPERVISOR_IMAGE, get},
};

/// A running program.
#[derive(Debug)]
pub struct Program {
    child: Child,
    /// Where its probes and metrics are.
    pub address: SocketAddr,
    log: PathBuf,
}

/// Where the program is; built if it isn't.
///
/// # Errors
/// If it can't be built.
pub async fn path() -> Result<&'static Path> {
    static BUILT: OnceCell<PathBuf> = OnceCell::const_new();
    let build = async {
        let built = Command::new(env!("CARGO"))
            .args(["build", "--quiet", "--package", "workerapp-operator", "--bin", "workerapp-operator"])
            .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
            .status()
            .await?;
        ensure!(built.success(), "the operator can't be built");
        // …/target/debug/deps/this-test → …/target/debug/workerapp-operator
        let test = std::env::current_exe()?;
        let directory = test.parent().and_then(|deps| deps.parent()).context("no target directory")?;
        Ok(directory.join("workerapp-operator"))
    };
    Ok(BUILT.get_or_try_init(|| build).await?)
}

impl Program {
    /// Starts one for `namespace`, as the cluster's administrator.
    ///
    /// # Errors
    /// If it can't be started.
    pub async fn start(namespace: &str, arguments: &[&str]) -> Result<Self> {
        let kubeconfig = std::env::var_os(cluster::VARIABLE).context(cluster::VARIABLE)?;
        Self::start_as(Path::new(&kubeconfig), &[&["--namespace", namespace], arguments].concat()).await
    }

    /// Starts one that reaches the cluster by `kubeconfig`.
    ///
    /// # Errors
    /// If it can't be started.
    pub async fn start_as(kubeconfig: &Path, arguments: &[&str]) -> Result<Self> {
        let port = tokio::net::TcpListener::bind("127.0.0.1:0").await?.local_addr()?.port();
        let log = std::env::temp_dir().join(format!("workerapp-operator-{}-{port}.log", std::process::id()));
        let child = Command::new(path().await?)
            .args(["run", "--supervisor-image", SUPERVISOR_IMAGE, "--listen", &format!("[::]:{port}")])
            .args(arguments)
            .env("KUBECONFIG", kubeconfig)
            .stderr(Stdio::from(std::fs::File::create(&log)?))
            .kill_on_drop(true)
            .spawn()?;
        Ok(Self { child, address: SocketAddr::from(([127, 0, 0, 1], port)), log })
    }

    /// Waits until it is ready.
    ///
    /// # Errors
    /// After [`PATIENCE`], with its log.
    pub async fn ready(&self) -> Result<()> {
        self.until("ready", PATIENCE, async || matches!(get(self.address, "/readyz").await, Ok((200, _))))
            .await
    }

    /// Waits until its metric `leader` has this value.
    ///
    /// # Errors
    /// After `patience`, with its log.
    pub async fn leads(&self, leads: bool, patience: Duration) -> Result<()> {
        let what = if leads { "leading" } else { "standing by" };
        self.until(what, patience, async || self.is_leader().await == Some(leads)).await
    }

    /// Whether it leads; `None` if it doesn't answer.
    pub async fn is_leader(&self) -> Option<bool> {
        let (_, metrics) = get(self.address, "/metrics").await.ok()?;
        let line = metrics.lines().find(|line| line.starts_with("workerapp_operator_leader "))?;
        Some(line.ends_with(" 1"))
    }

    async fn until(&self, what: &str, patience: Duration, wanted: impl AsyncFn() -> bool) -> Result<()> {
        let there = async {
            while !wanted().await {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        if tokio::time::timeout(patience, there).await.is_err() {
            bail!("not {what} in {patience:?}: {}", self.log());
        }
        Ok(())
    }

    /// What it has logged.
    pub fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Sends a signal.
    ///
    /// # Errors
    /// If it has ended.
    pub async fn signal(&self, signal: &str) -> Result<()> {
        let pid = self.child.id().context("it has ended")?.to_string();
        let sent = Command::new("kill").args(["-s", signal, &pid]).status().await?;
        ensure!(sent.success(), "kill -s {signal} {pid}: {sent}");
        Ok(())
    }

    /// Sends a signal that ends it; returns the exit status and the log.
    ///
    /// # Errors
    /// If it doesn't end.
    pub async fn end(mut self, signal: &str) -> Result<(ExitStatus, String)> {
        self.signal(signal).await?;
        let status = tokio::time::timeout(PATIENCE, self.child.wait()).await;
        Ok((status.with_context(|| format!("no end after {signal}: {}", self.log()))??, self.log()))
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        _ = std::fs::remove_file(&self.log);
    }
}
