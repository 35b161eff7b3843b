//! A server in memory, for tests of this crate and of those that talk to it. Everything in it is the real thing but the disk.

use crate::{
    ApiServer, Body, Config,
    admission::{Plugins, Policies, QuotaTurns, Webhooks},
    aggregated_roles,
    aggregation::{self, Aggregation},
    client::{InProcess, myself},
    definitions::Definitions,
    fairness::{self, Fairness},
    inflight::Inflight,
    journal::RequestMetrics,
    kubelet::Kubelets,
    openapi::Documents,
    server::BODY_PACE,
    services::Services,
    warm,
};
use access::{
    Access, Mode,
    authn::{
        Authenticator,
        service_account::{Issuer, Settings, SigningKey, Verifier},
    },
};
use api::error::ApiError;
use bytes::Bytes;
use http::{Method, Request, Response};
use runtime::{admin::Admin, health::Health, http::BoxError, metrics::Metrics, pki, task::Tasks};
use std::{
    future::Future,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};
use store::{Retention, Store};
use tokio_util::sync::CancellationToken;

/// Parts of a server in memory; change what a test is about, then `start`.
pub struct Lab {
    /// The parts.
    pub server: Box<ApiServer>,
    tasks: Tasks,
}

impl Lab {
    /// Roles decide, tokens are issued, pods need no service account.
    pub fn new() -> Self {
        Self::on(Store::memory(Retention::default()))
    }

    /// On a store of one's own.
    pub fn on(store: Store) -> Self {
        let pem = pki::TokenKey::generate().expect("a key can be made");
        let key = SigningKey::from_pem(pem.private_pem().expose()).expect("a key can be read");
        let settings = Settings::new("https://kubernetes.default.svc.cluster.local");
        let admin = Admin { health: Health::new(), metrics: Metrics::new() };
        let tasks = Tasks::new(&admin.metrics, &admin.health);
        let server = Box::new(ApiServer {
            store,
            registry: arc_swap::ArcSwap::from_pointee(warm::registry()),
            aggregation: Aggregation::default(),
            definitions: Definitions::default(),
            services: Services::default(),
            authenticator: Authenticator {
                service_accounts: Some(Verifier::new(&settings, vec![key.public().clone()])),
                audiences: settings.audiences.clone(),
                ..Authenticator::default()
            },
            access: Access::new(&[Mode::Node, Mode::Rbac]),
            issuer: Some(Issuer::new(key, settings)),
            policies: Policies::default(),
            quotas: QuotaTurns::default(),
            webhooks: Webhooks::new(&admin.metrics),
            kubelets: Kubelets::default(),
            fairness: Some(Fairness::new(600, Duration::from_secs(60), &admin.metrics)),
            inflight: Inflight::new(400, 200),
            bodies: Arc::default(),
            auditor: None,
            documents: Documents::default(),
            requests: RequestMetrics::new(&admin.metrics),
            admin,
            config: Config {
                event_ttl_seconds: 3600,
                admission: Plugins { service_account: false, ..Plugins::default() },
                allow_privileged: true,
                server_address: "localhost:6443".into(),
                jwks_uri: "https://kubernetes.default.svc/openid/v1/jwks".into(),
                request_timeout: Duration::from_secs(60),
                body_pace: BODY_PACE,
            },
            stop: CancellationToken::new(),
            writes: tokio_util::task::TaskTracker::new(),
        });
        Self { server, tasks }
    }

    pub async fn start(self) -> Arc<ApiServer> {
        self.try_start().await.expect("a server in memory starts")
    }

    /// Starts it and ends what runs beside requests, for tests that call such a part themselves and count what it did.
    pub async fn start_still(self) -> Arc<ApiServer> {
        let server = Arc::from(self.server);
        warm::run(&server, &self.tasks).await.expect("a server in memory starts");
        self.tasks.abort();
        server
    }

    /// Starts it, or says why it does not.
    pub async fn try_start(self) -> Result<Arc<ApiServer>, warm::StartError> {
        let server = Arc::from(self.server);
        warm::run(&server, &self.tasks).await?;
        settled(&server).await;
        Ok(server)
    }
}

/// Waits until what runs beside requests has nothing left to write, which it does when the server is ready already: from then on
/// the store's revision moves only when somebody asks for it.
async fn settled(server: &ApiServer) {
    for _ in 0..1_000 {
        if is_settled(server).await.unwrap_or(false) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// APIServices say that they are answered for, aggregated ClusterRoles have their rules, FlowSchemas their conditions.
async fn is_settled(server: &ApiServer) -> Result<bool, ApiError> {
    let schemas_told = server.fairness.is_none() || fairness::keep::unreported(server).await?.is_empty();
    Ok(schemas_told && aggregated_roles::unfilled(server).is_empty() && aggregation::is_settled(server).await?)
}

impl Default for Lab {
    fn default() -> Self {
        Self::new()
    }
}

/// A started server in memory.
pub async fn server() -> Arc<ApiServer> {
    Lab::new().start().await
}

/// A server behind a wire that breaks after a number of writes: the last one still arrives, its answer does not.
#[derive(Clone)]
pub struct Breaking {
    inner: InProcess,
    left: Arc<AtomicI64>,
}

impl Breaking {
    /// A wire for so many writes, and how many are left of them.
    pub fn new(server: &Arc<ApiServer>, writes: i64) -> (Self, Arc<AtomicI64>) {
        let left = Arc::new(AtomicI64::new(writes));
        (Self { inner: InProcess::new(Arc::clone(server), myself()), left: Arc::clone(&left) }, left)
    }
}

/// Nobody answers any more.
#[derive(Debug, thiserror::Error)]
#[error("the wire is broken")]
pub struct Broken;

impl<B> tower::Service<Request<B>> for Breaking
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    type Response = Response<Body>;
    type Error = Broken;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Broken>> + Send>>;

    fn poll_ready(&mut self, _context: &mut Context<'_>) -> Poll<Result<(), Broken>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        // An event that is lost is one that was not told: nothing follows from it.
        let is_write = request.method() != Method::GET && !request.uri().path().ends_with("/events");
        let left = match is_write {
            false => self.left.load(Ordering::SeqCst),
            true => self.left.fetch_sub(1, Ordering::SeqCst) - 1,
        };
        if left < 0 {
            return Box::pin(async { Err(Broken) });
        }
        let lost = left == 0 && is_write;
        let answer = tower::Service::call(&mut self.inner, request);
        Box::pin(async move {
            match answer.await {
                Ok(response) if !lost => Ok(response),
                _ => Err(Broken),
            }
        })
    }
}
