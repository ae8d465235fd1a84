//! `/status`: for `kubectl-workerapp` and for people.

use super::json::Json;
use super::{Snapshot, Stats, WorkerSnapshot};
use crate::fleet::Readiness;
use crate::sys::process::ExitStatus;

pub(super) fn render(snapshot: &Snapshot) -> String {
    let reasons = match &snapshot.readiness {
        Readiness::Ready => Vec::new(),
        Readiness::NotReady(reasons) => reasons.iter().map(Json::text).collect(),
    };
    let sharing = Json::Object(vec![
        ("mode", Json::text(snapshot.mode.name())),
        ("detail", snapshot.mode.detail().into()),
    ]);
    let status = Json::Object(vec![
        ("version", Json::text(env!("CARGO_PKG_VERSION"))),
        ("uptimeSeconds", Json::Decimal(snapshot.now.as_secs_f64())),
        ("ready", (snapshot.readiness == Readiness::Ready).into()),
        ("reasons", Json::List(reasons)),
        ("stopping", snapshot.stopping.into()),
        ("workers", snapshot.workers.into()),
        ("workersReason", Json::text(&snapshot.workers_reason)),
        ("sharing", sharing),
        ("ports", Json::List(snapshot.ports.iter().map(|port| (*port).into()).collect())),
        ("processes", Json::List(snapshot.processes.iter().map(process).collect())),
    ]);
    let mut text = String::new();
    status.write(&mut text);
    text.push('\n');
    text
}

fn process(worker: &WorkerSnapshot) -> Json {
    let restarts = worker.restarts.iter().map(|(cause, count)| (cause.name(), count.into())).collect();
    Json::Object(vec![
        ("id", worker.id.into()),
        ("state", Json::text(worker.state)),
        ("pid", worker.pid.into()),
        ("runningSeconds", worker.running.map_or(Json::Null, |time| Json::Decimal(time.as_secs_f64()))),
        ("reason", worker.shortcoming.clone().into()),
        ("restarts", Json::Object(restarts)),
        ("lastExit", worker.last_exit.map(|status| status.to_string()).into()),
        ("lastExitCode", worker.last_exit.map(ExitStatus::code).into()),
        ("listens", Json::List(worker.listens.iter().map(Json::text).collect())),
        ("queue", worker.queue.into()),
        ("connections", worker.connections.into()),
        ("cpuSeconds", Json::Decimal(worker.cpu.as_secs_f64())),
        ("residentBytes", worker.resident.into()),
        ("node", worker.node.map_or(Json::Null, |stats| node(&stats))),
    ])
}

fn node(stats: &Stats) -> Json {
    Json::Object(vec![
        ("requests", stats.requests.into()),
        ("inFlight", stats.in_flight.into()),
        ("accepted", stats.accepted.into()),
        ("connections", stats.connections.into()),
        ("eventLoopUtilization", stats.utilisation.map_or(Json::Null, Json::Decimal)),
        ("heapBytes", stats.heap.into()),
    ])
}
