//! Security groups: the load balancer's own, rules on the nodes', and the end of those that are not wanted any more.

use super::{Action, Observed, Others};
use crate::{
    account::{Direction, NewSecurityGroup, Peer, Protocol, Rule, SecurityGroup, Tags},
    model::{
        Balancer, Desired, Groups, ManagedGroup,
        names::{BACKEND_DESCRIPTION, Cluster, GROUP_DESCRIPTION, Owner},
        rules::{BACKEND_GROUP, OWN_GROUP, RULE_LIMIT, fullness, is_of, is_shared},
    },
};
use net::{Cidr, Family, HasFamily};
use std::collections::{BTreeMap, BTreeSet};

/// Names that groups of this Service can have.
pub(super) fn own_names(owner: &Owner, cluster: &Cluster) -> [String; 2] {
    [owner.network_group(&cluster.name), owner.classic_group()]
}

/// Whether a group was made for this Service: its name, its cluster, and no other Service's tag.
pub(super) fn is_own(group: &SecurityGroup, owner: &Owner, cluster: &Cluster) -> bool {
    let named = own_names(owner, cluster).contains(&group.name) && group.vpc == cluster.vpc;
    let others = group.tags.get(crate::model::names::SERVICE_TAG).is_some_and(|key| *key != owner.key());
    named && cluster.owns(&group.tags) && !others
}

/// The managed group, if it is there. One with its name that has lost its tags, and that no other tags claim, gets them back.
pub(super) fn own<'a>(
    groups: &Groups,
    observed: &'a Observed,
    cluster: &Cluster,
    owner: &Owner,
) -> Result<Option<&'a SecurityGroup>, String> {
    let Groups::Managed(managed) = groups else { return Ok(None) };
    let found = observed.groups.values().find(|group| group.name == managed.name && group.vpc == cluster.vpc);
    match found {
        Some(group) if cluster.is_claimed(&group.tags, owner) && !is_own(group, owner, cluster) => Err(format!(
            "security group {} ({}) has the name that the load balancer's group would get, but its tags claim it for others, and are not \
             {}=owned: rename it, or tag it",
            group.name,
            group.id,
            cluster.tag()
        )),
        found => Ok(found),
    }
}

/// How the groups of the load balancer are named in actions.
pub(super) fn wanted_ids(desired: &Desired, own: Option<&SecurityGroup>) -> Option<BTreeSet<String>> {
    match &desired.groups {
        Groups::AsIs => None,
        Groups::Given(ids) => Some(ids.clone()),
        Groups::Managed(managed) => {
            let mut ids = managed.beside.clone();
            ids.insert(own.map_or_else(|| OWN_GROUP.to_owned(), |group| group.id.clone()));
            Some(ids)
        }
    }
}

/// What AWS lets out of a group that is new.
fn everything_out() -> BTreeSet<Rule> {
    let all = Family::BOTH.into_iter().filter_map(|family| Cidr::containing(family.unspecified(), 0));
    all.map(|cidr| Rule { protocol: Protocol::All, peer: Peer::Cidr(cidr), description: String::new() }).collect()
}

/// Whether a group lets everything out of each family that is wanted.
fn lets_all_out(group: &SecurityGroup, wanted: &BTreeSet<Rule>) -> bool {
    let is_wanted = |all: &Rule| {
        wanted.iter().any(|rule| match (&rule.peer, &all.peer) {
            (Peer::Cidr(one), Peer::Cidr(all)) => one.family() == all.family(),
            _ => true,
        })
    };
    everything_out().iter().filter(|all| is_wanted(all)).all(|all| group.egress.contains(all))
}

/// What closes when the load balancer has changed, and not before: should a listener not come to be what is wanted, the old one goes on serving.
#[derive(Debug, Default)]
pub(super) struct Closing {
    /// Ports that are not wanted any more.
    pub(super) ingress: Option<Action>,
    /// What leads to nodes.
    pub(super) egress: Option<Action>,
}

/// The group that load balancers share is there, and lets nothing in or out.
pub(super) fn prepare_backend(desired: &Desired, observed: &Observed, cluster: &Cluster, actions: &mut Vec<Action>) {
    let Groups::Managed(managed) = &desired.groups else { return };
    if managed.beside.contains(BACKEND_GROUP) {
        let (vpc, tags) = (desired.vpc.clone(), cluster.own_tags(&Tags::new()));
        let (name, description) = (cluster.backend_group(), BACKEND_DESCRIPTION.to_owned());
        actions.push(Action::CreateBackendGroup(NewSecurityGroup { name, description, vpc, tags }));
        if !managed.egress_denied {
            let (group, direction) = (BACKEND_GROUP.to_owned(), Direction::Egress);
            actions.push(Action::Revoke { group, direction, rules: everything_out() });
        }
    }
    let groups = managed.beside.iter().filter_map(|id| observed.groups.get(id));
    for group in groups.filter(|group| group.name == cluster.backend_group()) {
        for (direction, rules) in [(Direction::Ingress, &group.ingress), (Direction::Egress, &group.egress)] {
            let is_left = direction == Direction::Egress && managed.egress_denied;
            if !rules.is_empty() && !is_left {
                actions.push(Action::Revoke { group: group.id.clone(), direction, rules: rules.clone() });
            }
        }
    }
}

/// The managed group is there with its rules, but for those that close later.
pub(super) fn prepare(desired: &Desired, own: Option<&SecurityGroup>, actions: &mut Vec<Action>) -> Closing {
    let Groups::Managed(managed) = &desired.groups else { return Closing::default() };
    let Some(group) = own else {
        actions.push(Action::CreateGroup(NewSecurityGroup {
            name: managed.name.clone(),
            description: GROUP_DESCRIPTION.to_owned(),
            vpc: desired.vpc.clone(),
            tags: desired.tags.clone(),
        }));
        let empty = BTreeSet::new();
        actions.extend(changed_rules(OWN_GROUP, Direction::Ingress, &empty, &managed.ingress));
        if let Some(egress) = managed.egress.as_ref().filter(|_| !managed.egress_denied) {
            actions.extend(changed_rules(OWN_GROUP, Direction::Egress, &everything_out(), egress));
        }
        return Closing::default();
    };
    let missing = super::differing(&desired.tags, &group.tags);
    if !missing.is_empty() {
        actions.push(Action::TagGroup { group: group.id.clone(), tags: missing });
    }
    let ManagedGroup { ingress, egress, egress_denied, .. } = managed;
    let stays_open = *egress_denied && egress.as_ref().is_some_and(|wanted| lets_all_out(group, wanted));
    let mut changes = changed_rules(&group.id, Direction::Ingress, &group.ingress, ingress);
    let closing = changes.pop_if(|last| matches!(last, Action::Revoke { .. }));
    actions.extend(changes);
    let (narrowing, unwanted) = closing.map(|revoke| split_revoke(revoke, ingress)).unwrap_or_default();
    actions.extend(narrowing);
    let mut closing = Closing { ingress: unwanted, egress: None };
    if let Some(egress) = egress.as_ref().filter(|_| !stays_open) {
        let mut changes = changed_rules(&group.id, Direction::Egress, &group.egress, egress);
        closing.egress = changes.pop_if(|last| matches!(last, Action::Revoke { .. }));
        actions.extend(changes);
    }
    closing
}

/// Who may connect to a port that stays is another matter than a port that is not wanted any more: the first closes at once.
fn split_revoke(revoke: Action, wanted: &BTreeSet<Rule>) -> (Option<Action>, Option<Action>) {
    let Action::Revoke { group, direction, rules } = revoke else { return (Some(revoke), None) };
    let stays = |rule: &Rule| wanted.iter().any(|wanted| wanted.protocol == rule.protocol);
    let (narrowing, unwanted): (BTreeSet<Rule>, BTreeSet<Rule>) = rules.into_iter().partition(stays);
    let revoke =
        |rules: BTreeSet<Rule>| (!rules.is_empty()).then(|| Action::Revoke { group: group.clone(), direction, rules });
    (revoke(narrowing), revoke(unwanted))
}

/// Authorizes, then revokes; the other way round when the group could not hold both.
fn changed_rules(group: &str, direction: Direction, has: &BTreeSet<Rule>, wanted: &BTreeSet<Rule>) -> Vec<Action> {
    let missing: BTreeSet<Rule> = wanted.difference(has).cloned().collect();
    let surplus: BTreeSet<Rule> = has.difference(wanted).cloned().collect();
    let group = || group.to_owned();
    let authorize = (!missing.is_empty()).then(|| Action::Authorize { group: group(), direction, rules: missing });
    let revoke = (!surplus.is_empty()).then(|| Action::Revoke { group: group(), direction, rules: surplus });
    let both: BTreeSet<Rule> = has.union(wanted).cloned().collect();
    if fullness(&both) <= RULE_LIMIT {
        authorize.into_iter().chain(revoke).collect()
    } else {
        revoke.into_iter().chain(authorize).collect()
    }
}

/// The rule with the id of the load balancer's own group, where that is known.
fn resolved(rule: &Rule, own: Option<&SecurityGroup>) -> Rule {
    match (&rule.peer, own) {
        (Peer::Group(id), Some(group)) if id == OWN_GROUP => {
            Rule { peer: Peer::Group(group.id.clone()), ..rule.clone() }
        }
        _ => rule.clone(),
    }
}

/// What is wanted on each node group.
pub(super) fn wanted_on_nodes(desired: &Desired, own: Option<&SecurityGroup>) -> BTreeMap<String, BTreeSet<Rule>> {
    let resolve = |rules: &BTreeSet<Rule>| rules.iter().map(|rule| resolved(rule, own)).collect();
    desired.node_rules.iter().map(|(group, rules)| (group.clone(), resolve(rules))).collect()
}

/// Nodes let the load balancer in before it goes live. A group that could not hold what it has and what it gets loses first what is not
/// wanted any more.
pub(super) fn authorize_nodes(
    desired: &Desired,
    own: Option<&SecurityGroup>,
    observed: &Observed,
    surplus: &BTreeMap<String, BTreeSet<Rule>>,
    actions: &mut Vec<Action>,
) {
    let empty = BTreeSet::new();
    for (group, wanted) in wanted_on_nodes(desired, own) {
        let has = observed.groups.get(&group).map_or(&empty, |group| &group.ingress);
        let missing: BTreeSet<Rule> = wanted.difference(has).cloned().collect();
        if missing.is_empty() {
            continue;
        }
        let both: BTreeSet<Rule> = has.union(&wanted).cloned().collect();
        let direction = Direction::Ingress;
        if let Some(rules) = surplus.get(&group).filter(|_| fullness(&both) > RULE_LIMIT) {
            actions.push(Action::Revoke { group: group.clone(), direction, rules: rules.clone() });
        }
        actions.push(Action::Authorize { group, direction, rules: missing });
    }
}

/// Rules on nodes for this load balancer that are not wanted any more, and that no other one wants.
pub(super) fn surplus_on_nodes(
    desired: &Desired,
    own: Option<&SecurityGroup>,
    observed: &Observed,
    others: &Others,
    cluster: &Cluster,
) -> BTreeMap<String, BTreeSet<Rule>> {
    let wanted = wanted_on_nodes(desired, own);
    let mut all = BTreeMap::new();
    for group in observed.groups.values() {
        let wanted = wanted.get(&group.id);
        let surplus = |rule: &&Rule| {
            let refers =
                matches!((&rule.peer, own), (Peer::Group(id), Some(own)) if *id == own.id && group.id != own.id);
            // One about another group may be of another load balancer: the sweep knows.
            let is_everybodys = match &rule.peer {
                Peer::Cidr(_) => true,
                Peer::Group(id) => observed.groups.get(id).is_some_and(|peer| peer.name == cluster.backend_group()),
                Peer::PrefixList(_) => false,
            };
            let shared = is_shared(&rule.description) && (refers || (is_everybodys && !cluster.shares(&group.tags)));
            (is_of(&rule.description, &desired.name) || shared)
                && (refers || others.leave(&group.id, rule))
                && !wanted.is_some_and(|wanted| wanted.contains(rule))
        };
        let surplus: BTreeSet<Rule> = group.ingress.iter().filter(surplus).cloned().collect();
        if !surplus.is_empty() {
            all.insert(group.id.clone(), surplus);
        }
    }
    all
}

/// Nodes let nobody in for this load balancer who is not wanted any more.
pub(super) fn revoke_nodes(surplus: BTreeMap<String, BTreeSet<Rule>>, actions: &mut Vec<Action>) {
    for (group, rules) in surplus {
        let planned: BTreeSet<Rule> = actions.iter().flat_map(|action| planned_revokes(action, &group)).collect();
        if !rules.is_subset(&planned) {
            actions.push(Action::Revoke { group, direction: Direction::Ingress, rules });
        }
    }
}

/// Groups of this Service that its load balancer does not want any more.
pub(super) fn retire(desired: &Desired, observed: &Observed, cluster: &Cluster, actions: &mut Vec<Action>) {
    let keep = match &desired.groups {
        Groups::Managed(managed) => Some(managed.name.as_str()),
        Groups::Given(_) => None,
        // Mode off: what is attached stays as it is.
        Groups::AsIs => match &desired.balancer {
            Balancer::Network(_) => return,
            Balancer::Classic(_) => None,
        },
    };
    let retired = observed.groups.values().filter(|group| is_own(group, &desired.owner, cluster));
    for group in retired.filter(|group| Some(group.name.as_str()) != keep) {
        retire_group(group, observed, cluster, actions);
    }
}

/// Takes away what refers to a group on groups that the cluster uses, then the group.
pub(super) fn retire_group(group: &SecurityGroup, observed: &Observed, cluster: &Cluster, actions: &mut Vec<Action>) {
    for other in observed.groups.values().filter(|other| other.id != group.id) {
        let refers = |rule: &&Rule| {
            let ours = crate::model::rules::is_ours(&rule.description) || cluster.uses(&other.tags);
            ours && rule.peer == Peer::Group(group.id.clone())
        };
        let planned: BTreeSet<Rule> = actions.iter().flat_map(|action| planned_revokes(action, &other.id)).collect();
        let rules: BTreeSet<Rule> =
            other.ingress.iter().filter(refers).filter(|rule| !planned.contains(rule)).cloned().collect();
        if !rules.is_empty() {
            let (group, direction) = (other.id.clone(), Direction::Ingress);
            actions.push(Action::Revoke { group, direction, rules });
        }
    }
    actions.push(Action::RemoveGroup { group: group.id.clone() });
}

fn planned_revokes(action: &Action, of: &str) -> BTreeSet<Rule> {
    match action {
        Action::Revoke { group, direction: Direction::Ingress, rules } if group == of => rules.clone(),
        _ => BTreeSet::new(),
    }
}
