//! The cluster's configuration as objects: config.openshift.io (Infrastructure, Network, Ingress, DNS, FeatureGate) and
//! operator.openshift.io IngressController and DNS, as Rust types of their specs and statuses and as definitions for the API server.
//!
//! `twinstack init` writes them, operators read them. Field names, enums and rules are upstream's; the words are ours.
//! A type holds what somebody here reads or writes; what else an object has is in its `rest` and survives a round trip.

mod custom;
mod definitions;
mod dns;
mod dns_record;
mod feature_gate;
mod infrastructure;
mod ingress;
pub mod ingress_controller;
mod network;
mod operator_dns;
mod route;

pub use custom::{ClusterWide, CustomResource, Namespaced, Part};
pub use definitions::{
    DNS_OPERATOR_DEFINITIONS, INGRESS_OPERATOR_DEFINITIONS, definition_texts, definitions, definitions_named,
};
pub use dns::{AwsDns, DnsPlatform, DnsSpec, DnsZone};
pub use dns_record::{DnsRecordSpec, DnsRecordStatus, DnsZoneStatus, RecordType};
pub use feature_gate::{CustomGates, FeatureGateSpec, FeatureGateStatus, FeatureSet, GateName, VersionGates};
pub use infrastructure::{
    AwsIpFamily, AwsPlatformStatus, AwsResourceTag, CloudConfigReference, InfrastructureSpec, InfrastructureStatus,
    PlatformSpec, PlatformStatus, ServiceEndpoint, Topology,
};
pub use ingress::{AwsIngress, IngressLoadBalancer, IngressPlatform, IngressSpec, IngressStatus, Placement};
pub use ingress_controller::{
    AwsLoadBalancer, DnsManagement, HostNetwork, IngressControllerSpec, IngressControllerStatus, LoadBalancer,
    LoadBalancerKind, NetworkLoadBalancer, NodePort, OperatorCondition, Private, Protocol, ProviderParameters,
    Publishing, PublishingKind, Scope, Subnets,
};
pub use network::{ClusterNetwork, NetworkSpec, NetworkStatus};
pub use operator_dns::{
    BundleName, DnsCache, DnsServer, DnsTemplate, ForwardPlugin, GenerateResponse, NodePlacement, OperatorDnsSpec,
    OperatorDnsStatus, ReturnEmpty, TemplateAction, TransportConfig, Upstream, UpstreamResolvers, UpstreamTls,
};
pub use route::{
    HeaderAction, HeaderActions, HeaderChange, HeaderValue, RouteCondition, RouteHeaders, RouteIngress, RoutePort,
    RouteSpec, RouteStatus, RouteTarget, RouteTls, SecretName,
};

/// Group and version of the cluster-wide objects, each named [`CLUSTER`].
pub const CONFIG: &str = "config.openshift.io/v1";
/// Group and version of operators' objects.
pub const OPERATOR: &str = "operator.openshift.io/v1";
/// The name of every cluster-wide object.
pub const CLUSTER: &str = "cluster";
/// Where IngressControllers live.
pub const INGRESS_NAMESPACE: &str = "openshift-ingress-operator";

#[cfg(test)]
mod tests;
