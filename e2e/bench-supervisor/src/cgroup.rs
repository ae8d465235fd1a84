//! What a container is to the scheduler: a group of its own, whose CPU limit can be changed as an in-place resize does it.

use anyhow::{Context, Result};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

const PERIOD_US: u32 = 100_000;
/// Until the last process has left it.
const EMPTY: Duration = Duration::from_secs(10);
const LOOK: Duration = Duration::from_millis(20);

/// A cgroup of its own, version 1 or 2, removed at the end.
#[derive(Debug)]
pub(crate) struct Cgroup {
    path: PathBuf,
    v2: bool,
    limited: bool,
}

impl Cgroup {
    /// Where that is allowed and the CPU controller can be had; with so many CPUs, or all there are.
    pub(crate) fn make(name: &str, cpus: Option<usize>) -> Result<Self> {
        let (v1, v2) = (Path::new("/sys/fs/cgroup/cpu"), Path::new("/sys/fs/cgroup"));
        let (parent, v2) = if v1.exists() { (v1, false) } else { (v2, true) };
        if v2 {
            fs::write(parent.join("cgroup.subtree_control"), "+cpu")
                .context("the CPU controller can't be had")?;
        }
        let path = parent.join(format!("bench-supervisor-{}-{name}", std::process::id()));
        fs::create_dir(&path).with_context(|| format!("can't make {}", path.display()))?;
        let cgroup = Self { path, v2, limited: cpus.is_some() };
        cpus.map_or(Ok(()), |cpus| cgroup.set_cpus(cpus))?;
        Ok(cgroup)
    }

    pub(crate) fn is_limited(&self) -> bool {
        self.limited
    }

    pub(crate) fn set_cpus(&self, cpus: usize) -> Result<()> {
        let quota = u64::from(PERIOD_US) * u64::try_from(cpus)?;
        let (file, text) = if self.v2 {
            ("cpu.max", format!("{quota} {PERIOD_US}"))
        } else {
            ("cpu.cfs_quota_us", quota.to_string())
        };
        let file = self.path.join(file);
        fs::write(&file, text).with_context(|| format!("can't write {}", file.display()))
    }

    /// The same program, which is in the cgroup from its first instruction on.
    pub(crate) fn hold(&self, command: &Command) -> Command {
        let join = format!("echo $$ >{}/cgroup.procs && exec \"$0\" \"$@\"", self.path.display());
        let mut shell = Command::new("sh");
        shell.arg("-c").arg(join).arg(command.get_program()).args(command.get_args());
        shell
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        // Its files can't be removed, but the directory can, as soon as nobody is in it.
        let begun = Instant::now();
        while let Err(error) = fs::remove_dir(&self.path) {
            if begun.elapsed() > EMPTY {
                let _ = crate::progress(&format!("{} is left behind: {error}", self.path.display()));
                return;
            }
            sleep(LOOK);
        }
    }
}
