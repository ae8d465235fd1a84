//! CPU limits that can be changed.

use super::{Directory, Setup, wait_for};
use std::fs;
use std::path::Path;

/// A cgroup with a CPU limit, v1 or v2, removed at the end.
pub(crate) struct Cgroup {
    directory: Directory,
    v2: bool,
}

impl Cgroup {
    pub(crate) fn make(name: &str) -> Option<Self> {
        let (v1, v2) = (Path::new("/sys/fs/cgroup/cpu"), Path::new("/sys/fs/cgroup"));
        let (parent, v2) = if v1.exists() { (v1, false) } else { (v2, true) };
        if v2 {
            fs::write(parent.join("cgroup.subtree_control"), "+cpu").ok()?;
        }
        let path = parent.join(format!("workerapp-{name}-{}", std::process::id()));
        fs::create_dir(&path).ok()?;
        let cgroup = Self { directory: Directory(path), v2 };
        let probe = if v2 { "cpu.max" } else { "cpu.cfs_quota_us" };
        cgroup.directory.0.join(probe).exists().then_some(cgroup)
    }

    /// Do the tests run under a limit?
    pub(crate) fn limited() -> bool {
        workerapp_supervisor::cgroup::Cgroup::find().limits().cpu.is_some()
    }

    /// Runs the supervisor in it.
    pub(crate) fn run(&self, setup: Setup) -> Setup {
        let join = format!("echo $$ > {}/cgroup.procs; exec \"$0\" \"$@\"", self.directory.0.display());
        setup.wrapper(&["sh", "-c", &join])
    }

    pub(crate) fn limit(&self, quota: u32) {
        let (file, text) = if self.v2 {
            ("cpu.max", format!("{quota} 100000"))
        } else {
            ("cpu.cfs_quota_us", quota.to_string())
        };
        fs::write(self.directory.0.join(file), text).unwrap();
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        // Its files cannot be removed, but the directory can, as soon as its last process is gone.
        wait_for("the cgroup to be empty", || fs::remove_dir(&self.directory.0).ok());
    }
}
