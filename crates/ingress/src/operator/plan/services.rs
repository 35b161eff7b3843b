//! The NodePort and the ClusterIP Service of routers, and what of live ones is put right.
//!
//! Where Pods have both families they are made with both, which upstream leaves to whoever edits them; later edits are kept.

use super::Input;
use crate::operator::names;
use api::config::PublishingKind;
use k8s_openapi::{
    api::core::v1::{Service, ServicePort, ServiceSpec},
    apimachinery::pkg::util::intstr::IntOrString,
};
use kube::ResourceExt;

/// Ports by their names, leading to the container ports of the same names.
pub fn ports(names: &[&str]) -> Vec<ServicePort> {
    let number = |name: &str| match name {
        "http" => 80,
        "https" => 443,
        _ => 1936,
    };
    let port = |name: &&str| ServicePort {
        name: Some((*name).to_owned()),
        protocol: Some("TCP".to_owned()),
        port: number(name),
        target_port: Some(IntOrString::String((*name).to_owned())),
        ..ServicePort::default()
    };
    names.iter().map(port).collect()
}

/// The Service of type NodePort; nothing where the strategy wants none.
pub fn node_port(input: Input<'_>) -> Option<Service> {
    (input.admission.strategy.kind == PublishingKind::NodePortService).then(|| {
        let mut service = service(input, &input.names.node_port, "NodePort");
        if let Some(spec) = &mut service.spec {
            spec.external_traffic_policy = Some("Local".to_owned());
        }
        service
    })
}

/// The Service of type ClusterIP, which every IngressController has.
pub fn internal(input: Input<'_>) -> Service {
    let mut service = service(input, &input.names.internal, "ClusterIP");
    let certificate = format!("router-metrics-certs-{}", input.names.controller);
    service.annotations_mut().insert("service.alpha.openshift.io/serving-cert-secret-name".to_owned(), certificate);
    service
}

fn service(input: Input<'_>, name: &str, type_: &str) -> Service {
    let spec = ServiceSpec {
        type_: Some(type_.to_owned()),
        selector: Some(input.names.selector()),
        ports: Some(ports(&["http", "https", "metrics"])),
        internal_traffic_policy: Some("Cluster".to_owned()),
        session_affinity: Some("None".to_owned()),
        ip_family_policy: input.cluster.has_both_families().then(|| "PreferDualStack".to_owned()),
        ..ServiceSpec::default()
    };
    let mut service = Service { spec: Some(spec), ..Service::default() };
    service.metadata.name = Some(name.to_owned());
    service.metadata.namespace = Some(names::OPERAND_NAMESPACE.to_owned());
    service.metadata.labels = Some(input.names.owning());
    service
}

/// The Service to write instead of the live one: ports, selector, type and policies are ours; allocated ports and addresses,
/// families and everything else are kept. A NodePort Service without the metrics port stays without it.
pub fn update(live: &Service, wanted: &Service) -> Option<Service> {
    let mut new = live.clone();
    for (key, value) in wanted.annotations() {
        new.annotations_mut().insert(key.clone(), value.clone());
    }
    for (key, value) in wanted.labels() {
        new.labels_mut().insert(key.clone(), value.clone());
    }
    let (asked, current) = (wanted.spec.clone().unwrap_or_default(), live.spec.clone().unwrap_or_default());
    let spec = new.spec.get_or_insert_default();
    let known = current.ports.unwrap_or_default();
    let is_node_port = asked.type_.as_deref() == Some("NodePort");
    let has_metrics = known.iter().any(|port| port.name.as_deref() == Some("metrics"));
    let mut ports = asked.ports.unwrap_or_default();
    ports.retain(|port| !is_node_port || has_metrics || port.name.as_deref() != Some("metrics"));
    for port in &mut ports {
        let before = known.iter().find(|known| known.name == port.name);
        port.node_port = before.and_then(|before| before.node_port);
        port.app_protocol = before.and_then(|before| before.app_protocol.clone());
    }
    spec.ports = Some(ports);
    spec.type_ = asked.type_;
    spec.selector = asked.selector;
    spec.session_affinity = asked.session_affinity;
    spec.internal_traffic_policy = asked.internal_traffic_policy;
    if asked.external_traffic_policy.is_some() {
        spec.external_traffic_policy = asked.external_traffic_policy;
    }
    (new.metadata != live.metadata || new.spec != live.spec).then_some(new)
}
