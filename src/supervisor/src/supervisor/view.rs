//! What the admin port shows of the supervisor.

use super::Supervisor;
use super::trees::{roots, tree_members};
use crate::admin::{self, Response, Snapshot, Stats, WorkerSnapshot};
use crate::app_metrics::{self, Target};
use crate::fleet::{Generation, Phase, Time, Worker};
use crate::procfs;
use crate::sharing::Mode;
use crate::sys::diag;
use crate::sys::process::{self, Pid};
use crate::tree::Member;
use std::collections::BTreeSet;
use std::sync::atomic::Ordering;
use std::time::Duration;

impl Supervisor {
    /// Everything as it is now. What Node tells is as it was at the last look: answers to this one come too late.
    pub(super) fn snapshot(&mut self) -> Snapshot {
        let generations: Vec<Generation> = self.trees.keys().copied().collect();
        for generation in generations {
            self.admin.say(generation, "stats\n");
        }
        let members = tree_members(self.pid, &roots(&self.trees));
        let accepted = self.accepted();
        let now = self.now();
        Snapshot {
            now,
            readiness: self.fleet.readiness(now),
            stopping: self.fleet.is_stopping(),
            workers: self.workers.count,
            workers_reason: self.workers.reason.clone(),
            mode: self.mode.clone(),
            ports: self.flags.ports.clone(),
            periods: self.cgroup.periods(),
            processes: self
                .fleet
                .workers()
                .iter()
                .map(|worker| self.worker_snapshot(worker, now, &members, &accepted))
                .collect(),
        }
    }

    pub(super) fn worker_snapshot(
        &self,
        worker: &Worker,
        now: Time,
        members: &[Member],
        accepted: &BTreeSet<u64>,
    ) -> WorkerSnapshot {
        let instance = worker.current.and_then(|generation| self.fleet.instance(generation));
        let tree = worker.current.and_then(|generation| self.trees.get(&generation));
        let state = match instance.map(|instance| instance.phase) {
            None => "waiting",
            Some(Phase::Starting) => "starting",
            Some(Phase::Listening { .. }) => "listening",
            Some(Phase::Draining { .. }) => "draining",
            Some(Phase::Stopping { .. }) => "stopping",
            Some(Phase::Ended { .. }) => "ended",
        };
        let generation = worker.current.unwrap_or_default();
        let mine = || members.iter().filter(|m| m.generation == Some(generation)).map(|m| m.process);
        WorkerSnapshot {
            id: worker.id,
            state,
            pid: instance.and_then(|instance| instance.pid),
            running: instance.map(|instance| now.saturating_sub(instance.started)),
            ready: instance.is_some_and(|instance| instance.listening_since().is_some()),
            shortcoming: self.fleet.shortcoming(worker, now).map(|reason| reason.to_string()),
            restarts: worker.restarts,
            last_exit: worker.last_exit,
            listens: tree.map(|tree| tree.listens.clone()).unwrap_or_default(),
            queue: self.broker.slots.queue_length(worker.slot),
            connections: mine().map(|p| count_of(p.pid, accepted)).sum(),
            cpu: Duration::from_millis(
                mine().map(|p| p.cpu_ticks).sum::<u64>() * 1000 / process::ticks_per_second(),
            ),
            resident: mine().map(|p| p.resident_pages).sum::<u64>() * process::page_size(),
            node: worker.current.and_then(|generation| self.admin.stats(generation).reduce(Stats::add)),
        }
    }

    /// Has the app's own metrics collected. Answers what is to be said if that is not possible.
    pub(super) fn app_metrics(&mut self, id: u64) -> Option<Response> {
        let Some(source) = &self.flags.app_metrics else {
            return Some(admin::text(404, "start the supervisor with --app-metrics /PATH\n"));
        };
        if self.mode != Mode::Slots {
            return Some(admin::text(
                501,
                "workers that share the port by themselves cannot be asked one by one\n",
            ));
        }
        if self.collecting.load(Ordering::Acquire) {
            return Some(admin::text(503, "they are being collected already\n"));
        }
        let port = source.port.or(self.flags.main_port());
        let targets = self.fleet.workers().iter().filter_map(|worker| {
            let tree = self.trees.get(&worker.current?)?;
            let address = tree.listens.iter().find(|address| Some(address.port()) == port)?;
            Some(Target { worker: worker.id, slot: tree.slot, address: *address })
        });
        let (path, targets) = (source.path.clone(), targets.collect());
        if let Some(client) = self.admin.give_away(&self.poll, id) {
            app_metrics::answer(client, path, targets, &self.collecting);
        }
        None
    }

    /// Every connection to a declared port that some program has accepted, by its socket's inode.
    pub(super) fn accepted(&self) -> BTreeSet<u64> {
        let connections = diag::connections(&self.flags.ports).unwrap_or_default();
        connections.into_iter().map(|connection| connection.inode).filter(|inode| *inode != 0).collect()
    }
}

/// How many of these sockets a process has open.
fn count_of(pid: Pid, sockets: &BTreeSet<u64>) -> u32 {
    if sockets.is_empty() {
        return 0;
    }
    let mine = procfs::sockets(pid).filter(|inode| sockets.contains(inode)).count();
    u32::try_from(mine).unwrap_or(u32::MAX)
}
