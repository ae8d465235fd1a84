//! Every request that changes something, as the client sends it; and of those that read, each sort once.

use std::{
    collections::BTreeSet,
    fmt,
    sync::{Arc, Mutex, PoisonError},
    time::Instant,
};

use http::{Method, Request};
use kube::client::Body;
use tower::util::MapRequestLayer;

/// One request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sent {
    /// `POST`, `PUT`, `PATCH` or `DELETE`.
    pub method: Method,
    /// The path, without the query.
    pub path: String,
    /// The query: the field manager stands there.
    pub query: String,
    /// When.
    pub at: Instant,
}

impl fmt::Display for Sent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.method, self.path)
    }
}

impl Sent {
    /// Whether it writes a WorkerApp's status.
    pub fn is_status(&self) -> bool {
        self.path.contains("/workerapps/") && self.path.ends_with("/status")
    }

    /// Whether it writes an event.
    pub fn is_event(&self) -> bool {
        self.path.contains("/events")
    }

    /// Whether it writes a child.
    pub fn is_child(&self) -> bool {
        !self.is_status() && !self.is_event()
    }
}

/// Records what passes through its layer.
#[derive(Clone, Debug, Default)]
pub struct Recorder {
    writes: Arc<Mutex<Log>>,
    rights: Arc<Mutex<BTreeSet<Right>>>,
}

/// What the API server asks for before it carries a request out.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Right {
    /// The API group; empty for the core.
    pub group: String,
    /// The plural, with the subresource: `workerapps/status`.
    pub resource: String,
    /// `get`, `list`, `watch`, `create`, `update`, `patch` or `delete`.
    pub verb: String,
}

impl fmt::Display for Right {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}.{}", self.verb, self.resource, self.group)
    }
}

impl Right {
    /// The right that a request takes; `None` for what is no object of the API.
    pub fn of(method: &Method, path: &str, query: &str) -> Option<Self> {
        let mut parts = path.trim_matches('/').split('/');
        let group = match parts.next()? {
            "api" => "",
            "apis" => parts.next()?,
            _ => return None,
        };
        let _version = parts.next()?;
        let mut rest: Vec<_> = parts.collect();
        if rest.len() > 2 && rest[0] == "namespaces" {
            rest.drain(..2);
        }
        let (plural, name) = (*rest.first()?, rest.get(1));
        let resource = rest.get(2).map_or_else(|| plural.to_owned(), |sub| format!("{plural}/{sub}"));
        let watches = query.split('&').any(|part| matches!(part, "watch=true" | "watch=1"));
        let verb = match *method {
            Method::GET if name.is_some() => "get",
            Method::GET if watches => "watch",
            Method::GET => "list",
            Method::POST => "create",
            Method::PUT => "update",
            Method::PATCH => "patch",
            Method::DELETE => "delete",
            _ => return None,
        };
        Some(Self { group: group.into(), resource, verb: verb.into() })
    }
}

#[derive(Debug, Default)]
struct Log {
    sent: Vec<Sent>,
    /// How many of them were taken.
    taken: usize,
}

impl Recorder {
    /// The layer that has to stand outermost in a client.
    pub fn layer(
        &self,
    ) -> MapRequestLayer<impl Fn(Request<Body>) -> Request<Body> + Clone + Send + Sync + 'static> {
        let this = self.clone();
        MapRequestLayer::new(move |request: Request<Body>| {
            let (path, query) = (request.uri().path(), request.uri().query().unwrap_or_default());
            if let Some(right) = Right::of(request.method(), path, query) {
                this.rights.lock().unwrap_or_else(PoisonError::into_inner).insert(right);
            }
            if ![Method::GET, Method::HEAD, Method::OPTIONS].contains(request.method()) {
                this.lock().sent.push(Sent {
                    method: request.method().clone(),
                    path: request.uri().path().to_owned(),
                    query: request.uri().query().unwrap_or_default().to_owned(),
                    at: Instant::now(),
                });
            }
            request
        })
    }

    /// Everything since the last [`Recorder::take`].
    pub fn all(&self) -> Vec<Sent> {
        let log = self.lock();
        log.sent[log.taken..].to_vec()
    }

    /// Every right that was made use of.
    pub fn rights(&self) -> BTreeSet<Right> {
        self.rights.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// As [`Recorder::all`], and begins anew.
    pub fn take(&self) -> Vec<Sent> {
        let mut log = self.lock();
        let new = log.sent[log.taken..].to_vec();
        log.taken = log.sent.len();
        new
    }

    /// Everything since the start, whatever was taken.
    pub fn history(&self) -> Vec<Sent> {
        self.lock().sent.clone()
    }

    /// How much that is.
    pub fn count(&self) -> usize {
        self.lock().sent.len()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Log> {
        self.writes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use http::Method;

    use super::Right;

    #[test]
    fn a_request_takes_this_right() {
        for (method, path, query, right) in [
            (Method::GET, "/api/v1/namespaces/shop/services", "limit=10", "list services."),
            (Method::GET, "/api/v1/services", "watch=true&resourceVersion=1", "watch services."),
            (Method::GET, "/apis/apps/v1/namespaces/shop/deployments/next", "", "get deployments.apps"),
            (Method::GET, "/api/v1/namespaces/shop", "", "get namespaces."),
            (
                Method::PATCH,
                "/apis/workerapp.dev/v1alpha1/namespaces/shop/workerapps/next/status",
                "force=true",
                "patch workerapps/status.workerapp.dev",
            ),
            (
                Method::POST,
                "/apis/events.k8s.io/v1/namespaces/shop/events",
                "",
                "create events.events.k8s.io",
            ),
        ] {
            assert_eq!(Right::of(&method, path, query).unwrap().to_string(), right);
        }
        assert_eq!(Right::of(&Method::GET, "/openapi/v3/apis/apps/v1", ""), None);
    }
}
