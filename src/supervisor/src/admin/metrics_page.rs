//! `/metrics`: Prometheus text.

use super::{Durations, Snapshot, WorkerSnapshot};
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
    per_pod(&mut text, snapshot);
    cpu_limit(&mut text, snapshot);
    per_worker(&mut text, snapshot);
    from_node(&mut text, snapshot);
    text.0
}

/// How often the container was held back.
fn cpu_limit(text: &mut Text, snapshot: &Snapshot) {
    let Some(periods) = snapshot.periods else { return };
    let name = "workerapp_cpu_periods_total";
    text.family(name, "counter", "Periods of the container's CPU limit in which it ran.");
    text.sample(name, &[], periods.all);
    let name = "workerapp_cpu_throttled_periods_total";
    text.family(name, "counter", "Those of them in which it had to wait, since its CPU limit was used up.");
    text.sample(name, &[], periods.throttled);
}

/// Sums over the workers, of what can be added up at one moment; counters are added up by `sum(rate(…))`.
fn per_pod(text: &mut Text, snapshot: &Snapshot) {
    let workers = &snapshot.processes;
    let mut sum = |name, help, value: fn(&WorkerSnapshot) -> Option<f64>| {
        let values: Vec<f64> = workers.iter().filter_map(value).collect();
        if !values.is_empty() {
            text.family(name, "gauge", help);
            text.sample(name, &[], values.iter().sum::<f64>());
        }
    };
    sum("workerapp_workers_up", "Workers that take connections.", |w| Some(f64::from(u8::from(w.ready))));
    sum("workerapp_queue_length", "Connections that wait to be accepted.", |w| Some(f64::from(w.queue)));
    sum("workerapp_connections", "Open connections that have been accepted.", |w| {
        Some(f64::from(w.connections))
    });
    sum("workerapp_resident_bytes", "Resident memory of all workers.", |w| Some(number(w.resident)));
    let help = "Requests whose answers have begun and not ended (Node).";
    sum("workerapp_requests_in_flight", help, |w| Some(number(w.node?.in_flight)));
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
    let help = "Requests that the worker began to answer (Node).";
    text.worker_counter("workerapp_worker_requests_total", help, workers, |w| Some(w.node?.requests));
    let help = "Connections that the worker has accepted (Node).";
    text.worker_counter("workerapp_worker_accepted_total", help, workers, |w| Some(w.node?.accepted));
    let help = "Requests whose answers have begun and not ended (Node).";
    text.worker_gauge("workerapp_worker_requests_in_flight", help, workers, |w| {
        Some(number(w.node?.in_flight))
    });
    let help = "Time from a request's head to the end of its answer (Node).";
    text.family("workerapp_worker_request_duration_seconds", "histogram", help);
    for worker in workers {
        if let Some(node) = worker.node {
            text.durations("workerapp_worker_request_duration_seconds", worker.id, &node.durations);
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

    /// The same for a counter.
    fn worker_counter(
        &mut self,
        name: &str,
        help: &str,
        workers: &[WorkerSnapshot],
        value: impl Fn(&WorkerSnapshot) -> Option<u64>,
    ) {
        self.family(name, "counter", help);
        for worker in workers {
            if let Some(value) = value(worker) {
                self.sample(name, &[("worker", &worker.id)], value);
            }
        }
    }

    /// A histogram's samples; its buckets count what is within their bound, so each contains the one before.
    fn durations(&mut self, name: &str, worker: u32, durations: &Durations) {
        let mut within = 0;
        let bounds = Durations::BOUNDS.iter().map(ToString::to_string).chain(["+Inf".to_owned()]);
        for (bound, count) in bounds.zip(durations.counts) {
            within += count;
            self.sample(&format!("{name}_bucket"), &[("worker", &worker), ("le", &bound)], within);
        }
        self.sample(&format!("{name}_sum"), &[("worker", &worker)], durations.seconds);
        self.sample(&format!("{name}_count"), &[("worker", &worker)], within);
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

    #[test]
    fn buckets_contain_each_other() {
        let mut text = Text::default();
        let counts = [2, 0, 1, 0, 0, 0, 0, 0, 0, 0, 4];
        text.durations("d", 3, &Durations { counts, seconds: 41.5 });
        let lines: Vec<&str> = text.0.lines().collect();
        assert_eq!(lines[0], "d_bucket{worker=\"3\",le=\"0.005\"} 2");
        assert_eq!(lines[2], "d_bucket{worker=\"3\",le=\"0.025\"} 3");
        assert_eq!(
            lines[9..],
            [
                "d_bucket{worker=\"3\",le=\"10\"} 3",
                "d_bucket{worker=\"3\",le=\"+Inf\"} 7",
                "d_sum{worker=\"3\"} 41.5",
                "d_count{worker=\"3\"} 7",
            ]
        );
    }
}
