//! VolumeAttachment: a volume that should be at a node, and what its driver says of it.

use super::{driver_name, volume};
use crate::{
    error::FieldError,
    kinds::{
        check::{self, Errors},
        columns::{self, AGE, NAME},
    },
    object::Fields,
    path::Path,
    resource::{Column, Rules, take_over},
};
use serde_json::{Value, json};

const METADATA_BYTES: usize = 256 * 1024;
const MESSAGE_BYTES: usize = 1024;

/// Rules of storage.k8s.io/v1 VolumeAttachment.
pub(in crate::kinds) struct VolumeAttachment;

impl Rules for VolumeAttachment {
    fn prepare_create(&self, attachment: &mut Value) {
        attachment.set("status", json!({"attached": false}));
    }

    fn prepare_update(&self, attachment: &mut Value, old: &Value) {
        take_over(attachment, old, "status");
    }

    fn validate(&self, attachment: &Value) -> Errors {
        let mut errors = Errors::new();
        let (path, spec) = (Path::new("spec"), attachment.at("spec"));
        driver_name(&mut errors, &path.child("attacher"), spec.str_at("attacher"));
        source(&mut errors, &path.child("source"), spec.at("source"));
        check::dns_subdomain(&mut errors, &path.child("nodeName"), spec.str_at("nodeName"));
        status(&mut errors, attachment.at("status"));
        errors
    }

    fn validate_update(&self, attachment: &Value, old: &Value) -> Errors {
        let mut errors = self.validate(attachment);
        check::immutable(&mut errors, &Path::new("spec"), attachment.at("spec"), old.at("spec"));
        errors
    }

    fn validate_status(&self, attachment: &Value, _old: &Value) -> Errors {
        self.validate(attachment)
    }

    fn unconditional_update(&self) -> bool {
        false
    }

    fn columns(&self) -> Vec<Column> {
        columns::columns(&[
            NAME,
            ("Attacher", "string", 0, "The driver that attaches it"),
            ("PV", "string", 0, "The volume"),
            ("Node", "string", 0, "Where it should be"),
            ("Attached", "boolean", 0, "Whether it is there"),
            AGE,
        ])
        .into_iter()
        .map(|mut column| {
            // As upstream has it: the driver's name is a name too.
            if column.name == "Attacher" {
                column.format = "name".to_owned();
            }
            column
        })
        .collect()
    }

    fn cells(&self, attachment: &Value, now: jiff::Timestamp) -> Vec<Value> {
        vec![
            columns::name(attachment),
            attachment.str_at("spec.attacher").into(),
            attachment.str_at("spec.source.persistentVolumeName").into(),
            attachment.str_at("spec.nodeName").into(),
            attachment.is_true("status.attached").into(),
            columns::age(attachment, now),
        ]
    }
}

fn source(errors: &mut Errors, path: &Path, source: &Value) {
    let text = "must specify exactly one of inlineVolumeSpec and persistentVolumeName";
    match (source.at("inlineVolumeSpec"), source.at("persistentVolumeName")) {
        (Value::Null, Value::Null) => errors.push(FieldError::required(path, text)),
        (Value::Null, name) => match name.as_str().unwrap_or_default() {
            "" => {
                let text = "must specify non empty persistentVolumeName";
                errors.push(FieldError::required(&path.child("persistentVolumeName"), text));
            }
            name => check::dns_subdomain(errors, &path.child("persistentVolumeName"), name),
        },
        (spec, Value::Null) => volume::inline(errors, &path.child("inlineVolumeSpec"), spec),
        _ => errors.push(FieldError::forbidden(path, text)),
    }
}

fn status(errors: &mut Errors, status: &Value) {
    let path = Path::new("status");
    let metadata = status.map_at("attachmentMetadata").into_iter().flatten();
    let size: usize = metadata.map(|(key, value)| key.len() + value.as_str().unwrap_or_default().len()).sum();
    if size > METADATA_BYTES {
        errors.push(FieldError::too_long(&path.child("attachmentMetadata"), METADATA_BYTES));
    }
    for field in ["attachError", "detachError"] {
        let error = status.at(field);
        if error.str_at("message").len() > MESSAGE_BYTES {
            errors.push(FieldError::too_long(&path.child(field).child("message"), MESSAGE_BYTES));
        }
        check::not_negative(errors, &path.child(field), error, "errorCode");
    }
}
