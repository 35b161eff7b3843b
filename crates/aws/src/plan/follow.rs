//! A load balancer that stays as it is follows the nodes. Pure.

use super::{Action, Observed, SeenTargetGroup, change_targets};
use crate::{
    account::{Direction, Instance, Peer, Rule, SecurityGroup, Target},
    model::{
        names::{Cluster, Owner},
        nodes,
        rules::{is_of, is_shared},
    },
};
use std::collections::BTreeSet;

/// Whom a load balancer is to follow.
#[derive(Debug)]
pub struct Follow<'a> {
    /// Its name.
    pub name: &'a str,
    /// The nodes' instances.
    pub instances: &'a [&'a Instance],
    /// The nodes' groups that take rules.
    pub node_groups: &'a BTreeSet<String>,
}

impl Follow<'_> {
    /// Whether nodes have a group that lets the load balancer in nowhere.
    pub fn lacks_rules(&self, observed: &Observed) -> bool {
        let lets_in = |group: &SecurityGroup| group.ingress.iter().any(|rule| self.concerns(rule, observed));
        self.node_groups.iter().any(|id| !observed.groups.get(id).is_some_and(lets_in))
    }

    /// Whether a rule lets this load balancer in: as such, or as one that has a group.
    fn concerns(&self, rule: &Rule, observed: &Observed) -> bool {
        let worn = observed.network.as_ref().map(|seen| &seen.load_balancer.security_groups);
        let by_group = matches!(&rule.peer, Peer::Group(id) if worn.is_some_and(|worn| worn.contains(id)));
        is_of(&rule.description, self.name) || (is_shared(&rule.description) && by_group)
    }
}

/// Whether a load balancer is there that was made for this Service.
pub fn is_ours(observed: &Observed, owner: &Owner, cluster: &Cluster) -> bool {
    let network = observed.network.as_ref().and_then(|seen| seen.tags.as_ref());
    let classic = observed.classic.as_ref().and_then(|seen| seen.tags.as_ref());
    network.into_iter().chain(classic).any(|tags| cluster.owns_for(tags, owner))
}

/// What to do: nodes let it in as other nodes do, and its targets are these. Nothing is closed.
pub fn follow(follow: &Follow<'_>, observed: &Observed) -> Vec<Action> {
    let mut actions = let_in(follow, observed);
    for seen in &observed.target_groups {
        targets(follow, seen, &mut actions);
    }
    if let Some(seen) = &observed.classic {
        let wanted: BTreeSet<String> = follow.instances.iter().map(|instance| instance.id.clone()).collect();
        let coming: BTreeSet<String> = wanted.difference(&seen.load_balancer.instances).cloned().collect();
        let leaving: BTreeSet<String> = seen.load_balancer.instances.difference(&wanted).cloned().collect();
        actions.extend((!coming.is_empty()).then_some(Action::RegisterInstances { instances: coming }));
        actions.extend((!leaving.is_empty()).then_some(Action::DeregisterInstances { instances: leaving }));
    }
    actions
}

fn targets(follow: &Follow<'_>, seen: &SeenTargetGroup, actions: &mut Vec<Action>) {
    let Some(has) = &seen.targets else { return };
    let port = seen.group.port;
    let instances = nodes::targets(follow.instances, seen.group.family, &mut Vec::new());
    let wanted: BTreeSet<Target> = instances.into_iter().map(|instance| Target { instance, port }).collect();
    change_targets(&seen.group.name, has, &wanted, actions);
}

/// The rules of this load balancer, wherever they are, on each group of nodes.
fn let_in(follow: &Follow<'_>, observed: &Observed) -> Vec<Action> {
    let of_it = |rule: &&Rule| follow.concerns(rule, observed);
    let all = observed.groups.values().flat_map(|group| &group.ingress);
    let mut rules: BTreeSet<Rule> = all.clone().filter(of_it).cloned().collect();
    let peers: BTreeSet<Peer> = rules.iter().map(|rule| rule.peer.clone()).collect();
    rules.extend(all.filter(|rule| is_shared(&rule.description) && peers.contains(&rule.peer)).cloned());
    let mut actions = Vec::new();
    for id in follow.node_groups {
        let has = observed.groups.get(id).map(|group| &group.ingress);
        let missing: BTreeSet<Rule> =
            rules.iter().filter(|rule| !has.is_some_and(|has| has.contains(rule))).cloned().collect();
        if !missing.is_empty() {
            actions.push(Action::Authorize { group: id.clone(), direction: Direction::Ingress, rules: missing });
        }
    }
    actions
}
