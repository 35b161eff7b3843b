//! What the objects `cluster` of config.openshift.io say, each kept current by a watch. A cluster without them, or without their kinds, says nothing.

#[cfg(test)]
mod tests;

use api::config::{CLUSTER, CloudConfigReference, FeatureGateStatus};
use k8s_openapi::api::core::v1::ObjectReference;
use runtime::{
    controller::{Context, Key, Scope, Store, Subscription, reference},
    operator::{FeatureGate, Infrastructure},
};

/// Both objects.
pub(super) struct Cluster {
    infrastructure: Store<Infrastructure>,
    gates: Store<FeatureGate>,
}

/// What both objects say.
#[derive(Default)]
pub(super) struct ClusterConfig {
    /// For events about the Infrastructure.
    pub(super) infrastructure: Option<ObjectReference>,
    /// What the cluster runs on, where that is known.
    pub(super) platform: Option<String>,
    /// Where the administrator's cloud-config is; without a name there is none.
    pub(super) file: CloudConfigReference,
    /// Which gates are open.
    pub(super) gates: FeatureGateStatus,
}

impl Cluster {
    pub(super) fn new<O>(context: &Context<O>) -> Self {
        Self {
            infrastructure: context.store_of(Scope::default().name(CLUSTER)),
            gates: context.store_of(Scope::default().name(CLUSTER)),
        }
    }

    /// Calls `changed` whenever one of them says something else.
    pub(super) fn on_change(&self, changed: impl Fn() + Clone + Send + Sync + 'static) -> [Subscription; 2] {
        let again = changed.clone();
        [self.infrastructure.on_change(move |_| changed()), self.gates.on_change(move |_| again())]
    }

    /// Resolves when both have been heard of: what is not known must not count as closed or empty.
    pub(super) async fn known(&self) {
        tokio::join!(self.infrastructure.known(), self.gates.known());
    }

    pub(super) fn config(&self) -> ClusterConfig {
        let key = Key::cluster(CLUSTER);
        let (infrastructure, gates) = (self.infrastructure.get(&key), self.gates.get(&key));
        let Some(infrastructure) = infrastructure else {
            return ClusterConfig { gates: status(gates.as_deref()), ..ClusterConfig::default() };
        };
        let platform = infrastructure.status.as_ref().and_then(|status| status.platform_status.as_ref());
        ClusterConfig {
            infrastructure: Some(reference(&*infrastructure)),
            platform: platform.map(|platform| platform.kind.clone()),
            file: infrastructure.spec.cloud_config.clone().unwrap_or_default(),
            gates: status(gates.as_deref()),
        }
    }
}

fn status(gates: Option<&FeatureGate>) -> FeatureGateStatus {
    gates.and_then(|gates| gates.status.clone()).unwrap_or_default()
}
