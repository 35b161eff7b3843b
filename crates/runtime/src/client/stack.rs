//! What a client is made of: TCP that notices a dead peer, TLS, who asks, a second attempt where the server asks for one.
//!
//! kube's own stack differs in three things that matter here: its connections are not probed, so that a watch whose
//! server vanished without a word waits for minutes; it repeats requests up to 15 times, also those that say that a version
//! does not exist (504); and it logs an error for each request that fails, which is a flood while the API is away.

use super::reach::{Reach, ReachLayer};
use crate::backoff::{self, Backoff};
use http::{Request, Response, StatusCode, header::RETRY_AFTER};
use hyper::body::Incoming;
use hyper_util::{
    client::legacy::{Client as Hyper, connect::HttpConnector},
    rt::TokioExecutor,
};
use kube::{
    Client, Config,
    client::{Body, ConfigExt},
};
use std::time::Duration;
use tower::{
    BoxError, ServiceBuilder,
    retry::{Policy, RetryLayer},
    util::BoxCloneService,
};

/// How long it may take to connect.
const CONNECT: Duration = Duration::from_secs(10);
/// A quiet connection is probed after this long, then this often and so many times: it is known to be dead after 25 seconds.
const PROBE: (Duration, Duration, u32) = (Duration::from_secs(10), Duration::from_secs(5), 3);
/// The same for what was sent and is not acknowledged.
const UNACKNOWLEDGED: Duration = Duration::from_secs(25);

/// A client for the server of this configuration. Nothing is sent yet.
pub fn client(config: Config) -> Result<Client, kube::Error> {
    if config.proxy_url.is_some() {
        // Tunnels are kube's business.
        return Client::try_from(config);
    }
    let namespace = config.default_namespace.clone();
    Ok(Client::new(stack(&config)?, namespace))
}

/// What requests go through.
pub(super) type Stack = BoxCloneService<Request<Body>, Response<Incoming>, BoxError>;

pub(super) fn stack(config: &Config) -> Result<Stack, kube::Error> {
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    tcp.set_connect_timeout(Some(CONNECT));
    tcp.set_keepalive(Some(PROBE.0));
    tcp.set_keepalive_interval(Some(PROBE.1));
    tcp.set_keepalive_retries(Some(PROBE.2));
    tcp.set_tcp_user_timeout(Some(UNACKNOWLEDGED));
    let tls = config.rustls_https_connector_with_connector(tcp)?;
    let service = ServiceBuilder::new()
        .layer(config.base_uri_layer())
        .layer(RetryLayer::new(Again { attempts: 0 }))
        .option_layer(config.auth_layer()?)
        .layer(config.extra_headers_layer()?)
        .layer(ReachLayer(Reach::of(&config.cluster_url.to_string())))
        .service(Hyper::builder(TokioExecutor::new()).build::<_, Body>(tls));
    Ok(BoxCloneService::new(service))
}

/// Repeats what the server did not take up for being busy.
#[derive(Clone, Debug)]
struct Again {
    attempts: u32,
}

impl Again {
    const MOST: u32 = 5;
    const PAUSE: Backoff = Backoff { first: Duration::from_millis(50), cap: Duration::from_secs(5) };
}

impl<B> Policy<Request<Body>, Response<B>, BoxError> for Again {
    type Future = tokio::time::Sleep;

    fn retry(&mut self, _: &mut Request<Body>, answer: &mut Result<Response<B>, BoxError>) -> Option<Self::Future> {
        let answer = answer.as_ref().ok()?;
        let busy = [StatusCode::TOO_MANY_REQUESTS, StatusCode::SERVICE_UNAVAILABLE].contains(&answer.status());
        if !busy || self.attempts == Self::MOST {
            return None;
        }
        self.attempts += 1;
        let asked = answer.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.parse().ok());
        let asked = asked.map_or(Duration::ZERO, Duration::from_secs).min(Self::PAUSE.cap);
        Some(tokio::time::sleep(Self::PAUSE.delay(self.attempts, backoff::random()).max(asked)))
    }

    /// A watch is not repeated: who is told so lists again, as the server may be another one by then.
    fn clone_request(&mut self, request: &Request<Body>) -> Option<Request<Body>> {
        if request.uri().query().is_some_and(|query| query.split('&').any(|part| part.starts_with("watch="))) {
            return None;
        }
        let mut copy = Request::new(request.body().try_clone()?);
        *copy.method_mut() = request.method().clone();
        *copy.uri_mut() = request.uri().clone();
        *copy.version_mut() = request.version();
        *copy.headers_mut() = request.headers().clone();
        *copy.extensions_mut() = request.extensions().clone();
        Some(copy)
    }
}
