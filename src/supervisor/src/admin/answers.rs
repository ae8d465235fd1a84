//! What is said to which request.

use super::http::{Request, Response};
use super::{Snapshot, metrics_page, status_page};
use crate::fleet::{Generation, Readiness};

/// What becomes of a request.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// This is said.
    Respond(Response),
    /// Whether the pod should get traffic.
    Readiness,
    /// Prometheus text.
    Metrics,
    /// JSON.
    Status,
    /// The app's own metrics, from every worker.
    AppMetrics,
    /// A rolling restart begins, and this is said.
    Restart(Response),
    /// The connection is a worker's channel from now on.
    Channel(Generation),
}

/// Finds the answer.
pub(crate) fn answer(request: &Request) -> Answer {
    let text = |status, text| Answer::Respond(Response::text(status, text));
    match (request.method.as_str(), request.path.as_str()) {
        ("GET", "/channel") => match request.parameter("generation").map(str::parse) {
            Some(Ok(generation)) if request.local => Answer::Channel(generation),
            _ => text(403, "for workers only\n"),
        },
        // Whoever can reach the loopback address is in the pod, or was let in by the API server (`exec`,
        // `port-forward`); the pod's own address can be reached by the whole cluster.
        ("POST", "/restart") if request.local => {
            Answer::Restart(Response::text(202, "rolling restart begun; see /status and the log\n"))
        }
        ("POST", "/restart") => text(403, "only from inside the pod: kubectl port-forward or exec\n"),
        // It is answered, so the event loop runs; that is all there is to know.
        ("GET" | "HEAD", "/livez" | "/healthz") => text(200, "ok\n"),
        ("GET" | "HEAD", "/readyz") => Answer::Readiness,
        ("GET" | "HEAD", "/metrics") => Answer::Metrics,
        ("GET" | "HEAD", "/status") => Answer::Status,
        ("GET", "/app-metrics") => Answer::AppMetrics,
        ("GET" | "HEAD", _) => {
            text(404, "there are /livez, /readyz, /metrics, /app-metrics, /status and POST /restart\n")
        }
        _ => text(405, "only GET, and POST for /restart\n"),
    }
}

/// A line for people.
pub(crate) fn text(status: u16, text: &str) -> Response {
    Response::text(status, text)
}

pub(crate) fn readiness(readiness: &Readiness) -> Response {
    match readiness {
        Readiness::Ready => Response::text(200, "ok\n"),
        Readiness::NotReady(reasons) => {
            let lines: Vec<String> = reasons.iter().map(ToString::to_string).collect();
            Response::text(503, &(lines.join("\n") + "\n"))
        }
    }
}

pub(crate) fn metrics(snapshot: &Snapshot) -> Response {
    Response::new(200, "text/plain; version=0.0.4; charset=utf-8", metrics_page::render(snapshot))
}

pub(crate) fn status(snapshot: &Snapshot) -> Response {
    Response::new(200, "application/json", status_page::render(snapshot))
}
