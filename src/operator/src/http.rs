//! `/livez`, `/readyz` and `/metrics`.

use std::{net::SocketAddr, sync::Arc};

use axum::{
    Router,
    extract::State,
    http::{StatusCode, header},
    response::IntoResponse,
    routing::get,
};
use tokio::net::TcpListener;

use workerapp_adapter::connections::Bounded;

use crate::{controller::Controller, kind::Kind, metrics::Sample};

/// Binds `address`. Where it is `[::]` and there is no IPv6, all of IPv4 takes its place; `[::]` itself takes both.
///
/// # Errors
/// If the port can't be had.
pub async fn bind(address: SocketAddr) -> std::io::Result<TcpListener> {
    match TcpListener::bind(address).await {
        Err(error) if address.ip() == std::net::Ipv6Addr::UNSPECIFIED && no_ipv6(&error) => {
            TcpListener::bind((std::net::Ipv4Addr::UNSPECIFIED, address.port())).await
        }
        result => result,
    }
}

/// `EAFNOSUPPORT` where the kernel has no IPv6, `EADDRNOTAVAIL` where it is switched off.
fn no_ipv6(error: &std::io::Error) -> bool {
    const EAFNOSUPPORT: i32 = 97;
    error.raw_os_error() == Some(EAFNOSUPPORT) || error.kind() == std::io::ErrorKind::AddrNotAvailable
}

/// Serves for ever.
pub(crate) async fn serve(listener: TcpListener, controller: Arc<Controller>) {
    let router = Router::new()
        .route("/livez", get(|| async { "ok\n" }))
        .route("/readyz", get(ready))
        .route("/metrics", get(metrics))
        .with_state(controller);
    if let Err(error) = axum::serve(Bounded::new(listener), router).await {
        tracing::error!("the health endpoint ended: {error}");
    }
}

async fn ready(State(controller): State<Arc<Controller>>) -> impl IntoResponse {
    match controller.health.missing() {
        missing if missing.is_empty() => {
            let warning =
                controller.health.warning().map_or_else(String::new, |text| format!("warning: {text}\n"));
            (StatusCode::OK, format!("ok\n{warning}"))
        }
        missing => (StatusCode::SERVICE_UNAVAILABLE, missing.join("\n") + "\n"),
    }
}

async fn metrics(State(controller): State<Arc<Controller>>) -> impl IntoResponse {
    let sample = Sample {
        queued: controller.queue.len(),
        running: controller.queue.running(),
        backing_off: controller.backoff.len(),
        cached: Kind::ALL.map(|kind| (kind, controller.context.caches[kind].len())),
    };
    let text = controller.context.metrics.render(&sample);
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], text)
}
