//! `/livez`, `/readyz` and `/metrics`, by plain HTTP on a port of their own: the kubelet and Prometheus have no client certificate.

use std::sync::Arc;

use axum::{
    Router,
    extract::State,
    http::{StatusCode, header},
    response::IntoResponse,
    routing::get,
};
use tokio::net::TcpListener;

use crate::{connections::Bounded, run::Shared};

/// Serves for ever.
pub(crate) async fn serve(listener: TcpListener, shared: Arc<Shared>) {
    let router = Router::new()
        .route("/livez", get(|| async { "ok\n" }))
        .route("/readyz", get(ready))
        .route("/metrics", get(metrics))
        .with_state(shared);
    if let Err(error) = axum::serve(Bounded::new(listener), router).await {
        tracing::error!("the port for probes and metrics ended: {error}");
    }
}

async fn ready(State(shared): State<Arc<Shared>>) -> impl IntoResponse {
    match shared.missing() {
        missing if missing.is_empty() => (StatusCode::OK, "ok\n".to_owned()),
        missing => (StatusCode::SERVICE_UNAVAILABLE, missing.join("\n") + "\n"),
    }
}

async fn metrics(State(shared): State<Arc<Shared>>) -> impl IntoResponse {
    let (pods, heard) = {
        let store = shared.store();
        (store.len(), store.heard(shared.now()))
    };
    let text = shared.metrics.render(pods, heard);
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], text)
}
