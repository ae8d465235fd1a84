//! Each worker's share of the container's CPUs and memory, in the variables that runtimes look at.
//!
//! Runtimes see the whole container and size themselves for it; N of them would take N times what there is. Variables
//! that the container has already stay as they are.

use crate::launch::{Rule, Variable};
use crate::limits::CpuLimit;
use std::ffi::{OsStr, OsString};

/// What is shared, by how many.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Share {
    /// The container's CPU limit.
    pub cpu: Option<CpuLimit>,
    /// CPUs that the machine offers.
    pub machine_cpus: u64,
    /// The container's memory limit in bytes.
    pub memory: Option<u64>,
    /// WORKERS.
    pub workers: u64,
    /// Each worker is a copy of the command; else one process has them all.
    pub copies: bool,
}

/// Part of a worker's memory that its JavaScript heap may take; the rest is for buffers, code and stacks.
const HEAP_PER_MILLE: u64 = 750;
/// Node does not start properly with less, in megabytes.
const LEAST_HEAP: u64 = 64;
/// What libuv has by itself for each process.
const LIBUV_THREADS: u64 = 4;

impl Share {
    /// The variables of one worker. `own_options`: the container's `NODE_OPTIONS`.
    pub fn variables(&self, command: &[OsString], own_options: Option<&OsStr>) -> Vec<Variable> {
        let mut variables = Vec::new();
        let mut default = |name: &str, value: u64| {
            variables.push(Variable { name: name.into(), value: value.to_string(), rule: Rule::Default });
        };
        if let Some(millis) = self.millis_of_cpu().filter(|_| self.copies) {
            let whole = millis.div_ceil(1000).max(1);
            default("GOMAXPROCS", whole);
            default("OMP_NUM_THREADS", whole);
            // These threads mostly wait for files and name servers: below two, one slow answer would block all.
            let threads = (millis * LIBUV_THREADS).div_ceil(1000).clamp(2, LIBUV_THREADS);
            default("UV_THREADPOOL_SIZE", threads);
        }
        if let Some(megabytes) = self.heap_megabytes().filter(|_| !says_itself(command, own_options)) {
            let value = format!("--max-old-space-size={megabytes}");
            variables.push(Variable { name: "NODE_OPTIONS".into(), value, rule: Rule::Append });
        }
        variables
    }

    /// One worker's thousandths of a CPU. `None`: it has all that the machine offers.
    fn millis_of_cpu(&self) -> Option<u64> {
        let all = match self.cpu {
            Some(limit) => limit.quota.saturating_mul(1000) / limit.period,
            None if self.workers > 1 => self.machine_cpus * 1000,
            None => return None,
        };
        Some(all / self.workers.max(1))
    }

    /// A single worker may take what Node's own rule gives it.
    fn heap_megabytes(&self) -> Option<u64> {
        let each = self.memory.filter(|_| self.workers > 1)? / self.workers;
        Some((each / 1000 * HEAP_PER_MILLE / (1 << 20)).max(LEAST_HEAP))
    }
}

/// Has the app its own limit for the heap?
fn says_itself(command: &[OsString], options: Option<&OsStr>) -> bool {
    let mut words = command.iter().map(OsString::as_os_str).chain(options).filter_map(OsStr::to_str);
    words.any(|word| {
        let word = word.replace('_', "-");
        word.contains("--max-old-space-size") || word.contains("--max-heap-size")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn share(millis: Option<u64>, memory: Option<u64>, workers: u64) -> Share {
        let cpu = millis.map(|millis| CpuLimit { quota: millis * 100, period: 100_000 });
        Share { cpu, machine_cpus: 8, memory: memory.map(|n| n * MIB), workers, copies: true }
    }

    fn shown(share: &Share) -> String {
        let variables = share.variables(&[], None);
        variables.iter().map(|v| format!("{}={}", v.name, v.value)).collect::<Vec<_>>().join(" ")
    }

    /// golang#73193, kuma#7982: each of N workers takes all CPUs. nodejs#64646, #30173: N heaps exceed the limit.
    #[test]
    fn golang_73193_and_nodejs_64646_what_there_is_is_divided() {
        for (share, wanted) in [
            (share(None, None, 1), ""),
            (share(Some(3000), None, 1), "GOMAXPROCS=3 OMP_NUM_THREADS=3 UV_THREADPOOL_SIZE=4"),
            (share(Some(3000), None, 3), "GOMAXPROCS=1 OMP_NUM_THREADS=1 UV_THREADPOOL_SIZE=4"),
            (share(Some(500), None, 1), "GOMAXPROCS=1 OMP_NUM_THREADS=1 UV_THREADPOOL_SIZE=2"),
            (share(Some(5000), None, 2), "GOMAXPROCS=3 OMP_NUM_THREADS=3 UV_THREADPOOL_SIZE=4"),
            (share(None, None, 4), "GOMAXPROCS=2 OMP_NUM_THREADS=2 UV_THREADPOOL_SIZE=4"),
            (
                share(Some(3000), Some(1200), 3),
                "GOMAXPROCS=1 OMP_NUM_THREADS=1 UV_THREADPOOL_SIZE=4 NODE_OPTIONS=--max-old-space-size=299",
            ),
            (share(None, Some(450), 1), ""),
            (
                Share { copies: false, ..share(Some(3000), Some(100), 3) },
                "NODE_OPTIONS=--max-old-space-size=64",
            ),
        ] {
            assert_eq!(shown(&share), wanted);
        }
    }

    #[test]
    fn the_apps_own_heap_limit_stays() {
        let share = share(None, Some(1000), 2);
        let has_heap = |command: &[&str], options: Option<&str>| {
            let command: Vec<OsString> = command.iter().map(Into::into).collect();
            share.variables(&command, options.map(OsStr::new)).iter().any(|v| v.name == "NODE_OPTIONS")
        };
        assert!(has_heap(&["node", "server.js"], Some("--no-warnings")));
        assert!(!has_heap(&["node", "--max_old_space_size=100", "server.js"], None));
        assert!(!has_heap(&["npm", "start"], Some("--no-warnings --max-old-space-size=100")));
    }
}
