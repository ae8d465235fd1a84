//! What the kernel counts of this process, under the names that every exporter uses for it.

use std::fs;

use prometheus::{Counter, IntGauge};

use super::Maker;

/// CPU times and the start are counted in these for programs, on every architecture.
const TICKS_PER_SECOND: f64 = 100.0;

#[derive(Debug)]
pub(super) struct Process {
    cpu: Counter,
    resident: IntGauge,
    virtual_size: IntGauge,
    threads: IntGauge,
    open_files: IntGauge,
    max_files: IntGauge,
}

impl Process {
    pub(super) fn new(make: &Maker) -> Result<Self, prometheus::Error> {
        let start =
            make.gauge("process_start_time_seconds", "Start of the process, in seconds since 1970.")?;
        start.set(started().unwrap_or_default());
        Ok(Self {
            cpu: make.add(Counter::new("process_cpu_seconds_total", "CPU time, user and system.")?)?,
            resident: make.gauge("process_resident_memory_bytes", "Resident memory.")?,
            virtual_size: make.gauge("process_virtual_memory_bytes", "Size of the address space.")?,
            threads: make.gauge("process_threads", "Threads.")?,
            open_files: make.gauge("process_open_fds", "Open file descriptors.")?,
            max_files: make.gauge("process_max_fds", "How many file descriptors may be open.")?,
        })
    }

    /// What can't be read stays as it was.
    pub(super) fn fill(&self) {
        if let Some(stat) = read("stat").as_deref().and_then(Stat::parse) {
            self.cpu.inc_by((stat.cpu_seconds - self.cpu.get()).max(0.0));
        }
        let status = read("status").unwrap_or_default();
        let set = |gauge: &IntGauge, name: &str, unit: i64| {
            if let Some(number) = number_after(&status, name) {
                gauge.set(number.saturating_mul(unit));
            }
        };
        set(&self.resident, "VmRSS:", 1024);
        set(&self.virtual_size, "VmSize:", 1024);
        set(&self.threads, "Threads:", 1);
        if let Ok(files) = fs::read_dir("/proc/self/fd") {
            // The one through which they are read is among them.
            self.open_files.set(i64::try_from(files.count()).unwrap_or(i64::MAX).saturating_sub(1));
        }
        if let Some(most) = read("limits").and_then(|limits| number_after(&limits, "Max open files")) {
            self.max_files.set(most);
        }
    }
}

fn read(file: &str) -> Option<String> {
    fs::read_to_string(format!("/proc/self/{file}")).ok()
}

/// The number that follows `name` at the beginning of a line.
fn number_after(text: &str, name: &str) -> Option<i64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_ascii_whitespace().next()?.parse().ok()
}

/// Seconds since 1970 at which this process began.
fn started() -> Option<i64> {
    let boot = number_after(&fs::read_to_string("/proc/stat").ok()?, "btime")?;
    #[allow(clippy::cast_possible_truncation, reason = "whole seconds are meant")]
    let since_boot = Stat::parse(&read("stat")?)?.started_seconds as i64;
    Some(boot + since_boot)
}

/// Of `/proc/self/stat`.
#[derive(Debug, PartialEq)]
struct Stat {
    cpu_seconds: f64,
    /// After the machine's start.
    started_seconds: f64,
}

impl Stat {
    fn parse(text: &str) -> Option<Self> {
        // The name may contain anything, even a closing parenthesis.
        let (_, rest) = text.rsplit_once(") ")?;
        let field = |n: usize| rest.split_ascii_whitespace().nth(n - 3)?.parse::<f64>().ok();
        Some(Self {
            cpu_seconds: (field(14)? + field(15)?) / TICKS_PER_SECOND,
            started_seconds: field(22)? / TICKS_PER_SECOND,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{Stat, number_after};

    #[test]
    fn a_name_may_contain_anything() {
        let text = "42 (a) b (c) S 7 42 42 0 -1 4194560 1 0 0 0 120 30 0 0 20 0 1 0 5000 1 1";
        assert_eq!(Stat::parse(text), Some(Stat { cpu_seconds: 1.5, started_seconds: 50.0 }));
        for broken in ["", "42 (a", "42 (a) S 7", "x (a) S 7 1 1 1 1 1 1 1 1 1 1"] {
            assert_eq!(Stat::parse(broken), None, "{broken}");
        }
    }

    #[test]
    fn numbers_are_found_by_their_names() {
        let text = "VmHWM:\t 9 kB\nVmRSS:\t   123 kB\nMax open files            1024                 4096                 files\n";
        assert_eq!(number_after(text, "VmRSS:"), Some(123));
        assert_eq!(number_after(text, "Max open files"), Some(1024));
        assert_eq!(number_after("Max open files            unlimited", "Max open files"), None);
    }
}
