//! Which instances stand behind a load balancer, and which of their security groups take its rules.

use super::{names::Cluster, request::Note};
use crate::account::{Instance, Interface, Tags};
use k8s_openapi::api::core::v1::Node;
use net::Family;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// The instance id of a provider id: `aws:///zone/i-1`, `aws:////i-1` or `i-1`.
pub fn instance_id(provider_id: &str) -> Option<&str> {
    let id = match provider_id.strip_prefix("aws://") {
        Some(path) => path.rsplit('/').next()?,
        None => provider_id,
    };
    let digits = id.strip_prefix("i-")?;
    (!digits.is_empty() && digits.chars().all(|c| c.is_ascii_alphanumeric())).then_some(id)
}

/// The instance that a node says it is; none for one that runs elsewhere, on Fargate or on somebody's own hardware.
pub fn instance_of(node: &Node) -> Option<&str> {
    node.spec.as_ref()?.provider_id.as_deref().and_then(instance_id)
}

/// The instances of nodes that carry all labels; an empty value stands for any.
pub fn instances(nodes: &[Arc<Node>], labels: &BTreeMap<String, String>) -> BTreeSet<String> {
    let fits = |node: &&Arc<Node>| {
        labels.iter().all(|(key, value)| {
            let has = node.metadata.labels.as_ref().and_then(|labels| labels.get(key));
            has.is_some_and(|has| value.is_empty() || has == value)
        })
    };
    nodes.iter().filter(fits).filter_map(|node| instance_of(node)).map(str::to_owned).collect()
}

/// The interface that load balancers send to; further ones may be pods'.
fn first_interface(instance: &Instance) -> Option<&Interface> {
    instance.interfaces.iter().min_by_key(|interface| interface.device_index)
}

/// Those that can be targets of this family; an instance without a primary IPv6 address cannot be one for IPv6.
pub fn targets(known: &[&Instance], family: Family, notes: &mut Vec<Note>) -> BTreeSet<String> {
    let mut missing = Vec::new();
    let mut targets = BTreeSet::new();
    for instance in known {
        let first = first_interface(instance);
        let reachable =
            family == Family::V4 || first.is_some_and(|interface| interface.primary_ipv6 && !interface.ipv6.is_empty());
        if reachable {
            targets.insert(instance.id.clone());
        } else {
            missing.push(instance.id.as_str());
        }
    }
    if !missing.is_empty() {
        missing.sort_unstable();
        notes.push(Note {
            reason: "TargetsWithoutPrimaryIPv6",
            message: format!("{} have no primary IPv6 address and get no traffic", missing.join(", ")),
        });
    }
    targets
}

/// The group of each instance's first interface that takes rules: its only group with the cluster's tag, or its only group.
pub fn groups(
    known: &[&Instance],
    tags: &BTreeMap<String, Tags>,
    cluster: &Cluster,
) -> Result<BTreeSet<String>, String> {
    let mut chosen = BTreeSet::new();
    for instance in known {
        let all: BTreeSet<&String> =
            first_interface(instance).into_iter().flat_map(|interface| &interface.security_groups).collect();
        let tagged: Vec<&&String> =
            all.iter().filter(|id| tags.get(id.as_str()).is_some_and(|tags| cluster.uses(tags))).collect();
        let owned: Vec<&&String> =
            tagged.iter().copied().filter(|id| tags.get(id.as_str()).is_some_and(|tags| cluster.owns(tags))).collect();
        match (tagged.as_slice(), owned.as_slice(), all.iter().collect::<Vec<_>>().as_slice()) {
            ([one], _, _) | (_, [one], _) | ([], _, [one]) => {
                chosen.insert((**one).clone());
            }
            ([], _, []) => {}
            (tagged, _, all) => {
                let kind = if tagged.is_empty() { "untagged" } else { "tagged" };
                let ids: Vec<&str> = all.iter().map(|id| id.as_str()).collect();
                return Err(format!(
                    "Multiple {kind} security groups found for instance {}: {}; exactly one must have the tag {}",
                    instance.id,
                    ids.join(", "),
                    cluster.tag()
                ));
            }
        }
    }
    Ok(chosen)
}
