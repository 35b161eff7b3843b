//! Policy and families: what was not said is decided, what cannot be had is refused.
//!
//! Mirrors `initIPFamilyFields`, step by step, since a step that finds mistakes ends the walk.

use super::{
    Cluster, RuleSet,
    spec::{
        FAMILIES, IPS, POLICY, PREFER, REQUIRE, SINGLE, families, is_external_name, is_unmanaged, same, set_families,
    },
    structure,
};
use crate::{error::FieldError, kinds::check, object::Fields, path::Path};
use net::{Family, HasFamily};
use serde_json::Value;

type Errors = Vec<FieldError>;

/// Completes policy and families.
pub(super) fn family_fields(cluster: &Cluster, service: &mut Value, old: Option<&Value>) -> Result<(), Errors> {
    if is_external_name(service) || old.is_some_and(|old| stays(cluster, service, old)) {
        return Ok(());
    }
    default_policy(service, old);
    structure(service, old)?;
    let mut errors = Errors::new();
    if let Some(old) = old {
        downgrade(&mut errors, service, old);
    }
    single_means_one(&mut errors, service);
    families_of_addresses(&mut errors, cluster, service);
    none_of(errors)?;
    if is_unmanaged(service) {
        complete_unmanaged(cluster, service, old);
        return Ok(());
    }
    available(cluster, service)?;
    complete(cluster, service);
    Ok(())
}

fn none_of(errors: Errors) -> Result<(), Errors> {
    if errors.is_empty() { Ok(()) } else { Err(errors) }
}

/// A Service that merely prefers both families is not upgraded or downgraded by an unrelated update after the cluster has
/// gained or lost a family. Upstream refuses such an update of one that requires both, even if it only takes a finalizer
/// off; by the proposal's rules it passes.
fn stays(cluster: &Cluster, service: &Value, old: &Value) -> bool {
    let policy = old.str_at(POLICY);
    let same_care = is_unmanaged(service) == is_unmanaged(old);
    let forgiving = policy == PREFER || cluster.rules == RuleSet::Seed && !policy.is_empty() && same_care;
    forgiving
        && [service, old].iter().all(|s| s.str_at(POLICY) == policy && !is_external_name(s))
        && service.at("spec.type") == old.at("spec.type")
        && same(service, old, IPS)
        && same(service, old, FAMILIES)
}

fn default_policy(service: &mut Value, old: Option<&Value>) {
    if !service.at(POLICY).is_null() {
        return;
    }
    let policy = match old.map_or("", |old| old.str_at(POLICY)) {
        "" if is_unmanaged(service) => REQUIRE,
        "" => SINGLE,
        before => before,
    };
    service.set(POLICY, policy);
}

/// With SingleStack, two that the client left as they were become one; otherwise none may go.
fn downgrade(errors: &mut Errors, service: &mut Value, old: &Value) {
    for (list, what) in [(IPS, "cluster IP"), (FAMILIES, "family")] {
        if service.str_at(POLICY) == SINGLE {
            if service.list_at(list).len() == 2 && same(service, old, list) {
                let first = service.list_at(list)[..1].to_vec();
                service.set(list, first);
            }
        } else if !service.list_at(list).is_empty() && service.list_at(list).len() < old.list_at(list).len() {
            errors.push(policy_error(service, format!("must be SingleStack to release the secondary {what}")));
        }
    }
}

fn single_means_one(errors: &mut Errors, service: &Value) {
    if service.str_at(POLICY) != SINGLE {
        return;
    }
    for (list, what) in [(IPS, "cluster IPs"), (FAMILIES, "families")] {
        if service.list_at(list).len() == 2 {
            let text = format!("must be PreferDualStack or RequireDualStack where two {what} are given");
            errors.push(policy_error(service, text));
        }
    }
}

/// An address tells its family where the request does not.
fn families_of_addresses(errors: &mut Errors, cluster: &Cluster, service: &mut Value) {
    let ips: Vec<String> = check::texts(service, IPS).into_iter().map(str::to_owned).collect();
    let mut known = families(service);
    let given = known.len();
    for (i, text) in ips.iter().enumerate().skip(given).take_while(|(_, text)| *text != "None") {
        let Ok(ip) = net::legacy::parse_stored_ip(text) else { continue };
        if cluster.families.contains(ip.family()) {
            known.push(ip.family());
        } else {
            let path = Path::new("spec").child("clusterIPs").index(i);
            errors.push(FieldError::invalid(&path, text.as_str(), not_configured(cluster, ip.family())));
        }
    }
    if known.len() > given {
        set_families(service, &known);
    }
}

/// Nobody allocates for it or selects endpoints for it, so what the cluster has does not matter.
fn complete_unmanaged(cluster: &Cluster, service: &mut Value, old: Option<&Value>) {
    let mut known = families(service);
    let given = !known.is_empty() && keeps_given(cluster, service, old);
    if known.is_empty() {
        known.push(cluster.families.primary());
    }
    if service.str_at(POLICY) != SINGLE && known.len() == 1 && !given {
        known.push(known[0].other());
    }
    set_families(service, &known);
}

/// By the proposal, families that the client chose stay as they are. Those that stand in an update because they were
/// stored are not chosen by it: if it asks for both families, it gets them.
fn keeps_given(cluster: &Cluster, service: &Value, old: Option<&Value>) -> bool {
    let chosen = old.is_none_or(|old| !same(service, old, FAMILIES) || same(service, old, POLICY));
    cluster.rules == RuleSet::Seed && chosen
}

fn available(cluster: &Cluster, service: &Value) -> Result<(), Errors> {
    let mut errors = Errors::new();
    if service.str_at(POLICY) == REQUIRE && !cluster.families.is_dual() {
        let text = format!("this cluster has only {} service addresses", cluster.families);
        errors.push(policy_error(service, text));
    }
    for (i, family) in families(service).into_iter().enumerate().filter(|(_, f)| !cluster.families.contains(*f)) {
        let path = Path::new("spec").child("ipFamilies").index(i);
        errors.push(FieldError::invalid(&path, family.to_string(), not_configured(cluster, family)));
    }
    none_of(errors)
}

fn complete(cluster: &Cluster, service: &mut Value) {
    let mut known = families(service);
    if known.is_empty() {
        known.push(cluster.families.primary());
    }
    if service.str_at(POLICY) != SINGLE && known.len() == 1 && cluster.families.is_dual() {
        known.push(known[0].other());
    }
    set_families(service, &known);
}

fn policy_error(service: &Value, text: String) -> FieldError {
    FieldError::invalid(&Path::new("spec").child("ipFamilyPolicy"), service.at(POLICY).clone(), text)
}

fn not_configured(cluster: &Cluster, family: Family) -> String {
    format!("this cluster has no {family} service addresses, only {}", cluster.families)
}
