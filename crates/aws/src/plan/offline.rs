//! A plan from files alone: a Service, and what an account holds. For `cloud-controller-manager plan`.

use super::{Action, Observed, Others, plan};
use crate::{
    cloud_config::CloudConfig,
    model::{
        Existing, Settings, Surroundings, desire,
        names::{CLUSTER_TAG, Cluster},
        request::{Note, Request},
        rules::BACKEND_GROUP,
    },
};
use k8s_openapi::api::core::v1::{Node, Service};
use serde::Deserialize;
use serde_json::json;
use std::sync::Arc;

/// What an account holds, as far as a plan needs it: the parts of [`Surroundings`] and [`Observed`], and the nodes.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Snapshot {
    /// Subnets, route tables, zones, instances.
    #[serde(flatten)]
    pub around: Surroundings,
    /// Load balancers, target groups, security groups.
    #[serde(flatten)]
    pub observed: Observed,
    /// Nodes of the cluster; without them every instance is one.
    pub nodes: Vec<Node>,
    /// Id of the group that load balancers share towards the nodes.
    pub backend_group: Option<String>,
}

/// What would be done, and what would be told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// In this order.
    pub actions: Vec<Action>,
    /// Events that would be written.
    pub notes: Vec<Note>,
}

/// Reads a Service from YAML or JSON, and a snapshot from JSON, and plans.
pub fn offline(service: &str, snapshot: &str, config: &CloudConfig, cluster_name: &str) -> Result<Plan, String> {
    let service: Service = serde_saphyr::from_str(service).map_err(|error| format!("the Service: {error}"))?;
    let snapshot: Snapshot = serde_json::from_str(snapshot).map_err(|error| format!("the account: {error}"))?;
    if service.metadata.uid.as_deref().is_none_or(str::is_empty) {
        return Err("the Service: metadata.uid is missing; it is part of the load balancer's name".to_owned());
    }
    let settings = Settings::of(config, cluster(config, &snapshot, cluster_name)?);
    let request = match Request::read(&service) {
        Ok(Some(request)) => request,
        Ok(None) => return Err("the load balancer is another controller's".to_owned()),
        Err(mistakes) => return Err(mistakes.join("\n")),
    };
    let Snapshot { around, observed, nodes, backend_group } = snapshot;
    let nodes: Vec<Arc<Node>> = if nodes.is_empty() {
        let node = |id: &String| objects::from_value(&json!({"spec": {"providerID": id}})).ok();
        around.instances.keys().filter_map(node).map(Arc::new).collect()
    } else {
        nodes.into_iter().map(Arc::new).collect()
    };
    let network = observed.network.as_ref().map(|seen| &seen.load_balancer);
    let classic = observed.classic.as_ref().map(|seen| &seen.load_balancer);
    let existing = network
        .map(|one| Existing { scheme: one.scheme, subnets: one.subnets.clone(), groups: one.security_groups.clone() })
        .or_else(|| {
            classic.map(|one| Existing {
                scheme: one.scheme,
                subnets: one.subnets.clone(),
                groups: one.security_groups.clone(),
            })
        });
    // A load balancer that can have no group has no use for it.
    let backend = backend_group.as_deref().unwrap_or(BACKEND_GROUP);
    let backend = Some(backend).filter(|_| !settings.disable_node_rules);
    let desired =
        desire(&request, &settings, &around, existing.as_ref(), &nodes, backend).map_err(|refusal| refusal.why)?;
    let others = Others { complete: true, ..Others::default() };
    let actions = plan(&desired, &observed, &others, &settings.cluster)?;
    Ok(Plan { actions, notes: desired.notes })
}

/// The cluster by the config, else by the tags of subnets.
fn cluster(config: &CloudConfig, snapshot: &Snapshot, name: &str) -> Result<Cluster, String> {
    let tagged = || {
        let keys = snapshot.around.subnets.iter().flat_map(|subnet| subnet.tags.keys());
        keys.into_iter().find_map(|key| key.strip_prefix(CLUSTER_TAG))
    };
    let id = config.cluster_id().or_else(tagged);
    let id =
        id.ok_or("the cluster's id is not known: set KubernetesClusterID in --cloud-config, or tag the subnets")?;
    let vpc = Some(config.global.vpc.clone()).filter(|vpc| !vpc.is_empty());
    let vpc = vpc.or_else(|| snapshot.around.subnets.first().map(|subnet| subnet.vpc.clone()));
    let vpc = vpc.ok_or("the VPC is not known: set VPC in --cloud-config, or list its subnets")?;
    Ok(Cluster { id: id.to_owned(), name: name.to_owned(), vpc, legacy_tag: false, uid: None })
}
