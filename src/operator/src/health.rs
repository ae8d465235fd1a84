//! Whether the operator sees what it has to see.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Mutex,
};

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

/// What may be done in a namespace by what is seen of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum View {
    /// Everything.
    Whole,
    /// An edit can be carried out: what its plan has to know is there. The lists of these kinds are still under way.
    Edits(Vec<Kind>),
    /// Nothing: what is missing from the caches would be taken for missing from the cluster.
    Nothing,
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

    /// What may be done in `namespace`.
    pub(crate) fn view(&self, namespace: &str) -> View {
        let watches = lock(&self.watches);
        let mut concerned = watches
            .iter()
            .filter(|((_, scope), _)| scope.as_deref().is_none_or(|scope| scope == namespace))
            .peekable();
        if concerned.peek().is_none() {
            return View::Nothing;
        }
        let mut listing = Vec::new();
        for ((kind, _), sight) in concerned.filter(|(_, sight)| !sight.is_enough()) {
            if *sight != Sight::Listing || kind.is_listed_first() {
                return View::Nothing;
            }
            listing.push(*kind);
        }
        if listing.is_empty() { View::Whole } else { View::Edits(listing) }
    }

    /// Waits until `kind` may be listed: some lists go before the others.
    pub(crate) async fn turn(&self, kind: Kind) {
        self.until(|| kind.is_listed_first() || !self.lists_first()).await;
    }

    /// Waits until edits can be carried out in one namespace at least. That is no later than [`Health::complete`].
    pub(crate) async fn edits(&self) {
        self.until(|| !self.lists_first() && self.any_view(|view| view != View::Nothing)).await;
    }

    /// Waits until all is seen in one namespace at least, and nothing is under way in the others: one that may not be read doesn't
    /// keep the operator from its work in the others.
    pub(crate) async fn complete(&self) {
        self.until(|| self.is_complete()).await;
    }

    async fn until(&self, holds: impl Fn() -> bool) {
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            if holds() {
                return;
            }
            changed.await;
        }
    }

    fn is_complete(&self) -> bool {
        !self.lists(|_| true) && self.any_view(|view| view == View::Whole)
    }

    /// Whether a list is under way that goes before the others.
    fn lists_first(&self) -> bool {
        self.lists(Kind::is_listed_first)
    }

    fn lists(&self, which: impl Fn(Kind) -> bool) -> bool {
        lock(&self.watches).iter().any(|((kind, _), sight)| which(*kind) && *sight == Sight::Listing)
    }

    fn any_view(&self, wanted: impl Fn(View) -> bool) -> bool {
        let scopes: BTreeSet<Scope> = lock(&self.watches).keys().map(|(_, scope)| scope.clone()).collect();
        scopes.iter().any(|scope| wanted(self.view(scope.as_deref().unwrap_or_default())))
    }
}

#[cfg(test)]
mod tests {
    use std::{
        pin::{Pin, pin},
        task::{Context, Waker},
    };

    use super::{Health, Kind, Sight, View};

    fn all(health: &Health, namespace: Option<&str>, sight: &Sight) {
        for kind in Kind::ALL {
            health.set(kind, namespace, sight.clone());
        }
    }

    #[test]
    fn nothing_is_seen_before_the_first_list() {
        let health = Health::default();
        assert!(!health.is_complete() && health.view("shop") == View::Nothing);
        assert_eq!(health.missing(), ["starting"]);
        all(&health, None, &Sight::Synced);
        health.set(Kind::Service, None, Sight::Listing);
        assert!(!health.is_complete() && health.view("shop") == View::Edits(vec![Kind::Service]));
        health.set(Kind::Service, None, Sight::Synced);
        assert!(health.is_complete() && health.view("shop") == View::Whole && health.missing().is_empty());
    }

    #[test]
    fn a_namespace_that_may_not_be_read_is_told_and_holds_up_no_other() {
        let health = Health::default();
        all(&health, Some("shop"), &Sight::Synced);
        all(&health, Some("blog"), &Sight::Listing);
        assert!(!health.is_complete());
        all(&health, Some("blog"), &Sight::Blocked("may not".into()));
        assert!(
            health.is_complete()
                && health.view("shop") == View::Whole
                && health.view("blog") == View::Nothing
        );
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

    #[test]
    fn an_edit_can_be_carried_out_once_all_is_there_that_its_plan_has_to_know() {
        let children = [Kind::Service, Kind::Pod];
        for kind in Kind::ALL {
            let health = Health::default();
            all(&health, None, &Sight::Synced);
            for listing in children {
                health.set(listing, None, Sight::Listing);
            }
            let edits = View::Edits(children.into());
            assert_eq!(health.view("shop"), edits);
            health.set(kind, None, Sight::Without);
            assert_eq!(health.view("shop") == edits, !children.contains(&kind), "{kind}");
            health.set(kind, None, Sight::Listing);
            assert_eq!(health.view("shop") == View::Nothing, kind.is_listed_first(), "{kind}");
            // What can't be listed may not be there to be read either.
            health.set(kind, None, Sight::Blocked("may not".into()));
            assert_eq!(health.view("shop"), View::Nothing, "{kind}");
            assert!(!health.is_complete());
        }
    }

    fn is_ready(future: Pin<&mut impl Future<Output = ()>>) -> bool {
        future.poll(&mut Context::from_waker(Waker::noop())).is_ready()
    }

    #[test]
    fn lists_that_no_plan_needs_in_full_come_after_the_others() {
        let health = Health::default();
        all(&health, Some("shop"), &Sight::Listing);
        all(&health, Some("blog"), &Sight::Listing);
        let mut may_list = pin!(health.turn(Kind::Service));
        let mut edits = pin!(health.edits());
        assert!(is_ready(pin!(health.turn(Kind::WorkerApp))));
        for namespace in ["shop", "blog"] {
            for kind in Kind::ALL.into_iter().filter(|kind| kind.is_listed_first()) {
                assert!(!is_ready(may_list.as_mut()) && !is_ready(edits.as_mut()));
                let sight =
                    if namespace == "blog" { Sight::Blocked("may not".into()) } else { Sight::Synced };
                health.set(kind, Some(namespace), sight);
            }
        }
        assert!(is_ready(may_list.as_mut()) && is_ready(edits.as_mut()) && !health.is_complete());
        assert_eq!(health.view("blog"), View::Nothing);
    }
}
