//! A cluster in memory: the API server of a shape, and controllers on it, through a client that can be cut off.
#![allow(dead_code, unreachable_pub, reason = "each test file uses its part")]

use apiserver::{
    ApiServer,
    client::{InProcess, myself},
    services::{Services, Settings},
    testing::{Breaking, Lab},
};
use control::framework::{self, Context, ControllerOptions, Selection};
use kube::Client;
use net::flags::service_ranges;
use runtime::{admin::Admin, health::Health, metrics::Metrics, task::Tasks};
use std::{
    future::Future,
    sync::{Arc, atomic::AtomicI64},
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
    pub fn start(client: Client, list: &str, options: ControllerOptions) -> Self {
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

/// A client that may write this often, and how many writes are left.
pub fn breaking(server: &Arc<ApiServer>, writes: i64) -> (Client, Arc<AtomicI64>) {
    let (wire, left) = Breaking::new(server, writes);
    (Client::new(wire, "default"), left)
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
