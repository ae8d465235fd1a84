//! A running contender.

use crate::cgroup::Cgroup;
use crate::contender::{Contender, Setup};
use crate::http;
use crate::procfs;
use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, WaitOptions, kill_process, wait};
use std::fs::File;
use std::net::TcpListener;
use std::process::Child;
use std::thread::sleep;
use std::time::{Duration, Instant};

const START: Duration = Duration::from_mins(1);
const STOP: Duration = Duration::from_secs(15);
const LOOK: Duration = Duration::from_millis(20);

/// Stops when it goes out of scope.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) contender: Contender,
    pub(crate) port: u16,
    child: Child,
    /// Of its own; removed after it has stopped.
    cgroup: Option<Cgroup>,
}

impl Server {
    /// Starts it and waits until all its workers answer.
    pub(crate) fn start(setup: &Setup, contender: Contender) -> Result<Self> {
        Self::start_with(setup, contender, contender.workers(), None)
    }

    /// The same in a cgroup of its own, as a container is. Without one Linux gives each *session* the same share of the CPUs
    /// (autogroups): who starts each worker in its own session, as we do, would be weighed otherwise against the generator than who
    /// doesn't, as it never happens in a pod.
    pub(crate) fn start_apart(setup: &Setup, contender: Contender) -> Result<Self> {
        let name = format!("{contender:?}").to_lowercase();
        match Cgroup::make(&name, None) {
            Ok(cgroup) => {
                let mut server = Self::start_with(setup, contender, contender.workers(), Some(&cgroup))?;
                server.cgroup = Some(cgroup);
                Ok(server)
            }
            Err(error) => {
                crate::progress(&format!("{} has no cgroup of its own: {error:#}", contender.name()))?;
                Self::start(setup, contender)
            }
        }
    }

    /// Whether the scheduler sees it as it would see a container.
    pub(crate) fn is_apart(&self) -> bool {
        self.cgroup.is_some()
    }

    /// The same with so many workers, in a cgroup that allows them.
    pub(crate) fn start_with(
        setup: &Setup,
        contender: Contender,
        workers: usize,
        cgroup: Option<&Cgroup>,
    ) -> Result<Self> {
        let server = Self::launch(setup, contender, workers, cgroup)?;
        server.wait_until(START, |names| names.len() == workers).map(|_| server)
    }

    /// Starts it and waits for nothing.
    pub(crate) fn launch(
        setup: &Setup,
        contender: Contender,
        workers: usize,
        cgroup: Option<&Cgroup>,
    ) -> Result<Self> {
        let (mut command, port) = setup.command(contender, workers, cgroup);
        TcpListener::bind(http::address(port)).with_context(|| format!("port {port} isn't free"))?;
        let log = setup.logs.join(format!("{contender:?}.log").to_lowercase());
        let log = File::create(&log).with_context(|| format!("can't write {}", log.display()))?;
        let child = command.stdout(log.try_clone()?).stderr(log).spawn();
        let child = child.with_context(|| format!("can't start {}", contender.name()))?;
        Ok(Self { contender, port, child, cgroup: None })
    }

    pub(crate) fn pid(&self) -> Result<Pid> {
        Pid::from_raw(self.raw_pid()?).context("a process without an id")
    }

    pub(crate) fn raw_pid(&self) -> Result<i32> {
        Ok(i32::try_from(self.child.id())?)
    }

    /// Waits until those that answer are as wanted, and says how long that took.
    pub(crate) fn wait_until(&self, limit: Duration, wanted: impl Fn(&[String]) -> bool) -> Result<Duration> {
        let begun = Instant::now();
        loop {
            let workers = http::workers(self.port);
            if wanted(&workers) {
                return Ok(begun.elapsed());
            }
            if begun.elapsed() > limit {
                bail!("{}: after {limit:?} {workers:?} answer; see its log", self.contender.name());
            }
            sleep(LOOK);
        }
    }

    fn stop(&mut self) -> Result<()> {
        let root = self.raw_pid()?;
        let mut all = procfs::descendants(root)?;
        all.push(root);
        if self.child.try_wait()?.is_none() {
            kill_process(self.pid()?, Signal::TERM)?;
        }
        let begun = Instant::now();
        while self.child.try_wait()?.is_none() && begun.elapsed() < STOP {
            sleep(LOOK);
        }
        // What it left behind, or all of it if it didn't stop.
        for pid in all {
            let alive = pid != root || self.child.try_wait()?.is_none();
            if let Some(pid) = Pid::from_raw(pid).filter(|_| alive) {
                let _ = kill_process(pid, Signal::KILL);
            }
        }
        self.child.wait()?;
        Ok(())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Err(error) = self.stop() {
            let _ = crate::progress(&format!("{} wasn't stopped in order: {error}", self.contender.name()));
        }
    }
}

/// Ends what lost its parent and became ours.
pub(crate) fn end_leftovers() -> Result<()> {
    for pid in procfs::descendants(i32::try_from(std::process::id())?)? {
        if let Some(pid) = Pid::from_raw(pid) {
            let _ = kill_process(pid, Signal::KILL);
        }
    }
    while wait(WaitOptions::empty()).is_ok() {}
    Ok(())
}
