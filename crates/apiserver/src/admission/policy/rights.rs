//! Who may write policies and bindings: whoever can read the parameters that they name, for a policy tells of them.

use super::of_kind;
use crate::{
    call::Call,
    kinds::{Later, ServerRules, done},
};
use access::authz::Attributes;
use api::{error::ApiError, object::Fields};
use serde_json::{Value, json};

/// Policies and bindings.
pub(crate) struct PolicyKind;

impl ServerRules for PolicyKind {
    fn check<'a>(&self, call: &'a Call, object: &'a Value, old: Option<&'a Value>) -> Later<'a, ()> {
        done(may_read(call, object, old))
    }
}

fn may_read(call: &Call, object: &Value, old: Option<&Value>) -> Result<(), ApiError> {
    let same = |path: &str| old.is_some_and(|old| old.at(path) == object.at(path));
    let binding = object.at("spec.paramRef");
    let (kind, name, namespace, verb) = match call.resource.kind.as_str() {
        "ValidatingAdmissionPolicy" | "MutatingAdmissionPolicy" if !same("spec.paramKind") => {
            (object.at("spec.paramKind").clone(), "*", "*", "get")
        }
        "ValidatingAdmissionPolicyBinding" | "MutatingAdmissionPolicyBinding"
            if !(binding.is_null() || same("spec.paramRef") && same("spec.policyName")) =>
        {
            let policy = call.server.object(&policy_of(call, object));
            let kind = policy.map(|policy| policy.at("spec.paramKind").clone()).unwrap_or_default();
            let verb = if binding.str_at("name").is_empty() { "list" } else { "get" };
            let unknown = json!({"apiVersion": "*/*", "kind": "*"});
            let kind = if kind.is_null() { unknown } else { kind };
            (kind, binding.str_at("name"), binding.str_at("namespace"), verb)
        }
        _ => return Ok(()),
    };
    if kind.is_null() {
        return Ok(());
    }
    let api_version = kind.str_at("apiVersion");
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let found = of_kind(call, api_version, kind.str_at("kind"));
    let resource = found.as_ref().map_or("*", |resource| resource.plural.as_str());
    let asked = Attributes { namespace, version, name, ..Attributes::resource(&call.user, verb, group, resource) };
    if call.server.access.chain().authorize(&asked).allowed() {
        return Ok(());
    }
    let user = &call.user.name;
    let why = match call.resource.kind.as_str() {
        "ValidatingAdmissionPolicy" | "MutatingAdmissionPolicy" => format!(
            "user {user} must have \"get\" permission on all objects of the referenced paramKind (kind={}, apiVersion={api_version})",
            kind.str_at("kind")
        ),
        _ => format!("user {user} does not have {verb:?} permission on the object referenced by paramRef"),
    };
    Err(ApiError::forbidden(&call.resource.plural, &call.resource.group, object.str_at("metadata.name"), why))
}

/// Where the policy of a binding is stored.
fn policy_of(call: &Call, binding: &Value) -> String {
    let policies = call.resource.plural.strip_suffix("policybindings").unwrap_or_default();
    format!("{policies}policies/{}", binding.str_at("spec.policyName"))
}
