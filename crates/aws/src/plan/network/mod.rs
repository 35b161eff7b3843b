//! A network load balancer with its listeners and target groups.

mod listeners;

use super::{Action, Observed, SeenNetwork, SeenTargetGroup, differing, groups};
use crate::{
    account::{
        Attributes, HealthCheck, IpAddressType, NewLoadBalancer, NewTargetGroup, SecurityGroup, SubnetMapping, Target,
    },
    model::{self, Desired, Network, names::Cluster},
};
use net::Family;
use std::collections::BTreeSet;

pub(super) fn plan(
    desired: &Desired,
    network: &Network,
    own: Option<&SecurityGroup>,
    observed: &Observed,
    cluster: &Cluster,
    actions: &mut Vec<Action>,
) -> Result<(), String> {
    match &observed.network {
        None => create(desired, network, own, actions),
        Some(seen) => update(desired, network, own, seen, actions),
    }
    // AWS refuses to narrow one that leads to IPv6 targets, and UDP on one that is wide without need.
    let narrows = observed.network.as_ref().is_some_and(|seen| {
        seen.load_balancer.ip_address_type == IpAddressType::Dualstack && network.ip_address_type == IpAddressType::Ipv4
    });
    let narrow = narrows.then_some(Action::SetIpAddressType { kind: IpAddressType::Ipv4 });
    let seen = observed.network.as_ref();
    let leads_to_ipv6 = observed.target_groups.iter().any(|seen| seen.group.family == Family::V6);
    let udp = network.listeners.iter().any(|listener| listener.protocol.contains("UDP"));
    if narrows && leads_to_ipv6 && udp {
        // While it is wide it takes UDP only with source NAT; so listeners part from IPv6 targets without a gap.
        actions.extend(seen.filter(|seen| seen.load_balancer.ipv6_source_nat != Some(true)).map(source_nat));
    }
    actions.extend(narrow.clone().filter(|_| !leads_to_ipv6));
    // What is not ours may have been put behind a listener by hand: it is neither used nor deleted.
    let owner = &desired.owner;
    let ours = |seen: &&SeenTargetGroup| {
        let named = network.listeners.iter().any(|listener| listener.target.name == seen.group.name);
        let owned = |tags| cluster.owns_for(tags, owner) || (named && !cluster.is_claimed(tags, owner));
        seen.tags.as_ref().is_none_or(owned)
    };
    let own_groups: Vec<&SeenTargetGroup> = observed.target_groups.iter().filter(ours).collect();
    let used = listeners::plan(desired, network, seen, &own_groups, actions)?;
    wear_both(seen, actions);
    actions.extend(narrow.filter(|_| leads_to_ipv6));
    for seen in own_groups.into_iter().filter(|seen| !used.contains(&seen.group.arn)) {
        let (arn, group) = (seen.group.arn.clone(), seen.group.name.clone());
        actions.push(Action::DeleteTargetGroup { arn, group });
    }
    Ok(())
}

/// How many groups a load balancer can have.
const MOST_GROUPS: usize = 5;

/// One that gets other groups and other targets, or other checks of them, in one change has both groups in between: nodes let in what goes to the old targets by the old
/// groups, and to the new ones by the new groups.
fn wear_both(seen: Option<&SeenNetwork>, actions: &mut Vec<Action>) {
    let is_moved = |action: &Action| {
        matches!(
            action,
            Action::ModifyListener { .. } | Action::SetHealthCheck { .. } | Action::SetTargetGroupAttributes { .. }
        )
    };
    let is_exchange = |action: &Action| matches!(action, Action::SetGroups { .. });
    let (Some(seen), Some(moved)) = (seen, actions.iter().rposition(is_moved)) else { return };
    let Some(at) = actions.iter().position(is_exchange).filter(|at| *at < moved) else { return };
    let Action::SetGroups { groups: wanted } = &actions[at] else { return };
    let has = &seen.load_balancer.security_groups;
    let both: BTreeSet<String> = has.union(wanted).cloned().collect();
    if both.len() > MOST_GROUPS {
        return;
    }
    actions[at..=moved].rotate_left(1);
    if both != *has {
        actions.insert(at, Action::SetGroups { groups: both });
    }
}

fn source_nat(seen: &SeenNetwork) -> Action {
    let mapping = |subnet: &String| SubnetMapping { subnet: subnet.clone(), ..SubnetMapping::default() };
    Action::SetSubnets { subnets: seen.load_balancer.subnets.iter().map(mapping).collect(), ipv6_source_nat: true }
}

fn create(desired: &Desired, network: &Network, own: Option<&SecurityGroup>, actions: &mut Vec<Action>) {
    actions.push(Action::CreateLoadBalancer(NewLoadBalancer {
        name: desired.name.clone(),
        scheme: network.scheme,
        ip_address_type: network.ip_address_type,
        subnets: network.subnets.clone(),
        security_groups: groups::wanted_ids(desired, own).unwrap_or_default(),
        ipv6_source_nat: network.needs_source_nat(),
        tags: desired.tags.clone(),
    }));
    actions.push(Action::SetAttributes { attributes: network.attributes.clone() });
}

fn update(
    desired: &Desired,
    network: &Network,
    own: Option<&SecurityGroup>,
    seen: &SeenNetwork,
    actions: &mut Vec<Action>,
) {
    let has = &seen.load_balancer;
    if let Some(groups) = groups::wanted_ids(desired, own).filter(|groups| *groups != has.security_groups) {
        actions.push(Action::SetGroups { groups });
    }
    let widens = has.ip_address_type == IpAddressType::Ipv4 && network.ip_address_type == IpAddressType::Dualstack;
    let subnets: BTreeSet<String> = network.subnets.iter().map(|subnet| subnet.subnet.clone()).collect();
    let moved = subnets != has.subnets;
    let set_subnets = |ipv6_source_nat| Action::SetSubnets { subnets: network.subnets.clone(), ipv6_source_nat };
    if moved {
        actions.push(set_subnets(network.needs_source_nat() && !widens));
    }
    if widens {
        actions.push(Action::SetIpAddressType { kind: IpAddressType::Dualstack });
    }
    let lacks_nat = widens || has.ipv6_source_nat == Some(false);
    if network.needs_source_nat() && lacks_nat && (widens || !moved) {
        actions.push(set_subnets(true));
    }
    let mut attributes = seen.attributes.as_ref().map(|has| differing(&network.attributes, has)).unwrap_or_default();
    // One without a value may be told or not.
    attributes
        .retain(|key, value| !value.is_empty() || seen.attributes.as_ref().is_some_and(|has| has.contains_key(key)));
    if !attributes.is_empty() {
        actions.push(Action::SetAttributes { attributes: whole_log(attributes, network) });
    }
    let tags = seen.tags.as_ref().map(|has| differing(&desired.tags, has)).unwrap_or_default();
    if !tags.is_empty() {
        actions.push(Action::TagLoadBalancer { tags });
    }
}

/// AWS checks the bucket when the log is switched on: what belongs to the log goes together.
fn whole_log(mut attributes: Attributes, network: &Network) -> Attributes {
    if attributes.keys().any(|key| key.starts_with("access_logs.")) {
        let log = network.attributes.iter().filter(|(key, _)| key.starts_with("access_logs."));
        attributes.extend(log.map(|(key, value)| (key.clone(), value.clone())));
    }
    attributes
}

/// Whether what can never change is as wanted.
fn fits(seen: &SeenTargetGroup, wanted: &model::TargetGroup, vpc: &str) -> bool {
    let has = &seen.group;
    has.protocol == wanted.protocol && has.port == wanted.port && has.family == wanted.family && has.vpc == vpc
}

fn create_target_group(desired: &Desired, wanted: &model::TargetGroup, actions: &mut Vec<Action>) {
    actions.push(Action::CreateTargetGroup(NewTargetGroup {
        name: wanted.name.clone(),
        protocol: wanted.protocol.clone(),
        port: wanted.port,
        vpc: desired.vpc.clone(),
        family: wanted.family,
        health_check: wanted.health_check.clone(),
        tags: desired.tags.clone(),
    }));
    let (group, attributes) = (wanted.name.clone(), wanted.attributes.clone());
    if !attributes.is_empty() {
        actions.push(Action::SetTargetGroupAttributes { group, attributes });
    }
    change_targets(&wanted.name, &BTreeSet::new(), &wanted.targets, actions);
}

fn update_target_group(
    desired: &Desired,
    wanted: &model::TargetGroup,
    seen: &SeenTargetGroup,
    actions: &mut Vec<Action>,
) {
    let group = || seen.group.name.clone();
    if !same_check(&wanted.health_check, &seen.group.health_check) {
        actions.push(Action::SetHealthCheck { group: group(), check: wanted.health_check.clone() });
    }
    let attributes = seen.attributes.as_ref().map(|has| differing(&wanted.attributes, has)).unwrap_or_default();
    if !attributes.is_empty() {
        actions.push(Action::SetTargetGroupAttributes { group: group(), attributes });
    }
    let tags = seen.tags.as_ref().map(|has| differing(&desired.tags, has)).unwrap_or_default();
    if !tags.is_empty() {
        actions.push(Action::TagTargetGroup { group: group(), tags });
    }
    if let Some(has) = &seen.targets {
        change_targets(&seen.group.name, has, &wanted.targets, actions);
    }
}

/// Whether the check is as wanted; what is left to AWS may be anything.
fn same_check(wanted: &HealthCheck, has: &HealthCheck) -> bool {
    let HealthCheck { protocol, port, path, interval, timeout, healthy, unhealthy } = wanted;
    (protocol, port, interval, healthy, unhealthy)
        == (&has.protocol, &has.port, &has.interval, &has.healthy, &has.unhealthy)
        && (path.is_none() || *path == has.path)
        && (timeout.is_none() || *timeout == has.timeout)
}

/// How many targets a group is sure to hold.
const MOST_TARGETS: usize = 500;

/// Those that come are there before those that leave go, unless the group could not hold both.
pub(crate) fn change_targets(name: &str, has: &BTreeSet<Target>, wanted: &BTreeSet<Target>, actions: &mut Vec<Action>) {
    let leaving: BTreeSet<Target> = has.difference(wanted).cloned().collect();
    let coming: BTreeSet<Target> = wanted.difference(has).cloned().collect();
    let both_fit = has.len() + coming.len() <= MOST_TARGETS;
    let group = || name.to_owned();
    let register = (!coming.is_empty()).then(|| Action::Register { group: group(), targets: coming });
    let deregister = (!leaving.is_empty()).then(|| Action::Deregister { group: group(), targets: leaving });
    if both_fit {
        actions.extend(register.into_iter().chain(deregister));
    } else {
        actions.extend(deregister.into_iter().chain(register));
    }
}
