//! One state is made of another, as somebody with a console would do it.

use aws::{
    account::{
        Account, Attributes, AwsError, ClassicHealthCheck, Direction, ListenerSettings, NewListener, NewTargetGroup,
        SubnetMapping, Tags,
    },
    memory::{HeldBalancer, HeldClassic, HeldListener, HeldTargetGroup, State},
};
use e2e::aws_strict::{Api, Strict};
use std::collections::{BTreeMap, BTreeSet};

/// Names that a state gives to what is new in it, and their real ARNs.
type Made = BTreeMap<String, String>;

pub(super) async fn make(account: &Account, before: &State, after: &State) -> Result<(), AwsError> {
    let mut made = Made::new();
    for (arn, held) in after.target_groups.iter().filter(|(arn, _)| !before.target_groups.contains_key(*arn)) {
        made.insert(arn.clone(), new_target_group(account, held).await?);
    }
    listeners(account, before, after, &made).await?;
    for (arn, old) in &before.load_balancers {
        match after.load_balancers.get(arn) {
            Some(new) => balancer(account, old, new).await?,
            None => account.network.delete_load_balancer(arn).await?,
        }
    }
    for (arn, old) in &before.target_groups {
        match after.target_groups.get(arn) {
            Some(new) => target_group(account, old, new).await?,
            None => delete_target_group(account, arn).await?,
        }
    }
    for (name, old) in &before.classic {
        match after.classic.get(name) {
            Some(new) => classic(account, old, new).await?,
            None => account.classic.delete_classic(name).await?,
        }
    }
    groups(account, before, after).await
}

/// What is set anew, and the keys that go.
fn differing(old: &Tags, new: &Tags) -> (Tags, BTreeSet<String>) {
    let set = new.iter().filter(|(key, value)| old.get(*key) != Some(value));
    let gone = old.keys().filter(|key| !new.contains_key(*key));
    (set.map(|(key, value)| (key.clone(), value.clone())).collect(), gone.cloned().collect())
}

async fn retag(account: &Account, arn: &str, old: &Tags, new: &Tags) -> Result<(), AwsError> {
    let (set, _) = differing(old, new);
    let arns = [arn.to_owned()];
    if !set.is_empty() {
        account.network.add_tags(&arns, &set).await?;
    }
    Ok(())
}

/// Takes tags away, which the manager never does, so that its clients cannot. Says whether the cluster's was among them.
pub(super) fn untag(strict: &Strict, before: &State, after: &State) -> bool {
    let mut gone: Vec<(Api, String, String)> = Vec::new();
    let mut note = |api: Api, id: &str, old: &Tags, new: Option<&Tags>| {
        let keys = new.map(|new| differing(old, new).1).unwrap_or_default();
        gone.extend(keys.into_iter().map(|key| (api, id.to_owned(), key)));
    };
    for (arn, old) in &before.load_balancers {
        note(Api::Elbv2, arn, &old.tags, after.load_balancers.get(arn).map(|new| &new.tags));
    }
    for (arn, old) in &before.target_groups {
        note(Api::Elbv2, arn, &old.tags, after.target_groups.get(arn).map(|new| &new.tags));
    }
    for (arn, old) in &before.listeners {
        note(Api::Elbv2, arn, &old.tags, after.listeners.get(arn).map(|new| &new.tags));
    }
    for (name, old) in &before.classic {
        note(Api::Elb, name, &old.tags, after.classic.get(name).map(|new| &new.tags));
    }
    for (id, old) in &before.groups {
        note(Api::Ec2, id, &old.tags, after.groups.get(id).map(|new| &new.tags));
    }
    for (api, id, key) in &gone {
        let (action, params) = match api {
            Api::Elbv2 => ("RemoveTags", [("ResourceArns.member.1", id.as_str()), ("TagKeys.member.1", key.as_str())]),
            Api::Elb => {
                ("RemoveTags", [("LoadBalancerNames.member.1", id.as_str()), ("Tags.member.1.Key", key.as_str())])
            }
            _ => ("DeleteTags", [("ResourceId.1", id.as_str()), ("Tag.1.Key", key.as_str())]),
        };
        strict.look(*api, action, &params).expect("tags can go");
    }
    gone.iter().any(|(_, _, key)| key.starts_with("kubernetes.io/cluster/"))
}

fn changed(old: &Attributes, new: &Attributes) -> Option<Attributes> {
    Some(differing(old, new).0).filter(|set| !set.is_empty())
}

async fn listeners(account: &Account, before: &State, after: &State, made: &Made) -> Result<(), AwsError> {
    let real = |settings: &ListenerSettings| {
        let target_group = made.get(&settings.target_group).unwrap_or(&settings.target_group).clone();
        ListenerSettings { target_group, ..settings.clone() }
    };
    for (arn, old) in before.listeners.iter().filter(|(_, old)| after.load_balancers.contains_key(&old.load_balancer)) {
        let Some(new) = after.listeners.get(arn) else {
            account.network.delete_listener(arn).await?;
            continue;
        };
        if old.listener.settings != new.listener.settings {
            account.network.modify_listener(arn, &real(&new.listener.settings)).await?;
        }
        certificates(account, old, new).await?;
        retag(account, arn, &old.tags, &new.tags).await?;
    }
    for (_, held) in after.listeners.iter().filter(|(arn, _)| !before.listeners.contains_key(*arn)) {
        let settings = real(&held.listener.settings);
        let new = NewListener { load_balancer: held.load_balancer.clone(), settings, tags: held.tags.clone() };
        account.network.create_listener(&new).await?;
    }
    Ok(())
}

async fn certificates(account: &Account, old: &HeldListener, new: &HeldListener) -> Result<(), AwsError> {
    let (old, new, arn) = (&old.certificates, &new.certificates, &new.listener.arn);
    let (more, less): (BTreeSet<_>, BTreeSet<_>) =
        (new.difference(old).cloned().collect(), old.difference(new).cloned().collect());
    if !more.is_empty() {
        account.network.add_listener_certificates(arn, &more).await?;
    }
    if !less.is_empty() {
        account.network.remove_listener_certificates(arn, &less).await?;
    }
    Ok(())
}

async fn balancer(account: &Account, old: &HeldBalancer, new: &HeldBalancer) -> Result<(), AwsError> {
    let (was, is) = (&old.load_balancer, &new.load_balancer);
    if was.security_groups != is.security_groups {
        account.network.set_security_groups(&is.arn, &is.security_groups).await?;
    }
    if was.ip_address_type != is.ip_address_type {
        account.network.set_ip_address_type(&is.arn, is.ip_address_type).await?;
    }
    if was.subnets != is.subnets {
        let mapping = |subnet: &String| SubnetMapping { subnet: subnet.clone(), ..SubnetMapping::default() };
        let mappings: Vec<SubnetMapping> = is.subnets.iter().map(mapping).collect();
        account.network.set_subnets(&is.arn, &mappings, false).await?;
    }
    if let Some(set) = changed(&old.attributes, &new.attributes) {
        account.network.modify_load_balancer_attributes(&is.arn, &set).await?;
    }
    retag(account, &is.arn, &old.tags, &new.tags).await
}

async fn new_target_group(account: &Account, held: &HeldTargetGroup) -> Result<String, AwsError> {
    let group = held.group.clone();
    let new = NewTargetGroup {
        name: group.name,
        protocol: group.protocol,
        port: group.port,
        vpc: group.vpc,
        family: group.family,
        health_check: group.health_check,
        tags: held.tags.clone(),
    };
    let arn = account.network.create_target_group(&new).await?.arn;
    if !held.targets.is_empty() {
        account.network.register_targets(&arn, &held.targets).await?;
    }
    Ok(arn)
}

async fn target_group(account: &Account, old: &HeldTargetGroup, new: &HeldTargetGroup) -> Result<(), AwsError> {
    let arn = &new.group.arn;
    if old.group.health_check != new.group.health_check {
        account.network.modify_target_group(arn, &new.group.health_check).await?;
    }
    if let Some(set) = changed(&old.attributes, &new.attributes) {
        account.network.modify_target_group_attributes(arn, &set).await?;
    }
    let more: BTreeSet<_> = new.targets.difference(&old.targets).cloned().collect();
    if !more.is_empty() {
        account.network.register_targets(arn, &more).await?;
    }
    let less: BTreeSet<_> = old.targets.difference(&new.targets).cloned().collect();
    if !less.is_empty() {
        account.network.deregister_targets(arn, &less).await?;
    }
    retag(account, arn, &old.tags, &new.tags).await
}

/// It stays in use for a while after its load balancer is gone.
async fn delete_target_group(account: &Account, arn: &str) -> Result<(), AwsError> {
    for _ in 0..5 {
        if account.network.delete_target_group(arn).await.is_ok() {
            return Ok(());
        }
    }
    account.network.delete_target_group(arn).await
}

async fn classic(account: &Account, old: &HeldClassic, new: &HeldClassic) -> Result<(), AwsError> {
    let (was, is, name) = (&old.load_balancer, &new.load_balancer, &new.load_balancer.name);
    let gone: BTreeSet<u16> = was.listeners.keys().filter(|port| !is.listeners.contains_key(port)).copied().collect();
    if !gone.is_empty() {
        account.classic.delete_classic_listeners(name, &gone).await?;
    }
    if was.health_check != is.health_check {
        // AWS always has one.
        let usual =
            ClassicHealthCheck { target: "TCP:1".to_owned(), interval: 30, timeout: 5, healthy: 10, unhealthy: 2 };
        account.classic.configure_classic_health_check(name, is.health_check.as_ref().unwrap_or(&usual)).await?;
    }
    for (port, policies) in &was.backend_policies {
        let now = is.backend_policies.get(port).cloned().unwrap_or_default();
        if now != *policies {
            account.classic.set_classic_backend_policies(name, *port, &now).await?;
        }
    }
    if old.attributes != new.attributes {
        account.classic.modify_classic_attributes(name, &new.attributes).await?;
    }
    let less: BTreeSet<String> = was.instances.difference(&is.instances).cloned().collect();
    if !less.is_empty() {
        account.classic.deregister_classic_instances(name, &less).await?;
    }
    Ok(())
}

async fn groups(account: &Account, before: &State, after: &State) -> Result<(), AwsError> {
    for (id, new) in &after.groups {
        let Some(old) = before.groups.get(id) else { continue };
        for (direction, old, new) in
            [(Direction::Ingress, &old.ingress, &new.ingress), (Direction::Egress, &old.egress, &new.egress)]
        {
            let less: BTreeSet<_> = old.difference(new).cloned().collect();
            if !less.is_empty() {
                account.ec2.revoke(id, direction, &less).await?;
            }
            let more: BTreeSet<_> = new.difference(old).cloned().collect();
            if !more.is_empty() {
                account.ec2.authorize(id, direction, &more).await?;
            }
        }
        let (set, _) = differing(&old.tags, &new.tags);
        let ids = [id.clone()];
        if !set.is_empty() {
            account.ec2.create_tags(&ids, &set).await?;
        }
    }
    Ok(())
}
