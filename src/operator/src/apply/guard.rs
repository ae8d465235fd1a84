//! Finds a child, and refuses one that isn't the app's.

use std::sync::Arc;

use super::Owner;
use crate::{
    cache::{Controller, Object},
    context::{Context, bounded},
    error::Error,
    kind::Kind,
};

/// The child as it stands, or `None` where there is none yet.
///
/// The cache holds what carries the operator's label. What isn't there may still exist, made by someone else or with
/// its label removed, so before a first apply the API server is asked.
pub(super) async fn find(context: &Context, owner: &Owner, kind: Kind) -> Result<Option<Arc<Object>>, Error> {
    let live = match context.caches[kind].get(&owner.key) {
        Some(live) => Some(live),
        None => fetch(context, owner, kind).await?.map(Arc::new),
    };
    let Some(live) = live else { return Ok(None) };
    let name = owner.key.name.to_string();
    if !live.controlled_by(&owner.uid) {
        if live.controller.as_ref().is_some_and(|other| is_former(owner, other)) {
            // Kubernetes deletes it soon.
            return Err(Error::ChildTerminating { kind, name });
        }
        return Err(Error::NameClash { kind, name, owner: whose(&live) });
    }
    if live.deleting {
        return Err(Error::ChildTerminating { kind, name });
    }
    Ok(Some(live))
}

pub(super) async fn fetch(context: &Context, owner: &Owner, kind: Kind) -> Result<Option<Object>, Error> {
    let api = kind.api(&context.client, Some(&owner.key.namespace));
    let found = bounded(api.get_opt(&owner.key.name)).await;
    let found =
        found.map_err(|error| Error::from_write(kind, &owner.key.namespace, &owner.key.name, error))?;
    Ok(found.map(|object| Object::new(kind, object)))
}

/// Whether that is a WorkerApp of the same name that was deleted, and whose children haven't been yet.
fn is_former(owner: &Owner, other: &Controller) -> bool {
    *other.kind == *Kind::WorkerApp.as_str() && *other.name == *owner.key.name
}

fn whose(live: &Object) -> String {
    match &live.controller {
        None => "nobody (it has no controller among its ownerReferences)".into(),
        Some(other) => format!("{} {}", other.kind, other.name),
    }
}
