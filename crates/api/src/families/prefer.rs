//! `preferDualStack`, the older word for `ipFamilyPolicy`: read as one, answered with a warning, never kept.

use super::spec::{FAMILIES, IPS, POLICY, PREFER, REQUIRE, SINGLE, is_external_name};
use crate::{error::FieldError, object::Fields, path::Path};
use serde_json::Value;

const FIELD: &str = "spec.preferDualStack";

/// Takes `preferDualStack` out of the request and sets the policy that it means.
///
/// On update the stored policy comes along in the request of a client that changes nothing about it, so only a policy
/// that differs from the stored one counts as said.
pub(super) fn translate(
    service: &mut Value,
    old: Option<&Value>,
    warnings: &mut Vec<String>,
) -> Result<(), Vec<FieldError>> {
    let prefers = match service.remove(FIELD) {
        None | Some(Value::Null) => return Ok(()),
        Some(Value::Bool(prefers)) => prefers,
        Some(other) => return Err(vec![FieldError::invalid(&path(), other, "must be true or false")]),
    };
    rename_owned_field(service);
    if is_external_name(service) {
        warnings.push(format!("{FIELD} has no effect when spec.type is ExternalName"));
        return Ok(());
    }
    let stored = old.map_or("", |old| old.str_at(POLICY));
    let given = service.str_at(POLICY);
    let is_given = given != stored;
    let meant = if given.is_empty() { stored } else { given };
    let is_dual_wish = matches!(meant, PREFER | REQUIRE);
    let two = [FAMILIES, IPS].iter().any(|list| service.list_at(list).len() > 1);
    let policy = match prefers {
        true if is_dual_wish => meant,
        true if meant == SINGLE && is_given && !given.is_empty() => return contradiction(prefers, given),
        true if two => REQUIRE,
        true => PREFER,
        false if is_dual_wish && is_given && !given.is_empty() => return contradiction(prefers, given),
        false if two && old.is_none() => {
            let text = "must be true, or absent, where two families or two addresses are given";
            return Err(vec![FieldError::invalid(&path(), false, text)]);
        }
        false => SINGLE,
    }
    .to_owned();
    warnings.push(format!("{FIELD}: {prefers} was read as {POLICY}: {policy}; use {POLICY}"));
    service.set(POLICY, policy);
    Ok(())
}

fn path() -> Path {
    Path::new("spec").child("preferDualStack")
}

fn contradiction(prefers: bool, policy: &str) -> Result<(), Vec<FieldError>> {
    let text = format!("contradicts {POLICY}: {policy}; give one of them");
    Err(vec![FieldError::invalid(&path(), prefers, text)])
}

/// Who set `preferDualStack` owns the policy.
fn rename_owned_field(service: &mut Value) {
    for entry in service.at_mut("metadata").get_mut("managedFields").and_then(Value::as_array_mut).into_iter().flatten()
    {
        let spec = entry.get_mut("fieldsV1").and_then(|fields| fields.get_mut("f:spec")).and_then(Value::as_object_mut);
        if let Some(spec) = spec
            && let Some(owned) = spec.remove("f:preferDualStack")
        {
            spec.insert("f:ipFamilyPolicy".to_owned(), owned);
        }
    }
}
