//! Finds this container's cgroup files, v1 and v2, and reads the limits that hold.
//!
//! A limit of any ancestor that can be seen holds too, so the smallest on the way up to the mount's root counts.
//! Inside a container the mount's root usually is the container's own cgroup.

use crate::limits::{CpuLimit, memory_limit};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The two limits that matter here.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Limits {
    /// CPU time.
    pub cpu: Option<CpuLimit>,
    /// Memory in bytes.
    pub memory: Option<u64>,
}

/// Where the files are. Found once: a process does not change its cgroup here, only the files change.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Cgroup {
    /// v2 directories, this process's own first, then its ancestors.
    v2: Vec<PathBuf>,
    /// The same for the v1 controllers `cpu` and `memory`.
    v1_cpu: Vec<PathBuf>,
    v1_memory: Vec<PathBuf>,
}

impl Cgroup {
    /// Of this process.
    pub fn find() -> Self {
        let read = |path| fs::read_to_string(path).unwrap_or_default();
        Self::from_text(&read("/proc/self/cgroup"), &read("/proc/self/mountinfo"))
    }

    /// From the text of `/proc/self/cgroup` and `/proc/self/mountinfo`.
    pub fn from_text(cgroup: &str, mountinfo: &str) -> Self {
        let mut found = Self::default();
        for mount in mountinfo.lines().filter_map(Mount::parse) {
            let directories = |controller: Option<&str>| {
                path_of(cgroup, controller).map(|path| mount.ancestors(path)).unwrap_or_default()
            };
            if mount.kind == "cgroup2" && found.v2.is_empty() {
                found.v2 = directories(None);
            } else if mount.has("cpu") && found.v1_cpu.is_empty() {
                found.v1_cpu = directories(Some("cpu"));
            } else if mount.has("memory") && found.v1_memory.is_empty() {
                found.v1_memory = directories(Some("memory"));
            }
        }
        found
    }

    /// The limits as they are now.
    pub fn limits(&self) -> Limits {
        let v2 = |dir: &PathBuf| CpuLimit::from_v2(&read(dir, "cpu.max")?);
        let v1 = |dir: &PathBuf| {
            CpuLimit::from_v1(&read(dir, "cpu.cfs_quota_us")?, &read(dir, "cpu.cfs_period_us")?)
        };
        let cpu =
            self.v2.iter().filter_map(v2).chain(self.v1_cpu.iter().filter_map(v1)).reduce(CpuLimit::min);
        let memory_v2 = self.v2.iter().filter_map(|dir| memory_limit(&read(dir, "memory.max")?));
        let memory_v1 =
            self.v1_memory.iter().filter_map(|dir| memory_limit(&read(dir, "memory.limit_in_bytes")?));
        Limits { cpu, memory: memory_v2.chain(memory_v1).min() }
    }
}

impl Cgroup {
    /// For how long the processes of this cgroup were kept from running by its CPU limit, in all.
    pub fn throttled(&self) -> Duration {
        let v2 = self.v2.iter().find_map(|dir| throttled(&read(dir, "cpu.stat")?));
        v2.or_else(|| self.v1_cpu.iter().find_map(|dir| throttled(&read(dir, "cpu.stat")?)))
            .unwrap_or_default()
    }
}

/// Periods of a CPU limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Periods {
    /// Those in which there was something to run.
    pub all: u64,
    /// Those of them in which something had to wait, since the limit was used up.
    pub throttled: u64,
}

impl Cgroup {
    /// The periods of its CPU limit so far; `None` where the kernel doesn't count them.
    pub fn periods(&self) -> Option<Periods> {
        let mut directories = self.v2.iter().chain(&self.v1_cpu);
        directories.find_map(|dir| periods(&read(dir, "cpu.stat")?))
    }
}

impl Cgroup {
    /// How many processes of this cgroup the kernel has killed for want of memory.
    pub fn oom_kills(&self) -> u64 {
        let v2 = self.v2.iter().find_map(|dir| oom_kills(&read(dir, "memory.events")?));
        v2.or_else(|| self.v1_memory.iter().find_map(|dir| oom_kills(&read(dir, "memory.oom_control")?)))
            .unwrap_or_default()
    }
}

/// From `memory.events` (v2) or `memory.oom_control` (v1), which name it alike.
fn oom_kills(text: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix("oom_kill ")?.trim().parse().ok())
}

/// From `cpu.stat`: microseconds in v2, nanoseconds in v1.
fn throttled(text: &str) -> Option<Duration> {
    let value = |name: &str| -> Option<u64> {
        text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok())
    };
    value("throttled_usec ")
        .map(Duration::from_micros)
        .or_else(|| value("throttled_time ").map(Duration::from_nanos))
}

/// From `cpu.stat`, which names them alike in both versions.
fn periods(text: &str) -> Option<Periods> {
    let value = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok());
    Some(Periods { all: value("nr_periods ")?, throttled: value("nr_throttled ")? })
}

fn read(directory: &Path, file: &str) -> Option<String> {
    fs::read_to_string(directory.join(file)).ok()
}

/// The path of this process in the hierarchy of a v1 controller, or in v2's (`None`).
fn path_of<'a>(cgroup: &'a str, controller: Option<&str>) -> Option<&'a str> {
    cgroup.lines().find_map(|line| {
        let mut parts = line.splitn(3, ':');
        let (_, controllers, path) = (parts.next()?, parts.next()?, parts.next()?);
        let matches = match controller {
            None => controllers.is_empty(),
            Some(wanted) => controllers.split(',').any(|c| c == wanted),
        };
        matches.then_some(path)
    })
}

/// One line of mountinfo.
struct Mount<'a> {
    /// Which part of the file system is mounted.
    root: &'a str,
    at: &'a str,
    kind: &'a str,
    options: &'a str,
}

impl<'a> Mount<'a> {
    fn parse(line: &'a str) -> Option<Self> {
        let (before, after) = line.split_once(" - ")?;
        let mut before = before.split(' ').skip(3);
        let mut after = after.split(' ');
        let (root, at) = (before.next()?, before.next()?);
        Some(Self { root, at, kind: after.next()?, options: after.nth(1).unwrap_or_default() })
    }

    fn has(&self, controller: &str) -> bool {
        self.kind == "cgroup" && self.options.split(',').any(|option| option == controller)
    }

    /// The directory of `path` under this mount and its ancestors down to the mount point.
    fn ancestors(&self, path: &str) -> Vec<PathBuf> {
        // A path outside of what is mounted (a container that sees the host's names) means the mount's root.
        let below = Path::new(path).strip_prefix(self.root).unwrap_or(Path::new(""));
        // `/..` appears when our cgroup is above the cgroup namespace's root; there is nothing to descend to.
        let plain = below.components().all(|c| matches!(c, std::path::Component::Normal(_)));
        let directory = if plain && below != Path::new("") {
            Path::new(self.at).join(below)
        } else {
            PathBuf::from(self.at)
        };
        directory.ancestors().take_while(|dir| dir.starts_with(self.at)).map(Path::to_path_buf).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(list: &[PathBuf]) -> Vec<&str> {
        list.iter().filter_map(|p| p.to_str()).collect()
    }

    #[test]
    fn kills_for_want_of_memory_are_counted_in_both_versions() {
        assert_eq!(oom_kills("low 0\nhigh 0\nmax 9\noom 3\noom_kill 2\noom_group_kill 1\n"), Some(2));
        assert_eq!(oom_kills("oom_kill_disable 0\nunder_oom 0\noom_kill 4\n"), Some(4));
        assert_eq!(oom_kills("oom_kill_disable 0\n"), None);
    }

    #[test]
    fn v2_with_a_namespace_of_its_own() {
        let mounts = "1482 1476 0:30 / /sys/fs/cgroup ro,nosuid,nodev,noexec,relatime - cgroup2 cgroup rw\n";
        let found = Cgroup::from_text("0::/\n", mounts);
        assert_eq!(paths(&found.v2), ["/sys/fs/cgroup"]);
        assert!(found.v1_cpu.is_empty());
    }

    #[test]
    fn v2_outside_of_a_container() {
        let mounts = "25 21 0:22 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw,nsdelegate\n";
        let found = Cgroup::from_text("0::/system.slice/app.service\n", mounts);
        let wanted =
            ["/sys/fs/cgroup/system.slice/app.service", "/sys/fs/cgroup/system.slice", "/sys/fs/cgroup"];
        assert_eq!(paths(&found.v2), wanted);
    }

    #[test]
    fn v1_in_a_container_that_sees_the_hosts_names() {
        let cgroup = "4:memory:/kubepods/pod1/c1\n3:cpu,cpuacct:/kubepods/pod1/c1\n0::/\n";
        let mounts = "\
            900 899 0:26 /kubepods/pod1/c1 /sys/fs/cgroup/cpu,cpuacct ro - cgroup cgroup rw,cpu,cpuacct\n\
            901 899 0:27 /kubepods/pod1/c1 /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n";
        let found = Cgroup::from_text(cgroup, mounts);
        assert_eq!(paths(&found.v1_cpu), ["/sys/fs/cgroup/cpu,cpuacct"]);
        assert_eq!(paths(&found.v1_memory), ["/sys/fs/cgroup/memory"]);
    }

    #[test]
    fn hybrid_v1_with_an_empty_v2() {
        let cgroup = "9:memory:/a\n2:cpu:/a/b\n0::/\n";
        let mounts = "\
            30 29 0:1 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n\
            31 29 0:2 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n\
            32 29 0:3 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";
        let found = Cgroup::from_text(cgroup, mounts);
        assert_eq!(
            paths(&found.v1_cpu),
            ["/sys/fs/cgroup/cpu/a/b", "/sys/fs/cgroup/cpu/a", "/sys/fs/cgroup/cpu"]
        );
        assert_eq!(paths(&found.v1_memory), ["/sys/fs/cgroup/memory/a", "/sys/fs/cgroup/memory"]);
        assert_eq!(paths(&found.v2), ["/sys/fs/cgroup/unified"]);
    }

    #[test]
    fn throttling() {
        assert_eq!(
            throttled("usage_usec 5\nnr_throttled 2\nthrottled_usec 1500\n"),
            Some(Duration::from_micros(1500))
        );
        assert_eq!(
            throttled("nr_periods 0\nnr_throttled 0\nthrottled_time 7000\n"),
            Some(Duration::from_micros(7))
        );
        assert_eq!(throttled("usage_usec 5\n"), None);
    }

    #[test]
    fn periods_of_the_limit() {
        let counted = periods("usage_usec 5\nnr_periods 9\nnr_throttled 2\nthrottled_usec 1\n");
        assert_eq!(counted, Some(Periods { all: 9, throttled: 2 }));
        assert_eq!(periods("usage_usec 5\n"), None);
    }

    #[test]
    fn text_that_makes_no_sense() {
        assert_eq!(
            Cgroup::from_text("nonsense\n::\n", "a b c\n - cgroup2\n x y z - cgroup"),
            Cgroup::default()
        );
        let odd = Cgroup::from_text("0::/../../x\n", "1 2 0:3 / /sys/fs/cgroup rw - cgroup2 none rw\n");
        assert_eq!(paths(&odd.v2), ["/sys/fs/cgroup"]);
    }

    /// What a kubelet does when it resizes a container in place. The files stand in a directory of the test's own: the CPU
    /// controller of a machine belongs to version 1 or 2 of cgroups as a whole.
    #[test]
    fn a_v2_limit_that_changes_is_followed_within_five_seconds() {
        use crate::follow::Follower;
        use crate::limits::{Basis, Wanted};
        let directory = std::env::temp_dir().join(format!("workerapp-cgroup2-{}", std::process::id()));
        let own = directory.join("pod/app");
        fs::create_dir_all(&own).unwrap();
        let set = |dir: &Path, text: &str| fs::write(dir.join("cpu.max"), text).unwrap();
        let at = directory.display();
        let cgroup =
            Cgroup::from_text("0::/pod/app\n", &format!("25 21 0:22 / {at} rw - cgroup2 cgroup2 rw\n"));
        let workers = || {
            let Limits { cpu, memory } = cgroup.limits();
            let wanted = Wanted::Auto;
            Basis { wanted, most: None, memory_per_worker: None, variable: None, cpu, memory }.workers().count
        };
        set(&own, "100000 100000\n");
        assert_eq!(workers(), 1);
        let mut follower = Follower::new(workers());
        set(&own, "300000 100000\n");
        let looks = (0..4).map(|look| Duration::from_millis(1_250) * look);
        let grown = looks.filter_map(|at| follower.observe(at, workers())).last();
        assert_eq!(grown, Some(3), "three looks apart by a second and a quarter are enough");

        // The pod's own limit holds as well, and `max` is none.
        set(&directory.join("pod"), "150000 100000\n");
        assert_eq!(workers(), 2);
        set(&own, "max 100000\n");
        assert_eq!(workers(), 2);
        fs::write(own.join("memory.max"), "67108864\n").unwrap();
        fs::write(directory.join("pod/memory.max"), "max\n").unwrap();
        assert_eq!(cgroup.limits().memory, Some(64 << 20));
        fs::remove_dir_all(&directory).unwrap();
    }

    #[test]
    fn damaged_text_never_leads_out_of_a_mount() {
        let samples = [
            "4:memory:/kubepods/pod1/c1\n3:cpu,cpuacct:/kubepods/pod1/c1\n0::/a/b\n",
            "900 899 0:26 /kubepods/pod1 /sys/fs/cgroup/cpu,cpuacct ro - cgroup cgroup rw,cpu,cpuacct\n\
             901 899 0:27 / /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n\
             25 21 0:22 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw,nsdelegate\n",
            "usage_usec 5\nnr_throttled 2\nthrottled_usec 1500\nthrottled_time 7000\n",
        ];
        crate::testing::with_damaged_text(&samples, |text| {
            for found in [Cgroup::from_text(text, samples[1]), Cgroup::from_text(samples[0], text)] {
                for list in [&found.v2, &found.v1_cpu, &found.v1_memory] {
                    let mount = list.last();
                    assert!(list.iter().all(|dir| mount.is_some_and(|mount| dir.starts_with(mount))));
                    let climbs = |dir: &PathBuf| {
                        let below = dir.strip_prefix(mount.unwrap()).unwrap();
                        below.components().any(|c| !matches!(c, std::path::Component::Normal(_)))
                    };
                    assert!(!list.iter().any(climbs), "{list:?}");
                }
            }
            let _ = throttled(text);
        });
    }
}
