//! Kinds of resource.k8s.io: classes of devices, claims on them with their templates, and slices in which drivers list them.
//!
//! Names, numbers and what may change are checked; expressions that select devices are not compiled (docs/compat.md).

use super::{
    check::{self, Errors},
    columns::{self, AGE, NAME},
    edit::{existing, fill, items},
    meta, pod,
};
use crate::{
    error::FieldError,
    object::Fields,
    path::Path,
    resource::{Column, Rules, take_over},
};
use serde_json::{Value, json};

const REQUESTS_MOST: usize = 32;
const SELECTORS_MOST: usize = 32;
const CONSUMERS_MOST: usize = 256;
const DEVICES_MOST: usize = 128;
const EXPRESSION_BYTES: usize = 10 * 1024;

/// Rules of resource.k8s.io/v1 DeviceClass.
pub(super) struct DeviceClass;

impl Rules for DeviceClass {
    fn validate(&self, class: &Value) -> Errors {
        let mut errors = Errors::new();
        let path = Path::new("spec");
        selectors(&mut errors, &path, class.at("spec"));
        configs(&mut errors, &path, class.at("spec"));
        errors
    }

    fn has_generation(&self) -> bool {
        true
    }
}

/// Rules of resource.k8s.io/v1 ResourceClaim.
pub(super) struct ResourceClaim;

impl Rules for ResourceClaim {
    fn default(&self, claim: &mut Value) {
        default_claim(claim, "spec");
    }

    fn prepare_create(&self, claim: &mut Value) {
        claim.set("status", json!({}));
    }

    fn prepare_update(&self, claim: &mut Value, old: &Value) {
        take_over(claim, old, "status");
    }

    fn validate(&self, claim: &Value) -> Errors {
        let mut errors = Errors::new();
        claim_spec(&mut errors, &Path::new("spec"), claim.at("spec"));
        errors
    }

    fn validate_update(&self, claim: &Value, old: &Value) -> Errors {
        let mut errors = self.validate(claim);
        check::immutable(&mut errors, &Path::new("spec"), claim.at("spec"), old.at("spec"));
        errors
    }

    fn validate_status(&self, claim: &Value, old: &Value) -> Errors {
        let mut errors = Errors::new();
        let (path, status) = (Path::new("status"), claim.at("status"));
        let consumers = status.list_at("reservedFor");
        if consumers.len() > CONSUMERS_MOST {
            errors.push(FieldError::too_many(&path.child("reservedFor"), consumers.len(), CONSUMERS_MOST));
        }
        for (i, consumer) in consumers.iter().enumerate() {
            let at = path.child("reservedFor").index(i);
            for field in ["resource", "name", "uid"] {
                if consumer.str_at(field).is_empty() {
                    errors.push(FieldError::required(&at.child(field), ""));
                }
            }
            if consumers[..i].iter().any(|other| other.at("uid") == consumer.at("uid")) {
                errors.push(FieldError::duplicate(&at.child("uid"), consumer.str_at("uid")));
            }
        }
        let (allocation, had) = (status.at("allocation"), old.at("status.allocation"));
        if !consumers.is_empty() && allocation.is_null() {
            let text = "may not be specified when `allocated` is not set";
            errors.push(FieldError::forbidden(&path.child("reservedFor"), text));
        }
        if !consumers.is_empty() && !claim.at("metadata.deletionTimestamp").is_null() {
            let known = old.list_at("status.reservedFor");
            if consumers.iter().any(|consumer| !known.contains(consumer)) {
                let text = "new reservations are not allowed while the claim is being deleted";
                errors.push(FieldError::forbidden(&path.child("reservedFor"), text));
            }
        }
        if !had.is_null() && !allocation.is_null() {
            check::immutable(&mut errors, &path.child("allocation"), allocation, had);
        }
        for (i, result) in allocation.list_at("devices.results").iter().enumerate() {
            let at = path.child("allocation").child("devices").child("results").index(i);
            for field in ["request", "driver", "pool", "device"] {
                if result.str_at(field).is_empty() {
                    errors.push(FieldError::required(&at.child(field), ""));
                }
            }
        }
        errors
    }

    fn columns(&self) -> Vec<Column> {
        columns::columns(&[NAME, ("State", "string", 0, "Whether it has its devices, and somebody uses them"), AGE])
    }

    fn cells(&self, claim: &Value, now: jiff::Timestamp) -> Vec<Value> {
        let deleted = !claim.at("metadata.deletionTimestamp").is_null();
        let allocated = !claim.at("status.allocation").is_null();
        let states = [
            ("deleted", deleted),
            ("pending", !allocated && !deleted),
            ("allocated", allocated),
            ("reserved", allocated && !claim.list_at("status.reservedFor").is_empty()),
        ];
        let states: Vec<&str> = states.iter().filter(|(_, holds)| *holds).map(|(state, _)| *state).collect();
        vec![columns::name(claim), states.join(",").into(), columns::age(claim, now)]
    }
}

/// Rules of resource.k8s.io/v1 ResourceClaimTemplate.
pub(super) struct ResourceClaimTemplate;

impl Rules for ResourceClaimTemplate {
    fn default(&self, template: &mut Value) {
        default_claim(template, "spec.spec");
    }

    fn validate(&self, template: &Value) -> Errors {
        let mut errors = Errors::new();
        let path = Path::new("spec");
        meta::labels_and_annotations(&mut errors, &path.child("metadata"), template.at("spec.metadata"));
        claim_spec(&mut errors, &path.child("spec"), template.at("spec.spec"));
        errors
    }

    fn validate_update(&self, template: &Value, old: &Value) -> Errors {
        let mut errors = self.validate(template);
        check::immutable(&mut errors, &Path::new("spec"), template.at("spec"), old.at("spec"));
        errors
    }
}

/// Rules of resource.k8s.io/v1 ResourceSlice.
pub(super) struct ResourceSlice;

impl Rules for ResourceSlice {
    fn validate(&self, slice: &Value) -> Errors {
        let mut errors = Errors::new();
        let (path, spec) = (Path::new("spec"), slice.at("spec"));
        driver(&mut errors, &path.child("driver"), spec.str_at("driver"));
        let pool = path.child("pool");
        match spec.str_at("pool.name") {
            "" => errors.push(FieldError::required(&pool.child("name"), "")),
            name => name.split('/').for_each(|part| check::dns_subdomain(&mut errors, &pool.child("name"), part)),
        }
        check::not_negative(&mut errors, &pool, spec.at("pool"), "generation");
        if spec.int_at("pool.resourceSliceCount").unwrap_or_default() < 1 {
            let count = spec.at("pool.resourceSliceCount").clone();
            errors.push(FieldError::invalid(&pool.child("resourceSliceCount"), count, "must be greater than zero"));
        }
        where_used(&mut errors, &path, spec);
        let devices = spec.list_at("devices");
        if devices.len() > DEVICES_MOST {
            errors.push(FieldError::too_many(&path.child("devices"), devices.len(), DEVICES_MOST));
        }
        for (i, device) in devices.iter().enumerate() {
            let at = path.child("devices").index(i).child("name");
            match device.str_at("name") {
                "" => errors.push(FieldError::required(&at, "")),
                name => check::dns_label(&mut errors, &at, name),
            }
            if devices[..i].iter().any(|other| other.at("name") == device.at("name")) {
                errors.push(FieldError::duplicate(&at, device.str_at("name")));
            }
        }
        errors
    }

    fn validate_update(&self, slice: &Value, old: &Value) -> Errors {
        let mut errors = self.validate(slice);
        for field in ["driver", "nodeName", "pool.name"] {
            let of = |object: &Value| object.at("spec").at(field).clone();
            check::immutable(&mut errors, &Path::new("spec").child(field), &of(slice), &of(old));
        }
        errors
    }

    fn has_generation(&self) -> bool {
        true
    }

    fn columns(&self) -> Vec<Column> {
        columns::columns(&[
            NAME,
            ("Node", "string", 0, "The node that has the devices"),
            ("Driver", "string", 0, "Whose devices they are"),
            ("Pool", "string", 0, "The pool that they belong to"),
            AGE,
        ])
    }

    fn cells(&self, slice: &Value, now: jiff::Timestamp) -> Vec<Value> {
        let of = |field: &str| -> Value { slice.str_at(&format!("spec.{field}")).into() };
        vec![columns::name(slice), of("nodeName"), of("driver"), of("pool.name"), columns::age(slice, now)]
    }
}

/// One word on where the devices can be used.
fn where_used(errors: &mut Errors, path: &Path, spec: &Value) {
    const WAYS: [&str; 4] = ["nodeName", "nodeSelector", "allNodes", "perDeviceNodeSelection"];
    let given: Vec<&str> = WAYS.into_iter().filter(|field| !spec.at(field).is_null()).collect();
    let text = "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required";
    match given[..] {
        [one] => match one {
            "nodeName" => check::dns_subdomain(errors, &path.child(one), spec.str_at(one)),
            "nodeSelector" => pod::node_selector(errors, &path.child(one), spec.at(one)),
            _ if !spec.is_true(one) => {
                errors.push(FieldError::invalid(&path.child(one), false, "must be either unset or set to true"));
            }
            _ => {}
        },
        [] => errors.push(FieldError::required(path, text)),
        _ => errors.push(FieldError::invalid(path, json!(given), text)),
    }
}

fn default_claim(object: &mut Value, path: &str) {
    let Some(spec) = existing(object, path) else { return };
    for request in items(spec, "devices.requests") {
        if let Some(exactly) = existing(request, "exactly") {
            default_request(exactly);
        }
        items(request, "firstAvailable").for_each(default_request);
    }
}

fn default_request(request: &mut Value) {
    fill(request, "allocationMode", "ExactCount");
    if request.str_at("allocationMode") == "ExactCount" {
        fill(request, "count", 1);
    }
}

fn claim_spec(errors: &mut Errors, path: &Path, spec: &Value) {
    let path = path.child("devices");
    let requests = spec.list_at("devices.requests");
    if requests.len() > REQUESTS_MOST {
        errors.push(FieldError::too_many(&path.child("requests"), requests.len(), REQUESTS_MOST));
    }
    for (i, request) in requests.iter().enumerate() {
        let at = path.child("requests").index(i);
        request_name(errors, &at, request, &requests[..i]);
        let (exactly, first) = (request.at("exactly"), request.list_at("firstAvailable"));
        match (exactly.is_null(), first.is_empty()) {
            (false, true) => device_request(errors, &at.child("exactly"), exactly),
            (true, false) => {
                for (j, one) in first.iter().enumerate() {
                    let at = at.child("firstAvailable").index(j);
                    request_name(errors, &at, one, &first[..j]);
                    device_request(errors, &at, one);
                }
            }
            _ => {
                let text = "exactly one of `exactly` or `firstAvailable` is required";
                errors.push(FieldError::invalid(&at, request.clone(), text));
            }
        }
    }
    configs(errors, &path, spec.at("devices"));
}

fn request_name(errors: &mut Errors, path: &Path, request: &Value, others: &[Value]) {
    match request.str_at("name") {
        "" => errors.push(FieldError::required(&path.child("name"), "")),
        name => check::dns_label(errors, &path.child("name"), name),
    }
    if others.iter().any(|other| other.at("name") == request.at("name")) {
        errors.push(FieldError::duplicate(&path.child("name"), request.str_at("name")));
    }
}

fn device_request(errors: &mut Errors, path: &Path, request: &Value) {
    match request.str_at("deviceClassName") {
        "" => errors.push(FieldError::required(&path.child("deviceClassName"), "")),
        name => check::dns_subdomain(errors, &path.child("deviceClassName"), name),
    }
    selectors(errors, path, request);
    let count = request.int_at("count").unwrap_or_default();
    match request.str_at("allocationMode") {
        "ExactCount" if count < 1 => {
            errors.push(FieldError::invalid(&path.child("count"), count, "must be greater than zero"));
        }
        "All" if count != 0 => {
            errors.push(FieldError::invalid(
                &path.child("count"),
                count,
                "must not be specified when allocationMode is 'All'",
            ));
        }
        mode => check::one_of(errors, &path.child("allocationMode"), mode, &["All", "ExactCount"]),
    }
}

fn selectors(errors: &mut Errors, path: &Path, holder: &Value) {
    let selectors = holder.list_at("selectors");
    if selectors.len() > SELECTORS_MOST {
        errors.push(FieldError::too_many(&path.child("selectors"), selectors.len(), SELECTORS_MOST));
    }
    for (i, selector) in selectors.iter().enumerate() {
        let at = path.child("selectors").index(i).child("cel");
        match selector.at("cel") {
            Value::Null => errors.push(FieldError::required(&at, "")),
            cel if cel.str_at("expression").is_empty() => {
                errors.push(FieldError::required(&at.child("expression"), ""));
            }
            cel if cel.str_at("expression").len() > EXPRESSION_BYTES => {
                errors.push(FieldError::too_long(&at.child("expression"), EXPRESSION_BYTES));
            }
            _ => {}
        }
    }
}

fn configs(errors: &mut Errors, path: &Path, holder: &Value) {
    for (i, config) in holder.list_at("config").iter().enumerate() {
        let at = path.child("config").index(i).child("opaque");
        match config.at("opaque") {
            Value::Null => errors.push(FieldError::required(&at, "")),
            opaque => {
                driver(errors, &at.child("driver"), opaque.str_at("driver"));
                if !opaque.at("parameters").is_object() {
                    errors.push(FieldError::required(&at.child("parameters"), "an object"));
                }
            }
        }
    }
}

fn driver(errors: &mut Errors, path: &Path, name: &str) {
    match name {
        "" => errors.push(FieldError::required(path, "")),
        name if name.len() > 63 => errors.push(FieldError::too_long(path, 63)),
        name => check::dns_subdomain(errors, path, name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claim_is_completed_and_then_fixed() {
        let mut claim = json!({"metadata": {"name": "c"}, "spec": {"devices": {"requests": [
            {"name": "one", "exactly": {"deviceClassName": "gpu"}},
            {"name": "two", "firstAvailable": [{"name": "big", "deviceClassName": "gpu", "allocationMode": "All"}]}]}}});
        ResourceClaim.default(&mut claim);
        assert_eq!(
            claim["spec"]["devices"]["requests"][0]["exactly"],
            json!({"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1})
        );
        assert_eq!(ResourceClaim.validate(&claim), []);
        let mut other = claim.clone();
        other["spec"]["devices"]["requests"][0]["name"] = "three".into();
        assert_eq!(ResourceClaim.validate_update(&other, &claim).len(), 1);
        let reserved = json!([{"resource": "pods", "name": "p", "uid": "u"}]);
        other["status"] = json!({"reservedFor": reserved});
        assert_eq!(ResourceClaim.validate_status(&other, &claim).len(), 1, "nothing is allocated");
        other["status"] = json!({"reservedFor": reserved, "allocation": {}});
        assert_eq!(ResourceClaim.validate_status(&other, &claim), []);
    }

    #[test]
    fn a_slice_says_where_its_devices_are_in_one_way() {
        let slice = |more: Value| {
            let mut slice = json!({"metadata": {"name": "s"}, "spec": {
                "driver": "d.example.com", "pool": {"name": "p", "generation": 1, "resourceSliceCount": 1}}});
            for (key, value) in more.as_object().unwrap() {
                slice["spec"][key] = value.clone();
            }
            ResourceSlice.validate(&slice).len()
        };
        assert_eq!(slice(json!({"nodeName": "n"})), 0);
        assert_eq!(slice(json!({"allNodes": true})), 0);
        assert_eq!(slice(json!({})), 1);
        assert_eq!(slice(json!({"nodeName": "n", "allNodes": true})), 1);
        assert_eq!(slice(json!({"nodeName": "n", "devices": [{"name": "a"}, {"name": "a"}]})), 1);
    }
}
