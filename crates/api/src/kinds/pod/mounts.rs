//! Where volumes show up in a container: mounts, and block devices.

use super::paths;
use crate::{
    error::FieldError,
    kinds::check::{self, Errors},
    object::Fields,
    path::Path,
};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// The volumes of a pod that mounts may refer to, by name.
pub(super) type Volumes<'a> = BTreeMap<&'a str, &'a Value>;

/// Mistakes in `volumeMounts` and `volumeDevices` of a container.
pub(super) fn validate(errors: &mut Errors, path: &Path, container: &Value, volumes: &Volumes<'_>) {
    mounts(errors, &path.child("volumeMounts"), container, volumes);
    devices(errors, &path.child("volumeDevices"), container, volumes);
}

fn mounts(errors: &mut Errors, path: &Path, container: &Value, volumes: &Volumes<'_>) {
    let devices = container.list_at("volumeDevices");
    let mut taken = BTreeSet::new();
    for (i, mount) in container.list_at("volumeMounts").iter().enumerate() {
        let at = path.index(i);
        let (name, target) = (mount.str_at("name"), mount.str_at("mountPath"));
        if name.is_empty() {
            errors.push(FieldError::required(&at.child("name"), ""));
        }
        if !volumes.contains_key(name) {
            errors.push(FieldError::not_found(&at.child("name"), name));
        }
        if target.is_empty() {
            errors.push(FieldError::required(&at.child("mountPath"), ""));
        }
        if !taken.insert(target) {
            errors.push(FieldError::invalid(&at.child("mountPath"), target, "is mounted twice"));
        }
        for (field, other, value) in [("name", "name", name), ("mountPath", "devicePath", target)] {
            if devices.iter().any(|device| device.str_at(other) == value) {
                errors.push(FieldError::invalid(&at.child(field), value, "is in volumeDevices too"));
            }
        }
        // Upstream names the list, not the mount, in these.
        for field in ["subPath", "subPathExpr"] {
            paths::below(errors, &path.child(field), mount.str_at(field));
        }
        if !mount.str_at("subPath").is_empty() && !mount.str_at("subPathExpr").is_empty() {
            let value = mount.str_at("subPathExpr");
            errors.push(FieldError::invalid(&at.child("subPathExpr"), value, "cannot stand beside subPath"));
        }
        propagation(errors, path, container, mount);
    }
}

/// How mounts inside a mount travel, and whether they are read-only too.
fn propagation(errors: &mut Errors, path: &Path, container: &Value, mount: &Value) {
    let mode = mount.at("mountPropagation").as_str();
    if let Some(mode) = mode {
        let at = path.child("mountPropagation");
        check::one_of(errors, &at, mode, &["Bidirectional", "HostToContainer", "None"]);
        if mode == "Bidirectional" && !container.is_true("securityContext.privileged") {
            errors.push(FieldError::forbidden(&at, "Bidirectional is for privileged containers"));
        }
    }
    let at = path.child("recursiveReadOnly");
    match mount.at("recursiveReadOnly").as_str() {
        None | Some("Disabled") => {}
        Some("Enabled" | "IfPossible") => {
            if !mount.is_true("readOnly") {
                errors.push(FieldError::forbidden(&at, "needs readOnly: true"));
            }
            if !matches!(mode, None | Some("None")) {
                errors.push(FieldError::forbidden(&at, "needs mountPropagation None"));
            }
        }
        Some(other) => errors.push(FieldError::not_supported(&at, other, &["Disabled", "Enabled", "IfPossible"])),
    }
}

fn devices(errors: &mut Errors, path: &Path, container: &Value, volumes: &Volumes<'_>) {
    let mounts = container.list_at("volumeMounts");
    let (mut names, mut targets) = (BTreeSet::new(), BTreeSet::new());
    for (i, device) in container.list_at("volumeDevices").iter().enumerate() {
        let at = path.index(i);
        let (name, target) = (device.str_at("name"), device.str_at("devicePath"));
        if name.is_empty() {
            errors.push(FieldError::required(&at.child("name"), ""));
        }
        if names.contains(name) {
            errors.push(FieldError::invalid(&at.child("name"), name, "is given twice"));
        }
        match volumes.get(name) {
            None => errors.push(FieldError::not_found(&at.child("name"), name)),
            Some(volume) if volume.at("persistentVolumeClaim").is_null() && volume.at("ephemeral").is_null() => {
                let text = "only a persistentVolumeClaim or ephemeral volume can be a device";
                errors.push(FieldError::invalid(&at.child("name"), name, text));
            }
            Some(_) => {}
        }
        if target.is_empty() {
            errors.push(FieldError::required(&at.child("devicePath"), ""));
        }
        if targets.contains(target) {
            errors.push(FieldError::invalid(&at.child("devicePath"), target, "is given twice"));
        }
        let before = errors.len();
        paths::no_backsteps(errors, &at.child("devicePath"), target);
        if errors.len() == before {
            targets.insert(target);
        }
        for (field, other, value) in [("name", "name", name), ("devicePath", "mountPath", target)] {
            if mounts.iter().any(|mount| mount.str_at(other) == value) {
                errors.push(FieldError::invalid(&at.child(field), value, "is in volumeMounts too"));
            }
        }
        if !name.is_empty() {
            names.insert(name);
        }
    }
}
