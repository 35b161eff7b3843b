//! ServiceCIDR and IPAddress: the ranges of cluster IPs and who holds each address.

use super::{
    check::{self, Errors},
    columns::{self, AGE, NAME},
    names,
};
use crate::{
    error::FieldError,
    object::Fields,
    path::Path,
    resource::{Column, Rules, change_only},
};
use serde_json::{Value, json};

/// Rules of networking.k8s.io/v1 ServiceCIDR.
pub(super) struct ServiceCidr;

impl Rules for ServiceCidr {
    fn kept_by_status(&self) -> &'static [&'static str] {
        &["spec", "metadata"]
    }

    fn prepare_create(&self, range: &mut Value) {
        range.set("status", json!({}));
    }

    fn prepare_update(&self, range: &mut Value, old: &Value) {
        range.set("status", old.at("status").clone());
    }

    fn prepare_status(&self, range: &mut Value, old: &Value) {
        change_only(range, old, &["status"]);
    }

    fn validate(&self, range: &Value) -> Errors {
        let mut errors = Errors::new();
        cidrs(&mut errors, range);
        errors
    }

    fn validate_update(&self, range: &Value, old: &Value) -> Errors {
        const FIXED: &str = "cannot be changed; make another ServiceCIDR";
        let mut errors = Errors::new();
        let path = Path::new("spec").child("cidrs");
        let (new, was) = (range.list_at("spec.cidrs"), old.list_at("spec.cidrs"));
        match (new.len(), was.len()) {
            (n, m) if n == m => {
                for i in (0..n).filter(|i| new[*i] != was[*i]) {
                    errors.push(FieldError::invalid(&path.index(i), new[i].clone(), FIXED));
                }
            }
            (2, 1) => {
                if new[0] != was[0] {
                    errors.push(FieldError::invalid(&path.index(0), new[0].clone(), FIXED));
                }
                cidrs(&mut errors, range);
            }
            _ => errors.push(FieldError::invalid(&path, range.at("spec.cidrs").clone(), FIXED)),
        }
        errors
    }

    fn columns(&self) -> Vec<Column> {
        columns::columns(&[NAME, ("CIDRs", "string", 0, "One range, or one of each family"), AGE])
    }

    fn cells(&self, range: &Value, now: jiff::Timestamp) -> Vec<Value> {
        vec![columns::name(range), check::texts(range, "spec.cidrs").join(",").into(), columns::age(range, now)]
    }
}

fn cidrs(errors: &mut Errors, range: &Value) {
    let path = Path::new("spec").child("cidrs");
    let list = check::texts(range, "spec.cidrs");
    if list.is_empty() {
        errors.push(FieldError::required(&path, "one CIDR, or one of each family"));
        return;
    }
    let whole = range.at("spec.cidrs");
    if list.len() > 2 {
        errors.push(FieldError::invalid(&path, whole.clone(), "at most two are accepted, one of each family"));
        return;
    }
    let mut parsed = Vec::new();
    for (i, text) in list.into_iter().enumerate() {
        let Some(cidr) = check::cidr(errors, &path.index(i), text, []) else { continue };
        if cidr.to_string() != text {
            errors.push(FieldError::invalid(
                &path.index(i),
                text,
                format!("accepted is the canonical spelling, {cidr}"),
            ));
        }
        parsed.push(cidr);
    }
    check::one_per_family(errors, &path, whole, &parsed, "CIDRs");
}

/// Rules of networking.k8s.io/v1 IPAddress.
pub(super) struct IpAddress;

impl Rules for IpAddress {
    fn validate(&self, address: &Value) -> Errors {
        let mut errors = Errors::new();
        let (path, parent) = (Path::new("spec").child("parentRef"), address.at("spec.parentRef"));
        if !parent.is_object() {
            errors.push(FieldError::required(&path, "the object that holds the address"));
            return errors;
        }
        if !parent.str_at("group").is_empty() {
            check::dns_subdomain(&mut errors, &path.child("group"), parent.str_at("group"));
        }
        for field in ["resource", "name"] {
            check::required_segment(&mut errors, &path.child(field), parent.str_at(field));
        }
        let namespace = parent.str_at("namespace");
        check::all_of(&mut errors, &path.child("namespace"), namespace, names::path_segment(namespace));
        errors
    }

    fn validate_update(&self, address: &Value, old: &Value) -> Errors {
        let mut errors = Errors::new();
        let path = Path::new("spec").child("parentRef");
        check::immutable(&mut errors, &path, address.at("spec.parentRef"), old.at("spec.parentRef"));
        errors
    }

    fn name_mistakes(&self, name: &str, _prefix: bool) -> Vec<String> {
        names::ip_address(name)
    }

    fn columns(&self) -> Vec<Column> {
        // Upstream's rows have an age but no column for it; here they have both.
        columns::columns(&[NAME, ("ParentRef", "string", 0, "The object that holds the address"), AGE])
    }

    fn cells(&self, address: &Value, now: jiff::Timestamp) -> Vec<Value> {
        let parent = address.at("spec.parentRef");
        let mut shown = "<none>".to_owned();
        if parent.is_object() {
            shown = crate::error::qualified(parent.str_at("resource"), parent.str_at("group")).to_lowercase();
            for field in ["namespace", "name"] {
                if field == "name" || !parent.str_at(field).is_empty() {
                    shown = format!("{shown}/{}", parent.str_at(field));
                }
            }
        }
        vec![columns::name(address), shown.into(), columns::age(address, now)]
    }
}
