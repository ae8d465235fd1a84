//! Kills, rolling restarts and resizes at random, under load. `e2e/soak.sh` runs it; how long: `SOAK_SECONDS`.
//!
//! Each lost request must be one that a killed worker had: its connection was open when that worker was killed, and where the
//! client knows the worker, it is that one.

#![allow(clippy::unwrap_used, reason = "a failed step is a failed test")]

mod common;

use common::{Cgroup, Setup, Signal, Supervisor, app, kill, wait_for};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// Of each kind.
const CLIENTS: usize = 8;
/// A worker that is killed sooner after its start counts as failing, and enough of that ends the container.
const BETWEEN_KILLS: Duration = Duration::from_secs(12);
/// Memory that the supervisor may need more at the end than at the beginning, in kB.
const MORE_MEMORY: u64 = 512;
/// Sockets of slots stay; a kill in a rolling restart may need one more than ever before.
const MORE_DESCRIPTORS: usize = 4;

/// A request that was not answered.
#[derive(Debug)]
struct Lost {
    kept: bool,
    connected: Instant,
    sent: Instant,
    ended: Instant,
    process: Option<i32>,
    #[allow(dead_code, reason = "printed with the rest")]
    why: String,
}

#[derive(Default)]
struct Account {
    done: AtomicBool,
    answered: [AtomicU32; 2],
    /// Connections that were found closed before anything was sent on them.
    reopened: AtomicU32,
    lost: Mutex<Vec<Lost>>,
}

struct EndClients<'a>(&'a AtomicBool);

impl Drop for EndClients<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

struct Connection {
    stream: TcpStream,
    opened: Instant,
    /// Who answered last.
    process: Option<i32>,
}

/// One answer: does it end the connection?
fn answer(connection: &mut Connection) -> Result<bool, String> {
    let mut text = Vec::new();
    let mut buffer = [0; 1024];
    loop {
        let n = connection.stream.read(&mut buffer).map_err(|e| e.to_string())?;
        text.extend_from_slice(&buffer[..n]);
        let so_far = String::from_utf8_lossy(&text).to_ascii_lowercase();
        if let Some((head, body)) = so_far.split_once("\r\n\r\n") {
            let process =
                head.split("x-process: ").nth(1).and_then(|rest| rest.split("\r\n").next()?.parse().ok());
            connection.process = process.or(connection.process);
            if body == "ok" {
                return Ok(head.contains("connection: close"));
            }
        }
        if n == 0 {
            return Err("closed".into());
        }
    }
}

impl Account {
    fn client(&self, port: u16, kept: bool) {
        let mut held: Option<Connection> = None;
        while !self.done.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(3));
            let begin = Instant::now();
            // What every client does before it sends on a connection that it has kept.
            if held.take_if(|connection| is_closed(&connection.stream)).is_some() {
                self.reopened.fetch_add(1, Ordering::Relaxed);
            }
            let mut connection = match held.take().map_or_else(|| connect(port), Ok) {
                Ok(connection) => connection,
                Err(e) => {
                    self.lose(kept, begin, begin, None, format!("connect: {e}"));
                    continue;
                }
            };
            let end = if kept { "" } else { "Connection: close\r\n" };
            let sent = Instant::now();
            let request = format!("GET / HTTP/1.1\r\nHost: soak\r\n{end}\r\n");
            let result = connection.stream.write_all(request.as_bytes()).map_err(|e| e.to_string());
            match result.and_then(|()| answer(&mut connection)) {
                Ok(closes) => {
                    self.answered[usize::from(kept)].fetch_add(1, Ordering::Relaxed);
                    held = Some(connection).filter(|_| !closes);
                }
                Err(why) => self.lose(kept, connection.opened, sent, connection.process, why),
            }
        }
    }

    fn lose(&self, kept: bool, connected: Instant, sent: Instant, process: Option<i32>, why: String) {
        self.lost.lock().unwrap().push(Lost { kept, connected, sent, ended: Instant::now(), process, why });
    }
}

fn connect(port: u16) -> std::io::Result<Connection> {
    let opened = Instant::now();
    let stream = TcpStream::connect_timeout(&([127, 0, 0, 1], port).into(), Duration::from_secs(20))?;
    stream.set_read_timeout(Some(Duration::from_secs(30)))?;
    Ok(Connection { stream, opened, process: None })
}

fn is_closed(stream: &TcpStream) -> bool {
    stream.set_nonblocking(true).unwrap();
    let closed = !matches!(stream.peek(&mut [0]), Err(e) if e.kind() == std::io::ErrorKind::WouldBlock);
    stream.set_nonblocking(false).unwrap();
    closed
}

/// Resident memory in kB, and open descriptors.
fn size(supervisor: &Supervisor) -> (u64, usize) {
    // The wrapper has replaced itself by the supervisor.
    let path = format!("/proc/{}", supervisor.pid());
    let status = std::fs::read_to_string(format!("{path}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    let memory = line.split_ascii_whitespace().next().unwrap().parse().unwrap();
    (memory, std::fs::read_dir(format!("{path}/fd")).unwrap().count())
}

#[track_caller]
fn wait_listening(supervisor: &Supervisor, workers: usize) {
    wait_for(&format!("{workers} workers\n{}", supervisor.output()), || {
        let up = supervisor.status().matches("\"state\":\"listening\"").count();
        (up == workers && supervisor.descendants().len() == workers).then_some(())
    });
}

#[test]
#[ignore = "takes as long as it is told to: e2e/soak.sh"]
fn nothing_is_lost_but_what_a_killed_worker_had() {
    let seconds = std::env::var("SOAK_SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(60);
    let Some(cgroup) = Cgroup::make("soak") else {
        eprintln!("no cgroup can be made here");
        return;
    };
    cgroup.limit(300_000);
    let setup = Setup::new(&["node", &app("soak.js")]);
    let port = setup.port.to_string();
    let mut supervisor = cgroup.run(setup.flags(&["--port", &port, "--grace", "20"])).ready();
    let account = Account::default();
    let mut kills: Vec<(Instant, i32)> = Vec::new();
    let (mut rolls, mut resizes) = (0, 0);
    let mut sizes = Vec::new();

    std::thread::scope(|scope| {
        // Also when a step fails: the clients would go on for ever.
        let end_clients = EndClients(&account.done);
        for kept in [false, true] {
            for _ in 0..CLIENTS {
                let (account, port) = (&account, supervisor.port);
                scope.spawn(move || account.client(port, kept));
            }
        }
        // Everything has been as large as it gets: three workers and a successor.
        supervisor.signal(Signal::HUP);
        supervisor.wait_output("every worker that was due is replaced");
        cgroup.limit(200_000);
        wait_listening(&supervisor, 2);
        sizes.push(size(&supervisor));

        let mut random = fastrand::Rng::with_seed(seconds);
        let end = Instant::now() + Duration::from_secs(seconds);
        let mut next_kill = Instant::now();
        while Instant::now() < end {
            std::thread::sleep(Duration::from_millis(random.u64(1_000..5_000)));
            let now = Instant::now();
            match random.u8(0..4) {
                0 => {
                    supervisor.signal(Signal::HUP);
                    rolls += 1;
                }
                1 => {
                    cgroup.limit(random.u32(1..=3) * 100_000);
                    resizes += 1;
                }
                _ if now >= next_kill => {
                    if let Some(pid) = random.choice(supervisor.worker_pids()) {
                        kills.push((Instant::now(), pid));
                        kill(pid, Signal::KILL);
                        next_kill = now + BETWEEN_KILLS;
                    }
                }
                _ => {}
            }
            sizes.push(size(&supervisor));
        }
        cgroup.limit(200_000);
        wait_for(&format!("rest\n{}", supervisor.output()), || {
            let status = supervisor.status();
            (status.matches("\"state\":\"listening\"").count() == 2 && status.contains("\"workers\":2,"))
                .then_some(())
        });
        wait_listening(&supervisor, 2);
        sizes.push(size(&supervisor));
        drop(end_clients);
    });

    let lost = account.lost.into_inner().unwrap();
    let cause = |lost: &Lost| {
        kills.iter().position(|(at, pid)| match lost.process {
            Some(process) => process == *pid && (lost.connected..=lost.ended).contains(at),
            None => (lost.sent..=lost.ended).contains(at),
        })
    };
    let [short, kept] = account.answered.map(AtomicU32::into_inner);
    let (before, after) = (sizes[0], sizes[sizes.len() - 1]);
    let most = sizes.iter().map(|(memory, _)| *memory).max().unwrap();
    println!("answered         {short} on connections of their own, {kept} on kept ones");
    println!(
        "done to it       {} kills, {rolls} rolling restarts, {resizes} resizes in {seconds} s",
        kills.len()
    );
    for (at, (_, pid)) in kills.iter().enumerate() {
        let mine = lost.iter().filter(|lost| cause(lost) == Some(at));
        let (kept, short): (Vec<_>, Vec<_>) = mine.partition(|lost| lost.kept);
        println!("kill of {pid:<8} {} short, {} kept requests in flight were lost", short.len(), kept.len());
    }
    println!("found closed     {} kept connections, before anything was sent", account.reopened.into_inner());
    println!(
        "supervisor       {} kB at first, {} at the end, {most} at most; {} and {} descriptors",
        before.0, after.0, before.1, after.1
    );
    let unexplained: Vec<&Lost> = lost.iter().filter(|lost| cause(lost).is_none()).collect();
    println!("lost otherwise   {}", unexplained.len());
    assert!(unexplained.is_empty(), "{unexplained:#?}\nkills: {kills:#?}\n{}", supervisor.output());
    assert!(after.0 <= before.0 + MORE_MEMORY, "memory grows: {sizes:?}");
    assert!(after.1 <= before.1 + MORE_DESCRIPTORS, "descriptors grow: {sizes:?}");
    supervisor.signal(Signal::TERM);
    assert_eq!(supervisor.wait(), 0);
    drop(supervisor);
}
