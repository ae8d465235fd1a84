//! Fills a cache from the API server, and wakes the apps that an event concerns.

use std::{collections::HashSet, sync::Arc, time::Duration};

use futures::StreamExt as _;
use kube::{
    Resource as _,
    runtime::watcher::{self, Event, watcher},
};

use super::{Change, Incoming, Key, Object};
use crate::{
    context::Context,
    error::chain,
    health::{Health, Sight},
    kind::{Concern, Kind},
    queue::{Lane, Queue},
};

/// After so many seconds the server ends a watch and it is begun anew; a connection that died silently is noticed a few
/// seconds later.
const WATCH_SECONDS: u32 = 120;
/// How many objects are listed at a time: a page is held whole, with all that the cache then drops, and each costs the API server
/// some milliseconds beside what it holds.
const PAGE: u32 = 500;
/// How long changes of a child are gathered before its app is looked at. A rollout changes a Deployment several times within a
/// moment, and each look would write a status that the next one overwrites.
const GATHER: Duration = Duration::from_millis(200);
/// The first wait after a failure, which doubles up to [`LONGEST_WAIT`].
const FIRST_WAIT: Duration = Duration::from_millis(500);
const LONGEST_WAIT: Duration = Duration::from_secs(15);
/// The wait while the definition of WorkerApps is missing.
const DEFINITION_WAIT: Duration = Duration::from_secs(2);
/// The wait while an optional kind may not be read, or isn't there: nobody is in a hurry for it.
const WITHOUT_WAIT: Duration = Duration::from_secs(25);

const NO_DEFINITION: &str = "the WorkerApp definition is not installed: the Helm value crds.install=true, or `kubectl apply -f crds/workerapps.workerapp.dev.yaml` of the checkout; waiting for it";

/// One watch of one kind, in one namespace or all.
pub(crate) struct Watch {
    pub(crate) kind: Kind,
    pub(crate) namespace: Option<String>,
    pub(crate) context: Arc<Context>,
    pub(crate) queue: Arc<Queue>,
    pub(crate) health: Arc<Health>,
}

impl Watch {
    /// Watches for ever.
    pub(crate) async fn run(self) {
        let api = self.kind.api(&self.context.client, self.namespace.as_deref());
        let config = watcher::Config {
            label_selector: self.kind.selector(),
            timeout: Some(WATCH_SECONDS),
            page_size: Some(PAGE),
            ..watcher::Config::default()
        };
        self.health.turn(self.kind).await;

        let mut failures = 0;
        loop {
            let mut events = std::pin::pin!(watcher(api.clone(), config.clone()));
            let mut listed = HashSet::new();
            while let Some(event) = events.next().await {
                match event {
                    Ok(Event::Init) => listed.clear(),
                    Ok(event) => {
                        failures = 0;
                        self.take_in(event, &mut listed);
                    }
                    Err(error) => {
                        // A kind that isn't installed is no failure, and asking for it now and then no restart.
                        if !self.is_absent(&error) {
                            self.context.metrics.watch_restart(self.kind);
                        }
                        let wait = self.failed(&error, failures);
                        failures += 1;
                        tokio::time::sleep(wait.mul_f64(1.0 - fastrand::f64() / 4.0)).await;
                        if refused(&error) || expired(&error) {
                            // Begun anew with a list: that it succeeds is how it is known that it is permitted again.
                            break;
                        }
                    }
                }
            }
        }
    }

    fn take_in(&self, event: Event<Incoming>, listed: &mut HashSet<Key>) {
        let cache = &self.context.caches[self.kind];
        match event {
            Event::Init => {}
            Event::InitApply(object) => {
                // Of a child no lane is used, and a start lists thousands.
                let lane = match self.kind.concern() {
                    Concern::Itself => lane_of_listed(&object),
                    _ => Lane::Background,
                };
                let (object, change) = cache.insert(Object::new(self.kind, object));
                listed.insert(object.key.clone());
                self.wake(&object, change, lane);
            }
            Event::InitDone => {
                for object in cache.retain(self.namespace.as_deref(), listed) {
                    self.wake(&object, Change::Changed, Lane::Edit);
                }
                listed.clear();
                if self.set(Sight::Synced) {
                    tracing::debug!(kind = %self.kind, namespace = self.namespace, "cache complete");
                }
                if cache.set_readable(self.namespace.as_deref(), true) {
                    tracing::info!(kind = %self.kind, namespace = self.namespace, "can be read now");
                    self.wake_all();
                }
            }
            Event::Apply(object) => {
                let (object, change) = cache.insert(Object::new(self.kind, object));
                self.wake(&object, change, Lane::Edit);
            }
            Event::Delete(object) => {
                let object = Object::new(self.kind, object);
                if let Some(object) = cache.remove(&object.key, &object.uid) {
                    self.wake(&object, Change::Changed, Lane::Edit);
                }
            }
        }
    }

    fn wake(&self, object: &Object, change: Change, lane: Lane) {
        if change != Change::Changed {
            return;
        }
        let apps = &self.context.caches[Kind::WorkerApp];
        match self.kind.concern() {
            Concern::Itself => self.queue.add(&object.key, lane),
            _ if object.app.is_namespace() => {
                for app in apps.in_namespace(&object.key.namespace) {
                    self.queue.add(&app.key, Lane::Background);
                }
            }
            _ => {
                if apps.get(&object.app).is_some() {
                    self.queue.add_after(&object.app, GATHER);
                }
            }
        }
    }

    /// Has every app looked at that this watch may concern.
    fn wake_all(&self) {
        for app in self.context.caches[Kind::WorkerApp].keys(self.namespace.as_deref()) {
            self.queue.add(&app, Lane::Background);
        }
    }

    /// Notes a failure and says how long to wait. What goes on is logged once.
    fn failed(&self, error: &watcher::Error, failures: u32) -> Duration {
        let kind = self.kind;
        match code(error) {
            Some(404) if kind == Kind::WorkerApp => {
                if self.set(Sight::Blocked(NO_DEFINITION.into())) {
                    tracing::warn!("{NO_DEFINITION}");
                }
                return DEFINITION_WAIT;
            }
            Some(403) if kind.optional() => {
                if self.go_without() {
                    tracing::warn!(%kind, "not permitted to read this kind; going on without it: {}", chain(error));
                }
                return WITHOUT_WAIT;
            }
            _ if self.is_absent(error) => {
                if self.go_without() {
                    tracing::info!(%kind, "the cluster doesn't have this kind; going on without it");
                }
                return WITHOUT_WAIT;
            }
            Some(401 | 403) => {
                let text = self.with_hint(chain(error));
                if self.set(Sight::Blocked(text.clone())) {
                    tracing::warn!(%kind, "not permitted to read this kind: {text}");
                }
                return wait(failures);
            }
            // The list has become too old, which happens after a pause: a new one follows at once, unless that is too old as well.
            Some(410) if failures == 0 => return Duration::ZERO,
            _ => {}
        }
        let text = chain(error);
        if self.health.get(kind, self.namespace.as_deref()) != Some(Sight::Synced) {
            self.set(Sight::Blocked(text.clone()));
        }
        if failures == 0 && !self.context.cut_off() {
            tracing::warn!(%kind, "the watch broke off and is begun anew: {text}");
        } else {
            tracing::debug!(%kind, "the watch broke off or still fails: {text}");
        }
        wait(failures)
    }

    /// In a namespace that doesn't exist nobody has permissions.
    fn with_hint(&self, text: String) -> String {
        match &self.namespace {
            Some(namespace) => format!(
                "{text} (is there a namespace {namespace}, with the operator's Role and RoleBinding in it?)"
            ),
            None => text,
        }
    }

    /// Whether the cluster doesn't have this kind, which it need not.
    fn is_absent(&self, error: &watcher::Error) -> bool {
        self.kind.may_be_absent() && code(error) == Some(404)
    }

    /// Says whether that is new.
    fn go_without(&self) -> bool {
        let namespace = self.namespace.as_deref();
        let cache = &self.context.caches[self.kind];
        if cache.set_readable(namespace, false) {
            cache.retain(namespace, &HashSet::new());
            self.wake_all();
        }
        self.set(Sight::Without)
    }

    fn set(&self, sight: Sight) -> bool {
        self.health.set(self.kind, self.namespace.as_deref(), sight)
    }
}

/// How urgent an app is that a list brings. Most have been looked at already; but an edit that was made while nobody watched, or since
/// the start and before the list, comes in no other way, and its author waits.
fn lane_of_listed(app: &Incoming) -> Lane {
    match (app.observed_generation(), app.meta().generation) {
        (None, _) => Lane::New,
        (observed, newest) if observed == newest => Lane::Background,
        _ => Lane::Edit,
    }
}

/// The wait after so many failures.
fn wait(failures: u32) -> Duration {
    FIRST_WAIT.saturating_mul(1 << failures.min(10)).min(LONGEST_WAIT)
}

/// Whether it is a matter of permissions.
fn refused(error: &watcher::Error) -> bool {
    matches!(code(error), Some(401 | 403))
}

/// Whether the moment since which changes are asked for is too long ago. The library would ask for the same again and again.
fn expired(error: &watcher::Error) -> bool {
    matches!(error, watcher::Error::WatchStartFailed(_)) && code(error) == Some(410)
}

/// The HTTP status with which the API server answered.
fn code(error: &watcher::Error) -> Option<u16> {
    match error {
        watcher::Error::InitialListFailed(kube::Error::Api(status))
        | watcher::Error::WatchStartFailed(kube::Error::Api(status))
        | watcher::Error::WatchFailed(kube::Error::Api(status))
        | watcher::Error::WatchError(status) => Some(status.code),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{Lane, lane_of_listed};

    #[test]
    fn keda_3730_what_awaits_an_answer_goes_before_what_has_one() {
        let lane = |status: serde_json::Value| {
            let metadata = json!({ "namespace": "ns", "name": "shop", "generation": 2 });
            lane_of_listed(
                &serde_json::from_value(json!({ "metadata": metadata, "status": status })).unwrap(),
            )
        };
        assert_eq!(lane(json!({ "observedGeneration": 1 })), Lane::Edit);
        assert_eq!(lane(json!({ "observedGeneration": 2 })), Lane::Background);
        assert_eq!(lane(json!(null)), Lane::New);
    }
}
