//! Which kinds the API has. What it does not have is neither read nor made.

use kube::Client;
use runtime::controller::Result;

/// Kinds that not every cluster has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Served {
    /// networking.k8s.io NetworkPolicy.
    pub network_policies: bool,
    /// monitoring.coreos.com ServiceMonitor.
    pub service_monitors: bool,
    /// config.openshift.io APIServer.
    pub api_servers: bool,
    /// config.openshift.io ClusterOperator.
    pub cluster_operators: bool,
}

/// Asks the API.
pub(super) async fn served(client: &Client) -> Result<Served> {
    Ok(Served {
        network_policies: has(client, "networking.k8s.io/v1", "NetworkPolicy").await?,
        service_monitors: has(client, "monitoring.coreos.com/v1", "ServiceMonitor").await?,
        api_servers: has(client, "config.openshift.io/v1", "APIServer").await?,
        cluster_operators: has(client, "config.openshift.io/v1", "ClusterOperator").await?,
    })
}

async fn has(client: &Client, group_version: &str, kind: &str) -> Result<bool> {
    match client.list_api_group_resources(group_version).await {
        Ok(list) => Ok(list.resources.iter().any(|resource| resource.kind == kind)),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(false),
        Err(error) => Err(error.into()),
    }
}
