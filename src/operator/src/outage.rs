//! Notes whether the API server can be reached, and says so once: everything else that fails meanwhile fails for this reason.

use std::{
    error::Error as _,
    sync::Mutex,
    time::{Duration, Instant},
};

use crate::{error::chain, leader::fence::NotLeader, sync::lock};

/// Outages within so long of the one that was last told are not told again.
const QUIET: Duration = Duration::from_mins(1);

/// Whether the API server can be reached.
#[derive(Debug, Default)]
pub(crate) struct Outage(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    since: Option<Instant>,
    told: Option<Instant>,
    /// Whether this outage was told, and so its end will be.
    telling: bool,
}

impl Outage {
    /// A request got no answer.
    pub(crate) fn failed(&self, error: &kube::Error) {
        if refused_here(error) {
            return;
        }
        let mut state = lock(&self.0);
        if state.since.is_some() {
            return;
        }
        let now = Instant::now();
        state.since = Some(now);
        state.telling = state.told.is_none_or(|told| now.duration_since(told) >= QUIET);
        if state.telling {
            state.told = Some(now);
            tracing::warn!("the API server can't be reached, and is tried again: {}", chain(error));
        }
    }

    /// A request got one, whatever it was.
    pub(crate) fn answered(&self) {
        let mut state = lock(&self.0);
        let Some(since) = state.since.take() else { return };
        if state.telling {
            tracing::info!(seconds = since.elapsed().as_secs(), "the API server can be reached again");
        }
    }

    /// Whether the last request got no answer.
    pub(crate) fn ongoing(&self) -> bool {
        lock(&self.0).since.is_some()
    }
}

/// Whether the request never left for want of the lease.
fn refused_here(error: &kube::Error) -> bool {
    let mut cause = error.source();
    while let Some(error) = cause {
        if error.is::<NotLeader>() {
            return true;
        }
        // An I/O error shows its own cause only this way.
        let inner = error.downcast_ref::<std::io::Error>().and_then(std::io::Error::get_ref);
        if inner.is_some_and(|inner| inner.is::<NotLeader>()) {
            return true;
        }
        cause = error.source();
    }
    matches!(error, kube::Error::Service(error) if error.is::<NotLeader>())
}
