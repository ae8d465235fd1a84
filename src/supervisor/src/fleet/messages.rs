//! What goes into the fleet, and what comes out.

use super::{Cause, Generation, Notice, Slot, WorkerId};
use crate::sys::process::{ExitStatus, Pid};
use crate::sys::signal::Signal;
use std::net::SocketAddr;
use std::time::Duration;

/// What happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// The supervisor starts.
    Begin,
    /// A process runs, as asked for by [`Action::Start`].
    Started {
        /// Which start.
        generation: Generation,
        /// Its first process.
        pid: Pid,
    },
    /// The command could not even be run.
    StartFailed {
        /// Which start.
        generation: Generation,
        /// What a shell would exit with.
        code: i32,
        /// Trying again will not help.
        permanent: bool,
        /// What the user needs to know.
        why: String,
    },
    /// A process of the tree listens on this address.
    Listens {
        /// Which start.
        generation: Generation,
        /// Where.
        address: SocketAddr,
    },
    /// A process of the tree takes the declared port for itself alone.
    KeepsPort {
        /// Which start.
        generation: Generation,
    },
    /// A process of the tree listens on a Unix socket.
    ListensOnUnix {
        /// Which start.
        generation: Generation,
        /// Its path, or `@` and an abstract name.
        name: String,
    },
    /// The tree's first process ended.
    Exited {
        /// Which start.
        generation: Generation,
        /// How.
        status: ExitStatus,
    },
    /// Nothing is left of the tree.
    Gone {
        /// Which start.
        generation: Generation,
    },
    /// A start that was asked to drain has no connections left that it could finish.
    Quiet {
        /// Which start.
        generation: Generation,
    },
    /// Every worker is to be replaced, one after the other.
    Roll,
    /// One worker is to be replaced.
    Replace {
        /// The start that has had its time.
        generation: Generation,
        /// Why.
        cause: Cause,
    },
    /// A start takes no connections any more, and will not do so again.
    Hung {
        /// Which start.
        generation: Generation,
        /// For how long.
        time: Duration,
    },
    /// There should be so many workers now.
    Resize {
        /// At least one.
        workers: u32,
    },
    /// Nothing is left of any tree (looked for only while stopping).
    Childless,
    /// Somebody wants all of it to end.
    StopRequested {
        /// By this signal.
        signal: Signal,
        /// There is a person at a terminal and no endpoint to leave.
        interactive: bool,
    },
    /// Time has passed.
    Tick,
}

/// What to do about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Run the command; answer with [`Event::Started`] or [`Event::StartFailed`].
    Start {
        /// As which worker.
        worker: WorkerId,
        /// The number of this start.
        generation: Generation,
        /// With the sockets of this slot.
        slot: Slot,
    },
    /// Let the tree finish what it has begun; answer with [`Event::Quiet`].
    Drain {
        /// Which start.
        generation: Generation,
        /// Connections that were on their way must have had so much time to arrive.
        settle: Duration,
        /// How long there is.
        patience: Duration,
    },
    /// Send the stop signal to the tree.
    Terminate(Generation),
    /// SIGABRT to the tree: it hangs, and a trace of where may help its author.
    Abort(Generation),
    /// SIGKILL to what is left of the tree.
    Kill(Generation),
    /// The stop signal to every process below us that has not got it yet.
    TerminateAll,
    /// SIGKILL to every process below us.
    KillAll,
    /// [`super::Fleet::takes_connections`] has changed.
    Steer,
    /// Tell the user.
    Tell(Notice),
    /// End with this code.
    Exit(i32),
}
