//! Which AWS account the cloud controller manager works on, and which cluster of it.

use aws::{
    account::Account,
    cloud_config::CloudConfig,
    memory::{Example, Memory},
    model::names::Cluster,
};
use std::sync::Arc;

/// Where the account is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// In this process: an example VPC that refuses what AWS refuses, gone when the process ends.
    Example,
}

/// How many instances the example has; nodes called `node-0` and so on are these.
const EXAMPLE_NODES: u8 = 3;

/// The account, its region, and the cluster in it.
pub(super) struct Opened {
    pub(super) account: Arc<dyn Account>,
    pub(super) region: String,
    pub(super) cluster: Cluster,
}

/// Opens the account that the flags and the cloud-config name.
pub(super) fn open(place: Place, config: &CloudConfig, cluster_name: &str) -> anyhow::Result<Opened> {
    match place {
        Place::Example => {
            let account = Arc::new(Memory::new(Example { nodes: EXAMPLE_NODES }.state()));
            let id = config.cluster_id().unwrap_or(Example::CLUSTER).to_owned();
            anyhow::ensure!(
                id == Example::CLUSTER,
                "the example account belongs to cluster {:?}, but KubernetesClusterID is {id:?}",
                Example::CLUSTER
            );
            let cluster =
                Cluster { id, name: cluster_name.to_owned(), vpc: Example::VPC.to_owned(), legacy_tag: false };
            let region = config.region().unwrap_or_else(|| "us-east-1".to_owned());
            Ok(Opened { account, region, cluster })
        }
    }
}
