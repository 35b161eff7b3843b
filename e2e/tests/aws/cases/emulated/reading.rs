//! What the account holds, asked by the real clients.

use aws::{
    account::{Account, AwsError, GroupFilter, TargetGroupFilter},
    memory::{HeldBalancer, HeldClassic, HeldListener, HeldTargetGroup, State},
};
use std::collections::BTreeSet;

/// What is around, and all that is in it.
pub(super) async fn read(account: &Account, around: State) -> Result<State, AwsError> {
    let mut state = around;
    for vpc in state.vpcs.keys() {
        let filter = GroupFilter { vpc: Some(vpc.clone()), ..GroupFilter::default() };
        let found = account.ec2.describe_security_groups(&filter).await?;
        // Each VPC has a group named so, which nothing here is about.
        let found = found.into_iter().filter(|group| group.name != "default");
        state.groups.extend(found.map(|group| (group.id.clone(), group)));
    }
    network(account, &mut state).await?;
    targets(account, &mut state).await?;
    tags(account, &mut state).await?;
    classic(account, &mut state).await?;
    Ok(state)
}

async fn network(account: &Account, state: &mut State) -> Result<(), AwsError> {
    for load_balancer in account.network.describe_load_balancers(None).await? {
        let arn = load_balancer.arn.clone();
        for listener in account.network.describe_listeners(&arn).await? {
            let mut certificates = BTreeSet::new();
            if let Some(own) = &listener.settings.certificate {
                certificates = account.network.describe_listener_certificates(&listener.arn).await?;
                certificates.remove(own);
            }
            let held = HeldListener { load_balancer: arn.clone(), certificates, tags: [].into(), listener };
            state.listeners.insert(held.listener.arn.clone(), held);
        }
        let attributes = account.network.describe_load_balancer_attributes(&arn).await?;
        state.load_balancers.insert(arn, HeldBalancer { load_balancer, attributes, tags: [].into() });
    }
    Ok(())
}

async fn targets(account: &Account, state: &mut State) -> Result<(), AwsError> {
    for group in account.network.describe_target_groups(TargetGroupFilter::All).await? {
        let arn = group.arn.clone();
        let attributes = account.network.describe_target_group_attributes(&arn).await?;
        let health = account.network.describe_target_health(&arn).await?;
        let (draining, targets): (Vec<_>, Vec<_>) = health.into_iter().partition(|one| one.draining);
        let [draining, targets] = [draining, targets].map(|list| list.into_iter().map(|one| one.target).collect());
        state.target_groups.insert(arn, HeldTargetGroup { group, attributes, tags: [].into(), targets, draining });
    }
    Ok(())
}

async fn tags(account: &Account, state: &mut State) -> Result<(), AwsError> {
    let arns = state.load_balancers.keys().chain(state.listeners.keys()).chain(state.target_groups.keys());
    let arns: Vec<String> = arns.cloned().collect();
    if arns.is_empty() {
        return Ok(());
    }
    for (arn, tags) in account.network.describe_tags(&arns).await? {
        if let Some(held) = state.load_balancers.get_mut(&arn) {
            held.tags = tags;
        } else if let Some(held) = state.listeners.get_mut(&arn) {
            held.tags = tags;
        } else if let Some(held) = state.target_groups.get_mut(&arn) {
            held.tags = tags;
        }
    }
    Ok(())
}

async fn classic(account: &Account, state: &mut State) -> Result<(), AwsError> {
    for load_balancer in account.classic.describe_classic(None).await? {
        let name = load_balancer.name.clone();
        let attributes = account.classic.describe_classic_attributes(&name).await?;
        let mut tags = account.classic.describe_classic_tags(std::slice::from_ref(&name)).await?;
        let tags = tags.remove(&name).unwrap_or_default();
        state.classic.insert(name, HeldClassic { load_balancer, attributes, tags });
    }
    Ok(())
}
