//! Files that Kubernetes writes into volumes: keys of ConfigMaps and Secrets, facts about the pod, tokens.

use super::{
    environment::{self, RefTarget},
    paths,
};
use crate::{
    error::FieldError,
    kinds::{
        certificates::projected,
        check::{self, Errors},
    },
    object::Fields,
    path::Path,
};
use serde_json::Value;
use std::collections::BTreeSet;

/// Mistakes in a projected volume: several sources in one directory.
pub(super) fn projected(errors: &mut Errors, path: &Path, source: &Value) {
    mode(errors, &path.child("defaultMode"), source.at("defaultMode"));
    let mut taken = BTreeSet::new();
    for (i, part) in source.list_at("sources").iter().enumerate() {
        let at = path.child("sources").index(i);
        let given: Vec<_> = part.as_object().into_iter().flatten().filter(|(_, value)| !value.is_null()).collect();
        for (kind, projection) in &given {
            let here = at.child(kind);
            let mut written: Vec<&str> = projection.list_at("items").iter().map(|item| item.str_at("path")).collect();
            match kind.as_str() {
                "secret" | "configMap" => {
                    if projection.str_at("name").is_empty() {
                        errors.push(FieldError::required(&here.child("name"), ""));
                    }
                    keys(errors, &here.child("items"), projection);
                }
                "downwardAPI" => downward_files(errors, &here, projection),
                "serviceAccountToken" => token(errors, path, &here, projection),
                "clusterTrustBundle" => {
                    bundle(errors, &here, projection);
                    written.push(projection.str_at("path"));
                }
                "podCertificate" => {
                    projected::projected(errors, &here, projection);
                    for field in projected::FILES {
                        paths::file(errors, &here.child(field), projection.str_at(field));
                        written.push(projection.str_at(field));
                    }
                }
                _ => {}
            }
            let files = written.into_iter().filter(|file| !file.is_empty());
            for file in files.filter(|file| !taken.insert(*file)) {
                errors.push(FieldError::invalid(path, file, "is written by two sources"));
            }
        }
        if given.len() > 1 {
            errors.push(FieldError::forbidden(&at, "a projection has one source only"));
        }
    }
}

/// `path` is that of the volume: upstream says there what is wrong with the token's file.
fn token(errors: &mut Errors, path: &Path, here: &Path, token: &Value) {
    let at = here.child("expirationSeconds");
    match token.int_at("expirationSeconds") {
        None => errors.push(FieldError::required(&at, "")),
        Some(seconds) => check::in_range(errors, &at, seconds, 600, 1 << 32),
    }
    match token.str_at("path") {
        "" => errors.push(FieldError::required(&path.child("path"), "")),
        file => paths::file(errors, &path.child("path"), file),
    }
}

fn bundle(errors: &mut Errors, path: &Path, bundle: &Value) {
    match (bundle.at("name").as_str(), bundle.at("signerName").as_str()) {
        (Some(_), Some(_)) => {
            errors.push(FieldError::invalid(path, bundle.clone(), "must have one of name and signerName"))
        }
        (None, None) => errors.push(FieldError::required(path, "name or signerName")),
        (Some(""), None) => errors.push(FieldError::required(&path.child("name"), "")),
        (None, Some("")) => errors.push(FieldError::required(&path.child("signerName"), "")),
        _ => {}
    }
    if bundle.str_at("path").is_empty() {
        errors.push(FieldError::required(&path.child("path"), ""));
    }
    paths::file(errors, &path.child("path"), bundle.str_at("path"));
}

/// Mistakes in a volume with facts about the pod.
pub(super) fn downward(errors: &mut Errors, path: &Path, source: &Value) {
    mode(errors, &path.child("defaultMode"), source.at("defaultMode"));
    downward_files(errors, path, source);
}

/// Upstream names the volume, not the item, in these.
fn downward_files(errors: &mut Errors, path: &Path, source: &Value) {
    for file in source.list_at("items") {
        if file.str_at("path").is_empty() {
            errors.push(FieldError::required(&path.child("path"), ""));
        }
        paths::file(errors, &path.child("path"), file.str_at("path"));
        let (field, resource) = (file.at("fieldRef"), file.at("resourceFieldRef"));
        if field.is_object() {
            environment::field_ref(errors, &path.child("fieldRef"), field, RefTarget::File);
            if resource.is_object() {
                errors.push(FieldError::invalid(
                    path,
                    "resource",
                    "must have one of fieldRef and resourceFieldRef, not both",
                ));
            }
        } else if resource.is_object() {
            environment::resource_ref(errors, &path.child("resourceFieldRef"), resource, RefTarget::File);
        } else {
            errors.push(FieldError::required(path, "fieldRef or resourceFieldRef"));
        }
        mode(errors, &path.child("mode"), file.at("mode"));
    }
}

/// Mistakes in the keys and the mode of a Secret or ConfigMap volume.
pub(super) fn keys_and_mode(errors: &mut Errors, path: &Path, source: &Value) {
    mode(errors, &path.child("defaultMode"), source.at("defaultMode"));
    keys(errors, &path.child("items"), source);
}

fn keys(errors: &mut Errors, path: &Path, source: &Value) {
    for (i, item) in source.list_at("items").iter().enumerate() {
        let at = path.index(i);
        for field in ["key", "path"] {
            if item.str_at(field).is_empty() {
                errors.push(FieldError::required(&at.child(field), ""));
            }
        }
        paths::file(errors, &at.child("path"), item.str_at("path"));
        mode(errors, &at.child("mode"), item.at("mode"));
    }
}

fn mode(errors: &mut Errors, path: &Path, mode: &Value) {
    if let Some(bits) = mode.as_i64().filter(|bits| !(0..=0o777).contains(bits)) {
        errors.push(FieldError::invalid(path, bits, "must be between 0 and 0777 (octal)"));
    }
}
