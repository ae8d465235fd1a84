//! Hands `spec.replicas` of a Deployment over between the operator and whoever scales it.
//!
//! A field that its only manager stops sending falls back to its default, which for replicas is 1: an app that gets an
//! autoscaler would lose all pods but one, until the autoscaler has looked. So before the operator lets go of the field,
//! another manager claims it with the number that it has; the autoscaler takes it over when it first changes it.
//!
//! While a burst runs, the same manager raises a number that lies below the autoscaler's minimum, which has been raised before: the
//! autoscaler would do so itself when it next looks.

use std::sync::Arc;

use serde_json::{Value, json};
use workerapp_api::names;

use super::{Child, Failed, Owner, guard, patch};
use crate::{cache::Object, context::Context, error::Error, kind::Kind};

/// Before an apply that no longer sends the number: keeps it.
pub(super) async fn keep(
    context: &Context,
    owner: &Owner,
    child: &Child,
    live: &Object,
) -> Result<(), Error> {
    let lets_go = child.kind == Kind::Deployment && live.claims.ours && sent(child).is_null();
    if !lets_go {
        return Ok(());
    }
    let number = number(live).max(child.least_replicas);
    claim(context, owner, live, json!({}), json!({ "replicas": number })).await.map(drop)
}

/// After an apply that sends the number again: the other manager's claim ends.
pub(super) async fn release(
    context: &Context,
    owner: &Owner,
    child: &Child,
    live: &Object,
) -> Result<(), Error> {
    let done = child.kind == Kind::Deployment && live.claims.handover && !sent(child).is_null();
    if !done {
        return Ok(());
    }
    claim(context, owner, live, json!({}), json!({})).await.map(drop)
}

/// How often a number that others change at the same moment is looked at anew.
const TRIES: u32 = 3;

/// Raises the number of pods to `least`: never down, not from 0, by which people turn an autoscaler off, and once only `until` that
/// time, so that nobody is fought over it.
pub(super) async fn raise(
    context: &Context,
    owner: &Owner,
    mut live: Arc<Object>,
    least: i64,
    until: &str,
) -> Result<Arc<Object>, Failed> {
    let digest = format!("at least {least} pods until {until}");
    for _ in 0..TRIES {
        let below = (1..least).contains(&number(&live));
        if !below || context.settled.repeats(Kind::Deployment, &owner.key, &digest) > 0 {
            return Ok(live);
        }
        // As it was seen: a number that has changed since may be higher by now.
        let seen = json!({ "resourceVersion": &*live.resource_version });
        let error = match claim(context, owner, &live, seen, json!({ "replicas": least })).await {
            Ok(raised) => {
                context.settled.wrote(Kind::Deployment, &owner.key, &digest);
                tracing::info!(least, "raised the number of pods");
                return Ok(raised);
            }
            Err(error) => error,
        };
        let failed = |error| Failed { error, standing: Some(Arc::clone(&live)) };
        if !matches!(error, Error::Conflict { .. }) {
            return Err(failed(error));
        }
        let found = guard::fetch(context, owner, Kind::Deployment).await.map_err(failed)?;
        live = match found.filter(|found| found.uid == live.uid) {
            Some(found) => Arc::new(found),
            None => return Ok(live),
        };
    }
    Ok(live)
}

fn number(live: &Object) -> i64 {
    live.json()["spec"]["replicas"].as_i64().unwrap_or(1)
}

/// Whether sending `child` would set the number of pods that the operator didn't set before.
pub(super) fn takes_over(context: &Context, owner: &Owner, child: &Child) -> bool {
    let live = context.caches[Kind::Deployment].get(&owner.key);
    child.kind == Kind::Deployment && !sent(child).is_null() && live.is_some_and(|live| !live.claims.ours)
}

fn sent(child: &Child) -> &Value {
    &child.body["spec"]["replicas"]
}

/// One apply by the other manager, with `metadata` beside what names the object.
async fn claim(
    context: &Context,
    owner: &Owner,
    live: &Object,
    mut metadata: Value,
    spec: Value,
) -> Result<Arc<Object>, Error> {
    metadata["name"] = json!(&*owner.key.name);
    metadata["uid"] = json!(&*live.uid);
    let mut body = json!({ "apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata });
    if spec.as_object().is_some_and(|spec| !spec.is_empty()) {
        body["spec"] = spec;
    }
    patch(context, owner, Kind::Deployment, names::HANDOVER_MANAGER, &body)
        .await
        .map(|(object, _)| object)
        .map_err(|error| Error::from_write(Kind::Deployment, &owner.key.namespace, &owner.key.name, error))
}
