//! Which AWS account the cloud controller manager works on, and which cluster of it.

use aws::{
    account::Account,
    clients::{Found, Session, discover},
    cloud_config::CloudConfig,
    memory::{Example, Memory},
    model::names::Cluster,
};
use runtime::metrics::Metrics;
use std::sync::Arc;

/// Where the account is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AccountKind {
    /// At AWS, or at the endpoints that are set instead.
    Aws,
    /// In this process: an example VPC that refuses what AWS refuses, gone when the process ends.
    Example,
}

/// How many instances the example has; nodes called `node-0` and so on are these.
const EXAMPLE_NODES: u8 = 3;

/// The account, its region, and the cluster in it, whose UID is not known yet.
pub(super) struct Opened {
    pub(super) account: Account,
    pub(super) region: String,
    pub(super) cluster: Cluster,
}

/// Opens the account that the flags and the cloud-config name.
pub(super) async fn open(
    account_kind: AccountKind,
    config: &CloudConfig,
    cluster_name: &str,
    metrics: &Metrics,
) -> anyhow::Result<Opened> {
    match account_kind {
        AccountKind::Aws => at_aws(config, cluster_name, metrics).await,
        AccountKind::Example => example(config, cluster_name),
    }
}

async fn at_aws(config: &CloudConfig, cluster_name: &str, metrics: &Metrics) -> anyhow::Result<Opened> {
    let session = Session::open(config, metrics).await?;
    let account = session.account();
    let Found { vpc, cluster_id: id, legacy_tag } = discover(&session, &account, config).await?;
    let region = session.region().to_owned();
    tracing::info!(region, vpc, cluster = id, "works on AWS");
    let cluster = Cluster { id, name: cluster_name.to_owned(), vpc, legacy_tag, uid: None };
    Ok(Opened { account, region, cluster })
}

fn example(config: &CloudConfig, cluster_name: &str) -> anyhow::Result<Opened> {
    let account = Account::from(Arc::new(Memory::new(Example { nodes: EXAMPLE_NODES }.state())));
    let id = config.cluster_id().unwrap_or(Example::CLUSTER).to_owned();
    anyhow::ensure!(
        id == Example::CLUSTER,
        "the example account belongs to cluster {:?}, but KubernetesClusterID is {id:?}",
        Example::CLUSTER
    );
    let (name, vpc) = (cluster_name.to_owned(), Example::VPC.to_owned());
    let cluster = Cluster { id, name, vpc, legacy_tag: false, uid: None };
    let region = config.region().unwrap_or_else(|| "us-east-1".to_owned());
    Ok(Opened { account, region, cluster })
}
