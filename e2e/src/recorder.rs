//! Every request that changes something, as the client sends it.

use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError},
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
pub struct Recorder(Arc<Mutex<Vec<Sent>>>);

impl Recorder {
    /// The layer that has to stand outermost in a client.
    pub fn layer(
        &self,
    ) -> MapRequestLayer<impl Fn(Request<Body>) -> Request<Body> + Clone + Send + Sync + 'static> {
        let this = self.clone();
        MapRequestLayer::new(move |request: Request<Body>| {
            if ![Method::GET, Method::HEAD, Method::OPTIONS].contains(request.method()) {
                this.lock().push(Sent {
                    method: request.method().clone(),
                    path: request.uri().path().to_owned(),
                    query: request.uri().query().unwrap_or_default().to_owned(),
                });
            }
            request
        })
    }

    /// Everything since the last [`Recorder::take`].
    pub fn all(&self) -> Vec<Sent> {
        self.lock().clone()
    }

    /// The same, and begins anew.
    pub fn take(&self) -> Vec<Sent> {
        std::mem::take(&mut *self.lock())
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Sent>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
