//! A classic load balancer.

use super::{Action, Observed, SeenClassic, differing, groups};
use crate::{
    account::{ClassicListener, ClassicPolicy, NewClassicLoadBalancer, SecurityGroup},
    model::{Classic, Desired},
};
use std::collections::{BTreeMap, BTreeSet};

const PROXY_POLICY: &str = "k8s-proxyprotocol-enabled";

pub(super) fn plan(
    desired: &Desired,
    classic: &Classic,
    own: Option<&SecurityGroup>,
    observed: &Observed,
    actions: &mut Vec<Action>,
) {
    match &observed.classic {
        None => create(desired, classic, own, actions),
        Some(seen) => update(desired, classic, own, seen, actions),
    }
}

fn create(desired: &Desired, classic: &Classic, own: Option<&SecurityGroup>, actions: &mut Vec<Action>) {
    actions.push(Action::CreateClassic(NewClassicLoadBalancer {
        name: desired.name.clone(),
        scheme: classic.scheme,
        listeners: classic.listeners.values().cloned().collect(),
        subnets: classic.subnets.clone(),
        security_groups: groups::wanted_ids(desired, own).unwrap_or_default(),
        tags: desired.tags.clone(),
    }));
    policies(classic, &BTreeSet::new(), &BTreeMap::new(), &BTreeMap::new(), actions);
    actions.push(Action::SetClassicHealthCheck { check: classic.health_check.clone() });
    actions.push(Action::SetClassicAttributes { attributes: classic.attributes.clone() });
    if !classic.instances.is_empty() {
        actions.push(Action::RegisterInstances { instances: classic.instances.clone() });
    }
}

fn update(
    desired: &Desired,
    classic: &Classic,
    own: Option<&SecurityGroup>,
    seen: &SeenClassic,
    actions: &mut Vec<Action>,
) {
    let has = &seen.load_balancer;
    if let Some(groups) = groups::wanted_ids(desired, own).filter(|groups| *groups != has.security_groups) {
        actions.push(Action::ApplyGroups { groups });
    }
    let coming: BTreeSet<String> = classic.subnets.difference(&has.subnets).cloned().collect();
    let leaving: BTreeSet<String> = has.subnets.difference(&classic.subnets).cloned().collect();
    // One that comes takes the place of the one in its zone: what is still there afterwards is seen at the next look, which follows every change.
    if !coming.is_empty() {
        actions.push(Action::AttachSubnets { subnets: coming });
    } else if !leaving.is_empty() {
        actions.push(Action::DetachSubnets { subnets: leaving });
    }
    let stale: BTreeSet<u16> = has
        .listeners
        .iter()
        .filter(|(port, listener)| classic.listeners.get(port) != Some(listener))
        .map(|(port, _)| *port)
        .collect();
    if !stale.is_empty() {
        actions.push(Action::DeleteClassicListeners { ports: stale.clone() });
    }
    let missing: Vec<ClassicListener> = classic
        .listeners
        .values()
        .filter(|wanted| has.listeners.get(&wanted.load_balancer_port) != Some(wanted))
        .cloned()
        .collect();
    if !missing.is_empty() {
        actions.push(Action::CreateClassicListeners { listeners: missing });
    }
    let kept: BTreeMap<u16, Vec<String>> =
        has.listener_policies.iter().filter(|(port, _)| !stale.contains(port)).map(|(p, l)| (*p, l.clone())).collect();
    policies(classic, &has.policies, &has.backend_policies, &kept, actions);
    if has.health_check.as_ref() != Some(&classic.health_check) {
        actions.push(Action::SetClassicHealthCheck { check: classic.health_check.clone() });
    }
    if seen.attributes.as_ref().is_some_and(|has| !same_attributes(classic, has)) {
        actions.push(Action::SetClassicAttributes { attributes: classic.attributes.clone() });
    }
    let tags = seen.tags.as_ref().map(|has| differing(&desired.tags, has)).unwrap_or_default();
    if !tags.is_empty() {
        actions.push(Action::TagClassic { tags });
    }
    let coming: BTreeSet<String> = classic.instances.difference(&has.instances).cloned().collect();
    let leaving: BTreeSet<String> = has.instances.difference(&classic.instances).cloned().collect();
    if !coming.is_empty() {
        actions.push(Action::RegisterInstances { instances: coming });
    }
    if !leaving.is_empty() {
        actions.push(Action::DeregisterInstances { instances: leaving });
    }
}

/// Where the log goes matters only while there is one.
fn same_attributes(classic: &Classic, has: &crate::account::ClassicAttributes) -> bool {
    let wanted = &classic.attributes;
    let same_log = !wanted.access_log
        || (wanted.access_log_bucket == has.access_log_bucket
            && wanted.access_log_prefix.clone().unwrap_or_default()
                == has.access_log_prefix.clone().unwrap_or_default()
            && (wanted.access_log_interval.is_none() || wanted.access_log_interval == has.access_log_interval));
    (wanted.cross_zone, wanted.access_log, wanted.draining, wanted.idle_timeout)
        == (has.cross_zone, has.access_log, has.draining, has.idle_timeout)
        && same_log
}

fn policies(
    classic: &Classic,
    there: &BTreeSet<String>,
    backends: &BTreeMap<u16, Vec<String>>,
    listeners: &BTreeMap<u16, Vec<String>>,
    actions: &mut Vec<Action>,
) {
    let ports: BTreeSet<u16> = classic.listeners.values().map(|listener| listener.instance_port).collect();
    if classic.proxy_protocol && !there.contains(PROXY_POLICY) {
        actions.push(Action::CreatePolicy(ClassicPolicy {
            name: PROXY_POLICY.to_owned(),
            kind: "ProxyProtocolPolicyType".to_owned(),
            attributes: [("ProxyProtocol".to_owned(), "true".to_owned())].into(),
        }));
    }
    let wanted = |port: &u16| classic.proxy_protocol && ports.contains(port);
    let all: BTreeSet<u16> = ports.iter().chain(backends.keys()).copied().collect();
    for port in all {
        let has = backends.get(&port).is_some_and(|policies| policies.iter().any(|policy| policy == PROXY_POLICY));
        if has != wanted(&port) {
            let policies = wanted(&port).then(|| PROXY_POLICY.to_owned()).into_iter().collect();
            actions.push(Action::SetBackendPolicies { port, policies });
        }
    }
    let Some(policy) = &classic.ssl_policy else { return };
    let name = format!("k8s-SSLNegotiationPolicy-{policy}");
    let is_tls = |listener: &&ClassicListener| listener.protocol == "SSL" || listener.protocol == "HTTPS";
    let lacking: Vec<u16> = classic
        .listeners
        .values()
        .filter(is_tls)
        .map(|listener| listener.load_balancer_port)
        .filter(|port| !listeners.get(port).is_some_and(|policies| policies.contains(&name)))
        .collect();
    if !lacking.is_empty() && !there.contains(&name) {
        actions.push(Action::CreatePolicy(ClassicPolicy {
            name: name.clone(),
            kind: "SSLNegotiationPolicyType".to_owned(),
            attributes: [("Reference-Security-Policy".to_owned(), policy.clone())].into(),
        }));
    }
    for port in lacking {
        actions.push(Action::SetListenerPolicies { port, policies: vec![name.clone()] });
    }
}
