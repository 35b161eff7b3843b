//! A cluster in memory: the API server of a shape, and controllers on it, through a client that can be cut off.
#![allow(dead_code, unreachable_pub, reason = "each test file uses its part")]

use apiserver::{
    ApiServer,
    client::{InProcess, myself},
    services::{Services, Settings},
    testing::Lab,
};
use control::framework::{self, Context, Options, Selection};
use http::{Method, Request, Response};
use kube::{Client, client::Body as ClientBody};
use net::flags::service_ranges;
use runtime::{admin::Admin, health::Health, metrics::Metrics, task::Tasks};
use std::{
    future::Future,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    task::{Context as Waking, Poll},
    time::Duration,
};

/// The shapes of a cluster and their Service ranges.
pub const SHAPES: [(&str, &str); 4] = [
    ("v4", "10.96.0.0/16"),
    ("v6", "fd00:96::/108"),
    ("v4v6", "10.96.0.0/16,fd00:96::/108"),
    ("v6v4", "fd00:96::/108,10.96.0.0/16"),
];

/// How long anything may take before a test gives up.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// An API server of a shape, with upstream's rules for Services.
pub async fn server(shape: &str) -> Arc<ApiServer> {
    let (_, ranges) = SHAPES.into_iter().find(|(name, _)| *name == shape).expect("a shape");
    let mut lab = Lab::new();
    lab.server.services = Services::new(Settings {
        ranges: service_ranges(ranges).expect("ranges"),
        rules: api::families::RuleSet::Upstream,
        ..Settings::default()
    });
    lab.start().await
}

/// A client that nothing stands in the way of.
pub fn client(server: &Arc<ApiServer>) -> Client {
    Client::new(InProcess::new(Arc::clone(server), myself()), "default")
}

/// Controllers that run until this is stopped.
pub struct Running {
    tasks: Tasks,
}

impl Running {
    /// Starts the controllers of this list.
    pub fn start(client: Client, list: &str, options: Options) -> Self {
        let admin = Admin { health: Health::new(), metrics: Metrics::new() };
        let tasks = Tasks::new(&admin.metrics, &admin.health);
        let all = control::controllers();
        let context = Context::new(client, options, &admin, &tasks);
        framework::start(&context, &all, &Selection::parse(list, &all).expect("controllers"));
        Self { tasks }
    }

    /// Ends them.
    pub async fn stop(self) {
        self.tasks.stop(Duration::from_secs(5)).await;
    }
}

/// The server behind a wire that breaks after a number of writes: the last one still arrives, its answer does not.
#[derive(Clone)]
pub struct Breaking {
    inner: InProcess,
    left: Arc<AtomicI64>,
}

impl Breaking {
    /// A client that may write this often, and whether it has been cut off.
    pub fn client(server: &Arc<ApiServer>, writes: i64) -> (Client, Arc<AtomicI64>) {
        let left = Arc::new(AtomicI64::new(writes));
        let inner = InProcess::new(Arc::clone(server), myself());
        (Client::new(Self { inner, left: Arc::clone(&left) }, "default"), left)
    }
}

/// Nobody answers any more.
#[derive(Debug, thiserror::Error)]
#[error("the wire is broken")]
pub struct Broken;

impl tower::Service<Request<ClientBody>> for Breaking {
    type Response = Response<apiserver::Body>;
    type Error = Broken;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Broken>> + Send>>;

    fn poll_ready(&mut self, _context: &mut Waking<'_>) -> Poll<Result<(), Broken>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<ClientBody>) -> Self::Future {
        let left = match request.method() {
            &Method::GET => self.left.load(Ordering::SeqCst),
            _ => self.left.fetch_sub(1, Ordering::SeqCst) - 1,
        };
        if left < 0 {
            return Box::pin(async { Err(Broken) });
        }
        let lost = left == 0 && request.method() != Method::GET;
        let answer = tower::Service::call(&mut self.inner, request);
        Box::pin(async move {
            match answer.await {
                Ok(response) if !lost => Ok(response),
                _ => Err(Broken),
            }
        })
    }
}

/// Asks again and again until the answer is there.
pub async fn until<T, F: Future<Output = Option<T>>>(what: &str, mut ask: impl FnMut() -> F) -> T {
    let deadline = tokio::time::Instant::now() + PATIENCE;
    loop {
        if let Some(answer) = ask().await {
            return answer;
        }
        assert!(tokio::time::Instant::now() < deadline, "it never happened: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
