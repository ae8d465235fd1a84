//! Looking at how the kept connections are spread, and evening them out.

use super::Supervisor;
use super::trees::{roots, tree_members};
use crate::fleet::Generation;
use crate::procfs;
use crate::sharing::Mode;
use crate::steering::Policy;
use std::collections::{BTreeMap, BTreeSet};

/// With more connections a look costs more, and chance makes them less uneven: one look is left out for each so many.
const PER_LOOK: usize = 4_000;
const MOST_LEFT_OUT: usize = 15;

impl Supervisor {
    /// See [`crate::balance`].
    pub(super) fn look_at_the_spread(&mut self) {
        if self.mode != Mode::Slots || self.flags.policy != Policy::Even || self.fleet.workers().len() < 2 {
            return;
        }
        let left_out = (self.housekeeping.census.len() / PER_LOOK).min(MOST_LEFT_OUT) as u64;
        if !self.housekeeping.round.is_multiple_of(left_out + 1) {
            return;
        }
        let listening: Vec<Generation> = self.listening().map(|(generation, _)| generation).collect();
        // Two files are read in no time; the kernel's list of connections takes it a millisecond even when it is empty.
        let open = if procfs::sockets_in_use() > listening.len() { self.accepted() } else { BTreeSet::new() };
        let (pid, roots) = (self.pid, roots(&self.trees));
        let owners = |wanted: &BTreeSet<u64>| {
            let mut owners = BTreeMap::new();
            for member in tree_members(pid, &roots) {
                let Some(generation) = member.generation else { continue };
                let sockets = procfs::sockets(member.process.pid).filter(|inode| wanted.contains(inode));
                owners.extend(sockets.map(|inode| (inode, generation)));
            }
            owners
        };
        let kept = self.housekeeping.census.observe(open, owners);
        let counts: Vec<(Generation, u32)> =
            listening.iter().map(|g| (*g, kept.get(g).copied().unwrap_or_default())).collect();
        let balance = &mut self.housekeeping.balance;
        let weights = |balance: &crate::balance::Balance| -> Vec<_> {
            listening.iter().map(|generation| balance.weight(*generation)).collect()
        };
        let before = weights(balance);
        let surplus = balance.observe(&counts);
        if weights(balance) != before {
            self.steer();
        }
        for (generation, count) in surplus {
            self.admin.say(generation, &format!("shed {count}\n"));
        }
    }
}
