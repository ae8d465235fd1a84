//! Hands `spec.replicas` of a Deployment over between the operator and whoever scales it.
//!
//! A field that its only manager stops sending falls back to its default, which for replicas is 1: an app that gets an
//! autoscaler would lose all pods but one, until the autoscaler has looked. So before the operator lets go of the field,
//! another manager claims it with the number that it has; the autoscaler takes it over when it first changes it.

use serde_json::{Value, json};
use workerapp_api::names;

use super::{Child, Owner, patch};
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
    let number = live.json()["spec"]["replicas"].as_i64().unwrap_or(1).max(child.least_replicas);
    claim(context, owner, live, json!({ "replicas": number })).await
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
    claim(context, owner, live, json!({})).await
}

/// Whether sending `child` would set the number of pods that the operator didn't set before.
pub(super) fn takes_over(context: &Context, owner: &Owner, child: &Child) -> bool {
    let live = context.caches[Kind::Deployment].get(&owner.key);
    child.kind == Kind::Deployment && !sent(child).is_null() && live.is_some_and(|live| !live.claims.ours)
}

fn sent(child: &Child) -> &Value {
    &child.body["spec"]["replicas"]
}

async fn claim(context: &Context, owner: &Owner, live: &Object, spec: Value) -> Result<(), Error> {
    let mut body = json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": { "name": &*owner.key.name, "uid": &*live.uid },
    });
    if spec.as_object().is_some_and(|spec| !spec.is_empty()) {
        body["spec"] = spec;
    }
    patch(context, owner, Kind::Deployment, names::HANDOVER_MANAGER, &body)
        .await
        .map(drop)
        .map_err(|error| Error::from_write(Kind::Deployment, &owner.key.namespace, &owner.key.name, error))
}
