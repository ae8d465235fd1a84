//! Wires everything together: watches fill caches and the queue, a bounded number of reconciles empties it.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use kube::Client;
use tokio::{
    net::TcpListener,
    sync::{OwnedSemaphorePermit, Semaphore},
    task::JoinSet,
};
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;

use crate::{
    Config,
    apply::node_port::Holders,
    backoff::Backoff,
    cache::{Caches, Key, watch::Watch},
    context::{Context, Settings, Settled},
    error::Error,
    events::{self, Events},
    health::Health,
    http,
    inquiry::Inquiries,
    kind::Kind,
    metrics::Metrics,
    queue::Queue,
    reconcile::{Outcome, reconcile},
};

/// How long running reconciles get to end when the operator is told to stop.
const STOP_GRACE: Duration = Duration::from_secs(10);

/// Everything that the work on an app needs.
pub(crate) struct Controller {
    pub(crate) context: Arc<Context>,
    pub(crate) queue: Arc<Queue>,
    pub(crate) backoff: Backoff,
    pub(crate) health: Arc<Health>,
    resync: Duration,
}

/// Runs the operator until `stop` is cancelled, then lets running reconciles end.
///
/// # Errors
/// If the metrics can't be set up, or `listener` is no working socket.
pub async fn run(
    config: Config,
    client: Client,
    listener: Option<TcpListener>,
    stop: CancellationToken,
) -> Result<(), RunError> {
    let metrics = Arc::new(Metrics::new()?);
    let (events, queue_of_events) = Events::new();
    let publisher = tokio::spawn(events::publish(client.clone(), queue_of_events, Arc::clone(&metrics)));
    let controller = Arc::new(Controller {
        context: Arc::new(Context {
            caches: Caches::new(),
            settings: Settings {
                supervisor_image: config.supervisor_image,
                supervisor_pull_policy: config.supervisor_pull_policy,
                // In a pod that of its ServiceAccount, outside that of the kubeconfig's context.
                own_namespace: Some(client.default_namespace().to_owned()),
                namespaces: config.namespaces.clone(),
            },
            client,
            settled: Settled::default(),
            holders: Holders::default(),
            inquiries: Inquiries::default(),
            events,
            metrics,
        }),
        queue: Arc::default(),
        backoff: Backoff::default(),
        health: Arc::default(),
        resync: config.resync,
    });

    let mut background = JoinSet::new();
    if let Some(listener) = listener {
        background.spawn(http::serve(listener, Arc::clone(&controller)));
    }
    for watch in controller.watches(&config.namespaces) {
        background.spawn(watch.run());
    }

    tokio::select! {
        () = stop.cancelled() => {}
        () = controller.health.complete() => {
            tracing::info!(apps = controller.context.caches[Kind::WorkerApp].len(), "caches are complete, work begins");
            controller.work(config.concurrency, &stop).await;
        }
    }
    background.shutdown().await;
    drop(controller);
    // What was told last still gets out.
    if tokio::time::timeout(Duration::from_secs(1), publisher).await.is_err() {
        tracing::debug!("events were left out at the end");
    }
    Ok(())
}

/// The operator could not be started.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// Two metrics have the same name.
    #[error("the metrics can't be set up: {0}")]
    Metrics(#[from] prometheus::Error),
}

impl Controller {
    /// One watch for each kind, in each namespace that is looked after.
    fn watches(&self, namespaces: &[String]) -> Vec<Watch> {
        let scopes: Vec<Option<String>> = match namespaces {
            [] => vec![None],
            some => some.iter().cloned().map(Some).collect(),
        };
        let watch = |kind: Kind, namespace: &Option<String>| Watch {
            kind,
            namespace: namespace.clone(),
            context: Arc::clone(&self.context),
            queue: Arc::clone(&self.queue),
            health: Arc::clone(&self.health),
        };
        scopes.iter().flat_map(|scope| Kind::ALL.map(|kind| watch(kind, scope))).collect()
    }

    /// Takes apps from the queue until `stop`, at most `concurrency` at a time, and waits for the last ones.
    async fn work(self: &Arc<Self>, concurrency: usize, stop: &CancellationToken) {
        let slots = Arc::new(Semaphore::new(concurrency.max(1)));
        let mut running = JoinSet::new();
        loop {
            let next = async {
                let slot = Arc::clone(&slots).acquire_owned().await.ok()?;
                Some((self.queue.next().await, slot))
            };
            let (key, slot) = tokio::select! {
                () = stop.cancelled() => break,
                next = next => match next {
                    Some(next) => next,
                    None => break,
                },
            };
            while running.try_join_next().is_some() {}
            running.spawn(Arc::clone(self).look_at(key, slot));
        }
        let ended = async { while running.join_next().await.is_some() {} };
        if tokio::time::timeout(STOP_GRACE, ended).await.is_err() {
            tracing::warn!("stopped with reconciles still running");
        }
    }

    /// One look at one app, and when the next one is due.
    async fn look_at(self: Arc<Self>, key: Key, slot: OwnedSemaphorePermit) {
        let span = tracing::info_span!("reconcile", namespace = %key.namespace, name = %key.name);
        let context = Arc::clone(&self.context);
        let begin = Instant::now();
        let outcome = {
            let key = key.clone();
            // In a task of its own, so that a panic in it is this app's failure and no other's.
            let look = async move { reconcile(&context, &key).await };
            tokio::spawn(look.instrument(span.clone())).await
        };
        let metrics = &self.context.metrics;
        let label = match outcome {
            Ok(Outcome::Settled(again)) => {
                self.backoff.reset(&key);
                let resync = self.resync.mul_f64(1.0 + fastrand::f64() / 10.0);
                self.queue.add_after(&key, again.map_or(resync, |again| again.min(resync)));
                "settled"
            }
            Ok(Outcome::Gone) => {
                self.backoff.reset(&key);
                self.context.settled.forget(&key);
                self.context.inquiries.forget(&key);
                "gone"
            }
            Ok(Outcome::Failed(errors)) => {
                for error in &errors {
                    metrics.error(error.reason().as_str());
                }
                let longest = errors.iter().filter_map(Error::longest_wait).min();
                self.queue.add_after(&key, self.backoff.next(&key, longest));
                "failed"
            }
            Err(panic) => {
                tracing::error!(parent: &span, "a reconcile broke off, which is a bug: {panic}");
                self.queue.add_after(&key, self.backoff.next(&key, None));
                "panicked"
            }
        };
        metrics.reconcile(label, begin.elapsed());
        self.queue.done(&key);
        drop(slot);
    }
}
