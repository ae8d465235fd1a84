//! Programs that `e2e/programs.sh` installs.

use super::{Load, Setup, Signal, Supervisor, wait_for};
use std::collections::BTreeSet;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How long the whole stop may take, in seconds.
const GRACE: u64 = 20;

/// Where the script puts what does not come from Debian; the rule is the testbed's.
pub(crate) fn installed(part: &str) -> PathBuf {
    let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let home = variable("TESTBED_HOME")
        .or_else(|| Some(variable("XDG_CACHE_HOME")?.join("workerapp-testbed")))
        .or_else(|| Some(variable("HOME")?.join(".cache/workerapp-testbed")));
    let path = home.unwrap().join("programs").join(part);
    assert!(path.exists(), "{} is missing. Remedy: e2e/programs.sh", path.display());
    path
}

/// A program that Debian brings.
pub(crate) fn from_debian(name: &str) -> PathBuf {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let directories = std::env::split_paths(&path).chain(["/usr/sbin".into()]);
    let found = directories.map(|directory| directory.join(name)).find(|path| path.exists());
    found.unwrap_or_else(|| panic!("{name} is missing. Remedy: e2e/programs.sh"))
}

/// How it is seen that both workers serve.
#[derive(Clone, Copy)]
pub(crate) enum Proof {
    /// The answer to this path names the process.
    Answers(&'static str),
    /// The answers are all alike, so open connections are counted.
    Connections,
}

/// Two workers share the port, a rolling restart under load loses nothing, and SIGTERM ends all of it in time.
#[track_caller]
pub(crate) fn serves(command: &[&str], proof: Proof) {
    serves_with(Setup::new(command), proof);
}

/// The same with a setup that is partly done.
#[track_caller]
pub(crate) fn serves_with(setup: Setup, proof: Proof) {
    let grace = GRACE.to_string();
    let mut supervisor = setup.workers(2).flags(&["--grace", &grace, "--drain", "3"]).ready();
    share(&supervisor, proof);

    let load = Load::short(supervisor.port, proof.path());
    let old = supervisor.worker_pids();
    supervisor.signal(Signal::HUP);
    wait_for(&format!("both workers to be replaced\n{}", supervisor.output()), || {
        let pids = supervisor.worker_pids();
        let fresh = pids.len() == 2 && pids.iter().all(|pid| !old.contains(pid));
        (fresh && !old.iter().copied().any(super::is_running)).then_some(())
    });
    share(&supervisor, proof);
    let (answered, _, lost) = load.end();
    assert_eq!(lost, "", "of {answered}\n{}", supervisor.output());
    assert!(answered > 50, "{answered}");
    eprintln!("rolling restart: {answered} answered, none lost");

    let begin = Instant::now();
    supervisor.signal(Signal::TERM);
    assert_eq!(supervisor.wait(), 0, "{}", supervisor.output());
    assert!(begin.elapsed() < Duration::from_secs(GRACE), "{:?}", begin.elapsed());
    assert!(!supervisor.output().contains("SIGKILL"), "{}", supervisor.output());
}

impl Proof {
    fn path(self) -> &'static str {
        match self {
            Self::Answers(path) => path,
            Self::Connections => "/",
        }
    }
}

#[track_caller]
fn share(supervisor: &Supervisor, proof: Proof) {
    match proof {
        Proof::Answers(path) => {
            let mut seen = BTreeSet::new();
            wait_for("answers of both workers", || {
                seen.extend(supervisor.get(path));
                (seen.len() >= 2).then_some(())
            });
            assert_eq!(seen.len(), 2, "{seen:?}");
        }
        Proof::Connections => {
            let mut open = Vec::new();
            wait_for("connections of both workers", || {
                open.push(TcpStream::connect(("127.0.0.1", supervisor.port)).unwrap());
                let sample = |worker| {
                    supervisor.metric(&format!("workerapp_worker_connections{{worker=\"{worker}\"}}"))
                };
                (sample(0) > 0.5 && sample(1) > 0.5).then_some(())
            });
        }
    }
}

/// A path as an argument.
pub(crate) fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}
