//! Security groups, subnets, instances and routes: what EC2 takes and tells.

use super::Tags;
use net::Cidr;
use serde::{Deserialize, Serialize};
use std::{
    collections::BTreeSet,
    fmt,
    net::{Ipv4Addr, Ipv6Addr},
};

/// What a rule lets through.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Protocol {
    /// TCP, both ends of the range included.
    Tcp {
        /// First port.
        from: u16,
        /// Last port.
        to: u16,
    },
    /// UDP, both ends of the range included.
    Udp {
        /// First port.
        from: u16,
        /// Last port.
        to: u16,
    },
    /// ICMP of one type and code; -1 is any.
    Icmp {
        /// ICMP type (`FromPort`).
        kind: i32,
        /// ICMP code (`ToPort`).
        code: i32,
    },
    /// ICMPv6 of one type and code; -1 is any.
    Icmpv6 {
        /// ICMPv6 type (`FromPort`).
        kind: i32,
        /// ICMPv6 code (`ToPort`).
        code: i32,
    },
    /// Everything (`-1`).
    All,
    /// Another protocol by its number, with all its ports.
    Number(u8),
}

/// Whom a rule is about.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Peer {
    /// Addresses of one family.
    Cidr(Cidr),
    /// Members of a security group.
    Group(String),
    PrefixList(String),
}

/// One rule: one protocol, one peer. AWS groups them in its answers; here each stands alone. The description is no part of what
/// a rule is: AWS takes a rule that differs only in it for a duplicate.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Rule {
    /// What it lets through.
    pub protocol: Protocol,
    /// From or to whom.
    pub peer: Peer,
    #[serde(default)]
    pub description: String,
}

impl Rule {
    fn identity(&self) -> (&Protocol, &Peer) {
        (&self.protocol, &self.peer)
    }
}

impl PartialEq for Rule {
    fn eq(&self, other: &Self) -> bool {
        self.identity() == other.identity()
    }
}

impl Eq for Rule {}

impl PartialOrd for Rule {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Rule {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.identity().cmp(&other.identity())
    }
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp { from, to } if from == to => write!(f, "tcp {from}"),
            Self::Tcp { from, to } => write!(f, "tcp {from}-{to}"),
            Self::Udp { from, to } if from == to => write!(f, "udp {from}"),
            Self::Udp { from, to } => write!(f, "udp {from}-{to}"),
            Self::Icmp { kind, code } => write!(f, "icmp {kind}/{code}"),
            Self::Icmpv6 { kind, code } => write!(f, "icmpv6 {kind}/{code}"),
            Self::All => f.write_str("all"),
            Self::Number(number) => write!(f, "protocol {number}"),
        }
    }
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cidr(cidr) => write!(f, "{cidr}"),
            Self::Group(id) | Self::PrefixList(id) => f.write_str(id),
        }
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} with {}", self.protocol, self.peer)
    }
}

/// Which rules of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    /// What may come in.
    Ingress,
    /// What may go out.
    Egress,
}

/// A security group with its rules.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SecurityGroup {
    pub id: String,
    /// Its name, unique in the VPC.
    pub name: String,
    pub vpc: String,
    #[serde(default)]
    pub tags: Tags,
    /// What may come in.
    #[serde(default)]
    pub ingress: BTreeSet<Rule>,
    /// What may go out.
    #[serde(default)]
    pub egress: BTreeSet<Rule>,
}

/// `CreateSecurityGroup`, tags with it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NewSecurityGroup {
    /// At most 255 characters, not starting with `sg-`.
    pub name: String,
    pub description: String,
    pub vpc: String,
    pub tags: Tags,
}

/// Which security groups to tell of: those that meet everything that is given here.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupFilter {
    /// In this VPC (`vpc-id`).
    pub vpc: Option<String>,
    /// With one of these ids (filter `group-id`, so that one that is gone is left out); empty for any.
    pub ids: BTreeSet<String>,
    /// Of this name (`group-name`).
    pub name: Option<String>,
}

/// A change of EC2 that is only tried: AWS says whether it would be permitted.
#[derive(Clone, Copy, Debug)]
pub enum Trial<'a> {
    /// `CreateSecurityGroup`.
    CreateGroup(&'a NewSecurityGroup),
    /// `DeleteSecurityGroup`.
    DeleteGroup(&'a str),
    /// `AuthorizeSecurityGroupIngress` or `...Egress`.
    Authorize(&'a str, Direction, &'a BTreeSet<Rule>),
    /// `RevokeSecurityGroupIngress` or `...Egress`.
    Revoke(&'a str, Direction, &'a BTreeSet<Rule>),
    /// `CreateTags`.
    Tag(&'a str, &'a Tags),
    /// `CreateRoute`.
    CreateRoute(&'a str, Cidr, &'a RouteTarget),
    /// `DeleteRoute`.
    DeleteRoute(&'a str, Cidr),
    /// `ModifyInstanceAttribute`.
    SourceDestCheck(&'a str),
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Subnet {
    pub id: String,
    pub vpc: String,
    /// Its availability zone, by name.
    pub zone: String,
    /// Its IPv4 block; an IPv6-only subnet has none.
    #[serde(default)]
    pub ipv4: Option<Cidr>,
    /// Its IPv6 blocks that are associated.
    #[serde(default)]
    pub ipv6: Vec<Cidr>,
    /// Free IPv4 addresses.
    #[serde(default)]
    pub free_ipv4: u32,
    #[serde(default)]
    pub tags: Tags,
}

/// Which subnets to tell of.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SubnetFilter {
    pub vpc: Option<String>,
    /// With one of these ids (filter `subnet-id`); empty for any.
    pub ids: BTreeSet<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AvailabilityZone {
    pub name: String,
    /// Its id, which is the same in every account.
    #[serde(default)]
    pub id: String,
    /// `availability-zone`, `local-zone` or `wavelength-zone`.
    pub kind: String,
}

/// Where a route leads.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RouteTarget {
    /// A gateway: `igw-...`, `vgw-...`, `local`.
    Gateway(String),
    Instance(String),
    /// A network interface; AWS answers with both for an instance.
    Interface(String),
    /// Anything else.
    Other(String),
}

/// A route of a route table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RouteEntry {
    /// Where to; `None` for a prefix list.
    pub to: Option<Cidr>,
    /// Through what. A route to an instance says `Instance`.
    pub via: RouteTarget,
    /// Whether what it leads to is gone.
    #[serde(default)]
    pub blackhole: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RouteTable {
    pub id: String,
    pub vpc: String,
    /// Whether subnets without a table of their own use it.
    pub main: bool,
    /// Subnets that use it.
    #[serde(default)]
    pub subnets: BTreeSet<String>,
    #[serde(default)]
    pub routes: Vec<RouteEntry>,
    #[serde(default)]
    pub tags: Tags,
}

/// A network interface of an instance.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Interface {
    pub id: String,
    /// Its place: 0 is the instance's first.
    pub device_index: u32,
    /// Its private IPv4 addresses, primary first.
    pub ipv4: Vec<Ipv4Addr>,
    /// Its IPv6 addresses, primary first.
    pub ipv6: Vec<Ipv6Addr>,
    /// Whether the first IPv6 address is a primary one, which an instance in an IPv6 target group needs.
    pub primary_ipv6: bool,
    pub security_groups: BTreeSet<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Instance {
    pub id: String,
    /// `t3.large`.
    pub instance_type: String,
    /// Its availability zone, by name.
    pub zone: String,
    pub vpc: String,
    pub subnet: String,
    /// `running`, `stopped`, `terminated`, ...
    pub state: String,
    /// Its private DNS name.
    pub private_dns: String,
    /// Its public DNS name.
    pub public_dns: String,
    /// Its public IPv4 address.
    pub public_ipv4: Option<Ipv4Addr>,
    /// Its network interfaces, by place.
    pub interfaces: Vec<Interface>,
    pub tags: Tags,
}

/// Which instances to tell of.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InstanceFilter {
    /// With one of these ids (filter `instance-id`, so that one that is gone is left out); empty for any.
    pub ids: BTreeSet<String>,
    pub vpc: Option<String>,
    pub tag_key: Option<String>,
    /// With one of these private DNS names; empty for any.
    pub private_dns: BTreeSet<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Vpc {
    pub id: String,
    /// Its blocks of both families.
    pub cidrs: Vec<Cidr>,
}

/// An elastic address.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Address {
    /// Its allocation id.
    pub allocation: String,
    /// The address.
    pub public_ipv4: Ipv4Addr,
    /// What has it, if anything.
    #[serde(default)]
    pub association: Option<String>,
}
