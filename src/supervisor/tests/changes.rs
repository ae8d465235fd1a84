//! What changes while the workers run: the CPU limit, and workers that hang, grow or age.

#![allow(clippy::unwrap_used, reason = "a failed step is a failed test")]

mod common;

use common::{Cgroup, Load, Setup, Signal, Supervisor, app, get, kill, wait_for};
use std::net::TcpStream;
use std::time::Duration;

fn listening(supervisor: &Supervisor) -> usize {
    supervisor.status().matches("\"state\":\"listening\"").count()
}

fn restarts(supervisor: &Supervisor, cause: &str) -> f64 {
    let sample =
        |worker| format!("workerapp_worker_restarts_total{{worker=\"{worker}\",reason=\"{cause}\"}}");
    (0..2).map(|worker| supervisor.metric(&sample(worker))).sum()
}

/// gvisor#14141: an in-place resize leaves the CPU count stale.
#[test]
fn gvisor_14141_workers_follow_an_in_place_resize_and_nothing_is_lost() {
    let Some(cgroup) = Cgroup::make("resize") else {
        eprintln!("no cgroup can be made here");
        return;
    };
    cgroup.limit(100_000);
    let setup = Setup::new(&["node", &app("slow.js")]);
    let port = setup.port.to_string();
    let supervisor = cgroup.run(setup.flags(&["--port", &port])).ready();
    assert_eq!(listening(&supervisor), 1);
    let load = Load::on(supervisor.port);
    supervisor.wait_answers(1);

    cgroup.limit(300_000);
    wait_for("three workers", || (listening(&supervisor) == 3).then_some(()));
    supervisor.wait_answers(3);
    assert!(supervisor.status().contains(r#""workers":3,"workersReason":"CPU limit of 3, rounded up""#));

    cgroup.limit(100_000);
    wait_for("one worker", || (supervisor.descendants().len() == 1).then_some(()));
    let (short, kept, lost) = load.end();
    assert_eq!(lost, "", "of {short} + {kept}\n{}", supervisor.output());
    assert_eq!(supervisor.readyz().unwrap().0, 200);
    // The cgroup can be removed only when nobody is in it any more.
    drop(supervisor);
}

#[test]
fn an_explicit_count_stays() {
    let Some(cgroup) = Cgroup::make("explicit") else {
        eprintln!("no cgroup can be made here");
        return;
    };
    cgroup.limit(100_000);
    let supervisor = cgroup.run(Setup::new(&["node", &app("server.js")]).workers(2)).ready();
    supervisor.wait_answers(2);
    cgroup.limit(300_000);
    // Longer than a derived count would take.
    std::thread::sleep(Duration::from_secs(4));
    assert_eq!(listening(&supervisor), 2);
    drop(supervisor);
}

#[test]
fn a_worker_that_hangs_is_avoided_and_then_replaced() {
    let setup = Setup::new(&["node", &app("hangs.js")]).workers(2).flags(&["--hang-timeout", "4"]);
    let supervisor = setup.ready();
    let before = supervisor.worker_pids();
    let port = supervisor.port;
    // Whichever worker gets it.
    let hung = std::thread::spawn(move || get(([127, 0, 0, 1], port).into(), "/hang"));
    let mut waiting: Vec<TcpStream> = Vec::new();
    let queued = |supervisor: &Supervisor| -> f64 {
        (0..2).map(|w| supervisor.metric(&format!("workerapp_worker_queue_length{{worker=\"{w}\"}}"))).sum()
    };
    wait_for("connections that wait", || {
        waiting.extend((0..5).map(|_| TcpStream::connect(("127.0.0.1", port)).unwrap()));
        (queued(&supervisor) > 5.0).then_some(())
    });
    let stuck = queued(&supervisor);
    // Under suspicion: whoever comes now gets to the other one.
    std::thread::sleep(Duration::from_millis(2_500));
    for _ in 0..20 {
        assert!(supervisor.get("/").is_some());
    }
    assert!(queued(&supervisor) <= stuck);
    wait_for("the end of the one that hangs", || (restarts(&supervisor, "hung") > 0.5).then_some(()));
    wait_for("its successor", || (listening(&supervisor) == 2).then_some(()));
    let after = supervisor.worker_pids();
    assert_eq!(before.iter().filter(|pid| after.contains(pid)).count(), 1, "the other one goes on");
    wait_for("those who waited to be accepted", || (queued(&supervisor) < 0.5).then_some(()));
    assert_eq!(hung.join().unwrap(), None);
    drop(waiting);
}

/// A stopped process hangs, too; one that nobody asks for anything does not.
#[test]
fn an_idle_worker_is_left_alone() {
    let setup = Setup::new(&["node", &app("server.js")]).workers(2).flags(&["--hang-timeout", "1"]);
    let supervisor = setup.ready();
    let pids = supervisor.worker_pids();
    kill(pids[0], Signal::STOP);
    std::thread::sleep(Duration::from_secs(3));
    assert_eq!(supervisor.worker_pids(), pids);
    kill(pids[0], Signal::CONT);
}

/// uvicorn#2506, gunicorn#1801: healthy workers killed while they start slowly.
#[test]
fn uvicorn_2506_a_slow_start_is_no_hang() {
    let script = format!("sleep 4; exec node {}", app("server.js"));
    let setup = Setup::new(&["sh", "-c", &script]).workers(2).flags(&["--hang-timeout", "1"]);
    let supervisor = setup.ready();
    assert!(!supervisor.output().contains("ended"), "{}", supervisor.output());
}

#[test]
fn a_worker_that_grows_is_replaced_without_a_loss() {
    let setup = Setup::new(&["node", &app("leaks.js")]).workers(2);
    let supervisor = setup.flags(&["--max-memory", "150000000"]).ready();
    let load = Load::on(supervisor.port);
    wait_for("both to be replaced", || (restarts(&supervisor, "memory") >= 2.0).then_some(()));
    let (short, kept, lost) = load.end();
    assert_eq!(lost, "", "of {short} + {kept}\n{}", supervisor.output());
}

#[test]
fn a_worker_that_has_answered_enough_or_is_old_is_replaced() {
    let setup = Setup::new(&["node", &app("server.js")]).workers(2).flags(&["--max-requests", "50"]);
    let supervisor = setup.ready();
    wait_for("a replacement", || {
        supervisor.get("/").unwrap();
        (restarts(&supervisor, "requests") > 0.5).then_some(())
    });
    let supervisor = Setup::new(&["node", &app("server.js")]).workers(2).flags(&["--max-age", "3"]).ready();
    wait_for("a replacement", || (restarts(&supervisor, "age") > 0.5).then_some(()));
}
