//! Notes whether the API server can be reached, and says so once: everything else that fails meanwhile fails for this reason.

use std::{
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
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(error) = cause {
        // An I/O error shows what it was made of in no other way.
        let made_of = error.downcast_ref::<std::io::Error>().and_then(std::io::Error::get_ref);
        if error.is::<NotLeader>()
            || made_of.is_some_and(<dyn std::error::Error + Send + Sync>::is::<NotLeader>)
        {
            return true;
        }
        cause = error.source();
    }
    false
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::{NotLeader, Outage};

    #[test]
    fn what_the_fence_refuses_is_no_outage() {
        let outage = Outage::default();
        outage.failed(&kube::Error::Service(NotLeader.into()));
        let socket = io::Error::new(io::ErrorKind::BrokenPipe, NotLeader);
        outage.failed(&kube::Error::Service(socket.into()));
        assert!(!outage.ongoing());
        outage.failed(&kube::Error::Service(io::Error::from(io::ErrorKind::ConnectionRefused).into()));
        assert!(outage.ongoing());
        outage.answered();
        assert!(!outage.ongoing());
    }
}
