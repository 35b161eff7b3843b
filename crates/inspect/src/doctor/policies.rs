//! Network policies whose blocks are of one family in a cluster that has both.

use super::{About, Cluster, Finding, Severity};
use crate::{Snapshot, families};
use k8s_openapi::api::networking::v1::{IPBlock, NetworkPolicy, NetworkPolicyPeer};
use net::Families;

pub(super) fn check(snapshot: &Snapshot, cluster: Cluster) -> Vec<Finding> {
    let policies = snapshot.policies.iter().filter(|_| cluster.is_dual());
    policies.flat_map(one).collect()
}

fn one(policy: &NetworkPolicy) -> Vec<Finding> {
    let Some(spec) = &policy.spec else { return Vec::new() };
    let incoming = spec.ingress.iter().flatten().filter_map(|rule| rule.from.as_deref());
    let outgoing = spec.egress.iter().flatten().filter_map(|rule| rule.to.as_deref());
    let finding = |direction: &str, families: Families| Finding {
        severity: Severity::Hint,
        about: About::of("networkpolicy", &policy.metadata),
        problem: format!(
            "names blocks of {} only for {direction} traffic: {} of these peers is closed",
            families.primary(),
            families.primary().other()
        ),
        why: "a block lets in its own family alone".to_owned(),
        mend: format!(
            "add the ipBlock of {} beside it, if the same peers are to be reached over it",
            families.primary().other()
        ),
    };
    let both = [("incoming", one_sided(incoming)), ("outgoing", one_sided(outgoing))];
    both.into_iter().filter_map(|(direction, families)| Some(finding(direction, families?))).collect()
}

/// The family of all blocks, if they have only one.
fn one_sided<'a>(rules: impl Iterator<Item = &'a [NetworkPolicyPeer]>) -> Option<Families> {
    let blocks = rules.flatten().filter_map(|peer: &NetworkPolicyPeer| peer.ip_block.as_ref());
    families::of_blocks(blocks.map(|block: &IPBlock| block.cidr.as_str())).filter(|families| !families.is_dual())
}
