//! Requests to apps, each through a connection of its own: which worker gets it is settled when it is opened.

use std::{
    fmt,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::operator;

/// A request that takes longer has failed.
const PATIENCE: Duration = Duration::from_secs(15);

/// `GET path` through a new connection: the body of a complete answer with the status 200.
///
/// # Errors
/// If there is no such answer.
pub async fn get(endpoint: SocketAddr, path: &str) -> Result<String> {
    let answer = tokio::time::timeout(PATIENCE, operator::get(endpoint, path));
    let (status, body) = answer.await.with_context(|| format!("no answer in {PATIENCE:?}"))??;
    ensure!(status == 200, "status {status}: {body}");
    Ok(body)
}

/// The same, where the body is JSON, which shows that it is complete.
///
/// # Errors
/// If there is no such answer.
pub async fn get_json(endpoint: SocketAddr, path: &str) -> Result<Value> {
    let body = get(endpoint, path).await.with_context(|| format!("http://{endpoint}{path}"))?;
    serde_json::from_str(&body).with_context(|| format!("http://{endpoint}{path} answered {body:?}"))
}

/// Clients that send one request after the other until they are told to stop.
#[derive(Debug)]
pub struct Load {
    stop: CancellationToken,
    answered: Arc<AtomicUsize>,
    clients: JoinSet<Vec<Failure>>,
}

/// What came of the load.
#[derive(Debug)]
pub struct Outcome {
    /// Requests that were answered completely.
    pub answered: usize,
    /// Those that were not.
    pub failed: Vec<Failure>,
}

/// A request that was not answered as it should.
#[derive(Debug)]
pub struct Failure {
    after: Duration,
    endpoint: SocketAddr,
    error: anyhow::Error,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "after {:.2?} at {}: {:#}", self.after, self.endpoint, self.error)
    }
}

impl Load {
    /// Starts `clients` that pause between their requests, and take the endpoints in turns.
    pub fn start(endpoints: &[SocketAddr], path: &str, clients: usize, pause: Duration) -> Self {
        let mut load =
            Self { stop: CancellationToken::new(), answered: Arc::default(), clients: JoinSet::new() };
        let started = Instant::now();
        for client in 0..clients {
            let endpoints: Vec<_> =
                endpoints.iter().copied().cycle().skip(client).take(endpoints.len()).collect();
            let (path, stop, answered) = (path.to_owned(), load.stop.clone(), Arc::clone(&load.answered));
            load.clients.spawn(async move {
                let mut failures = Vec::new();
                for endpoint in endpoints.iter().copied().cycle() {
                    if stop.is_cancelled() {
                        break;
                    }
                    match get_json(endpoint, &path).await {
                        Ok(_) => _ = answered.fetch_add(1, Ordering::Relaxed),
                        Err(error) => failures.push(Failure { after: started.elapsed(), endpoint, error }),
                    }
                    tokio::time::sleep(pause).await;
                }
                failures
            });
        }
        load
    }

    /// How many requests have been answered by now.
    pub fn answered(&self) -> usize {
        self.answered.load(Ordering::Relaxed)
    }

    /// Waits until another `more` requests have been answered, so that what comes next meets load.
    ///
    /// # Errors
    /// If they are not within half a minute.
    pub async fn until_answered(&self, more: usize) -> Result<()> {
        let target = self.answered() + more;
        let enough = async {
            while self.answered() < target {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(2 * PATIENCE, enough).await.with_context(|| format!("no {more} answers"))
    }

    /// Lets the requests end that are under way.
    ///
    /// # Errors
    /// If a client broke down.
    pub async fn stop(mut self) -> Result<Outcome> {
        self.stop.cancel();
        let mut failed = Vec::new();
        while let Some(failures) = self.clients.join_next().await {
            failed.extend(failures?);
        }
        Ok(Outcome { answered: self.answered(), failed })
    }

    /// The same, and expects that none has failed.
    ///
    /// # Errors
    /// Names those that have.
    pub async fn stop_without_failure(self) -> Result<usize> {
        let Outcome { answered, failed } = self.stop().await?;
        let some: Vec<_> = failed.iter().take(10).map(ToString::to_string).collect();
        ensure!(
            failed.is_empty(),
            "{} of {} requests failed, such as {some:#?}",
            failed.len(),
            answered + failed.len()
        );
        Ok(answered)
    }
}
