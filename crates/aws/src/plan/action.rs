//! One thing to do in AWS; each is one call, or several of the same kind where the API takes no more at a time.

use crate::{
    account::{
        Attributes, ClassicAttributes, ClassicHealthCheck, ClassicListener, ClassicPolicy, Direction, HealthCheck,
        IpAddressType, NewClassicLoadBalancer, NewLoadBalancer, NewSecurityGroup, NewTargetGroup, Rule, SubnetMapping,
        Tags, Target,
    },
    model::rules::{BACKEND_GROUP, OWN_GROUP},
};
use serde::Serialize;
use std::{collections::BTreeSet, fmt};

/// One thing to do. Target groups are named; the load balancer is the Service's; [`OWN_GROUP`] is its managed group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Action {
    CreateGroup(NewSecurityGroup),
    CreateBackendGroup(NewSecurityGroup),
    TagGroup { group: String, tags: Tags },
    Authorize { group: String, direction: Direction, rules: BTreeSet<Rule> },
    Revoke { group: String, direction: Direction, rules: BTreeSet<Rule> },
    RemoveGroup { group: String },
    CreateLoadBalancer(NewLoadBalancer),
    SetGroups { groups: BTreeSet<String> },
    SetIpAddressType { kind: IpAddressType },
    SetSubnets { subnets: Vec<SubnetMapping>, ipv6_source_nat: bool },
    SetAttributes { attributes: Attributes },
    TagLoadBalancer { tags: Tags },
    CreateTargetGroup(NewTargetGroup),
    TagTargetGroup { group: String, tags: Tags },
    SetHealthCheck { group: String, check: HealthCheck },
    SetTargetGroupAttributes { group: String, attributes: Attributes },
    Deregister { group: String, targets: BTreeSet<Target> },
    Register { group: String, targets: BTreeSet<Target> },
    CreateListener { listener: ListenerPlan, tags: Tags },
    ModifyListener { arn: String, listener: ListenerPlan },
    AddCertificates { port: u16, certificates: BTreeSet<String> },
    RemoveCertificates { port: u16, certificates: BTreeSet<String> },
    TagListener { port: u16, tags: Tags },
    DeleteListener { arn: String, port: u16 },
    DeleteTargetGroup { arn: String, group: String },
    DeleteLoadBalancer { arn: String },
    CreateClassic(NewClassicLoadBalancer),
    AttachSubnets { subnets: BTreeSet<String> },
    DetachSubnets { subnets: BTreeSet<String> },
    ApplyGroups { groups: BTreeSet<String> },
    CreateClassicListeners { listeners: Vec<ClassicListener> },
    DeleteClassicListeners { ports: BTreeSet<u16> },
    CreatePolicy(ClassicPolicy),
    SetBackendPolicies { port: u16, policies: Vec<String> },
    SetListenerPolicies { port: u16, policies: Vec<String> },
    SetClassicHealthCheck { check: ClassicHealthCheck },
    SetClassicAttributes { attributes: ClassicAttributes },
    TagClassic { tags: Tags },
    RegisterInstances { instances: BTreeSet<String> },
    DeregisterInstances { instances: BTreeSet<String> },
    DeleteClassic { name: String },
}

/// What a listener is to do; the target group by name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ListenerPlan {
    pub port: u16,
    pub protocol: String,
    pub target_group: String,
    pub certificate: Option<String>,
    pub ssl_policy: Option<String>,
}

impl Action {
    /// Whether it takes something away that may still serve.
    pub fn takes_away(&self) -> bool {
        matches!(
            self,
            Self::Revoke { .. }
                | Self::SetGroups { .. }
                | Self::RemoveGroup { .. }
                | Self::RemoveCertificates { .. }
                | Self::DeleteListener { .. }
                | Self::DeleteTargetGroup { .. }
                | Self::SetIpAddressType { kind: IpAddressType::Ipv4 }
        )
    }

    /// The port of the listener that it makes or changes.
    pub fn listener_port(&self) -> Option<u16> {
        match self {
            Self::CreateListener { listener, .. } | Self::ModifyListener { listener, .. } => Some(listener.port),
            Self::AddCertificates { port, .. }
            | Self::RemoveCertificates { port, .. }
            | Self::TagListener { port, .. } => Some(*port),
            _ => None,
        }
    }
}

fn list<T: fmt::Display>(items: impl IntoIterator<Item = T>) -> String {
    let items: Vec<String> = items.into_iter().map(|item| item.to_string()).collect();
    items.join(", ")
}

fn pairs(map: &Attributes) -> String {
    list(map.iter().map(|(key, value)| format!("{key}={value}")))
}

fn group_name(group: &str) -> &str {
    match group {
        OWN_GROUP => "its own security group",
        BACKEND_GROUP => "the cluster's backend group",
        group => group,
    }
}

fn side(direction: Direction) -> &'static str {
    match direction {
        Direction::Ingress => "ingress",
        Direction::Egress => "egress",
    }
}

fn rules(rules: &BTreeSet<Rule>) -> String {
    list(rules.iter().map(|rule| {
        rule.to_string().replace(OWN_GROUP, "its own group").replace(BACKEND_GROUP, "the cluster's backend group")
    }))
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::CreateGroup(new) | Self::CreateBackendGroup(new) => {
                write!(f, "create security group {} in {}", new.name, new.vpc)
            }
            Self::TagGroup { group, tags } => write!(f, "tag {} with {}", group_name(group), pairs(tags)),
            Self::Authorize { group, direction, rules: these } => {
                write!(f, "allow {} of {}: {}", side(*direction), group_name(group), rules(these))
            }
            Self::Revoke { group, direction, rules: these } => {
                write!(f, "disallow {} of {}: {}", side(*direction), group_name(group), rules(these))
            }
            Self::RemoveGroup { group } => write!(f, "delete security group {}", group_name(group)),
            Self::CreateLoadBalancer(new) => write!(
                f,
                "create network load balancer {} ({:?}, {:?}) in {} with groups {}",
                new.name,
                new.scheme,
                new.ip_address_type,
                list(new.subnets.iter().map(|subnet| &subnet.subnet)),
                list(new.security_groups.iter().map(|group| group_name(group)))
            ),
            Self::SetGroups { groups } | Self::ApplyGroups { groups } => {
                write!(f, "set groups of the load balancer: {}", list(groups.iter().map(|group| group_name(group))))
            }
            Self::SetIpAddressType { kind } => write!(f, "make the load balancer {kind:?}"),
            Self::SetSubnets { subnets, .. } => {
                write!(f, "set subnets of the load balancer: {}", list(subnets.iter().map(|subnet| &subnet.subnet)))
            }
            Self::SetAttributes { attributes } => {
                write!(f, "set attributes of the load balancer: {}", pairs(attributes))
            }
            Self::TagLoadBalancer { tags } | Self::TagClassic { tags } => {
                write!(f, "tag the load balancer with {}", pairs(tags))
            }
            Self::CreateTargetGroup(new) => {
                write!(f, "create target group {} ({} {}, {})", new.name, new.protocol, new.port, new.family)
            }
            Self::TagTargetGroup { group, tags } => write!(f, "tag target group {group} with {}", pairs(tags)),
            Self::SetHealthCheck { group, check } => {
                write!(f, "set health check of target group {group}: {} {}", check.protocol, check.port)
            }
            Self::SetTargetGroupAttributes { group, attributes } => {
                write!(f, "set attributes of target group {group}: {}", pairs(attributes))
            }
            Self::Deregister { group, targets } => {
                write!(f, "take {} out of target group {group}", list(targets.iter().map(|target| &target.instance)))
            }
            Self::Register { group, targets } => {
                write!(f, "put {} into target group {group}", list(targets.iter().map(|target| &target.instance)))
            }
            Self::CreateListener { listener, .. } => {
                write!(f, "create listener {} {} to {}", listener.protocol, listener.port, listener.target_group)
            }
            Self::ModifyListener { listener, .. } => {
                write!(f, "change listener {} {} to {}", listener.protocol, listener.port, listener.target_group)
            }
            Self::AddCertificates { port, certificates } => {
                write!(f, "add certificates to listener {port}: {}", list(certificates))
            }
            Self::RemoveCertificates { port, certificates } => {
                write!(f, "take certificates from listener {port}: {}", list(certificates))
            }
            Self::TagListener { port, tags } => write!(f, "tag listener {port} with {}", pairs(tags)),
            Self::DeleteListener { port, .. } => write!(f, "delete listener {port}"),
            Self::DeleteTargetGroup { group, .. } => write!(f, "delete target group {group}"),
            Self::DeleteLoadBalancer { arn } => write!(f, "delete network load balancer {arn}"),
            Self::CreateClassic(new) => {
                write!(f, "create classic load balancer {} in {}", new.name, list(&new.subnets))
            }
            Self::AttachSubnets { subnets } => write!(f, "attach subnets {}", list(subnets)),
            Self::DetachSubnets { subnets } => write!(f, "detach subnets {}", list(subnets)),
            Self::CreateClassicListeners { listeners } => {
                write!(f, "create listeners {}", list(listeners.iter().map(|one| one.load_balancer_port)))
            }
            Self::DeleteClassicListeners { ports } => write!(f, "delete listeners {}", list(ports)),
            Self::CreatePolicy(policy) => write!(f, "create policy {}", policy.name),
            Self::SetBackendPolicies { port, policies } => {
                write!(f, "set policies towards port {port}: {}", list(policies))
            }
            Self::SetListenerPolicies { port, policies } => {
                write!(f, "set policies of listener {port}: {}", list(policies))
            }
            Self::SetClassicHealthCheck { check } => write!(f, "set health check: {}", check.target),
            Self::SetClassicAttributes { .. } => f.write_str("set attributes of the load balancer"),
            Self::RegisterInstances { instances } => write!(f, "put {} behind the load balancer", list(instances)),
            Self::DeregisterInstances { instances } => {
                write!(f, "take {} from behind the load balancer", list(instances))
            }
            Self::DeleteClassic { name } => write!(f, "delete classic load balancer {name}"),
        }
    }
}
