//! Finds what is ours by its tags and belongs to a Service that is no more, and removes it.
//!
//! Leftovers come of a process that ended between two calls, or of a group that AWS kept in use. A mistake here would take away what serves, so that
//! much has to come together: the tag of this very cluster, not only of its id; the same finding sweep after sweep for as long as [`Caution`] says, told
//! before anything is done; and an API server that does not look as if it had lost its Services. One sweep removes a few things at most.

use super::{Aws, execute::Handles, execute::Run, observe};
use crate::{
    account::{AwsError, Direction, Peer, Rule, SecurityGroup, Tags, TargetGroupFilter},
    model::{
        names::{Owner, SERVICE_TAG},
        rules::{is_ours, is_shared, load_balancer_of},
    },
    plan::Action,
};
use parking_lot::Mutex;
use std::{
    collections::{BTreeMap, BTreeSet},
    time::{Duration, Instant},
};

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

/// What happens to leftovers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leftovers {
    /// They are told of, and removed when they are old enough.
    Remove,
    /// They are told of.
    Report,
}

/// How careful sweeps are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caution {
    pub leftovers: Leftovers,
    /// How long something is found before it is removed. Found once is never enough, however short this is.
    pub age: Duration,
    /// How many things one sweep removes.
    pub most: usize,
}

/// What a sweep came to. Things are named by their ids.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Swept {
    /// Found for the first time.
    pub suspected: Vec<String>,
    /// Found again, and left: not old enough, more than one sweep removes, or only told of.
    pub waiting: usize,
    /// Found again, and removed or about to be.
    pub removed: Vec<String>,
    /// Why nothing is removed, though there may be something.
    pub refused: Option<String>,
}

/// What was found, by words that say what it is, and when first.
pub(super) type Suspects = Mutex<BTreeMap<String, Instant>>;

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

/// Load balancers of the account, of both kinds.
#[derive(Default)]
struct Balancers {
    dead: Vec<Leftover>,
    /// Names of all others, whoever has them.
    standing: BTreeSet<String>,
    /// Security groups of network load balancers, whoever has them.
    worn: BTreeSet<String>,
    /// Whether one has this cluster's id and was not made by it.
    twins: bool,
}

impl Aws {
    /// Looks for leftovers, tells of those that are new, and removes those that have been found for long enough.
    pub async fn sweep(&self, alive: &Alive, caution: &Caution, now: Instant) -> Result<Swept, AwsError> {
        if self.settings.cluster.uid.is_none() {
            let refused = "the UID of namespace kube-system is not known: leftovers of this cluster cannot be told from another's";
            return Ok(Swept { refused: Some(refused.to_owned()), ..Swept::default() });
        }
        let balancers = self.dead_balancers(alive).await?;
        if alive.owners.is_empty() && balancers.dead.len() > caution.most {
            let refused = format!(
                "the API server has no Service of type LoadBalancer, and {} load balancers of this cluster are there: it may have lost them",
                balancers.dead.len()
            );
            return Ok(Swept { refused: Some(refused), ..Swept::default() });
        }
        let groups = self.dead_groups(alive, &balancers).await?;
        let mut found = balancers.dead;
        found.extend(self.dead_target_groups(alive).await?);
        found.extend(groups);
        let (ripe, swept) = self.judge(found, caution, now);
        let mut failure = None;
        for action in merged(ripe) {
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

    /// Which leftovers go now. What is not found any more is not suspected any more.
    fn judge(&self, found: Vec<Leftover>, caution: &Caution, now: Instant) -> (Vec<Leftover>, Swept) {
        let mut suspects = self.suspects.lock();
        let before = std::mem::take(&mut *suspects);
        let (mut ripe, mut swept) = (Vec::new(), Swept::default());
        for one in found {
            let since = before.get(&one.what).copied();
            suspects.insert(one.what.clone(), since.unwrap_or(now));
            match since {
                None => swept.suspected.push(one.what),
                Some(since)
                    if caution.leftovers == Leftovers::Remove
                        && now.duration_since(since) >= caution.age
                        && ripe.len() < caution.most =>
                {
                    swept.removed.push(one.what.clone());
                    ripe.push(one);
                }
                Some(_) => swept.waiting += 1,
            }
        }
        (ripe, swept)
    }

    fn is_dead(&self, tags: &Tags, alive: &Alive, fits: impl Fn(&Owner) -> bool) -> bool {
        let cluster = &self.settings.cluster;
        let ours = cluster.made(tags) && tags.contains_key(SERVICE_TAG) && !cluster.shares(tags);
        ours && !alive.of(tags).is_some_and(fits)
    }

    /// Whether something has this cluster's id, and was made by who knows whom.
    fn is_of_a_twin(&self, tags: &Tags, alive: &Alive) -> bool {
        let cluster = &self.settings.cluster;
        cluster.uses(tags) && tags.contains_key(SERVICE_TAG) && !cluster.made(tags) && alive.of(tags).is_none()
    }

    async fn dead_balancers(&self, alive: &Alive) -> Result<Balancers, AwsError> {
        let mut all = Balancers::default();
        let looks_ours = |name: &str| name.starts_with('a') && name.len() > 1;
        let mut network = self.account.network.describe_load_balancers(None).await?;
        all.standing.extend(network.iter().map(|one| one.name.clone()));
        all.worn.extend(network.iter().flat_map(|one| one.security_groups.iter().cloned()));
        network.retain(|one| looks_ours(&one.name) && !alive.has_balancer(&one.name));
        let arns: Vec<String> = network.iter().map(|one| one.arn.clone()).collect();
        if !arns.is_empty() {
            let tags = self.account.network.describe_tags(&arns).await?;
            for one in network {
                let Some(tags) = tags.get(&one.arn) else { continue };
                all.twins |= self.is_of_a_twin(tags, alive);
                if self.is_dead(tags, alive, |owner| owner.load_balancer() == one.name) {
                    all.standing.remove(&one.name);
                    all.dead.push(Leftover::new(&one.arn, Action::DeleteLoadBalancer { arn: one.arn.clone() }));
                }
            }
        }
        let mut classic = self.account.classic.describe_classic(None).await?;
        all.standing.extend(classic.iter().map(|one| one.name.clone()));
        classic.retain(|one| looks_ours(&one.name) && !alive.has_balancer(&one.name));
        let names: Vec<String> = classic.iter().map(|one| one.name.clone()).collect();
        if !names.is_empty() {
            let tags = self.account.classic.describe_classic_tags(&names).await?;
            for name in names {
                let Some(tags) = tags.get(&name) else { continue };
                all.twins |= self.is_of_a_twin(tags, alive);
                if self.is_dead(tags, alive, |owner| owner.load_balancer() == name) {
                    all.standing.remove(&name);
                    all.dead.push(Leftover::new(format!("classic {name}"), Action::DeleteClassic { name }));
                }
            }
        }
        Ok(all)
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
    async fn dead_groups(&self, alive: &Alive, balancers: &Balancers) -> Result<Vec<Leftover>, AwsError> {
        let cluster = &self.settings.cluster;
        let groups = observe::vpc_groups(&self.account, cluster).await?;
        let named = |owner: &Owner, group: &SecurityGroup| {
            group.name == owner.network_group(&cluster.name) || group.name == owner.classic_group()
        };
        let mut dead: BTreeSet<&String> = groups
            .values()
            .filter(|group| cluster.made_for(&group.name, &group.tags).is_some())
            .filter(|group| self.is_dead(&group.tags, alive, |owner| named(owner, group)))
            .map(|group| &group.id)
            .collect();
        let wanted = self.ledger.others(None);
        let backend = groups.values().filter(|group| group.name == cluster.backend_group());
        let is_dead = |one: &&SecurityGroup| {
            cluster.made(&one.tags) && wanted.spare(&one.id) && !balancers.worn.contains(&one.id)
        };
        dead.extend(backend.filter(is_dead).map(|one| &one.id));
        let twins = balancers.twins || groups.values().any(|group| self.is_of_a_twin(&group.tags, alive));
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
                let serves = |name: &str| alive.has_balancer(name) || balancers.standing.contains(name);
                // What no load balancer is named for may be wanted by a cluster that has this one's id.
                let is_free = match load_balancer_of(&rule.description) {
                    Some(name) => !serves(name),
                    None => is_shared(&rule.description) && !twins,
                };
                // What is not ours on a group that two clusters share, or that none claims, may be the other's.
                used && !cluster.shares(&group.tags)
                    && is_ours(&rule.description)
                    && is_free
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
