//! What claims and volumes ask of the server: a class where none is named, protection while they are in use, growth only where the
//! class allows it.
//!
//! Mirrors upstream's plugins DefaultStorageClass, StorageObjectInUseProtection and PersistentVolumeClaimResize.

use super::{default_class, limit_ranger};
use crate::{
    call::Call,
    kinds::{Later, ServerRules, done},
};
use api::{
    error::ApiError,
    kinds::{
        quantity,
        storage::{CLAIM_PROTECTION, CLASS_ANNOTATION, VOLUME_PROTECTION, is_default},
    },
    object::{Fields, timestamp},
};
use futures::future::FutureExt;
use serde_json::{Value, json};

const STORAGE: &str = "spec.resources.requests.storage";

/// PersistentVolumeClaims.
pub(crate) struct ClaimKind;

impl ServerRules for ClaimKind {
    fn admit_new<'a>(&self, call: &'a Call, claim: &'a mut Value) -> Later<'a, ()> {
        async move {
            protect(claim, CLAIM_PROTECTION);
            let named = !claim.at("spec.storageClassName").is_null()
                || claim.at("metadata.annotations").get(CLASS_ANNOTATION).is_some();
            if !named && let Some(class) = default_class::newest(call, "storageclasses", is_default).await? {
                claim.set("spec.storageClassName", class);
            }
            Ok(())
        }
        .boxed()
    }

    fn check<'a>(&self, call: &'a Call, claim: &'a Value, old: Option<&'a Value>) -> Later<'a, ()> {
        async move {
            if let Some(old) = old
                && call.request.subresource.is_empty()
            {
                may_grow(call, claim, old)?;
            }
            limit_ranger::check_claim(call, claim, old).await
        }
        .boxed()
    }
}

/// PersistentVolumes.
pub(crate) struct VolumeKind;

impl ServerRules for VolumeKind {
    fn admit_new<'a>(&self, _call: &'a Call, volume: &'a mut Value) -> Later<'a, ()> {
        protect(volume, VOLUME_PROTECTION);
        done(Ok(()))
    }

    fn admit_change<'a>(&self, call: &'a Call, volume: &'a mut Value, old: &'a Value) -> Later<'a, ()> {
        let phase = |object: &Value| object.str_at("status.phase").to_owned();
        if call.request.subresource == "status" && phase(volume) != phase(old) {
            volume.set("status.lastPhaseTransitionTime", timestamp(call.server.now()));
        }
        done(Ok(()))
    }
}

fn protect(object: &mut Value, finalizer: &str) {
    let mut finalizers = object.list_at("metadata.finalizers").to_vec();
    if !finalizers.iter().any(|known| known == finalizer) {
        finalizers.push(finalizer.into());
        object.set("metadata.finalizers", json!(finalizers));
    }
}

fn may_grow(call: &Call, claim: &Value, old: &Value) -> Result<(), ApiError> {
    let amount = |object: &Value| quantity::nanos(object.str_at(STORAGE)).unwrap_or_default();
    if amount(claim) <= amount(old) {
        return Ok(());
    }
    let class = format!("storageclasses/{}", claim.str_at("spec.storageClassName"));
    let why = match call.server.object(&class) {
        _ if old.str_at("status.phase") != "Bound" => "Only bound persistent volume claims can be expanded",
        Some(class) if class.is_true("allowVolumeExpansion") => return Ok(()),
        _ => {
            "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must support \
             resize"
        }
    };
    Err(ApiError::forbidden("persistentvolumeclaims", "", &call.request.name, why))
}
