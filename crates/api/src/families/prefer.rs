//! `preferDualStack`, the older word for `ipFamilyPolicy`: read as one, answered with a warning, never kept.

use super::spec::{POLICY, Policy, Spec};
use crate::{error::FieldError, object::Fields, path::Path};
use serde_json::Value;

const FIELD: &str = "spec.preferDualStack";

/// Takes `preferDualStack` out of the request; who set it owns the policy.
pub(super) fn take(service: &mut Value) -> Result<Option<bool>, Vec<FieldError>> {
    match service.remove(FIELD) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::Bool(prefers)) => {
            rename_owned_field(service);
            Ok(Some(prefers))
        }
        Some(other) => Err(vec![FieldError::invalid(&path(), other, "must be true or false")]),
    }
}

/// Sets the policy that `preferDualStack` means.
///
/// On update the stored policy comes along in the request of a client that changes nothing about it, so only a policy
/// that differs from the stored one counts as said.
pub(super) fn translate(
    prefers: bool,
    spec: &mut Spec,
    old: Option<&Spec>,
    warnings: &mut Vec<String>,
) -> Result<(), Vec<FieldError>> {
    if spec.is_external_name() {
        warnings.push(format!("{FIELD} has no effect when spec.type is ExternalName"));
        return Ok(());
    }
    let stored = old.and_then(|old| old.policy.clone());
    // An empty text says nothing; whether it may stand there is for the structure.
    let given = spec.policy.clone().filter(|policy| *policy != Policy::Unknown(String::new()));
    let said = given.clone().filter(|policy| Some(policy) != stored.as_ref());
    let meant = given.or(stored);
    let two = spec.families.len() > 1 || spec.ips.len() > 1;
    let policy = match (prefers, meant, said) {
        (true, Some(meant), _) if meant.wants_both() => meant,
        (true, Some(Policy::Single), Some(said)) => return contradiction(prefers, &said),
        (true, ..) if two => Policy::Require,
        (true, ..) => Policy::Prefer,
        (false, Some(meant), Some(said)) if meant.wants_both() => return contradiction(prefers, &said),
        (false, ..) if two && old.is_none() => {
            let text = "must be true, or absent, where two families or two addresses are given";
            return Err(vec![FieldError::invalid(&path(), false, text)]);
        }
        (false, ..) => Policy::Single,
    };
    warnings.push(format!("{FIELD}: {prefers} was read as {POLICY}: {policy}; use {POLICY}"));
    spec.policy = Some(policy);
    Ok(())
}

fn path() -> Path {
    Path::new("spec").child("preferDualStack")
}

fn contradiction(prefers: bool, policy: &Policy) -> Result<(), Vec<FieldError>> {
    let text = format!("contradicts {POLICY}: {policy}; give one of them");
    Err(vec![FieldError::invalid(&path(), prefers, text)])
}

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
