//! What the cluster's configuration says, as far as ingress asks. Read anew for every reconcile.

use super::{
    names,
    objects::{ApiServerConfig, DnsConfig, Infrastructure, IngressConfig, Network},
};
use api::config::{
    AwsIpFamily, AwsResourceTag, DnsSpec, DnsZone, LoadBalancerKind, Placement, Topology,
    ingress_controller::TlsProfile,
};
use kube::ResourceExt;
use net::{Cidr, Family, HasFamily};

/// The inputs of every plan.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Cluster {
    /// `AWS`, `None` and others; nothing while the Infrastructure does not say.
    pub platform: Option<String>,
    /// Families of load balancers on AWS.
    pub ip_family: AwsIpFamily,
    /// Tags for what is made on AWS.
    pub tags: Vec<AwsResourceTag>,
    /// Whether DNS is served by the cluster itself, so that nobody publishes records elsewhere.
    pub cluster_hosted_dns: bool,
    /// Replicas of what runs on control plane nodes.
    pub control_plane: Topology,
    /// Replicas of what runs elsewhere.
    pub infrastructure: Topology,
    /// Domain of IngressControllers that name none.
    pub domain: String,
    /// Load balancers of new IngressControllers on AWS.
    pub balancer: Option<LoadBalancerKind>,
    /// Where routers run that do not say otherwise.
    pub placement: Placement,
    /// Domain under which records are made.
    pub base_domain: String,
    /// Zones to publish in: the private one, then the public one.
    pub zones: Vec<DnsZone>,
    /// The private zone and the role to take on for it, where it is in another account of AWS.
    pub private_role: Option<(DnsZone, String)>,
    /// Families of Pods.
    pub pods: Vec<Family>,
    /// Versions and ciphers of TLS for IngressControllers that name none.
    pub tls: Option<TlsProfile>,
    /// Whether routers speak HTTP/2, for IngressControllers that do not say.
    pub http2: Option<String>,
    /// When old HAProxy processes are ended, for IngressControllers that do not say.
    pub hard_stop_after: Option<String>,
}

impl Cluster {
    /// Reads the objects, each of which may be missing.
    pub fn read(
        infrastructure: Option<&Infrastructure>,
        ingress: Option<&IngressConfig>,
        dns: Option<&DnsConfig>,
        network: Option<&Network>,
        api_server: Option<&ApiServerConfig>,
    ) -> Self {
        let status = infrastructure.and_then(|object| object.status.as_ref());
        let platform = status.and_then(|status| status.platform_status.as_ref());
        let aws = platform.and_then(|platform| platform.aws.as_ref());
        let balancer = ingress.and_then(|object| object.spec.load_balancer.as_ref()).map(|some| &some.platform);
        let networks = network.and_then(|object| object.status.as_ref()).map(|status| &status.cluster_network);
        let mut pods: Vec<Family> = Vec::new();
        // What cannot be read is no range of either family.
        for range in networks.into_iter().flatten().filter_map(|network| network.cidr.parse::<Cidr>().ok()) {
            if !pods.contains(&range.family()) {
                pods.push(range.family());
            }
        }
        let zones = dns.map(|dns| [&dns.spec.private_zone, &dns.spec.public_zone]);
        let annotation = |key: &str| ingress.and_then(|ingress| ingress.annotations().get(key)).cloned();
        Self {
            platform: platform.map(|platform| platform.kind.clone()).filter(|kind| !kind.is_empty()),
            ip_family: aws.map_or(AwsIpFamily::IPv4, |aws| aws.ip_family),
            tags: aws.map(|aws| aws.resource_tags.clone()).unwrap_or_default(),
            cluster_hosted_dns: platform.is_some_and(has_hosted_dns),
            control_plane: status.map(|status| status.control_plane_topology).unwrap_or_default(),
            infrastructure: status.map(|status| status.infrastructure_topology).unwrap_or_default(),
            domain: ingress.map(|ingress| ingress.spec.domain.clone()).unwrap_or_default(),
            balancer: balancer
                .filter(|platform| platform.kind == "AWS")
                .and_then(|platform| platform.aws)
                .map(|aws| aws.kind),
            placement: ingress
                .and_then(|ingress| ingress.status.as_ref())
                .map(|status| status.default_placement)
                .unwrap_or_default(),
            base_domain: dns.map(|dns| dns.spec.base_domain.clone()).unwrap_or_default(),
            zones: zones.into_iter().flatten().flatten().cloned().collect(),
            private_role: dns.and_then(|dns| private_role(&dns.spec)),
            pods,
            tls: api_server.and_then(|object| object.spec.tls_security_profile.clone()),
            http2: annotation(names::HTTP2),
            hard_stop_after: annotation(names::HARD_STOP_AFTER),
        }
    }

    /// The role to take on for a zone, if not everything is done in the operator's own name.
    pub fn role_for(&self, zone: &DnsZone) -> Option<&str> {
        self.private_role.as_ref().filter(|(private, _)| private == zone).map(|(_, role)| role.as_str())
    }

    /// Whether this is the platform.
    pub fn is(&self, platform: &str) -> bool {
        self.platform.as_deref() == Some(platform)
    }

    /// Whether load balancers of AWS have both families.
    pub fn is_dual_stack_aws(&self) -> bool {
        self.is("AWS") && self.ip_family != AwsIpFamily::IPv4
    }

    /// How many routers there are when nobody says: one where there is one node to run them.
    pub fn replicas(&self) -> i32 {
        if self.router_topology() == Topology::SingleReplica { 1 } else { 2 }
    }

    /// The topology that counts for routers.
    pub fn router_topology(&self) -> Topology {
        match self.placement {
            Placement::ControlPlane => self.control_plane,
            Placement::Workers => self.infrastructure,
        }
    }

    /// Whether Pods have both families.
    pub fn has_both_families(&self) -> bool {
        self.pods.len() == 2
    }

    /// `ROUTER_IP_V4_V6_MODE`; nothing for IPv4, which is what routers do without it.
    pub fn ip_mode(&self) -> Option<&'static str> {
        match (self.pods.contains(&Family::V4), self.pods.contains(&Family::V6)) {
            (true, true) => Some("v4v6"),
            (false, true) => Some("v6"),
            (_, false) => None,
        }
    }

    /// Whether a domain is one whose records may be published: below the base domain where zones are the platform's.
    pub fn publishes(&self, domain: &str) -> bool {
        if !self.is("AWS") && !self.is("GCP") {
            return true;
        }
        let (domain, base) = (domain.trim_end_matches('.'), self.base_domain.trim_end_matches('.'));
        !base.is_empty() && domain.strip_suffix(base).is_some_and(|front| front.ends_with('.'))
    }
}

fn private_role(dns: &DnsSpec) -> Option<(DnsZone, String)> {
    let role = &dns.platform.as_ref()?.aws.as_ref()?.private_zone_role;
    Some((dns.private_zone.clone()?, role.clone())).filter(|(_, role)| !role.is_empty())
}

fn has_hosted_dns(platform: &api::config::PlatformStatus) -> bool {
    let hosted = |facts: &serde_json::Map<String, serde_json::Value>| {
        facts.get("cloudLoadBalancerConfig").is_some_and(|config| config["dnsType"] == "ClusterHosted")
    };
    let others = platform.rest.values().filter_map(serde_json::Value::as_object);
    platform.aws.as_ref().is_some_and(|aws| hosted(&aws.rest)) || others.into_iter().any(hosted)
}
