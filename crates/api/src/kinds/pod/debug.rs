//! `pods/NAME/ephemeralcontainers`: containers that join a running pod to look around, as `kubectl debug` adds them.

use super::{head, is_mirror, validate};
use crate::{
    error::FieldError,
    kinds::check::{self, Errors},
    object::Fields,
    path::Path,
};
use serde_json::Value;

/// What counts of an applied pod.
pub(super) fn applied(config: &Value) -> Value {
    let mut kept = head(config);
    if !config.at("spec.ephemeralContainers").is_null() {
        kept.set("spec.ephemeralContainers", config.at("spec.ephemeralContainers").clone());
    }
    kept
}

/// Mistakes in a changed list of them: they come and stay as they are.
pub(super) fn validate(pod: &Value, old: &Value) -> Errors {
    if is_mirror(old) {
        return vec![FieldError::forbidden(&Path::root(), "static pods do not support ephemeral containers")];
    }
    let mut errors = validate::pod(pod, Some(old));
    let path = Path::new("spec").child("ephemeralContainers");
    for was in old.list_at("spec.ephemeralContainers") {
        let name = was.str_at("name");
        let now = pod.list_at("spec.ephemeralContainers").iter().find(|container| container.str_at("name") == name);
        let done = match now {
            None => "removed",
            Some(now) if !check::same(now, was) => "changed",
            Some(_) => continue,
        };
        errors.push(FieldError::forbidden(&path, format!("existing ephemeral containers {name:?} may not be {done}")));
    }
    errors
}
