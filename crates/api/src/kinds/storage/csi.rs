//! What drivers say of themselves: CSIDriver, CSINode and CSIStorageCapacity.

use super::{ACCESS_MODES, VOLUME_MODES, driver_name};
use crate::{
    error::FieldError,
    kinds::{
        check::{self, Errors},
        columns::{self, AGE, NAME},
        edit::existing,
        quantity, selector,
    },
    object::Fields,
    path::Path,
    resource::{Column, Rules, take_over},
};
use serde_json::{Value, json};

/// Rules of storage.k8s.io/v1 CSIDriver.
pub(in crate::kinds) struct CsiDriver;

impl Rules for CsiDriver {
    fn default(&self, driver: &mut Value) {
        let Some(spec) = existing(driver, "spec") else { return };
        for (field, value) in [
            ("attachRequired", json!(true)),
            ("podInfoOnMount", json!(false)),
            ("storageCapacity", json!(false)),
            ("fsGroupPolicy", json!("ReadWriteOnceWithFSType")),
            ("requiresRepublish", json!(false)),
            ("seLinuxMount", json!(false)),
        ] {
            spec.set_default(field, value);
        }
        if spec.list_at("volumeLifecycleModes").is_empty() {
            spec.set("volumeLifecycleModes", json!(["Persistent"]));
        }
    }

    fn validate(&self, driver: &Value) -> Errors {
        let mut errors = Errors::new();
        let (path, spec) = (Path::new("spec"), driver.at("spec"));
        let policies = ["File", "None", "ReadWriteOnceWithFSType"];
        if let Some(policy) = spec.at("fsGroupPolicy").as_str() {
            check::one_of(&mut errors, &path.child("fsGroupPolicy"), policy, &policies);
        }
        let requests = spec.list_at("tokenRequests");
        for (i, request) in requests.iter().enumerate() {
            let at = path.child("tokenRequests").index(i);
            if requests[..i].iter().any(|other| other.str_at("audience") == request.str_at("audience")) {
                errors.push(FieldError::duplicate(&at.child("audience"), request.str_at("audience")));
            }
            let seconds = request.int_at("expirationSeconds").unwrap_or(600);
            let wrong = match seconds {
                ..600 => "may not specify a duration less than 10 minutes",
                4_294_967_297.. => "may not specify a duration larger than 2^32 seconds",
                _ => continue,
            };
            errors.push(FieldError::invalid(&at.child("expirationSeconds"), seconds, wrong));
        }
        for mode in check::texts(spec, "volumeLifecycleModes") {
            check::one_of(&mut errors, &path.child("volumeLifecycleModes"), mode, &["Persistent", "Ephemeral"]);
        }
        let period = "nodeAllocatableUpdatePeriodSeconds";
        if let Some(seconds) = spec.int_at(period).filter(|seconds| *seconds < 10) {
            errors.push(FieldError::invalid(
                &path.child(period),
                seconds,
                "must be greater than or equal to 10 seconds",
            ));
        }
        let tokens = "serviceAccountTokenInSecrets";
        if !spec.at(tokens).is_null() && requests.is_empty() {
            let text = "serviceAccountTokenInSecrets is set but no tokenRequests are specified";
            errors.push(FieldError::invalid(&path.child(tokens), spec.at(tokens).clone(), text));
        }
        errors
    }

    fn validate_update(&self, driver: &Value, old: &Value) -> Errors {
        let mut errors = self.validate(driver);
        let path = Path::new("spec");
        for (field, shown) in [("attachRequired", "attachedRequired"), ("volumeLifecycleModes", "volumeLifecycleModes")]
        {
            let of = |object: &Value| object.at("spec").at(field).clone();
            check::immutable(&mut errors, &path.child(shown), &of(driver), &of(old));
        }
        errors
    }

    fn has_generation(&self) -> bool {
        true
    }

    fn unconditional_update(&self) -> bool {
        false
    }

    fn columns(&self) -> Vec<Column> {
        columns::columns(&[
            NAME,
            ("AttachRequired", "boolean", 0, "Whether volumes are attached before they are mounted"),
            ("PodInfoOnMount", "boolean", 0, "Whether it is told about the pod"),
            ("StorageCapacity", "boolean", 0, "Whether it says how much is left"),
            ("TokenRequests", "string", 0, "Tokens that it gets"),
            ("RequiresRepublish", "boolean", 0, "Whether it is asked again and again"),
            ("Modes", "string", 0, "For volumes, or for pods"),
            AGE,
        ])
    }

    fn cells(&self, driver: &Value, now: jiff::Timestamp) -> Vec<Value> {
        let spec = driver.at("spec");
        let tokens = match spec.at("tokenRequests") {
            Value::Null => "<unset>".to_owned(),
            _ => {
                let audiences: Vec<&str> =
                    spec.list_at("tokenRequests").iter().map(|request| request.str_at("audience")).collect();
                audiences.join(",")
            }
        };
        vec![
            columns::name(driver),
            spec.at("attachRequired").as_bool().unwrap_or(true).into(),
            spec.is_true("podInfoOnMount").into(),
            spec.is_true("storageCapacity").into(),
            tokens.into(),
            spec.is_true("requiresRepublish").into(),
            columns::or(check::texts(spec, "volumeLifecycleModes").join(","), "<none>").into(),
            columns::age(driver, now),
        ]
    }
}

/// Rules of storage.k8s.io/v1 CSINode.
pub(in crate::kinds) struct CsiNode;

impl Rules for CsiNode {
    fn prepare_create(&self, node: &mut Value) {
        node.remove("status");
    }

    fn prepare_update(&self, node: &mut Value, old: &Value) {
        take_over(node, old, "status");
    }

    fn validate(&self, node: &Value) -> Errors {
        let mut errors = Errors::new();
        let path = Path::new("spec").child("drivers");
        let drivers = node.list_at("spec.drivers");
        for (i, driver) in drivers.iter().enumerate() {
            let at = path.index(i);
            driver_name(&mut errors, &at.child("name"), driver.str_at("name"));
            match driver.str_at("nodeID") {
                "" => errors.push(FieldError::required(&at.child("nodeID"), "")),
                id if id.len() > 192 => {
                    errors.push(FieldError::invalid(&at.child("nodeID"), id, "must be 192 characters or less"));
                }
                _ => {}
            }
            check::not_negative(&mut errors, &at.child("allocatable"), driver.at("allocatable"), "count");
            if drivers[..i].iter().any(|other| other.str_at("name") == driver.str_at("name")) {
                errors.push(FieldError::duplicate(&at.child("name"), driver.str_at("name")));
            }
            let keys = check::texts(driver, "topologyKeys");
            for (j, key) in keys.iter().enumerate() {
                if keys[..j].contains(key) {
                    errors.push(FieldError::duplicate(&at, *key));
                }
                check::qualified_name(&mut errors, &at, key);
            }
        }
        errors
    }

    fn validate_update(&self, node: &Value, old: &Value) -> Errors {
        let mut errors = self.validate(node);
        // How many volumes fit may change; who the node is to its driver may not.
        let fixed = |driver: &Value| {
            let mut driver = driver.clone();
            driver.remove("allocatable");
            driver
        };
        for driver in node.list_at("spec.drivers") {
            let known = old.list_at("spec.drivers").iter().find(|known| known.at("name") == driver.at("name"));
            if let Some(known) = known {
                let path = Path::new("spec").child("drivers");
                check::immutable(&mut errors, &path, &fixed(driver), &fixed(known));
            }
        }
        errors
    }

    fn validate_status(&self, node: &Value, _old: &Value) -> Errors {
        let mut errors = Errors::new();
        let path = Path::new("status").child("storageHealth");
        let all = node.list_at("status.storageHealth");
        for (i, health) in all.iter().enumerate() {
            let at = path.index(i);
            if all[..i].iter().any(|other| other.at("name") == health.at("name")) {
                errors.push(FieldError::duplicate(&at, health.str_at("name")));
            }
            driver_name(&mut errors, &at.child("name"), health.str_at("name"));
            let conditions = health.list_at("healthConditions");
            if conditions.len() > 16 {
                errors.push(FieldError::too_many(&at.child("healthConditions"), conditions.len(), 16));
            }
            for (j, condition) in conditions.iter().enumerate() {
                health_condition(&mut errors, &at.child("healthConditions").index(j), condition);
            }
        }
        errors
    }

    fn columns(&self) -> Vec<Column> {
        columns::columns(&[NAME, ("Drivers", "integer", 0, "How many drivers it has"), AGE])
    }

    fn cells(&self, node: &Value, now: jiff::Timestamp) -> Vec<Value> {
        vec![columns::name(node), node.list_at("spec.drivers").len().into(), columns::age(node, now)]
    }
}

fn health_condition(errors: &mut Errors, path: &Path, condition: &Value) {
    let states = ["StorageDegraded", "StorageUnreachable"];
    check::one_of(errors, &path.child("status"), condition.str_at("status"), &states);
    if condition.str_at("reason").is_empty() {
        errors.push(FieldError::required(&path.child("reason"), ""));
    }
    for (field, most) in [("reason", 256), ("message", 1024)] {
        if condition.str_at(field).len() > most {
            errors.push(FieldError::too_long(&path.child(field), most));
        }
    }
    for (field, accepted) in [("accessMode", &ACCESS_MODES[..]), ("volumeMode", &VOLUME_MODES)] {
        if let Some(value) = condition.at(field).as_str() {
            check::one_of(errors, &path.child(field), value, accepted);
        }
    }
}

/// Rules of storage.k8s.io/v1 CSIStorageCapacity.
pub(in crate::kinds) struct CsiStorageCapacity;

impl Rules for CsiStorageCapacity {
    fn validate(&self, capacity: &Value) -> Errors {
        let mut errors = Errors::new();
        selector::validate(&mut errors, &Path::new("nodeTopology"), capacity.at("nodeTopology"));
        check::dns_subdomain(&mut errors, &Path::new("storageClassName"), capacity.str_at("storageClassName"));
        for field in ["capacity", "maximumVolumeSize"] {
            if quantity::nanos(capacity.str_at(field)).is_some_and(|amount| amount < 0) {
                let text = "must be greater than or equal to 0";
                errors.push(FieldError::invalid(&Path::new(field), capacity.str_at(field), text));
            }
        }
        errors
    }

    fn validate_update(&self, capacity: &Value, old: &Value) -> Errors {
        let mut errors = self.validate(capacity);
        for field in ["nodeTopology", "storageClassName"] {
            check::immutable(&mut errors, &Path::new(field), capacity.at(field), old.at(field));
        }
        errors
    }

    fn unconditional_update(&self) -> bool {
        false
    }

    fn columns(&self) -> Vec<Column> {
        columns::columns(&[
            NAME,
            ("StorageClassName", "string", 0, "The class whose volumes fit"),
            ("Capacity", "string", 0, "How much is left"),
        ])
    }

    fn cells(&self, capacity: &Value, _now: jiff::Timestamp) -> Vec<Value> {
        let left = columns::or(capacity.str_at("capacity"), "<unset>");
        vec![columns::name(capacity), capacity.str_at("storageClassName").into(), left.into()]
    }
}
