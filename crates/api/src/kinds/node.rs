//! Node: pod CIDRs of one or two families, taints, addresses.
//!
//! Mirrors `pkg/registry/core/node`, with one thing more: a node that has a pod CIDR of one family may get one of the
//! other, so that it can become dual-stack without being registered anew.

use super::{
    check::{self, Errors},
    columns::{self, AGE, NAME},
    names, resources,
};
use crate::{
    error::FieldError,
    object::Fields,
    path::Path,
    resource::{Column, Rules, scalar_text},
};
use net::{Cidr, HasFamily};
use serde_json::Value;
use std::collections::BTreeSet;

/// Rules of v1 Node.
pub(super) struct Node;

impl Rules for Node {
    fn default(&self, node: &mut Value) {
        pod_cidrs(node);
        if node.at("status.allocatable").is_null() && !node.at("status.capacity").is_null() {
            node.set("status.allocatable", node.at("status.capacity").clone());
        }
    }

    fn prepare_update(&self, node: &mut Value, old: &Value) {
        node.set("status", old.at("status").clone());
    }

    fn validate(&self, node: &Value) -> Errors {
        validate(node, None)
    }

    fn validate_update(&self, node: &Value, old: &Value) -> Errors {
        let mut errors = validate(node, Some(old));
        errors.extend(changes(node, old));
        errors
    }

    fn validate_status(&self, node: &Value, old: &Value) -> Errors {
        let mut errors = Errors::new();
        amounts(&mut errors, node);
        errors.extend(changes(node, old));
        errors
    }

    fn warnings(&self, node: &Value, _old: Option<&Value>) -> Vec<String> {
        let path = Path::new("spec").child("podCIDRs");
        let advice = |(i, cidr): (usize, &str)| check::cidr_advice(&path.index(i), cidr);
        check::texts(node, "spec.podCIDRs").into_iter().enumerate().filter_map(advice).collect()
    }

    fn selected(&self, node: &Value, path: &str) -> String {
        match path {
            "spec.unschedulable" => node.is_true(path).to_string(),
            _ => scalar_text(node.at(path)),
        }
    }

    fn columns(&self) -> Vec<Column> {
        columns::columns(&[
            NAME,
            ("Status", "string", 0, "Whether the node is ready and takes pods"),
            ("Roles", "string", 0, "Roles, from its labels"),
            AGE,
            ("Version", "string", 0, "Version of the kubelet"),
            ("Internal-IP", "string", 1, "First address inside the cluster"),
            ("External-IP", "string", 1, "First address outside the cluster"),
            ("OS-Image", "string", 1, "Operating system"),
            ("Kernel-Version", "string", 1, "Kernel and architecture"),
            ("Container-Runtime", "string", 1, "Container runtime and its version"),
        ])
    }

    fn cells(&self, node: &Value, now: jiff::Timestamp) -> Vec<Value> {
        let info = node.at("status.nodeInfo");
        let known = |field: &str| columns::or(info.str_at(field), "<unknown>");
        let kernel = match info.str_at("architecture") {
            "" => known("kernelVersion"),
            architecture => format!("{} ({architecture})", known("kernelVersion")),
        };
        vec![
            columns::name(node),
            status(node).into(),
            columns::or(roles(node), "<none>").into(),
            columns::age(node, now),
            info.str_at("kubeletVersion").into(),
            first_address(node, "InternalIP").into(),
            first_address(node, "ExternalIP").into(),
            known("osImage").into(),
            kernel.into(),
            known("containerRuntimeVersion").into(),
        ]
    }
}

/// Keeps `podCIDR` and `podCIDRs` in step; the singular wins where they differ.
fn pod_cidrs(node: &mut Value) {
    let single = node.str_at("spec.podCIDR").to_owned();
    let first = node.list_at("spec.podCIDRs").first().and_then(Value::as_str).map(str::to_owned);
    match (single.as_str(), first) {
        ("", Some(first)) => node.set("spec.podCIDR", first),
        ("", None) => {}
        (cidr, first) if first.as_deref() != Some(cidr) => node.set("spec.podCIDRs", vec![Value::from(single)]),
        _ => {}
    }
}

fn validate(node: &Value, old: Option<&Value>) -> Errors {
    let mut errors = Errors::new();
    taints(&mut errors, node);
    amounts(&mut errors, node);
    let path = Path::new("spec").child("podCIDRs");
    let before = old.map(|old| check::texts(old, "spec.podCIDRs")).unwrap_or_default();
    let mut parsed = Vec::new();
    for (i, cidr) in check::texts(node, "spec.podCIDRs").into_iter().enumerate() {
        parsed.extend(check::cidr(&mut errors, &path.index(i), cidr, before.iter().copied()));
    }
    check::one_per_family(&mut errors, &path, node.at("spec.podCIDRs"), &parsed, "CIDRs");
    errors
}

/// Upstream reports taints below metadata.
fn taints(errors: &mut Errors, node: &Value) {
    let path = Path::new("metadata").child("taints");
    let mut seen = BTreeSet::new();
    for (i, taint) in node.list_at("spec.taints").iter().enumerate() {
        let at = path.index(i);
        let (key, value, effect) = (taint.str_at("key"), taint.str_at("value"), taint.str_at("effect"));
        check::qualified_name(errors, &at.child("key"), key);
        check::all_of(errors, &at.child("value"), value, names::label_value(value));
        let effects = ["NoSchedule", "PreferNoSchedule", "NoExecute"];
        check::required_one_of(errors, &at.child("effect"), effect, &effects);
        if !seen.insert((key, effect)) {
            errors.push(FieldError::duplicate(&at, taint.clone()));
        }
    }
}

fn amounts(errors: &mut Errors, node: &Value) {
    for field in ["capacity", "allocatable"] {
        for (name, value) in node.at("status").map_at(field).into_iter().flatten() {
            resources::amount(errors, &Path::new("status").child(field).child(name), name, value);
        }
    }
}

fn changes(node: &Value, old: &Value) -> Errors {
    let mut errors = Errors::new();
    let mut seen = Vec::new();
    for (i, address) in node.list_at("status.addresses").iter().enumerate() {
        if seen.contains(&address) {
            errors.push(FieldError::duplicate(&Path::new("status").child("addresses").index(i), address.clone()));
        }
        seen.push(address);
    }
    let (cidrs, before) = (check::texts(node, "spec.podCIDRs"), check::texts(old, "spec.podCIDRs"));
    if !before.is_empty() && cidrs != before && !appends_other_family(&cidrs, &before) {
        let text = "pod CIDRs of a node stay; one of the other family may be added";
        errors.push(FieldError::forbidden(&Path::new("spec").child("podCIDRs"), text));
    }
    let was = old.str_at("spec.providerID");
    if !was.is_empty() && node.str_at("spec.providerID") != was {
        let path = Path::new("spec").child("providerID");
        errors.push(FieldError::invalid(&path, Value::Null, format!("cannot be changed once set, it is {was}")));
    }
    errors
}

fn appends_other_family(cidrs: &[&str], before: &[&str]) -> bool {
    let family = |text: &str| text.parse::<Cidr>().ok().map(|cidr| cidr.family());
    match (cidrs, before) {
        ([first, second], [was]) => first == was && family(second).is_some() && family(second) != family(first),
        _ => false,
    }
}

fn status(node: &Value) -> String {
    let ready = node.list_at("status.conditions").iter().find(|c| c.str_at("type") == "Ready");
    let mut text = match ready.map(|c| c.str_at("status")) {
        Some("True") => "Ready",
        Some(_) => "NotReady",
        None => "Unknown",
    }
    .to_owned();
    if node.is_true("spec.unschedulable") {
        text.push_str(",SchedulingDisabled");
    }
    text
}

fn roles(node: &Value) -> String {
    let role = |(key, value): (&String, &Value)| match key.strip_prefix("node-role.kubernetes.io/") {
        Some(role) => Some(role.to_owned()),
        None if key == "kubernetes.io/role" => value.as_str().map(str::to_owned),
        None => None,
    };
    let labels = node.map_at("metadata.labels").into_iter().flatten();
    let roles: BTreeSet<String> = labels.filter_map(role).filter(|role| !role.is_empty()).collect();
    roles.into_iter().collect::<Vec<_>>().join(",")
}

fn first_address(node: &Value, kind: &str) -> String {
    let address = node.list_at("status.addresses").iter().find(|address| address.str_at("type") == kind);
    address.map_or("<none>", |address| address.str_at("address")).to_owned()
}
