//! What the supervisor itself costs, and that it does its work as the first process of a container too.

#![allow(clippy::unwrap_used, reason = "a failed step is a failed test")]

mod common;

use common::{Cgroup, Setup, Signal, app, descendants, free_port, is_root, wait_for};
use std::fs;
use std::io::Write;
use std::net::TcpStream;
use std::time::Duration;

#[test]
fn as_the_first_process_of_a_container() {
    if !is_root() {
        eprintln!("not root: no namespace can be made");
        return;
    }
    let script = format!("python3 {} orphans & exec node {}", app("tree.py"), app("server.js"));
    let setup = Setup::new(&["sh", "-c", &script]).workers(2);
    let wrapper = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"];
    let mut supervisor = setup.wrapper(&wrapper).ready();
    supervisor.wait_answers(2);
    wait_for("both workers to make orphans", || {
        (supervisor.output().matches("orphans made").count() == 2).then_some(())
    });
    let inner = descendants(supervisor.pid())[0];
    wait_for("every zombie to be reaped", || (common::zombies_of(inner) == 0).then_some(()));
    common::kill(inner, Signal::TERM);
    assert_eq!(supervisor.wait(), 0);
}

#[test]
fn it_is_small_and_sleeps() {
    let supervisor = Setup::new(&["node", &app("server.js")]).workers(2).ready();
    let status = || fs::read_to_string(format!("/proc/{}/status", supervisor.pid())).unwrap();
    let field = |name: &str| -> u64 {
        let text = status();
        let line = text.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        line.split_ascii_whitespace().next().unwrap().parse().unwrap()
    };
    let before = field("voluntary_ctxt_switches:");
    // Here time itself is what is measured.
    std::thread::sleep(Duration::from_secs(3));
    let woken = field("voluntary_ctxt_switches:") - before;
    assert!(woken <= 3, "woken {woken} times in 3 s");
    let resident = field("VmRSS:");
    assert!(resident <= 8_192, "{resident} kB in a build that is not even optimised");
}

#[test]
fn metrics_of_each_worker() {
    let supervisor = Setup::new(&["node", &app("server.js")]).workers(2).ready();
    supervisor.wait_answers(2);
    let sum = |family: &str| -> f64 {
        (0..2).map(|worker| supervisor.metric(&format!("{family}{{worker=\"{worker}\"}}"))).sum()
    };
    assert!(sum("workerapp_worker_resident_bytes") > 2.0 * 20e6, "two Node processes");
    assert!(sum("workerapp_worker_cpu_seconds_total") > 0.02);
    assert!((sum("workerapp_worker_up") - 2.0).abs() < 0.1);
    // What Node tells is an answer to the scrape before.
    let asked = wait_for("Node's own numbers", || {
        supervisor
            .status()
            .matches("\"node\":{\"requests\":")
            .nth(1)
            .map(|_| sum("workerapp_worker_requests_total"))
    });
    for _ in 0..50 {
        supervisor.get("/").unwrap();
    }
    wait_for("50 requests more", || (sum("workerapp_worker_requests_total") >= asked + 50.0).then_some(()));
    assert!(sum("workerapp_worker_event_loop_utilization") <= 2.0);
    let mut kept: Vec<common::Kept> = (0..10).map(|_| common::Kept::connect(supervisor.port)).collect();
    assert!(kept.iter_mut().all(|connection| connection.ask().is_some()));
    assert!((sum("workerapp_worker_connections") - 10.0).abs() < 0.1);
}

#[test]
fn requests_in_flight_and_how_long_they_took() {
    let supervisor = Setup::new(&["node", &app("holds.js")]).workers(1).ready();
    supervisor.wait_answers(1);
    // What Node tells is an answer to the scrape before, so each number is waited for.
    let is = |sample: &str, wanted: f64| {
        wait_for(&format!("{sample} to be {wanted}"), || {
            (supervisor.find_metric(sample) == Some(wanted)).then_some(())
        });
    };
    let worker = |family: &str| format!("{family}{{worker=\"0\"}}");
    let count = worker("workerapp_worker_request_duration_seconds_count");
    is("workerapp_requests_in_flight", 0.0);
    let before = supervisor.metric(&count);

    let mut waiting: Vec<common::Kept> = (0..3).map(|_| common::Kept::connect(supervisor.port)).collect();
    for client in &mut waiting {
        client.send_to("/wait");
    }
    is(&worker("workerapp_worker_requests_in_flight"), 3.0);
    let mut single = TcpStream::connect(("127.0.0.1", supervisor.port)).unwrap();
    single.write_all(b"GET /wait HTTP/1.1\r\nHost: app\r\nConnection: close\r\n\r\n").unwrap();
    is(&worker("workerapp_worker_requests_in_flight"), 4.0);
    // Two go away without an answer: they aren't in flight any more, and took no time that could be told.
    drop(waiting.pop());
    drop(single);
    is("workerapp_requests_in_flight", 2.0);
    supervisor.get("/go").unwrap();
    assert!(waiting.iter_mut().all(|client| client.receive().is_some()));
    is("workerapp_requests_in_flight", 0.0);
    is(&count, before + 3.0);
    assert!(supervisor.metric(&worker("workerapp_worker_request_duration_seconds_sum")) > 0.0);
    assert!(supervisor.metric(&worker("workerapp_worker_accepted_total")) >= before + 4.0);
}

/// libuv#4740, #4146, nodejs#59200: the count from the cgroup, with fractions.
#[test]
fn libuv_4740_workers_follow_the_cgroups_limit() {
    let Some(cgroup) = Cgroup::make("derived") else {
        eprintln!("no cgroup can be made here");
        return;
    };
    for (quota, workers) in [(150_000, 2), (300_000, 3), (20_000, 1)] {
        cgroup.limit(quota);
        let supervisor = cgroup.run(Setup::new(&["sleep", "600"])).start();
        let line = format!("WORKERS={workers} (CPU limit of ");
        supervisor.wait_output(&line);
    }
}

/// golang#73193, kuma#7982: each of N workers takes all CPUs.
#[test]
fn golang_73193_each_worker_is_told_its_share() {
    let Some(cgroup) = Cgroup::make("share") else {
        eprintln!("no cgroup can be made here");
        return;
    };
    cgroup.limit(300_000);
    let script = "echo \"share $GOMAXPROCS $OMP_NUM_THREADS $UV_THREADPOOL_SIZE\"; exec sleep 600";
    let with = |value: &str| {
        let setup = Setup::new(&["sh", "-c", script]);
        let setup = if value.is_empty() { setup } else { setup.env("GOMAXPROCS", value) };
        cgroup.run(setup).start()
    };
    wait_for("three workers", || Some(with("").wait_output("share 1 1 4\n")));
    with("7").wait_output("share 7 1 4\n");
}

/// Unitech/pm2#4347: as many forks as the host has CPUs.
#[test]
fn pm2_4347_without_a_limit_the_variable_decides() {
    if Cgroup::limited() {
        eprintln!("the tests run under a CPU limit themselves");
        return;
    }
    let supervisor = Setup::new(&["sleep", "600"]).env("WORKERS", "3").start();
    supervisor.wait_output("WORKERS=3 (no CPU limit; WORKERS=3 in the environment)");
    wait_for("three workers", || (supervisor.descendants().len() == 3).then_some(()));
}

#[test]
fn an_admin_port_that_is_taken() {
    let taken = std::net::TcpListener::bind("[::]:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let mut supervisor = Setup::new(&["true"]).flags(&["--admin-port", &port]).start();
    assert_eq!(supervisor.wait(), 1);
    let line = format!("cannot listen on the admin port {port}: Address");
    assert!(supervisor.output().contains(&line), "{}", supervisor.output());
}

#[test]
fn a_port_that_something_else_has() {
    let port = free_port();
    let _taken = std::net::TcpListener::bind(("0.0.0.0", port)).unwrap();
    let mut setup =
        Setup::new(&["node", &app("server.js")]).env("PORT", &port.to_string()).env("HOST", "0.0.0.0");
    setup.port = port;
    let mut supervisor = setup.workers(1).start();
    assert_eq!(supervisor.wait(), 1);
    let line =
        format!("0.0.0.0:{port} cannot be bound: a process that is none of the workers has it already");
    assert_eq!(supervisor.output().matches(&line).count(), 1, "{}", supervisor.output());
}
