//! What AWS has for a Service: as few reads as will do.

use crate::{
    account::{
        Account, AwsError, ClassicLoadBalancer, GroupFilter, LoadBalancer, Peer, Rule, SecurityGroup, Target,
        TargetGroup, TargetGroupFilter,
    },
    model::{
        Balancer, Desired, Groups,
        names::{Cluster, Owner},
        rules::is_of,
    },
    plan::{Observed, SeenClassic, SeenNetwork, SeenTargetGroup},
};
use std::collections::{BTreeMap, BTreeSet};

/// How closely to look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Depth {
    /// What can be seen without attributes, tags and targets: nothing is thought to have changed.
    Glance,
    /// And the targets: nodes have changed.
    Targets,
    /// Everything, leftovers too.
    Everything,
}

/// Looks for the groups of a load balancer and of nodes, by id.
pub(super) async fn groups_by_id(
    account: &Account,
    ids: BTreeSet<String>,
) -> Result<BTreeMap<String, SecurityGroup>, AwsError> {
    if ids.is_empty() {
        return Ok(BTreeMap::new());
    }
    let filter = GroupFilter { ids, ..GroupFilter::default() };
    let found = account.ec2.describe_security_groups(&filter).await?;
    Ok(found.into_iter().map(|group| (group.id.clone(), group)).collect())
}

/// Groups of a Service by name, those of the cluster, and those that hold rules for it or about its own: nodes may have a group without tags.
pub(super) async fn groups_by_owner(
    account: &Account,
    cluster: &Cluster,
    owner: &Owner,
) -> Result<BTreeMap<String, SecurityGroup>, AwsError> {
    let names = [owner.network_group(&cluster.name), owner.classic_group()];
    let name = owner.load_balancer();
    let mut groups = vpc_groups(account, cluster).await?;
    let own: BTreeSet<String> =
        groups.values().filter(|group| names.contains(&group.name)).map(|group| group.id.clone()).collect();
    let concerns =
        |rule: &Rule| is_of(&rule.description, &name) || matches!(&rule.peer, Peer::Group(id) if own.contains(id));
    groups.retain(|id, group| own.contains(id) || cluster.uses(&group.tags) || group.ingress.iter().any(concerns));
    Ok(groups)
}

/// All groups of the VPC.
pub(super) async fn vpc_groups(
    account: &Account,
    cluster: &Cluster,
) -> Result<BTreeMap<String, SecurityGroup>, AwsError> {
    let filter = GroupFilter { vpc: Some(cluster.vpc.clone()), ..GroupFilter::default() };
    let found = account.ec2.describe_security_groups(&filter).await?;
    Ok(found.into_iter().map(|group| (group.id.clone(), group)).collect())
}

/// What there is for a Service whose load balancer is this one, if there is one.
pub(super) async fn network(
    account: &Account,
    cluster: &Cluster,
    desired: &Desired,
    load_balancer: Option<LoadBalancer>,
    depth: Depth,
) -> Result<Observed, AwsError> {
    let mut observed = Observed::default();
    let mut attached: BTreeSet<String> = BTreeSet::new();
    let mut ids: BTreeSet<String> = desired.node_rules.keys().cloned().collect();
    if let Some(load_balancer) = load_balancer {
        ids.extend(load_balancer.security_groups.iter().cloned());
        let mut seen = SeenNetwork::bare(load_balancer);
        seen.listeners = account.network.describe_listeners(&seen.load_balancer.arn).await?;
        attached.extend(seen.listeners.iter().map(|listener| listener.settings.target_group.clone()));
        if depth == Depth::Everything {
            look_closely(account, &mut seen).await?;
        }
        observed.network = Some(seen);
    }
    if let Groups::Given(given) = &desired.groups {
        ids.extend(given.iter().cloned());
    }
    observed.target_groups = match (&observed.network, depth) {
        (Some(seen), Depth::Glance | Depth::Targets) => {
            let groups = account.network.describe_target_groups(TargetGroupFilter::Of(&seen.load_balancer.arn)).await?;
            groups.into_iter().map(bare).collect()
        }
        _ => target_groups(account, cluster, &desired.owner, &attached, &target_group_names(desired)).await?,
    };
    for seen in &mut observed.target_groups {
        if depth == Depth::Everything {
            seen.attributes = Some(account.network.describe_target_group_attributes(&seen.group.arn).await?);
        }
        if depth != Depth::Glance {
            seen.targets = Some(targets(account, &seen.group.arn).await?);
        }
    }
    observed.groups = groups_by_id(account, ids).await?;
    if depth == Depth::Everything {
        observed.groups.extend(groups_by_owner(account, cluster, &desired.owner).await?);
    }
    Ok(observed)
}

/// Attributes, tags, and certificates of TLS listeners.
async fn look_closely(account: &Account, seen: &mut SeenNetwork) -> Result<(), AwsError> {
    let arn = seen.load_balancer.arn.clone();
    seen.attributes = Some(account.network.describe_load_balancer_attributes(&arn).await?);
    let listeners = seen.listeners.iter().map(|listener| listener.arn.clone());
    let arns: Vec<String> = [arn.clone()].into_iter().chain(listeners).collect();
    let mut tags = account.network.describe_tags(&arns).await?;
    seen.tags = Some(tags.remove(&arn).unwrap_or_default());
    seen.listener_tags = tags;
    for listener in seen.listeners.iter().filter(|listener| listener.settings.protocol == "TLS") {
        let certificates = account.network.describe_listener_certificates(&listener.arn).await?;
        seen.certificates.insert(listener.arn.clone(), certificates);
    }
    Ok(())
}

/// Names that the Service's target groups are to have.
fn target_group_names(desired: &Desired) -> BTreeSet<String> {
    match &desired.balancer {
        Balancer::Network(network) => network.listeners.iter().map(|listener| listener.target.name.clone()).collect(),
        Balancer::Classic(_) => BTreeSet::new(),
    }
}

fn bare(group: TargetGroup) -> SeenTargetGroup {
    SeenTargetGroup { group, attributes: None, tags: None, targets: None }
}

/// Targets that are not on their way out.
pub(super) async fn targets(account: &Account, arn: &str) -> Result<BTreeSet<Target>, AwsError> {
    let health = account.network.describe_target_health(arn).await?;
    Ok(health.into_iter().filter(|one| !one.draining).map(|one| one.target).collect())
}

/// Target groups that listeners lead to, that have one of these names, or whose tags say they are this Service's.
async fn target_groups(
    account: &Account,
    cluster: &Cluster,
    owner: &Owner,
    attached: &BTreeSet<String>,
    names: &BTreeSet<String>,
) -> Result<Vec<SeenTargetGroup>, AwsError> {
    let prefix = owner.target_group_prefix();
    let mut all = account.network.describe_target_groups(TargetGroupFilter::All).await?;
    all.retain(|group| attached.contains(&group.arn) || group.name.starts_with(&prefix));
    if all.is_empty() {
        return Ok(Vec::new());
    }
    let arns: Vec<String> = all.iter().map(|group| group.arn.clone()).collect();
    let mut tags = account.network.describe_tags(&arns).await?;
    let seen = all.into_iter().map(|group| {
        let tags = Some(tags.remove(&group.arn).unwrap_or_default());
        SeenTargetGroup { tags, ..bare(group) }
    });
    let ours = |seen: &SeenTargetGroup| {
        attached.contains(&seen.group.arn)
            || names.contains(&seen.group.name)
            || seen.tags.as_ref().is_some_and(|tags| cluster.owns_for(tags, owner))
    };
    Ok(seen.filter(ours).collect())
}

/// What there is for a Service with a classic load balancer.
pub(super) async fn classic(
    account: &Account,
    cluster: &Cluster,
    desired: &Desired,
    load_balancer: Option<ClassicLoadBalancer>,
    depth: Depth,
) -> Result<Observed, AwsError> {
    let mut observed = Observed::default();
    let mut ids: BTreeSet<String> = desired.node_rules.keys().cloned().collect();
    if let Some(load_balancer) = load_balancer {
        ids.extend(load_balancer.security_groups.iter().cloned());
        observed.classic = Some(seen_classic(account, load_balancer, depth).await?);
    }
    if let Groups::Given(given) = &desired.groups {
        ids.extend(given.iter().cloned());
    }
    observed.groups = groups_by_id(account, ids).await?;
    if depth == Depth::Everything {
        observed.groups.extend(groups_by_owner(account, cluster, &desired.owner).await?);
    }
    Ok(observed)
}

async fn seen_classic(
    account: &Account,
    load_balancer: ClassicLoadBalancer,
    depth: Depth,
) -> Result<SeenClassic, AwsError> {
    let (mut attributes, mut tags) = (None, None);
    if depth == Depth::Everything {
        attributes = Some(account.classic.describe_classic_attributes(&load_balancer.name).await?);
        let names = [load_balancer.name.clone()];
        tags = Some(account.classic.describe_classic_tags(&names).await?.remove(&names[0]).unwrap_or_default());
    }
    Ok(SeenClassic { load_balancer, attributes, tags })
}

/// What serves for a Service, of either kind: no more than is needed to follow nodes.
pub(super) async fn serving(account: &Account, owner: &Owner) -> Result<Observed, AwsError> {
    let name = owner.load_balancer();
    let mut observed = Observed::default();
    let found = account.network.describe_load_balancers(Some(&name)).await?.into_iter().next();
    let Some(load_balancer) = found else {
        if let Some(found) = account.classic.describe_classic(Some(&name)).await?.into_iter().next() {
            let names = [found.name.clone()];
            let tags = Some(account.classic.describe_classic_tags(&names).await?.remove(&names[0]).unwrap_or_default());
            observed.classic = Some(SeenClassic { tags, ..SeenClassic::bare(found) });
        }
        return Ok(observed);
    };
    let listeners = account.network.describe_listeners(&load_balancer.arn).await?;
    let attached: BTreeSet<String> = listeners.iter().map(|listener| listener.settings.target_group.clone()).collect();
    let mut groups = account.network.describe_target_groups(TargetGroupFilter::Of(&load_balancer.arn)).await?;
    groups.retain(|group| attached.contains(&group.arn));
    let arns: Vec<String> = groups.iter().map(|group| group.arn.clone()).chain([load_balancer.arn.clone()]).collect();
    let mut tags = account.network.describe_tags(&arns).await?;
    for group in groups {
        let targets = Some(targets(account, &group.arn).await?);
        let tags = Some(tags.remove(&group.arn).unwrap_or_default());
        observed.target_groups.push(SeenTargetGroup { targets, tags, ..bare(group) });
    }
    let tags = Some(tags.remove(&load_balancer.arn).unwrap_or_default());
    observed.network = Some(SeenNetwork { listeners, tags, ..SeenNetwork::bare(load_balancer) });
    Ok(observed)
}

/// Everything of a Service, of either kind, whichever part of it is left.
pub(super) async fn leftovers(account: &Account, cluster: &Cluster, owner: &Owner) -> Result<Observed, AwsError> {
    let name = owner.load_balancer();
    let mut observed = Observed::default();
    let mut attached = BTreeSet::new();
    if let Some(load_balancer) = account.network.describe_load_balancers(Some(&name)).await?.into_iter().next() {
        let listeners = account.network.describe_listeners(&load_balancer.arn).await?;
        attached.extend(listeners.iter().map(|listener| listener.settings.target_group.clone()));
        let arns = [load_balancer.arn.clone()];
        let tags = Some(account.network.describe_tags(&arns).await?.remove(&arns[0]).unwrap_or_default());
        observed.network = Some(SeenNetwork { listeners, tags, ..SeenNetwork::bare(load_balancer) });
    }
    if let Some(load_balancer) = account.classic.describe_classic(Some(&name)).await?.into_iter().next() {
        let names = [load_balancer.name.clone()];
        let tags = Some(account.classic.describe_classic_tags(&names).await?.remove(&names[0]).unwrap_or_default());
        observed.classic = Some(SeenClassic { load_balancer, attributes: None, tags });
    }
    observed.target_groups = target_groups(account, cluster, owner, &attached, &BTreeSet::new()).await?;
    observed.groups = groups_by_owner(account, cluster, owner).await?;
    Ok(observed)
}
