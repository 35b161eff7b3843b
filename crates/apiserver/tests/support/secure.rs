//! A server with TLS on a loopback address, for tests of what the API server calls.

use base64::{Engine, engine::general_purpose::STANDARD};
use http::{Request, Response};
use hyper::body::Incoming;
use runtime::{
    http::{Body, Limits, Server},
    pki::{Authority, Identity, Purpose, Rotating},
    tls,
};
use serde_json::{Value, json};
use std::{
    convert::Infallible,
    net::{IpAddr, TcpListener},
    time::SystemTime,
};
use tokio_util::{
    sync::{CancellationToken, DropGuard},
    task::TaskTracker,
};

/// The name that the certificate has beside its address.
pub const NAME: &str = "hook.default.svc";

/// A running server; it ends when this is dropped.
pub struct Secure {
    pub port: u16,
    /// Who signed its certificate.
    pub bundle: String,
    /// Its own certificate.
    pub shown: String,
    _running: DropGuard,
}

impl Secure {
    /// Answers with what `answer` makes of requests.
    pub fn new<F, R>(address: &str, answer: F) -> Self
    where
        F: Fn(Request<Incoming>) -> R + Clone + Send + Sync + 'static,
        R: Future<Output = Result<Response<Body>, Infallible>> + Send + 'static,
    {
        let authority = Authority::create("webhooks", SystemTime::now()).unwrap();
        let addresses = vec![address.parse().unwrap()];
        let purpose = Purpose::Serving { names: vec![NAME.into()], addresses };
        let identity = authority.issue(&purpose, SystemTime::now()).unwrap();
        Self::showing(address, &identity, STANDARD.encode(authority.certificate_pem()), answer)
    }

    /// The same with a certificate of one's own.
    pub fn showing<F, R>(address: &str, identity: &Identity, bundle: String, answer: F) -> Self
    where
        F: Fn(Request<Incoming>) -> R + Clone + Send + Sync + 'static,
        R: Future<Output = Result<Response<Body>, Infallible>> + Send + 'static,
    {
        let address: IpAddr = address.parse().unwrap();
        let listener = TcpListener::bind((address, 0)).unwrap();
        listener.set_nonblocking(true).unwrap();
        let port = listener.local_addr().unwrap().port();
        let tls = tls::server_config(Rotating::new(identity).unwrap(), None).unwrap();
        let stop = CancellationToken::new();
        let server = Server { listeners: vec![listener], tls: Some(tls), limits: Limits::default() };
        TaskTracker::new().spawn(server.run(tower::service_fn(answer), stop.clone()));
        let shown = STANDARD.encode(identity.chain_pem());
        Self { port, bundle, shown, _running: stop.drop_guard() }
    }

    /// A clientConfig by URL.
    pub fn url(&self, address: &str, path: &str) -> Value {
        let host = if address.contains(':') { format!("[{address}]") } else { address.to_owned() };
        json!({"url": format!("https://{host}:{}{path}", self.port), "caBundle": self.bundle})
    }
}
