//! From a request and the surroundings to the description of what there should be.

use super::{
    Balancer, Classic, Desired, Groups, Listener, ManagedGroup, Network, Settings, Surroundings, TargetGroup,
    annotations::{BackendRules, Kind, name},
    health,
    names::TargetGroupName,
    nodes,
    request::{Note, Port, Request},
    rules::{self, OWN_GROUP, RULE_LIMIT, fullness},
    subnets::{self, Need, Offer},
};
use crate::{
    account::{
        Attributes, ClassicAttributes, ClassicListener, Instance, IpAddressType, Scheme, Subnet, SubnetMapping, Target,
    },
    cloud_config::GroupMode,
};
use k8s_openapi::api::core::v1::Node;
use net::{Cidr, Family};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// What a load balancer that is there already decides for good, or until asked otherwise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Existing {
    /// Public or not.
    pub scheme: Scheme,
    /// Its subnets.
    pub subnets: BTreeSet<String>,
    /// Its security groups.
    pub groups: BTreeSet<String>,
}

struct Parts<'a> {
    request: &'a Request,
    settings: &'a Settings,
    around: &'a Surroundings,
    existing: Option<&'a Existing>,
    scheme: Scheme,
    subnets: Vec<Subnet>,
    instances: Vec<&'a Instance>,
    notes: Vec<Note>,
}

/// What there should be for a request; why there cannot be, otherwise.
pub fn desire(
    request: &Request,
    settings: &Settings,
    around: &Surroundings,
    existing: Option<&Existing>,
    nodes: &[Arc<Node>],
) -> Result<Desired, String> {
    let mut notes = request.notes.clone();
    let annotations = &request.annotations;
    let asked = if annotations.internal { Scheme::Internal } else { Scheme::InternetFacing };
    let scheme = existing.map_or(asked, |existing| existing.scheme);
    if scheme != asked {
        notes.push(Note {
            reason: "SchemeNotChanged",
            message: format!(
                "{} does not change a load balancer that is there; delete the Service to have it made anew",
                name("internal")
            ),
        });
    }
    let subnets = choose_subnets(request, settings, around, existing, scheme)?;
    let wanted = nodes::instances(nodes, &annotations.node_labels);
    let instances: Vec<&Instance> = wanted.iter().filter_map(|id| around.instances.get(id)).collect();
    let parts = Parts { request, settings, around, existing, scheme, subnets, instances, notes };
    match annotations.kind {
        Kind::Network => parts.network(),
        Kind::Classic | Kind::Elsewhere => parts.classic(),
    }
}

fn choose_subnets(
    request: &Request,
    settings: &Settings,
    around: &Surroundings,
    existing: Option<&Existing>,
    scheme: Scheme,
) -> Result<Vec<Subnet>, String> {
    let need = Need { scheme, ipv6: request.ip_address_type == IpAddressType::Dualstack };
    let offer = Offer { subnets: &around.subnets, tables: &around.route_tables, zones: &around.zones };
    if let Some(wanted) = &request.annotations.subnets {
        return subnets::named(wanted, offer, need).map_err(|problem| format!("{}: {problem}", name("subnets")));
    }
    if let Some(existing) = existing {
        let ids: Vec<String> = existing.subnets.iter().cloned().collect();
        return subnets::named(&ids, offer, need).map_err(|problem| format!("the load balancer's subnets: {problem}"));
    }
    let (chosen, rejected) = subnets::discover(offer, &settings.cluster, need);
    if !chosen.is_empty() {
        return Ok(chosen);
    }
    let fallback = around.subnets.iter().find(|subnet| Some(&subnet.id) == settings.fallback_subnet.as_ref());
    if let Some(subnet) = fallback.filter(|subnet| !need.ipv6 || !subnet.ipv6.is_empty()) {
        return Ok(vec![subnet.clone()]);
    }
    let reasons: Vec<String> = rejected.iter().map(|one| format!("{} {}", one.subnet, one.reason)).collect();
    let reasons = if reasons.is_empty() { "there is none in the VPC".to_owned() } else { reasons.join("; ") };
    Err(format!("could not find any suitable subnets for creating the ELB: {reasons}"))
}

fn cidrs(subnets: &[Subnet]) -> Vec<Cidr> {
    let all: BTreeSet<Cidr> =
        subnets.iter().flat_map(|subnet| subnet.ipv4.iter().chain(&subnet.ipv6).copied()).collect();
    all.into_iter().collect()
}

fn limited(what: &str, count: usize) -> Result<(), String> {
    if count <= RULE_LIMIT {
        return Ok(());
    }
    Err(format!(
        "{what} would need {count} rules of one family, and AWS takes {RULE_LIMIT}: use fewer ports or wider source ranges"
    ))
}

impl Parts<'_> {
    fn network(mut self) -> Result<Desired, String> {
        let check = health::network(self.request, self.settings.shared_probe.as_ref());
        let check_port = check.port.parse::<u16>().ok();
        let groups = self.network_groups(check_port)?;
        let node_rules = self.network_node_rules(&groups, check_port)?;
        let targets = nodes::targets(&self.instances, self.request.target_family, &mut self.notes);
        let request = self.request;
        let mut attributes = Attributes::from([
            ("load_balancing.cross_zone.enabled".to_owned(), request.annotations.cross_zone.to_string()),
            ("access_logs.s3.enabled".to_owned(), request.annotations.access_log.enabled.to_string()),
        ]);
        if request.annotations.access_log.enabled {
            let log = &request.annotations.access_log;
            attributes.extend(log.bucket.clone().map(|bucket| ("access_logs.s3.bucket".to_owned(), bucket)));
            attributes.extend(log.prefix.clone().map(|prefix| ("access_logs.s3.prefix".to_owned(), prefix)));
        }
        let listeners = request.ports.iter().map(|port| {
            let protocol = match (port.udp, request.annotations.backend_protocol.as_deref()) {
                (true, _) => "UDP",
                (false, Some("ssl")) if port.tls => "TLS",
                _ => "TCP",
            };
            let name = TargetGroupName {
                service_port: port.port,
                node_port: port.node_port,
                protocol,
                check_protocol: &check.protocol,
                check_interval: check.interval,
                family: request.target_family,
            };
            let target = TargetGroup {
                name: request.owner.target_group(&self.settings.cluster.id, &name),
                protocol: protocol.to_owned(),
                port: port.node_port,
                family: request.target_family,
                health_check: check.clone(),
                attributes: self.target_attributes(),
                targets: targets
                    .iter()
                    .map(|instance| Target { instance: instance.clone(), port: port.node_port })
                    .collect(),
            };
            Listener {
                port: port.port,
                protocol: if port.udp {
                    "UDP"
                } else if port.tls {
                    "TLS"
                } else {
                    "TCP"
                }
                .to_owned(),
                certificate: request.annotations.certificate.clone().filter(|_| port.tls),
                ssl_policy: request.annotations.ssl_policy.clone().filter(|_| port.tls),
                target,
            }
        });
        let network = Network {
            scheme: self.scheme,
            ip_address_type: request.ip_address_type,
            subnets: self.mappings()?,
            attributes,
            listeners: listeners.collect(),
        };
        Ok(self.finish(Balancer::Network(network), groups, node_rules))
    }

    /// What is not asked for is AWS's default, so that taking an annotation away undoes it.
    fn target_attributes(&self) -> Attributes {
        let mut attributes = Attributes::from([("proxy_protocol_v2.enabled".to_owned(), "false".to_owned())]);
        let preserve = ("preserve_client_ip.enabled".to_owned(), "true".to_owned());
        attributes.extend([preserve]);
        attributes.extend(self.request.annotations.target_attributes.clone());
        attributes
    }

    fn mappings(&self) -> Result<Vec<SubnetMapping>, String> {
        let (allocations, private) = (&self.request.annotations.allocations, &self.request.annotations.private_ipv4);
        for (list, what, annotation) in [
            (allocations, "EIP AllocationIDs", "eip-allocations"),
            (private, "PrivateIPv4Addresses", "private-ipv4-addresses"),
        ] {
            if !list.is_empty() && list.len() != self.subnets.len() {
                return Err(format!(
                    "{}: Must have same number of {what} ({}) and SubnetIDs ({}); the subnets are {}",
                    name(annotation),
                    list.len(),
                    self.subnets.len(),
                    self.subnets.iter().map(|subnet| subnet.id.as_str()).collect::<Vec<_>>().join(", ")
                ));
            }
        }
        let mapping = |(index, subnet): (usize, &Subnet)| SubnetMapping {
            subnet: subnet.id.clone(),
            allocation: allocations.get(index).cloned(),
            private_ipv4: private.get(index).cloned(),
        };
        Ok(self.subnets.iter().enumerate().map(mapping).collect())
    }

    fn network_groups(&mut self, check_port: Option<u16>) -> Result<Groups, String> {
        let given = self.request.annotations.groups.clone();
        let groupless = self.existing.is_some_and(|existing| existing.groups.is_empty());
        match (given, self.settings.nlb_groups) {
            (Some(_), GroupMode::Unmanaged) => {
                self.notes.push(Note {
                    reason: "SecurityGroupsIgnored",
                    message: format!(
                        "{}: has no effect unless NLBSecurityGroupMode is Managed",
                        name("security-groups")
                    ),
                });
                Ok(Groups::AsIs)
            }
            (Some(_), GroupMode::Managed) if groupless => Err(format!(
                "{}: the load balancer was created without a security group, and AWS never lets such a one have any; delete the \
                 Service to have it made anew",
                name("security-groups")
            )),
            (Some(given), GroupMode::Managed) => Ok(Groups::Given(given)),
            (None, GroupMode::Unmanaged) => Ok(Groups::AsIs),
            (None, GroupMode::Managed) if groupless => {
                self.notes.push(Note {
                    reason: "SecurityGroupNotSupported",
                    message: "the load balancer was created without a security group, and AWS never lets such a one have any; \
                              delete the Service to have it made anew with one"
                        .to_owned(),
                });
                Ok(Groups::AsIs)
            }
            (None, GroupMode::Managed) => {
                let ingress = rules::ingress(self.request);
                limited("the load balancer's security group", fullness(&ingress))?;
                let egress = self.egress(check_port);
                limited("the load balancer's security group, towards the nodes,", fullness(&egress))?;
                Ok(Groups::Managed(ManagedGroup {
                    name: self.request.owner.network_group(&self.settings.cluster.name),
                    ingress,
                    egress: Some(egress),
                    beside: BTreeSet::new(),
                }))
            }
        }
    }

    /// Towards the cluster's subnets: those with its tag, or all that no other cluster claims.
    fn egress(&self, check_port: Option<u16>) -> BTreeSet<crate::account::Rule> {
        let cluster = &self.settings.cluster;
        let tagged: Vec<Subnet> =
            self.around.subnets.iter().filter(|subnet| cluster.uses(&subnet.tags)).cloned().collect();
        let holds_nodes = |subnet: &&Subnet| self.around.instances.values().any(|node| node.subnet == subnet.id);
        let untagged = self.around.subnets.iter().filter(holds_nodes).cloned();
        let mut ours: Vec<Subnet> = tagged;
        ours.extend(untagged);
        if ours.is_empty() {
            ours = self.around.subnets.clone();
        }
        rules::egress(self.request, check_port, &cidrs(&ours))
    }

    fn network_node_rules(
        &mut self,
        groups: &Groups,
        check_port: Option<u16>,
    ) -> Result<BTreeMap<String, BTreeSet<crate::account::Rule>>, String> {
        let request = self.request;
        let by_ranges = || rules::node_rules_for_ranges(request, check_port, &cidrs(&self.subnets));
        let wanted = match (groups, request.annotations.backend_rules) {
            (Groups::Managed(_), _) => {
                rules::node_rules_for_groups(request, check_port, &[OWN_GROUP.to_owned()].into())
            }
            (Groups::Given(given), BackendRules::Groups) => rules::node_rules_for_groups(request, check_port, given),
            (Groups::Given(_), BackendRules::Nobody) => BTreeSet::new(),
            (Groups::Given(_) | Groups::AsIs, _) => by_ranges(),
        };
        let open = request.ranges.iter().any(|range| range.prefix() == 0);
        let unfiltered =
            matches!(groups, Groups::AsIs) && self.existing.is_none_or(|existing| existing.groups.is_empty()) && !open;
        if unfiltered && (!request.preserves_clients() || request.ip_address_type == IpAddressType::Dualstack) {
            self.notes.push(Note {
                reason: "SourceRangesNotEnforced",
                message: "the load balancer has no security group, and nodes do not see the addresses of all clients: source \
                          ranges hold only for those that they see; use a security group"
                    .to_owned(),
            });
        }
        self.on_nodes(wanted)
    }

    fn on_nodes(
        &self,
        wanted: BTreeSet<crate::account::Rule>,
    ) -> Result<BTreeMap<String, BTreeSet<crate::account::Rule>>, String> {
        if self.settings.disable_node_rules || wanted.is_empty() {
            return Ok(BTreeMap::new());
        }
        let groups = nodes::groups(&self.instances, &self.around.group_tags, &self.settings.cluster)?;
        Ok(groups.into_iter().map(|group| (group, wanted.clone())).collect())
    }

    fn classic(self) -> Result<Desired, String> {
        let request = self.request;
        let annotations = &request.annotations;
        let groups = match (&annotations.groups, &self.settings.elb_group) {
            (Some(given), _) => Groups::Given(given.union(&annotations.extra_groups).cloned().collect()),
            (None, Some(group)) => {
                let mut given = annotations.extra_groups.clone();
                given.insert(group.clone());
                Groups::Given(given)
            }
            (None, None) => {
                let ingress = rules::ingress(request);
                limited("the load balancer's security group", fullness(&ingress))?;
                Groups::Managed(ManagedGroup {
                    name: request.owner.classic_group(),
                    ingress,
                    egress: None,
                    beside: annotations.extra_groups.clone(),
                })
            }
        };
        let peers: BTreeSet<String> = match &groups {
            Groups::Managed(_) => [OWN_GROUP.to_owned()].into(),
            Groups::Given(given) => given.clone(),
            Groups::AsIs => BTreeSet::new(),
        };
        let everything = peers.into_iter().map(|group| crate::account::Rule {
            protocol: crate::account::Protocol::All,
            peer: crate::account::Peer::Group(group),
            description: rules::classic_description(&request.owner.load_balancer()),
        });
        let node_rules = self.on_nodes(everything.collect())?;
        let log = &annotations.access_log;
        let classic = Classic {
            scheme: self.scheme,
            subnets: self.subnets.iter().map(|subnet| subnet.id.clone()).collect(),
            listeners: request.ports.iter().map(|port| (port.port, classic_listener(request, port))).collect(),
            proxy_protocol: annotations.proxy_protocol,
            ssl_policy: annotations.ssl_policy.clone(),
            health_check: health::classic(request, self.settings.shared_probe.as_ref()),
            attributes: ClassicAttributes {
                cross_zone: annotations.cross_zone,
                access_log: log.enabled,
                access_log_interval: log.interval.filter(|_| log.enabled),
                access_log_bucket: log.bucket.clone().filter(|_| log.enabled),
                access_log_prefix: log.prefix.clone().filter(|_| log.enabled),
                draining: annotations.draining,
                idle_timeout: annotations.idle_timeout.unwrap_or(60),
            },
            instances: self.instances.iter().map(|instance| instance.id.clone()).collect(),
        };
        debug_assert_eq!(request.target_family, Family::V4);
        Ok(self.finish(Balancer::Classic(classic), groups, node_rules))
    }

    fn finish(
        self,
        balancer: Balancer,
        groups: Groups,
        node_rules: BTreeMap<String, BTreeSet<crate::account::Rule>>,
    ) -> Desired {
        let owner = self.request.owner.clone();
        let cluster = &self.settings.cluster;
        Desired {
            name: owner.load_balancer(),
            vpc: cluster.vpc.clone(),
            tags: cluster.tags(&owner, &self.request.annotations.tags),
            owner,
            balancer,
            groups,
            node_rules,
            notes: self.notes,
        }
    }
}

fn classic_listener(request: &Request, port: &Port) -> ClassicListener {
    let backend = request.annotations.backend_protocol.as_deref();
    let (protocol, instance_protocol) = match (port.tls, backend) {
        (true, Some("https")) => ("HTTPS", "HTTPS"),
        (true, Some("http")) => ("HTTPS", "HTTP"),
        (true, Some("ssl")) => ("SSL", "SSL"),
        (true, _) => ("SSL", "TCP"),
        (false, Some("http")) => ("HTTP", "HTTP"),
        (false, _) => ("TCP", "TCP"),
    };
    ClassicListener {
        load_balancer_port: port.port,
        protocol: protocol.to_owned(),
        instance_port: port.node_port,
        instance_protocol: instance_protocol.to_owned(),
        certificate: request.annotations.certificate.clone().filter(|_| port.tls),
    }
}
