//! The server's parts, put together, and what the verbs ask of them.

use crate::{
    admission::{Plugins, Policies, QuotaTurns, Webhooks},
    aggregation::Aggregation,
    audit::Auditor,
    definitions::Definitions,
    fairness::Fairness,
    inflight::Inflight,
    journal::RequestMetrics,
    kubelet::Kubelets,
    openapi::Documents,
    registry::Registry,
    request::bodies::Bodies,
    services::Services,
    stored,
};
use access::{
    Access,
    authn::{
        Authenticator,
        service_account::{Issuer, ObjectKind, Objects},
    },
};
use api::error::ApiError;
use arc_swap::ArcSwap;
use runtime::{admin::Admin, http::Pace};
use serde_json::Value;
use std::{sync::Arc, time::Duration};
use store::Store;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

/// What an administrator decides.
#[derive(Clone, Debug)]
pub struct Config {
    /// How long Events are kept.
    pub event_ttl_seconds: u64,
    /// What else a write must respect.
    pub admission: Plugins,
    /// `--allow-privileged`.
    pub allow_privileged: bool,
    /// `host:port` that discovery tells clients.
    pub server_address: String,
    /// Where service account tokens say their keys are.
    pub jwks_uri: String,
    /// How long a request may take that does not last by its nature.
    pub request_timeout: Duration,
    /// How slowly the body of a request may arrive.
    pub body_pace: Pace,
}

/// The largest body has a minute and a bit.
pub(crate) const BODY_PACE: Pace = Pace { grace: Duration::from_secs(20), bytes_per_second: 64 * 1024 };

/// A running API server. Requests come through `handle::handle`.
pub struct ApiServer {
    /// Objects.
    pub store: Store,
    /// Resources being served.
    pub registry: ArcSwap<Registry>,
    /// Who else answers for groups.
    pub aggregation: Aggregation,
    /// What CustomResourceDefinitions bring into it.
    pub definitions: Definitions,
    /// Pools of addresses and ports.
    pub services: Services,
    /// Who is who.
    pub authenticator: Authenticator,
    /// Who may what.
    pub access: Access,
    /// Signs service account tokens.
    pub issuer: Option<Issuer>,
    /// Rules about writes that the cluster brings along.
    pub policies: Policies,
    /// Who may use up quotas now.
    pub quotas: QuotaTurns,
    /// Others that are asked about writes.
    pub webhooks: Webhooks,
    /// Connections to nodes.
    pub kubelets: Kubelets,
    /// Who is served before whom; none when it is switched off (`--enable-priority-and-fairness=false`).
    pub fairness: Option<Fairness>,
    /// How much at a time, when there is no fairness.
    pub inflight: Inflight,
    /// How much of request bodies is kept at a time.
    pub bodies: Arc<Bodies>,
    /// The audit log.
    pub auditor: Option<Auditor>,
    /// OpenAPI documents.
    pub documents: Documents,
    /// Health and metrics.
    pub admin: Admin,
    /// Requests by verb, resource and code.
    pub requests: RequestMetrics,
    /// Settings.
    pub config: Config,
    /// Cancelled when the server stops, which ends watches.
    pub stop: CancellationToken,
    /// Writes on their way; each goes on to its end even if nobody waits for the answer any more.
    pub writes: TaskTracker,
}

impl ApiServer {
    /// The time.
    pub fn now(&self) -> jiff::Timestamp {
        jiff::Timestamp::now()
    }

    /// Completes when the server stops.
    pub async fn stopping(&self) {
        self.stop.cancelled().await;
    }

    /// All objects below a storage prefix, for rules that look across objects. One that cannot be read is none; whoever asks
    /// for it hears why.
    pub async fn objects(&self, storage: &str) -> Result<Vec<Value>, ApiError> {
        let page = self.store.list(&format!("{storage}/"), None, None, None).await;
        let page = page.map_err(|error| ApiError::unavailable(error.to_string()))?;
        Ok(page.entries.iter().filter_map(|entry| stored::parse(entry).ok()).collect())
    }

    /// One object by its key below the root.
    pub fn object(&self, path: &str) -> Option<Value> {
        self.store.get(path).and_then(|entry| stored::parse(&entry).ok())
    }

    /// The registry of this moment.
    pub fn registry(&self) -> Arc<Registry> {
        self.registry.load_full()
    }
}

impl Objects for ApiServer {
    fn get(&self, kind: ObjectKind, namespace: &str, name: &str) -> Option<Arc<Value>> {
        let path = match kind {
            ObjectKind::ServiceAccount => format!("serviceaccounts/{namespace}/{name}"),
            ObjectKind::Pod => format!("pods/{namespace}/{name}"),
            ObjectKind::Secret => format!("secrets/{namespace}/{name}"),
            ObjectKind::Node => format!("minions/{name}"),
        };
        self.object(&path).map(Arc::new)
    }
}
