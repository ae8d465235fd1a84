//! What every reconcile has at hand.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use kube::Client;

use crate::{
    apply::node_port::Holders,
    burst::Bursts,
    cache::{Caches, Key, Object},
    events::Events,
    inquiry::Inquiries,
    kind::Kind,
    leader::Fence,
    metrics::Metrics,
    nodes::Nodes,
    outage::Outage,
    served::ServedMetrics,
    sync::lock,
};

/// How long a request may take. Without a bound a connection that has died silently would hold an app for ever.
pub(crate) const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

/// What every reconcile has at hand.
pub(crate) struct Context {
    pub(crate) client: Client,
    pub(crate) caches: Caches,
    pub(crate) settings: Settings,
    pub(crate) settled: Settled,
    pub(crate) holders: Holders,
    pub(crate) inquiries: Inquiries,
    pub(crate) served: ServedMetrics,
    pub(crate) bursts: Bursts,
    pub(crate) nodes: Nodes,
    pub(crate) events: Events,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) outage: Arc<Outage>,
    pub(crate) fence: Fence,
}

impl Context {
    /// Whether a request that fails now fails for a reason that was told, and that no app can do anything about.
    pub(crate) fn cut_off(&self) -> bool {
        self.outage.ongoing() || !self.fence.is_open()
    }
}

/// What stays the same as long as the operator runs.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) supervisor_image: String,
    pub(crate) supervisor_pull_policy: Option<String>,
    /// The namespace in which the operator runs.
    pub(crate) own_namespace: Option<String>,
    /// The namespaces that are looked after; empty: all.
    pub(crate) namespaces: Vec<String>,
}

/// Children that are known to stand as they should: a digest of what was sent, and the hash of what it became.
///
/// Spares the comparison while nothing moves. And should the API server ever change a field in a way that the comparison doesn't
/// foresee, the answer to the first apply is remembered as what that apply leads to, and no second one follows.
#[derive(Debug, Default)]
pub(crate) struct Settled {
    verdicts: Mutex<HashMap<Key, Vec<Verdict>>>,
    sent: Mutex<HashMap<Key, Vec<Repeat>>>,
}

/// How often the same was written.
#[derive(Debug)]
struct Repeat {
    kind: Kind,
    digest: Box<str>,
    since: Instant,
    count: u32,
}

/// Within which time writes of the same are counted.
const REPEAT_WINDOW: Duration = Duration::from_mins(1);

#[derive(Debug, PartialEq)]
struct Verdict {
    kind: Kind,
    uid: Box<str>,
    digest: Box<str>,
    content: u64,
}

impl Settled {
    fn verdict(kind: Kind, live: &Object, digest: &str) -> Verdict {
        Verdict { kind, uid: live.uid.clone(), digest: digest.into(), content: live.content }
    }

    /// Whether `live` is known to be what sending the object with `digest` leads to.
    pub(crate) fn knows(&self, kind: Kind, live: &Object, digest: &str) -> bool {
        let verdict = Self::verdict(kind, live, digest);
        lock(&self.verdicts).get(&live.key).is_some_and(|verdicts| verdicts.contains(&verdict))
    }

    /// Remembers that.
    pub(crate) fn learn(&self, kind: Kind, live: &Object, digest: &str) {
        let verdict = Self::verdict(kind, live, digest);
        let mut settled = lock(&self.verdicts);
        let verdicts = settled.entry(live.key.clone()).or_default();
        verdicts.retain(|other| other.kind != kind);
        verdicts.push(verdict);
    }

    /// How often the same was written within the last minute.
    pub(crate) fn repeats(&self, kind: Kind, app: &Key, digest: &str) -> u32 {
        let sent = lock(&self.sent);
        let repeats = sent.get(app).into_iter().flatten();
        let mut same = repeats.filter(|repeat| repeat.kind == kind && *repeat.digest == *digest);
        same.find(|repeat| repeat.since.elapsed() < REPEAT_WINDOW).map_or(0, |repeat| repeat.count)
    }

    /// Counts one more write.
    pub(crate) fn wrote(&self, kind: Kind, app: &Key, digest: &str) {
        let mut sent = lock(&self.sent);
        let repeats = sent.entry(app.clone()).or_default();
        repeats.retain(|repeat| repeat.since.elapsed() < REPEAT_WINDOW);
        match repeats.iter_mut().find(|repeat| repeat.kind == kind && *repeat.digest == *digest) {
            Some(repeat) => repeat.count += 1,
            None => repeats.push(Repeat { kind, digest: digest.into(), since: Instant::now(), count: 1 }),
        }
    }

    /// Forgets an app that is gone.
    pub(crate) fn forget(&self, app: &Key) {
        lock(&self.sent).remove(app);
        lock(&self.verdicts).remove(app);
    }
}

/// Runs a request with the bound that all of them have.
pub(crate) async fn bounded<T>(request: impl Future<Output = kube::Result<T>>) -> kube::Result<T> {
    tokio::time::timeout(REQUEST_TIMEOUT, request).await.unwrap_or_else(|_| {
        let message = format!("no answer for {} s", REQUEST_TIMEOUT.as_secs());
        Err(kube::Error::Service(message.into()))
    })
}
