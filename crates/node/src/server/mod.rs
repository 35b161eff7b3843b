//! What a node serves on port 10250: programs in containers, logs, statistics, to whom the API server says may have them.
//!
//! `route` says what a path asks for and which right it needs, `review` asks the API server, `handle` answers. Streams are the
//! runtime's own; this server only stands in between.

mod answer;
mod handle;
mod log;
mod metrics;
mod query;
mod review;
mod route;
mod stats;
mod stream;

pub use review::Authorization;
pub(crate) use stream::pairs;

use crate::{cri::Runtime, probes::Probes, volumes::Volumes};
use http::Request;
use hyper::body::Incoming;
use k8s_openapi::api::core::v1::Pod;
use kube::Client;
use review::{Kept, Reviews};
use runtime::{
    admin::Admin,
    http::{Limits, Server},
    pki::{Bundle, PkiError},
    task::Tasks,
    tls::server_config,
};
use rustls::server::ResolvesServerCert;
use serde_json::Value;
use std::{convert::Infallible, net::TcpListener, path::PathBuf, sync::Arc, time::Duration};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

/// What the server asks about Pods.
pub trait NodePods: Send + Sync {
    /// All of this node, with their statuses as they are now.
    fn pods(&self) -> Vec<Arc<Pod>>;
    fn container(&self, namespace: &str, pod: &str, uid: Option<&str>, container: &str) -> Option<ContainerRef>;
    /// The log of the current container, or of the one before it.
    fn log_file(&self, namespace: &str, pod: &str, container: &str, previous: bool) -> Option<PathBuf>;
    /// The sandbox that is ready.
    fn sandbox(&self, namespace: &str, pod: &str, uid: Option<&str>) -> Option<String>;
}

/// A container as the runtime knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContainerRef {
    pub id: String,
    pub sandbox: String,
    pub log: PathBuf,
    pub running: bool,
}

/// As upstream's housekeeping.
const MEASURED_EVERY: Duration = Duration::from_secs(10);

/// How the server serves.
pub struct ServerOptions {
    pub node_name: String,
    /// Of one family or both, from `runtime::listen::tcp`.
    pub listeners: Vec<TcpListener>,
    pub certificate: Arc<dyn ResolvesServerCert>,
    /// Whose certificates prove who asks.
    pub client_ca: Option<Bundle>,
    /// Whether somebody without credentials may ask, to be judged like everybody.
    pub anonymous: bool,
    pub authorization: Authorization,
    pub client: Client,
    pub runtime: Runtime,
    pub volumes: Option<Arc<Volumes>>,
    pub probes: Option<Probes>,
    /// `--root-dir`, whose file system the node's statistics are about.
    pub root: PathBuf,
    /// The configuration as `/configz` shows it.
    pub configz: Value,
}

/// Why nothing can be served. Not retryable.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    #[error("the kubelet's server: {0}")]
    Tls(#[from] PkiError),
}

/// What answers need.
struct Served {
    node: String,
    pods: Arc<dyn NodePods>,
    runtime: Runtime,
    volumes: Option<Arc<Volumes>>,
    probes: Option<Probes>,
    root: PathBuf,
    configz: Value,
    admin: Admin,
    reviews: Reviews,
    rates: stats::Rates,
    tunnels: TaskTracker,
    stop: CancellationToken,
}

impl Served {
    fn pod(&self, namespace: &str, name: &str) -> Option<Arc<Pod>> {
        let is_it = |pod: &Arc<Pod>| {
            pod.metadata.namespace.as_deref() == Some(namespace) && pod.metadata.name.as_deref() == Some(name)
        };
        self.pods.pods().into_iter().find(is_it)
    }

    fn has_terminal(&self, namespace: &str, pod: &str, container: &str) -> bool {
        let Some(pod) = self.pod(namespace, pod) else { return false };
        let Some(spec) = &pod.spec else { return false };
        let containers = spec.containers.iter().chain(spec.init_containers.iter().flatten());
        let ephemeral = spec.ephemeral_containers.iter().flatten().map(|one| (one.name.as_str(), one.tty));
        let mut all = containers.map(|one| (one.name.as_str(), one.tty)).chain(ephemeral);
        all.any(|(name, tty)| name == container && tty == Some(true))
    }
}

/// Serves until the tasks are stopped.
pub async fn start(
    options: ServerOptions,
    pods: Arc<dyn NodePods>,
    admin: &Admin,
    tasks: &Tasks,
) -> Result<(), ServerError> {
    let ServerOptions {
        node_name,
        listeners,
        certificate,
        client_ca,
        anonymous,
        authorization,
        client,
        runtime,
        volumes,
        probes,
        root,
        configz,
    } = options;
    let tls = server_config(certificate, client_ca.as_ref())?;
    let reviews = Reviews {
        client,
        node: node_name.clone(),
        anonymous,
        authorization,
        tokens: Kept::default(),
        rights: Kept::default(),
    };
    let served = Arc::new(Served {
        node: node_name,
        pods,
        runtime,
        volumes,
        probes,
        root,
        configz,
        admin: admin.clone(),
        reviews,
        rates: stats::Rates::default(),
        tunnels: TaskTracker::new(),
        stop: CancellationToken::new(),
    });
    tasks.once("measurements", {
        let served = Arc::clone(&served);
        move |stop| async move {
            measure(&served, &stop).await;
            Ok::<_, Infallible>(())
        }
    });
    tasks.serve("kubelet server", move |stop| async move {
        let server = Server { listeners, tls: Some(tls), limits: Limits::default() };
        let shared = Arc::clone(&served);
        let service = tower::service_fn(move |request: Request<Incoming>| {
            let served = Arc::clone(&shared);
            async move { Ok::<_, Infallible>(handle::handle(&served, request).await) }
        });
        let ended = server.run(service, stop).await;
        served.stop.cancel();
        served.tunnels.close();
        served.tunnels.wait().await;
        ended.map(drop)
    });
    Ok(())
}

/// Looks at what runs often enough that somebody who asks once (`kubectl top`) is told a rate.
async fn measure(served: &Served, stop: &CancellationToken) {
    while !stop.is_cancelled() {
        stats::Machine::look(&served.root, &served.rates);
        if let Err(error) = stats::pods(&served.runtime, &served.pods.pods(), None, &served.rates).await {
            tracing::debug!(%error, "the runtime does not measure now");
        }
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(MEASURED_EVERY) => {}
        }
    }
}
