//! Replacing workers while clients, which never retry, keep asking.

#![allow(clippy::unwrap_used, reason = "a failed step is a failed test")]

mod common;

use common::{BINARY, Directory, Load, Setup, Signal, Supervisor, app, kill, wait_for};
use std::fs;
use std::process::Command;

/// Rolls all workers over once, and waits until none of the old ones is left.
fn roll(supervisor: &Supervisor, begin: impl Fn(&Supervisor)) {
    let old = supervisor.worker_pids();
    begin(supervisor);
    wait_for(&format!("all workers to be replaced\n{}", supervisor.output()), || {
        let pids = supervisor.worker_pids();
        let fresh = pids.len() == old.len() && pids.iter().all(|pid| !old.contains(pid));
        (fresh && !old.iter().copied().any(common::is_running)).then_some(())
    });
}

/// pm2#3143, #2729: `pm2 reload` loses about 2 % of requests; #5043: the old worker still gets connections.
#[test]
fn pm2_3143_three_rolling_restarts_of_an_app_without_signal_handling_lose_nothing() {
    let supervisor = Setup::new(&["node", &app("slow.js")]).workers(2).ready();
    let load = Load::on(supervisor.port);
    supervisor.wait_answers(2);
    roll(&supervisor, |s| s.signal(Signal::HUP));
    roll(&supervisor, |s| s.signal(Signal::USR2));
    roll(&supervisor, |s| {
        let answer = common::post(([127, 0, 0, 1], s.admin).into(), "/restart").unwrap();
        assert_eq!(answer.0, 202, "{answer:?}");
    });
    let (short, kept, lost) = load.end();
    assert_eq!(lost, "", "of {short} + {kept}\n{}", supervisor.output());
    assert!(short > 100 && kept > 100, "{short} {kept}");
    let restarts = supervisor.metric("workerapp_worker_restarts_total{worker=\"1\",reason=\"requested\"}");
    assert!((restarts - 3.0).abs() < 0.1);
}

/// nodejs#27363, next.js#19693: keep-alive connections are reset, pages in flight are not finished.
#[test]
fn next_19693_a_pod_that_stops_finishes_what_it_has_begun() {
    let setup = Setup::new(&["node", &app("slow.js")]).workers(2).flags(&["--grace", "20"]);
    let mut supervisor = setup.ready();
    let mut clients = Vec::new();
    for _ in 0..8 {
        clients.push(common::Kept::connect(supervisor.port));
    }
    for client in &mut clients {
        assert!(client.ask().is_some_and(|answer| !answer.closes));
    }
    for client in &mut clients {
        client.send();
    }
    supervisor.signal(Signal::TERM);
    for client in &mut clients {
        assert!(client.receive().is_some(), "answered although the stop has begun");
    }
    // The next answer says that it is the last on this connection.
    for client in &mut clients {
        assert!(client.ask().is_none_or(|answer| answer.closes));
    }
    assert_eq!(supervisor.wait(), 0);
}

#[test]
fn a_successor_that_fails_leaves_the_old_workers_alone() {
    let directory = Directory::new("broken");
    let script = directory.file("server.js", &fs::read_to_string(app("server.js")).unwrap());
    let supervisor = Setup::new(&["node", &script]).workers(2).ready();
    // Both have read the script by then.
    supervisor.wait_answers(2);
    let pids = supervisor.worker_pids();
    fs::write(&script, "process.exit(3)").unwrap();
    supervisor.signal(Signal::HUP);
    supervisor.wait_output("the restart is off, the old workers go on");
    assert_eq!(supervisor.worker_pids(), pids);
    supervisor.wait_answers(2);
    assert_eq!(supervisor.readyz().unwrap().0, 200);
}

#[test]
fn the_apps_own_node_options_stay_and_the_preload_can_be_turned_off() {
    let script = "console.log('options', process.env.NODE_OPTIONS)";
    let with = |flags: &[&str]| {
        let setup = Setup::new(&["node", "-e", script]).env("NODE_OPTIONS", "--no-warnings").flags(flags);
        setup.flags(&["--workers", "1"]).start()
    };
    let on = with(&[]).wait_output("options --no-warnings --require=");
    assert!(on.contains("node.cjs"));
    with(&["--node-preload", "off"]).wait_output("options --no-warnings\n");
}

#[test]
fn an_installed_binary_writes_nothing_at_run_time() {
    let directory = Directory::new("readonly");
    let path = directory.0.join("supervisor");
    assert!(Command::new(BINARY).arg("install").arg(&path).status().unwrap().success());
    let script = "console.log(process.env.NODE_OPTIONS); setInterval(() => {}, 1000)";
    let command = ["sh", "-c", "shift; exec \"$0\" \"$@\"", path.to_str().unwrap()];
    let supervisor = Setup::new(&["node", "-e", script]).wrapper(&command).flags(&["--workers", "1"]).start();
    supervisor.wait_output(&format!("--require={}.node.cjs\n", path.display()));
}

#[test]
fn a_restart_is_only_begun_from_inside_the_pod() {
    let supervisor = Setup::new(&["node", &app("server.js")]).workers(1).ready();
    // Another address of this machine stands for the rest of the cluster.
    let Some(address) = common::own_address() else {
        eprintln!("this machine has only its loopback address");
        return;
    };
    let answer = common::post((address, supervisor.admin).into(), "/restart").unwrap();
    assert_eq!(answer.0, 403, "{answer:?}");
}

#[test]
fn a_crash_in_a_rolling_restart_is_repaired() {
    let supervisor = Setup::new(&["node", &app("slow.js")]).workers(3).ready();
    let old = supervisor.worker_pids();
    supervisor.signal(Signal::HUP);
    kill(old[2], Signal::KILL);
    wait_for("three fresh workers", || {
        let pids = supervisor.worker_pids();
        let up = supervisor.status().matches("\"state\":\"listening\"").count();
        (up == 3 && pids.len() == 3 && pids.iter().all(|pid| !old.contains(pid))).then_some(())
    });
    supervisor.wait_answers(3);
}
