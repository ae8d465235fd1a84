//! Which of several operators works: the one that holds a Lease (`coordination.k8s.io`). The others watch, so that
//! their caches are complete when their turn comes, and write nothing.
//!
//! # Why nobody writes out of turn
//! A holder that was stopped, starved or cut off doesn't know that another one has taken over meanwhile. So holding the lease is not
//! something that it remembers, but a moment up to which it may write, counted from before the request that renewed the
//! lease was sent, on a clock that goes on while the process or the machine sleeps:
//! - a request that changes something is refused before it is sent once that moment has passed (`fence`);
//! - not even its bytes reach the socket: connections for writes look at the same moment before each write (`edge`);
//! - the API server is told how long it may work on the request, and the kernel how long it may try to deliver it: both end before
//!   another operator may take the lease.
//!
//! Clocks of different machines are never compared: that a lease has run out is seen by its having stayed the same for as long as
//! it lasts.
//!
//! # Layout
//! - [`clock`]: the clock
//! - `decide`: what to do about the lease, without I/O
//! - `lease`: reads and writes it
//! - `elector`: the loop of the two
//! - [`fence`]: lets writes through or doesn't
//! - [`edge`]: the client for the API server, with the fence at its sockets

pub mod clock;
pub mod edge;
pub mod fence;

mod decide;
mod elector;
mod lease;

use std::time::Duration;

use kube::Client;

pub(crate) use elector::{Elector, Leadership};
pub use fence::Fence;

/// How the lease is found and held.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The namespace that it is in.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Who holds it; no two operators may have the same.
    pub identity: String,
    /// How long it lasts after it was last renewed: until then nobody takes over from an operator that vanished.
    pub duration: Duration,
}

impl Settings {
    /// How long after a renewal the holder may still write; what is under way then has the rest of the duration to end.
    pub fn hold(&self) -> Duration {
        self.duration * 2 / 3
    }

    /// The fence that fits: closed until the lease is held.
    pub fn fence(&self) -> Fence {
        Fence::closed(self.duration.saturating_sub(self.hold()))
    }
}

/// What an operator takes part in an election with.
pub struct Candidate {
    /// How the lease is found and held.
    pub settings: Settings,
    /// The fence that [`edge::builder`] was given, so that sockets and lease go together.
    pub fence: Fence,
    /// The client by which the lease itself is written: one without a fence.
    pub client: Client,
}
