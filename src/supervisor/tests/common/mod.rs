//! Runs the real supervisor with real programs on loopback.

#![allow(dead_code, unused_imports, reason = "each test file uses a part of it")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a failed step is a failed test")]

mod cgroup;
mod clients;
pub(crate) mod programs;

pub(crate) use cgroup::Cgroup;
pub(crate) use clients::{Client, Kept, Load, get, post};

use std::collections::BTreeSet;
use std::fs;
use std::io::Read;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

pub(crate) use rustix::process::Signal;

/// Longer than anything here takes; waits end as soon as their condition holds.
const PATIENCE: Duration = Duration::from_mins(2);

pub(crate) const BINARY: &str = env!("CARGO_BIN_EXE_workerapp-supervisor");

/// A program for tests, from `tests/apps`.
pub(crate) fn app(name: &str) -> String {
    format!("{}/tests/apps/{name}", env!("CARGO_MANIFEST_DIR"))
}

/// A port that nobody uses and that is no source port of an outgoing connection.
pub(crate) fn free_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    loop {
        let step = NEXT.fetch_add(1, Ordering::Relaxed);
        let start = u16::try_from(std::process::id() % 9_000).unwrap();
        let port = 20_000 + (start + step * 7) % 10_000;
        if TcpListener::bind(("0.0.0.0", port)).is_ok() && TcpListener::bind(("::", port)).is_ok() {
            return port;
        }
    }
}

/// Waits until `condition` gives something.
#[track_caller]
pub(crate) fn wait_for<T>(what: &str, mut condition: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(value) = condition() {
            return value;
        }
        assert!(Instant::now() < deadline, "waited in vain for: {what}");
        std::thread::sleep(Duration::from_millis(15));
    }
}

/// What a supervisor is started with.
pub(crate) struct Setup {
    flags: Vec<String>,
    command: Vec<String>,
    environment: Vec<(String, String)>,
    wrapper: Vec<String>,
    directory: Option<PathBuf>,
    pub(crate) port: u16,
    pub(crate) admin: u16,
}

impl Setup {
    pub(crate) fn new(command: &[&str]) -> Self {
        let (port, admin) = (free_port(), free_port());
        Self {
            flags: Vec::new(),
            command: command.iter().map(ToString::to_string).collect(),
            environment: vec![("PORT".into(), port.to_string())],
            wrapper: Vec::new(),
            directory: None,
            port,
            admin,
        }
        .flags(&["--lame-duck", "0", "--admin-port", &admin.to_string()])
    }

    pub(crate) fn flags(mut self, flags: &[&str]) -> Self {
        self.flags.extend(flags.iter().map(ToString::to_string));
        self
    }

    /// With so many workers and the port declared.
    pub(crate) fn workers(self, count: u32) -> Self {
        let port = self.port.to_string();
        self.flags(&["--workers", &count.to_string(), "--port", &port])
    }

    pub(crate) fn env(mut self, name: &str, value: &str) -> Self {
        self.environment.push((name.into(), value.into()));
        self
    }

    pub(crate) fn directory(mut self, directory: &Path) -> Self {
        self.directory = Some(directory.to_owned());
        self
    }

    /// A command that runs the supervisor: `setpriv …`.
    pub(crate) fn wrapper(mut self, words: &[&str]) -> Self {
        self.wrapper = words.iter().map(ToString::to_string).collect();
        self
    }

    pub(crate) fn start(self) -> Supervisor {
        let mut words = self.wrapper.clone();
        words.push(BINARY.to_owned());
        words.extend(self.flags);
        words.push("--".into());
        words.extend(self.command);
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.envs(self.environment);
        if let Some(directory) = &self.directory {
            command.current_dir(directory);
        }
        let mut child = command.spawn().unwrap();
        let output = Arc::new(Mutex::new(String::new()));
        let readers = vec![
            collect(child.stdout.take().unwrap(), Arc::clone(&output)),
            collect(child.stderr.take().unwrap(), Arc::clone(&output)),
        ];
        Supervisor { child, output, readers, port: self.port, admin: self.admin, code: None }
    }

    /// Starts it and waits until the pod would get traffic.
    #[track_caller]
    pub(crate) fn ready(self) -> Supervisor {
        let mut supervisor = self.start();
        supervisor.wait_ready();
        supervisor
    }
}

fn collect(mut from: impl Read + Send + 'static, into: Arc<Mutex<String>>) -> JoinHandle<()> {
    std::thread::spawn(move || {
        let mut buffer = [0; 4096];
        while let Ok(n @ 1..) = from.read(&mut buffer) {
            into.lock().unwrap().push_str(&String::from_utf8_lossy(&buffer[..n]));
        }
    })
}

/// A supervisor that runs.
pub(crate) struct Supervisor {
    child: Child,
    output: Arc<Mutex<String>>,
    readers: Vec<JoinHandle<()>>,
    pub(crate) port: u16,
    pub(crate) admin: u16,
    code: Option<i32>,
}

impl Supervisor {
    pub(crate) fn pid(&self) -> i32 {
        self.child.id().cast_signed()
    }

    /// What the supervisor and its workers have written so far.
    pub(crate) fn output(&self) -> String {
        self.output.lock().unwrap().clone()
    }

    #[track_caller]
    pub(crate) fn wait_output(&self, part: &str) -> String {
        wait_for(&format!("{part:?} in the output:\n{}", self.output()), || {
            Some(self.output()).filter(|output| output.contains(part))
        })
    }

    #[track_caller]
    pub(crate) fn wait_ready(&mut self) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let answer = self.readyz();
            if answer.as_ref().is_some_and(|(status, _)| *status == 200) {
                return;
            }
            let ended = self.child.try_wait().unwrap();
            assert!(ended.is_none() && Instant::now() < deadline, "{ended:?} {answer:?}\n{}", self.output());
            std::thread::sleep(Duration::from_millis(15));
        }
    }

    pub(crate) fn readyz(&self) -> Option<(u16, String)> {
        get(([127, 0, 0, 1], self.admin).into(), "/readyz")
    }

    #[track_caller]
    pub(crate) fn status(&self) -> String {
        get(([127, 0, 0, 1], self.admin).into(), "/status").unwrap().1
    }

    /// The main processes of the workers, in the order of their numbers.
    #[track_caller]
    pub(crate) fn worker_pids(&self) -> Vec<i32> {
        self.status()
            .split("\"pid\":")
            .skip(1)
            .filter_map(|text| text.split(',').next()?.parse().ok())
            .collect()
    }

    #[track_caller]
    pub(crate) fn metric(&self, sample: &str) -> f64 {
        self.find_metric(sample).unwrap_or_else(|| panic!("no {sample} in /metrics"))
    }

    pub(crate) fn find_metric(&self, sample: &str) -> Option<f64> {
        let (_, text) = get(([127, 0, 0, 1], self.admin).into(), "/metrics")?;
        text.lines().find_map(|line| line.strip_prefix(sample)?.strip_prefix(' ')?.parse().ok())
    }

    pub(crate) fn get(&self, path: &str) -> Option<String> {
        get(([127, 0, 0, 1], self.port).into(), path).map(|(_, body)| body)
    }

    /// Asks until every one of `count` different answers was given.
    #[track_caller]
    pub(crate) fn wait_answers(&self, count: usize) -> BTreeSet<String> {
        let mut seen = BTreeSet::new();
        wait_for(&format!("{count} different answers"), || {
            seen.extend(self.get("/"));
            (seen.len() == count).then(|| seen.clone())
        })
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill(self.pid(), signal);
    }

    /// Waits for its end.
    #[track_caller]
    pub(crate) fn wait(&mut self) -> i32 {
        if let Some(code) = self.code {
            return code;
        }
        let status =
            wait_for(&format!("the end; output:\n{}", self.output()), || self.child.try_wait().unwrap());
        for reader in self.readers.drain(..) {
            reader.join().unwrap();
        }
        let code = status.code().unwrap_or(-1);
        self.code = Some(code);
        code
    }

    /// Every process below it, zombies left out.
    pub(crate) fn descendants(&self) -> Vec<i32> {
        descendants(self.pid())
    }
}

impl Drop for Supervisor {
    fn drop(&mut self) {
        if self.code.is_none() {
            // The supervisor first: it would start others.
            kill(self.pid(), Signal::STOP);
            let below = self.descendants();
            kill(self.pid(), Signal::KILL);
            for pid in below {
                kill(pid, Signal::KILL);
            }
            let _ = self.child.wait();
        }
        if std::thread::panicking() {
            eprintln!("--- output of the supervisor and its workers\n{}", self.output());
        }
    }
}

pub(crate) fn kill(pid: i32, signal: Signal) {
    let _ = rustix::process::kill_process(rustix::process::Pid::from_raw(pid).unwrap(), signal);
}

/// Parent and state of a process.
pub(crate) fn process(pid: i32) -> Option<(i32, char)> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let mut fields = stat.rsplit_once(')')?.1.split_ascii_whitespace();
    let state = fields.next()?.chars().next()?;
    Some((fields.next()?.parse().ok()?, state))
}

pub(crate) fn is_running(pid: i32) -> bool {
    process(pid).is_some_and(|(_, state)| state != 'Z')
}

fn all_processes() -> Vec<(i32, i32, char)> {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter_map(|pid| process(pid).map(|(parent, state)| (pid, parent, state))).collect()
}

pub(crate) fn descendants(pid: i32) -> Vec<i32> {
    let all = all_processes();
    let mut found = vec![pid];
    let mut at = 0;
    while at < found.len() {
        let parent = found[at];
        found.extend(all.iter().filter(|(_, of, state)| *of == parent && *state != 'Z').map(|p| p.0));
        at += 1;
    }
    found.split_off(1)
}

pub(crate) fn zombies_of(parent: i32) -> usize {
    all_processes().iter().filter(|(_, of, state)| *of == parent && *state == 'Z').count()
}

/// A directory for one test, removed at its end.
pub(crate) struct Directory(pub(crate) PathBuf);

impl Directory {
    pub(crate) fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("workerapp-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    pub(crate) fn file(&self, name: &str, text: &str) -> String {
        let path = self.0.join(name);
        fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

pub(crate) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// An address of this machine that is not the loopback's.
pub(crate) fn own_address() -> Option<std::net::IpAddr> {
    let output = Command::new("hostname").arg("-I").output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    text.split_ascii_whitespace().next()?.parse().ok()
}
