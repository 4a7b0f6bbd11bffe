//! What a role tells about itself over HTTP: `/metrics` (Prometheus text), `/live` and `/ready`.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use axum::routing::get;
use prometheus::{Registry, TextEncoder};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

/// Whether a role can do its work, and if not, why. Cheap to clone.
#[derive(Clone)]
pub struct Readiness(Arc<Mutex<Option<String>>>);

impl Default for Readiness {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(Some("starting".to_string()))))
    }
}

impl Readiness {
    /// From now on `/ready` answers 200.
    pub fn ready(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// From now on `/ready` answers 503 with `reason`, as it does from the start with `starting`.
    pub fn not_ready(&self, reason: impl Into<String>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(reason.into());
    }

    fn reason(&self) -> Option<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// A bound admin server; serving starts with [`Self::serve`], so that a port in use is found out before work begins.
pub struct AdminServer {
    listener: TcpListener,
    registry: Registry,
    readiness: Readiness,
}

impl AdminServer {
    /// Binds `address`.
    ///
    /// # Errors
    /// If the address can not be bound.
    pub async fn bind(address: SocketAddr, registry: Registry, readiness: Readiness) -> std::io::Result<Self> {
        Ok(Self { listener: TcpListener::bind(address).await?, registry, readiness })
    }

    /// The address, with the port that the system chose for port 0.
    ///
    /// # Errors
    /// If the system does not tell.
    pub fn address(&self) -> std::io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves until `shutdown`.
    ///
    /// # Errors
    /// If the listener fails.
    pub async fn serve(self, shutdown: CancellationToken) -> std::io::Result<()> {
        let state = Arc::new((self.registry, self.readiness));
        let router = Router::new()
            .route("/metrics", get(metrics))
            .route("/live", get(|| async { "live\n" }))
            .route("/ready", get(ready))
            .with_state(state);
        axum::serve(self.listener, router).with_graceful_shutdown(shutdown.cancelled_owned()).await
    }
}

type Shared = Arc<(Registry, Readiness)>;

async fn metrics(State(state): State<Shared>) -> impl IntoResponse {
    match TextEncoder::new().encode_to_string(&state.0.gather()) {
        Ok(text) => (StatusCode::OK, [(header::CONTENT_TYPE, prometheus::TEXT_FORMAT)], text),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, [(header::CONTENT_TYPE, "text/plain")], format!("{error}\n")),
    }
}

async fn ready(State(state): State<Shared>) -> impl IntoResponse {
    match state.1.reason() {
        None => (StatusCode::OK, "ready\n".to_string()),
        Some(reason) => (StatusCode::SERVICE_UNAVAILABLE, format!("{reason}\n")),
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpStream;

    use super::*;

    async fn get(address: SocketAddr, path: &str) -> String {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).await.unwrap();
        text
    }

    #[tokio::test]
    async fn tells_of_itself() {
        let registry = Registry::new();
        let metrics = crate::metrics::PipelineMetrics::register(&registry).unwrap();
        metrics.set_queue_depth("bluefin.eval.host", 3);
        let readiness = Readiness::default();
        let server = AdminServer::bind(([127, 0, 0, 1], 0).into(), registry, readiness.clone()).await.unwrap();
        let address = server.address().unwrap();
        let shutdown = CancellationToken::new();
        let mut serving = tokio::task::JoinSet::new();
        serving.spawn(server.serve(shutdown.clone()));
        assert!(get(address, "/live").await.starts_with("HTTP/1.1 200"));
        assert!(get(address, "/ready").await.starts_with("HTTP/1.1 503"));
        readiness.ready();
        assert!(get(address, "/ready").await.starts_with("HTTP/1.1 200"));
        assert!(get(address, "/metrics").await.contains("bluefin_queue_depth{queue=\"bluefin.eval.host\"} 3"));
        assert!(get(address, "/nowhere").await.starts_with("HTTP/1.1 404"));
        shutdown.cancel();
        serving.join_next().await.unwrap().unwrap().unwrap();
    }
}
