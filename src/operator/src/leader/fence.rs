//! Lets writes through while the lease is held, and refuses them from the moment on at which it may no longer be.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use http::{Method, Request, Uri, uri::PathAndQuery};
use kube::client::Body;

use super::clock::Moment;

/// Says up to when writes are let through.
#[derive(Clone)]
pub struct Fence(Arc<Inner>);

struct Inner {
    /// [`OPEN`], or a moment in nanoseconds.
    until: AtomicU64,
    /// How long after that moment nobody else writes yet.
    margin: Duration,
}

/// For an operator that is alone.
const OPEN: u64 = u64::MAX;

/// A write that was not sent.
#[derive(Debug, thiserror::Error)]
#[error("not sent: this operator doesn't hold the lease (any more)")]
pub struct NotLeader;

/// What becomes of a request.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Passage {
    /// It is sent as it is.
    Free,
    /// It is sent, and has to end within this time.
    Within(Duration),
    /// It is not sent.
    Refused,
}

impl Fence {
    /// A fence that is open for ever.
    pub fn open() -> Self {
        Self(Arc::new(Inner { until: AtomicU64::new(OPEN), margin: Duration::ZERO }))
    }

    /// A fence that is closed for now. For `margin` after it closes by itself nobody else writes.
    pub fn closed(margin: Duration) -> Self {
        Self(Arc::new(Inner { until: AtomicU64::new(0), margin }))
    }

    /// Opens it up to a moment.
    pub fn open_until(&self, moment: Moment) {
        self.0.until.store(moment.as_nanos(), Ordering::Release);
    }

    /// Closes it at once.
    pub fn close(&self) {
        self.0.until.store(0, Ordering::Release);
    }

    /// How long it stays open: `None` if it is closed, [`Duration::MAX`] if for ever.
    pub fn left(&self) -> Option<Duration> {
        match self.0.until.load(Ordering::Acquire) {
            OPEN => Some(Duration::MAX),
            until => Some(Moment::from_nanos(until).since(Moment::now())).filter(|left| !left.is_zero()),
        }
    }

    /// Whether it is open.
    pub fn is_open(&self) -> bool {
        self.left().is_some()
    }

    /// The longest that the kernel may try to deliver what was written while the fence was open; `None`: as long as it likes.
    pub(crate) fn delivery(&self) -> Option<Duration> {
        Some(self.0.margin / 2).filter(|margin| !margin.is_zero())
    }

    /// What becomes of a request with this method.
    ///
    /// Half of what is left of the lease is for the API server to carry it out, as the other half may have gone by on the way to it.
    pub(crate) fn passage(&self, method: &Method) -> Passage {
        if [Method::GET, Method::HEAD, Method::OPTIONS].contains(method) {
            return Passage::Free;
        }
        match self.left() {
            None => Passage::Refused,
            Some(Duration::MAX) => Passage::Free,
            Some(left) => Passage::Within((left + self.0.margin) / 2),
        }
    }
}

impl fmt::Debug for Fence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.left() {
            None => f.write_str("Fence(closed)"),
            Some(Duration::MAX) => f.write_str("Fence(open)"),
            Some(left) => write!(f, "Fence(open for {left:?})"),
        }
    }
}

/// Tells the API server how long it may work on the request.
pub(crate) fn bound(request: &mut Request<Body>, timeout: Duration) {
    let milliseconds = timeout.as_millis().max(1);
    let uri = request.uri();
    let separator = if uri.query().is_some() { '&' } else { '?' };
    let path = uri.path_and_query().map_or("/", PathAndQuery::as_str);
    let path = format!("{path}{separator}timeout={milliseconds}ms");
    let mut parts = uri.clone().into_parts();
    // What was a path stays one with a number at its end.
    if let Ok(path) = path.parse() {
        parts.path_and_query = Some(path);
        if let Ok(uri) = Uri::from_parts(parts) {
            *request.uri_mut() = uri;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use http::{Method, Request};
    use kube::client::Body;

    use super::{Fence, Moment, Passage, bound};

    #[test]
    fn reads_always_pass_and_writes_only_while_it_is_open() {
        let fence = Fence::closed(Duration::from_secs(5));
        for method in [Method::POST, Method::PUT, Method::PATCH, Method::DELETE] {
            assert_eq!(fence.passage(&method), Passage::Refused);
        }
        assert_eq!(fence.passage(&Method::GET), Passage::Free);
        fence.open_until(Moment::now() - Duration::from_nanos(1));
        assert_eq!(fence.passage(&Method::PATCH), Passage::Refused);
        assert_eq!(Fence::open().passage(&Method::PATCH), Passage::Free);
    }

    #[test]
    fn a_write_ends_before_anybody_else_may_write() {
        let fence = Fence::closed(Duration::from_secs(5));
        fence.open_until(Moment::now() + Duration::from_secs(10));
        let Passage::Within(time) = fence.passage(&Method::PATCH) else { panic!("not bounded") };
        assert!(time <= Duration::from_millis(7500) && time > Duration::from_secs(7), "{time:?}");
        fence.close();
        assert_eq!(fence.passage(&Method::PATCH), Passage::Refused);
        // Delivered in the last moment that is allowed, it has as long again to be carried out.
        assert_eq!(fence.delivery(), Some(Duration::from_millis(2500)));
    }

    #[test]
    fn the_api_server_is_told_the_time() {
        for (path, bounded) in [
            ("/apis/apps/v1/x", "/apis/apps/v1/x?timeout=1500ms"),
            ("/x?fieldManager=m&force=true", "/x?fieldManager=m&force=true&timeout=1500ms"),
        ] {
            let mut request = Request::builder().uri(path).body(Body::empty()).unwrap();
            bound(&mut request, Duration::from_millis(1500));
            assert_eq!(request.uri().to_string(), bounded);
        }
    }
}
