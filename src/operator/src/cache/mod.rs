//! What the operator knows of the cluster: one cache for each kind, filled by watches and by the answers to its own
//! writes.
//!
//! - `incoming`: one object as it comes; `object`: reduced; `packed`: its text
//! - `watch`: fills a cache from the API server and wakes the apps that an event concerns
//! - `by_name`: the children of one app, before the lists of their kinds are complete

pub(crate) mod by_name;
pub mod incoming;
pub mod object;
mod packed;
pub(crate) mod watch;

use std::{
    collections::{BTreeSet, HashMap, HashSet},
    sync::{Arc, RwLock},
};

pub use incoming::Incoming;
pub use object::{Claims, Controller, Key, Object};

use crate::{
    kind::{Concern, Kind},
    sync::{read, write},
};

/// What an incoming object was to the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// It differs from what was there in something that the operator looks at, or is new.
    Changed,
    /// Nothing that the operator looks at differs.
    Same,
    /// It is older than what is there, or is there no more.
    Stale,
}

/// All objects of one kind that the operator looks at.
#[derive(Debug)]
pub struct Cache {
    kind: Kind,
    state: RwLock<State>,
}

#[derive(Debug, Default)]
struct State {
    objects: HashMap<Key, Arc<Object>>,
    /// Which objects belong to an app, where that doesn't follow from the name.
    of_app: HashMap<Key, BTreeSet<Key>>,
    /// Where the kind can't be read: in these namespaces, or everywhere (`None`).
    unreadable: HashSet<Option<String>>,
    /// The objects to which a write is under way, and whether they went since it began.
    writing: HashMap<Key, bool>,
}

impl Cache {
    /// An empty cache.
    pub fn new(kind: Kind) -> Self {
        Self { kind, state: RwLock::default() }
    }

    /// The object with this key.
    pub fn get(&self, key: &Key) -> Option<Arc<Object>> {
        read(&self.state).objects.get(key).cloned()
    }

    /// Everything that belongs to `app`, ordered by name.
    pub fn of_app(&self, app: &Key) -> Vec<Arc<Object>> {
        let state = read(&self.state);
        let keys = state.of_app.get(app).into_iter().flatten();
        keys.filter_map(|key| state.objects.get(key)).cloned().collect()
    }

    /// Everything in `namespace`.
    pub fn in_namespace(&self, namespace: &str) -> Vec<Arc<Object>> {
        let state = read(&self.state);
        state.objects.values().filter(|object| *object.key.namespace == *namespace).cloned().collect()
    }

    /// The keys of everything in `namespace` (all, if `None`).
    pub fn keys(&self, namespace: Option<&str>) -> Vec<Key> {
        let state = read(&self.state);
        let in_scope = |key: &&Key| namespace.is_none_or(|namespace| *key.namespace == *namespace);
        state.objects.keys().filter(in_scope).cloned().collect()
    }

    /// How many objects there are.
    pub fn len(&self) -> usize {
        read(&self.state).objects.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// A write to this object begins, or a question after it; the answer goes to what is returned. Nobody else writes to the object
    /// meanwhile.
    pub fn writing(&self, key: &Key) -> Writing<'_> {
        write(&self.state).writing.insert(key.clone(), false);
        Writing { cache: self, key: key.clone() }
    }

    /// Takes in an object from a watch, unless a newer one is there: an answer can overtake the watch, and the watch then brings
    /// the past.
    pub fn insert(&self, object: Object) -> (Arc<Object>, Change) {
        let mut state = write(&self.state);
        // The watch can be the faster one, too. Of an app only the status is written, and that is no news to whoever writes it.
        let own = self.kind == Kind::WorkerApp
            && state.writing.contains_key(&object.key)
            && state.objects.get(&object.key).is_some_and(|known| known.content == object.content);
        let (object, change) = self.insert_in(&mut state, object);
        (object, if own && change == Change::Changed { Change::Same } else { change })
    }

    fn insert_in(&self, state: &mut State, object: Object) -> (Arc<Object>, Change) {
        let change = match state.objects.get(&object.key) {
            Some(known) if known.newer_than(&object) => return (Arc::clone(known), Change::Stale),
            Some(known) if known.same_as(&object) => Change::Same,
            _ => Change::Changed,
        };
        let object = Arc::new(object);
        let former = state.objects.insert(object.key.clone(), Arc::clone(&object));
        if let Some(former) = former.filter(|former| former.app != object.app) {
            state.leave(&former);
        }
        if self.kind.concern() == Concern::Labelled || object.app.is_namespace() {
            state.of_app.entry(object.app.clone()).or_default().insert(object.key.clone());
        }
        (object, change)
    }

    /// Forgets an object that was deleted; one of the same name that was made since stays.
    pub fn remove(&self, key: &Key, uid: &str) -> Option<Arc<Object>> {
        let mut state = write(&self.state);
        if let Some(gone) = state.writing.get_mut(key) {
            *gone = true;
        }
        state.objects.get(key).filter(|known| *known.uid == *uid)?;
        let object = state.objects.remove(key)?;
        state.leave(&object);
        Some(object)
    }

    /// Notes whether the kind can be read in `namespace` (all, if `None`); says whether that is new.
    pub fn set_readable(&self, namespace: Option<&str>, readable: bool) -> bool {
        let unreadable = &mut write(&self.state).unreadable;
        let scope = namespace.map(str::to_owned);
        if readable { unreadable.remove(&scope) } else { unreadable.insert(scope) }
    }

    /// Whether the kind can be read in `namespace`.
    pub fn readable(&self, namespace: &str) -> bool {
        let unreadable = &read(&self.state).unreadable;
        let covers = |scope: &Option<String>| scope.as_deref().is_none_or(|scope| scope == namespace);
        !unreadable.iter().any(covers)
    }

    /// After a complete list of `namespace` (all, if `None`): forgets what wasn't in it, and returns that.
    pub fn retain(&self, namespace: Option<&str>, listed: &HashSet<Key>) -> Vec<Arc<Object>> {
        let mut state = write(&self.state);
        let in_scope = |key: &Key| namespace.is_none_or(|namespace| *key.namespace == *namespace);
        let gone: Vec<_> = state
            .objects
            .values()
            .filter(|object| in_scope(&object.key) && !listed.contains(&object.key))
            .cloned()
            .collect();
        for object in &gone {
            state.objects.remove(&object.key);
            state.leave(object);
        }
        for (key, gone) in &mut state.writing {
            *gone |= in_scope(key) && !listed.contains(key);
        }
        gone
    }
}

/// A write, or a question, that is under way.
#[derive(Debug)]
pub struct Writing<'a> {
    cache: &'a Cache,
    key: Key,
}

impl Writing<'_> {
    /// Takes in the answer, unless a newer object is there, or the object went meanwhile: it would come back to the cache alone, and no
    /// event would ever take it from there again.
    pub fn answered(self, object: Object) -> (Arc<Object>, Change) {
        let mut state = write(&self.cache.state);
        match state.writing.get(&self.key) {
            Some(true) => (Arc::new(object), Change::Stale),
            _ => self.cache.insert_in(&mut state, object),
        }
    }
}

impl Drop for Writing<'_> {
    fn drop(&mut self) {
        write(&self.cache.state).writing.remove(&self.key);
    }
}

impl State {
    fn leave(&mut self, object: &Object) {
        if let Some(keys) = self.of_app.get_mut(&object.app) {
            keys.remove(&object.key);
            if keys.is_empty() {
                self.of_app.remove(&object.app);
            }
        }
    }
}

/// The caches of all kinds.
#[derive(Debug)]
pub struct Caches([Cache; Kind::ALL.len()]);

impl Caches {
    /// All empty.
    pub fn new() -> Self {
        Self(Kind::ALL.map(Cache::new))
    }
}

impl Default for Caches {
    fn default() -> Self {
        Self::new()
    }
}

impl std::ops::Index<Kind> for Caches {
    type Output = Cache;

    fn index(&self, kind: Kind) -> &Cache {
        // `Kind::ALL` lists the kinds in the order of their definition.
        &self.0[kind as usize]
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use serde_json::json;

    use super::{Cache, Change, Key, Object};
    use crate::kind::Kind;

    fn object(version: &str) -> Object {
        let metadata = json!({ "namespace": "ns", "name": "shop", "uid": "u", "resourceVersion": version });
        Object::new(Kind::Service, serde_json::from_value(json!({ "metadata": metadata })).unwrap())
    }

    #[test]
    fn an_answer_that_comes_after_its_objects_end_does_not_bring_it_back() {
        let key = Key::new("ns", "shop");
        let deleted: fn(&Cache, &Key) = |cache, key| drop(cache.remove(key, "u"));
        let not_listed: fn(&Cache, &Key) = |cache, _| drop(cache.retain(None, &HashSet::new()));
        for end in [deleted, not_listed] {
            let cache = Cache::new(Kind::Service);
            cache.insert(object("1"));
            let writing = cache.writing(&key);
            end(&cache, &key);
            assert_eq!(writing.answered(object("2")).1, Change::Stale);
            assert!(cache.is_empty());
            // The next write begins anew.
            assert_eq!(cache.writing(&key).answered(object("3")).1, Change::Changed);
            assert_eq!(cache.len(), 1);
        }
    }
}
