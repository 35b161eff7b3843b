//! Network load balancers: what ELBv2 takes and tells.

use super::Tags;
use net::Family;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// What addresses a load balancer has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum IpAddressType {
    /// IPv4 only.
    Ipv4,
    /// Both families.
    Dualstack,
}

/// Whether a load balancer has public addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Scheme {
    /// Reached from the internet.
    InternetFacing,
    /// Reached inside the VPC.
    Internal,
}

/// Which kind of ELBv2 load balancer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LoadBalancerType {
    /// The one made here.
    Network,
    /// An application load balancer, or anything newer.
    Other,
}

/// How far a load balancer has got.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LoadBalancerState {
    /// Being set up.
    Provisioning,
    /// Works.
    Active,
    /// Works, with less than it should have.
    ActiveImpaired,
    /// Could not be set up.
    Failed,
}

/// A subnet with the addresses that the load balancer gets in it.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(default)]
pub struct SubnetMapping {
    pub subnet: String,
    /// An elastic address, internet-facing only.
    pub allocation: Option<String>,
    /// A private IPv4 address, internal only.
    pub private_ipv4: Option<String>,
}

/// A load balancer as it is. `DescribeLoadBalancers`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoadBalancer {
    pub arn: String,
    pub name: String,
    /// Its host name.
    pub dns_name: String,
    /// The hosted zone of its host name.
    #[serde(default)]
    pub hosted_zone: String,
    pub vpc: String,
    /// Network or not.
    pub kind: LoadBalancerType,
    /// Public or not.
    pub scheme: Scheme,
    /// Its families.
    pub ip_address_type: IpAddressType,
    /// How far it is.
    pub state: LoadBalancerState,
    pub subnets: BTreeSet<String>,
    /// Its security groups; empty for one that was made without, which can never get any.
    #[serde(default)]
    pub security_groups: BTreeSet<String>,
    /// `EnablePrefixForIpv6SourceNat`, where the answer says.
    #[serde(default)]
    pub ipv6_source_nat: Option<bool>,
}

/// `CreateLoadBalancer`, type network.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NewLoadBalancer {
    /// At most 32 letters, digits and hyphens.
    pub name: String,
    /// Always sent.
    pub scheme: Scheme,
    /// Its families.
    pub ip_address_type: IpAddressType,
    /// One per zone.
    pub subnets: Vec<SubnetMapping>,
    /// Security group ids; none makes a load balancer that can never have any.
    pub security_groups: BTreeSet<String>,
    /// `EnablePrefixForIpv6SourceNat`: needed for UDP on a dual-stack load balancer.
    pub ipv6_source_nat: bool,
    pub tags: Tags,
}

/// Which target groups to tell of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TargetGroupFilter<'a> {
    /// All of the region.
    All,
    /// Those that listeners of this load balancer lead to.
    Of(&'a str),
}

/// How targets are checked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HealthCheck {
    /// `TCP`, `HTTP` or `HTTPS`.
    pub protocol: String,
    /// A number, or `traffic-port`.
    pub port: String,
    /// For HTTP and HTTPS.
    pub path: Option<String>,
    /// Seconds between checks.
    pub interval: i32,
    /// Seconds to wait for the answer. `None` leaves AWS's default.
    pub timeout: Option<i32>,
    /// Successes in a row until it counts as healthy.
    pub healthy: i32,
    /// Failures in a row until it does not.
    pub unhealthy: i32,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TargetGroup {
    pub arn: String,
    pub name: String,
    /// `TCP`, `UDP`, `TLS` or `TCP_UDP`.
    pub protocol: String,
    /// The port that targets get unless they say otherwise.
    pub port: u16,
    pub vpc: String,
    /// Family of its targets.
    pub family: Family,
    /// How targets are checked.
    pub health_check: HealthCheck,
    /// The load balancers that lead to it. Not to be relied on: may be out of date.
    #[serde(default)]
    pub load_balancers: BTreeSet<String>,
}

/// `CreateTargetGroup`, target type instance.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NewTargetGroup {
    /// At most 32 letters, digits and hyphens.
    pub name: String,
    /// `TCP`, `UDP` or `TLS`.
    pub protocol: String,
    /// The node port.
    pub port: u16,
    pub vpc: String,
    /// Family of its targets.
    pub family: Family,
    /// How targets are checked.
    pub health_check: HealthCheck,
    pub tags: Tags,
}

/// An instance behind a target group.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Target {
    pub instance: String,
    pub port: u16,
}

/// A target and how it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TargetHealth {
    pub target: Target,
    /// Whether it is on its way out (`draining`, `Target.DeregistrationInProgress`).
    pub draining: bool,
}

/// What a listener does.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListenerSettings {
    /// The port it listens on.
    pub port: u16,
    /// `TCP`, `UDP` or `TLS`.
    pub protocol: String,
    /// ARN of the target group it leads to.
    pub target_group: String,
    /// ARN of its certificate, for TLS.
    #[serde(default)]
    pub certificate: Option<String>,
    /// Its TLS policy; `None` in a request leaves AWS's choice.
    #[serde(default)]
    pub ssl_policy: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Listener {
    pub arn: String,
    /// What it does. `target_group` is empty when it does not forward.
    pub settings: ListenerSettings,
}

/// `CreateListener`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NewListener {
    /// ARN of the load balancer.
    pub load_balancer: String,
    /// What it does.
    pub settings: ListenerSettings,
    pub tags: Tags,
}
