//! Finds what is ours by its tags and belongs to a Service that is no more, and removes it.
//!
//! Leftovers come of a process that ended between two calls, of a group that AWS kept in use, or of what upstream forgot. What is found is only
//! suspected at first, and removed when the next sweep finds it again: a Service may have come between the moment when Services were
//! listed and the moment when AWS was looked at.

use super::{Aws, execute::Handles, execute::Run, observe};
use crate::{
    account::{AwsError, Direction, Peer, Rule, SecurityGroup, Tags, TargetGroupFilter},
    model::{
        names::{Owner, SERVICE_TAG},
        rules::{is_of, is_ours, is_shared},
    },
    plan::Action,
};
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};

/// Services that have, or may still have, a load balancer.
#[derive(Clone, Debug, Default)]
pub struct Alive {
    owners: BTreeMap<String, Owner>,
}

impl Alive {
    /// From their owners.
    pub fn new(owners: impl IntoIterator<Item = Owner>) -> Self {
        Self { owners: owners.into_iter().map(|owner| (owner.key(), owner)).collect() }
    }

    /// The Service that tags speak of, if it is alive.
    fn of(&self, tags: &Tags) -> Option<&Owner> {
        self.owners.get(tags.get(SERVICE_TAG)?)
    }

    fn has_balancer(&self, name: &str) -> bool {
        self.owners.values().any(|owner| owner.load_balancer() == name)
    }
}

/// What a sweep came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Swept {
    /// Found for the first time: looked at again by the next sweep.
    pub suspected: usize,
    /// Found again, and removed or about to be.
    pub removed: usize,
}

/// What the last sweep found, by words that say what it is.
pub(super) type Suspects = Mutex<BTreeSet<String>>;

/// Something that should not be there.
struct Leftover {
    what: String,
    action: Action,
}

impl Leftover {
    fn new(what: impl Into<String>, action: Action) -> Self {
        Self { what: what.into(), action }
    }
}

impl Aws {
    /// Looks for leftovers, and removes those that the sweep before found too.
    pub async fn sweep(&self, alive: &Alive) -> Result<Swept, AwsError> {
        let mut found = self.dead_balancers(alive).await?;
        found.extend(self.dead_target_groups(alive).await?);
        found.extend(self.dead_groups(alive).await?);
        let suspects = std::mem::take(&mut *self.suspects.lock());
        let (again, new): (Vec<_>, Vec<_>) = found.into_iter().partition(|one| suspects.contains(&one.what));
        // Until it is gone it stays suspected.
        *self.suspects.lock() = again.iter().chain(&new).map(|one| one.what.clone()).collect();
        let swept = Swept { suspected: new.len(), removed: again.len() };
        let mut failure = None;
        for action in merged(again) {
            let mut run = Run {
                account: &self.account,
                name: "leftover",
                uid: None,
                removals: &self.removals,
                ledger: &self.ledger,
                handles: Handles::default(),
            };
            match run.all(&[action]).await {
                Err(error) if error.is_in_use() || error.is_not_found() => {}
                // One that cannot go does not keep the others.
                outcome => failure = failure.or_else(|| outcome.err()),
            }
        }
        failure.map_or(Ok(swept), Err)
    }

    fn is_dead(&self, tags: &Tags, alive: &Alive, fits: impl Fn(&Owner) -> bool) -> bool {
        let cluster = &self.settings.cluster;
        let ours = cluster.owns(tags) && tags.contains_key(SERVICE_TAG) && !cluster.shares(tags);
        ours && !alive.of(tags).is_some_and(fits)
    }

    async fn dead_balancers(&self, alive: &Alive) -> Result<Vec<Leftover>, AwsError> {
        let mut dead = Vec::new();
        let looks_ours = |name: &str| name.starts_with('a') && name.len() > 1;
        let mut network = self.account.network.describe_load_balancers(None).await?;
        network.retain(|one| looks_ours(&one.name) && !alive.has_balancer(&one.name));
        let arns: Vec<String> = network.iter().map(|one| one.arn.clone()).collect();
        if !arns.is_empty() {
            let tags = self.account.network.describe_tags(&arns).await?;
            for one in network {
                let is_dead = tags
                    .get(&one.arn)
                    .is_some_and(|tags| self.is_dead(tags, alive, |owner| owner.load_balancer() == one.name));
                if is_dead {
                    dead.push(Leftover::new(&one.arn, Action::DeleteLoadBalancer { arn: one.arn.clone() }));
                }
            }
        }
        let mut classic = self.account.classic.describe_classic(None).await?;
        classic.retain(|one| looks_ours(&one.name) && !alive.has_balancer(&one.name));
        let names: Vec<String> = classic.iter().map(|one| one.name.clone()).collect();
        if !names.is_empty() {
            let tags = self.account.classic.describe_classic_tags(&names).await?;
            let is_dead = |name: &String| {
                tags.get(name).is_some_and(|tags| self.is_dead(tags, alive, |owner| owner.load_balancer() == *name))
            };
            let leftover = |name: String| Leftover::new(format!("classic {name}"), Action::DeleteClassic { name });
            dead.extend(names.into_iter().filter(is_dead).map(leftover));
        }
        Ok(dead)
    }

    async fn dead_target_groups(&self, alive: &Alive) -> Result<Vec<Leftover>, AwsError> {
        let mut groups = self.account.network.describe_target_groups(TargetGroupFilter::All).await?;
        groups.retain(|group| group.name.starts_with("k8s-"));
        if groups.is_empty() {
            return Ok(Vec::new());
        }
        // Names are shortened, and so those of the dead and of the living look alike: tags tell.
        let arns: Vec<String> = groups.iter().map(|group| group.arn.clone()).collect();
        let tags = self.account.network.describe_tags(&arns).await?;
        groups.retain(|group| {
            tags.get(&group.arn).is_some_and(|tags| {
                self.settings.cluster.made_for(&group.name, tags).is_some() && self.is_dead(tags, alive, |_| true)
            })
        });
        let leftover = |group: crate::account::TargetGroup| {
            Leftover::new(&group.arn, Action::DeleteTargetGroup { arn: group.arn.clone(), group: group.name })
        };
        Ok(groups.into_iter().map(leftover).collect())
    }

    /// Dead groups, and rules on nodes' groups that nobody wants.
    async fn dead_groups(&self, alive: &Alive) -> Result<Vec<Leftover>, AwsError> {
        let cluster = &self.settings.cluster;
        let groups = observe::vpc_groups(&self.account, cluster).await?;
        let named = |owner: &Owner, group: &SecurityGroup| {
            group.name == owner.network_group(&cluster.name) || group.name == owner.classic_group()
        };
        let dead: BTreeSet<&String> = groups
            .values()
            .filter(|group| cluster.made_for(&group.name, &group.tags).is_some())
            .filter(|group| self.is_dead(&group.tags, alive, |owner| named(owner, group)))
            .map(|group| &group.id)
            .collect();
        let wanted = self.ledger.others(None);
        let mut leftovers = Vec::new();
        for group in groups.values().filter(|group| !dead.contains(&group.id)) {
            let used = cluster.uses(&group.tags);
            let surplus = |rule: &&Rule| {
                if let Peer::Group(id) = &rule.peer {
                    if dead.contains(id) {
                        return used || is_ours(&rule.description);
                    }
                    if groups.get(id).is_some_and(|peer| alive.of(&peer.tags).is_some()) {
                        return false;
                    }
                }
                let of_the_living = alive.owners.values().any(|owner| is_of(&rule.description, &owner.load_balancer()));
                // What is not ours on a group that two clusters share, or that none claims, may be the other's.
                used && !cluster.shares(&group.tags)
                    && is_ours(&rule.description)
                    && (is_shared(&rule.description) || !of_the_living)
                    && wanted.leave(&group.id, rule)
            };
            leftovers.extend(group.ingress.iter().filter(surplus).map(|rule| {
                let (id, direction) = (group.id.clone(), Direction::Ingress);
                let action = Action::Revoke { group: id, direction, rules: [rule.clone()].into() };
                Leftover::new(format!("{} {rule}", group.id), action)
            }));
        }
        leftovers.extend(dead.into_iter().map(|id| Leftover::new(id, Action::RemoveGroup { group: id.clone() })));
        Ok(leftovers)
    }
}

/// The actions in their order, rules of one group together.
fn merged(leftovers: Vec<Leftover>) -> Vec<Action> {
    let mut actions: Vec<Action> = Vec::new();
    for Leftover { action, .. } in leftovers {
        match (actions.last_mut(), action) {
            (
                Some(Action::Revoke { group: last, rules: all, .. }),
                Action::Revoke { group, direction: Direction::Ingress, rules },
            ) if *last == group => all.extend(rules),
            (_, action) => actions.push(action),
        }
    }
    actions
}
