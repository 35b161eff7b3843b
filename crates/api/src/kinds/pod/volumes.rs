//! Volumes of a pod: names, exactly one source each, and the sources that are in use today.

use super::{containers, mounts::Volumes, paths, projections};
use crate::{
    error::FieldError,
    kinds::{
        check::{self, Errors},
        names, quantity,
        storage::claim_template,
    },
    object::Fields,
    path::Path,
};
use serde_json::Value;

/// Sources in the order in which the first one given counts as the right one. Those of storage that has left Kubernetes
/// are known by name only.
const SOURCES: [&str; 30] = [
    "emptyDir",
    "hostPath",
    "gitRepo",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "secret",
    "nfs",
    "iscsi",
    "glusterfs",
    "flocker",
    "persistentVolumeClaim",
    "rbd",
    "cinder",
    "cephfs",
    "quobyte",
    "downwardAPI",
    "fc",
    "flexVolume",
    "configMap",
    "azureFile",
    "vsphereVolume",
    "photonPersistentDisk",
    "portworxVolume",
    "azureDisk",
    "storageos",
    "projected",
    "scaleIO",
    "csi",
    "ephemeral",
    "image",
];

/// Checks the volumes; gives back those that mounts may refer to. `pod` is the name of the pod, empty in a template.
pub(super) fn validate<'a>(errors: &mut Errors, path: &Path, volumes: &'a [Value], pod: &str) -> Volumes<'a> {
    let mut known = Volumes::new();
    let made: Vec<String> = volumes
        .iter()
        .filter(|volume| !pod.is_empty() && !volume.at("ephemeral").is_null())
        .map(|volume| format!("{pod}-{}", volume.str_at("name")))
        .collect();
    for (i, volume) in volumes.iter().enumerate() {
        let at = path.index(i);
        let found = errors.len();
        sources(errors, &at, volume, pod);
        let name = volume.str_at("name");
        if name.is_empty() {
            errors.push(FieldError::required(&at.child("name"), ""));
        } else {
            check::dns_label(errors, &at.child("name"), name);
        }
        if known.contains_key(name) {
            errors.push(FieldError::duplicate(&at.child("name"), name));
        }
        if errors.len() == found {
            known.insert(name, volume);
        }
        let claim = volume.str_at("persistentVolumeClaim.claimName");
        if made.iter().any(|name| name == claim) {
            let at = at.child("persistentVolumeClaim").child("claimName");
            errors.push(FieldError::invalid(&at, claim, "is the claim of an ephemeral volume of this pod"));
        }
    }
    known
}

fn sources(errors: &mut Errors, path: &Path, volume: &Value, pod: &str) {
    let mut given = SOURCES.into_iter().filter(|kind| !volume.at(kind).is_null());
    let Some(kind) = given.next() else {
        errors.push(FieldError::required(path, "a volume needs one source, such as emptyDir"));
        return;
    };
    for extra in given {
        errors.push(FieldError::forbidden(&path.child(extra), "a volume has one source only"));
    }
    source(errors, path, volume, kind);
    if kind == "ephemeral" {
        let name = volume.str_at("name");
        if !pod.is_empty() && !name.is_empty() {
            let claim = format!("{pod}-{name}");
            check::all_of(errors, &path.child("name"), name, names::dns_subdomain(&claim, false));
        }
    }
}

/// What is wrong with the source of a volume; `PersistentVolume`s share some kinds of them.
pub(in crate::kinds) fn source(errors: &mut Errors, path: &Path, volume: &Value, kind: &str) {
    let (at, source) = (path.child(kind), volume.at(kind));
    let mut need = |field: &str| {
        if source.str_at(field).is_empty() {
            errors.push(FieldError::required(&at.child(field), ""));
        }
    };
    match kind {
        "emptyDir" => {
            let limit = source.at("sizeLimit").as_str().and_then(quantity::nanos);
            if limit.is_some_and(|limit| limit < 0) {
                errors.push(FieldError::forbidden(&at.child("sizeLimit"), "must be 0 or more"));
            }
        }
        "hostPath" => {
            need("path");
            paths::no_backsteps(errors, &at.child("path"), source.str_at("path"));
            let kinds =
                ["", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket"];
            check::one_of(errors, &at.child("type"), source.str_at("type"), &kinds);
        }
        "secret" => {
            need("secretName");
            projections::keys_and_mode(errors, &at, source);
        }
        "configMap" => {
            need("name");
            projections::keys_and_mode(errors, &at, source);
        }
        "persistentVolumeClaim" => need("claimName"),
        "nfs" => {
            need("server");
            need("path");
            if !source.str_at("path").starts_with('/') {
                errors.push(FieldError::invalid(&at.child("path"), source.str_at("path"), "must start with '/'"));
            }
        }
        "downwardAPI" => projections::downward(errors, &at, source),
        "projected" => projections::projected(errors, &at, source),
        "csi" => csi(errors, &at, source),
        "ephemeral" => {
            claim_template(errors, &at.child("volumeClaimTemplate"), source.at("volumeClaimTemplate"));
        }
        "image" => {
            need("reference");
            containers::pull_policy(errors, &at.child("pullPolicy"), source.str_at("pullPolicy"));
        }
        _ => {}
    }
}

fn csi(errors: &mut Errors, path: &Path, source: &Value) {
    let (at, driver) = (path.child("driver"), source.str_at("driver"));
    if driver.is_empty() {
        errors.push(FieldError::required(&at, ""));
    } else {
        if driver.len() > 63 {
            errors.push(FieldError::too_long(&at, 63));
        }
        check::dns_subdomain(errors, &at, &driver.to_lowercase());
    }
    let secret = source.at("nodePublishSecretRef");
    match secret.str_at("name") {
        "" if secret.is_object() => {
            errors.push(FieldError::required(&path.child("nodePublishSecretRef").child("name"), ""));
        }
        "" => {}
        // Upstream leaves the reference out of the path here.
        name => check::dns_subdomain(errors, &path.child("name"), name),
    }
}
