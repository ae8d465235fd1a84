//! Whether the pod should get traffic, and if not, why, in words that lead to the remedy.

use super::{Action, Fleet, Instance, Notice, Phase, Time, Worker, WorkerId};
use crate::sys::process::ExitStatus;
use std::fmt;
use std::net::IpAddr;
use std::time::Duration;

/// A worker that has failed this often in a row does not hold up the others any longer.
const PROVEN_TO_FAIL: u32 = 3;
/// How long a worker may take before its silence is worth a line in the log.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);

/// The answer of `/readyz`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Readiness {
    /// Send traffic.
    Ready,
    /// Do not.
    NotReady(Vec<Reason>),
}

/// Why a pod is not ready. Its text is for the person who has to do something about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reason {
    /// The pod is on its way out.
    Stopping,
    /// The worker listens, but on a port that nobody declared.
    WrongPort {
        /// Which worker.
        worker: WorkerId,
        /// Where it listens.
        port: u16,
        /// Where it was expected.
        declared: u16,
    },
    /// The worker listens where nobody outside the pod can reach it.
    LoopbackOnly {
        /// Which worker.
        worker: WorkerId,
        /// Where it listens.
        address: IpAddr,
    },
    /// The worker runs, but it does not listen yet.
    NotListening {
        /// Which worker.
        worker: WorkerId,
        /// For how long it has been running.
        waited: Duration,
        /// A Unix socket that it listens on.
        unix_socket: Option<String>,
    },
    /// The worker ended and waits for its next start.
    Restarting {
        /// Which worker.
        worker: WorkerId,
        /// How it ended.
        status: Option<ExitStatus>,
        /// Starts in a row that did not last.
        failures: u32,
    },
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stopping => f.write_str("stopping"),
            Self::WrongPort { worker, port, declared } => write!(
                f,
                "worker {worker} listens on port {port}; the declared port is {declared}: set spec.port or the app's PORT"
            ),
            Self::LoopbackOnly { worker, address } => {
                let everywhere = if address.is_ipv4() { "0.0.0.0" } else { "::" };
                write!(
                    f,
                    "worker {worker} listens on {address} only: nothing outside the pod can reach it; make it listen on {everywhere}"
                )
            }
            Self::NotListening { worker, waited, unix_socket: None } => {
                write!(f, "worker {worker} has not listened yet ({} s)", waited.as_secs())
            }
            Self::NotListening { worker, waited, unix_socket: Some(name) } => write!(
                f,
                "worker {worker} has not listened on a port yet, only on the Unix socket {name} ({} s)",
                waited.as_secs()
            ),
            Self::Restarting { worker, status: None, .. } => write!(f, "worker {worker} is about to start"),
            Self::Restarting { worker, status: Some(status), failures: 0 } => {
                write!(f, "worker {worker} ended ({status}) and is being restarted")
            }
            Self::Restarting { worker, status: Some(status), failures } => {
                let times =
                    if *failures == 1 { "once".to_owned() } else { format!("{failures} times in a row") };
                write!(f, "worker {worker} ended ({status}) soon after its start, {times}; see its own log")
            }
        }
    }
}

impl Fleet {
    /// Should the pod get traffic?
    ///
    /// At first only when every worker listens: a pod that takes its share of the traffic with a part of its workers
    /// is overloaded from the start. Later one that listens is enough: taking the pod away would not help the others.
    pub fn readiness(&self, now: Time) -> Readiness {
        if self.stop.is_some() {
            return Readiness::NotReady(vec![Reason::Stopping]);
        }
        let one_listens = self.serving().next().is_some();
        if self.was_complete && one_listens {
            return Readiness::Ready;
        }
        Readiness::NotReady(self.workers.iter().filter_map(|worker| self.shortcoming(worker, now)).collect())
    }

    /// Notes when every worker listens, or has proven that it will not while another does.
    pub(super) fn note_completeness(&mut self) {
        let listens = |worker: &Worker| {
            worker.current.and_then(|g| self.instances.get(&g)).is_some_and(|i| i.listening_since().is_some())
        };
        let settled = |worker: &Worker| listens(worker) || worker.failures >= PROVEN_TO_FAIL;
        if self.workers.iter().all(settled) && self.workers.iter().any(listens) {
            self.was_complete = true;
        }
    }

    /// What keeps this worker from serving, if anything does.
    pub fn shortcoming(&self, worker: &Worker, now: Time) -> Option<Reason> {
        let Some(instance) = worker.current.and_then(|generation| self.instances.get(&generation)) else {
            return Some(Reason::Restarting {
                worker: worker.id,
                status: worker.last_exit,
                failures: worker.failures,
            });
        };
        match instance.phase {
            Phase::Draining { .. } | Phase::Stopping { .. } => {
                Some(Reason::Restarting { worker: worker.id, status: worker.last_exit, failures: 0 })
            }
            Phase::Ended { status, .. } => Some(Reason::Restarting {
                worker: worker.id,
                status: Some(status),
                failures: worker.failures,
            }),
            Phase::Starting | Phase::Listening { .. } => self.reason(instance, now),
        }
    }

    /// What keeps a start that is to stay from serving.
    pub(super) fn reason(&self, instance: &Instance, now: Time) -> Option<Reason> {
        let worker = instance.worker;
        if instance.listening_since().is_some() {
            return None;
        }
        Some(match (instance.elsewhere, self.settings.main_port) {
            (Some(address), Some(declared)) if address.port() == declared => {
                Reason::LoopbackOnly { worker, address: address.ip() }
            }
            (Some(address), Some(declared)) => Reason::WrongPort { worker, port: address.port(), declared },
            _ => Reason::NotListening {
                worker,
                waited: now.saturating_sub(instance.started),
                unix_socket: instance.unix_socket.clone(),
            },
        })
    }

    /// When a silent worker is worth a line in the log.
    pub(super) fn complaint_due(&self, instance: &Instance) -> Option<Time> {
        let worker = self.workers.iter().find(|w| w.id == instance.worker)?;
        let due = instance.started + PATIENCE;
        let reason = self.shortcoming(worker, due)?;
        let told = worker.complained == Some(std::mem::discriminant(&reason));
        (instance.phase == Phase::Starting && !told).then_some(due)
    }

    /// Lets workers that listen in the wrong place be told about once more.
    pub(super) fn complain_again(&mut self) {
        for worker in &mut self.workers {
            let current = worker.current.and_then(|generation| self.instances.get(&generation));
            if current.is_some_and(|instance| instance.elsewhere.is_some()) {
                worker.complained = None;
            }
        }
    }

    /// Tells about workers that should listen by now, once for each reason.
    pub(super) fn complain(&mut self, now: Time) {
        let mut complaints = Vec::new();
        for instance in self.instances.values() {
            let due = self.complaint_due(instance).is_some_and(|due| due <= now);
            let worker = self.workers.iter().find(|w| w.id == instance.worker);
            if let Some(reason) = worker.filter(|_| due).and_then(|worker| self.shortcoming(worker, now)) {
                complaints.push((instance.worker, reason));
            }
        }
        for (id, reason) in complaints {
            if let Some(worker) = self.workers.iter_mut().find(|w| w.id == id) {
                worker.complained = Some(std::mem::discriminant(&reason));
            }
            self.actions.push(Action::Tell(Notice::Complaint(reason)));
        }
    }
}
