//! PersistentVolume: where something is stored. What it stands for never changes; who has it does.

use super::{CLASS_ANNOTATION, VOLUME_MODES, access_modes, class_name, driver_name, modes_text};
use crate::{
    error::FieldError,
    kinds::{
        check::{self, Errors},
        columns::{self, AGE, NAME},
        edit::fill,
        pod, quantity,
    },
    object::Fields,
    path::Path,
    resource::{Column, Rules, take_over},
};
use serde_json::{Value, json};

/// What a volume can be; upstream's order of checking.
const SOURCES: [&str; 22] = [
    "hostPath",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "glusterfs",
    "flocker",
    "nfs",
    "rbd",
    "quobyte",
    "cephfs",
    "iscsi",
    "cinder",
    "fc",
    "flexVolume",
    "azureFile",
    "vsphereVolume",
    "photonPersistentDisk",
    "portworxVolume",
    "azureDisk",
    "scaleIO",
    "local",
    "storageos",
    "csi",
];

/// Rules of v1 PersistentVolume.
pub(in crate::kinds) struct PersistentVolume;

impl Rules for PersistentVolume {
    fn default(&self, volume: &mut Value) {
        let spec = volume.at_mut("spec");
        if spec.is_null() {
            *spec = json!({});
        }
        fill(spec, "persistentVolumeReclaimPolicy", "Retain");
        fill(spec, "volumeMode", "Filesystem");
        if let Some(path) = spec.get_mut("hostPath").filter(|path| path.is_object()) {
            path.set_default("type", "");
        }
        if volume.at("status").is_null() {
            volume.set("status", json!({}));
        }
        fill(volume.at_mut("status"), "phase", "Pending");
    }

    fn prepare_create(&self, volume: &mut Value) {
        volume.set("status", json!({"phase": "Pending"}));
    }

    fn prepare_update(&self, volume: &mut Value, old: &Value) {
        take_over(volume, old, "status");
    }

    fn validate(&self, volume: &Value) -> Errors {
        let mut errors = Errors::new();
        let (path, spec) = (Path::new("spec"), volume.at("spec"));
        capacity(&mut errors, &path, spec);
        common(&mut errors, &path, spec);
        let policies = ["Delete", "Recycle", "Retain"];
        let policy = spec.str_at("persistentVolumeReclaimPolicy");
        check::one_of(&mut errors, &path.child("persistentVolumeReclaimPolicy"), policy, &policies);
        let is_root = spec.str_at("hostPath.path").split('/').all(|part| part.is_empty() || part == ".");
        if policy == "Recycle" && is_root && !spec.at("hostPath").is_null() {
            let text = "may not be 'recycle' for a hostPath mount of '/'";
            errors.push(FieldError::forbidden(&path.child("persistentVolumeReclaimPolicy"), text));
        }
        let affinity = spec.at("nodeAffinity");
        if !affinity.is_null() {
            let at = path.child("nodeAffinity").child("required");
            match affinity.at("required") {
                Value::Null => errors.push(FieldError::required(&at, "must specify required node constraints")),
                required => pod::node_selector(&mut errors, &at, required),
            }
        } else if !spec.at("local").is_null() {
            errors.push(FieldError::required(&path.child("nodeAffinity"), "Local volume requires node affinity"));
        }
        class_name(&mut errors, &path, spec, "storageClassName");
        check::one_of(&mut errors, &path.child("volumeMode"), spec.str_at("volumeMode"), &VOLUME_MODES);
        if !spec.at("volumeAttributesClassName").is_null() {
            class_name(&mut errors, &path, spec, "volumeAttributesClassName");
            if spec.at("csi").is_null() {
                let text = "has to be specified when using volumeAttributesClassName";
                errors.push(FieldError::required(&path.child("csi"), text));
            }
        }
        errors
    }

    fn validate_update(&self, volume: &Value, old: &Value) -> Errors {
        let mut errors = self.validate(volume);
        let path = Path::new("spec");
        // A secret that growing needs may be added to an old volume.
        let source = |object: &Value, field: &str| {
            let mut source = object.at("spec").at(field).clone();
            if old.at("spec.csi.controllerExpandSecretRef").is_null() {
                source.remove("controllerExpandSecretRef");
            }
            source
        };
        if SOURCES.iter().any(|field| !check::same(&source(volume, field), &source(old, field))) {
            let text = "spec.persistentvolumesource is immutable after creation";
            errors.push(FieldError::forbidden(&path.child("persistentvolumesource"), text));
        }
        check::immutable(
            &mut errors,
            &Path::new("volumeMode"),
            volume.at("spec.volumeMode"),
            old.at("spec.volumeMode"),
        );
        let (affinity, had) = (volume.at("spec.nodeAffinity"), old.at("spec.nodeAffinity"));
        if !had.is_null() {
            check::immutable(&mut errors, &Path::new("nodeAffinity"), affinity, had);
        }
        let class = "spec.volumeAttributesClassName";
        if !old.at(class).is_null() && volume.at(class).is_null() {
            let text = "update from non-nil value to nil is forbidden";
            errors.push(FieldError::forbidden(&path.child("volumeAttributesClassName"), text));
        }
        errors
    }

    fn columns(&self) -> Vec<Column> {
        columns::columns(&[
            NAME,
            ("Capacity", "string", 0, "How much it holds"),
            ("Access Modes", "string", 0, "How it can be used"),
            ("Reclaim Policy", "string", 0, "What becomes of it when its claim is gone"),
            ("Status", "string", 0, "Whether somebody has it"),
            ("Claim", "string", 0, "Who has it"),
            ("StorageClass", "string", 0, "What made it"),
            ("VolumeAttributesClass", "string", 0, "What it is like"),
            ("Reason", "string", 0, "Why its status is what it is"),
            AGE,
            ("VolumeMode", "string", 1, "Files, or a block device"),
        ])
    }

    fn cells(&self, volume: &Value, now: jiff::Timestamp) -> Vec<Value> {
        let claim = match volume.at("spec.claimRef") {
            Value::Null => String::new(),
            claim => format!("{}/{}", claim.str_at("namespace"), claim.str_at("name")),
        };
        let phase = match volume.at("metadata.deletionTimestamp") {
            Value::Null => volume.str_at("status.phase"),
            _ => "Terminating",
        };
        let annotation = volume.at("metadata.annotations").get(CLASS_ANNOTATION).and_then(Value::as_str);
        vec![
            columns::name(volume),
            columns::or(volume.str_at("spec.capacity.storage"), "0").into(),
            modes_text(volume.list_at("spec.accessModes")).into(),
            volume.str_at("spec.persistentVolumeReclaimPolicy").into(),
            phase.into(),
            claim.into(),
            annotation.unwrap_or_else(|| volume.str_at("spec.storageClassName")).into(),
            columns::or(volume.str_at("spec.volumeAttributesClassName"), "<unset>").into(),
            volume.str_at("status.reason").into(),
            columns::age(volume, now),
            columns::or(volume.str_at("spec.volumeMode"), "<unset>").into(),
        ]
    }
}

fn capacity(errors: &mut Errors, path: &Path, spec: &Value) {
    let at = path.child("capacity");
    let given: Vec<(&String, &Value)> = spec.map_at("capacity").into_iter().flatten().collect();
    if given.is_empty() {
        errors.push(FieldError::required(&at, ""));
    }
    if given.len() != 1 || given[0].0 != "storage" {
        errors.push(FieldError::not_supported(&at, spec.at("capacity").clone(), &["storage"]));
    }
    for (name, amount) in given {
        if amount.as_str().and_then(quantity::nanos).is_none_or(|amount| amount <= 0) {
            errors.push(FieldError::invalid(&at.key(name), amount.clone(), "must be greater than zero"));
        }
    }
}

/// What a volume and one that is described in an attachment have in common.
fn common(errors: &mut Errors, path: &Path, spec: &Value) {
    access_modes(errors, path, spec);
    let mut given = SOURCES.into_iter().filter(|kind| !spec.at(kind).is_null());
    let Some(kind) = given.next() else {
        errors.push(FieldError::required(path, "must specify a volume type"));
        return;
    };
    for extra in given {
        errors.push(FieldError::forbidden(&path.child(extra), "may not specify more than 1 volume type"));
    }
    let (at, source) = (path.child(kind), spec.at(kind));
    match kind {
        "local" => match source.str_at("path") {
            "" => errors.push(FieldError::required(&at.child("path"), "")),
            text => pod::no_backsteps(errors, &at.child("path"), text),
        },
        "csi" => csi(errors, &at, source),
        // The same as in a pod, which has them without the volume in between.
        "hostPath" | "nfs" => pod::volume_source(errors, path, spec, kind),
        _ => {}
    }
}

fn csi(errors: &mut Errors, path: &Path, source: &Value) {
    driver_name(errors, &path.child("driver"), source.str_at("driver"));
    if source.str_at("volumeHandle").is_empty() {
        errors.push(FieldError::required(&path.child("volumeHandle"), ""));
    }
    let secrets =
        ["controllerPublishSecretRef", "controllerExpandSecretRef", "nodePublishSecretRef", "nodeExpandSecretRef"];
    for (secret, field) in secrets.into_iter().flat_map(|secret| [(secret, "name"), (secret, "namespace")]) {
        if !source.at(secret).is_null() && source.at(secret).str_at(field).is_empty() {
            errors.push(FieldError::required(&path.child(secret).child(field), ""));
        }
    }
}

/// A volume that is described where it is attached: a driver's, and nothing that says who has it.
pub(super) fn inline(errors: &mut Errors, path: &Path, spec: &Value) {
    for field in ["claimRef", "capacity", "nodeAffinity", "storageClassName"] {
        if !spec.at(field).is_null() {
            let text = "may not be specified in the context of inline volumes";
            errors.push(FieldError::forbidden(&path.child(field), text));
        }
    }
    if spec.at("csi").is_null() {
        let text = "has to be specified in the context of inline volumes";
        errors.push(FieldError::required(&path.child("csi"), text));
    }
    let policy = spec.str_at("persistentVolumeReclaimPolicy");
    if !policy.is_empty() && policy != "Retain" {
        let text = "may only be Retain in the context of inline volumes";
        errors.push(FieldError::forbidden(&path.child("persistentVolumeReclaimPolicy"), text));
    }
    if spec.str_at("volumeMode") == "Block" {
        let text = "may not specify volumeMode other than Filesystem in the context of inline volumes";
        errors.push(FieldError::forbidden(&path.child("volumeMode"), text));
    }
    common(errors, path, spec);
}
