//! The process trees of the workers: their ends, and signals to all of each.

use super::Supervisor;
use crate::broker::Watched;
use crate::fleet::{Event, Generation, Phase, Slot, Time};
use crate::launch::GENERATION_VARIABLE;
use crate::procfs;
use crate::slots::GroupId;
use crate::sys::process::{self, ExitStatus, Pid, Reaped};
use crate::sys::signal::Signal;
use crate::tree::{self, Member, Root};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

/// One start of a worker, as far as the kernel is concerned.
#[derive(Debug)]
pub(super) struct Tree {
    pub(super) root: Pid,
    pub(super) slot: Slot,
    /// Its calls, until the last process that could make one has ended.
    pub(super) watched: Option<Watched>,
    pub(super) listens: Vec<SocketAddr>,
    /// From then on it counts as listening in this group, whether or not it says so.
    pub(super) may_listen: Option<(Time, GroupId)>,
    /// Its calls do not tell whether it listens.
    pub(super) blind: bool,
    /// It finishes what it has begun.
    pub(super) draining: Option<Draining>,
    /// It was asked to stop. Many programs take a second request for impatience.
    pub(super) asked_to_stop: bool,
}

/// A tree that gets no new connections.
#[derive(Debug, Clone, Copy)]
pub(super) struct Draining {
    /// Its queue must have been empty for so long.
    pub(super) settle: Duration,
    /// Since when it has been.
    pub(super) empty_since: Option<Time>,
}

impl Supervisor {
    /// Collects every ended child, workers and orphans alike.
    pub(super) fn reap(&mut self) {
        loop {
            match process::reap() {
                Ok(Reaped::Child(pid, status)) => self.ended(pid, status),
                Ok(Reaped::NoneEnded) => break,
                Ok(Reaped::NoChildren) => {
                    self.find_empty_trees(&[]);
                    if self.fleet.is_stopping() {
                        self.dispatch(Event::Childless);
                    }
                    return;
                }
                Err(e) => return self.trouble(format!("cannot reap: {e}")),
            }
        }
        let some_ended = self.trees.keys().any(|generation| self.has_ended(*generation));
        if some_ended {
            let members = tree_members(self.pid, &roots(&self.trees));
            self.find_empty_trees(&members);
        }
    }

    pub(super) fn ended(&mut self, pid: Pid, status: ExitStatus) {
        let status = match status {
            ExitStatus::Signal(Signal::KILL) if self.housekeeping.ran_out_of_memory(&self.cgroup) => {
                ExitStatus::OutOfMemory
            }
            status => status,
        };
        let generation =
            self.trees.iter().find(|(_, tree)| tree.root == pid).map(|(generation, _)| *generation);
        let Some(generation) = generation.filter(|generation| !self.has_ended(*generation)) else { return };
        self.dispatch(Event::Exited { generation, status });
        // What the first process left behind would go on serving, unsupervised.
        if self.trees.get(&generation).is_some_and(|tree| !tree.asked_to_stop) {
            self.ask_to_stop(generation);
        }
    }

    pub(super) fn has_ended(&self, generation: Generation) -> bool {
        self.fleet.instance(generation).is_none_or(|i| matches!(i.phase, Phase::Ended { .. }))
    }

    /// Forgets trees whose first process ended and of which nothing is left.
    pub(super) fn find_empty_trees(&mut self, members: &[Member]) {
        let empty: Vec<Generation> = self
            .trees
            .keys()
            .copied()
            .filter(|generation| self.has_ended(*generation))
            .filter(|generation| !members.iter().any(|member| member.generation == Some(*generation)))
            .collect();
        for generation in empty {
            self.trees.remove(&generation);
            self.dispatch(Event::Gone { generation });
        }
    }

    pub(super) fn ask_to_stop(&mut self, generation: Generation) {
        if let Some(tree) = self.trees.get_mut(&generation) {
            tree.asked_to_stop = true;
        }
        self.signal_tree(generation, self.flags.stop_signal);
    }

    pub(super) fn ask_all_to_stop(&mut self) {
        let asked: Vec<Generation> = self
            .trees
            .iter()
            .filter(|(_, tree)| tree.asked_to_stop)
            .map(|(generation, _)| *generation)
            .collect();
        let members = tree_members(self.pid, &roots(&self.trees)).into_iter();
        let rest =
            members.filter(|member| member.generation.is_none_or(|generation| !asked.contains(&generation)));
        self.signal(&rest.collect::<Vec<_>>(), self.flags.stop_signal);
        for tree in self.trees.values_mut() {
            tree.asked_to_stop = true;
        }
    }

    pub(super) fn signal_tree(&self, generation: Generation, signal: Signal) {
        let members = tree_members(self.pid, &roots(&self.trees));
        let mine: Vec<Member> =
            members.into_iter().filter(|member| member.generation == Some(generation)).collect();
        self.signal(&mine, signal);
    }

    pub(super) fn signal_all(&self, signal: Signal) {
        self.signal(&tree_members(self.pid, &roots(&self.trees)), signal);
    }

    /// Sends each process the signal once: by its group where that is a worker's, else by itself.
    pub(super) fn signal(&self, members: &[Member], signal: Signal) {
        for tree in self.trees.values() {
            if members.iter().any(|member| member.process.group == tree.root) {
                process::kill_group(tree.root, signal);
            }
        }
        let is_group_of_ours = |group: Pid| self.trees.values().any(|tree| tree.root == group);
        for member in members.iter().filter(|member| !is_group_of_ours(member.process.group)) {
            process::kill(member.process.pid, signal);
        }
    }
}

pub(super) fn roots(trees: &BTreeMap<Generation, Tree>) -> Vec<Root> {
    trees.iter().map(|(generation, tree)| Root { generation: *generation, pid: tree.root }).collect()
}

pub(super) fn tree_members(supervisor: Pid, roots: &[Root]) -> Vec<Member> {
    let marker = |pid| procfs::environment_variable(pid, GENERATION_VARIABLE)?.parse().ok();
    tree::members(&procfs::processes(), supervisor, roots, marker)
}
