//! Where, when and how something was measured.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs;

/// Where, when and how something was measured: what it takes to do it again.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Provenance {
    /// The program that wrote the document.
    pub program: String,
    /// Its version.
    pub version: String,
    /// Its arguments, as they were given.
    #[serde(default)]
    pub command_line: Vec<String>,
    /// What the order of the runs and the resampling come from.
    #[serde(default)]
    pub seed: Option<u64>,
    /// When it began, as in RFC 3339.
    #[serde(default)]
    pub started: String,
    /// When it ended.
    #[serde(default)]
    pub finished: String,
    /// The machine that made the load.
    #[serde(default)]
    pub machine: Option<Machine>,
    /// Versions of what took part, by name: the cluster, the runtimes, the images.
    #[serde(default)]
    pub versions: BTreeMap<String, String>,
    /// Files that it was read from.
    #[serde(default)]
    pub sources: Vec<String>,
    /// It was stopped before all runs were done.
    #[serde(default)]
    pub interrupted: bool,
}

/// A machine.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Machine {
    /// The processor's name.
    pub cpu: String,
    /// CPUs that this program may use.
    pub cpus: u64,
    /// Memory in bytes.
    pub memory_bytes: u64,
    /// The kernel's name and release.
    pub kernel: String,
    /// Mean number of waiting and running tasks over the last minute, before the first run.
    #[serde(default)]
    pub load_average: Option<f64>,
}

/// The machine's mean numbers of waiting and running tasks over the last one, five and fifteen minutes.
///
/// # Errors
/// If the kernel doesn't tell.
pub fn load_averages() -> std::io::Result<String> {
    let text = fs::read_to_string("/proc/loadavg")?;
    Ok(text.split_ascii_whitespace().take(3).collect::<Vec<_>>().join(" "))
}

/// Now, as in RFC 3339, to the second.
pub fn timestamp() -> String {
    jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

impl Provenance {
    /// Of this program, as it was called, on this machine, now.
    pub fn here(program: &str, version: &str, seed: Option<u64>) -> Self {
        Self {
            program: program.to_owned(),
            version: version.to_owned(),
            command_line: std::env::args().collect(),
            seed,
            started: timestamp(),
            machine: Some(Machine::here()),
            ..Self::default()
        }
    }
}

impl Machine {
    /// This one. What the kernel doesn't tell is empty.
    pub fn here() -> Self {
        let read = |path| fs::read_to_string(path).unwrap_or_default();
        let cpus = std::thread::available_parallelism().map_or(0, usize::from);
        Self {
            cpu: after_colon(&read("/proc/cpuinfo"), "model name").unwrap_or_default(),
            cpus: u64::try_from(cpus).unwrap_or(0),
            memory_bytes: after_colon(&read("/proc/meminfo"), "MemTotal")
                .and_then(|text| text.strip_suffix(" kB")?.parse::<u64>().ok())
                .unwrap_or(0)
                << 10,
            kernel: format!("Linux {}", read("/proc/sys/kernel/osrelease").trim()),
            load_average: load_averages().ok().and_then(|text| text.split(' ').next()?.parse().ok()),
        }
    }
}

/// What stands after the colon of the first line that begins with a name.
fn after_colon(text: &str, name: &str) -> Option<String> {
    let line = text.lines().find(|line| line.starts_with(name))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_is_known() {
        let here = Provenance::here("p", "1", Some(3));
        let machine = here.machine.unwrap();
        assert!(machine.cpus > 0 && machine.memory_bytes > 1 << 20 && machine.kernel.len() > 6);
        assert_eq!(load_averages().unwrap().split(' ').count(), 3);
        assert!(here.started.ends_with('Z') && here.started.len() == 20, "{}", here.started);
    }
}
