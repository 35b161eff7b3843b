//! AppArmor profiles by annotation, as they were written before there was a field: checked, and copied into the field.
//!
//! Called by `pod` for new Pods and by `validate` for them and for templates. Windows knows no AppArmor.

use crate::{
    error::FieldError,
    kinds::{check::Errors, edit::items},
    object::Fields,
    path::Path,
};
use serde_json::{Value, json};

/// What the annotations begin with; the name of the container follows.
const PREFIX: &str = "container.apparmor.security.beta.kubernetes.io/";
const LISTS: [&str; 3] = ["initContainers", "containers", "ephemeralContainers"];

/// The profile that an annotation means; none when it means nothing.
fn field(annotation: &str) -> Option<Value> {
    match annotation {
        "unconfined" => Some(json!({"type": "Unconfined"})),
        "runtime/default" => Some(json!({"type": "RuntimeDefault"})),
        other => {
            let local = other.strip_prefix("localhost/").filter(|local| !local.is_empty())?;
            Some(json!({"type": "Localhost", "localhostProfile": local}))
        }
    }
}

/// Containers of a new pod that have only the annotation get the field too.
pub(super) fn to_fields(pod: &mut Value) {
    if pod.str_at("spec.os.name") == "windows" {
        return;
    }
    let Some(annotations) = pod.map_at("metadata.annotations").cloned() else { return };
    for list in LISTS {
        for container in items(pod, &format!("spec.{list}")) {
            let key = format!("{PREFIX}{}", container.str_at("name"));
            let profile = annotations.get(&key).and_then(Value::as_str).and_then(field);
            if let Some(profile) = profile.filter(|_| container.at("securityContext.appArmorProfile").is_null()) {
                container.set("securityContext.appArmorProfile", profile);
            }
        }
    }
}

/// Mistakes in the annotations, and where they contradict the fields; `path` is that of the pod or template.
pub(super) fn validate(errors: &mut Errors, path: &Path, pod: &Value) {
    let spec = pod.at("spec");
    let of_pod = spec.at("securityContext.appArmorProfile");
    let annotations = pod.map_at("metadata.annotations").into_iter().flatten();
    for (key, value) in annotations.filter_map(|(key, value)| Some((key, value.as_str()?))) {
        let Some(name) = key.strip_prefix(PREFIX) else { continue };
        let at = path.child("metadata").child("annotations").key(key);
        if !value.is_empty() && field(value).is_none() && !value.starts_with("localhost/") {
            let text = "must be runtime/default, unconfined, or localhost/ and the name of a profile";
            errors.push(FieldError::invalid(&at, value, text));
        }
        let found = LISTS.into_iter().find_map(|list| {
            let at = spec.list_at(list).iter().position(|container| container.str_at("name") == name)?;
            Some((path.child("spec").child(list).index(at), &spec.list_at(list)[at]))
        });
        let Some((at, container)) = found else {
            errors.push(FieldError::invalid(&at, name, "there is no such container"));
            continue;
        };
        let own = container.at("securityContext.appArmorProfile");
        let given = if own.is_null() { of_pod } else { own };
        if given.is_object() && spec.str_at("os.name") != "windows" {
            contradiction(errors, &at.child("securityContext").child("appArmorProfile"), given, value);
        }
    }
}

fn contradiction(errors: &mut Errors, path: &Path, given: &Value, annotation: &str) {
    let meant = field(annotation).unwrap_or_default();
    for part in ["type", "localhostProfile"] {
        if given.str_at(part) != meant.str_at(part) {
            errors.push(FieldError::forbidden(&path.child(part), "differs from the container's AppArmor annotation"));
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(annotation: &str, pod: Value, container: Value) -> Value {
        json!({
            "metadata": {"annotations": {format!("{PREFIX}c"): annotation}},
            "spec": {"securityContext": {"appArmorProfile": pod}, "containers": [
                {"name": "a"}, {"name": "c", "securityContext": {"appArmorProfile": container}},
            ]},
        })
    }

    #[test]
    fn an_annotation_becomes_the_field_of_its_container() {
        for (annotation, profile) in [
            ("unconfined", json!({"type": "Unconfined"})),
            ("runtime/default", json!({"type": "RuntimeDefault"})),
            ("localhost/x", json!({"type": "Localhost", "localhostProfile": "x"})),
            ("", Value::Null),
        ] {
            let mut new = pod(annotation, json!({"type": "RuntimeDefault"}), Value::Null);
            to_fields(&mut new);
            let containers = new.list_at("spec.containers");
            assert_eq!(*containers[1].at("securityContext.appArmorProfile"), profile, "{annotation}");
            assert!(containers[0].at("securityContext").is_null());
        }
        let mut given = pod("unconfined", Value::Null, json!({"type": "Localhost", "localhostProfile": "y"}));
        let before = given.clone();
        to_fields(&mut given);
        assert_eq!(given, before, "a field of its own stays");
    }

    #[test]
    fn annotations_name_a_container_and_a_profile_and_agree_with_the_fields() {
        let local = |name: &str| json!({"type": "Localhost", "localhostProfile": name});
        let kind = |kind: &str| json!({"type": kind});
        let at = "spec.containers[1].securityContext.appArmorProfile";
        let key = format!("metadata.annotations[{PREFIX}c]");
        for (annotation, of_pod, own, expected) in [
            ("unconfined", Value::Null, kind("Unconfined"), vec![]),
            ("unconfined", kind("RuntimeDefault"), kind("Unconfined"), vec![]),
            ("localhost/x", local("x"), Value::Null, vec![]),
            ("localhost/x", local("y"), Value::Null, vec![format!("{at}.localhostProfile")]),
            ("runtime/default", kind("Unconfined"), Value::Null, vec![format!("{at}.type")]),
            ("runtime/default", Value::Null, local("x"), vec![format!("{at}.type")]),
            ("nonsense", Value::Null, Value::Null, vec![key.clone()]),
        ] {
            let mut errors = Errors::new();
            validate(&mut errors, &Path::root(), &pod(annotation, of_pod, own));
            let fields: Vec<String> = errors.into_iter().map(|error| error.field).collect();
            assert_eq!(fields, expected, "{annotation}");
        }
        let mut errors = Errors::new();
        let mut other = pod("unconfined", Value::Null, Value::Null);
        other.set("spec.containers", json!([{"name": "a"}]));
        validate(&mut errors, &Path::root(), &other);
        assert_eq!(errors.iter().map(|error| error.field.as_str()).collect::<Vec<_>>(), [key]);
    }
}
