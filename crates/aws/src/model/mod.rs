//! What a Service should have in AWS. Pure: a Service, nodes, settings and the surroundings in; a description out.
//!
//! `request` reads the Service alone, `desire` adds what must be known of the account.

pub mod annotations;
mod desire;
pub mod health;
pub mod names;
pub mod nodes;
pub mod request;
pub mod rules;
pub mod strangers;
pub mod subnets;
#[cfg(test)]
mod tests;

pub use desire::{Existing, Refusal, desire};

use crate::{
    account::{
        Attributes, AvailabilityZone, ClassicAttributes, ClassicHealthCheck, ClassicListener, HealthCheck, Instance,
        IpAddressType, RouteTable, Rule, Scheme, Subnet, SubnetMapping, Tags, Target,
    },
    cloud_config::{GroupMode, SharedProbe},
};
use names::{Cluster, Owner};
use net::Family;
use request::Note;
use std::collections::{BTreeMap, BTreeSet};

/// What is the same for every Service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    pub cluster: Cluster,
    /// Groups of network load balancers.
    pub nlb_groups: GroupMode,
    /// Whether the nodes' groups are left alone.
    pub disable_node_rules: bool,
    /// The group of all classic load balancers, if there is one.
    pub elb_group: Option<String>,
    /// The probe that Services share.
    pub shared_probe: Option<SharedProbe>,
    /// The subnet to take when none is found.
    pub fallback_subnet: Option<String>,
}

/// What is known of the account beside load balancers.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(default)]
pub struct Surroundings {
    /// Subnets of the VPC.
    pub subnets: Vec<Subnet>,
    pub route_tables: Vec<RouteTable>,
    /// Zones of the region.
    pub zones: Vec<AvailabilityZone>,
    /// Instances, by id.
    pub instances: BTreeMap<String, Instance>,
    /// Tags of the groups that instances have, by id.
    pub group_tags: BTreeMap<String, Tags>,
}

/// What there should be for a Service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Desired {
    /// Whose it is.
    pub owner: Owner,
    /// Name of the load balancer.
    pub name: String,
    pub vpc: String,
    /// Tags of everything.
    pub tags: Tags,
    /// The load balancer.
    pub balancer: Balancer,
    /// Its security groups.
    pub groups: Groups,
    /// Rules on nodes' groups, by group; [`rules::OWN_GROUP`] stands for the managed group.
    pub node_rules: BTreeMap<String, BTreeSet<Rule>>,
    /// What should be told.
    pub notes: Vec<Note>,
}

/// Either kind of load balancer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Balancer {
    /// A network load balancer.
    Network(Network),
    /// A classic load balancer.
    Classic(Classic),
}

/// Security groups of the load balancer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Groups {
    /// None, or as it is.
    AsIs,
    /// These, which are somebody else's.
    Given(BTreeSet<String>),
    /// One of its own.
    Managed(ManagedGroup),
}

/// A group that belongs to a load balancer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ManagedGroup {
    pub name: String,
    /// What may come in: exactly this.
    pub ingress: BTreeSet<Rule>,
    /// What may go out: exactly this, or whatever there is.
    pub egress: Option<BTreeSet<Rule>>,
    /// Whether the role may not change what goes out: a group that lets everything out then stays so.
    pub egress_denied: bool,
    /// Groups that the load balancer has beside it.
    pub beside: BTreeSet<String>,
}

/// A network load balancer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Network {
    /// Public or not.
    pub scheme: Scheme,
    /// Its families.
    pub ip_address_type: IpAddressType,
    /// Its subnets with their addresses.
    pub subnets: Vec<SubnetMapping>,
    /// Its attributes, as far as they are decided here.
    pub attributes: Attributes,
    pub listeners: Vec<Listener>,
}

impl Network {
    /// Whether IPv6 clients of UDP need addresses to be translated to.
    pub fn needs_source_nat(&self) -> bool {
        let udp = self.listeners.iter().any(|listener| listener.protocol.contains("UDP"));
        self.ip_address_type == IpAddressType::Dualstack && udp
    }
}

/// A listener and where it leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listener {
    pub port: u16,
    /// `TCP`, `UDP`, `TCP_UDP` or `TLS`.
    pub protocol: String,
    /// ARN of the certificate, for TLS.
    pub certificate: Option<String>,
    /// ARNs of certificates beside it, chosen by the name that a client asks for.
    pub more_certificates: BTreeSet<String>,
    /// The TLS policy, if it is not left to AWS.
    pub ssl_policy: Option<String>,
    /// Where it leads.
    pub target: TargetGroup,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TargetGroup {
    /// Name to make it with; one that serves may have another.
    pub name: String,
    /// `TCP`, `UDP`, `TCP_UDP` or `TLS`.
    pub protocol: String,
    /// The node port.
    pub port: u16,
    /// Family of its targets.
    pub family: Family,
    /// How targets are checked.
    pub health_check: HealthCheck,
    /// Its attributes, as far as they are decided here.
    pub attributes: Attributes,
    pub targets: BTreeSet<Target>,
}

/// A classic load balancer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Classic {
    /// Public or not.
    pub scheme: Scheme,
    pub subnets: BTreeSet<String>,
    /// Its listeners, by port.
    pub listeners: BTreeMap<u16, ClassicListener>,
    /// Whether instances are told who the client is.
    pub proxy_protocol: bool,
    /// TLS policy of its TLS listeners.
    pub ssl_policy: Option<String>,
    /// How instances are checked.
    pub health_check: ClassicHealthCheck,
    pub attributes: ClassicAttributes,
    pub instances: BTreeSet<String>,
}

impl Settings {
    /// What a cloud-config says for a cluster.
    pub fn of(config: &crate::cloud_config::CloudConfig, cluster: Cluster) -> Self {
        let some = |text: &String| Some(text.clone()).filter(|text| !text.is_empty());
        let global = &config.global;
        Self {
            cluster: Cluster { legacy_tag: !global.cluster_tag.is_empty(), ..cluster },
            nlb_groups: global.nlb_groups,
            disable_node_rules: global.disable_node_rules,
            elb_group: some(&global.elb_group),
            shared_probe: global.shared_probe.clone(),
            fallback_subnet: some(&global.subnet),
        }
    }
}
