//! Wires everything together: watches fill caches and the queue, and while this operator leads a bounded number of reconciles
//! empties it.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use kube::Client;
use tokio::{
    net::TcpListener,
    sync::{OwnedSemaphorePermit, Semaphore, watch},
    task::JoinSet,
};
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;

use crate::{
    Config,
    apply::node_port::Holders,
    backoff::Backoff,
    burst::{self, Bursts},
    cache::{Caches, Key, watch::Watch},
    context::{Context, Settings, Settled},
    definition,
    error::Error,
    events::{self, Events},
    health::{Health, Sight, View},
    http,
    inquiry::Inquiries,
    kind::Kind,
    leader::{Candidate, Elector, Fence, Leadership, edge::guarded},
    metrics::Metrics,
    namespaces,
    nodes::{self, Nodes},
    outage::Outage,
    queue::{Lane, Queue},
    reconcile::{Outcome, carry_out_early, reconcile},
    requests::counted,
    served::{self, ServedMetrics},
};

/// How long running reconciles get to end when the operator is told to stop.
const STOP_GRACE: Duration = Duration::from_secs(10);
/// How long the lease may take to be given up at the end.
const RELEASE_GRACE: Duration = Duration::from_secs(3);
/// How often an operator that waits for its turn forgets apps that are gone.
const TIDY: Duration = Duration::from_mins(1);
/// How long an app waits whose namespace isn't seen in full.
const UNSEEN_WAIT: Duration = Duration::from_secs(5);

/// Everything that the work on an app needs.
pub(crate) struct Controller {
    pub(crate) context: Arc<Context>,
    pub(crate) queue: Arc<Queue>,
    pub(crate) backoff: Backoff,
    pub(crate) health: Arc<Health>,
    resync: Duration,
    /// Cancelled once the caches were complete; before that only edits are taken from the queue.
    complete: CancellationToken,
}

/// Runs the operator until `stop` is cancelled, then lets running reconciles end. It is the only one, and works at once.
///
/// # Errors
/// If the metrics can't be set up.
pub async fn run(
    config: Config,
    client: Client,
    listener: Option<TcpListener>,
    stop: CancellationToken,
) -> Result<(), RunError> {
    let (_for_ever, leadership) = watch::channel(true);
    operate(config, client, Part { fence: Fence::open(), leadership, instance: None }, listener, stop).await
}

/// Runs the operator as one of several, of which the holder of a lease works; gives the lease up at the end.
///
/// # Errors
/// If the metrics can't be set up.
pub async fn run_elected(
    config: Config,
    client: Client,
    candidate: Candidate,
    listener: Option<TcpListener>,
    stop: CancellationToken,
) -> Result<(), RunError> {
    let (elector, leadership) = Elector::new(&candidate);
    let part = Part { fence: candidate.fence, leadership, instance: Some(candidate.settings.identity) };
    let over = CancellationToken::new();
    let election = tokio::spawn(elector.run(over.clone()));
    let result = operate(config, client, part, listener, stop).await;
    over.cancel();
    if tokio::time::timeout(RELEASE_GRACE, election).await.is_err() {
        tracing::warn!("the lease could not be given up in time, and runs out by itself");
    }
    result
}

/// The part of one operator among all of them.
struct Part {
    fence: Fence,
    leadership: Leadership,
    /// Its name in events.
    instance: Option<String>,
}

async fn operate(
    config: Config,
    client: Client,
    part: Part,
    listener: Option<TcpListener>,
    stop: CancellationToken,
) -> Result<(), RunError> {
    let metrics = Arc::new(Metrics::new()?);
    let outage = Arc::new(Outage::default());
    let Part { fence, leadership, instance } = part;
    let client = guarded(counted(client, Arc::clone(&metrics)), fence.clone(), Arc::clone(&outage));
    let (events, queue_of_events) = Events::new();
    let publisher = tokio::spawn(events::publish(client.clone(), queue_of_events, instance));
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
            served: ServedMetrics::default(),
            bursts: Bursts::default(),
            nodes: Nodes::default(),
            events,
            metrics,
            outage,
            fence,
        }),
        queue: Arc::default(),
        backoff: Backoff::default(),
        health: Arc::default(),
        resync: config.resync,
        complete: CancellationToken::new(),
    });

    let mut background = JoinSet::new();
    if let Some(listener) = listener {
        background.spawn(http::serve(listener, Arc::clone(&controller)));
    }
    for watch in controller.watches(&config.namespaces) {
        background.spawn(watch.run());
    }
    for namespace in config.namespaces {
        let (client, health) = (controller.context.client.clone(), Arc::clone(&controller.health));
        background.spawn(namespaces::look_after(client, namespace, health));
    }
    background.spawn(definition::compare(controller.context.client.clone(), Arc::clone(&controller.health)));

    let ready = async {
        tokio::join!(controller.health.edits(), served::first(&controller), nodes::first(&controller))
    };
    tokio::select! {
        () = stop.cancelled() => {}
        _ = ready => {
            background.spawn(served::follow(Arc::clone(&controller)));
            background.spawn(nodes::follow(Arc::clone(&controller)));
            background.spawn(burst::follow(Arc::clone(&controller)));
            controller.queue.only(Lane::Edit);
            background.spawn(Arc::clone(&controller).open());
            controller.lead(config.concurrency, leadership, &stop).await;
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
        let watch = |kind: Kind, namespace: &Option<String>| {
            // All of them before the first one runs: one that isn't known of would not be waited for.
            self.health.set(kind, namespace.as_deref(), Sight::Listing);
            Watch {
                kind,
                namespace: namespace.clone(),
                context: Arc::clone(&self.context),
                queue: Arc::clone(&self.queue),
                health: Arc::clone(&self.health),
            }
        };
        scopes.iter().flat_map(|scope| Kind::ALL.map(|kind| watch(kind, scope))).collect()
    }

    /// Lets all apps be looked at, and not only edits be carried out, once the caches are complete.
    async fn open(self: Arc<Self>) {
        self.health.complete().await;
        let apps = self.context.caches[Kind::WorkerApp].len();
        tracing::info!(apps, "caches are complete");
        self.queue.only(Lane::Background);
        self.complete.cancel();
    }

    /// Has every app looked at: something has changed that concerns all of them.
    pub(crate) fn look_at_all(&self) {
        for app in self.context.caches[Kind::WorkerApp].keys(None) {
            self.queue.add(&app, Lane::Background);
        }
    }

    /// Works whenever this operator leads, until `stop`. Meanwhile the queue holds what is to be looked at then: each app once.
    async fn lead(
        self: &Arc<Self>,
        concurrency: usize,
        mut leadership: Leadership,
        stop: &CancellationToken,
    ) {
        loop {
            let turn = async {
                loop {
                    match tokio::time::timeout(TIDY, leadership.wait_for(|leads| *leads)).await {
                        Ok(leads) => return leads.is_ok(),
                        Err(_) => self.tidy(),
                    }
                }
            };
            let leads = tokio::select! {
                () = stop.cancelled() => false,
                leads = turn => leads,
            };
            if !leads {
                return;
            }
            // Who still reads the cluster doesn't count as one that leads, though edits are carried out.
            let tell = async {
                self.complete.cancelled().await;
                self.context.metrics.leader(true);
                std::future::pending::<()>().await;
            };
            let mut lost = leadership.clone();
            let over = async {
                tokio::select! {
                    () = stop.cancelled() => {}
                    _ = lost.wait_for(|leads| !leads) => {}
                }
            };
            tokio::select! {
                () = self.work(concurrency, over, stop) => {}
                () = tell => {}
            }
            self.context.metrics.leader(false);
        }
    }

    /// Takes apps from the queue until `over`, at most `concurrency` at a time, and waits for the last ones: not for long after
    /// `stop`.
    async fn work(
        self: &Arc<Self>,
        concurrency: usize,
        over: impl Future<Output = ()>,
        stop: &CancellationToken,
    ) {
        let mut over = std::pin::pin!(over);
        let slots = Arc::new(Semaphore::new(concurrency.max(1)));
        let mut running = JoinSet::new();
        loop {
            let next = async {
                let slot = Arc::clone(&slots).acquire_owned().await.ok()?;
                Some((self.queue.next().await, slot))
            };
            let (turn, slot) = tokio::select! {
                () = &mut over => break,
                next = next => match next {
                    Some(next) => next,
                    None => break,
                },
            };
            while running.try_join_next().is_some() {}
            self.context.metrics.waited(turn.lane, turn.waited);
            running.spawn(Arc::clone(self).look_at(turn.key, slot));
        }
        let patience = async {
            stop.cancelled().await;
            tokio::time::sleep(STOP_GRACE).await;
        };
        tokio::select! {
            () = async { while running.join_next().await.is_some() {} } => {}
            () = patience => tracing::warn!("stopped with reconciles still running"),
        }
    }

    /// Forgets apps that were deleted while another operator led: nobody else does.
    fn tidy(&self) {
        let apps = &self.context.caches[Kind::WorkerApp];
        for key in self.queue.prune(|key| apps.get(key).is_some()) {
            self.forget(&key);
        }
    }

    fn forget(&self, key: &Key) {
        self.backoff.reset(key);
        self.context.settled.forget(key);
        self.context.inquiries.forget(key);
        self.context.bursts.forget(key);
        self.context.metrics.forget(key);
    }

    /// One look at one app, and when the next one is due.
    async fn look_at(self: Arc<Self>, key: Key, slot: OwnedSemaphorePermit) {
        let early = !self.complete.is_cancelled();
        let view = self.health.view(&key.namespace);
        if view == View::Nothing {
            if early {
                self.queue.add(&key, Lane::New);
            } else {
                self.queue.add_after(&key, UNSEEN_WAIT);
            }
            self.queue.done(&key);
            return;
        }
        let span = tracing::info_span!("reconcile", namespace = %key.namespace, name = %key.name);
        let context = Arc::clone(&self.context);
        let begin = Instant::now();
        let outcome = {
            let key = key.clone();
            // In a task of its own, so that a panic in it is this app's failure and no other's.
            let look = async move {
                match view {
                    View::Edits(listing) => carry_out_early(&context, &key, &listing).await,
                    _ => reconcile(&context, &key).await,
                }
            };
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
                self.forget(&key);
                "gone"
            }
            Ok(Outcome::Early) => {
                // With those that nobody has looked at yet, as soon as that may be.
                self.queue.add(&key, Lane::New);
                "early"
            }
            // It failed since another one leads: it has to be right as soon as this one leads again.
            Ok(Outcome::Failed(..)) if !self.context.fence.is_open() => {
                self.queue.add(&key, Lane::Background);
                "failed"
            }
            Ok(Outcome::Failed(errors, due)) => {
                for error in &errors {
                    metrics.error(error.reason());
                }
                let longest = errors.iter().filter_map(Error::longest_wait).min();
                let shortest = errors.iter().filter_map(Error::shortest_wait).max().unwrap_or_default();
                let wait = self.backoff.next(&key, longest).max(shortest);
                self.queue.add_after(&key, due.map_or(wait, |due| due.min(wait)));
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
