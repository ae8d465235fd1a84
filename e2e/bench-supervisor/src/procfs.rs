//! What the kernel counts: CPU time, memory, wake-ups, children.

use anyhow::{Context, Result};
use std::fs;
use std::time::Duration;

/// CPU times are counted in ticks: 100 a second for programs, on every architecture.
fn ticks(count: u64) -> Duration {
    Duration::from_millis(count.saturating_mul(10))
}

/// A process, as /proc/PID/stat has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stat {
    pid: i32,
    parent: i32,
    /// Ticks, user and system.
    cpu: u64,
}

fn parse_stat(text: &str) -> Option<Stat> {
    let (pid, rest) = text.split_once(" (")?;
    // The name may contain anything, even a closing parenthesis.
    let (_, rest) = rest.rsplit_once(") ")?;
    let field = |n: usize| rest.split_ascii_whitespace().nth(n - 3);
    let user: u64 = field(14)?.parse().ok()?;
    let system: u64 = field(15)?.parse().ok()?;
    Some(Stat { pid: pid.parse().ok()?, parent: field(4)?.parse().ok()?, cpu: user.checked_add(system)? })
}

fn processes() -> Result<Vec<Stat>> {
    let entries = fs::read_dir("/proc").context("can't read /proc")?;
    let texts = entries.flatten().filter_map(|entry| fs::read_to_string(entry.path().join("stat")).ok());
    Ok(texts.filter_map(|text| parse_stat(&text)).collect())
}

/// A process and all that came from it.
fn tree(root: i32) -> Result<Vec<Stat>> {
    let all = processes()?;
    let mut found: Vec<Stat> = all.iter().filter(|stat| stat.pid == root).copied().collect();
    let mut next = 0;
    while let Some(parent) = found.get(next).map(|stat| stat.pid) {
        found.extend(all.iter().filter(|stat| stat.parent == parent));
        next += 1;
    }
    Ok(found)
}

/// The ids of all that came from a process.
pub(crate) fn descendants(root: i32) -> Result<Vec<i32>> {
    Ok(tree(root)?.into_iter().map(|stat| stat.pid).filter(|pid| *pid != root).collect())
}

/// CPU time that a process and those that came from it, and still live, have used.
pub(crate) fn tree_cpu(root: i32) -> Result<Duration> {
    Ok(ticks(tree(root)?.iter().map(|stat| stat.cpu).sum()))
}

/// CPU time of one process.
pub(crate) fn process_cpu(pid: u32) -> Result<Duration> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    Ok(ticks(parse_stat(&text).context("/proc/PID/stat isn't as expected")?.cpu))
}

/// CPU time that this machine's processes have used since it started.
pub(crate) fn machine_cpu() -> Result<Duration> {
    let text = fs::read_to_string("/proc/stat")?;
    let line = text.lines().next().unwrap_or_default();
    Ok(ticks(busy_ticks(line).context("/proc/stat isn't as expected")?))
}

/// user, nice, system, (idle, iowait,) irq, softirq, steal.
fn busy_ticks(line: &str) -> Option<u64> {
    let fields: Vec<u64> =
        line.split_ascii_whitespace().skip(1).filter_map(|text| text.parse().ok()).collect();
    [0, 1, 2, 5, 6, 7].iter().map(|n| fields.get(*n).copied()).sum()
}

/// A number from /proc/PID/status.
pub(crate) fn status(pid: i32, name: &str) -> Result<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    let number = line.and_then(|line| line.split_ascii_whitespace().next()?.parse().ok());
    number.with_context(|| format!("/proc/{pid}/status has no {name}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_may_contain_anything() {
        let text = "42 (a) b (c) S 7 42 42 0 -1 4194560 1 0 0 0 120 30 0 0 20 0 1 0 100 1 1";
        assert_eq!(parse_stat(text), Some(Stat { pid: 42, parent: 7, cpu: 150 }));
        for broken in ["", "42 (a", "42 (a) S 7", "x (a) S 7 1 1 1 1 1 1 1 1 1 1 1 1"] {
            assert_eq!(parse_stat(broken), None, "{broken}");
        }
    }

    #[test]
    fn waiting_is_not_work() {
        assert_eq!(busy_ticks("cpu  1 2 4 1000 2000 8 16 32 64 128"), Some(63));
        assert_eq!(busy_ticks("cpu  1 2"), None);
    }

    #[test]
    fn this_process_is_found() {
        let pid = i32::try_from(std::process::id()).unwrap();
        assert!(tree(pid).unwrap().iter().any(|stat| stat.pid == pid));
        assert!(status(pid, "VmRSS").unwrap() > 0);
        assert!(machine_cpu().unwrap() >= process_cpu(std::process::id()).unwrap());
    }
}
