//! Rolling restarts of programs that do not listen where they should: each comes to its end, and the log says what was seen.

#![allow(clippy::unwrap_used, reason = "a failed step is a failed test")]

mod common;

use common::{Directory, Load, Setup, Signal, Supervisor, app, free_port, is_running, wait_for};

/// Rolls once; answers what was logged meanwhile.
#[track_caller]
fn roll(supervisor: &Supervisor) -> String {
    let old = supervisor.worker_pids();
    assert!(!old.is_empty());
    let before = supervisor.output().len();
    supervisor.signal(Signal::HUP);
    wait_for(&format!("the end of the rolling restart\n{}", supervisor.output()), || {
        let said = supervisor.output().split_off(before);
        said.contains("every worker that was due is replaced").then_some(())
    });
    assert!(!old.iter().copied().any(is_running), "{}", supervisor.output());
    assert_eq!(supervisor.worker_pids().len(), old.len());
    supervisor.output().split_off(before)
}

#[track_caller]
fn assert_says(said: &str, part: &str) {
    assert!(said.contains(part), "{part:?} is missing in: {said}");
}

fn listening_on(host: &str) -> Supervisor {
    let supervisor = Setup::new(&["node", &app("server.js")]).env("HOST", host).workers(2).start();
    wait_for("both workers on loopback", || {
        let (_, text) = supervisor.readyz()?;
        (text.matches(" only: nothing outside the pod can reach it").count() == 2).then_some(())
    });
    supervisor
}

#[test]
fn on_ipv4_loopback_nothing_is_lost_by_those_who_can_reach_it() {
    let supervisor = listening_on("127.0.0.1");
    let load = Load::on(supervisor.port);
    supervisor.wait_answers(2);
    let said = roll(&supervisor);
    let (short, kept, lost) = load.end();
    assert_eq!(lost, "", "of {short} + {kept}\n{}", supervisor.output());
    for worker in 0..2 {
        assert_says(&said, &format!("replaced, but worker {worker} listens on 127.0.0.1 only"));
    }
}

#[test]
fn on_ipv6_loopback() {
    let supervisor = listening_on("::1");
    let said = roll(&supervisor);
    assert_says(&said, "replaced, but worker 1 listens on ::1 only");
    assert_says(&said, "make it listen on ::");
}

#[test]
fn on_a_unix_socket_only() {
    let directory = Directory::new("unix");
    let path = directory.0.join("app.sock");
    // As a program does that starts after one that was killed.
    let script = "const fs = require('fs'), path = process.argv[1]; fs.rmSync(path, { force: true }); \
                  require('http').createServer((q, r) => r.end('ok')).listen(path)";
    let supervisor = Setup::new(&["node", "-e", script, path.to_str().unwrap()]).workers(1).start();
    let seen =
        format!("worker 0 has not listened on a port yet, only on the Unix socket {} (", path.display());
    supervisor.wait_output(&seen);
    assert_says(&roll(&supervisor), &format!("replaced, but {seen}"));
    wait_for("the socket of the new worker", || std::os::unix::net::UnixStream::connect(&path).ok());
}

#[test]
fn on_no_port_at_all() {
    let supervisor = Setup::new(&["sleep", "1000"]).workers(2).start();
    supervisor.wait_output("worker 1 has not listened yet (");
    let said = roll(&supervisor);
    assert_says(&said, "replaced, but worker 0 has not listened yet");
    assert_says(&said, "replaced, but worker 1 has not listened yet");
}

#[test]
fn on_another_port_than_the_declared_one() {
    let other = free_port().to_string();
    let supervisor = Setup::new(&["node", &app("server.js")]).env("PORT", &other).workers(1).start();
    supervisor.wait_output(&format!("worker 0 listens on port {other}; the declared port is"));
    assert_says(&roll(&supervisor), &format!("replaced, but worker 0 listens on port {other}"));
}

#[test]
fn without_a_declared_port() {
    let supervisor = Setup::new(&["sleep", "1000"]).flags(&["--workers", "2"]).ready();
    let said = roll(&supervisor);
    assert!(!said.contains("replaced, but"), "{said}");
}
