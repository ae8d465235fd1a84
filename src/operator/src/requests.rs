//! Counts what the operator writes, in the one place that every request passes.

use std::sync::Arc;

use axum::http::{Method, Request, StatusCode, header::CONTENT_TYPE};
use kube::{Client, client::Body};

use crate::{kind::Kind, metrics::Metrics};

/// Kinds that are written and not read: plural, and the kind's name.
const WRITTEN_ONLY: [(&str, &str); 2] = [("events", "Event"), ("leases", "Lease")];

/// A client that counts each request that changes something, by kind, verb and result, and sends it through `client`.
pub(crate) fn counted(client: Client, metrics: Arc<Metrics>) -> Client {
    let namespace = client.default_namespace().to_owned();
    let service = tower::service_fn(move |request: Request<Body>| {
        let client = client.clone();
        let write = Write::of(&request).map(|write| Pending {
            write,
            metrics: Arc::clone(&metrics),
            result: NO_ANSWER,
        });
        async move {
            let answer = client.send(request).await;
            if let (Some(mut pending), Ok(answer)) = (write, &answer) {
                pending.result = result(answer.status());
            }
            answer
        }
    });
    Client::new(service, namespace)
}

/// A request that changes something.
#[derive(Debug, PartialEq, Eq)]
struct Write {
    kind: &'static str,
    verb: &'static str,
}

impl Write {
    fn of(request: &Request<Body>) -> Option<Self> {
        let content =
            request.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let verb = match *request.method() {
            Method::POST => "create",
            Method::PUT => "update",
            Method::PATCH if content.starts_with("application/apply-patch") => "apply",
            Method::PATCH => "patch",
            Method::DELETE => "delete",
            _ => return None,
        };
        Some(Self { kind: kind(request.uri().path()), verb })
    }
}

/// The kind that a path of the API is about: `/apis/apps/v1/namespaces/shop/deployments/next`.
fn kind(path: &str) -> &'static str {
    let mut parts = path.split('/').skip_while(|part| *part != "namespaces").skip(2);
    let plural = parts.next().unwrap_or_default();
    let read = Kind::ALL.into_iter().find(|kind| kind.resource().plural == plural).map(Kind::as_str);
    let written = WRITTEN_ONLY.into_iter().find(|(name, _)| *name == plural).map(|(_, kind)| kind);
    read.or(written).unwrap_or("other")
}

/// The API server could not be reached, did not answer in time, or the answer was no longer waited for.
const NO_ANSWER: &str = "no_answer";

fn result(status: StatusCode) -> &'static str {
    match status.as_u16() {
        200..400 => "ok",
        404 => "not_found",
        409 => "conflict",
        429 => "throttled",
        400..500 => "refused",
        _ => "server_error",
    }
}

/// A write that is under way. It counts when it is dropped, since nobody is told when a caller gives up on it.
struct Pending {
    write: Write,
    metrics: Arc<Metrics>,
    result: &'static str,
}

impl Drop for Pending {
    fn drop(&mut self) {
        self.metrics.write(self.write.kind, self.write.verb, self.result);
    }
}

#[cfg(test)]
mod tests {
    use axum::http::{Request, StatusCode};
    use kube::client::Body;

    use super::{Write, result};

    fn write(method: &str, path: &str, content: &str) -> Option<Write> {
        let request = Request::builder().method(method).uri(path).header("content-type", content);
        Write::of(&request.body(Body::empty()).unwrap())
    }

    #[test]
    fn kind_and_verb_are_read_off_the_request() {
        let apply = "application/apply-patch+yaml";
        let apps = "/apis/workerapp.dev/v1alpha1/namespaces/shop/workerapps/next/status";
        let deployment = "/apis/apps/v1/namespaces/shop/deployments/next?force=true";
        for (method, path, content, kind, verb) in [
            ("PATCH", apps, apply, "WorkerApp", "apply"),
            ("PATCH", deployment, apply, "Deployment", "apply"),
            ("PATCH", deployment, "application/merge-patch+json", "Deployment", "patch"),
            (
                "DELETE",
                "/apis/autoscaling/v2/namespaces/shop/horizontalpodautoscalers/next",
                "",
                "HorizontalPodAutoscaler",
                "delete",
            ),
            ("POST", "/apis/events.k8s.io/v1/namespaces/shop/events", "application/json", "Event", "create"),
            (
                "PUT",
                "/apis/coordination.k8s.io/v1/namespaces/shop/leases/l",
                "application/json",
                "Lease",
                "update",
            ),
            // A namespace may have a kind's name.
            ("PATCH", "/api/v1/namespaces/pods/services/next", apply, "Service", "apply"),
            ("POST", "/api/v1/namespaces", "application/json", "other", "create"),
        ] {
            assert_eq!(write(method, path, content), Some(Write { kind, verb }), "{method} {path}");
        }
        assert_eq!(write("GET", deployment, ""), None);
    }

    #[test]
    fn results_are_few() {
        for (status, name) in [
            (200, "ok"),
            (201, "ok"),
            (404, "not_found"),
            (403, "refused"),
            (409, "conflict"),
            (422, "refused"),
            (429, "throttled"),
            (500, "server_error"),
            (504, "server_error"),
        ] {
            assert_eq!(result(StatusCode::from_u16(status).unwrap()), name);
        }
    }
}
