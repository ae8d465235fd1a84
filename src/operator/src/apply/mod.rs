//! Brings the children to what the plan says: the only place that writes them.
//!
//! Each child by itself: one that fails leaves the others standing. What stands already is not sent. All is sent by
//! server-side apply, so that fields of other managers (an autoscaler's replicas, the annotation of `kubectl rollout restart`) stay
//! as they are.
//!
//! - `guard`: finds the child, and refuses one that isn't the app's
//! - `compare`: whether there is anything to send
//! - `repair`: clears the way for an apply that another manager's fields keep from being valid
//! - `replicas`: hands `spec.replicas` over between the operator and an autoscaler
//! - `node_port`: says who holds a node port

pub(crate) mod compare;
mod guard;
pub(crate) mod node_port;
mod repair;
mod replicas;

use std::{collections::BTreeMap, sync::Arc};

use kube::Resource as _;
use kube::api::{DeleteParams, Patch, PatchParams, Preconditions};
use serde_json::{Value, json};
use workerapp_api::{BurstStatus, WorkerApp, names};
use workerapp_plan::Children;

use crate::{
    cache::{Change, Incoming, Key, Object},
    context::{Context, bounded},
    error::Error,
    kind::Kind,
};

/// How often the same thing is sent within a minute before it is taken for a fight with somebody who undoes it.
const MOST_REPEATS: u32 = 5;

/// A version that no object ever has, as the store's first write makes the second. An apply that names it makes an object, and is
/// refused as a conflict where there is one.
const BEFORE_ALL: &str = "1";

/// The app in whose name children are written.
#[derive(Clone, Debug)]
pub(crate) struct Owner {
    pub(crate) key: Key,
    pub(crate) uid: Box<str>,
    /// No look at it has ended yet, so that it has no children, as far as is known.
    pub(crate) new: bool,
}

/// The children as they stand after an apply, and what went wrong.
#[derive(Debug, Default)]
pub(crate) struct Applied {
    standing: BTreeMap<Kind, Arc<Object>>,
    /// What would have been made, changed or removed, had the app not been paused.
    pub(crate) held_back: Vec<Kind>,
    pub(crate) errors: Vec<Error>,
}

impl Applied {
    /// The children that are in the cache and the app's, for an app of which nothing can be applied.
    pub(crate) fn as_found(context: &Context, owner: &Owner) -> Self {
        let found = |kind: Kind| {
            let live = context.caches[kind].get(&owner.key)?;
            live.controlled_by(&owner.uid).then_some((kind, live))
        };
        let children = Kind::ALL.into_iter().filter(|kind| kind.is_child());
        Self { standing: children.filter_map(found).collect(), ..Self::default() }
    }

    /// The same for an app that is paused, with what its children lack. No request is sent for it.
    pub(crate) fn held_back(context: &Context, owner: &Owner, children: &Children) -> Self {
        let mut found = Self::as_found(context, owner);
        for (kind, child) in wanted(owner, children) {
            let as_wanted = match (child, found.get(kind)) {
                (Some(child), Some(live)) => difference(context, &child, live).is_none(),
                (None, None) => true,
                _ => false,
            };
            if !as_wanted {
                found.held_back.push(kind);
            }
        }
        found
    }

    /// The child of this kind.
    pub(crate) fn get(&self, kind: Kind) -> Option<&Arc<Object>> {
        self.standing.get(&kind)
    }

    fn collect(&mut self, kind: Kind, result: Result<Arc<Object>, Failed>) {
        let object = result.map_or_else(
            |Failed { error, standing }| {
                self.errors.push(error);
                standing
            },
            Some,
        );
        self.standing.extend(object.map(|object| (kind, object)));
    }
}

/// One child, ready to be sent.
struct Child {
    kind: Kind,
    body: Value,
    /// The fewest pods that an autoscaler may be handed: it never starts from none.
    least_replicas: i64,
}

/// Every kind of child, with the child where there is to be one.
fn wanted(owner: &Owner, children: &Children) -> impl Iterator<Item = (Kind, Option<Child>)> {
    children.each().into_iter().filter_map(|child| {
        let kind = Kind::named(&child.kind)?;
        Some((kind, child.object.map(|object| Child::new(kind, owner, object))))
    })
}

/// Applies `children` for `owner`: first what is no longer wanted goes, then what is wanted is made.
///
/// While an autoscaler stands, nobody else may set the number of pods: one that is dropped goes before the Deployment's
/// replicas come back, and none is made for a Deployment that isn't the app's. While a burst runs, pods that the autoscaler's
/// minimum asks for come at once, and not when the autoscaler next looks.
pub(crate) async fn apply(
    context: &Context,
    owner: &Owner,
    children: &Children,
    burst: Option<&BurstStatus>,
) -> Applied {
    let mut applied = Applied::default();
    let (made, dropped): (Vec<_>, Vec<_>) = wanted(owner, children).partition(|(_, child)| child.is_some());
    let mut made: Vec<Child> = made.into_iter().filter_map(|(_, child)| child).collect();
    let least_replicas = made.iter().find_map(|child| child.body["spec"][child.kind.fewest_pods()?].as_i64());

    let mut still_scaled = false;
    for (kind, _) in dropped {
        let scales = kind.fewest_pods().is_some();
        // One that lost the operator's label isn't in the cache; so the API server is asked too, at the one moment when it matters.
        let there = scales && context.caches[kind].readable(&owner.key.namespace);
        let ask = there && made.iter().any(|child| replicas::takes_over(context, owner, child));
        if let Err(error) = remove(context, owner, kind, ask).await {
            applied.errors.push(error);
            still_scaled |= scales;
        }
    }

    let (mut foreign, mut scaled) = (false, false);
    for child in &mut made {
        let kind = child.kind;
        if kind == Kind::Deployment {
            child.least_replicas = least_replicas.unwrap_or_default();
            if still_scaled {
                child.leave_replicas();
            }
        }
        if kind.fewest_pods().is_some() && foreign {
            applied.errors.extend(remove(context, owner, kind, false).await.err());
            continue;
        }
        let result = ensure(context, owner, child).await;
        foreign |=
            kind == Kind::Deployment && matches!(&result, Err(Failed { error: Error::NameClash { .. }, .. }));
        scaled |= kind.fewest_pods().is_some() && result.is_ok();
        applied.collect(kind, result);
    }
    if let (Some(burst), Some(least)) = (burst.filter(|_| scaled), least_replicas)
        && let Some(live) = applied.get(Kind::Deployment).cloned()
    {
        let result = replicas::raise(context, owner, live, least, &burst.until).await;
        applied.collect(Kind::Deployment, result);
    }
    applied
}

/// A child that could not be applied, and what stands of it.
struct Failed {
    error: Error,
    standing: Option<Arc<Object>>,
}

impl Child {
    fn new(kind: Kind, owner: &Owner, mut body: Value) -> Self {
        body["metadata"]["ownerReferences"] = json!([{
            "apiVersion": WorkerApp::api_version(&()),
            "kind": Kind::WorkerApp.as_str(),
            "name": &*owner.key.name,
            "uid": &*owner.uid,
            "controller": true,
            "blockOwnerDeletion": true,
        }]);
        Self { kind, body, least_replicas: 0 }
    }

    /// Leaves the number of pods to the autoscaler that still stands. Another digest, since another object is sent.
    fn leave_replicas(&mut self) {
        let digest = format!("{}-unscaled", self.digest());
        if let Some(spec) = self.body["spec"].as_object_mut()
            && spec.remove("replicas").is_some()
        {
            self.body["metadata"]["annotations"][names::ANNOTATION_APPLIED] = digest.into();
        }
    }

    fn digest(&self) -> &str {
        self.body["metadata"]["annotations"][names::ANNOTATION_APPLIED].as_str().unwrap_or_default()
    }
}

/// Makes one child stand as wanted, with no request where it does.
async fn ensure(context: &Context, owner: &Owner, child: &Child) -> Result<Arc<Object>, Failed> {
    let failed = |standing: Option<&Arc<Object>>| {
        let standing = standing.cloned();
        move |error| Failed { error, standing }
    };
    if owner.new && context.caches[child.kind].get(&owner.key).is_none() {
        // Most likely there is none, and the API server refuses to touch it if there is.
        let answer = try_send(context, owner, child, None).await;
        if !matches!(&answer, Err(kube::Error::Api(status)) if status.is_conflict()) {
            return conclude(context, owner, child, answer).await.map_err(failed(None));
        }
    }
    let live = guard::find(context, owner, child.kind).await.map_err(failed(None))?;
    let object = match &live {
        Some(live) if stands(context, child, live) => Arc::clone(live),
        _ => {
            if let Some(live) = &live {
                replicas::keep(context, owner, child, live).await.map_err(failed(Some(live)))?;
            }
            send(context, owner, child, live.as_deref()).await.map_err(failed(live.as_ref()))?
        }
    };
    replicas::release(context, owner, child, &object).await.map_err(failed(Some(&object)))?;
    if object.claims.repair {
        repair::disown(context, owner, child.kind).await.map_err(failed(Some(&object)))?;
    }
    Ok(object)
}

/// Whether `live` already is what sending `child` would lead to.
fn stands(context: &Context, child: &Child, live: &Object) -> bool {
    let difference = difference(context, child, live);
    if let Some(path) = &difference {
        tracing::info!(kind = %child.kind, path, "differs from what is wanted");
    }
    difference.is_none()
}

/// Where `live` is not what sending `child` would lead to.
fn difference(context: &Context, child: &Child, live: &Object) -> Option<String> {
    if context.settled.knows(child.kind, live, child.digest()) {
        return None;
    }
    // The cache drops apiVersion and kind, which lists leave out.
    let live_body = live.json();
    let parts = ["metadata", "spec"];
    let difference = parts.iter().find_map(|part| {
        let path = compare::difference(&live_body[*part], &child.body[*part])?;
        Some(format!("{part}.{path}"))
    });
    if difference.is_none() {
        context.settled.learn(child.kind, live, child.digest());
    }
    difference
}

async fn send(
    context: &Context,
    owner: &Owner,
    child: &Child,
    live: Option<&Object>,
) -> Result<Arc<Object>, Error> {
    if context.settled.repeats(child.kind, &owner.key, child.digest()) >= MOST_REPEATS {
        // Somebody undoes each write at once; the backoff between tries keeps that from becoming a storm.
        return Err(Error::Conflict { kind: child.kind, name: owner.key.name.to_string() });
    }
    let mut answer = try_send(context, owner, child, live).await;
    if let (Err(kube::Error::Api(status)), Some(live)) = (&answer, live)
        && status.code == 422
        && repair::can_help(child, live)
        && repair::stands_alone(context, owner, child, live).await
        && repair::replace(context, owner, child, live).await.is_ok()
    {
        answer = try_send(context, owner, child, Some(live)).await;
    }
    conclude(context, owner, child, answer).await
}

/// Remembers what was applied, or finds out why it wasn't.
async fn conclude(
    context: &Context,
    owner: &Owner,
    child: &Child,
    answer: kube::Result<(Arc<Object>, Change)>,
) -> Result<Arc<Object>, Error> {
    match answer {
        Ok((object, change)) => {
            context.settled.wrote(child.kind, &owner.key, child.digest());
            // Where the watch was faster, somebody has written since: that is for the next look to compare.
            if change != Change::Stale {
                context.settled.learn(child.kind, &object, child.digest());
            }
            tracing::info!(kind = %child.kind, "applied");
            Ok(object)
        }
        Err(error) if child.kind == Kind::Service => Err(node_port::explain(context, owner, error).await),
        Err(error) => Err(Error::from_write(child.kind, &owner.key.namespace, &owner.key.name, error)),
    }
}

async fn try_send(
    context: &Context,
    owner: &Owner,
    child: &Child,
    live: Option<&Object>,
) -> kube::Result<(Arc<Object>, Change)> {
    let mut body = child.body.clone();
    match live {
        // Should another object have taken that one's place by now, the API server refuses.
        Some(live) => body["metadata"]["uid"] = json!(&*live.uid),
        None => body["metadata"]["resourceVersion"] = json!(BEFORE_ALL),
    }
    patch(context, owner, child.kind, names::FIELD_MANAGER, &body).await
}

/// One server-side apply; the answer goes into the cache, so that the next look sees it even before the watch tells.
async fn patch(
    context: &Context,
    owner: &Owner,
    kind: Kind,
    manager: &str,
    body: &Value,
) -> kube::Result<(Arc<Object>, Change)> {
    let api = kind.api(&context.client, Some(&owner.key.namespace));
    let params = PatchParams::apply(manager).force();
    let writing = context.caches[kind].writing(&owner.key);
    let answer: Incoming = bounded(api.patch(&owner.key.name, &params, &Patch::Apply(body))).await?;
    Ok(writing.answered(Object::new(kind, answer)))
}

/// Deletes a child that the spec no longer asks for: only the very object that was seen, and only if it is the app's. The API server
/// is asked for one that isn't in the cache, if `ask` says so.
///
/// An error means that it still stands.
async fn remove(context: &Context, owner: &Owner, kind: Kind, ask: bool) -> Result<(), Error> {
    let mut live = context.caches[kind].get(&owner.key);
    if live.is_none() && ask {
        live = guard::fetch(context, owner, kind).await?.map(Arc::new);
    }
    let Some(live) = live.filter(|live| live.controlled_by(&owner.uid)) else { return Ok(()) };
    if live.deleting {
        return Err(Error::ChildTerminating { kind, name: owner.key.name.to_string() });
    }
    let params = DeleteParams::background().preconditions(Preconditions {
        uid: Some(live.uid.to_string()),
        resource_version: Some(live.resource_version.to_string()),
    });
    let api = kind.api(&context.client, Some(&owner.key.namespace));
    match bounded(api.delete(&owner.key.name, &params)).await {
        Err(kube::Error::Api(status)) if status.is_not_found() => {}
        Err(error) => return Err(Error::from_write(kind, &owner.key.namespace, &owner.key.name, error)),
        Ok(answer) => {
            tracing::info!(%kind, "deleted: the spec no longer asks for it");
            // With finalizers it still stands, and the answer is the object itself.
            if answer.left().is_some_and(|object: Incoming| object.has_finalizers()) {
                return Err(Error::ChildTerminating { kind, name: owner.key.name.to_string() });
            }
        }
    }
    context.caches[kind].remove(&owner.key, &live.uid);
    Ok(())
}
