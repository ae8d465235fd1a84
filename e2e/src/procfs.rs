//! What the kernel counts of a process, for benchmarks.

use std::{fs, time::Duration};

use anyhow::{Context as _, Result};

/// CPU time of all threads, to the nanosecond. Threads that have ended don't count: the operator's live as long as it does.
///
/// # Errors
/// If there is no such process.
pub fn cpu(pid: u32) -> Result<Duration> {
    let threads = fs::read_dir(format!("/proc/{pid}/task"))?.flatten();
    let texts = threads.filter_map(|thread| fs::read_to_string(thread.path().join("schedstat")).ok());
    let times = texts.filter_map(|text| text.split_ascii_whitespace().next()?.parse::<u64>().ok());
    Ok(Duration::from_nanos(times.sum()))
}

/// Memory in MiB: `VmRSS` now, `VmHWM` at its highest.
///
/// # Errors
/// If there is no such process, or no such number.
pub fn memory_mib(pid: u32, name: &str) -> Result<f64> {
    let text = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    let kib: Option<u32> = line.and_then(|line| line.split_ascii_whitespace().next()?.parse().ok());
    Ok(f64::from(kib.with_context(|| format!("/proc/{pid}/status has no {name}"))?) / 1024.0)
}

#[cfg(test)]
mod tests {
    use super::{cpu, memory_mib};

    #[test]
    fn this_process_is_found() {
        let pid = std::process::id();
        assert!(memory_mib(pid, "VmRSS").unwrap() > 0.5);
        assert!(memory_mib(pid, "VmHWM").unwrap() >= memory_mib(pid, "VmRSS").unwrap() * 0.99);
        assert!(memory_mib(pid, "Nothing").is_err());
        assert!(!cpu(pid).unwrap().is_zero());
    }
}
