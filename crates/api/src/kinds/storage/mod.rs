//! Kinds of storage: volumes, claims, classes, attachments, and what drivers say of themselves.

mod attachment;
mod claim;
mod class;
mod csi;
#[cfg(test)]
mod tests;
mod volume;

pub(super) use attachment::VolumeAttachment;
pub(super) use claim::{PersistentVolumeClaim, template as claim_template};
pub use class::{CLASS_ANNOTATION, is_default};
pub(super) use class::{StorageClass, VolumeAttributesClass};
pub(super) use csi::{CsiDriver, CsiNode, CsiStorageCapacity};
pub(super) use volume::PersistentVolume;

use super::check::{self, Errors};
use crate::{error::FieldError, object::Fields, path::Path};
use serde_json::Value;

/// The finalizer of a claim that a pod may use.
pub const CLAIM_PROTECTION: &str = "kubernetes.io/pvc-protection";
/// The finalizer of a volume that a claim is bound to.
pub const VOLUME_PROTECTION: &str = "kubernetes.io/pv-protection";

const ACCESS_MODES: [&str; 4] = ["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];
const VOLUME_MODES: [&str; 2] = ["Block", "Filesystem"];

fn access_modes(errors: &mut Errors, path: &Path, spec: &Value) {
    let modes = check::texts(spec, "accessModes");
    let at = path.child("accessModes");
    if modes.is_empty() {
        errors.push(FieldError::required(&at, "at least one"));
    }
    for mode in &modes {
        check::one_of(errors, &at, mode, &ACCESS_MODES);
    }
    if modes.contains(&ACCESS_MODES[3]) && modes.iter().any(|mode| ACCESS_MODES[..3].contains(mode)) {
        errors.push(FieldError::forbidden(&at, "may not use ReadWriteOncePod with other access modes"));
    }
}

/// `RWO,ROX`, in upstream's order.
fn modes_text(modes: &[Value]) -> String {
    let has = |mode: &str| modes.iter().any(|known| known == mode);
    let short =
        [("ReadWriteOnce", "RWO"), ("ReadOnlyMany", "ROX"), ("ReadWriteMany", "RWX"), ("ReadWriteOncePod", "RWOP")];
    short.iter().filter(|(mode, _)| has(mode)).map(|(_, text)| *text).collect::<Vec<_>>().join(",")
}

/// A class name, unless it is empty.
fn class_name(errors: &mut Errors, path: &Path, spec: &Value, field: &str) {
    match spec.str_at(field) {
        "" => {}
        name => check::dns_subdomain(errors, &path.child(field), name),
    }
}

/// The name of a CSI driver.
fn driver_name(errors: &mut Errors, path: &Path, name: &str) {
    if name.is_empty() {
        errors.push(FieldError::required(path, ""));
        return;
    }
    if name.len() > 63 {
        errors.push(FieldError::too_long(path, 63));
    }
    check::dns_subdomain(errors, path, &name.to_lowercase());
}
