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

impl Sight {
    fn is_enough(&self) -> bool {
        matches!(self, Self::Synced | Self::Without)
    }
}

/// The namespace of a watch; `None`: all.
type Scope = Option<String>;

/// The state of every watch, and what else is to be told.
#[derive(Debug, Default)]
pub(crate) struct Health {
    watches: Mutex<BTreeMap<(Kind, Scope), Sight>>,
    /// Namespaces that don't exist.
    absent: Mutex<BTreeMap<String, String>>,
    /// What is wrong although the operator can work.
    warning: Mutex<Option<String>>,
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

    /// Notes that a namespace doesn't exist, with the reason, or that it does; says whether that is new.
    pub(crate) fn set_absent(&self, namespace: &str, reason: Option<String>) -> bool {
        let mut absent = lock(&self.absent);
        match reason {
            Some(reason) => absent.insert(namespace.to_owned(), reason.clone()) != Some(reason),
            None => absent.remove(namespace).is_some(),
        }
    }

    /// Notes what is wrong although the operator can work; says whether that is new.
    pub(crate) fn warn(&self, warning: Option<String>) -> bool {
        let mut known = lock(&self.warning);
        let news = *known != warning;
        *known = warning;
        news
    }

    /// What is wrong although the operator can work.
    pub(crate) fn warning(&self) -> Option<String> {
        lock(&self.warning).clone()
    }

    /// What is missing; empty when the operator can do all that it is asked to.
    pub(crate) fn missing(&self) -> Vec<String> {
        let watches = lock(&self.watches);
        if watches.is_empty() {
            return vec!["starting".into()];
        }
        let place = |namespace: &Scope| {
            namespace.as_ref().map_or_else(String::new, |namespace| format!(" in namespace {namespace}"))
        };
        let unseen = watches.iter().filter_map(|((kind, namespace), sight)| match sight {
            Sight::Synced | Sight::Without => None,
            Sight::Listing => Some(format!("{kind}{}: the first list is under way", place(namespace))),
            Sight::Blocked(reason) => Some(format!("{kind}{}: {reason}", place(namespace))),
        });
        lock(&self.absent).values().cloned().chain(unseen).collect()
    }

    /// Whether everything in `namespace` is seen that has to be.
    pub(crate) fn sees(&self, namespace: &str) -> bool {
        let watches = lock(&self.watches);
        let mut concerned = watches
            .iter()
            .filter(|((_, scope), _)| scope.as_deref().is_none_or(|scope| scope == namespace))
            .peekable();
        concerned.peek().is_some() && concerned.all(|(_, sight)| sight.is_enough())
    }

    /// Waits until all is seen in one namespace at least, and nothing is under way in the others: one that may not be read doesn't
    /// keep the operator from its work in the others.
    pub(crate) async fn complete(&self) {
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            if self.is_complete() {
                return;
            }
            changed.await;
        }
    }

    fn is_complete(&self) -> bool {
        let scopes: Vec<Scope> = {
            let watches = lock(&self.watches);
            if watches.values().any(|sight| *sight == Sight::Listing) {
                return false;
            }
            watches.keys().map(|(_, scope)| scope.clone()).collect()
        };
        scopes.iter().any(|scope| self.sees(scope.as_deref().unwrap_or_default()))
    }
}

#[cfg(test)]
mod tests {
    use super::{Health, Kind, Sight};

    fn all(health: &Health, namespace: Option<&str>, sight: &Sight) {
        for kind in Kind::ALL {
            health.set(kind, namespace, sight.clone());
        }
    }

    #[test]
    fn nothing_is_seen_before_the_first_list() {
        let health = Health::default();
        assert!(!health.is_complete() && !health.sees("shop"));
        assert_eq!(health.missing(), ["starting"]);
        all(&health, None, &Sight::Synced);
        health.set(Kind::Service, None, Sight::Listing);
        assert!(!health.is_complete() && !health.sees("shop"));
        health.set(Kind::Service, None, Sight::Synced);
        assert!(health.is_complete() && health.sees("shop") && health.missing().is_empty());
    }

    #[test]
    fn a_namespace_that_may_not_be_read_is_told_and_holds_up_no_other() {
        let health = Health::default();
        all(&health, Some("shop"), &Sight::Synced);
        all(&health, Some("blog"), &Sight::Listing);
        assert!(!health.is_complete());
        all(&health, Some("blog"), &Sight::Blocked("may not".into()));
        assert!(health.is_complete() && health.sees("shop") && !health.sees("blog"));
        assert_eq!(health.missing()[0], "WorkerApp in namespace blog: may not");
        // Alone it would.
        let health = Health::default();
        all(&health, Some("blog"), &Sight::Blocked("may not".into()));
        assert!(!health.is_complete());
    }

    #[test]
    fn a_namespace_that_is_not_there_is_told_and_holds_up_no_other() {
        let health = Health::default();
        all(&health, Some("shop"), &Sight::Synced);
        assert!(health.set_absent("shpo", Some("no shpo".into())));
        assert!(!health.set_absent("shpo", Some("no shpo".into())));
        assert_eq!(health.missing(), ["no shpo"]);
        assert!(health.is_complete());
        assert!(health.set_absent("shpo", None) && health.missing().is_empty());
    }
}
