//! Listeners, each with the target group it leads to and its certificates.

use super::{create_target_group, differing, fits, update_target_group};
use crate::{
    account::Listener as Has,
    model::{Desired, Listener, Network},
    plan::{Action, ListenerPlan, SeenNetwork, SeenTargetGroup},
};
use std::collections::BTreeSet;

const TLS: &str = "TLS";

/// Plans listeners with their target groups; says which target groups that are there stay in use.
pub(super) fn plan(
    desired: &Desired,
    network: &Network,
    seen: Option<&SeenNetwork>,
    groups: &[&SeenTargetGroup],
    actions: &mut Vec<Action>,
) -> Result<BTreeSet<String>, String> {
    let there = seen.map(|seen| seen.listeners.as_slice()).unwrap_or_default();
    let mut used = BTreeSet::new();
    for wanted in &network.listeners {
        let has = there.iter().find(|has| has.settings.port == wanted.port);
        let (target_group, arn) = target_group(desired, wanted, has, groups, actions)?;
        let leads_there = has.is_some_and(|has| arn.as_ref() == Some(&has.settings.target_group));
        used.extend(arn);
        let listener = ListenerPlan {
            port: wanted.port,
            protocol: wanted.protocol.clone(),
            target_group,
            certificate: wanted.certificate.clone(),
            ssl_policy: wanted.ssl_policy.clone(),
        };
        let Some(has) = has else {
            actions.push(Action::CreateListener { listener, tags: desired.tags.clone() });
            add_certificates(wanted, &BTreeSet::new(), actions);
            continue;
        };
        // A listener is changed where it stands, its protocol too: taking it away first would shut the port.
        let same_policy = wanted.ssl_policy.is_none() || wanted.ssl_policy == has.settings.ssl_policy;
        let same_certificate = wanted.certificate == has.settings.certificate;
        let same_tls = wanted.protocol != TLS || (same_certificate && same_policy);
        let same = wanted.protocol == has.settings.protocol && leads_there && same_tls;
        let modify = (!same).then(|| Action::ModifyListener { arn: has.arn.clone(), listener });
        update(desired, wanted, has, seen, modify, actions);
    }
    let gone = |has: &&Has| !network.listeners.iter().any(|wanted| wanted.port == has.settings.port);
    for old in there.iter().filter(gone) {
        actions.push(Action::DeleteListener { arn: old.arn.clone(), port: old.settings.port });
    }
    Ok(used)
}

/// The name of the target group that a listener is to lead to, and its ARN if it is there: the one that serves, if it can.
fn target_group(
    desired: &Desired,
    wanted: &Listener,
    has: Option<&Has>,
    groups: &[&SeenTargetGroup],
    actions: &mut Vec<Action>,
) -> Result<(String, Option<String>), String> {
    let target = &wanted.target;
    let find = |is: &dyn Fn(&SeenTargetGroup) -> bool| groups.iter().copied().find(|group| is(group));
    let serving = has.and_then(|has| find(&|group| group.group.arn == has.settings.target_group));
    let named = || find(&|group| group.group.name == target.name);
    match serving.filter(|group| fits(group, target, &desired.vpc)).or_else(named) {
        Some(group) if !fits(group, target, &desired.vpc) => Err(format!(
            "target group {} is there, but with another protocol, port, family or VPC; delete it",
            target.name
        )),
        Some(group) => {
            update_target_group(desired, target, group, actions);
            Ok((group.group.name.clone(), Some(group.group.arn.clone())))
        }
        None => {
            create_target_group(desired, target, actions);
            Ok((target.name.clone(), None))
        }
    }
}

fn update(
    desired: &Desired,
    wanted: &Listener,
    has: &Has,
    seen: Option<&SeenNetwork>,
    modify: Option<Action>,
    actions: &mut Vec<Action>,
) {
    let becomes_tls = wanted.protocol == TLS && has.settings.protocol != TLS;
    let certificates = seen.and_then(|seen| seen.certificates.get(&has.arn)).filter(|_| wanted.protocol == TLS);
    if let Some(certificates) = certificates.filter(|_| !becomes_tls) {
        add_certificates(wanted, certificates, actions);
    }
    actions.extend(modify);
    if becomes_tls {
        add_certificates(wanted, &BTreeSet::new(), actions);
    }
    if let Some(certificates) = certificates {
        // AWS does not let go of the listener's own one.
        let own = wanted.certificate.as_ref();
        let surplus = certificates.iter().filter(|one| !wanted.more_certificates.contains(*one) && Some(*one) != own);
        let surplus: BTreeSet<String> = surplus.cloned().collect();
        if !surplus.is_empty() {
            actions.push(Action::RemoveCertificates { port: wanted.port, certificates: surplus });
        }
    }
    let tags = seen.and_then(|seen| seen.listener_tags.get(&has.arn));
    let tags = tags.map(|has| differing(&desired.tags, has)).unwrap_or_default();
    if !tags.is_empty() {
        actions.push(Action::TagListener { port: wanted.port, tags });
    }
}

fn add_certificates(wanted: &Listener, has: &BTreeSet<String>, actions: &mut Vec<Action>) {
    let missing: BTreeSet<String> = wanted.more_certificates.difference(has).cloned().collect();
    if !missing.is_empty() {
        actions.push(Action::AddCertificates { port: wanted.port, certificates: missing });
    }
}
