//! How the routers of an IngressController are to be reached: what the spec says, over what was decided before, over what
//! the platform suggests.
//!
//! Called by `admit`. The outcome is wanted, not observed: what a live load balancer is like is another input of the plans.
//! The kind stays once it is decided; of the rest a spec that is cleared goes back to the default, but for the type of a
//! load balancer, which stays, because changing it would cost the load balancer its address.

use super::cluster::Cluster;
use api::config::{
    AwsLoadBalancer, DnsManagement, HostNetwork, LoadBalancer, LoadBalancerKind, NodePort, Private, Protocol,
    ProviderParameters, Publishing, PublishingKind, Scope, ingress_controller::ClassicLoadBalancer,
};
use serde_json::Map;

/// What is wanted. `before` is the status; nothing for an IngressController that was never admitted.
pub fn wanted(
    spec: Option<&Publishing>,
    before: Option<&Publishing>,
    cluster: &Cluster,
    publishes_domain: bool,
) -> Publishing {
    let kind = before.or(spec).map_or_else(|| kind_of_platform(cluster), |decided| decided.kind);
    // A spec of another kind says nothing about this one.
    let spec = spec.filter(|spec| spec.kind == kind);
    let mut wanted = Publishing::of(kind);
    match kind {
        PublishingKind::HostNetwork => {
            let given = spec.and_then(|spec| spec.host_network.clone()).unwrap_or_default();
            wanted.host_network = Some(HostNetwork {
                protocol: given.protocol.resolved(),
                http_port: Some(or_default(given.http_port, 80)),
                https_port: Some(or_default(given.https_port, 443)),
                stats_port: Some(or_default(given.stats_port, 1936)),
            });
        }
        PublishingKind::NodePortService => {
            let protocol = spec.and_then(|spec| spec.node_port.as_ref()).map(|some| some.protocol).unwrap_or_default();
            wanted.node_port = Some(NodePort { protocol: protocol.resolved() });
        }
        PublishingKind::Private => {
            let protocol = spec.and_then(|spec| spec.private.as_ref()).map(|some| some.protocol).unwrap_or_default();
            wanted.private = Some(Private { protocol: protocol.resolved() });
        }
        PublishingKind::LoadBalancerService => {
            let given = spec.and_then(|spec| spec.load_balancer.as_ref());
            let before = before.and_then(|before| before.load_balancer.as_ref());
            wanted.load_balancer = Some(balancer(given, before, cluster, publishes_domain));
        }
    }
    wanted
}

/// 0 is the default, and so is a port that cannot be one.
fn or_default(port: Option<u16>, default: u16) -> u16 {
    port.filter(|port| *port != 0).unwrap_or(default)
}

fn kind_of_platform(cluster: &Cluster) -> PublishingKind {
    match cluster.platform.as_deref() {
        Some("AWS" | "Azure" | "GCP" | "IBMCloud" | "PowerVS") => PublishingKind::LoadBalancerService,
        _ => PublishingKind::HostNetwork,
    }
}

fn balancer(
    given: Option<&LoadBalancer>,
    before: Option<&LoadBalancer>,
    cluster: &Cluster,
    publishes_domain: bool,
) -> LoadBalancer {
    let elsewhere = !publishes_domain || cluster.is("OpenStack") || cluster.cluster_hosted_dns;
    let policy = match elsewhere {
        true => DnsManagement::Unmanaged,
        false => given.map(|given| given.dns_management_policy).unwrap_or_default(),
    };
    let scope = given.or(before).map_or(Scope::External, |some| some.scope);
    LoadBalancer {
        scope,
        dns_management_policy: policy,
        allowed_source_ranges: given.and_then(|given| given.allowed_source_ranges.clone()),
        provider_parameters: parameters(
            given.and_then(|given| given.provider_parameters.as_ref()),
            before.and_then(|before| before.provider_parameters.as_ref()),
            cluster,
        ),
    }
}

fn parameters(
    given: Option<&ProviderParameters>,
    before: Option<&ProviderParameters>,
    cluster: &Cluster,
) -> Option<ProviderParameters> {
    if cluster.is("AWS") {
        let given = given.filter(|given| given.kind == "AWS").and_then(|given| given.aws.as_ref());
        let before = before.and_then(|before| before.aws.as_ref());
        let aws = Some(aws(given, before, cluster));
        return Some(ProviderParameters { kind: "AWS".to_owned(), aws, ..ProviderParameters::default() });
    }
    let mut wanted = given.or(before)?.clone();
    wanted.aws = None;
    if let Some(ibm) = &mut wanted.ibm {
        ibm.protocol = ibm.protocol.resolved();
    }
    Some(wanted)
}

/// Always there on AWS, the parameters of its type as well, so that nothing has to guess what an absent one means.
fn aws(given: Option<&AwsLoadBalancer>, before: Option<&AwsLoadBalancer>, cluster: &Cluster) -> AwsLoadBalancer {
    let kind = given.or(before).map(|some| some.kind).or(cluster.balancer).unwrap_or(LoadBalancerKind::Classic);
    let mut wanted =
        AwsLoadBalancer { kind, network_load_balancer: None, classic_load_balancer: None, rest: Map::new() };
    match kind {
        LoadBalancerKind::Classic => {
            let given = given.and_then(|given| given.classic_load_balancer.clone()).unwrap_or_default();
            let timeout = given.connection_idle_timeout.filter(|text| seconds(text).is_some_and(|seconds| seconds > 0));
            wanted.classic_load_balancer =
                Some(ClassicLoadBalancer { connection_idle_timeout: timeout, subnets: given.subnets });
        }
        LoadBalancerKind::Nlb => {
            let mut network = given.and_then(|given| given.network_load_balancer.clone()).unwrap_or_default();
            let known = before.filter(|before| before.kind == LoadBalancerKind::Nlb);
            let known = known.map(|before| {
                before.network_load_balancer.as_ref().map(|network| network.protocol).unwrap_or_default()
            });
            // One that was made before there was a choice keeps what somebody may have set on its Service by hand.
            let untouched = network.protocol.is_unset() && known == Some(Protocol::Unset);
            if !untouched {
                network.protocol = network.protocol.resolved();
            }
            wanted.network_load_balancer = Some(network);
        }
    }
    wanted
}

/// Whole seconds of a length of time as Go writes it; nothing for what cannot be read or is negative.
pub fn seconds(text: &str) -> Option<u64> {
    milliseconds(text).map(|length| length / 1000)
}

/// Whole milliseconds of a length of time as Go writes it.
pub fn milliseconds(text: &str) -> Option<u64> {
    api::go_duration::parse(text).and_then(|length| u64::try_from(length.as_millis()).ok())
}
