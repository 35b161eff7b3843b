//! From a request and the surroundings to the description of what there should be.

mod classic;
mod network;

use super::{
    Balancer, Desired, Groups, Settings, Surroundings,
    annotations::{Kind, name},
    nodes,
    request::{Note, Request},
    rules::RULE_LIMIT,
    subnets::{self, Need, Offer},
};
use crate::account::{Instance, IpAddressType, Rule, Scheme, Subnet};
use k8s_openapi::api::core::v1::Node;
use net::Cidr;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// What a load balancer that is there already decides for good, or until asked otherwise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Existing {
    /// Public or not.
    pub scheme: Scheme,
    pub subnets: BTreeSet<String>,
    /// Its security groups.
    pub groups: BTreeSet<String>,
}

/// Why there cannot be what is asked for: all reasons, and what else should be told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// All reasons.
    pub why: String,
    /// What should be told besides.
    pub notes: Vec<Note>,
}

/// What to do about too many rules for clients.
const FEWER_RULES: &str = "use fewer ports or wider source ranges";

/// Rules on nodes' groups, by group.
type NodeRules = BTreeMap<String, BTreeSet<Rule>>;

struct Parts<'a> {
    request: &'a Request,
    settings: &'a Settings,
    around: &'a Surroundings,
    existing: Option<&'a Existing>,
    /// The group that load balancers share towards the nodes.
    backend: Option<&'a str>,
    scheme: Scheme,
    subnets: Vec<Subnet>,
    instances: Vec<&'a Instance>,
    notes: Vec<Note>,
    mistakes: Vec<String>,
}

/// What there should be for a request; every reason why there cannot be, otherwise.
pub fn desire(
    request: &Request,
    settings: &Settings,
    around: &Surroundings,
    existing: Option<&Existing>,
    nodes: &[Arc<Node>],
    backend: Option<&str>,
) -> Result<Desired, Refusal> {
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
    let wanted = nodes::instances(nodes, &annotations.node_labels);
    let instances: Vec<&Instance> = wanted.iter().filter_map(|id| around.instances.get(id)).collect();
    if instances.is_empty() {
        notes.push(Note {
            reason: "UnAvailableLoadBalancer",
            message: if annotations.node_labels.is_empty() {
                "There are no available nodes for LoadBalancer".to_owned()
            } else {
                format!("There are no available nodes for LoadBalancer with all of {}", name("target-node-labels"))
            },
        });
    }
    let (subnets, mistakes) = (Vec::new(), Vec::new());
    let mut parts = Parts { request, settings, around, existing, backend, scheme, subnets, instances, notes, mistakes };
    match parts.choose_subnets() {
        Ok(subnets) => parts.subnets = subnets,
        Err(mistake) => parts.mistakes.push(mistake),
    }
    let (balancer, groups, node_rules) = match annotations.kind {
        Kind::Network => parts.network(),
        Kind::Classic | Kind::Elsewhere => parts.classic(),
    };
    parts.finish(balancer, groups, node_rules)
}

fn cidrs(subnets: &[Subnet]) -> Vec<Cidr> {
    let all: BTreeSet<Cidr> =
        subnets.iter().flat_map(|subnet| subnet.ipv4.iter().chain(&subnet.ipv6).copied()).collect();
    all.into_iter().collect()
}

impl Parts<'_> {
    fn choose_subnets(&mut self) -> Result<Vec<Subnet>, String> {
        let (request, around) = (self.request, self.around);
        let need = Need { scheme: self.scheme, ipv6: request.ip_address_type == IpAddressType::Dualstack };
        let offer = Offer { subnets: &around.subnets, tables: &around.route_tables, zones: &around.zones };
        if let Some(wanted) = &request.annotations.subnets {
            return subnets::named(wanted, offer, need).map_err(|problem| format!("{}: {problem}", name("subnets")));
        }
        if let Some(existing) = self.existing {
            let ids: Vec<String> = existing.subnets.iter().cloned().collect();
            return subnets::named(&ids, offer, need)
                .map_err(|problem| format!("the load balancer's subnets: {problem}"));
        }
        let (chosen, rejected) = subnets::discover(offer, &self.settings.cluster, need);
        if !chosen.is_empty() {
            self.notes.extend(subnets::lost_zones(&around.subnets, &chosen, &rejected));
            return Ok(chosen);
        }
        let fallback = self.settings.fallback_subnet.as_ref();
        let fallback = around.subnets.iter().find(|subnet| Some(&subnet.id) == fallback);
        if let Some(subnet) = fallback.filter(|subnet| !need.ipv6 || !subnet.ipv6.is_empty()) {
            return Ok(vec![subnet.clone()]);
        }
        let reasons: Vec<String> = rejected.iter().map(|one| format!("{} {}", one.subnet, one.reason)).collect();
        let reasons = if reasons.is_empty() { "there is none in the VPC".to_owned() } else { reasons.join("; ") };
        Err(format!("could not find any suitable subnets for creating the ELB: {reasons}"))
    }

    /// Refuses more rules than a group holds.
    fn limit(&mut self, what: &str, count: usize, advice: &str) {
        if count > RULE_LIMIT {
            self.mistakes
                .push(format!("{what} would need {count} rules of one family, and AWS takes {RULE_LIMIT}: {advice}"));
        }
    }

    /// These rules on the group of each node.
    fn on_nodes(&mut self, wanted: BTreeSet<Rule>) -> NodeRules {
        if self.settings.disable_node_rules || wanted.is_empty() {
            return BTreeMap::new();
        }
        match nodes::groups(&self.instances, &self.around.group_tags, &self.settings.cluster) {
            Ok(mut groups) => {
                // What all classic load balancers have is the administrator's, even if nodes have it too.
                groups.retain(|group| Some(group) != self.settings.elb_group.as_ref());
                groups.into_iter().map(|group| (group, wanted.clone())).collect()
            }
            Err(mistake) => {
                self.mistakes.push(mistake);
                BTreeMap::new()
            }
        }
    }

    fn finish(self, balancer: Balancer, groups: Groups, node_rules: NodeRules) -> Result<Desired, Refusal> {
        if !self.mistakes.is_empty() {
            return Err(Refusal { why: self.mistakes.join("; "), notes: self.notes });
        }
        let owner = self.request.owner.clone();
        let cluster = &self.settings.cluster;
        Ok(Desired {
            name: owner.load_balancer(),
            vpc: cluster.vpc.clone(),
            tags: cluster.tags(&owner, &self.request.annotations.tags),
            owner,
            balancer,
            groups,
            node_rules,
            notes: self.notes,
        })
    }
}
