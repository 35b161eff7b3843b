//! Which kinds the API has. What it does not have is neither read nor made.

use kube::Client;
use parking_lot::Mutex;
use std::{collections::BTreeSet, time::Duration};

/// A kind that not every cluster has: group and version, and its name.
pub type ApiKind = (&'static str, &'static str);

/// Traffic between Pods.
pub const NETWORK_POLICY: ApiKind = ("networking.k8s.io/v1", "NetworkPolicy");
/// What the API server changes in objects that are written.
pub const MUTATING_POLICY: ApiKind = ("admissionregistration.k8s.io/v1", "MutatingAdmissionPolicy");
/// What Prometheus asks.
pub const SERVICE_MONITOR: ApiKind = ("monitoring.coreos.com/v1", "ServiceMonitor");
/// When Prometheus raises an alarm.
pub const PROMETHEUS_RULE: ApiKind = ("monitoring.coreos.com/v1", "PrometheusRule");
/// What the cluster is told of an operator.
pub const CLUSTER_OPERATOR: ApiKind = ("config.openshift.io/v1", "ClusterOperator");

/// How often the API is asked whether definitions have come or gone. Discovery is the one thing that every account may read.
const PAUSE: Duration = Duration::from_secs(15);

/// Those of some kinds that the API has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Served(BTreeSet<ApiKind>);

impl Served {
    #[must_use]
    pub fn has(&self, kind: ApiKind) -> bool {
        self.0.contains(&kind)
    }
}

impl FromIterator<ApiKind> for Served {
    fn from_iter<I: IntoIterator<Item = ApiKind>>(kinds: I) -> Self {
        Self(kinds.into_iter().collect())
    }
}

/// Asks the API about some kinds, and goes on asking.
pub struct Discovery {
    client: Client,
    kinds: &'static [ApiKind],
    served: Mutex<Served>,
}

impl Discovery {
    /// Has asked once.
    pub async fn new(client: Client, kinds: &'static [ApiKind]) -> Result<Self, kube::Error> {
        let discovery = Self { client, kinds, served: Mutex::default() };
        discovery.ask().await?;
        Ok(discovery)
    }

    /// What the last answer was.
    pub fn served(&self) -> Served {
        self.served.lock().clone()
    }

    /// Asks; whether the answer is another one than before.
    async fn ask(&self) -> Result<bool, kube::Error> {
        let mut found = BTreeSet::new();
        for kind in self.kinds {
            if is_served(&self.client, *kind).await? {
                found.insert(*kind);
            }
        }
        let before = std::mem::replace(&mut self.served.lock().0, found.clone());
        Ok(before != found)
    }

    /// Calls `changed` whenever a kind has come or gone. Ends only by being dropped; an API that does not answer changes nothing.
    pub async fn follow(&self, changed: impl Fn()) {
        loop {
            tokio::time::sleep(PAUSE).await;
            if let Ok(true) = self.ask().await {
                tracing::info!(served = ?self.served.lock().0, "the API's kinds have changed");
                changed();
            }
        }
    }
}

/// Whether the API has a kind.
pub async fn is_served(client: &Client, (group_version, kind): ApiKind) -> Result<bool, kube::Error> {
    match client.list_api_group_resources(group_version).await {
        Ok(list) => Ok(list.resources.iter().any(|resource| resource.kind == kind)),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(false),
        Err(error) => Err(error),
    }
}

/// Resolves when the API has a kind.
pub async fn until_served(client: &Client, kind: ApiKind) -> Result<(), kube::Error> {
    while !is_served(client, kind).await? {
        tokio::time::sleep(PAUSE).await;
    }
    Ok(())
}
