//! The annotation that says which family of a Pod's addresses its probes use: `IPv4` or `IPv6`, the node's first without it.
//!
//! Called for new Pods and for templates; the kubelet reads it (docs/compat.md).

use crate::{error::FieldError, kinds::check::Errors, object::Fields, path::Path};
use serde_json::Value;

const ANNOTATION: &str = "twinstack.dev/probe-ip-family";

/// `path` is that of the pod or template.
pub(super) fn validate(errors: &mut Errors, path: &Path, pod: &Value) {
    let Some(value) = pod.at("metadata.annotations").get(ANNOTATION).and_then(Value::as_str) else { return };
    if !matches!(value, "IPv4" | "IPv6") {
        let at = path.child("metadata").child("annotations").key(ANNOTATION);
        errors.push(FieldError::not_supported(&at, value, &["IPv4", "IPv6"]));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_family_is_one_of_two_words() {
        for (value, want) in [
            (Some("IPv4"), None),
            (Some("IPv6"), None),
            (None, None),
            (
                Some("any"),
                Some(
                    "metadata.annotations[twinstack.dev/probe-ip-family]: Unsupported value: \"any\": supported values: \"IPv4\", \"IPv6\"",
                ),
            ),
        ] {
            let mut pod = json!({"metadata": {"annotations": {}}});
            if let Some(value) = value {
                pod["metadata"]["annotations"][ANNOTATION] = value.into();
            }
            let mut errors = Errors::new();
            validate(&mut errors, &Path::root(), &pod);
            assert_eq!(errors.first().map(ToString::to_string).as_deref(), want);
        }
    }
}
