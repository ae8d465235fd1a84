//! The layer itself: lets requests and the events of watches pass, or does with them what the fault in force says.

use std::{
    fmt,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use futures::{FutureExt as _, future::BoxFuture};
use http::{Request, Response, Uri, header};
use http_body_util::{BodyExt as _, Full, combinators::UnsyncBoxBody};
use kube::client::{Body as RequestBody, DynBody};
use serde_json::json;
use tokio::sync::{Notify, watch};
use tower::{BoxError, Layer, Service};

use super::{
    answer::Answer,
    gate::{Gate, await_flag},
    request::{Head, Verb},
};

/// What the layer answers with.
pub type Body = UnsyncBoxBody<Bytes, BoxError>;

/// A body that is there as a whole.
pub fn whole(text: String) -> Body {
    Full::new(Bytes::from(text)).map_err(|never| match never {}).boxed_unsync()
}

/// What becomes of a request.
#[derive(Debug)]
pub enum Fate {
    /// It is sent and answered.
    Pass,
    /// It is answered so, and never sent.
    Refuse(Answer),
    /// It is sent, carried out, and answered so.
    Lose(Answer),
    /// It is never sent nor answered.
    Swallow,
    /// The operator dies just before it is sent.
    CrashBefore,
    /// The operator dies just after it was carried out.
    CrashAfter,
    /// It asks for the state of this resource version.
    AsOf(String),
    /// It is answered 410: what it asks for is too old.
    Gone,
    /// It is sent once the gate is opened.
    HoldRequest(Arc<Gate>),
    /// It is sent, and answered once the gate is opened.
    HoldAnswer(Arc<Gate>),
}

/// What becomes of one event of a watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// It arrives.
    Pass,
    /// It never arrives.
    Drop,
    /// It, and all after it, arrive so much later.
    Late(Duration),
    /// In its place comes the word that the watch is too old.
    Gone,
    /// Neither it nor anything after it comes: the watch ends, as it does every few minutes.
    End,
    /// From here on nothing comes, and the connection stays open.
    Mute,
}

/// One thing that goes wrong.
pub trait Fault: fmt::Debug + Send + Sync {
    /// What becomes of a request.
    fn request(&self, _: &Head) -> Fate {
        Fate::Pass
    }

    /// What becomes of an event of the watch on the kind `plural`.
    fn event(&self, _plural: &str) -> Turn {
        Turn::Pass
    }
}

/// Nothing goes wrong.
#[derive(Debug)]
struct Peace;

impl Fault for Peace {}

/// What lies between one operator and the API server. All clones speak of the same.
#[derive(Clone, Debug)]
pub struct Faults(Arc<State>);

#[derive(Debug)]
struct State {
    fault: Mutex<Arc<dyn Fault>>,
    dead: AtomicBool,
    died: Notify,
    /// Counts how often all watches were ended.
    cuts: watch::Sender<u64>,
}

impl Default for Faults {
    fn default() -> Self {
        Self(Arc::new(State {
            fault: Mutex::new(Arc::new(Peace)),
            dead: AtomicBool::new(false),
            died: Notify::new(),
            cuts: watch::Sender::new(0),
        }))
    }
}

impl Faults {
    /// From now on this goes wrong.
    pub fn arm(&self, fault: Arc<dyn Fault>) {
        *self.fault() = fault;
    }

    /// From now on nothing goes wrong, and every watch is told that it is too old, as after a pause in which events got lost.
    pub fn heal(&self) {
        self.arm(Arc::new(Peace));
        self.0.cuts.send_modify(|cuts| *cuts += 1);
    }

    /// Whether the operator has died: nothing that it does reaches the API server any more.
    pub fn dead(&self) -> bool {
        self.0.dead.load(Ordering::SeqCst)
    }

    /// The operator is dead from now on.
    pub fn kill(&self) {
        self.0.dead.store(true, Ordering::SeqCst);
        self.0.died.notify_waiters();
    }

    /// Waits until it has died.
    pub async fn died(&self) {
        await_flag(&self.0.dead, &self.0.died).await;
    }

    pub(super) fn fault(&self) -> MutexGuard<'_, Arc<dyn Fault>> {
        self.0.fault.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells each time that all watches are ended.
    pub(super) fn cuts(&self) -> watch::Receiver<u64> {
        self.0.cuts.subscribe()
    }

    /// Never ends once the operator is dead.
    async fn while_alive<T>(&self, work: impl Future<Output = T>) -> T {
        tokio::select! {
            biased;
            () = self.died() => std::future::pending().await,
            result = work => result,
        }
    }
}

impl<S> Layer<S> for Faults {
    type Service = Faulty<S>;

    fn layer(&self, inner: S) -> Faulty<S> {
        Faulty { inner, faults: self.clone() }
    }
}

/// A client's service with faults in it.
#[derive(Debug)]
pub struct Faulty<S> {
    inner: S,
    faults: Faults,
}

impl<S> Service<Request<RequestBody>> for Faulty<S>
where
    S: Service<Request<RequestBody>, Response = Response<Box<DynBody>>, Error = BoxError>,
    S::Future: Send + 'static,
{
    type Response = Response<Body>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Self::Response, BoxError>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<RequestBody>) -> Self::Future {
        let faults = self.faults.clone();
        let (mut parts, body) = request.into_parts();
        let head = Head::of(&parts);
        let fault = Arc::clone(&faults.fault());
        let fate = head.as_ref().map_or(Fate::Pass, |head| fault.request(head));
        if let Fate::AsOf(version) = &fate {
            parts.uri = as_of(&parts.uri, version);
        }
        let watched = head.filter(|head| head.verb == Verb::Watch).map(|head| head.plural);
        // It is sent when it is first polled.
        let sent = self.inner.call(Request::from_parts(parts, body));
        let follow = faults.clone();
        let answered = async move {
            let response = sent.await?;
            Ok(match watched {
                Some(plural) if response.status().is_success() => {
                    response.map(|body| follow.follow(plural, body))
                }
                _ => response.map(http_body_util::BodyExt::boxed_unsync),
            })
        };
        async move {
            let outcome = async {
                match fate {
                    Fate::Pass | Fate::AsOf(_) => answered.await,
                    Fate::Refuse(answer) => answer.give().await,
                    Fate::Lose(answer) => {
                        answered.await?.into_body().collect().await?;
                        answer.give().await
                    }
                    Fate::Swallow => std::future::pending().await,
                    Fate::CrashBefore => {
                        faults.kill();
                        std::future::pending().await
                    }
                    Fate::CrashAfter => {
                        answered.await?.into_body().collect().await?;
                        faults.kill();
                        std::future::pending().await
                    }
                    Fate::Gone => {
                        let response = Response::builder().status(410);
                        Ok(response.header(header::CONTENT_TYPE, "application/json").body(whole(gone()))?)
                    }
                    Fate::HoldRequest(gate) => {
                        gate.pass().await;
                        answered.await
                    }
                    Fate::HoldAnswer(gate) => {
                        let (parts, body) = answered.await?.into_parts();
                        let body = body.collect().await?.to_bytes();
                        gate.pass().await;
                        Ok(Response::from_parts(
                            parts,
                            Full::new(body).map_err(|never| match never {}).boxed_unsync(),
                        ))
                    }
                }
            };
            faults.while_alive(outcome).await
        }
        .boxed()
    }
}

/// The same list, as it was at this version.
fn as_of(uri: &Uri, version: &str) -> Uri {
    let pairs = uri.query().unwrap_or_default().split('&');
    let kept = pairs.filter(|pair| !pair.is_empty() && !pair.starts_with("resourceVersion"));
    let query: Vec<_> = kept.map(str::to_owned).collect();
    let query = format!("{}&resourceVersion={version}&resourceVersionMatch=Exact", query.join("&"));
    let Ok(path) = format!("{}?{}", uri.path(), query.trim_start_matches('&')).parse() else {
        return uri.clone();
    };
    let mut parts = uri.clone().into_parts();
    parts.path_and_query = Some(path);
    Uri::from_parts(parts).unwrap_or_else(|_| uri.clone())
}

/// The API server's word that a watch or a list is too old.
pub(super) fn gone() -> String {
    json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 410, "reason": "Expired",
        "message": "too old resource version",
    })
    .to_string()
}

#[cfg(test)]
mod tests {
    use super::as_of;

    #[test]
    fn a_list_is_asked_for_as_it_was() {
        for (uri, wanted) in [
            (
                "https://a:1/api/v1/pods?limit=5",
                "https://a:1/api/v1/pods?limit=5&resourceVersion=7&resourceVersionMatch=Exact",
            ),
            ("/api/v1/pods?&resourceVersion=0", "/api/v1/pods?resourceVersion=7&resourceVersionMatch=Exact"),
            ("/api/v1/pods", "/api/v1/pods?resourceVersion=7&resourceVersionMatch=Exact"),
        ] {
            assert_eq!(as_of(&uri.parse().unwrap(), "7").to_string(), wanted);
        }
    }
}
