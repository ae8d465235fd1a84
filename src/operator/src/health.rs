//! Whether the operator sees what it has to see.

use std::{collections::BTreeMap, sync::Mutex};

use tokio::sync::Notify;

use crate::{kind::Kind, sync::lock};

/// How far a watch has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Sight {
    /// The first list is under way.
    Listing,
    /// The cache is complete.
    Synced,
    /// It works without: the kind is optional, and may not be read.
    Without,
    /// It can't go on, for the reason given.
    Blocked(String),
}

/// The state of every watch.
#[derive(Debug, Default)]
pub(crate) struct Health {
    watches: Mutex<BTreeMap<(Kind, Option<String>), Sight>>,
    changed: Notify,
}

impl Health {
    /// Notes the state of one watch; says whether that is new.
    pub(crate) fn set(&self, kind: Kind, namespace: Option<&str>, sight: Sight) -> bool {
        let key = (kind, namespace.map(str::to_owned));
        let news = lock(&self.watches).insert(key, sight.clone()) != Some(sight);
        if news {
            self.changed.notify_waiters();
        }
        news
    }

    /// The state of one watch.
    pub(crate) fn get(&self, kind: Kind, namespace: Option<&str>) -> Option<Sight> {
        lock(&self.watches).get(&(kind, namespace.map(str::to_owned))).cloned()
    }

    /// What is still missing; empty when the operator can work.
    pub(crate) fn missing(&self) -> Vec<String> {
        let watches = lock(&self.watches);
        if watches.is_empty() {
            return vec!["starting".into()];
        }
        let place = |namespace: &Option<String>| {
            namespace.as_ref().map_or_else(String::new, |namespace| format!(" in namespace {namespace}"))
        };
        watches
            .iter()
            .filter_map(|((kind, namespace), sight)| match sight {
                Sight::Synced | Sight::Without => None,
                Sight::Listing => Some(format!("{kind}{}: the first list is under way", place(namespace))),
                Sight::Blocked(reason) => Some(format!("{kind}{}: {reason}", place(namespace))),
            })
            .collect()
    }

    /// Waits until nothing is missing.
    pub(crate) async fn complete(&self) {
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            if self.missing().is_empty() {
                return;
            }
            changed.await;
        }
    }
}
