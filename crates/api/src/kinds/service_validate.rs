//! What a Service may say: ports, type, addresses, balancer fields, and what an update may change.
//!
//! Called by `service` for new, changed and status writes. Field paths and reasons are those of upstream's
//! `ValidateService`, two odd paths included (`spec.LoadBalancerSourceRanges`, `allocateLoadBalancerNodePorts`).

use super::{
    check::{self, Errors},
    service::{externally_accessible, is_headless, needs_health_check},
    service_ips,
};
use crate::{error::FieldError, object::Fields, path::Path};
use serde_json::{Value, json};
use std::collections::BTreeSet;

const SOURCE_RANGES: &str = "service.beta.kubernetes.io/load-balancer-source-ranges";
const HINTS: &str = "service.kubernetes.io/topology-aware-hints";
const MODE: &str = "service.kubernetes.io/topology-mode";

/// Mistakes in a Service; `old` is what it was before, if it was.
pub fn validate(service: &Value, old: Option<&Value>) -> Errors {
    let mut errors = Errors::new();
    let spec = service.at("spec");
    let path = Path::new("spec");
    topology_annotations(&mut errors, service);
    ports_present(&mut errors, service);
    by_type(&mut errors, service);
    ports(&mut errors, service);
    check::labels(&mut errors, &path.child("selector"), spec.at("selector"));
    affinity(&mut errors, spec);
    errors.extend(service_ips::validate(service, old));
    external_ips(&mut errors, spec, old);
    let types = ["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"];
    check::required_one_of(&mut errors, &path.child("type"), spec.str_at("type"), &types);
    port_numbers(&mut errors, spec);
    source_ranges(&mut errors, service, old);
    balancer(&mut errors, spec);
    traffic_policies(&mut errors, service);
    errors
}

/// Mistakes in a changed Service.
pub fn validate_update(service: &Value, old: &Value) -> Errors {
    let mut errors = service_ips::validate_update(service, old);
    let path = Path::new("spec");
    let both_balance = [service, old].iter().all(|s| s.str_at("spec.type") == "LoadBalancer");
    if both_balance && service.at("spec.loadBalancerClass") != old.at("spec.loadBalancerClass") {
        let class = service.at("spec.loadBalancerClass").clone();
        let text = "cannot be changed while the type stays LoadBalancer";
        errors.push(FieldError::invalid(&path.child("loadBalancerClass"), class, text));
    }
    let port = |service: &Value| service.int_at("spec.healthCheckNodePort").unwrap_or_default();
    if needs_health_check(service) && needs_health_check(old) && port(service) != port(old) {
        let text = "cannot be changed while the service keeps it";
        errors.push(FieldError::forbidden(&path.child("healthCheckNodePort"), text));
    }
    errors.extend(validate(service, Some(old)));
    errors
}

/// Mistakes in a changed status.
pub fn validate_status(service: &Value, old: &Value) -> Errors {
    let mut errors = Errors::new();
    let path = Path::new("status").child("loadBalancer").child("ingress");
    let points = service.list_at("status.loadBalancer.ingress");
    if service.str_at("spec.type") != "LoadBalancer" && !points.is_empty() {
        errors.push(FieldError::forbidden(&path, "only a service of type LoadBalancer has it"));
        return errors;
    }
    let before: Vec<_> = old.list_at("status.loadBalancer.ingress").iter().map(|point| point.str_at("ip")).collect();
    for (i, point) in points.iter().enumerate() {
        let at = path.index(i);
        let (ip, mode, hostname) = (point.str_at("ip"), point.at("ipMode"), point.str_at("hostname"));
        if !ip.is_empty() {
            check::ip(&mut errors, &at.child("ip"), ip, before.iter().copied());
        }
        match (mode.as_str(), ip.is_empty()) {
            (None, false) => errors.push(FieldError::required(&at.child("ipMode"), "VIP or Proxy, because ip is set")),
            (Some(_), true) => errors.push(FieldError::forbidden(&at.child("ipMode"), "only beside ip")),
            (Some(mode), false) => check::one_of(&mut errors, &at.child("ipMode"), mode, &["Proxy", "VIP"]),
            (None, true) => {}
        }
        if !hostname.is_empty() {
            check::hostname(&mut errors, &at.child("hostname"), hostname);
        }
    }
    errors
}

fn topology_annotations(errors: &mut Errors, service: &Value) {
    let annotation = |key: &str| service.at("metadata.annotations").get(key).and_then(Value::as_str);
    if let (Some(hints), Some(mode)) = (annotation(HINTS), annotation(MODE))
        && hints != mode
    {
        let path = Path::new("metadata").child("annotations").key(MODE);
        errors.push(FieldError::invalid(&path, mode, format!("must be the same as {HINTS}, or stand alone")));
    }
}

fn ports_present(errors: &mut Errors, service: &Value) {
    let needs_none = is_headless(service) || service.str_at("spec.type") == "ExternalName";
    if service.list_at("spec.ports").is_empty() && !needs_none {
        errors.push(FieldError::required(&Path::new("spec").child("ports"), "at least one port"));
    }
}

fn by_type(errors: &mut Errors, service: &Value) {
    let spec = service.at("spec");
    let path = Path::new("spec");
    match spec.str_at("type") {
        kind @ ("LoadBalancer" | "NodePort") if is_headless(service) => {
            let text = format!("a service of type {kind} cannot be headless");
            errors.push(FieldError::invalid(&path.child("clusterIPs").index(0), "None", text));
        }
        "ExternalName" => {
            for field in ["clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
                let value = spec.at(field);
                if !value.is_null() && value.as_array().is_none_or(|list| !list.is_empty()) {
                    errors.push(FieldError::forbidden(&path.child(field), "a service of type ExternalName has none"));
                }
            }
            let given = spec.str_at("externalName");
            match given.strip_suffix('.').unwrap_or(given) {
                "" => errors.push(FieldError::required(&path.child("externalName"), "a DNS name")),
                name => check::dns_subdomain(errors, &path.child("externalName"), name),
            }
        }
        _ => {}
    }
}

fn ports(errors: &mut Errors, service: &Value) {
    let list = service.list_at("spec.ports");
    let mut names = BTreeSet::new();
    for (i, port) in list.iter().enumerate() {
        let at = Path::new("spec").child("ports").index(i);
        match port.str_at("name") {
            "" if list.len() > 1 => errors.push(FieldError::required(&at.child("name"), "several ports need names")),
            "" => {}
            name => {
                check::dns_label(errors, &at.child("name"), name);
                if !names.insert(name) {
                    errors.push(FieldError::duplicate(&at.child("name"), name));
                }
            }
        }
        check::port(errors, &at.child("port"), port.int_at("port").unwrap_or_default());
        check::protocol(errors, &at.child("protocol"), port.str_at("protocol"));
        check::port_or_name(errors, &at.child("targetPort"), port.at("targetPort"));
        if let Some(name) = port.at("appProtocol").as_str() {
            check::qualified_name(errors, &at.child("appProtocol"), name);
        }
    }
}

fn affinity(errors: &mut Errors, spec: &Value) {
    let path = Path::new("spec");
    let affinity = spec.str_at("sessionAffinity");
    check::required_one_of(errors, &path.child("sessionAffinity"), affinity, &["ClientIP", "None"]);
    let config = path.child("sessionAffinityConfig");
    match affinity {
        "ClientIP" => {
            let mut at = config;
            for step in [
                "sessionAffinityConfig",
                "sessionAffinityConfig.clientIP",
                "sessionAffinityConfig.clientIP.timeoutSeconds",
            ] {
                if step != "sessionAffinityConfig" {
                    at = at.child(step.rsplit('.').next().unwrap_or_default());
                }
                if spec.at(step).is_null() {
                    errors.push(FieldError::required(&at, "needed by session affinity ClientIP"));
                    return;
                }
            }
            let seconds = spec.int_at("sessionAffinityConfig.clientIP.timeoutSeconds").unwrap_or_default();
            check::in_range(errors, &at, seconds, 1, 86400);
        }
        "None" if !spec.at("sessionAffinityConfig").is_null() => {
            errors.push(FieldError::forbidden(&config, "session affinity None has no settings"));
        }
        _ => {}
    }
}

fn external_ips(errors: &mut Errors, spec: &Value, old: Option<&Value>) {
    let before = old.map(|old| check::texts(old, "spec.externalIPs")).unwrap_or_default();
    for (i, text) in check::texts(spec, "externalIPs").into_iter().enumerate() {
        let at = Path::new("spec").child("externalIPs").index(i);
        if let Some(ip) = check::ip(errors, &at, text, before.iter().copied()) {
            check::endpoint_ip(errors, &at, text, ip);
        }
    }
}

fn port_numbers(errors: &mut Errors, spec: &Value) {
    let (mut ports, mut node_ports) = (BTreeSet::new(), BTreeSet::new());
    for (i, port) in spec.list_at("ports").iter().enumerate() {
        let at = Path::new("spec").child("ports").index(i);
        let (protocol, number) = (port.str_at("protocol"), port.int_at("port").unwrap_or_default());
        let node_port = port.int_at("nodePort").unwrap_or_default();
        if node_port != 0 && spec.str_at("type") == "ClusterIP" {
            errors.push(FieldError::forbidden(&at.child("nodePort"), "a service of type ClusterIP has no node ports"));
        }
        if node_port != 0 && !node_ports.insert((protocol, node_port)) {
            errors.push(FieldError::duplicate(&at.child("nodePort"), node_port));
        }
        if !ports.insert((protocol, number)) {
            errors.push(FieldError::duplicate(&at, json!({"protocol": protocol, "port": number})));
        }
    }
}

fn source_ranges(errors: &mut Errors, service: &Value, old: Option<&Value>) {
    const ONLY: &str = "only a service of type LoadBalancer has source ranges";
    let balances = service.str_at("spec.type") == "LoadBalancer";
    let ranges = check::texts(service, "spec.loadBalancerSourceRanges");
    let annotation = |service: &Value| {
        service.at("metadata.annotations").get(SOURCE_RANGES).and_then(Value::as_str).map(str::to_owned)
    };
    if !ranges.is_empty() {
        let path = Path::new("spec").child("LoadBalancerSourceRanges");
        if !balances {
            errors.push(FieldError::forbidden(&path, ONLY));
        }
        let before = old.map(|old| check::texts(old, "spec.loadBalancerSourceRanges")).unwrap_or_default();
        for (i, range) in ranges.into_iter().enumerate() {
            check::cidr(errors, &path.index(i), range.trim(), before.iter().map(|range| range.trim()));
        }
    } else if let Some(given) = annotation(service) {
        let path = Path::new("metadata").child("annotations").key(SOURCE_RANGES);
        if !balances {
            errors.push(FieldError::forbidden(&path, ONLY));
        }
        if old.and_then(annotation).as_ref() != Some(&given) && !given.trim().is_empty() {
            for range in given.split(',') {
                check::cidr(errors, &path, range.trim(), []);
            }
        }
    }
}

fn balancer(errors: &mut Errors, spec: &Value) {
    let path = Path::new("spec");
    let balances = spec.str_at("type") == "LoadBalancer";
    let allocate = spec.at("allocateLoadBalancerNodePorts");
    if balances && allocate.is_null() {
        errors.push(FieldError::required(&Path::new("allocateLoadBalancerNodePorts"), "true or false"));
    }
    if !balances && !allocate.is_null() {
        let text = "only a service of type LoadBalancer has it";
        errors.push(FieldError::forbidden(&path.child("allocateLoadBalancerNodePorts"), text));
    }
    if let Some(class) = spec.at("loadBalancerClass").as_str() {
        let at = path.child("loadBalancerClass");
        if balances {
            check::qualified_name(errors, &at, class);
        } else {
            errors.push(FieldError::forbidden(&at, "only a service of type LoadBalancer has a class"));
        }
    }
}

fn traffic_policies(errors: &mut Errors, service: &Value) {
    let spec = service.at("spec");
    let path = Path::new("spec");
    let external = spec.str_at("externalTrafficPolicy");
    let at = path.child("externalTrafficPolicy");
    if externally_accessible(service) {
        check::required_one_of(errors, &at, external, &["Cluster", "Local"]);
    } else if !external.is_empty() {
        errors.push(FieldError::invalid(&at, external, "only a service that can be reached from outside has one"));
    }
    let at = path.child("healthCheckNodePort");
    match (needs_health_check(service), spec.int_at("healthCheckNodePort").unwrap_or_default()) {
        (true, 0) => errors.push(FieldError::required(&at, "a node port")),
        (true, port) => check::port(errors, &at, port),
        (false, 0) => {}
        (false, port) => {
            let text = "only with type LoadBalancer and externalTrafficPolicy Local";
            errors.push(FieldError::invalid(&at, port, text));
        }
    }
    let at = path.child("internalTrafficPolicy");
    match spec.at("internalTrafficPolicy").as_str() {
        Some(policy) => check::one_of(errors, &at, policy, &["Cluster", "Local"]),
        None if ["ClusterIP", "LoadBalancer", "NodePort"].contains(&spec.str_at("type")) => {
            errors.push(FieldError::required(&at, "Cluster or Local"));
        }
        None => {}
    }
    if let Some(wish) = spec.at("trafficDistribution").as_str() {
        let accepted = ["PreferClose", "PreferSameZone", "PreferSameNode"];
        check::one_of(errors, &path.child("trafficDistribution"), wish, &accepted);
    }
}
