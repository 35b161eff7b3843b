//! Structure of a Service's family fields: `clusterIP`, `clusterIPs`, `ipFamilies`, `ipFamilyPolicy`.
//!
//! Called by `service_validate`, and by the API server before it resolves families and allocates: that step may rely on
//! what passes here. Mirrors `ValidateServiceClusterIPsRelatedFields` and the upgrade/downgrade checks.

use super::{
    check::{self, Errors},
    service::is_headless,
};
use crate::{error::FieldError, object::Fields, path::Path};
use net::{Family, HasFamily};
use serde_json::Value;

/// Mistakes in the family fields by themselves. Absent ones are none.
pub fn validate(service: &Value, old: Option<&Value>) -> Errors {
    let mut errors = Errors::new();
    let spec = service.at("spec");
    if spec.str_at("type") == "ExternalName" {
        return errors;
    }
    let path = Path::new("spec");
    let ips_path = path.child("clusterIPs");
    let ips = check::texts(spec, "clusterIPs");
    match (spec.str_at("clusterIP"), ips.first()) {
        ("", None) => {}
        ("", Some(_)) => {
            let text = "clusterIP must be given too, and be the first of them";
            errors.push(FieldError::invalid(&ips_path, spec.at("clusterIPs").clone(), text));
        }
        (_, None) => errors.push(FieldError::required(&ips_path, "clusterIP must be the first of them")),
        (ip, Some(first)) if ip != *first => {
            let text = format!("the first must be clusterIP, {ip}");
            errors.push(FieldError::invalid(&ips_path, spec.at("clusterIPs").clone(), text));
        }
        _ => {}
    }
    let families = families(&mut errors, spec);
    if let Some(policy) = spec.at("ipFamilyPolicy").as_str() {
        let accepted = ["PreferDualStack", "RequireDualStack", "SingleStack"];
        check::one_of(&mut errors, &path.child("ipFamilyPolicy"), policy, &accepted);
    }
    addresses(&mut errors, service, &ips, &families, old);
    errors
}

fn families(errors: &mut Errors, spec: &Value) -> Vec<Option<Family>> {
    let list = check::texts(spec, "ipFamilies");
    for (i, family) in list.iter().enumerate() {
        let at = Path::new("spec").child("ipFamilies").index(i);
        check::one_of(errors, &at, family, &["IPv4", "IPv6"]);
        if list[..i].contains(family) {
            errors.push(FieldError::duplicate(&at, *family));
        }
    }
    list.iter().map(|family| family.parse().ok()).collect()
}

fn addresses(errors: &mut Errors, service: &Value, ips: &[&str], families: &[Option<Family>], old: Option<&Value>) {
    let path = Path::new("spec").child("clusterIPs");
    let whole = service.at("spec.clusterIPs");
    let before = old.map(|old| check::texts(old, "spec.clusterIPs")).unwrap_or_default();
    let found = errors.len();
    let mut parsed = Vec::new();
    let mut none_beside = false;
    for (i, ip) in ips.iter().enumerate() {
        match *ip {
            "None" if i == 0 => none_beside = ips.len() > 1,
            ip => parsed.extend(check::ip(errors, &path.index(i), ip, before.iter().copied())),
        }
    }
    if none_beside {
        errors.push(FieldError::invalid(&path, whole.clone(), "None must stand alone"));
    }
    // Later checks would mislead after a malformed address.
    let malformed = errors.len() > found;
    if ips.len() > 2 {
        errors.push(FieldError::invalid(&path, whole.clone(), "at most two are accepted, one of each family"));
    }
    if malformed {
        return;
    }
    let is_dual = matches!(parsed.as_slice(), [first, second, ..] if first.family() != second.family());
    if parsed.len() > 1 && !(is_dual && parsed.len() == 2) {
        errors.push(FieldError::invalid(&path, whole.clone(), "accepted is one address of each family"));
    }
    if is_headless(service) {
        return;
    }
    for (i, (ip, family)) in parsed.iter().zip(families).enumerate() {
        if let Some(family) = family.filter(|family| *family != ip.family()) {
            let text = format!("must be an {family} address, as ipFamilies[{i}] says");
            errors.push(FieldError::invalid(&path.index(i), ip.to_string(), text));
        }
    }
}

/// What an update changed in addresses and families though it may not: the primary, and the secondary unless released.
pub fn validate_update(service: &Value, old: &Value) -> Errors {
    let mut errors = Errors::new();
    if [service, old].iter().any(|s| s.str_at("spec.type") == "ExternalName") {
        return errors;
    }
    let (headless, was_headless) = (is_headless(service), is_headless(old));
    if !(headless && was_headless) {
        unchanged(&mut errors, service, old, "clusterIPs");
    }
    if !headless && !was_headless {
        unchanged(&mut errors, service, old, "ipFamilies");
    }
    errors
}

fn unchanged(errors: &mut Errors, service: &Value, old: &Value, field: &str) {
    const FIXED: &str = "cannot be changed once set";
    let path = Path::new("spec").child(field);
    let (new, before) = (service.at("spec").list_at(field), old.at("spec").list_at(field));
    let value = || service.at("spec").at(field).clone();
    if new.len() == before.len() {
        for i in (0..new.len()).filter(|i| new[*i] != before[*i]) {
            // Upstream reports every changed family at the first one.
            let at = if field == "ipFamilies" { 0 } else { i };
            errors.push(FieldError::invalid(&path.index(at), value(), FIXED));
        }
        return;
    }
    let unset = service.at("spec").list_at("clusterIPs").is_empty();
    if new.len() < before.len() && unset {
        errors.push(FieldError::invalid(&path.index(0), value(), "the primary cannot be unset"));
    }
    if let (Some(first), Some(was)) = (new.first(), before.first())
        && first != was
    {
        errors.push(FieldError::invalid(&path.index(0), value(), FIXED));
    }
    if new.len() < before.len() && new.len() == 1 && service.str_at("spec.ipFamilyPolicy") != "SingleStack" {
        let policy = service.at("spec.ipFamilyPolicy").clone();
        let text = format!("must be SingleStack to release the second of {field}");
        errors.push(FieldError::invalid(&Path::new("spec").child("ipFamilyPolicy"), policy, text));
    }
}
