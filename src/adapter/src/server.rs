//! Answers the API server: TLS with its client certificate, then user, permission, answer.

use std::{borrow::Cow, convert::Infallible, sync::Arc, time::Duration};

use http_body_util::Full;
use hyper::{
    Method, Request, Response, StatusCode,
    body::{Bytes, Incoming},
    header,
    server::conn::http1,
    service::service_fn,
};
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    server::graceful::GracefulShutdown,
};
use k8s_openapi::jiff::Timestamp;
use percent_encoding::percent_decode_str;
use rustls::{ServerConfig, sign::SingleCertAndKey};
use serde_json::Value as Json;
use tokio::{
    net::{TcpListener, TcpStream},
    sync::watch,
};
use tokio_rustls::{TlsAcceptor, server::TlsStream};
use tokio_util::sync::CancellationToken;

use crate::{
    GROUP,
    answer::{self, Question, failure},
    authorize::{Access, Authorizer},
    discovery,
    front_proxy::FrontProxy,
    identity::{Identity, provider},
    run::Shared,
};

/// How long a handshake may take.
const HANDSHAKE: Duration = Duration::from_secs(5);
/// How long a request's head may take to come, and a connection may be silent.
const SILENT: Duration = Duration::from_mins(2);
/// How long open connections get to end.
const GRACE: Duration = Duration::from_secs(5);

/// Serves until `stop`, and then what has begun.
pub(crate) async fn serve(
    listener: TcpListener,
    shared: Arc<Shared>,
    authorizer: Arc<Authorizer>,
    mut identity: watch::Receiver<Identity>,
    stop: CancellationToken,
) {
    let mut front_proxy = shared.front_proxy.clone();
    let connections = GracefulShutdown::new();
    let mut tls = None;
    let mut stale = true;
    loop {
        if stale {
            stale = false;
            let trusted = front_proxy.borrow_and_update().clone();
            let shown = identity.borrow_and_update().clone();
            tls = trusted.and_then(|trusted| match acceptor(&trusted, shown) {
                Ok(acceptor) => Some((acceptor, trusted)),
                Err(error) => {
                    tracing::error!("TLS can't be set up: {error}");
                    None
                }
            });
        }
        tokio::select! {
            () = stop.cancelled() => break,
            Ok(()) = front_proxy.changed() => stale = true,
            Ok(()) = identity.changed() => stale = true,
            accepted = listener.accept() => match (accepted, &tls) {
                (Ok((stream, _)), Some((acceptor, trusted))) => {
                    let (acceptor, trusted) = (acceptor.clone(), Arc::clone(trusted));
                    let (shared, authorizer) = (Arc::clone(&shared), Arc::clone(&authorizer));
                    let watcher = connections.watcher();
                    tokio::spawn(async move {
                        let Some(stream) = handshake(&acceptor, stream).await else { return };
                        let caller = Arc::new(Caller::of(&stream, trusted));
                        let service = service_fn(move |request| {
                            let (shared, authorizer) = (Arc::clone(&shared), Arc::clone(&authorizer));
                            let caller = Arc::clone(&caller);
                            async move { Ok::<_, Infallible>(respond(&shared, &authorizer, &caller, request).await) }
                        });
                        let connection = http1::Builder::new()
                            .timer(TokioTimer::new())
                            .header_read_timeout(SILENT)
                            .serve_connection(TokioIo::new(stream), service);
                        if let Err(error) = watcher.watch(connection).await {
                            tracing::debug!("a connection broke off: {error}");
                        }
                    });
                }
                // Nobody can be recognised yet.
                (Ok(_), None) => {}
                (Err(error), _) => {
                    // File descriptors are short, most likely: a moment later there may be some.
                    tracing::warn!("a connection can't be accepted: {error}");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            },
        }
    }
    drop(listener);
    if tokio::time::timeout(GRACE, connections.shutdown()).await.is_err() {
        tracing::debug!("stopped with connections still open");
    }
}

fn acceptor(front_proxy: &FrontProxy, identity: Identity) -> Result<TlsAcceptor, rustls::Error> {
    let mut config = ServerConfig::builder_with_provider(Arc::new(provider()))
        .with_safe_default_protocol_versions()?
        .with_client_cert_verifier(Arc::clone(&front_proxy.verifier))
        .with_cert_resolver(Arc::new(SingleCertAndKey::from(identity.certified)));
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}

async fn handshake(acceptor: &TlsAcceptor, stream: TcpStream) -> Option<TlsStream<TcpStream>> {
    let peer = stream.peer_addr().ok();
    match tokio::time::timeout(HANDSHAKE, acceptor.accept(stream)).await {
        Ok(Ok(stream)) => Some(stream),
        Ok(Err(error)) => {
            tracing::debug!(?peer, "a TLS handshake failed: {error}");
            None
        }
        Err(_) => None,
    }
}

/// Who is at the other end of a connection.
struct Caller {
    front_proxy: Arc<FrontProxy>,
    /// Its certificate bears one of the names that may speak for others.
    admitted: bool,
}

impl Caller {
    fn of(stream: &TlsStream<TcpStream>, front_proxy: Arc<FrontProxy>) -> Self {
        let certificates = stream.get_ref().1.peer_certificates().unwrap_or_default();
        let admitted = certificates.first().is_some_and(|certificate| front_proxy.admits(certificate));
        Self { front_proxy, admitted }
    }
}

type Answer = Result<Json, (u16, &'static str, Cow<'static, str>)>;

async fn respond(
    shared: &Shared,
    authorizer: &Authorizer,
    caller: &Caller,
    request: Request<Incoming>,
) -> Response<Full<Bytes>> {
    let (code, body) = match reply(shared, authorizer, caller, &request).await {
        Ok(body) => (200, body),
        Err((code, reason, message)) => (code, failure(code, reason, &message)),
    };
    shared.metrics.answer(code);
    let mut response = Response::new(Full::new(Bytes::from(body.to_string())));
    *response.status_mut() = StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    response.headers_mut().insert(header::CONTENT_TYPE, header::HeaderValue::from_static("application/json"));
    response
}

async fn reply(
    shared: &Shared,
    authorizer: &Authorizer,
    caller: &Caller,
    request: &Request<Incoming>,
) -> Answer {
    if !caller.admitted {
        let text = "the client certificate bears none of the names that may speak for others (requestheader-allowed-names)";
        return Err((401, "Unauthorized", text.into()));
    }
    let Some(user) = caller.front_proxy.user(request.headers()) else {
        return Err((401, "Unauthorized", "no header names a user".into()));
    };
    let path = request.uri().path();
    let question = question(path, request.uri().query().unwrap_or_default());
    let access = question.as_ref().map_or_else(|| Access::Path(path.to_owned()), Access::of);
    match authorizer.may(&user, &access).await {
        Ok(true) => {}
        Ok(false) => {
            let text = format!("user {:?} may not get {path}", user.name);
            return Err((403, "Forbidden", text.into()));
        }
        Err(error) => {
            tracing::warn!("the API server doesn't say who may see metrics: {error}");
            let text = "whether this is permitted can't be found out at the moment";
            return Err((503, "ServiceUnavailable", text.into()));
        }
    }
    if request.method() != Method::GET {
        return Err((405, "MethodNotAllowed", "metrics can only be read".into()));
    }
    match question {
        Some(question) => {
            let store = shared.store();
            answer::answer(&store, &question, shared.now(), Timestamp::now()).map_err(|refusal| {
                let (code, reason) = refusal.status();
                (code, reason, refusal.to_string().into())
            })
        }
        None => document(path, request),
    }
}

/// `/apis/custom.metrics.k8s.io/VERSION/namespaces/NAMESPACE/RESOURCE/NAME/METRIC`
fn question(path: &str, query: &str) -> Option<Question> {
    let parts: Vec<Cow<'_, str>> = path
        .strip_prefix("/apis/")?
        .split('/')
        .map(|part| percent_decode_str(part).decode_utf8_lossy())
        .collect();
    let [group, version, namespaces, namespace, resource, name, metric] = &parts[..] else { return None };
    if group != GROUP || namespaces != "namespaces" {
        return None;
    }
    let parameter = |wanted: &str| {
        let mut pairs = form_urlencoded::parse(query.as_bytes());
        pairs.find(|(name, _)| name == wanted).map_or_else(String::new, |(_, value)| value.into_owned())
    };
    Some(Question {
        version: version.to_string(),
        namespace: namespace.to_string(),
        resource: resource.to_string(),
        name: name.to_string(),
        metric: metric.to_string(),
        label_selector: parameter("labelSelector"),
        metric_label_selector: parameter("metricLabelSelector"),
    })
}

fn document(path: &str, request: &Request<Incoming>) -> Answer {
    let missing = || (404, "NotFound", format!("there is nothing at {path}").into());
    match path.trim_end_matches('/') {
        "/apis" if wants_other_discovery(request) => {
            // The API server then asks for the plain documents.
            Err((406, "NotAcceptable", "only application/json is served".into()))
        }
        "/apis" => Ok(discovery::groups()),
        "/openapi/v2" => Ok(discovery::openapi_v2()),
        "/openapi/v3" => Ok(discovery::openapi_v3()),
        path => {
            let of_openapi = path.strip_prefix("/openapi/v3/apis/").and_then(|path| path.strip_prefix(GROUP));
            if let Some(version) = of_openapi {
                return discovery::openapi_v3_of(version.trim_start_matches('/')).ok_or_else(missing);
            }
            match path.strip_prefix("/apis/").and_then(|path| path.strip_prefix(GROUP)) {
                Some("") => Ok(discovery::group()),
                Some(version) => discovery::resources(version.trim_start_matches('/')).ok_or_else(missing),
                None => Err(missing()),
            }
        }
    }
}

/// Asks for all groups and their resources in one document, and for nothing else.
fn wants_other_discovery(request: &Request<Incoming>) -> bool {
    let accepted = request.headers().get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let mut kinds = accepted.flat_map(|value| value.split(',')).peekable();
    kinds.peek().is_some() && kinds.all(|kind| kind.contains("as="))
}

#[cfg(test)]
mod tests {
    use super::question;

    #[test]
    fn a_question_is_read_from_its_path() {
        let path = "/apis/custom.metrics.k8s.io/v1beta2/namespaces/shop/pods/%2A/workerapp_queue_length";
        let read = question(path, "labelSelector=a%3Db%2Cc+in+%28d%29&metricLabelSelector=x").unwrap();
        assert_eq!((read.version.as_str(), read.namespace.as_str()), ("v1beta2", "shop"));
        assert_eq!((read.resource.as_str(), read.name.as_str()), ("pods", "*"));
        assert_eq!(read.metric, "workerapp_queue_length");
        assert_eq!(
            (read.label_selector.as_str(), read.metric_label_selector.as_str()),
            ("a=b,c in (d)", "x")
        );
        for path in [
            "/apis/custom.metrics.k8s.io/v1beta2",
            "/apis/metrics.k8s.io/v1beta2/namespaces/shop/pods/a/b",
            "/apis/custom.metrics.k8s.io/v1beta2/nodes/shop/pods/a/b",
            "/apis/custom.metrics.k8s.io/v1beta2/namespaces/shop/pods/a/b/c",
        ] {
            assert_eq!(question(path, ""), None, "{path}");
        }
    }
}
