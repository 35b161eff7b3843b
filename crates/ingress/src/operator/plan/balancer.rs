//! The Service of type LoadBalancer that an IngressController wants: annotations by platform, families on AWS.

use super::{Input, live};
use crate::operator::{names, strategy};
use api::config::{AwsIpFamily, LoadBalancerKind, Protocol, PublishingKind, Scope, Subnets};
use k8s_openapi::api::core::v1::{Service, ServiceSpec};
use serde_json::json;
use std::collections::BTreeMap;

/// Annotations that tell a cloud what the load balancer is like.
pub mod annotation {
    /// Present and `nlb`, or absent for a classic one.
    pub const AWS_TYPE: &str = "service.beta.kubernetes.io/aws-load-balancer-type";
    /// `*` on a classic one that sends PROXY headers.
    pub const AWS_PROXY: &str = "service.beta.kubernetes.io/aws-load-balancer-proxy-protocol";
    /// What a network load balancer tells its targets.
    pub const AWS_TARGET_GROUP: &str = "service.beta.kubernetes.io/aws-load-balancer-target-group-attributes";
    /// Seconds between health checks.
    pub const AWS_INTERVAL: &str = "service.beta.kubernetes.io/aws-load-balancer-healthcheck-interval";
    /// Seconds until a health check fails.
    pub const AWS_TIMEOUT: &str = "service.beta.kubernetes.io/aws-load-balancer-healthcheck-timeout";
    /// Failures until a target is out.
    pub const AWS_UNHEALTHY: &str = "service.beta.kubernetes.io/aws-load-balancer-healthcheck-unhealthy-threshold";
    /// Successes until it is in again.
    pub const AWS_HEALTHY: &str = "service.beta.kubernetes.io/aws-load-balancer-healthcheck-healthy-threshold";
    /// Seconds for which a silent connection is kept.
    pub const AWS_IDLE: &str = "service.beta.kubernetes.io/aws-load-balancer-connection-idle-timeout";
    /// Subnets, ids and then names.
    pub const AWS_SUBNETS: &str = "service.beta.kubernetes.io/aws-load-balancer-subnets";
    /// Elastic addresses.
    pub const AWS_EIP: &str = "service.beta.kubernetes.io/aws-load-balancer-eip-allocations";
    /// Security groups instead of the managed one.
    pub const AWS_GROUPS: &str = "service.beta.kubernetes.io/aws-load-balancer-security-groups";
    /// Tags for what is made.
    pub const AWS_TAGS: &str = "service.beta.kubernetes.io/aws-load-balancer-additional-resource-tags";
    /// `true` keeps it inside.
    pub const AWS_INTERNAL: &str = "service.beta.kubernetes.io/aws-load-balancer-internal";
    /// `true` keeps it inside.
    pub const AZURE_INTERNAL: &str = "service.beta.kubernetes.io/azure-load-balancer-internal";
    /// `Internal` keeps it inside.
    pub const GCP_TYPE: &str = "cloud.google.com/load-balancer-type";
    /// `true` lets other regions in.
    pub const GCP_GLOBAL: &str = "networking.gke.io/internal-load-balancer-allow-global-access";
    /// `public` or `private`.
    pub const IBM_IP_TYPE: &str = "service.kubernetes.io/ibm-load-balancer-cloud-provider-ip-type";
    /// `proxy-protocol` sends PROXY headers.
    pub const IBM_FEATURES: &str = "service.kubernetes.io/ibm-load-balancer-cloud-provider-enable-features";
    /// `true` keeps it inside.
    pub const OPENSTACK_INTERNAL: &str = "service.beta.kubernetes.io/openstack-internal-load-balancer";
    /// Nodes without a router pass traffic on instead of dropping it.
    pub const LOCAL_WITH_FALLBACK: &str = "traffic-policy.network.alpha.openshift.io/local-with-fallback";
    /// The older form of `loadBalancerSourceRanges`.
    pub const SOURCE_RANGES: &str = "service.beta.kubernetes.io/load-balancer-source-ranges";
}

/// The Service; nothing where the strategy wants none. What depends on the type follows the live one while a change is pending.
pub fn wanted(input: Input<'_>, live: Option<&Service>) -> Option<Service> {
    let strategy = &input.admission.strategy;
    let balancer = strategy.load_balancer.as_ref()?;
    if strategy.kind != PublishingKind::LoadBalancerService {
        return None;
    }
    let (names, platform) = (input.names, input.cluster.platform.as_deref().unwrap_or_default());
    let mut annotations = BTreeMap::new();
    let mut put = |key: &str, value: &str| annotations.insert(key.to_owned(), value.to_owned());
    let internal = balancer.scope == Scope::Internal;
    let parameters = balancer.provider_parameters.as_ref();
    match platform {
        "AWS" => aws(input, live, internal, &mut put),
        "Azure" if internal => drop(put(annotation::AZURE_INTERNAL, "true")),
        "GCP" if internal => {
            put(annotation::GCP_TYPE, "Internal");
            let access = parameters.and_then(|some| some.gcp.as_ref()).map_or("", |gcp| gcp.client_access.as_str());
            if !access.is_empty() {
                put(annotation::GCP_GLOBAL, if access == "Global" { "true" } else { "false" });
            }
        }
        "IBMCloud" | "PowerVS" => {
            put(annotation::IBM_IP_TYPE, if internal { "private" } else { "public" });
            let protocol = parameters.and_then(|some| some.ibm.as_ref()).map(|ibm| ibm.protocol);
            if protocol == Some(Protocol::Proxy) {
                put(annotation::IBM_FEATURES, "proxy-protocol");
            }
        }
        "OpenStack" if internal => drop(put(annotation::OPENSTACK_INTERNAL, "true")),
        _ => {}
    }
    let traffic = if matches!(platform, "IBMCloud" | "PowerVS") { "Cluster" } else { "Local" };
    let fallback = input.controller.spec.rest.get("unsupportedConfigOverrides").map(|some| &some["localWithFallback"]);
    if traffic == "Local" && fallback.is_none_or(|value| value != "false") {
        put(annotation::LOCAL_WITH_FALLBACK, "");
    }
    let families = live::effective_kind(input, live).and_then(|kind| families(input.cluster.ip_family, kind));
    // Where no cloud has rules of its own, a load balancer has the families that Pods have.
    let is_cloud = matches!(platform, "AWS" | "Azure" | "GCP" | "IBMCloud" | "PowerVS" | "OpenStack");
    let policy = (!is_cloud && input.cluster.has_both_families()).then_some("PreferDualStack");
    let policy = families.as_ref().map(|(policy, _)| *policy).or(policy);
    let floating = parameters.and_then(|some| some.openstack.as_ref()).map(|some| some.floating_ip.clone());
    let spec = ServiceSpec {
        type_: Some("LoadBalancer".to_owned()),
        selector: Some(names.selector()),
        ports: Some(super::services::ports(&["http", "https"])),
        external_traffic_policy: Some(traffic.to_owned()),
        internal_traffic_policy: Some("Cluster".to_owned()),
        session_affinity: Some("None".to_owned()),
        load_balancer_source_ranges: balancer.allowed_source_ranges.clone().filter(|ranges| !ranges.is_empty()),
        load_balancer_ip: floating.filter(|address| platform == "OpenStack" && !address.is_empty()),
        ip_family_policy: policy.map(str::to_owned),
        ip_families: families.map(|(_, list)| list.iter().map(|family| (*family).to_owned()).collect()),
        ..ServiceSpec::default()
    };
    let mut service = Service { spec: Some(spec), ..Service::default() };
    service.metadata.name = Some(names.router.clone());
    service.metadata.namespace = Some(names::OPERAND_NAMESPACE.to_owned());
    let mut labels = names.owning();
    labels.extend([("app".to_owned(), "router".to_owned()), ("router".to_owned(), names.router.clone())]);
    service.metadata.labels = Some(labels);
    service.metadata.annotations = Some(annotations);
    Some(service)
}

/// Policy and families that are written; nothing leaves both to the API server.
///
/// A classic load balancer is IPv4 alone; on a cluster whose first family is IPv6 the default would cut it off from its targets.
pub fn families(cluster: AwsIpFamily, kind: LoadBalancerKind) -> Option<(&'static str, &'static [&'static str])> {
    match (cluster, kind) {
        (AwsIpFamily::IPv4, _) => None,
        (_, LoadBalancerKind::Classic) => Some(("SingleStack", &["IPv4"])),
        (AwsIpFamily::DualStackIPv4Primary, LoadBalancerKind::Nlb) => Some(("RequireDualStack", &["IPv4", "IPv6"])),
        (AwsIpFamily::DualStackIPv6Primary, LoadBalancerKind::Nlb) => Some(("RequireDualStack", &["IPv6", "IPv4"])),
    }
}

fn aws(input: Input<'_>, live: Option<&Service>, internal: bool, put: &mut impl FnMut(&str, &str) -> Option<String>) {
    let Some(aws) = input.admission.strategy.aws() else { return };
    let kind = live::effective_kind(input, live).unwrap_or(aws.kind);
    let pending = live::kind_is_pending(input, live);
    let subnets = match kind {
        LoadBalancerKind::Classic => {
            put(annotation::AWS_PROXY, "*");
            put(annotation::AWS_INTERVAL, "5");
            let classic = aws.classic_load_balancer.as_ref();
            let idle = classic.and_then(|classic| classic.connection_idle_timeout.as_deref());
            if let Some(seconds) = idle.and_then(strategy::seconds).filter(|seconds| *seconds > 0) {
                put(annotation::AWS_IDLE, &seconds.to_string());
            }
            classic.and_then(|classic| classic.subnets.as_ref())
        }
        LoadBalancerKind::Nlb => {
            put(annotation::AWS_TYPE, "nlb");
            put(annotation::AWS_INTERVAL, "10");
            let network = aws.network_load_balancer.as_ref();
            let proxy = match pending {
                true => live.filter(|live| has_target_group(live)).map(live::sends_proxy),
                false => network
                    .map(|network| network.protocol)
                    .filter(|protocol| !protocol.is_unset())
                    .map(|protocol| protocol == Protocol::Proxy),
            };
            if let Some(proxy) = proxy {
                let text = format!("preserve_client_ip.enabled={},proxy_protocol_v2.enabled={proxy}", !proxy);
                put(annotation::AWS_TARGET_GROUP, &text);
            }
            if let Some(network) = network {
                for (key, list) in [
                    (annotation::AWS_EIP, &network.eip_allocations),
                    (annotation::AWS_GROUPS, &network.security_groups),
                ] {
                    if !list.is_empty() {
                        put(key, &list.join(","));
                    }
                }
            }
            network.and_then(|network| network.subnets.as_ref())
        }
    };
    for (key, value) in
        [(annotation::AWS_TIMEOUT, "4"), (annotation::AWS_UNHEALTHY, "2"), (annotation::AWS_HEALTHY, "2")]
    {
        put(key, value);
    }
    if let Some(list) = subnets.map(subnet_list).filter(|list| !list.is_empty()) {
        put(annotation::AWS_SUBNETS, &list.join(","));
    }
    let tags = input.cluster.tags.iter().filter(|tag| !tag.key.is_empty());
    let tags: Vec<String> = tags.map(|tag| format!("{}={}", tag.key, tag.value)).collect();
    if !tags.is_empty() {
        put(annotation::AWS_TAGS, &tags.join(","));
    }
    if internal {
        put(annotation::AWS_INTERNAL, "true");
    }
}

fn has_target_group(live: &Service) -> bool {
    live.metadata.annotations.as_ref().is_some_and(|all| all.contains_key(annotation::AWS_TARGET_GROUP))
}

/// Ids, then names.
pub fn subnet_list(subnets: &Subnets) -> Vec<String> {
    subnets.ids.iter().chain(&subnets.names).cloned().collect()
}

/// As the Service's owner reference has it: with the Deployment the Service goes.
pub fn owned_by(mut service: Service, owner: Option<(&str, &str)>) -> Service {
    service.metadata.owner_references = owner.and_then(|(name, uid)| {
        let reference = json!([{
            "apiVersion": "apps/v1", "kind": "Deployment", "name": name, "uid": uid, "controller": true,
        }]);
        serde_json::from_value(reference).ok()
    });
    service
}
