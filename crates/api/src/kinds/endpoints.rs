//! Endpoints and EndpointSlice: where traffic of a Service goes.
//!
//! Mirrors `pkg/registry/core/endpoint`, `pkg/registry/discovery/endpointslice` and their validation. A list that was
//! stored with mistakes may stay as it is; changed, it must be right.

use super::{
    check::{self, Errors},
    columns::{self, AGE, NAME},
    edit::{fill, items},
    names,
};
use crate::{
    error::FieldError,
    object::Fields,
    path::Path,
    resource::{Column, Rules, differs_beyond_status},
};
use net::{Family, HasFamily};
use serde_json::Value;
use std::collections::BTreeSet;

/// Rules of v1 Endpoints.
pub(super) struct Endpoints;

impl Rules for Endpoints {
    fn default(&self, endpoints: &mut Value) {
        for subset in items(endpoints, "subsets") {
            for port in items(subset, "ports") {
                fill(port, "protocol", "TCP");
            }
        }
    }

    fn validate(&self, endpoints: &Value) -> Errors {
        let mut errors = Errors::new();
        for (i, subset) in endpoints.list_at("subsets").iter().enumerate() {
            subset_mistakes(&mut errors, &Path::new("subsets").index(i), subset);
        }
        errors
    }

    fn validate_update(&self, endpoints: &Value, old: &Value) -> Errors {
        if check::same(endpoints.at("subsets"), old.at("subsets")) { Errors::new() } else { self.validate(endpoints) }
    }

    fn deprecation(&self) -> Option<&str> {
        Some("v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice")
    }

    fn warnings(&self, endpoints: &Value, _old: Option<&Value>) -> Vec<String> {
        let mut advice = Vec::new();
        for (i, subset) in endpoints.list_at("subsets").iter().enumerate() {
            for list in ["addresses", "notReadyAddresses"] {
                for (j, address) in subset.list_at(list).iter().enumerate() {
                    let path = Path::new("subsets").index(i).child(list).index(j).child("ip");
                    advice.extend(check::ip_advice(&path, address.str_at("ip")));
                }
            }
        }
        advice
    }

    fn create_on_update(&self) -> bool {
        true
    }

    fn columns(&self) -> Vec<Column> {
        columns::columns(&[NAME, ("Endpoints", "string", 0, "Addresses and ports that are ready"), AGE])
    }

    fn cells(&self, endpoints: &Value, now: jiff::Timestamp) -> Vec<Value> {
        let mut list = Vec::new();
        for subset in endpoints.list_at("subsets") {
            let addresses = || subset.list_at("addresses").iter().map(|address| address.str_at("ip"));
            let ports = subset.list_at("ports");
            if ports.is_empty() {
                list.extend(addresses().map(str::to_owned));
            }
            for port in ports {
                let number = port.int_at("port").unwrap_or_default();
                list.extend(
                    addresses()
                        .map(|ip| if ip.contains(':') { format!("[{ip}]:{number}") } else { format!("{ip}:{number}") }),
                );
            }
        }
        let nothing = if endpoints.list_at("subsets").is_empty() { "<none>" } else { "" };
        let shown = columns::first_three(&list, nothing);
        vec![columns::name(endpoints), shown.into(), columns::age(endpoints, now)]
    }
}

fn subset_mistakes(errors: &mut Errors, path: &Path, subset: &Value) {
    if ["addresses", "notReadyAddresses"].iter().all(|list| subset.list_at(list).is_empty()) {
        errors.push(FieldError::required(path, "addresses or notReadyAddresses"));
    }
    for list in ["addresses", "notReadyAddresses"] {
        for (i, address) in subset.list_at(list).iter().enumerate() {
            let at = path.child(list).index(i);
            let text = address.str_at("ip");
            if let Some(ip) = check::ip(errors, &at.child("ip"), text, []) {
                check::endpoint_ip(errors, &at.child("ip"), text, ip);
            }
            if !address.str_at("hostname").is_empty() {
                check::dns_label(errors, &at.child("hostname"), address.str_at("hostname"));
            }
            if let Some(node) = address.at("nodeName").as_str() {
                check::dns_subdomain(errors, &at.child("nodeName"), node);
            }
        }
    }
    let ports = subset.list_at("ports");
    for (i, port) in ports.iter().enumerate() {
        let at = path.child("ports").index(i);
        match port.str_at("name") {
            "" if ports.len() > 1 => errors.push(FieldError::required(&at.child("name"), "several ports need names")),
            "" => {}
            name => check::dns_label(errors, &at.child("name"), name),
        }
        check::port(errors, &at.child("port"), port.int_at("port").unwrap_or_default());
        check::protocol(errors, &at.child("protocol"), port.str_at("protocol"));
        if let Some(name) = port.at("appProtocol").as_str() {
            check::qualified_name(errors, &at.child("appProtocol"), name);
        }
    }
}

/// Rules of discovery.k8s.io/v1 EndpointSlice.
pub(super) struct EndpointSlice;

impl Rules for EndpointSlice {
    fn default(&self, slice: &mut Value) {
        for port in items(slice, "ports") {
            port.set_default("name", "");
            port.set_default("protocol", "TCP");
        }
    }

    fn prepare_create(&self, slice: &mut Value) {
        drop_old_topology(slice);
    }

    fn prepare_update(&self, slice: &mut Value, old: &Value) {
        if slice.at("endpoints") != old.at("endpoints") {
            drop_old_topology(slice);
        }
    }

    fn validate(&self, slice: &Value) -> Errors {
        let mut errors = shape_mistakes(slice);
        errors.extend(endpoint_mistakes(slice));
        errors
    }

    fn validate_update(&self, slice: &Value, old: &Value) -> Errors {
        let mut errors = shape_mistakes(slice);
        if !check::same(slice.at("endpoints"), old.at("endpoints")) {
            errors.extend(endpoint_mistakes(slice));
        }
        check::immutable(&mut errors, &Path::new("addressType"), slice.at("addressType"), old.at("addressType"));
        errors
    }

    fn warnings(&self, slice: &Value, old: Option<&Value>) -> Vec<String> {
        let mut advice = Vec::new();
        if slice.str_at("addressType") == "FQDN" && old.is_none() {
            advice.push("addressType FQDN is deprecated; use IPv4 or IPv6".to_owned());
        }
        for (i, endpoint) in slice.list_at("endpoints").iter().enumerate() {
            for (j, address) in check::texts(endpoint, "addresses").into_iter().enumerate() {
                let path = Path::new("endpoints").index(i).child("addresses").index(j);
                advice.extend(check::ip_advice(&path, address));
            }
        }
        advice
    }

    fn has_generation(&self) -> bool {
        true
    }

    fn generation_changes(&self, slice: &Value, old: &Value) -> bool {
        differs_beyond_status(slice, old) || !check::same(slice.at("metadata.labels"), old.at("metadata.labels"))
    }

    fn columns(&self) -> Vec<Column> {
        columns::columns(&[
            NAME,
            ("AddressType", "string", 0, "Family of the addresses"),
            ("Ports", "string", 0, "Port numbers"),
            ("Endpoints", "string", 0, "Addresses, ready or not"),
            AGE,
        ])
    }

    fn cells(&self, slice: &Value, now: jiff::Timestamp) -> Vec<Value> {
        let ports: Vec<String> = slice
            .list_at("ports")
            .iter()
            .map(|port| match (port.int_at("port"), port.at("name").as_str()) {
                (Some(number), _) => number.to_string(),
                (None, name) => name.unwrap_or("*").to_owned(),
            })
            .collect();
        let addresses: Vec<String> = slice
            .list_at("endpoints")
            .iter()
            .flat_map(|endpoint| check::texts(endpoint, "addresses"))
            .map(str::to_owned)
            .collect();
        vec![
            columns::name(slice),
            slice.at("addressType").clone(),
            columns::first_three(&ports, "<unset>").into(),
            columns::first_three(&addresses, "<unset>").into(),
            columns::age(slice, now),
        ]
    }
}

/// The v1 API takes no topology labels; nodeName and zone say what they said.
fn drop_old_topology(slice: &mut Value) {
    for endpoint in items(slice, "endpoints") {
        endpoint.remove("deprecatedTopology");
    }
}

fn shape_mistakes(slice: &Value) -> Errors {
    let mut errors = Errors::new();
    let kinds = ["FQDN", "IPv4", "IPv6"];
    check::required_one_of(&mut errors, &Path::new("addressType"), slice.str_at("addressType"), &kinds);
    let (path, ports) = (Path::new("ports"), slice.list_at("ports"));
    if ports.len() > 20000 {
        errors.push(FieldError::too_many(&path, ports.len(), 20000));
        return errors;
    }
    let mut taken = BTreeSet::new();
    for (i, port) in ports.iter().enumerate() {
        let at = path.index(i);
        let name = port.str_at("name");
        if !name.is_empty() {
            check::dns_label(&mut errors, &at.child("name"), name);
        }
        if !taken.insert(name) {
            errors.push(FieldError::duplicate(&at.child("name"), name));
        }
        check::one_of(&mut errors, &at.child("protocol"), port.str_at("protocol"), &["SCTP", "TCP", "UDP"]);
        if let Some(name) = port.at("appProtocol").as_str() {
            check::qualified_name(&mut errors, &at.child("appProtocol"), name);
        }
    }
    errors
}

fn endpoint_mistakes(slice: &Value) -> Errors {
    let mut errors = Errors::new();
    let (path, endpoints) = (Path::new("endpoints"), slice.list_at("endpoints"));
    if endpoints.len() > 1000 {
        errors.push(FieldError::too_many(&path, endpoints.len(), 1000));
        return errors;
    }
    for (i, endpoint) in endpoints.iter().enumerate() {
        let at = path.index(i);
        addresses(&mut errors, &at.child("addresses"), slice.str_at("addressType"), endpoint);
        if let Some(node) = endpoint.at("nodeName").as_str() {
            check::dns_subdomain(&mut errors, &at.child("nodeName"), node);
        }
        if let Some(name) = endpoint.at("hostname").as_str() {
            check::dns_label(&mut errors, &at.child("hostname"), name);
        }
        hints(&mut errors, &at.child("hints"), endpoint.at("hints"));
    }
    errors
}

fn addresses(errors: &mut Errors, path: &Path, kind: &str, endpoint: &Value) {
    let list = check::texts(endpoint, "addresses");
    if list.is_empty() {
        errors.push(FieldError::required(path, "at least one address"));
    } else if list.len() > 100 {
        errors.push(FieldError::too_many(path, list.len(), 100));
    }
    for (i, text) in list.into_iter().enumerate() {
        let at = path.index(i);
        match kind.parse::<Family>() {
            Ok(family) => {
                if family == Family::V6 && !canonical_v6(errors, &at, text) {
                    continue;
                }
                let Some(ip) = check::ip(errors, &at, text, []) else { continue };
                if ip.family() != family {
                    errors.push(FieldError::invalid(path, text, format!("must be an {family} address")));
                }
                check::endpoint_ip(errors, &at, text, ip);
            }
            Err(_) if kind == "FQDN" => domain(errors, &at, text),
            Err(_) => {}
        }
    }
}

/// New fields take one spelling only; IPv6 slices always did.
fn canonical_v6(errors: &mut Errors, path: &Path, text: &str) -> bool {
    match net::parse_ip(text) {
        Ok(ip) if ip.to_string() != text => {
            errors.push(FieldError::invalid(path, text, format!("accepted is the canonical spelling, {ip}")));
            false
        }
        _ => true,
    }
}

fn domain(errors: &mut Errors, path: &Path, text: &str) {
    let name = text.strip_suffix('.').unwrap_or(text);
    let wrong = names::dns_subdomain(name, false);
    if text.is_empty() {
        errors.push(FieldError::required(path, ""));
    } else if !wrong.is_empty() {
        errors.push(FieldError::invalid(path, name, wrong.join("; ")));
    } else if !name.contains('.') {
        errors.push(FieldError::invalid(path, name, "at least two labels are needed, such as 'example.com'"));
    }
}

fn hints(errors: &mut Errors, path: &Path, hints: &Value) {
    for (field, rule) in [
        ("forZones", (|name| names::label_value(name)) as fn(&str) -> Vec<String>),
        ("forNodes", |name| names::dns_subdomain(name, false)),
    ] {
        let list = hints.list_at(field);
        let at = path.child(field);
        if list.len() > 8 {
            errors.push(FieldError::too_many(&at, list.len(), 8));
            return;
        }
        let mut taken = BTreeSet::new();
        for (i, hint) in list.iter().enumerate() {
            let (here, name) = (at.index(i).child("name"), hint.str_at("name"));
            if !taken.insert(name) {
                errors.push(FieldError::duplicate(&here, name));
            }
            check::all_of(errors, &here, name, rule(name));
        }
    }
}
