//! `/health`, `/ready`, `/readyz` and `/metrics` on the addresses that the Corefile names.

use crate::compile::{Check, HttpPath};
use ::http::{Request, Response, StatusCode};
use hyper::body::Incoming;
use parking_lot::RwLock;
use runtime::{
    http::{Body, Limits, Server, full, text},
    listen::{self, Hosts, ListenError},
    metrics::{Metrics, TextFormat},
};
use std::{
    collections::BTreeMap,
    convert::Infallible,
    future::ready,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};
use tokio_util::sync::CancellationToken;

/// What the endpoints show.
#[derive(Default)]
pub(super) struct Status {
    pub(super) current: RwLock<Current>,
    pub(super) stopping: AtomicBool,
}

/// What changes with a reload.
#[derive(Default)]
pub(super) struct Current {
    pub(super) paths: BTreeMap<SocketAddr, Vec<HttpPath>>,
    pub(super) checks: Vec<(&'static str, Check)>,
    pub(super) hash: String,
    /// Why the newest Corefile is not the running one.
    pub(super) refused: Option<String>,
}

impl Status {
    /// The plugins that are not ready yet.
    pub(super) fn not_ready(&self) -> Vec<&'static str> {
        let current = self.current.read();
        current.checks.iter().filter(|(_, check)| !check()).map(|(name, _)| *name).collect()
    }

    fn answer(
        &self,
        address: SocketAddr,
        path: &str,
        query: &str,
        accept: Option<&str>,
        metrics: &Metrics,
    ) -> Response<Body> {
        let served = self.current.read().paths.get(&address).cloned().unwrap_or_default();
        match path {
            "/health" if served.contains(&HttpPath::Health) => text(StatusCode::OK, "OK"),
            "/ready" if served.contains(&HttpPath::Ready) => self.ready(query.split('&').any(|word| word == "verbose")),
            // Beside what kubelets and load balancers ask: whether what is answered is still what the API holds. An API that
            // is away must not take servers out of service.
            "/readyz" if served.contains(&HttpPath::Ready) => match runtime::watch::view::oldest() {
                Some(old) => text(StatusCode::INTERNAL_SERVER_ERROR, format!("not ready: {old}\n")),
                None => self.ready(false),
            },
            "/metrics" if served.contains(&HttpPath::Metrics) => {
                let exposition = metrics.render(TextFormat::accepted(accept));
                let mut response = Response::new(full(exposition.body));
                let content = ::http::HeaderValue::from_static(exposition.content_type);
                response.headers_mut().insert(::http::header::CONTENT_TYPE, content);
                response
            }
            _ => text(StatusCode::NOT_FOUND, "404 page not found\n"),
        }
    }

    fn ready(&self, verbose: bool) -> Response<Body> {
        let missing = self.not_ready();
        let (status, mut body) = match (self.stopping.load(Ordering::Relaxed), missing.is_empty()) {
            (true, _) => (StatusCode::SERVICE_UNAVAILABLE, "Shutting down".to_owned()),
            (false, true) => (StatusCode::OK, "OK".to_owned()),
            (false, false) => (StatusCode::SERVICE_UNAVAILABLE, missing.join(",")),
        };
        if verbose {
            let current = self.current.read();
            body.push_str(&format!("\nrunning configuration: sha512 {}\n", current.hash));
            if let Some(reason) = &current.refused {
                body.push_str(&format!("the newest Corefile is not in use: {reason}\n"));
            }
        }
        text(status, body)
    }
}

pub(super) fn open(address: SocketAddr) -> Result<Vec<std::net::TcpListener>, ListenError> {
    let hosts = match address.ip() {
        ip if ip.is_unspecified() && ip.is_ipv6() => Hosts::Everywhere,
        ip => Hosts::Each(net::DualStack::one(ip)),
    };
    listen::tcp("conf", &hosts, address.port())
}

/// Serves an address until told to stop.
pub(super) async fn serve(
    address: SocketAddr,
    listeners: Vec<std::net::TcpListener>,
    status: Arc<Status>,
    metrics: Metrics,
    stop: CancellationToken,
) {
    let service = tower::service_fn(move |request: Request<Incoming>| {
        let accept = request.headers().get(::http::header::ACCEPT).and_then(|value| value.to_str().ok());
        let uri = request.uri();
        let response = status.answer(address, uri.path(), uri.query().unwrap_or_default(), accept, &metrics);
        ready(Ok::<_, Infallible>(response))
    });
    let limits = Limits { connections: 256, drain: std::time::Duration::from_secs(1), ..Limits::default() };
    if let Err(error) = (Server { listeners, tls: None, limits }).run(service, stop).await {
        tracing::error!(%error, %address, "HTTP endpoint ended");
    }
}
