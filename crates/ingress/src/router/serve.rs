//! The health port: liveness, readiness and metrics. It never speaks the PROXY protocol and listens on both families.

use super::{
    counted::Counted,
    haproxy::{SHOW_ALL, Socket},
    settings::Settings,
};
use base64::{Engine, engine::general_purpose::STANDARD};
use http::{Request, Response, StatusCode, header};
use net::HasFamily;
use parking_lot::Mutex;
use runtime::{
    http::{Body, text},
    metrics::{Metrics, TextFormat},
};
use std::{
    io,
    net::{IpAddr, SocketAddr},
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

/// Longest wait for HAProxy's answer to a probe.
const PATIENCE: Duration = Duration::from_secs(2);

/// What the answers depend on.
#[derive(Debug)]
pub(super) struct Health {
    pub(super) settings: Arc<Settings>,
    pub(super) admin: PathBuf,
    pub(super) metrics: Metrics,
    pub(super) synced: AtomicBool,
    pub(super) stopping: AtomicBool,
    /// Why HAProxy does not run what is wanted.
    pub(super) refusal: Mutex<Option<String>>,
    pub(super) counted: Mutex<Counted>,
}

impl Health {
    /// Answers one request.
    pub(super) async fn answer<B>(self: Arc<Self>, request: Request<B>) -> Response<Body> {
        if request.method() != http::Method::GET && request.method() != http::Method::HEAD {
            return text(StatusCode::METHOD_NOT_ALLOWED, "only GET and HEAD are allowed\n");
        }
        match request.uri().path() {
            "/healthz" | "/livez" => text(StatusCode::OK, "ok"),
            "/healthz/ready" => respond(self.ready().await),
            // Beside what kubelets ask: whether what is served is still what the API holds. Neither an API that is away nor a
            // configuration that HAProxy refused may take routers out of service, so no probe asks here.
            "/readyz" => respond(self.ready().await.and_then(|()| current()).and_then(|()| self.accepted())),
            "/metrics" if !self.is_allowed(&request) => {
                let mut refusal = text(StatusCode::UNAUTHORIZED, "a user name and password are needed\n");
                refusal
                    .headers_mut()
                    .insert(header::WWW_AUTHENTICATE, header::HeaderValue::from_static("Basic realm=\"router\""));
                refusal
            }
            "/metrics" => tokio::task::block_in_place(|| self.show_metrics()),
            _ => text(StatusCode::NOT_FOUND, "404 page not found\n"),
        }
    }

    async fn ready(&self) -> Result<(), String> {
        if self.stopping.load(Ordering::Relaxed) {
            return Err("stopping".to_owned());
        }
        if !self.synced.load(Ordering::Relaxed) {
            return Err("Routes have not all been read".to_owned());
        }
        for address in self.settings.listen.addresses() {
            let family = address.family();
            match tokio::time::timeout(PATIENCE, probe(&self.settings, address)).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => return Err(format!("HAProxy over {family}: {error}")),
                Err(_) => return Err(format!("HAProxy over {family}: no answer")),
            }
        }
        Ok(())
    }

    fn accepted(&self) -> Result<(), String> {
        self.refusal.lock().clone().map_or(Ok(()), Err)
    }

    fn is_allowed<B>(&self, request: &Request<B>) -> bool {
        let stats = &self.settings.stats;
        let (Some(user), Some(password)) = (&stats.username, &stats.password) else { return true };
        let wanted = format!("Basic {}", STANDARD.encode(format!("{user}:{}", password.expose())));
        let given = request.headers().get(header::AUTHORIZATION).map(|value| value.as_bytes()).unwrap_or_default();
        // Every byte is looked at, so that the time tells nothing.
        let differences = given.iter().zip(wanted.as_bytes()).fold(0, |sum, (a, b)| sum | (a ^ b));
        given.len() == wanted.len() && differences == 0
    }

    fn show_metrics(&self) -> Response<Body> {
        let turn = self.counted.lock().turn();
        let stat = turn.and_then(|_| Socket::new(&self.admin).ask(SHOW_ALL).ok());
        let own = self.metrics.render(TextFormat::accepted(None));
        let mut body = String::from_utf8_lossy(own.body.as_ref()).into_owned();
        body += self.counted.lock().show(turn, stat.as_deref());
        let mut response = text(StatusCode::OK, body);
        response.headers_mut().insert(header::CONTENT_TYPE, header::HeaderValue::from_static(own.content_type));
        response
    }
}

fn respond(ready: Result<(), String>) -> Response<Body> {
    match ready {
        Ok(()) => text(StatusCode::OK, "ok"),
        Err(reason) => text(StatusCode::INTERNAL_SERVER_ERROR, format!("not ready: {reason}\n")),
    }
}

fn current() -> Result<(), String> {
    runtime::watch::view::oldest().map_or(Ok(()), |old| Err(old.to_string()))
}

/// Asks HAProxy through the port that clients use, as a sender on this machine would.
async fn probe(settings: &Settings, listens: IpAddr) -> io::Result<()> {
    let ip = if listens.is_unspecified() { listens.family().loopback() } else { listens };
    let mut stream = TcpStream::connect(SocketAddr::new(ip, settings.listen.http)).await?;
    let proxy = if settings.listen.proxy_protocol.expected_from(ip) { "PROXY UNKNOWN\r\n" } else { "" };
    let request = format!("{proxy}GET {} HTTP/1.0\r\n\r\n", super::haproxy::MONITOR);
    stream.write_all(request.as_bytes()).await?;
    let mut answer = Vec::new();
    stream.take(4096).read_to_end(&mut answer).await?;
    match answer.starts_with(b"HTTP/1.0 200") || answer.starts_with(b"HTTP/1.1 200") {
        true => Ok(()),
        false => Err(io::Error::other("the answer is not 200")),
    }
}
