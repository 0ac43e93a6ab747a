//! The HTTP listener: health, metrics and the admin API.

use std::sync::Arc;

use axum::Router;
use axum::http::header::CONTENT_TYPE;
use axum::routing::get;
use quartet_layer_redis::Redis;
use tokio::sync::watch;

use crate::metrics;
use crate::tenants::Tenants;

/// Serves until stopped.
pub async fn serve(
    listener: std::net::TcpListener,
    layer: Arc<Redis>,
    tenants: Arc<Tenants>,
    admin: Router,
    mut stop: watch::Receiver<bool>,
) {
    let routes = Router::new()
        .merge(admin)
        .route("/healthz", get(|| async { "ok\n" }))
        .route("/readyz", get(|| async { "ready\n" }))
        .route("/health", get(|| async { "ok\n" }))
        .route(
            "/metrics",
            get(move || {
                let text = metrics::render(&layer, &tenants);
                async move { ([(CONTENT_TYPE, "text/plain; version=0.0.4")], text) }
            }),
        );
    let listener = match listener
        .set_nonblocking(true)
        .and_then(|()| tokio::net::TcpListener::from_std(listener))
    {
        Ok(listener) => listener,
        Err(error) => return tracing::error!(%error, "cannot serve HTTP"),
    };
    let stopped = async move {
        while !*stop.borrow() {
            if stop.changed().await.is_err() {
                return;
            }
        }
    };
    if let Err(error) = axum::serve(listener, routes).with_graceful_shutdown(stopped).await {
        tracing::error!(%error, "serving HTTP");
    }
}
