//! Wires everything together, and stops it in order.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant, SystemTime},
};

use kube::Client;
use tokio::{net::TcpListener, sync::watch, task::JoinSet};
use tokio_util::sync::CancellationToken;

use crate::{
    Config,
    authorize::Authorizer,
    front_proxy::{self, FrontProxy},
    identity::{self, Identity, ROTATE},
    metrics::Metrics,
    notify, pods, probes,
    registration::{Registrar, State},
    scrape, server,
    store::{Moment, Store},
};

/// How often the APIServices are looked at: somebody may take them, and other replicas come and go.
const LOOK: Duration = Duration::from_secs(10);
/// The same while something is amiss.
const LOOK_AGAIN: Duration = Duration::from_secs(2);
/// How long a new CA stands in the APIServices before its certificate is shown: until every API server has read it.
const PUBLISHED: Duration = Duration::from_mins(1);

/// Why the metrics API could not be started.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// Two metrics have the same name.
    #[error("the metrics can't be set up: {0}")]
    Metrics(#[from] prometheus::Error),
    /// No certificate.
    #[error(transparent)]
    Identity(#[from] identity::Failure),
}

/// What all parts share.
pub(crate) struct Shared {
    store: Mutex<Store>,
    start: Instant,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) front_proxy: watch::Receiver<Option<Arc<FrontProxy>>>,
    listed: watch::Receiver<usize>,
    watches: usize,
    rounds: watch::Receiver<usize>,
    registration: watch::Receiver<State>,
    stop: CancellationToken,
}

impl Shared {
    pub(crate) fn store(&self) -> MutexGuard<'_, Store> {
        // Each change of the store is whole by itself, so that a panic elsewhere leaves nothing half-done.
        self.store.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn now(&self) -> Moment {
        self.start.elapsed()
    }

    /// What is still missing; empty when answers are complete.
    pub(crate) fn missing(&self) -> Vec<String> {
        let mut missing = Vec::new();
        let mut needs = |there: bool, text: &str| {
            if !there {
                missing.push(text.to_owned());
            }
        };
        needs(!self.stop.is_cancelled(), "stopping");
        needs(
            self.front_proxy.borrow().is_some(),
            "ConfigMap kube-system/extension-apiserver-authentication has not been read",
        );
        needs(*self.listed.borrow() == self.watches, "the first list of pods is under way");
        needs(*self.rounds.borrow() > 0, "the pods are being asked for the first time");
        match &*self.registration.borrow() {
            State::Registered => {}
            State::Pending => missing.push("the APIServices are not written yet".into()),
            State::Foreign(text) | State::Failed(text) => missing.push(text.clone()),
        }
        missing
    }
}

/// Runs the metrics API until `stop` is cancelled. `api` is where it answers the API server, `plain` where it answers probes.
///
/// # Errors
/// If it can't be set up; what happens later is told in the log and by `/readyz`.
pub async fn run(
    config: Config,
    client: Client,
    api: TcpListener,
    plain: TcpListener,
    stop: CancellationToken,
) -> Result<(), Failure> {
    let Config { namespaces, interval, place, lame_duck } = config;
    let host = format!("{}.{}.svc", place.service, place.namespace);
    let first = Identity::make(&place.pod, &host, SystemTime::now())?;

    let (front_proxy_into, front_proxy) = watch::channel(None);
    let (listed_into, listed) = watch::channel(0);
    let (rounds_into, rounds) = watch::channel(0);
    let (registration_into, registration) = watch::channel(State::Pending);
    let (identity_into, identity) = watch::channel(first);
    let scopes: Vec<Option<String>> =
        if namespaces.is_empty() { vec![None] } else { namespaces.into_iter().map(Some).collect() };
    let metrics = Arc::new(Metrics::new()?);
    let shared = Arc::new(Shared {
        store: Mutex::default(),
        start: Instant::now(),
        metrics: Arc::clone(&metrics),
        front_proxy,
        listed: listed.clone(),
        watches: scopes.len(),
        rounds,
        registration,
        stop: stop.clone(),
    });

    let mut background = JoinSet::new();
    let watches = scopes.len();
    for scope in scopes {
        background.spawn(pods::follow(client.clone(), scope, Arc::clone(&shared), listed_into.clone()));
    }
    background.spawn(front_proxy::follow(client.clone(), front_proxy_into));
    background.spawn(probes::serve(plain, Arc::clone(&shared)));
    background.spawn({
        let (shared, mut listed) = (Arc::clone(&shared), listed);
        async move {
            if listed.wait_for(|count| *count == watches).await.is_ok() {
                scrape::run(interval, shared, rounds_into).await;
            }
        }
    });
    let registrar = Arc::new(Registrar { client: client.clone(), place });
    let registering = tokio::spawn({
        let (registrar, metrics) = (Arc::clone(&registrar), Arc::clone(&metrics));
        async move { register(&registrar, &host, &metrics, &identity_into, &registration_into).await }
    });
    let ended = CancellationToken::new();
    let server = tokio::spawn(server::serve(
        api,
        Arc::clone(&shared),
        Arc::new(Authorizer::new(client, metrics)),
        identity,
        ended.clone(),
    ));

    stop.cancelled().await;
    // What is removed below must not be made anew. That it was aborted is no error.
    registering.abort();
    drop(registering.await);
    // While the API server still sends requests here they are answered.
    tokio::join!(registrar.leave(), tokio::time::sleep(lame_duck));
    ended.cancel();
    if server.await.is_err() {
        tracing::error!("the server broke off, which is a bug");
    }
    background.shutdown().await;
    Ok(())
}

/// Keeps the APIServices and the certificate, for ever. A new CA is published first, and used when every API server knows it.
async fn register(
    registrar: &Registrar,
    host: &str,
    metrics: &Metrics,
    identity: &watch::Sender<Identity>,
    registration: &watch::Sender<State>,
) {
    let mut used_since = Instant::now();
    let mut next: Option<(Identity, Option<Instant>)> = None;
    loop {
        if next.is_none() && used_since.elapsed() >= ROTATE {
            match Identity::make(&registrar.place.pod, host, SystemTime::now()) {
                Ok(made) => next = Some((made, None)),
                Err(error) => tracing::warn!("the certificate can't be renewed: {error}"),
            }
        }
        let mut own = vec![identity.borrow().authority.clone()];
        own.extend(next.iter().map(|(next, _)| next.authority.clone()));
        let state = registrar.look(&own).await;
        if state == State::Registered {
            match next.take() {
                Some((made, Some(since))) if since.elapsed() >= PUBLISHED => {
                    identity.send_replace(made);
                    used_since = Instant::now();
                    tracing::info!("a new certificate is in use");
                }
                Some((made, since)) => next = Some((made, Some(since.unwrap_or_else(Instant::now)))),
                None => {}
            }
        }
        metrics.registered(state == State::Registered);
        let wait = if state == State::Registered { LOOK } else { LOOK_AGAIN };
        // Somebody else wrote at the same time, which says nothing new.
        let passing = state == State::Pending;
        if !passing
            && registration.send_if_modified(|former| std::mem::replace(former, state.clone()) != state)
        {
            tell(registrar, &state).await;
        }
        tokio::time::sleep(wait.mul_f64(1.0 + fastrand::f64() / 4.0)).await;
    }
}

async fn tell(registrar: &Registrar, state: &State) {
    match state {
        State::Pending => {}
        State::Registered => tracing::info!("the APIServices of {} lead here", crate::GROUP),
        State::Foreign(text) => {
            tracing::warn!("{text}");
            notify::deployment(&registrar.client, &registrar.place, "ForeignAPIService", text).await;
        }
        State::Failed(text) => {
            tracing::warn!("{text}");
            notify::deployment(&registrar.client, &registrar.place, "RegistrationFailed", text).await;
        }
    }
}
