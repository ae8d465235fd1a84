//! `/metrics`: Prometheus text.

use super::{Snapshot, WorkerSnapshot};
use crate::fleet::Readiness;
use crate::sharing::Mode;
use std::fmt::{Display, Write};

pub(super) fn render(snapshot: &Snapshot) -> String {
    let mut text = Text::default();
    text.family("workerapp_build_info", "gauge", "The supervisor's version.");
    text.sample("workerapp_build_info", &[("version", &env!("CARGO_PKG_VERSION"))], 1);
    text.family("workerapp_ready", "gauge", "1 while the pod should get traffic.");
    text.sample("workerapp_ready", &[], u8::from(snapshot.readiness == Readiness::Ready));
    text.family("workerapp_workers", "gauge", "WORKERS: how many workers there should be.");
    text.sample("workerapp_workers", &[], snapshot.workers);
    text.family("workerapp_sharing_mode", "gauge", "1 for the way in which the workers share the port.");
    for mode in Mode::NAMES {
        text.sample("workerapp_sharing_mode", &[("mode", mode)], u8::from(*mode == snapshot.mode.name()));
    }
    per_worker(&mut text, snapshot);
    from_node(&mut text, snapshot);
    text.0
}

fn per_worker(text: &mut Text, snapshot: &Snapshot) {
    let workers = &snapshot.processes;
    text.worker_gauge("workerapp_worker_up", "1 while the worker takes connections.", workers, |worker| {
        Some(f64::from(u8::from(worker.ready)))
    });
    text.family("workerapp_worker_restarts_total", "counter", "Restarts, by what made them necessary.");
    for worker in workers {
        for (cause, count) in worker.restarts.iter() {
            let labels: [(&str, &dyn Display); 2] = [("worker", &worker.id), ("reason", &cause.name())];
            text.sample("workerapp_worker_restarts_total", &labels, count);
        }
    }
    let help = "Connections that wait for the worker to accept them.";
    text.worker_gauge("workerapp_worker_queue_length", help, workers, |worker| Some(f64::from(worker.queue)));
    let help = "Open connections that the worker has accepted.";
    text.worker_gauge("workerapp_worker_connections", help, workers, |worker| {
        Some(f64::from(worker.connections))
    });
    let help = "Time since the worker's process was started.";
    text.worker_gauge("workerapp_worker_running_seconds", help, workers, |worker| {
        worker.running.map(|time| time.as_secs_f64())
    });
    let help = "Resident memory of the worker's processes; shared pages count for each of them.";
    text.worker_gauge("workerapp_worker_resident_bytes", help, workers, |worker| {
        Some(number(worker.resident))
    });
    text.family("workerapp_worker_cpu_seconds_total", "counter", "CPU time of the worker's processes.");
    for worker in workers {
        text.sample(
            "workerapp_worker_cpu_seconds_total",
            &[("worker", &worker.id)],
            worker.cpu.as_secs_f64(),
        );
    }
}

/// Only Node can be asked from inside.
fn from_node(text: &mut Text, snapshot: &Snapshot) {
    let workers = &snapshot.processes;
    if workers.iter().all(|worker| worker.node.is_none()) {
        return;
    }
    text.family(
        "workerapp_worker_requests_total",
        "counter",
        "Requests that the worker began to answer (Node).",
    );
    for worker in workers {
        if let Some(node) = worker.node {
            text.sample("workerapp_worker_requests_total", &[("worker", &worker.id)], node.requests);
        }
    }

    let help = "Share of the time since the last look in which the event loop was busy (Node).";
    text.worker_gauge("workerapp_worker_event_loop_utilization", help, workers, |w| w.node?.utilisation);
    let help = "Used JavaScript heap (Node).";
    text.worker_gauge("workerapp_worker_heap_bytes", help, workers, |w| Some(number(w.node?.heap)));
}

#[allow(clippy::cast_precision_loss, reason = "beyond 2^53 bytes or connections nobody minds")]
fn number(value: u64) -> f64 {
    value as f64
}

#[derive(Default)]
struct Text(String);

impl Text {
    fn family(&mut self, name: &str, kind: &str, help: &str) {
        // Writing to a String cannot fail.
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    /// A family with one sample for each worker that has a value.
    fn worker_gauge(
        &mut self,
        name: &str,
        help: &str,
        workers: &[WorkerSnapshot],
        value: impl Fn(&WorkerSnapshot) -> Option<f64>,
    ) {
        self.family(name, "gauge", help);
        for worker in workers {
            if let Some(value) = value(worker) {
                self.sample(name, &[("worker", &worker.id)], value);
            }
        }
    }

    fn sample(&mut self, name: &str, labels: &[(&str, &dyn Display)], value: impl Display) {
        self.0.push_str(name);
        for (at, (label, text)) in labels.iter().enumerate() {
            let start = if at == 0 { '{' } else { ',' };
            let escaped = text.to_string().replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
            let _ = write!(self.0, "{start}{label}=\"{escaped}\"");
        }
        if !labels.is_empty() {
            self.0.push('}');
        }
        let _ = writeln!(self.0, " {value}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples() {
        let mut text = Text::default();
        text.family("a_total", "counter", "As.");
        text.sample("a_total", &[], 1);
        text.sample("a_total", &[("x", &"q\"\\\n"), ("y", &2)], 0.5);
        assert_eq!(
            text.0,
            "# HELP a_total As.\n# TYPE a_total counter\na_total 1\na_total{x=\"q\\\"\\\\\\n\",y=\"2\"} 0.5\n"
        );
    }
}
