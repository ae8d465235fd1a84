//! `/metrics`: Prometheus text.

use super::Snapshot;
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
    text.family("workerapp_worker_up", "gauge", "1 while the worker takes connections.");
    for worker in &snapshot.processes {
        text.sample("workerapp_worker_up", &[("worker", &worker.id)], u8::from(worker.ready));
    }
    text.family("workerapp_worker_restarts_total", "counter", "Restarts, by what made them necessary.");
    for worker in &snapshot.processes {
        let causes = [
            ("exit", worker.restarts.exit),
            ("signal", worker.restarts.signal),
            ("never_listened", worker.restarts.never_listened),
        ];
        for (cause, count) in causes {
            let labels: [(&str, &dyn Display); 2] = [("worker", &worker.id), ("reason", &cause)];
            text.sample("workerapp_worker_restarts_total", &labels, count);
        }
    }
    text.family(
        "workerapp_worker_queue_length",
        "gauge",
        "Connections that wait for the worker to accept them.",
    );
    for worker in &snapshot.processes {
        text.sample("workerapp_worker_queue_length", &[("worker", &worker.id)], worker.queue);
    }
    text.family("workerapp_worker_running_seconds", "gauge", "Time since the worker's process was started.");
    for worker in &snapshot.processes {
        if let Some(time) = worker.running {
            text.sample("workerapp_worker_running_seconds", &[("worker", &worker.id)], time.as_secs_f64());
        }
    }
    text.0
}

#[derive(Default)]
struct Text(String);

impl Text {
    fn family(&mut self, name: &str, kind: &str, help: &str) {
        // Writing to a String cannot fail.
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}");
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
