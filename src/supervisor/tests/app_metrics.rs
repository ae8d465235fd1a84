//! The app's own metrics, of all workers.

#![allow(clippy::unwrap_used, reason = "a failed step is a failed test")]

mod common;

use common::{Setup, Signal, Supervisor, app, get, wait_for};
use std::collections::BTreeMap;

/// Which process answered for each worker, and how many requests it has counted.
fn collect(supervisor: &Supervisor) -> BTreeMap<usize, (i32, u32)> {
    let (status, page) = get(([127, 0, 0, 1], supervisor.admin).into(), "/app-metrics").unwrap();
    assert_eq!(status, 200, "{page}");
    assert_eq!(page.matches("# TYPE requests_total").count(), 1);
    let samples = page.lines().filter_map(|line| line.strip_prefix("requests_total{worker=\""));
    let samples = samples.map(|line| {
        let parts: Vec<&str> = line.split(['"', ' ']).collect();
        (parts[0].parse().unwrap(), (parts[2].parse().unwrap(), parts[4].parse().unwrap()))
    });
    samples.collect()
}

fn pids(metrics: &BTreeMap<usize, (i32, u32)>) -> Vec<i32> {
    metrics.values().map(|(pid, _)| *pid).collect()
}

/// `client_js#239`, courtlistener#7980: each scrape meets another worker.
#[test]
fn client_js_239_every_worker_is_asked() {
    let setup = Setup::new(&["node", &app("metrics.js")]).workers(3).flags(&["--app-metrics", "/metrics"]);
    let supervisor = setup.ready();
    for _ in 0..30 {
        supervisor.get("/").unwrap();
    }
    let metrics = collect(&supervisor);
    assert_eq!(pids(&metrics), supervisor.worker_pids(), "each by its number");
    assert_eq!(metrics.values().map(|(_, count)| *count).sum::<u32>(), 30, "{metrics:?}");

    // Successors have other slots.
    supervisor.signal(Signal::HUP);
    supervisor.wait_output("every worker that was due is replaced");
    wait_for("the metrics of the successors", || {
        let metrics = collect(&supervisor);
        (pids(&metrics) == supervisor.worker_pids() && metrics.len() == 3).then_some(())
    });
    let up = |supervisor: &Supervisor| get(([127, 0, 0, 1], supervisor.admin).into(), "/livez");
    assert_eq!(up(&supervisor).unwrap().0, 200);
}

#[test]
fn without_the_flag_there_are_none() {
    let supervisor = Setup::new(&["node", &app("server.js")]).workers(1).ready();
    assert_eq!(get(([127, 0, 0, 1], supervisor.admin).into(), "/app-metrics").unwrap().0, 404);
    // An app without such a path.
    let script = format!("exec python3 -m http.server --directory {} $PORT", app("."));
    let setup = Setup::new(&["sh", "-c", &script]).workers(1);
    let supervisor = setup.flags(&["--app-metrics", "/nothing"]).ready();
    let (status, page) = get(([127, 0, 0, 1], supervisor.admin).into(), "/app-metrics").unwrap();
    assert!(status == 200 && page.contains("workerapp_app_metrics_up{worker=\"0\"} 0"), "{page}");
}
