//! What the admin port shows, as it was at one moment.

use super::Stats;
use crate::cgroup::Periods;
use crate::fleet::{Readiness, Restarts, Time};
use crate::sharing::Mode;
use crate::sys::process::{ExitStatus, Pid};
use std::net::SocketAddr;
use std::time::Duration;

/// Everything.
#[derive(Debug, Clone)]
pub(crate) struct Snapshot {
    pub(crate) now: Time,
    pub(crate) readiness: Readiness,
    pub(crate) stopping: bool,
    /// WORKERS, and where it comes from.
    pub(crate) workers: u32,
    pub(crate) workers_reason: String,
    pub(crate) mode: Mode,
    pub(crate) ports: Vec<u16>,
    /// Periods of the container's CPU limit.
    pub(crate) periods: Option<Periods>,
    pub(crate) processes: Vec<WorkerSnapshot>,
}

/// One copy of the command.
#[derive(Debug, Clone)]
pub(crate) struct WorkerSnapshot {
    pub(crate) id: u32,
    pub(crate) state: &'static str,
    pub(crate) pid: Option<Pid>,
    /// Since its process was started.
    pub(crate) running: Option<Duration>,
    /// It takes connections.
    pub(crate) ready: bool,
    pub(crate) shortcoming: Option<String>,
    pub(crate) restarts: Restarts,
    pub(crate) last_exit: Option<ExitStatus>,
    pub(crate) listens: Vec<SocketAddr>,
    /// Connections that wait to be accepted.
    pub(crate) queue: u32,
    /// Open connections to the declared ports that it has accepted.
    pub(crate) connections: u32,
    /// CPU time of its process tree.
    pub(crate) cpu: Duration,
    /// Resident memory of its process tree, in bytes; shared pages count for each process.
    pub(crate) resident: u64,
    /// What Node tells from inside, summed over the processes of a tree.
    pub(crate) node: Option<Stats>,
}
