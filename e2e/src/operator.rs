//! The operator, inside the test's process, looking after the test's namespaces only.

use std::{net::SocketAddr, time::Duration};

use anyhow::{Context as _, Result};
use kube::client::ClientBuilder;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    task::JoinHandle,
};
use tokio_util::sync::CancellationToken;
use workerapp_operator::RunError;

use crate::{cluster, faults::Faults, fixture::PATIENCE, recorder::Recorder, scrape};

/// The image that the pods would get their supervisor from.
pub const SUPERVISOR_IMAGE: &str = "localhost/workerapp:test";

/// A running operator.
#[derive(Debug)]
pub struct Operator {
    /// What it writes.
    pub recorder: Recorder,
    /// What goes wrong between it and the API server.
    pub faults: Faults,
    /// Where its probes and metrics are.
    pub address: SocketAddr,
    stop: CancellationToken,
    task: JoinHandle<Result<(), RunError>>,
}

/// How an operator is started.
#[derive(Clone, Debug)]
pub struct Options {
    /// See `workerapp_operator::Config`.
    pub namespaces: Vec<String>,
    /// See `workerapp_operator::Config`.
    pub resync: Duration,
    /// See `workerapp_operator::Config`.
    pub concurrency: usize,
    /// Acts as this user, with the user's rights only.
    pub impersonate: Option<String>,
    /// What goes wrong from the start; nothing, unless it is armed.
    pub faults: Faults,
}

impl Operator {
    /// Starts one that has seen everything by the time it is returned.
    ///
    /// # Errors
    /// If it isn't ready after [`PATIENCE`].
    pub async fn start(options: Options) -> Result<Self> {
        let operator = Self::launch(options).await?;
        let ready = async {
            while operator.get("/readyz").await?.0 != 200 {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            anyhow::Ok(())
        };
        tokio::time::timeout(PATIENCE, ready)
            .await
            .with_context(|| format!("not ready in {PATIENCE:?}"))??;
        Ok(operator)
    }

    /// Starts one and does not wait.
    ///
    /// # Errors
    /// If the cluster is unknown or there is no port.
    pub async fn launch(options: Options) -> Result<Self> {
        let mut config = cluster::config().await?;
        config.auth_info.impersonate = options.impersonate;
        // As the program does it: what it sends is what is counted.
        config.default_retry = false;
        let recorder = Recorder::default();
        let faults = options.faults;
        // The recorder outermost: what the operator tries is what counts, whatever becomes of it.
        let client =
            ClientBuilder::try_from(config)?.with_layer(&faults).with_layer(&recorder.layer()).build();
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let stop = CancellationToken::new();
        let config = workerapp_operator::Config {
            namespaces: options.namespaces,
            supervisor_image: SUPERVISOR_IMAGE.into(),
            supervisor_pull_policy: None,
            concurrency: options.concurrency,
            resync: options.resync,
        };
        let task = tokio::spawn(workerapp_operator::run(config, client, Some(listener), stop.clone()));
        Ok(Self { recorder, faults, address, stop, task })
    }

    /// Tells it to stop and waits for its end.
    ///
    /// # Errors
    /// If it doesn't end.
    pub async fn stop(self) -> Result<()> {
        self.stop.cancel();
        tokio::time::timeout(PATIENCE, self.task)
            .await
            .with_context(|| format!("the operator did not stop in {PATIENCE:?}"))???;
        Ok(())
    }

    /// Whether no app is being looked at, nor waits for a look that is due.
    ///
    /// # Errors
    /// If it doesn't answer.
    pub async fn is_idle(&self) -> Result<bool> {
        let (_, metrics) = self.get("/metrics").await?;
        let none = |metric: &str| scrape::total(&metrics, metric) < 0.5;
        Ok(none("workerapp_operator_running") && none("workerapp_operator_queue_length"))
    }

    /// Ends it as a crash does: nothing that it has begun goes on.
    pub fn abort(self) {
        // A look at an app runs in a task of its own, which outlives this one.
        self.faults.kill();
        self.task.abort();
    }

    /// `GET path` from its own endpoint: the status and the body.
    ///
    /// # Errors
    /// If there is no answer.
    pub async fn get(&self, path: &str) -> Result<(u16, String)> {
        get(self.address, path).await
    }
}

/// `GET path` by HTTP/1.0, which needs no more than this.
///
/// # Errors
/// If there is no answer.
pub async fn get(address: SocketAddr, path: &str) -> Result<(u16, String)> {
    let mut stream = TcpStream::connect(address).await?;
    stream.write_all(format!("GET {path} HTTP/1.0\r\n\r\n").as_bytes()).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    let (head, body) = answer.split_once("\r\n\r\n").context("no HTTP answer")?;
    let status = head.split(' ').nth(1).context("no status")?.parse()?;
    Ok((status, body.to_owned()))
}
