//! Service: defaults that do not depend on the cluster, what an update carries over, table columns.
//!
//! Families, cluster IPs and node ports depend on the cluster's ranges; the API server resolves them before validation
//! (`service_validate`), which checks their structure. Mirrors `pkg/registry/core/service` and its defaults.

use super::{
    check::{self, Errors},
    columns::{self, AGE, NAME, SELECTOR},
    edit::{fill, items},
    names, service_validate,
};
use crate::{
    object::Fields,
    path::Path,
    resource::{Column, Rules},
};
use serde_json::{Value, json};

/// Rules of v1 Service.
pub struct Service;

impl Rules for Service {
    fn default(&self, service: &mut Value) {
        affinity_defaults(service);
        if service.str_at("spec.type").is_empty() {
            service.set("spec.type", "ClusterIP");
        }
        for port in items(service, "spec.ports") {
            fill(port, "protocol", "TCP");
            let target = port.at("targetPort");
            if target.is_null() || target == 0 || target == "" {
                let number = port.int_at("port").unwrap_or_default();
                port.set("targetPort", number);
            }
        }
        if externally_accessible(service) && service.str_at("spec.externalTrafficPolicy").is_empty() {
            service.set("spec.externalTrafficPolicy", "Cluster");
        }
        let kind = service.str_at("spec.type").to_owned();
        if ["ClusterIP", "NodePort", "LoadBalancer"].contains(&kind.as_str()) {
            service.set_default("spec.internalTrafficPolicy", "Cluster");
        }
        if kind == "LoadBalancer" {
            service.set_default("spec.allocateLoadBalancerNodePorts", true);
            for point in items(service, "status.loadBalancer.ingress") {
                if !point.str_at("ip").is_empty() {
                    point.set_default("ipMode", "VIP");
                }
            }
        }
    }

    fn prepare_create(&self, service: &mut Value) {
        service.set("status", json!({"loadBalancer": {}}));
        drop_traffic_policy(service);
    }

    fn prepare_update(&self, service: &mut Value, old: &Value) {
        service.set("status", old.at("status").clone());
        drop_type_dependent_fields(service, old);
        drop_traffic_policy(service);
    }

    fn validate(&self, service: &Value) -> Errors {
        service_validate::validate(service, None)
    }

    fn validate_update(&self, service: &Value, old: &Value) -> Errors {
        service_validate::validate_update(service, old)
    }

    fn validate_status(&self, service: &Value, old: &Value) -> Errors {
        service_validate::validate_status(service, old)
    }

    fn warnings(&self, service: &Value, _old: Option<&Value>) -> Vec<String> {
        warnings(service)
    }

    fn name_mistakes(&self, name: &str, prefix: bool) -> Vec<String> {
        names::dns_label(name, prefix)
    }

    fn create_on_update(&self) -> bool {
        true
    }

    fn columns(&self) -> Vec<Column> {
        columns::columns(&[
            NAME,
            ("Type", "string", 0, "How the service is reached"),
            ("Cluster-IP", "string", 0, "First address inside the cluster"),
            ("External-IP", "string", 0, "Addresses and names outside the cluster"),
            ("Port(s)", "string", 0, "Port, node port and protocol of each port"),
            AGE,
            SELECTOR,
        ])
    }

    fn cells(&self, service: &Value, now: jiff::Timestamp) -> Vec<Value> {
        let spec = service.at("spec");
        let cluster_ip = spec.list_at("clusterIPs").first().and_then(Value::as_str).unwrap_or("<none>");
        let ports: Vec<String> = spec
            .list_at("ports")
            .iter()
            .map(|port| {
                let (number, protocol) = (port.int_at("port").unwrap_or_default(), port.str_at("protocol"));
                match port.int_at("nodePort").unwrap_or_default() {
                    0 => format!("{number}/{protocol}"),
                    node => format!("{number}:{node}/{protocol}"),
                }
            })
            .collect();
        vec![
            columns::name(service),
            spec.at("type").clone(),
            cluster_ip.into(),
            external_ip(service).into(),
            columns::or(ports.join(","), "<none>").into(),
            columns::age(service, now),
            columns::labels(spec.at("selector")).into(),
        ]
    }
}

/// Type NodePort or LoadBalancer, or ClusterIP with external IPs.
pub fn externally_accessible(service: &Value) -> bool {
    match service.str_at("spec.type") {
        "NodePort" | "LoadBalancer" => true,
        "ClusterIP" => !service.list_at("spec.externalIPs").is_empty(),
        _ => false,
    }
}

/// `clusterIP: None`, and nothing else beside it.
pub fn is_headless(service: &Value) -> bool {
    matches!(service.list_at("spec.clusterIPs"), [only] if only == "None")
}

/// Whether a health check port belongs to it: load balancers that keep traffic on the node it reached.
pub fn needs_health_check(service: &Value) -> bool {
    service.str_at("spec.type") == "LoadBalancer" && service.str_at("spec.externalTrafficPolicy") == "Local"
}

fn affinity_defaults(service: &mut Value) {
    if service.str_at("spec.sessionAffinity").is_empty() {
        service.set("spec.sessionAffinity", "None");
    }
    match service.str_at("spec.sessionAffinity") {
        "None" => {
            service.remove("spec.sessionAffinityConfig");
        }
        "ClientIP" if service.at("spec.sessionAffinityConfig.clientIP.timeoutSeconds").is_null() => {
            service.set("spec.sessionAffinityConfig", json!({"clientIP": {"timeoutSeconds": 10800}}));
        }
        _ => {}
    }
}

/// Lets a client change only `type`: what the old type needed and the new one forbids goes, unless the client changed it.
fn drop_type_dependent_fields(service: &mut Value, old: &Value) {
    let same = |service: &Value, path: &str| check::same(service.at(path), old.at(path));
    let kind = service.str_at("spec.type").to_owned();
    let old_kind = old.str_at("spec.type");
    let mut gone = Vec::new();
    if old_kind != "ExternalName" && kind == "ExternalName" {
        if same(service, "spec.clusterIPs") && same(service, "spec.clusterIP") {
            gone.extend(["spec.clusterIP", "spec.clusterIPs"]);
        }
        gone.extend(["spec.ipFamilies", "spec.ipFamilyPolicy"].iter().filter(|path| same(service, path)));
    }
    if needs_health_check(old) && !needs_health_check(service) && same(service, "spec.healthCheckNodePort") {
        gone.push("spec.healthCheckNodePort");
    }
    if old_kind == "LoadBalancer" && kind != "LoadBalancer" {
        let of_balancers = ["spec.allocateLoadBalancerNodePorts", "spec.loadBalancerClass"];
        gone.extend(of_balancers.iter().filter(|path| same(service, path)));
    }
    if externally_accessible(old) && !externally_accessible(service) && same(service, "spec.externalTrafficPolicy") {
        gone.push("spec.externalTrafficPolicy");
    }
    let has_node_ports = |kind: &str| ["NodePort", "LoadBalancer"].contains(&kind);
    if has_node_ports(old_kind)
        && !has_node_ports(&kind)
        && node_ports(service).iter().all(|p| node_ports(old).contains(p))
    {
        for port in items(service, "spec.ports") {
            port.remove("nodePort");
        }
    }
    for path in gone {
        service.remove(path);
    }
    if kind != "LoadBalancer" {
        service.set("status.loadBalancer", json!({}));
    }
}

/// A name elsewhere has no traffic inside the cluster; upstream hides the policy from every reader. A wrong one stays, to
/// be refused.
fn drop_traffic_policy(service: &mut Value) {
    let known = matches!(service.str_at("spec.internalTrafficPolicy"), "Cluster" | "Local");
    if service.str_at("spec.type") == "ExternalName" && known {
        service.remove("spec.internalTrafficPolicy");
    }
}

fn node_ports(service: &Value) -> Vec<i64> {
    service.list_at("spec.ports").iter().filter_map(|port| port.int_at("nodePort")).filter(|n| *n != 0).collect()
}

fn external_ip(service: &Value) -> String {
    let external = check::texts(service, "spec.externalIPs").join(",");
    match service.str_at("spec.type") {
        "ClusterIP" | "NodePort" => columns::or(external, "<none>"),
        "LoadBalancer" => {
            let both: Vec<_> =
                [columns::load_balancer(service), external].into_iter().filter(|t| !t.is_empty()).collect();
            columns::or(both.join(","), "<pending>")
        }
        "ExternalName" => service.str_at("spec.externalName").to_owned(),
        _ => "<unknown>".to_owned(),
    }
}

fn warnings(service: &Value) -> Vec<String> {
    let mut advice = Vec::new();
    let spec = service.at("spec");
    let path = Path::new("spec");
    let annotations = service.at("metadata.annotations");
    let headless = spec.str_at("type") == "ClusterIP" && spec.str_at("clusterIP") == "None";
    let external = check::texts(spec, "externalIPs");
    let is_external_name = spec.str_at("type") == "ExternalName";
    if annotations.get("service.kubernetes.io/topology-aware-hints").is_some() {
        advice.push(
            "annotation service.kubernetes.io/topology-aware-hints is deprecated; use service.kubernetes.io/topology-mode"
                .to_owned(),
        );
    }
    let addresses = [("clusterIPs", check::texts(spec, "clusterIPs")), ("externalIPs", external.clone())];
    for (field, list) in addresses {
        for (i, ip) in list.iter().enumerate() {
            advice.extend(check::ip_advice(&path.child(field).index(i), ip));
        }
    }
    advice.extend(check::ip_advice(&path.child("loadBalancerIP"), spec.str_at("loadBalancerIP")));
    for (i, range) in check::texts(spec, "loadBalancerSourceRanges").iter().enumerate() {
        advice.extend(check::cidr_advice(&path.child("loadBalancerSourceRanges").index(i), range));
    }
    for (warns, text) in [
        (
            headless && !spec.str_at("loadBalancerIP").is_empty(),
            "spec.loadBalancerIP has no effect on a headless service",
        ),
        (headless && !external.is_empty(), "spec.externalIPs has no effect on a headless service"),
        (
            headless && spec.str_at("sessionAffinity") != "None",
            "spec.sessionAffinity has no effect on a headless service",
        ),
        (
            !headless && !external.is_empty() && !is_external_name,
            "spec.externalIPs is deprecated; some clusters may no longer act on it",
        ),
        (is_external_name && !external.is_empty(), "spec.externalIPs has no effect when spec.type is ExternalName"),
        (
            !is_external_name && !spec.str_at("externalName").is_empty(),
            "spec.externalName has no effect unless spec.type is ExternalName",
        ),
        (
            spec.str_at("trafficDistribution") == "PreferClose",
            "spec.trafficDistribution: PreferClose is deprecated; use PreferSameZone",
        ),
    ] {
        if warns {
            advice.push(text.to_owned());
        }
    }
    advice
}
