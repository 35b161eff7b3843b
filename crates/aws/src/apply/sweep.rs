//! Finds what is ours by its tags and belongs to a Service that is no more, and removes it.
//!
//! Leftovers come of a process that ended between two calls, of a group that AWS kept in use, or of what upstream forgot.

use super::{Aws, execute::Handles, execute::Run, observe};
use crate::{
    account::{AwsError, Direction, Peer, Rule, SecurityGroup, Tags, TargetGroupFilter},
    model::{
        names::{Owner, SERVICE_TAG},
        rules::{is_of, is_ours, is_shared},
    },
    plan::Action,
};
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

impl Aws {
    /// Removes leftovers; says how many things it found.
    pub async fn sweep(&self, alive: &Alive) -> Result<usize, AwsError> {
        let mut actions = self.dead_balancers(alive).await?;
        actions.extend(self.dead_target_groups(alive).await?);
        actions.extend(self.dead_groups(alive).await?);
        let found = actions.len();
        for action in actions {
            let mut run = Run {
                account: &*self.account,
                name: "leftover",
                removals: &self.removals,
                handles: Handles::default(),
            };
            match run.all(&[action]).await {
                Err(error) if error.is_in_use() || error.is_not_found() => {}
                outcome => outcome?,
            }
        }
        Ok(found)
    }

    fn is_dead(&self, tags: &Tags, alive: &Alive, fits: impl Fn(&Owner) -> bool) -> bool {
        let ours = self.settings.cluster.owns(tags) && tags.contains_key(SERVICE_TAG);
        ours && !alive.of(tags).is_some_and(fits)
    }

    async fn dead_balancers(&self, alive: &Alive) -> Result<Vec<Action>, AwsError> {
        let mut actions = Vec::new();
        let looks_ours = |name: &str| name.starts_with('a') && name.len() > 1;
        let mut network = self.account.describe_load_balancers(None).await?;
        network.retain(|one| looks_ours(&one.name) && !alive.has_balancer(&one.name));
        let arns: Vec<String> = network.iter().map(|one| one.arn.clone()).collect();
        if !arns.is_empty() {
            let tags = self.account.describe_tags(&arns).await?;
            for one in network {
                let dead = tags
                    .get(&one.arn)
                    .is_some_and(|tags| self.is_dead(tags, alive, |owner| owner.load_balancer() == one.name));
                if dead {
                    actions.push(Action::DeleteLoadBalancer { arn: one.arn });
                }
            }
        }
        let mut classic = self.account.describe_classic(None).await?;
        classic.retain(|one| looks_ours(&one.name) && !alive.has_balancer(&one.name));
        let names: Vec<String> = classic.iter().map(|one| one.name.clone()).collect();
        if !names.is_empty() {
            let tags = self.account.describe_classic_tags(&names).await?;
            let dead = |name: &String| {
                tags.get(name).is_some_and(|tags| self.is_dead(tags, alive, |owner| owner.load_balancer() == *name))
            };
            actions.extend(names.into_iter().filter(dead).map(|name| Action::DeleteClassic { name }));
        }
        Ok(actions)
    }

    async fn dead_target_groups(&self, alive: &Alive) -> Result<Vec<Action>, AwsError> {
        let mut groups = self.account.describe_target_groups(TargetGroupFilter::All).await?;
        let of_the_living =
            |name: &str| alive.owners.values().any(|owner| name.starts_with(&owner.target_group_prefix()));
        groups.retain(|group| group.name.starts_with("k8s-"));
        let suspects: Vec<String> =
            groups.iter().filter(|group| !of_the_living(&group.name)).map(|group| group.arn.clone()).collect();
        if suspects.is_empty() {
            return Ok(Vec::new());
        }
        let tags = self.account.describe_tags(&suspects).await?;
        let dead = |arn: &String| tags.get(arn).is_some_and(|tags| self.is_dead(tags, alive, |_| true));
        let dead = groups.into_iter().filter(|group| suspects.contains(&group.arn) && dead(&group.arn));
        Ok(dead.map(|group| Action::DeleteTargetGroup { arn: group.arn, group: group.name }).collect())
    }

    /// Dead groups, and rules on nodes' groups that nobody wants.
    async fn dead_groups(&self, alive: &Alive) -> Result<Vec<Action>, AwsError> {
        let cluster = &self.settings.cluster;
        let groups = observe::cluster_groups(&*self.account, cluster).await?;
        let named = |owner: &Owner, group: &SecurityGroup| {
            group.name == owner.network_group(&cluster.name) || group.name == owner.classic_group()
        };
        let dead: BTreeSet<&String> = groups
            .values()
            .filter(|group| self.is_dead(&group.tags, alive, |owner| named(owner, group)))
            .map(|group| &group.id)
            .collect();
        let wanted = self.ledger.others(None);
        let mut actions = Vec::new();
        for group in groups.values().filter(|group| !dead.contains(&group.id)) {
            let surplus = |rule: &&Rule| {
                if let Peer::Group(id) = &rule.peer {
                    if dead.contains(id) {
                        return true;
                    }
                    if groups.get(id).is_some_and(|peer| alive.of(&peer.tags).is_some()) {
                        return false;
                    }
                }
                let of_the_living = alive.owners.values().any(|owner| is_of(&rule.description, &owner.load_balancer()));
                is_ours(&rule.description)
                    && (is_shared(&rule.description) || !of_the_living)
                    && wanted.complete
                    && !wanted.wants.get(&group.id).is_some_and(|rules| rules.contains(rule))
            };
            let rules: BTreeSet<Rule> = group.ingress.iter().filter(surplus).cloned().collect();
            if !rules.is_empty() {
                let (group, direction) = (group.id.clone(), Direction::Ingress);
                actions.push(Action::Revoke { group, direction, rules });
            }
        }
        actions.extend(dead.into_iter().map(|group| Action::RemoveGroup { group: group.clone() }));
        Ok(actions)
    }
}
