//! What the dual-stack proposal accepts and kube-apiserver does not (`--service-family-rules=seed`).
//!
//! Each rule turns refusals into successes and nothing else. The fourth one, that headless Services without selector keep
//! the families they were given, is in `init`, where upstream completes them.

use super::spec::{FAMILIES, IP, IPS, POLICY, REQUIRE, SINGLE, is_external_name};
use crate::{kinds::check, object::Fields};
use serde_json::Value;

/// Fills in or takes out what makes the request acceptable to the steps that follow.
pub(super) fn relax(service: &mut Value, old: Option<&Value>, warnings: &mut Vec<String>) {
    if is_external_name(service) {
        clear_external_name(service, old, warnings);
        return;
    }
    if service.str_at(IP).is_empty()
        && let Some(first) = check::texts(service, IPS).first()
    {
        let first = (*first).to_owned();
        service.set(IP, first);
    }
    let two = [FAMILIES, IPS].iter().any(|list| service.list_at(list).len() == 2);
    let inherits = old.is_some_and(|old| !matches!(old.str_at(POLICY), "" | SINGLE));
    if two && service.at(POLICY).is_null() && !inherits {
        service.set(POLICY, REQUIRE);
    }
}

/// Nothing is said where the fields are those of the Service before it became an ExternalName.
fn clear_external_name(service: &mut Value, old: Option<&Value>, warnings: &mut Vec<String>) {
    for field in [FAMILIES, POLICY] {
        let changed = old.is_none_or(|old| !check::same(service.at(field), old.at(field)));
        let removed = service.remove(field).is_some_and(|value| !check::same(&value, &Value::Null));
        if removed && changed {
            warnings.push(format!("{field} was cleared; a service of type ExternalName has none"));
        }
    }
}
