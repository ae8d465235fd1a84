//! Which processes belong to which worker.

use crate::fleet::Generation;
use crate::procfs::Process;
use crate::sys::process::Pid;
use std::collections::BTreeMap;

/// One start of a worker, by its first process, which led a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Root {
    /// Which start.
    pub generation: Generation,
    /// Its first process; it may be dead.
    pub pid: Pid,
}

/// A process below the supervisor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Member {
    /// The process.
    pub process: Process,
    /// The start that it belongs to. `None`: an orphan that left every trace behind.
    pub generation: Option<Generation>,
}

/// All living processes below the supervisor.
///
/// A process belongs to the root that its parents lead to. Where they lead to the supervisor past every root, its
/// parent died; then the session tells, and for daemons, which leave that too, `marker`: the number of the start from
/// the environment.
pub fn members(
    processes: &[Process],
    supervisor: Pid,
    roots: &[Root],
    marker: impl Fn(Pid) -> Option<Generation>,
) -> Vec<Member> {
    let by_pid: BTreeMap<Pid, &Process> = processes.iter().map(|process| (process.pid, process)).collect();
    let of_session = |session: Pid| roots.iter().find(|root| root.pid == session).map(|root| root.generation);
    let belongs = |process: &Process| -> Option<Option<Generation>> {
        let mut at = process;
        // The table was not read in one instant; whatever it says, the climb has to end.
        for _ in 0..=processes.len() {
            if let Some(root) = roots.iter().find(|root| root.pid == at.pid) {
                return Some(Some(root.generation));
            }
            if at.parent == supervisor {
                let generation = of_session(process.session).or_else(|| of_session(at.session));
                return Some(generation.or_else(|| marker(process.pid)));
            }
            at = by_pid.get(&at.parent)?;
        }
        None
    };
    processes
        .iter()
        .filter(|process| process.pid != supervisor && !process.zombie)
        .filter_map(|process| Some(Member { process: *process, generation: belongs(process)? }))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SUPERVISOR: Pid = 10;

    fn process(pid: Pid, parent: Pid, session: Pid) -> Process {
        Process { pid, parent, group: session, session, zombie: false, cpu_ticks: 0, resident_pages: 0 }
    }

    #[test]
    fn every_way_to_belong() {
        let table = [
            process(SUPERVISOR, 1, 10),
            process(1, 0, 1),
            process(20, SUPERVISOR, 20), // the root of generation 1: npm
            process(21, 20, 20),         // its shell
            process(22, 21, 20),         // its server
            process(30, SUPERVISOR, 30), // the root of generation 2
            process(31, 30, 31),         // a child in a session of its own
            process(40, SUPERVISOR, 20), // an orphan that stayed in the session
            process(41, 40, 20),
            process(50, SUPERVISOR, 50), // a daemon with the marker
            process(51, 50, 50),
            process(60, SUPERVISOR, 60), // a daemon without
            process(70, 1, 70),          // none of ours
            process(80, 999, 80),        // its parent ended while the table was read
            Process { zombie: true, ..process(90, SUPERVISOR, 20) },
        ];
        let roots = [Root { generation: 1, pid: 20 }, Root { generation: 2, pid: 30 }];
        let marker = |pid| matches!(pid, 50 | 51).then_some(2);
        let found: Vec<(Pid, Option<Generation>)> = members(&table, SUPERVISOR, &roots, marker)
            .into_iter()
            .map(|member| (member.process.pid, member.generation))
            .collect();
        let wanted = [
            (20, Some(1)),
            (21, Some(1)),
            (22, Some(1)),
            (30, Some(2)),
            (31, Some(2)),
            (40, Some(1)),
            (41, Some(1)),
            (50, Some(2)),
            (51, Some(2)),
            (60, None),
        ];
        assert_eq!(found, wanted);
    }

    #[test]
    fn a_table_that_goes_in_circles() {
        let table = [process(20, 21, 20), process(21, 20, 20)];
        assert_eq!(members(&table, SUPERVISOR, &[], |_| None), []);
    }
}
