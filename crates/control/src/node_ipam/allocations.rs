//! Which node has which CIDRs, and which it should get. Pure: no API, no clock.
//!
//! What a node was promised stays its own until the node goes, so an attempt whose answer was lost is repeated with the same
//! CIDRs. Mirrors the range allocator of kube-controller-manager; differs in that the second family can be appended to a
//! node that has one, and that a CIDR from outside is reported instead of ending the program.

use k8s_openapi::api::core::v1::Node;
use net::{Cidr, DualStack, Family, HasFamily, NodeBlocks, NodeCidrPool, legacy::parse_stored_cidr};
use std::collections::HashMap;

/// The pools and what is taken from them.
#[derive(Debug)]
pub struct Allocations {
    pools: DualStack<NodeCidrPool>,
    nodes: HashMap<String, Holding>,
    /// How many nodes hold a CIDR. More than one is somebody's mistake, and freeing it at the first would be ours.
    holders: HashMap<Cidr, usize>,
}

#[derive(Debug, Default, PartialEq, Eq)]
struct Holding {
    /// In the node's spec.
    has: Vec<Cidr>,
    /// Taken for the node, not seen in its spec yet.
    promised: Vec<Cidr>,
    /// The API server does not let this node have a second one.
    refused: bool,
}

/// What to do for a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// It has what it needs.
    Keep,
    /// Write these as its pod CIDRs: all of them, or one more behind what it has.
    Assign(Vec<Cidr>),
    /// This cluster CIDR has none left.
    Exhausted(Cidr),
}

impl Allocations {
    /// Nothing is taken yet but what overlaps `withheld`, the ranges of Services.
    #[must_use]
    pub fn new(blocks: DualStack<NodeBlocks>, withheld: &[Cidr]) -> Self {
        let pools = blocks.map(|_, blocks| NodeCidrPool::new(blocks));
        for cidr in withheld {
            if let Some(pool) = pools.get(cidr.family()) {
                // A range elsewhere overlaps nothing: that is the rule, not a mistake.
                let _ = pool.withhold(*cidr);
            }
        }
        Self { pools, nodes: HashMap::new(), holders: HashMap::new() }
    }

    /// Takes note of a node as it is stored. Returns what it has that is not from here.
    pub fn observe(&mut self, node: &Node) -> Vec<Cidr> {
        let name = node.metadata.name.clone().unwrap_or_default();
        let has = pod_cidrs(node);
        let before = self.nodes.remove(&name).unwrap_or_default();
        for cidr in &has {
            if !before.has.contains(cidr) && !before.promised.contains(cidr) {
                self.take(*cidr);
            }
        }
        for cidr in before.has.iter().chain(&before.promised).filter(|cidr| !has.contains(cidr)) {
            // A promise stands until it is kept, or the node has got something else for that family.
            let kept = before.promised.contains(cidr) && !has.iter().any(|other| other.family() == cidr.family());
            if !kept {
                self.give_back(*cidr);
            }
        }
        let lacks = |cidr: &&Cidr| !has.iter().any(|other| other.family() == cidr.family());
        let promised = before.promised.iter().filter(lacks).copied().collect();
        let foreign = has.iter().filter(|cidr| !self.holders.contains_key(cidr)).copied().collect();
        self.nodes.insert(name, Holding { has, promised, refused: before.refused });
        foreign
    }

    /// Frees what a node had. Whether that was anything.
    pub fn forget(&mut self, name: &str) -> bool {
        let Some(holding) = self.nodes.remove(name) else { return false };
        let all: Vec<Cidr> = holding.has.into_iter().chain(holding.promised).collect();
        all.iter().for_each(|cidr| self.give_back(*cidr));
        !all.is_empty()
    }

    /// What a node should get; its CIDRs are taken with that.
    pub fn decide(&mut self, name: &str) -> Decision {
        let Some(holding) = self.nodes.get(name) else { return Decision::Keep };
        let (has, promised) = (holding.has.clone(), holding.promised.clone());
        if !has.is_empty() && holding.refused {
            return Decision::Keep;
        }
        let lacks: Vec<Family> =
            self.pools.families().iter().filter(|family| !has.iter().any(|cidr| cidr.family() == *family)).collect();
        // More than two, or two of a family, is nothing that this controller has made or can mend.
        if lacks.is_empty() || has.len() > 1 {
            return Decision::Keep;
        }
        let mut reserved = Vec::new();
        let mut wanted = has;
        for family in lacks {
            let Some(pool) = self.pools.get(family) else { continue };
            if let Some(cidr) = promised.iter().find(|cidr| cidr.family() == family) {
                wanted.push(*cidr);
                continue;
            }
            match pool.reserve_any() {
                Ok(reservation) => reserved.push(reservation),
                // What was reserved of the other family goes back with this.
                Err(_) => return Decision::Exhausted(pool.space().cluster()),
            }
        }
        let taken: Vec<Cidr> = reserved.into_iter().map(net::Reservation::commit).collect();
        taken.iter().for_each(|cidr| *self.holders.entry(*cidr).or_default() += 1);
        wanted.extend(&taken);
        if let Some(holding) = self.nodes.get_mut(name) {
            holding.promised.extend(taken);
        }
        // New nodes follow the flag's order; one that has a CIDR keeps it in front.
        if let Some(holding) = self.nodes.get(name).filter(|holding| holding.has.is_empty()) {
            let order: Vec<Family> = self.pools.families().iter().collect();
            let position = |cidr: &Cidr| order.iter().position(|family| *family == cidr.family());
            wanted = holding.promised.clone();
            wanted.sort_by_key(position);
        }
        Decision::Assign(wanted)
    }

    /// Takes back the second CIDR of a node that may not have one, for good.
    pub fn refuse(&mut self, name: &str) {
        let Some(holding) = self.nodes.get_mut(name) else { return };
        holding.refused = true;
        let promised = std::mem::take(&mut holding.promised);
        promised.iter().for_each(|cidr| self.give_back(*cidr));
    }

    /// Each cluster CIDR with the number of its blocks that are taken.
    pub fn usage(&self) -> Vec<(Cidr, u64)> {
        self.pools.iter().map(|pool| (pool.space().cluster(), pool.used())).collect()
    }

    /// Holds a CIDR once more, if it is from one of the pools.
    fn take(&mut self, cidr: Cidr) {
        let Some(pool) = self.pools.get(cidr.family()) else { return };
        if self.holders.contains_key(&cidr) || pool.occupy(cidr).is_ok() {
            *self.holders.entry(cidr).or_default() += 1;
        }
    }

    fn give_back(&mut self, cidr: Cidr) {
        let Some(count) = self.holders.get_mut(&cidr) else { return };
        *count -= 1;
        if *count == 0 {
            self.holders.remove(&cidr);
            if let Some(pool) = self.pools.get(cidr.family()) {
                pool.release(cidr);
            }
        }
    }
}

/// The node's pod CIDRs; the singular field counts where there is no other.
fn pod_cidrs(node: &Node) -> Vec<Cidr> {
    let Some(spec) = &node.spec else { return Vec::new() };
    let list = spec.pod_cidrs.as_deref().filter(|list| !list.is_empty());
    let texts = list.unwrap_or(spec.pod_cidr.as_slice());
    texts.iter().filter_map(|text| parse_stored_cidr(text).ok()).collect()
}
