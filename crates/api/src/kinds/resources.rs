//! Amounts of cpu, memory and other resources: names, values, requests against limits.
//!
//! Called for containers and for node capacity.

use super::{
    check::{self, Errors},
    quantity,
};
use crate::{error::FieldError, object::Fields, path::Path};
use serde_json::Value;

/// Mistakes in `resources` of a container.
pub(super) fn validate(errors: &mut Errors, path: &Path, resources: &Value) {
    let (limits_path, requests_path) = (path.child("limits"), path.child("requests"));
    let limits = resources.map_at("limits");
    for (name, value) in limits.into_iter().flatten() {
        container_name(errors, &limits_path.key(name), name);
        amount(errors, &limits_path.key(name), name, value);
    }
    for (name, value) in resources.map_at("requests").into_iter().flatten() {
        container_name(errors, &requests_path.key(name), name);
        amount(errors, &requests_path.key(name), name, value);
        let limit = limits.and_then(|limits| limits.get(name));
        let number = |value: &Value| value.as_str().and_then(quantity::nanos);
        match (number(value), limit.and_then(number)) {
            (_, None) if !may_overcommit(name) => {
                errors.push(FieldError::required(&limits_path, format!("{name} needs a limit equal to its request")));
            }
            (Some(request), Some(limit)) if request != limit && !may_overcommit(name) => {
                errors.push(FieldError::invalid(&requests_path, value.clone(), format!("must equal the limit of {name}")));
            }
            (Some(request), Some(most)) if request > most => {
                let text = format!("must not be more than the limit of {name}, {}", limit.and_then(Value::as_str).unwrap_or("0"));
                errors.push(FieldError::invalid(&requests_path, value.clone(), text));
            }
            _ => {}
        }
    }
}

/// An amount of a resource: not negative, and whole where parts make no sense.
pub(super) fn amount(errors: &mut Errors, path: &Path, name: &str, value: &Value) {
    let text = value.as_str().unwrap_or_default();
    match quantity::nanos(text) {
        Some(n) if n < 0 => errors.push(FieldError::invalid(path, text, "must be 0 or more")),
        _ if !is_native(name) && !quantity::is_whole(text) => {
            errors.push(FieldError::invalid(path, text, "must be a whole number"));
        }
        _ => {}
    }
}

fn container_name(errors: &mut Errors, path: &Path, name: &str) {
    check::qualified_name(errors, path, name);
    let standard = matches!(name, "cpu" | "memory" | "ephemeral-storage") || name.starts_with("hugepages-");
    if !name.contains('/') && !standard {
        let text = "accepted are cpu, memory, ephemeral-storage, hugepages-* and names with a domain";
        errors.push(FieldError::invalid(path, name, text));
    }
}

fn is_native(name: &str) -> bool {
    !name.contains('/') || name.contains("kubernetes.io/")
}

fn may_overcommit(name: &str) -> bool {
    is_native(name) && !name.starts_with("hugepages-")
}
