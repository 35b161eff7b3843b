//! What has to change in AWS so that what is observed becomes what is desired. Pure.
//!
//! Order matters: a group's rules are in place before a load balancer that uses it goes live; nothing is deleted before
//! what refers to it. Whatever is done of it, doing the rest later comes to the same end.

mod action;
mod classic;
mod follow;
mod groups;
mod network;
mod offline;
mod remove;
#[cfg(test)]
mod tests;

pub use action::{Action, ListenerPlan};
pub use follow::{Follow, follow, is_ours};
pub(crate) use network::change_targets;
pub use offline::{Plan, Snapshot, offline};
pub use remove::remove;

use crate::{
    account::{
        Attributes, ClassicAttributes, ClassicLoadBalancer, Listener, LoadBalancer, Peer, Rule, SecurityGroup, Tags,
        Target, TargetGroup,
    },
    model::{
        Balancer, Desired,
        names::{Cluster, IDENTITY_TAG},
        rules::{BACKEND_GROUP, is_exclusive, is_shared},
    },
};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// What AWS has for a Service. What is `None` was not looked at and is not touched.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Observed {
    /// The network load balancer of its name.
    pub network: Option<SeenNetwork>,
    /// Target groups that its listeners lead to, or that have its tags.
    pub target_groups: Vec<SeenTargetGroup>,
    /// The classic load balancer of its name.
    pub classic: Option<SeenClassic>,
    /// Security groups: its own, those of the load balancer, those of nodes, and those that refer to its own. By id.
    pub groups: BTreeMap<String, SecurityGroup>,
}

/// A network load balancer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SeenNetwork {
    pub load_balancer: LoadBalancer,
    #[serde(default)]
    pub listeners: Vec<Listener>,
    #[serde(default)]
    pub attributes: Option<Attributes>,
    #[serde(default)]
    pub tags: Option<Tags>,
    /// Tags of its listeners, by ARN.
    #[serde(default)]
    pub listener_tags: BTreeMap<String, Tags>,
    /// Certificates that listeners have beside their own one, by ARN of the listener.
    #[serde(default)]
    pub certificates: BTreeMap<String, BTreeSet<String>>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SeenTargetGroup {
    pub group: TargetGroup,
    #[serde(default)]
    pub attributes: Option<Attributes>,
    #[serde(default)]
    pub tags: Option<Tags>,
    /// Its targets, those on their way out left out.
    #[serde(default)]
    pub targets: Option<BTreeSet<Target>>,
}

/// A classic load balancer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SeenClassic {
    pub load_balancer: ClassicLoadBalancer,
    #[serde(default)]
    pub attributes: Option<ClassicAttributes>,
    #[serde(default)]
    pub tags: Option<Tags>,
}

impl SeenNetwork {
    /// Of which nothing more was looked at.
    pub(crate) fn bare(load_balancer: LoadBalancer) -> Self {
        Self {
            load_balancer,
            listeners: Vec::new(),
            attributes: None,
            tags: None,
            listener_tags: BTreeMap::new(),
            certificates: BTreeMap::new(),
        }
    }
}

impl SeenClassic {
    /// Of which nothing more was looked at.
    pub(crate) fn bare(load_balancer: ClassicLoadBalancer) -> Self {
        Self { load_balancer, attributes: None, tags: None }
    }
}

/// Rules on nodes' groups that other Services want.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Others {
    /// By group.
    pub wants: BTreeMap<String, BTreeSet<Rule>>,
    /// Whether it is known of every other Service. Until then no rule that could be shared is taken away.
    pub complete: bool,
}

impl Others {
    /// Whether nobody wants a group, nor a rule about it.
    pub(crate) fn spare(&self, group: &str) -> bool {
        let is_it = |id: &String| id == group || id == BACKEND_GROUP;
        let about_it = |rule: &Rule| matches!(&rule.peer, Peer::Group(id) if is_it(id));
        self.complete && !self.wants.keys().any(is_it) && !self.wants.values().flatten().any(about_it)
    }

    /// Whether nobody else wants a rule. What could be shared is thought to be wanted until everybody has been heard.
    pub(crate) fn leave(&self, group: &str, rule: &Rule) -> bool {
        !self.want(group, rule) && (self.complete || is_exclusive(&rule.description))
    }

    /// Whether somebody wants a rule, also one about the shared group whose id is not known yet.
    pub(crate) fn want(&self, group: &str, rule: &Rule) -> bool {
        let to_come = || Rule { peer: Peer::Group(BACKEND_GROUP.to_owned()), ..rule.clone() };
        let wants = |rules: &BTreeSet<Rule>| {
            rules.contains(rule) || (is_shared(&rule.description) && rules.contains(&to_come()))
        };
        self.wants.get(group).is_some_and(wants)
    }
}

/// What to do, in this order.
pub fn plan(desired: &Desired, observed: &Observed, others: &Others, cluster: &Cluster) -> Result<Vec<Action>, String> {
    refuse_what_is_not_ours(desired, observed, cluster)?;
    let mut actions = Vec::new();
    let own = groups::own(&desired.groups, observed, cluster, &desired.owner)?;
    let surplus = groups::surplus_on_nodes(desired, own, observed, others, cluster);
    groups::prepare_backend(desired, observed, cluster, &mut actions);
    let closing = groups::prepare(desired, own, &mut actions);
    groups::authorize_nodes(desired, own, observed, &surplus, &mut actions);
    match &desired.balancer {
        Balancer::Network(network) => network::plan(desired, network, own, observed, cluster, &mut actions)?,
        Balancer::Classic(classic) => classic::plan(desired, classic, own, observed, &mut actions),
    }
    let first_deleted = actions.iter().position(|action| matches!(action, Action::DeleteListener { .. }));
    let at = first_deleted.unwrap_or(actions.len());
    actions.splice(at..at, closing.ingress);
    actions.extend(closing.egress);
    groups::revoke_nodes(surplus, &mut actions);
    groups::retire(desired, observed, cluster, &mut actions);
    Ok(target_groups_last(actions))
}

/// Target groups go last: one that AWS still keeps in use holds nothing else up.
fn target_groups_last(actions: Vec<Action>) -> Vec<Action> {
    let is_target_group = |action: &Action| matches!(action, Action::DeleteTargetGroup { .. });
    let (last, mut all): (Vec<Action>, Vec<Action>) = actions.into_iter().partition(is_target_group);
    all.extend(last);
    all
}

/// A load balancer of the right name that is somebody else's, or of the other kind.
fn refuse_what_is_not_ours(desired: &Desired, observed: &Observed, cluster: &Cluster) -> Result<(), String> {
    let is_network = matches!(desired.balancer, Balancer::Network(_));
    let annotation = crate::model::annotations::name("type");
    let flipped = match (is_network, &observed.network, &observed.classic) {
        (true, None, Some(_)) => Some("Classic Load Balancer"),
        (false, Some(_), _) => Some("NLB"),
        _ => None,
    };
    if let Some(kind) = flipped {
        return Err(format!(
            "cannot update Load Balancer Type annotation {annotation} after creation for {kind}; put it back, or delete the Service"
        ));
    }
    let is_other = |seen: &SeenNetwork| seen.load_balancer.kind != crate::account::LoadBalancerType::Network;
    if observed.network.as_ref().is_some_and(is_other) {
        return Err(format!("{} is there, but is no network load balancer", desired.name));
    }
    let network = observed.network.as_ref().and_then(|seen| seen.tags.as_ref());
    let classic = observed.classic.as_ref().and_then(|seen| seen.tags.as_ref());
    for tags in network.into_iter().chain(classic) {
        if cluster.is_claimed(tags, &desired.owner) {
            return Err(format!(
                "load balancer {} is there, but its tags say that it is not of {} in cluster {}; it is left alone",
                desired.name,
                desired.owner.key(),
                cluster.id
            ));
        }
    }
    refuse_twins_target_groups(desired, observed, cluster)
}

/// Names of target groups say nothing of the Service's UID, and AWS would hand out the one that is there.
fn refuse_twins_target_groups(desired: &Desired, observed: &Observed, cluster: &Cluster) -> Result<(), String> {
    let Balancer::Network(network) = &desired.balancer else { return Ok(()) };
    let is_twins = |seen: &&SeenTargetGroup| {
        let named = network.listeners.iter().any(|listener| listener.target.name == seen.group.name);
        named && seen.tags.as_ref().is_some_and(|tags| cluster.is_twins(tags))
    };
    match observed.target_groups.iter().find(is_twins) {
        None => Ok(()),
        Some(seen) => Err(format!(
            "target group {} is there, but its tag {IDENTITY_TAG} says that it is of another cluster that is called {} too: give one of them another              KubernetesClusterID, or delete the target group if that cluster is no more",
            seen.group.name, cluster.id
        )),
    }
}

/// What is in `wanted` and not, or otherwise, in `has`.
pub(crate) fn differing(wanted: &BTreeMap<String, String>, has: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    wanted.iter().filter(|(key, value)| has.get(*key) != Some(value)).map(|(k, v)| (k.clone(), v.clone())).collect()
}
