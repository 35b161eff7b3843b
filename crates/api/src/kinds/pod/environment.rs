//! Environment variables of a container, and the references to fields, resources and keys that fill them.
//!
//! Called by `containers`; volumes with files about the pod use the same references.

use super::paths;
use crate::{
    error::FieldError,
    kinds::{
        check::{self, Errors},
        names, quantity,
    },
    object::Fields,
    path::Path,
};
use serde_json::Value;

const VARIABLE_FIELDS: [&str; 9] = [
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
];
const FILE_FIELDS: [&str; 5] =
    ["metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid"];
/// Fields that have a path, yet no place in a variable or a file.
const OTHER_FIELDS: [&str; 4] = ["spec.host", "spec.restartPolicy", "spec.schedulerName", "status.phase"];
const RESOURCES: [&str; 6] = [
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
];

/// Where a reference stands: not every field fits everywhere.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum RefTarget {
    /// In the environment of a container.
    Variable,
    /// In a file of a volume.
    File,
}

/// Mistakes in `env` and `envFrom` of a container.
pub(super) fn validate(errors: &mut Errors, path: &Path, container: &Value) {
    for (i, variable) in container.list_at("env").iter().enumerate() {
        let at = path.child("env").index(i);
        match variable.str_at("name") {
            "" => errors.push(FieldError::required(&at.child("name"), "")),
            name => check::all_of(errors, &at.child("name"), name, names::env_name(name)),
        }
        value_from(errors, &at.child("valueFrom"), variable);
    }
    for (i, source) in container.list_at("envFrom").iter().enumerate() {
        let prefix = source.str_at("prefix");
        let at = path.child("envFrom").index(i);
        check::all_of(errors, &at.child("prefix"), prefix, names::env_name(prefix));
        let given: Vec<_> = ["configMapRef", "secretRef"].into_iter().filter(|f| !source.at(f).is_null()).collect();
        for kind in &given {
            let here = at.child(kind).child("name");
            match source.at(kind).str_at("name") {
                "" => errors.push(FieldError::required(&here, "")),
                name => check::all_of(errors, &here, name, names::dns_subdomain(name, true)),
            }
        }
        if given.len() != 1 {
            errors.push(FieldError::invalid(
                &path.child("envFrom"),
                "",
                "each needs one of configMapRef and secretRef",
            ));
        }
    }
}

fn value_from(errors: &mut Errors, path: &Path, variable: &Value) {
    let from = variable.at("valueFrom");
    if from.is_null() {
        return;
    }
    const SOURCES: [&str; 5] = ["fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef"];
    let given: Vec<_> = SOURCES.into_iter().filter(|source| !from.at(source).is_null()).collect();
    for source in &given {
        let (at, reference) = (path.child(source), from.at(source));
        match *source {
            "fieldRef" => field_ref(errors, &at, reference, RefTarget::Variable),
            "resourceFieldRef" => resource_ref(errors, &at, reference, RefTarget::Variable),
            "fileKeyRef" => file_key(errors, &at, reference),
            _ => key_ref(errors, &at, reference),
        }
    }
    let text = match (given.len(), variable.str_at("value").is_empty()) {
        (0, _) => "must have one of fieldRef, resourceFieldRef, configMapKeyRef, secretKeyRef and fileKeyRef",
        (_, false) => "cannot stand beside a value",
        (1, _) => return,
        _ => "must have one source only",
    };
    errors.push(FieldError::invalid(path, "", text));
}

/// A reference to a field of the pod itself.
pub(super) fn field_ref(errors: &mut Errors, path: &Path, reference: &Value, target: RefTarget) {
    for field in ["apiVersion", "fieldPath"] {
        if reference.str_at(field).is_empty() {
            errors.push(FieldError::required(&path.child(field), ""));
            return;
        }
    }
    let accepted: &[&str] = if target == RefTarget::File { &FILE_FIELDS } else { &VARIABLE_FIELDS };
    let field = reference.str_at("fieldPath");
    let at = path.child("fieldPath");
    let readable = reference.str_at("apiVersion") == "v1";
    let known = [&VARIABLE_FIELDS[..], &FILE_FIELDS, &OTHER_FIELDS].iter().any(|list| list.contains(&field));
    match subscript(field) {
        _ if !readable => errors.push(FieldError::invalid(&at, field, "accepted is apiVersion v1")),
        Some(("metadata.labels", key)) => check::qualified_name(errors, path, key),
        Some(("metadata.annotations", key)) => check::qualified_name(errors, path, &key.to_lowercase()),
        None if known => check::one_of(errors, &at, field, accepted),
        _ => errors.push(FieldError::invalid(&at, field, format!("accepted are {}", accepted.join(", ")))),
    }
}

/// `metadata.labels['key']` in its two parts.
fn subscript(field: &str) -> Option<(&str, &str)> {
    field.strip_suffix("']")?.split_once("['")
}

/// A reference to a resource of a container.
pub(super) fn resource_ref(errors: &mut Errors, path: &Path, reference: &Value, target: RefTarget) {
    let resource = reference.str_at("resource");
    let pages = ["limits.hugepages-", "requests.hugepages-"].iter().any(|prefix| resource.starts_with(prefix));
    if target == RefTarget::File && reference.str_at("containerName").is_empty() {
        errors.push(FieldError::required(&path.child("containerName"), ""));
    } else if resource.is_empty() {
        errors.push(FieldError::required(&path.child("resource"), ""));
    } else if !pages {
        check::one_of(errors, &path.child("resource"), resource, &RESOURCES);
    }
    divisor(errors, &path.child("divisor"), reference.at("divisor"), resource, pages);
}

fn divisor(errors: &mut Errors, path: &Path, divisor: &Value, resource: &str, pages: bool) {
    const UNITS: [&str; 13] = ["1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei"];
    let text = divisor.as_str().unwrap_or("0");
    let accepted: &[&str] = match resource {
        "limits.cpu" | "requests.cpu" => &["1", "1m"],
        _ if pages || RESOURCES.contains(&resource) => &UNITS,
        _ => return,
    };
    if quantity::nanos(text) != Some(0) && !accepted.contains(&text) {
        errors.push(FieldError::invalid(path, text, format!("accepted are {}", accepted.join(", "))));
    }
}

/// A reference to one key of a ConfigMap or Secret.
fn key_ref(errors: &mut Errors, path: &Path, reference: &Value) {
    check::dns_subdomain(errors, &path.child("name"), reference.str_at("name"));
    match reference.str_at("key") {
        "" => errors.push(FieldError::required(&path.child("key"), "")),
        key => check::all_of(errors, &path.child("key"), key, names::data_key(key)),
    }
}

/// A reference to one line of a file in a volume.
fn file_key(errors: &mut Errors, path: &Path, reference: &Value) {
    for field in ["key", "volumeName", "path"] {
        let (at, text) = (path.child(field), reference.str_at(field));
        match field {
            _ if text.is_empty() => errors.push(FieldError::required(&at, "")),
            "key" => check::all_of(errors, &at, text, names::env_name(text)),
            "volumeName" => check::dns_label(errors, &at, text),
            _ => paths::no_backsteps(errors, &at, text),
        }
    }
}

/// Files with variables must be in a volume that the containers of the pod share: an emptyDir.
pub(super) fn file_volumes(errors: &mut Errors, path: &Path, spec: &Value) {
    let volume = |name: &str| spec.list_at("volumes").iter().rfind(|volume| volume.str_at("name") == name);
    for list in ["initContainers", "containers", "ephemeralContainers"] {
        for (i, container) in spec.list_at(list).iter().enumerate() {
            for (j, variable) in container.list_at("env").iter().enumerate() {
                let reference = variable.at("valueFrom.fileKeyRef");
                if reference.is_null() {
                    continue;
                }
                let at = path.child(list).index(i).child("env").index(j).child("valueFrom").child("fileKeyRef");
                let (at, name) = (at.child("volumeName"), reference.str_at("volumeName"));
                match volume(name) {
                    None => errors.push(FieldError::not_found(&at, name)),
                    Some(volume) if volume.at("emptyDir").is_null() => {
                        errors.push(FieldError::invalid(&at, name, "must be an emptyDir volume"));
                    }
                    Some(_) => {}
                }
            }
        }
    }
}
