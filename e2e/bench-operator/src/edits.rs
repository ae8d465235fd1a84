//! From an edit until the child is applied: from the moment at which the edit is sent until a watch of the Deployments has the new
//! value, both as a user would see it.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use futures::{StreamExt as _, TryStreamExt as _};
use k8s_openapi::api::apps::v1::Deployment;
use kube::{
    Api, ResourceExt as _,
    api::{ListParams, WatchEvent, WatchParams},
};
use serde::Serialize;
use tokio::{
    task::{JoinHandle, JoinSet},
    time::sleep,
};

use crate::{
    arguments::Effort,
    cluster::{Cluster, added, edit, name},
    operator::{Metrics, Operator},
    progress,
    settle::count,
};

/// From one edit to the next.
const PACE: Duration = Duration::from_millis(50);
/// How long the last edits may take.
const PATIENCE: Duration = Duration::from_mins(3);

#[derive(Debug, Clone, Serialize)]
pub(crate) struct Edits {
    pub(crate) what: String,
    pub(crate) apps: usize,
    pub(crate) made: usize,
    pub(crate) p50_ms: f64,
    pub(crate) p99_ms: f64,
    pub(crate) longest_ms: f64,
    /// Writes for each edit, by kind; where nothing else was written meanwhile.
    pub(crate) writes: Option<BTreeMap<String, f64>>,
}

/// Edits of apps that are settled.
pub(crate) async fn settled(
    cluster: &Cluster,
    namespace: &str,
    operator: &Operator,
    effort: &Effort,
) -> Result<Edits> {
    progress(&format!("{} edits of settled apps", effort.edits))?;
    let before = operator.metrics().await?.writes();
    let watch = Watch::start(cluster, namespace).await?;
    // In the order of their names: no app is edited again before it has been served.
    for number in 0..effort.edits {
        watch.edit(cluster, number % effort.calm_apps);
        sleep(PACE).await;
    }
    let latencies = watch.all().await?;
    // The status follows the child.
    sleep(Duration::from_secs(1)).await;
    let edits = count(latencies.len());
    let writes = added(&before, &operator.metrics().await?.writes());
    let writes = writes.into_iter().map(|(kind, n)| (kind, n / edits)).collect();
    let mut edits = Edits::new("settled", effort.calm_apps, latencies)?;
    edits.writes = Some(writes);
    Ok(edits)
}

/// Edits in the first seconds of a start: one with apps that have nothing yet, edited from the moment at which the operator works; and
/// one with apps that all stand, edited from the start of its process.
pub(crate) async fn starts(cluster: &Cluster, effort: &Effort) -> Result<(Edits, Edits)> {
    let apps = effort.start_apps;
    progress(&format!("edits while {apps} apps are brought up"))?;
    let namespace = cluster.namespace_of(apps).await?;
    let watch = Watch::start(cluster, &namespace).await?;
    let mut operator = Operator::start(cluster, &namespace).await?;
    operator.until("ready", Metrics::works).await?;
    watch.edit_for(cluster, apps, effort.start_window).await;
    let backlog = !operator.metrics().await?.idle();
    let fresh = watch.all().await?;
    ensure!(backlog || apps < 1000, "the start was over before the edits: there are too few apps");
    let all = count(apps);
    operator.until("through with all apps", |metrics| metrics.written("WorkerApp") >= all).await?;
    operator.until_calm().await?;
    operator.end().await?;

    progress("edits while the operator is started anew")?;
    let watch = Watch::start(cluster, &namespace).await?;
    let mut operator = Operator::start(cluster, &namespace).await?;
    watch.edit_for(cluster, apps, effort.start_window).await;
    let restart = watch.all().await?;
    operator.until_calm().await?;
    operator.end().await?;
    Ok((
        Edits::new("first start, once it works", apps, fresh)?,
        Edits::new("restart, from its first moment", apps, restart)?,
    ))
}

impl Edits {
    fn new(what: &str, apps: usize, mut latencies: Vec<Duration>) -> Result<Self> {
        latencies.sort();
        let at = |percent: usize| -> Result<f64> {
            let rank = (latencies.len() * percent).div_ceil(100).saturating_sub(1);
            Ok(1000.0 * latencies.get(rank).context("no edits")?.as_secs_f64())
        };
        let (p50_ms, p99_ms, longest_ms) = (at(50)?, at(99)?, at(100)?);
        Ok(Self { what: what.into(), apps, made: latencies.len(), p50_ms, p99_ms, longest_ms, writes: None })
    }
}

/// Watches the Deployments for what was edited.
struct Watch {
    namespace: String,
    /// In every value, so that none is one that an app had before.
    run: usize,
    state: Arc<Mutex<State>>,
    senders: Mutex<JoinSet<Result<()>>>,
    watching: JoinHandle<Result<()>>,
}

#[derive(Default)]
struct State {
    /// The value that an app's Deployment is to get, and when that was asked for.
    open: HashMap<String, (String, Instant)>,
    latencies: Vec<Duration>,
    edits: usize,
}

impl Watch {
    async fn start(cluster: &Cluster, namespace: &str) -> Result<Self> {
        let api: Api<Deployment> = Api::namespaced(cluster.client.clone(), namespace);
        let version = api.list_metadata(&ListParams::default()).await?.metadata.resource_version;
        let version = version.context("a list without a version")?;
        let state = Arc::<Mutex<State>>::default();
        let seen = Arc::clone(&state);
        let watching = tokio::spawn(async move {
            let mut events = api.watch(&WatchParams::default().timeout(290), &version).await?.boxed();
            while let Some(event) = events.try_next().await? {
                let now = Instant::now();
                if let WatchEvent::Added(deployment) | WatchEvent::Modified(deployment) = event {
                    lock(&seen).saw(&deployment, now);
                }
            }
            anyhow::bail!("the watch ended")
        });
        Ok(Self {
            namespace: namespace.into(),
            run: cluster.number(),
            state,
            senders: Mutex::default(),
            watching,
        })
    }

    /// Sends an edit, and doesn't wait for the answer.
    fn edit(&self, cluster: &Cluster, app: usize) {
        let value = {
            let mut state = lock(&self.state);
            state.edits += 1;
            let value = format!("{}-{}", self.run, state.edits);
            state.open.insert(name(app), (value.clone(), Instant::now()));
            value
        };
        let namespace = self.namespace.clone();
        let client = cluster.client.clone();
        lock(&self.senders).spawn(async move { edit(client, &namespace, app, &value).await });
    }

    /// Edits one app after the other, those first that come last by themselves.
    async fn edit_for(&self, cluster: &Cluster, apps: usize, window: Duration) {
        let begun = Instant::now();
        let mut order: Vec<_> = (0..apps).collect();
        fastrand::Rng::with_seed(7).shuffle(&mut order);
        for app in order {
            if begun.elapsed() >= window {
                break;
            }
            self.edit(cluster, app);
            sleep(PACE).await;
        }
    }

    /// Waits until every edit was seen; how long each took.
    async fn all(self) -> Result<Vec<Duration>> {
        let senders = std::mem::take(&mut *lock(&self.senders));
        for sent in senders.join_all().await {
            sent?;
        }
        let begun = Instant::now();
        while !lock(&self.state).open.is_empty() {
            ensure!(!self.watching.is_finished(), "the watch of the Deployments ended");
            let open = lock(&self.state).open.len();
            ensure!(begun.elapsed() < PATIENCE, "{open} edits have reached no Deployment after {PATIENCE:?}");
            sleep(Duration::from_millis(20)).await;
        }
        self.watching.abort();
        Ok(std::mem::take(&mut lock(&self.state).latencies))
    }
}

impl State {
    fn saw(&mut self, deployment: &Deployment, now: Instant) {
        let app = deployment.name_any();
        let Some((wanted, sent)) = self.open.get(&app) else { return };
        let template = deployment.spec.template.spec.as_ref();
        let containers = template.iter().flat_map(|pod| &pod.containers);
        let mut values = containers.flat_map(|container| container.env.iter().flatten());
        if values.any(|variable| variable.name == "EDIT" && variable.value.as_ref() == Some(wanted)) {
            self.latencies.push(now.saturating_duration_since(*sent));
            self.open.remove(&app);
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
