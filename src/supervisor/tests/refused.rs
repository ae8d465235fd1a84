//! Where the kernel or a sandbox refuses the seccomp listener.

#![allow(clippy::unwrap_used, reason = "a failed step is a failed test")]

mod common;

use common::programs::{installed, text};
use common::{Load, Setup, Signal, app, wait_for};

fn refused(command: &[&str]) -> Setup {
    Setup::new(command).wrapper(&["python3", &app("refuse.py")])
}

fn newer_node() -> String {
    text(&installed("node").join("bin/node")).to_owned()
}

/// gvisor#14627
#[test]
fn gvisor_14627_node_shares_the_port_by_itself() {
    for script in ["server.js", "slow.js"] {
        let node = newer_node();
        let supervisor = refused(&[&node, &app(script)]).workers(3).ready();
        supervisor.wait_output("a seccomp listener is refused (EPERM;");
        supervisor.wait_output("WORKERS=3: Node shares the port by itself (SO_REUSEPORT)");
        supervisor.wait_answers(3);
        wait_for("three workers", || {
            (supervisor.status().matches("\"state\":\"listening\"").count() == 3).then_some(())
        });
        assert!(supervisor.metric("workerapp_sharing_mode{mode=\"reuseport\"}") > 0.5);
        assert!(supervisor.status().contains(r#""sharing":{"mode":"reuseport","detail":"a seccomp"#));
    }
}

#[test]
fn workers_that_share_by_themselves_are_replaced_one_by_one() {
    let node = newer_node();
    let mut supervisor = refused(&[&node, &app("slow.js")]).workers(2).ready();
    // The first one is replaced as soon as it has turned out not to be alone.
    supervisor.wait_output("every worker that was due is replaced");
    supervisor.wait_answers(2);
    let load = Load::on(supervisor.port);
    let old = supervisor.worker_pids();
    supervisor.signal(Signal::HUP);
    wait_for("both to be replaced", || {
        let pids = supervisor.worker_pids();
        let fresh = pids.len() == 2 && pids.iter().all(|pid| !old.contains(pid));
        (fresh && !old.iter().copied().any(common::is_running)).then_some(())
    });
    let (short, kept, lost) = load.end();
    eprintln!("{short} + {kept}, lost: {lost}");
    // Connections in the queue of a socket that is closed are reset, and no program can keep them from getting there.
    let lost = lost.matches(':').count();
    assert!(lost <= 5 && short + kept > 100, "{lost} of {short} + {kept}");
    supervisor.signal(Signal::TERM);
    assert_eq!(supervisor.wait(), 0);
}

/// A node that is too old, and programs that are no Node: one worker, as before.
#[test]
fn others_run_as_one_worker() {
    let python = format!("exec python3 -m http.server --directory {}", app("."));
    for command in [&["node", &app("server.js")][..], &["sh", "-c", &format!("{python} $PORT")]] {
        let supervisor = refused(command).workers(3).ready();
        let version = std::process::Command::new("node").arg("--version").output().unwrap();
        if command[0] == "node" && !String::from_utf8(version.stdout).unwrap().starts_with("v20.") {
            continue;
        }
        assert!(supervisor.metric("workerapp_sharing_mode{mode=\"single\"}") > 0.5);
        assert_eq!(supervisor.worker_pids().len(), 1);
    }
}
