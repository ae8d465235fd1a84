//! Reads the children of one app by their name, while the lists of their kinds are under way.
//!
//! The cache then holds of this app what it would hold were the lists complete: no more, as of what no list brings no watch tells the
//! end, and nothing that is older than what is there.

use futures::future::try_join_all;

use super::{Incoming, Key, Object};
use crate::{
    context::{Context, bounded},
    kind::Kind,
};

/// Brings what the caches of `kinds` hold of `app` up to date. After an error nothing is known of it.
pub(crate) async fn read(context: &Context, kinds: &[Kind], app: &Key) -> kube::Result<()> {
    let children = kinds.iter().filter(|kind| kind.is_child());
    try_join_all(children.map(|kind| look_up(context, *kind, app))).await.map(drop)
}

async fn look_up(context: &Context, kind: Kind, app: &Key) -> kube::Result<()> {
    let cache = &context.caches[kind];
    let api = kind.api(&context.client, Some(&app.namespace));
    let known = cache.get(app);
    // Whatever a list or a watch tells meanwhile counts more, as after a write: nobody else asks or writes while this app is looked at.
    let asking = cache.writing(app);
    let found: Option<Incoming> = bounded(api.get_opt(&app.name)).await?;
    match found.filter(|found| kind.lists(found)) {
        Some(found) => drop(asking.answered(Object::new(kind, found))),
        // Gone since a page of the list was made, and so known to be for this look: an older page may bring it back until the watch
        // tells of its end.
        None => drop(known.and_then(|known| cache.remove(app, &known.uid))),
    }
    Ok(())
}
