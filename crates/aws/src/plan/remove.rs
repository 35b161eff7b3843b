//! Everything of a Service goes, whichever part of it is still there.

use super::{Action, Observed, Others, groups};
use crate::{
    account::{Direction, Peer, Rule, SecurityGroup},
    model::{
        names::{Cluster, Owner},
        rules::{is_of, is_shared},
    },
};
use std::collections::BTreeSet;

/// What to do so that nothing is left of a Service. What is not ours, by its tags, is not touched.
pub fn remove(owner: &Owner, observed: &Observed, others: &Others, cluster: &Cluster) -> Vec<Action> {
    let mut actions = Vec::new();
    let ours = |tags: Option<&crate::account::Tags>| tags.is_some_and(|tags| cluster.owns_for(tags, owner));
    if let Some(seen) = observed.network.as_ref().filter(|seen| ours(seen.tags.as_ref())) {
        actions.push(Action::DeleteLoadBalancer { arn: seen.load_balancer.arn.clone() });
    }
    if let Some(seen) = observed.classic.as_ref().filter(|seen| ours(seen.tags.as_ref())) {
        actions.push(Action::DeleteClassic { name: seen.load_balancer.name.clone() });
    }
    let foreign = observed.network.as_ref().filter(|seen| !ours(seen.tags.as_ref()));
    let lent = |arn: &str| {
        let listeners = foreign.into_iter().flat_map(|seen| &seen.listeners);
        listeners.into_iter().any(|listener| listener.settings.target_group == arn)
    };
    let free = observed.target_groups.iter().filter(|seen| !lent(&seen.group.arn));
    for seen in free.filter(|seen| ours(seen.tags.as_ref())) {
        let (arn, group) = (seen.group.arn.clone(), seen.group.name.clone());
        actions.push(Action::DeleteTargetGroup { arn, group });
    }
    let name = owner.load_balancer();
    let made =
        |group: &SecurityGroup| cluster.made_for(&group.name, &group.tags).is_some() || cluster.is_twins(&group.tags);
    for group in observed.groups.values() {
        let surplus = |rule: &&Rule| {
            // What is about the managed group of another load balancer is wanted by that one alone, and nobody else is asked.
            let of_another = matches!(&rule.peer, Peer::Group(id) if observed.groups.get(id).is_some_and(made));
            let shared = is_shared(&rule.description) && !of_another && !cluster.shares(&group.tags);
            (is_of(&rule.description, &name) || shared) && others.leave(&group.id, rule)
        };
        let rules: BTreeSet<Rule> = group.ingress.iter().filter(surplus).cloned().collect();
        if !rules.is_empty() {
            let (group, direction) = (group.id.clone(), Direction::Ingress);
            actions.push(Action::Revoke { group, direction, rules });
        }
    }
    let worn = |id: &String| foreign.is_some_and(|seen| seen.load_balancer.security_groups.contains(id));
    let own = observed.groups.values().filter(|group| groups::is_own(group, owner, cluster));
    for group in own.filter(|group| !worn(&group.id)) {
        groups::retire_group(group, observed, cluster, &mut actions);
    }
    super::target_groups_last(actions)
}
