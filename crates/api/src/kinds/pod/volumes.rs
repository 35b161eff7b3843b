//! Volumes of a pod: names, exactly one source each, and the sources that this project's users meet.

use crate::{
    error::FieldError,
    kinds::{
        check::{self, Errors},
        names,
    },
    object::Fields,
    path::Path,
};
use serde_json::Value;
use std::collections::BTreeSet;

/// Checks the volumes; gives back the names that mounts may refer to.
pub(super) fn validate<'a>(errors: &mut Errors, path: &Path, volumes: &'a [Value]) -> BTreeSet<&'a str> {
    let mut known = BTreeSet::new();
    for (i, volume) in volumes.iter().enumerate() {
        let at = path.index(i);
        let found = errors.len();
        sources(errors, &at, volume);
        let name = volume.str_at("name");
        if name.is_empty() {
            errors.push(FieldError::required(&at.child("name"), ""));
        } else {
            check::dns_label(errors, &at.child("name"), name);
        }
        if known.contains(name) {
            errors.push(FieldError::duplicate(&at.child("name"), name));
        }
        if errors.len() == found {
            known.insert(name);
        }
    }
    known
}

fn sources(errors: &mut Errors, path: &Path, volume: &Value) {
    let mut given = volume.as_object().into_iter().flatten().filter(|(key, value)| *key != "name" && !value.is_null());
    let Some((kind, source)) = given.next() else {
        errors.push(FieldError::required(path, "a volume needs one source, such as emptyDir"));
        return;
    };
    for (extra, _) in given {
        errors.push(FieldError::forbidden(&path.child(extra), "a volume has one source only"));
    }
    let at = path.child(kind);
    match kind.as_str() {
        "hostPath" => {
            let host_path = source.str_at("path");
            if host_path.is_empty() {
                errors.push(FieldError::required(&at.child("path"), ""));
            }
            no_backsteps(errors, &at.child("path"), host_path);
            let kinds = ["", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket"];
            check::one_of(errors, &at.child("type"), source.str_at("type"), &kinds);
        }
        "secret" => {
            if source.str_at("secretName").is_empty() {
                errors.push(FieldError::required(&at.child("secretName"), ""));
            }
            mode(errors, &at.child("defaultMode"), source.at("defaultMode"));
            keys(errors, &at.child("items"), source);
        }
        "configMap" => {
            if source.str_at("name").is_empty() {
                errors.push(FieldError::required(&at.child("name"), ""));
            }
            mode(errors, &at.child("defaultMode"), source.at("defaultMode"));
            keys(errors, &at.child("items"), source);
        }
        "persistentVolumeClaim" if source.str_at("claimName").is_empty() => {
            errors.push(FieldError::required(&at.child("claimName"), ""));
        }
        "nfs" => {
            for field in ["server", "path"] {
                if source.str_at(field).is_empty() {
                    errors.push(FieldError::required(&at.child(field), ""));
                }
            }
            let exported = source.str_at("path");
            if !exported.is_empty() && !exported.starts_with('/') {
                errors.push(FieldError::invalid(&at.child("path"), exported, "must start with '/'"));
            }
        }
        "downwardAPI" => {
            mode(errors, &at.child("defaultMode"), source.at("defaultMode"));
            downward_files(errors, &at, source);
        }
        "projected" => projected(errors, &at, source),
        "csi" if source.str_at("driver").is_empty() => errors.push(FieldError::required(&at.child("driver"), "")),
        _ => {}
    }
}

fn projected(errors: &mut Errors, path: &Path, source: &Value) {
    mode(errors, &path.child("defaultMode"), source.at("defaultMode"));
    for (i, part) in source.list_at("sources").iter().enumerate() {
        let at = path.child("sources").index(i);
        let mut given = part.as_object().into_iter().flatten().filter(|(_, value)| !value.is_null());
        let Some((kind, projection)) = given.next() else { continue };
        for (extra, _) in given {
            errors.push(FieldError::forbidden(&at.child(extra), "a projection has one source only"));
        }
        let here = at.child(kind);
        match kind.as_str() {
            "secret" | "configMap" => {
                if projection.str_at("name").is_empty() {
                    errors.push(FieldError::required(&here.child("name"), ""));
                }
                keys(errors, &here.child("items"), projection);
            }
            "downwardAPI" => downward_files(errors, &here, projection),
            "serviceAccountToken" => {
                if projection.str_at("path").is_empty() {
                    errors.push(FieldError::required(&here.child("path"), ""));
                }
                local_path(errors, &here.child("path"), projection.str_at("path"));
                if let Some(seconds) = projection.int_at("expirationSeconds") {
                    check::in_range(errors, &here.child("expirationSeconds"), seconds, 600, 1 << 32);
                }
            }
            _ => {}
        }
    }
}

fn downward_files(errors: &mut Errors, path: &Path, source: &Value) {
    for (i, file) in source.list_at("items").iter().enumerate() {
        let at = path.child("items").index(i);
        if file.str_at("path").is_empty() {
            errors.push(FieldError::required(&at.child("path"), ""));
        }
        local_path(errors, &at.child("path"), file.str_at("path"));
        if file.at("fieldRef").is_null() && file.at("resourceFieldRef").is_null() {
            errors.push(FieldError::required(&at, "fieldRef or resourceFieldRef"));
        }
        mode(errors, &at.child("mode"), file.at("mode"));
    }
}

fn keys(errors: &mut Errors, path: &Path, source: &Value) {
    for (i, item) in source.list_at("items").iter().enumerate() {
        let at = path.index(i);
        for field in ["key", "path"] {
            if item.str_at(field).is_empty() {
                errors.push(FieldError::required(&at.child(field), ""));
            }
        }
        local_path(errors, &at.child("path"), item.str_at("path"));
        mode(errors, &at.child("mode"), item.at("mode"));
    }
}

fn mode(errors: &mut Errors, path: &Path, mode: &Value) {
    if let Some(bits) = mode.as_i64().filter(|bits| !(0..=0o777).contains(bits)) {
        errors.push(FieldError::invalid(path, bits, "must be between 0 and 0777 (octal)"));
    }
}

/// A path below the volume: relative, never up.
pub(super) fn local_path(errors: &mut Errors, path: &Path, value: &str) {
    if value.starts_with('/') {
        errors.push(FieldError::invalid(path, value, "must be relative: no '/' first"));
    }
    no_backsteps(errors, path, value);
}

fn no_backsteps(errors: &mut Errors, path: &Path, value: &str) {
    if value.split('/').any(|part| part == "..") {
        errors.push(FieldError::invalid(path, value, "'..' is not accepted as a part of it"));
    }
}

/// A reference to one key of a ConfigMap or Secret.
pub(super) fn key_ref(errors: &mut Errors, path: &Path, reference: &Value) {
    check::dns_subdomain(errors, &path.child("name"), reference.str_at("name"));
    match reference.str_at("key") {
        "" => errors.push(FieldError::required(&path.child("key"), "")),
        key => check::all_of(errors, &path.child("key"), key, names::data_key(key)),
    }
}
