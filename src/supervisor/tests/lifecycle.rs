//! Starts, restarts and ends: the duties of a container's first process.

#![allow(clippy::unwrap_used, reason = "a failed step is a failed test")]

mod common;

use common::{Directory, Setup, Signal, app, free_port, is_running, kill, wait_for, zombies_of};
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant};

fn tree(test: &str) -> Setup {
    Setup::new(&["python3", &app("tree.py"), test]).flags(&["--workers", "1"])
}

/// The numbers that follow `word` in the output.
fn numbers(output: &str, word: &str) -> Vec<i32> {
    output.lines().filter_map(|line| line.strip_prefix(word)?.strip_prefix(' ')?.parse().ok()).collect()
}

/// npm#4603, ghost#37, oneuptime#2933: `npm start` and shells do not pass SIGTERM on.
#[test]
fn npm_4603_sigterm_reaches_the_real_server() {
    let directory = Directory::new("sigterm");
    let package =
        r#"{"name":"x","version":"1.0.0","scripts":{"start":"sh -c 'export A=1; node graceful.js; true'"}}"#;
    directory.file("package.json", package);
    fs::copy(app("graceful.js"), directory.0.join("graceful.js")).unwrap();
    let mut supervisor = Setup::new(&["npm", "start"]).directory(&directory.0).workers(2).ready();
    let servers = supervisor.wait_answers(2);
    let below = supervisor.descendants();
    supervisor.signal(Signal::TERM);
    assert_eq!(supervisor.wait(), 0);
    let graceful = numbers(&supervisor.output(), "graceful");
    assert_eq!(graceful.iter().map(ToString::to_string).collect::<std::collections::BTreeSet<_>>(), servers);
    assert!(!below.into_iter().any(is_running), "orphans go on serving");
}

/// tini#229, #95: only the direct child is signalled, daemons are killed hard.
#[test]
fn tini_229_daemons_are_asked_to_stop_too() {
    let mut supervisor = tree("daemon").start();
    wait_for("both processes", || (numbers(&supervisor.output(), "daemon").len() == 2).then_some(()));
    supervisor.signal(Signal::TERM);
    assert_eq!(supervisor.wait(), 0);
    let output = supervisor.output();
    assert!(output.contains("daemon stopped") && output.contains("main stopped"), "{output}");
}

#[test]
fn what_does_not_stop_is_killed_within_the_grace_period() {
    let mut supervisor = tree("stubborn").flags(&["--grace", "2"]).start();
    let daemon = wait_for("the daemon", || numbers(&supervisor.output(), "daemon").first().copied());
    let begin = Instant::now();
    supervisor.signal(Signal::TERM);
    assert_eq!(supervisor.wait(), 137);
    assert!(begin.elapsed() < Duration::from_secs(2), "{:?}", begin.elapsed());
    assert!(!is_running(daemon));
}

#[test]
fn a_second_signal_does_not_wait() {
    let mut supervisor = tree("stubborn").flags(&["--grace", "600"]).start();
    wait_for("the daemon", || numbers(&supervisor.output(), "daemon").first().copied());
    supervisor.signal(Signal::TERM);
    supervisor.wait_output("SIGTERM: stopping");
    supervisor.signal(Signal::INT);
    assert_eq!(supervisor.wait(), 137);
}

/// umami#1526: zombies pile up until fork fails.
#[test]
fn umami_1526_a_thousand_orphans_are_reaped() {
    let supervisor = tree("orphans").start();
    supervisor.wait_output("orphans made");
    wait_for("every zombie to be reaped", || (zombies_of(supervisor.pid()) == 0).then_some(()));
    assert_eq!(supervisor.descendants().len(), 1);
}

/// pm2#4730, #4828: exit code 2 although the app ended with 0; pm2#4372, gunicorn#1663: the container stays up although
/// every worker fails.
#[test]
fn pm2_4372_gives_up_with_the_workers_own_code() {
    for (script, code) in [("exit 3", 3), ("exit 0", 0), ("kill -KILL $$", 137), ("nosuchcommand", 127)] {
        let mut supervisor = Setup::new(&["sh", "-c", script]).workers(2).start();
        assert_eq!(supervisor.wait(), code, "{script}");
        assert!(supervisor.output().contains("giving up: no worker listens"), "{}", supervisor.output());
    }
}

/// A person who starts it in the wrong directory wants one stack trace, not one for each worker and try.
#[test]
fn a_canary_that_ends_before_it_listens_is_started_once() {
    let script = "echo started $WORKER_ID; exit 3";
    let mut supervisor = Setup::new(&["sh", "-c", script]).workers(3).flags(&["--canary", "on"]).start();
    assert_eq!(supervisor.wait(), 3);
    let output = supervisor.output();
    assert_eq!(output.matches("started").count(), 1, "{output}");
    assert!(
        output.contains("giving up: the first worker ended before it listened; ending with code 3"),
        "{output}"
    );
    assert!(!output.contains("restarting it"), "{output}");
}

/// uvicorn#517: a killed worker is never replaced.
#[test]
fn uvicorn_517_a_killed_worker_is_replaced() {
    let supervisor = Setup::new(&["node", &app("server.js")]).workers(2).ready();
    let before = supervisor.worker_pids();
    kill(before[1], Signal::KILL);
    let after = wait_for("a successor that listens", || {
        let pids = supervisor.worker_pids();
        let up = supervisor.status().matches("\"state\":\"listening\"").count();
        (pids.len() == 2 && pids[1] != before[1] && up == 2).then_some(pids)
    });
    assert_eq!(after[0], before[0]);
    supervisor.wait_answers(2);
    let restarts = supervisor.metric("workerapp_worker_restarts_total{worker=\"1\",reason=\"signal\"}");
    assert!((restarts - 1.0).abs() < 0.1);
}

/// uvicorn#517: with no worker left, requests hang. Here they wait for the successor.
#[test]
fn connections_that_wait_for_a_dead_worker_are_served_by_its_successor() {
    let supervisor = Setup::new(&["node", &app("server.js")]).workers(1).ready();
    let worker = supervisor.worker_pids()[0];
    kill(worker, Signal::STOP);
    let mut waiting: Vec<TcpStream> = (0..20)
        .map(|_| {
            let mut stream = TcpStream::connect(("127.0.0.1", supervisor.port)).unwrap();
            stream.write_all(b"GET / HTTP/1.0\r\n\r\n").unwrap();
            stream
        })
        .collect();
    assert!(supervisor.metric("workerapp_worker_queue_length{worker=\"0\"}") > 19.0);
    kill(worker, Signal::KILL);
    for stream in &mut waiting {
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        assert!(!answer.ends_with(&worker.to_string()));
    }
}

/// New connections avoid a worker that is down while another can take them.
#[test]
fn no_connection_goes_to_a_worker_that_is_down() {
    let directory = Directory::new("down");
    let flag = directory.0.join("second start");
    // Worker 1 fails on every start but its first.
    let script = format!(
        "if [ $WORKER_ID = 1 ]; then [ -e '{0}' ] && exit 1; touch '{0}'; fi; exec node {1}",
        flag.display(),
        app("server.js")
    );
    let supervisor = Setup::new(&["sh", "-c", &script]).workers(2).ready();
    supervisor.wait_answers(2);
    let pids = supervisor.worker_pids();
    kill(pids[1], Signal::KILL);
    wait_for("the supervisor to notice", || supervisor.output().contains("worker 1 ended").then_some(()));
    for _ in 0..200 {
        assert_eq!(supervisor.get("/"), Some(pids[0].to_string()));
    }
    assert_eq!(supervisor.readyz(), Some((200, "ok\n".into())), "one that listens is enough");
}

#[test]
fn a_command_that_does_not_exist_or_cannot_be_run_ends_at_once() {
    let directory = Directory::new("commands");
    let plain = directory.file("plain", "#!/bin/sh\n");
    let script = directory.file("script", "#!/nowhere/interpreter\n");
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    for (command, code, message) in [
        ("nosuchcommand", 127, "cannot start worker 0: nosuchcommand: not found in PATH ("),
        ("/nosuch/command", 127, "cannot start worker 0: /nosuch/command: no such file"),
        (&script, 127, "is a script for /nowhere/interpreter, which does not exist here"),
        (&plain, 126, "is not executable (mode 0644)"),
        ("/", 126, "/ is a directory"),
    ] {
        let mut supervisor = Setup::new(&[command]).workers(3).start();
        assert_eq!(supervisor.wait(), code, "{command}");
        let output = supervisor.output();
        assert!(output.contains(message), "{output}");
        assert_eq!(output.matches("cannot start").count(), 1, "{output}");
    }
}

#[test]
fn wrong_flags_end_with_64() {
    let mut supervisor = Setup::new(&["true"]).flags(&["--workers", "many"]).start();
    assert_eq!(supervisor.wait(), 64);
    assert!(supervisor.output().contains("--workers many: give auto or a number from 1 to 1024"));
}

/// kubernetes#43576, traefik#4452: endpoints lag behind SIGTERM.
#[test]
fn kubernetes_43576_serves_on_while_the_endpoints_are_withdrawn() {
    let setup = Setup::new(&["node", &app("server.js")]).workers(2);
    let mut supervisor = setup.flags(&["--lame-duck", "1"]).ready();
    let begin = Instant::now();
    supervisor.signal(Signal::TERM);
    let reason = wait_for("readiness to end", || supervisor.readyz().filter(|(status, _)| *status == 503));
    assert_eq!(reason.1, "stopping\n");
    while begin.elapsed() < Duration::from_millis(800) {
        assert!(supervisor.get("/").is_some());
    }
    assert_eq!(supervisor.wait(), 0);
    assert!(begin.elapsed() >= Duration::from_secs(1) && begin.elapsed() < Duration::from_secs(3));
}

#[test]
fn the_images_stop_signal_means_stop_and_is_what_workers_get() {
    let mut supervisor = tree("signals").flags(&["--stop-signal", "SIGQUIT", "--grace", "600"]).start();
    supervisor.wait_output("prepared");
    supervisor.signal(Signal::QUIT);
    supervisor.wait_output("got SIGQUIT");
    supervisor.signal(Signal::TERM);
    assert_eq!(supervisor.wait(), 137);
}

#[test]
fn other_signals_are_passed_on() {
    let supervisor = tree("signals").start();
    supervisor.wait_output("prepared");
    for (signal, name) in [(Signal::USR1, "SIGUSR1"), (Signal::WINCH, "SIGWINCH"), (Signal::TTIN, "SIGTTIN")]
    {
        supervisor.signal(signal);
        supervisor.wait_output(&format!("got {name}"));
    }
}

/// What a worker leaves behind would hold the port and serve on, unsupervised.
#[test]
fn what_a_worker_leaves_behind_is_stopped_before_its_successor_starts() {
    let mut supervisor = tree("leaves").flags(&["--port", &free_port().to_string()]).start();
    assert_eq!(supervisor.wait(), 4);
    let output = supervisor.output();
    let (left, stopped) = (numbers(&output, "daemon"), numbers(&output, "left behind stopped"));
    assert_eq!(left, stopped, "{output}");
}

#[test]
fn workers_do_not_outlive_the_supervisor() {
    let supervisor = Setup::new(&["node", &app("server.js")]).workers(3).ready();
    let workers = supervisor.worker_pids();
    supervisor.signal(Signal::KILL);
    wait_for("the workers to end", || (!workers.iter().copied().any(is_running)).then_some(()));
}

#[test]
fn an_app_that_listens_in_the_wrong_place_is_told_so() {
    let other = free_port();
    let wrong =
        |test| Setup::new(&["python3", &app("binds.py"), test]).env("OTHER", &other.to_string()).workers(1);
    let elsewhere = wrong("elsewhere").start();
    let port = elsewhere.port;
    let remedy = "set spec.port or the app's PORT";
    let expected = format!("worker 0 listens on port {other}; the declared port is {port}: {remedy}");
    let reason = wait_for("the reason", || elsewhere.readyz().filter(|(_, text)| text.contains("listens")));
    assert_eq!(reason, (503, expected.clone() + "\n"));
    elsewhere.wait_output(&format!("[workerapp] warning: {expected}\n"));

    let loopback = wrong("loopback").start();
    let expected =
        "worker 0 listens on 127.0.0.1 only: nothing outside the pod can reach it; make it listen on 0.0.0.0";
    let reason = wait_for("the reason", || loopback.readyz().filter(|(_, text)| text.contains("listens")));
    assert_eq!(reason, (503, format!("{expected}\n")));
    assert!(loopback.get("/").is_some(), "inside the pod it is reached");
}

#[test]
fn each_worker_is_told_its_number() {
    let script = "echo \"env $WORKERS $WORKER_ID $NODE_APP_INSTANCE $PORT $THREADS $0\"; exec sleep 600";
    let setup = Setup::new(&["sh", "-c", script, "$(WORKER_ID)of$(WORKERS)"]).flags(&["--workers", "2"]);
    let supervisor = setup.env("PORT", "77").flags(&["--worker-env", "THREADS=$(WORKERS)"]).start();
    supervisor.wait_output("env 2 0 0 77 2 0of2\n");
    supervisor.wait_output("env 2 1 1 77 2 1of2\n");

    let setup =
        Setup::new(&["sh", "-c", "echo \"env $WORKERS $THREADS\"; exec sleep 600"]).env("WORKERS", "many");
    let setup = setup.flags(&["--workers", "2", "--keep-env", "WORKERS", "--worker-env", "THREADS=9"]);
    setup.env("THREADS", "5").start().wait_output("env many 5\n");
}
