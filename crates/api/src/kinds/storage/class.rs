//! StorageClass and VolumeAttributesClass: who makes volumes and how. What a volume was made by does not change.

use crate::{
    error::FieldError,
    kinds::{
        check::{self, Errors},
        columns::{self, AGE, NAME},
        edit::fill,
        names,
    },
    object::Fields,
    path::Path,
    resource::{Column, Rules},
};
use serde_json::Value;

/// `true` on the class that claims get which name none.
const DEFAULT: [&str; 2] =
    ["storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class"];
/// The class of old claims and volumes.
pub const CLASS_ANNOTATION: &str = "volume.beta.kubernetes.io/storage-class";
const PARAMETERS_MOST: usize = 512;
const PARAMETERS_BYTES: usize = 256 * 1024;

/// Whether claims get this class which name none.
pub fn is_default(class: &Value) -> bool {
    let annotations = class.at("metadata.annotations");
    DEFAULT.iter().any(|key| annotations.get(key).is_some_and(|value| value == "true"))
}

/// Rules of storage.k8s.io/v1 StorageClass.
pub(in crate::kinds) struct StorageClass;

impl Rules for StorageClass {
    fn default(&self, class: &mut Value) {
        fill(class, "reclaimPolicy", "Delete");
        fill(class, "volumeBindingMode", "Immediate");
    }

    fn validate(&self, class: &Value) -> Errors {
        let mut errors = Errors::new();
        provisioner(&mut errors, &Path::new("provisioner"), class.str_at("provisioner"));
        parameters(&mut errors, class, Empty::Accepted);
        check::one_of(&mut errors, &Path::new("reclaimPolicy"), class.str_at("reclaimPolicy"), &["Delete", "Retain"]);
        let modes = ["Immediate", "WaitForFirstConsumer"];
        check::required_one_of(&mut errors, &Path::new("volumeBindingMode"), class.str_at("volumeBindingMode"), &modes);
        topologies(&mut errors, class.list_at("allowedTopologies"));
        errors
    }

    fn validate_update(&self, class: &Value, old: &Value) -> Errors {
        let mut errors = Errors::new();
        for field in ["parameters", "provisioner", "reclaimPolicy", "volumeBindingMode"] {
            check::immutable(&mut errors, &Path::new(field), class.at(field), old.at(field));
        }
        topologies(&mut errors, class.list_at("allowedTopologies"));
        errors
    }

    fn columns(&self) -> Vec<Column> {
        columns::columns(&[
            NAME,
            ("Provisioner", "string", 0, "Who makes volumes"),
            ("ReclaimPolicy", "string", 0, "What becomes of a volume whose claim is gone"),
            ("VolumeBindingMode", "string", 0, "When a claim gets its volume"),
            ("AllowVolumeExpansion", "string", 0, "Whether a claim may grow"),
            AGE,
        ])
    }

    fn cells(&self, class: &Value, now: jiff::Timestamp) -> Vec<Value> {
        let default = if is_default(class) { " (default)" } else { "" };
        vec![
            format!("{}{default}", class.str_at("metadata.name")).into(),
            class.at("provisioner").clone(),
            columns::or(class.str_at("reclaimPolicy"), "Delete").into(),
            columns::or(class.str_at("volumeBindingMode"), "Immediate").into(),
            class.is_true("allowVolumeExpansion").into(),
            columns::age(class, now),
        ]
    }
}

/// Rules of storage.k8s.io/v1 VolumeAttributesClass.
pub(in crate::kinds) struct VolumeAttributesClass;

impl Rules for VolumeAttributesClass {
    fn validate(&self, class: &Value) -> Errors {
        let mut errors = Errors::new();
        provisioner(&mut errors, &Path::new("driverName"), class.str_at("driverName"));
        parameters(&mut errors, class, Empty::Refused);
        errors
    }

    fn validate_update(&self, class: &Value, old: &Value) -> Errors {
        let mut errors = Errors::new();
        for field in ["driverName", "parameters"] {
            if !check::same(class.at(field), old.at(field)) {
                errors.push(FieldError::forbidden(&Path::new(field), format!("updates to {field} are forbidden.")));
            }
        }
        errors.extend(self.validate(class));
        errors
    }

    fn columns(&self) -> Vec<Column> {
        columns::columns(&[NAME, ("DriverName", "string", 0, "Whose volumes it is for"), AGE])
    }

    fn cells(&self, class: &Value, now: jiff::Timestamp) -> Vec<Value> {
        vec![columns::name(class), class.at("driverName").clone(), columns::age(class, now)]
    }
}

fn provisioner(errors: &mut Errors, path: &Path, name: &str) {
    match name {
        "" => errors.push(FieldError::required(path, "")),
        name => check::qualified_name(errors, path, &name.to_lowercase()),
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Empty {
    Accepted,
    Refused,
}

fn parameters(errors: &mut Errors, class: &Value, empty: Empty) {
    let path = Path::new("parameters");
    let given: Vec<(&String, &Value)> = class.map_at("parameters").into_iter().flatten().collect();
    if given.len() > PARAMETERS_MOST {
        errors.push(FieldError::too_long(&path, PARAMETERS_MOST));
        return;
    }
    if given.iter().any(|(key, _)| key.is_empty()) {
        errors.push(FieldError::invalid(&path, "", "field can not be empty."));
    }
    let size: usize = given.iter().map(|(key, value)| key.len() + value.as_str().unwrap_or_default().len()).sum();
    if size > PARAMETERS_BYTES {
        errors.push(FieldError::too_long(&path, PARAMETERS_BYTES));
    }
    if empty == Empty::Refused && given.is_empty() {
        errors.push(FieldError::required(&path, "must contain at least one key/value pair"));
    }
}

fn topologies(errors: &mut Errors, terms: &[Value]) {
    let path = Path::new("allowedTopologies");
    for (i, term) in terms.iter().enumerate() {
        let at = path.index(i).child("matchLabelExpressions");
        let rules = term.list_at("matchLabelExpressions");
        for (j, rule) in rules.iter().enumerate() {
            let at = at.index(j);
            check::qualified_name(errors, &at.child("key"), rule.str_at("key"));
            let values = check::texts(rule, "values");
            if values.is_empty() {
                errors.push(FieldError::required(&at.child("values"), ""));
            }
            for (k, value) in values.iter().enumerate() {
                check::all_of(errors, &at.child("values").index(k), value, names::label_value(value));
                if values[..k].contains(value) {
                    errors.push(FieldError::duplicate(&at.child("values").index(k), *value));
                }
            }
            if rules[..j].iter().any(|other| other.at("key") == rule.at("key")) {
                errors.push(FieldError::duplicate(&at.child("key"), rule.str_at("key")));
            }
        }
        if terms[..i].contains(term) {
            errors.push(FieldError::duplicate(&at, ""));
        }
    }
}
