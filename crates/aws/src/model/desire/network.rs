//! A network load balancer: listeners, target groups, security groups, and what nodes let in.

use super::{FEWER_RULES, NodeRules, Parts, cidrs};
use crate::{
    account::{Attributes, HealthCheck, IpAddressType, Rule, Subnet, SubnetMapping, Target},
    cloud_config::GroupMode,
    model::{
        Balancer, Groups, Listener, ManagedGroup, Network, TargetGroup,
        annotations::{BackendRules, name},
        health,
        names::TargetGroupName,
        nodes,
        request::{NO_GROUP, Note, Port},
        rules::{self, OWN_GROUP, RULE_LIMIT, fullness},
    },
};
use net::HasFamily;
use std::collections::{BTreeMap, BTreeSet};

const MADE_WITHOUT: &str = "the load balancer was created without a security group, and AWS never lets such a one have any; \
                            delete the Service to have it made anew";

impl Parts<'_> {
    pub(super) fn network(&mut self) -> (Balancer, Groups, NodeRules) {
        let check = health::network(self.request, self.settings.shared_probe.as_ref());
        let check_port = check.port.parse::<u16>().ok();
        if let Some(timeout) = check.timeout.filter(|timeout| *timeout > check.interval) {
            self.mistakes.push(format!(
                "{}: {timeout} seconds are more than the {} between two checks",
                name("healthcheck-timeout"),
                check.interval
            ));
        }
        let groups = self.groups(check_port);
        let node_rules = self.node_rules(&groups, check_port);
        let targets = nodes::targets(&self.instances, self.request.target_family, &mut self.notes);
        let network = Network {
            scheme: self.scheme,
            ip_address_type: self.request.ip_address_type,
            subnets: self.mappings(),
            attributes: self.attributes(),
            listeners: self.listeners(&check, &targets),
        };
        (Balancer::Network(network), groups, node_rules)
    }

    fn attributes(&self) -> Attributes {
        let annotations = &self.request.annotations;
        let log = &annotations.access_log;
        let mut attributes = Attributes::from([
            ("load_balancing.cross_zone.enabled".to_owned(), annotations.cross_zone.to_string()),
            ("access_logs.s3.enabled".to_owned(), log.enabled.to_string()),
        ]);
        if log.enabled {
            attributes.extend(log.bucket.clone().map(|bucket| ("access_logs.s3.bucket".to_owned(), bucket)));
            attributes.insert("access_logs.s3.prefix".to_owned(), log.prefix.clone().unwrap_or_default());
        }
        attributes
    }

    /// One for each port number: TCP and UDP of one port share theirs.
    fn listeners(&self, check: &HealthCheck, targets: &BTreeSet<String>) -> Vec<Listener> {
        let mut by_number: BTreeMap<u16, Vec<&Port>> = BTreeMap::new();
        for port in &self.request.ports {
            by_number.entry(port.port).or_default().push(port);
        }
        by_number.into_values().filter_map(|ports| self.listener(&ports, check, targets)).collect()
    }

    fn listener(&self, ports: &[&Port], check: &HealthCheck, targets: &BTreeSet<String>) -> Option<Listener> {
        let request = self.request;
        let port = ports.first()?;
        let (udp, tcp) = (ports.iter().any(|port| port.udp), ports.iter().any(|port| !port.udp));
        let to_tls = request.annotations.backend_protocol.as_deref() == Some("ssl");
        let (protocol, target_protocol) = match (tcp, udp) {
            (true, true) => ("TCP_UDP", "TCP_UDP"),
            (false, _) => ("UDP", "UDP"),
            (true, false) if port.tls && to_tls => ("TLS", "TLS"),
            (true, false) if port.tls => ("TLS", "TCP"),
            (true, false) => ("TCP", "TCP"),
        };
        let name = TargetGroupName {
            service_port: port.port,
            node_port: port.node_port,
            protocol: target_protocol,
            check_protocol: &check.protocol,
            check_interval: check.interval,
            family: request.target_family,
        };
        let target = |instance: &String| Target { instance: instance.clone(), port: port.node_port };
        let target = TargetGroup {
            name: request.owner.target_group(&self.settings.cluster.id, &name),
            protocol: target_protocol.to_owned(),
            port: port.node_port,
            family: request.target_family,
            health_check: check.clone(),
            attributes: self.target_attributes(),
            targets: targets.iter().map(target).collect(),
        };
        let mut certificates = request.annotations.certificates.iter().filter(|_| port.tls).cloned();
        Some(Listener {
            port: port.port,
            protocol: protocol.to_owned(),
            certificate: certificates.next(),
            more_certificates: certificates.collect(),
            ssl_policy: request.annotations.ssl_policy.clone().filter(|_| port.tls),
            target,
        })
    }

    /// What is not asked for is AWS's default, so that taking an annotation away undoes it.
    fn target_attributes(&self) -> Attributes {
        let mut attributes = Attributes::from([
            ("proxy_protocol_v2.enabled".to_owned(), "false".to_owned()),
            ("preserve_client_ip.enabled".to_owned(), "true".to_owned()),
        ]);
        attributes.extend(self.request.annotations.target_attributes.clone());
        attributes
    }

    fn mappings(&mut self) -> Vec<SubnetMapping> {
        let (allocations, private) = (&self.request.annotations.allocations, &self.request.annotations.private_ipv4);
        for (list, what, annotation) in [
            (allocations, "EIP AllocationIDs", "eip-allocations"),
            (private, "PrivateIPv4Addresses", "private-ipv4-addresses"),
        ] {
            // Without subnets that is a mistake of its own.
            if !list.is_empty() && !self.subnets.is_empty() && list.len() != self.subnets.len() {
                self.mistakes.push(format!(
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
        self.subnets.iter().enumerate().map(mapping).collect()
    }

    fn note(&mut self, reason: &'static str, message: impl Into<String>) {
        self.notes.push(Note { reason, message: message.into() });
    }

    fn groups(&mut self, check_port: Option<u16>) -> Groups {
        let given = self.request.annotations.groups.clone();
        let has = self.existing.map(|existing| existing.groups.clone());
        let groupless = has.as_ref().is_some_and(BTreeSet::is_empty);
        match (given, self.settings.nlb_groups) {
            (Some(_), GroupMode::Unmanaged) => {
                let message = "has no effect unless NLBSecurityGroupMode is Managed";
                self.note("SecurityGroupsIgnored", format!("{}: {message}", name("security-groups")));
                Groups::AsIs
            }
            (None, GroupMode::Unmanaged) => {
                if let Some(has) = has.filter(|has| !has.is_empty()) {
                    let has: Vec<String> = has.into_iter().collect();
                    let message = format!(
                        "{} stay with the load balancer, but their rules are not looked after: NLBSecurityGroupMode is not Managed",
                        has.join(", ")
                    );
                    self.note("SecurityGroupsNotManaged", message);
                }
                Groups::AsIs
            }
            (Some(_), GroupMode::Managed) if groupless => {
                self.note(NO_GROUP, MADE_WITHOUT);
                self.mistakes.push(format!("{}: {MADE_WITHOUT}", name("security-groups")));
                Groups::AsIs
            }
            (Some(given), GroupMode::Managed) => Groups::Given(given),
            (None, GroupMode::Managed) if groupless => {
                self.note(NO_GROUP, MADE_WITHOUT);
                Groups::AsIs
            }
            (None, GroupMode::Managed) => self.managed(check_port),
        }
    }

    fn managed(&mut self, check_port: Option<u16>) -> Groups {
        let ingress = rules::ingress(self.request);
        self.limit("the load balancer's security group", fullness(&ingress), FEWER_RULES);
        let egress = self.egress(check_port);
        self.limit("the load balancer's security group, towards the nodes,", fullness(&egress), "use fewer ports");
        Groups::Managed(ManagedGroup {
            name: self.request.owner.network_group(&self.settings.cluster.name),
            ingress,
            egress: Some(egress),
            egress_denied: false,
            beside: self.backend.map(str::to_owned).into_iter().collect(),
        })
    }

    /// Towards the cluster's subnets: those with its tag, those of the nodes behind the load balancer, or all. Where there is no room for so many,
    /// only those of the nodes.
    fn egress(&self, check_port: Option<u16>) -> BTreeSet<Rule> {
        let cluster = &self.settings.cluster;
        let holds_nodes = |subnet: &Subnet| self.instances.iter().any(|node| node.subnet == subnet.id);
        let ours = |subnet: &&Subnet| cluster.uses(&subnet.tags) || holds_nodes(subnet);
        let mut ours: Vec<Subnet> = self.around.subnets.iter().filter(ours).cloned().collect();
        if ours.is_empty() {
            ours = self.around.subnets.clone();
        }
        let egress = rules::egress(self.request, check_port, &cidrs(&ours));
        if fullness(&egress) <= RULE_LIMIT {
            return egress;
        }
        ours.retain(holds_nodes);
        rules::egress(self.request, check_port, &cidrs(&ours))
    }

    fn node_rules(&mut self, groups: &Groups, check_port: Option<u16>) -> NodeRules {
        let request = self.request;
        let by_ranges = || rules::node_rules_for_ranges(request, check_port, &cidrs(&self.subnets));
        let wanted = match (groups, request.annotations.backend_rules) {
            (Groups::Managed(_), _) => match self.backend {
                Some(group) => rules::node_rules_for_backend(group),
                None => rules::node_rules_for_groups(request, check_port, &[OWN_GROUP.to_owned()].into()),
            },
            (Groups::Given(given), BackendRules::Groups) => rules::node_rules_for_groups(request, check_port, given),
            (Groups::Given(_), BackendRules::Nobody) => BTreeSet::new(),
            (Groups::Given(_) | Groups::AsIs, _) => by_ranges(),
        };
        let open = request
            .served()
            .iter()
            .all(|family| request.ranges.iter().any(|range| range.family() == *family && range.prefix() == 0));
        let unfiltered =
            matches!(groups, Groups::AsIs) && self.existing.is_none_or(|existing| existing.groups.is_empty()) && !open;
        if unfiltered && (!request.preserves_clients() || request.ip_address_type == IpAddressType::Dualstack) {
            let message = "the load balancer has no security group, and nodes do not see the addresses of all clients: source \
                           ranges hold only for those that they see; use a security group";
            self.note("SourceRangesNotEnforced", message);
        }
        self.on_nodes(wanted)
    }
}
