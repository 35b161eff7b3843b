//! Policy and families: what was not said is decided, what cannot be had is refused.
//!
//! Mirrors `initIPFamilyFields`, step by step, since a step that finds mistakes ends the walk. Between [`policy`] and
//! [`families`] the structure is checked, so that lists hold what they should.

use super::{
    Cluster, RuleSet,
    spec::{Policy, Spec, shown},
};
use crate::{error::FieldError, path::Path};
use net::{Family, HasFamily};

type Errors = Vec<FieldError>;

/// Whether there is nothing to decide.
pub(super) fn is_settled(cluster: &Cluster, spec: &Spec, old: Option<&Spec>) -> bool {
    spec.is_external_name() || old.is_some_and(|old| stays(cluster, spec, old))
}

/// A Service that merely prefers both families is not upgraded or downgraded by an unrelated update after the cluster has
/// gained or lost a family. Upstream refuses such an update of one that requires both, even if it only takes a finalizer
/// off; by the proposal's rules it passes.
fn stays(cluster: &Cluster, spec: &Spec, old: &Spec) -> bool {
    let same_care = spec.is_unmanaged() == old.is_unmanaged();
    let forgiving = match &old.policy {
        Some(Policy::Prefer) => true,
        Some(_) => cluster.rules == RuleSet::Seed && same_care,
        None => false,
    };
    forgiving
        && spec.policy == old.policy
        && spec.kind.is_like(&old.kind)
        && spec.ips == old.ips
        && spec.families == old.families
}

/// Completes the policy.
pub(super) fn policy(spec: &mut Spec, old: Option<&Spec>) {
    let usual = if spec.is_unmanaged() { Policy::Require } else { Policy::Single };
    spec.policy.get_or_insert_with(|| old.and_then(|old| old.policy.clone()).unwrap_or(usual));
}

/// Completes the families.
pub(super) fn families(cluster: &Cluster, spec: &mut Spec, old: Option<&Spec>) -> Result<(), Errors> {
    let mut errors = Errors::new();
    if let Some(old) = old {
        downgrade(&mut errors, spec, old);
    }
    single_means_one(&mut errors, spec);
    families_of_addresses(&mut errors, cluster, spec);
    none_of(errors)?;
    if spec.is_unmanaged() {
        complete_unmanaged(cluster, spec, old);
        return Ok(());
    }
    available(cluster, spec)?;
    complete(cluster, spec);
    Ok(())
}

fn none_of(errors: Errors) -> Result<(), Errors> {
    if errors.is_empty() { Ok(()) } else { Err(errors) }
}

/// With SingleStack, two that the client left as they were become one; otherwise none may go.
fn downgrade(errors: &mut Errors, spec: &mut Spec, old: &Spec) {
    let is_single = spec.is_single();
    let kept = [
        (keeps(&mut spec.ips, &old.ips, is_single), "cluster IP"),
        (keeps(&mut spec.families, &old.families, is_single), "family"),
    ];
    for (_, what) in kept.into_iter().filter(|(kept, _)| !kept) {
        errors.push(policy_error(spec, format!("must be SingleStack to release the secondary {what}")));
    }
}

/// Whether nothing was lost that may not be.
fn keeps<T: PartialEq>(list: &mut Vec<T>, before: &[T], is_single: bool) -> bool {
    if is_single && list.len() == 2 && *list == before {
        list.truncate(1);
    }
    is_single || list.is_empty() || list.len() >= before.len()
}

fn single_means_one(errors: &mut Errors, spec: &Spec) {
    if !spec.is_single() {
        return;
    }
    for (count, what) in [(spec.ips.len(), "cluster IPs"), (spec.families.len(), "families")] {
        if count == 2 {
            let text = format!("must be PreferDualStack or RequireDualStack where two {what} are given");
            errors.push(policy_error(spec, text));
        }
    }
}

/// An address tells its family where the request does not.
fn families_of_addresses(errors: &mut Errors, cluster: &Cluster, spec: &mut Spec) {
    let mut known = spec.known_families();
    let given = known.len();
    for (i, text) in spec.ips.iter().enumerate().skip(given).take_while(|(_, text)| *text != "None") {
        let Ok(ip) = net::legacy::parse_stored_ip(text) else { continue };
        if cluster.families.contains(ip.family()) {
            known.push(ip.family());
        } else {
            let path = Path::new("spec").child("clusterIPs").index(i);
            errors.push(FieldError::invalid(&path, text.as_str(), not_configured(cluster, ip.family())));
        }
    }
    spec.set_families(&known);
}

/// Nobody allocates for it or selects endpoints for it, so what the cluster has does not matter.
fn complete_unmanaged(cluster: &Cluster, spec: &mut Spec, old: Option<&Spec>) {
    let mut known = spec.known_families();
    let given = !known.is_empty() && keeps_given(cluster, spec, old);
    if known.is_empty() {
        known.push(cluster.families.primary());
    }
    if !spec.is_single() && known.len() == 1 && !given {
        known.push(known[0].other());
    }
    spec.set_families(&known);
}

/// By the proposal, families that the client chose stay as they are. Those that stand in an update because they were
/// stored are not chosen by it: if it asks for both families, it gets them.
fn keeps_given(cluster: &Cluster, spec: &Spec, old: Option<&Spec>) -> bool {
    let chosen = old.is_none_or(|old| spec.families != old.families || spec.policy == old.policy);
    cluster.rules == RuleSet::Seed && chosen
}

fn available(cluster: &Cluster, spec: &Spec) -> Result<(), Errors> {
    let mut errors = Errors::new();
    if spec.policy == Some(Policy::Require) && !cluster.families.is_dual() {
        let text = format!("this cluster has only {} service addresses", cluster.families);
        errors.push(policy_error(spec, text));
    }
    let families = spec.known_families().into_iter().enumerate();
    for (i, family) in families.filter(|(_, family)| !cluster.families.contains(*family)) {
        let path = Path::new("spec").child("ipFamilies").index(i);
        errors.push(FieldError::invalid(&path, family.to_string(), not_configured(cluster, family)));
    }
    none_of(errors)
}

fn complete(cluster: &Cluster, spec: &mut Spec) {
    let mut known = spec.known_families();
    if known.is_empty() {
        known.push(cluster.families.primary());
    }
    if !spec.is_single() && known.len() == 1 && cluster.families.is_dual() {
        known.push(known[0].other());
    }
    spec.set_families(&known);
}

fn policy_error(spec: &Spec, text: String) -> FieldError {
    FieldError::invalid(&Path::new("spec").child("ipFamilyPolicy"), shown(spec.policy.as_ref()), text)
}

fn not_configured(cluster: &Cluster, family: Family) -> String {
    format!("this cluster has no {family} service addresses, only {}", cluster.families)
}
