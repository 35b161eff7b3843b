//! Topology mode `Auto`: endpoints are shared out to zones as the zones' processors are.
//!
//! Mirrors upstream's topology cache, without the cache: what is allotted is read from the slices themselves.

use super::{draft::Draft, endpoint::zone, hints};
use k8s_openapi::api::{
    core::v1::Node,
    discovery::v1::{Endpoint, EndpointHints, ForZone},
};
use std::{collections::BTreeMap, sync::Arc};

/// No endpoint may get more than this much over its fair share of traffic.
const OVERLOAD: f64 = 0.2;

/// Each zone's share of all processors; empty when nodes do not say enough, or there is only one zone.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Shares(BTreeMap<String, f64>);

/// How many endpoints a zone should have.
#[derive(Clone, Copy, Debug)]
struct Allotment {
    most: usize,
    desired: f64,
}

impl Shares {
    /// The shares of ready nodes that are not of the control plane.
    pub fn of(nodes: &[Arc<Node>]) -> Self {
        let mut by_zone: BTreeMap<String, f64> = BTreeMap::new();
        for node in nodes.iter().filter(|node| counts(node)) {
            let (Some(zone), Some(cpu)) = (zone(node), processors(node)) else { return Self::default() };
            *by_zone.entry(zone.to_owned()).or_default() += cpu;
        }
        let total: f64 = by_zone.values().sum();
        if by_zone.len() < 2 {
            return Self::default();
        }
        Self(by_zone.into_iter().map(|(zone, cpu)| (zone, cpu / total)).collect())
    }

    fn allot(&self, endpoints: usize) -> Result<BTreeMap<&str, Allotment>, String> {
        let zones = self.0.len();
        if zones == 0 {
            return Err(
                "nodes are ready in fewer than two zones, or one does not say its zone or allocatable CPU".to_owned()
            );
        }
        if zones > endpoints {
            return Err(format!("too few endpoints for the zones ({endpoints} endpoints, {zones} zones)"));
        }
        let least = |share: f64| (share * endpoints as f64 / (1.0 + OVERLOAD)).ceil();
        let sum: f64 = self.0.values().map(|share| least(*share)).sum();
        if sum > endpoints as f64 {
            return Err(format!(
                "some endpoint would be overloaded by more than {}% ({endpoints} endpoints, {zones} zones)",
                OVERLOAD * 100.0
            ));
        }
        let spare = endpoints as f64 - sum;
        let allot = |share: f64| Allotment {
            most: (least(share) + spare) as usize,
            desired: (share * endpoints as f64).max(least(share)),
        };
        Ok(self.0.iter().map(|(zone, share)| (zone.as_str(), allot(*share))).collect())
    }
}

fn counts(node: &Node) -> bool {
    let labels = node.metadata.labels.as_ref();
    let has = |label: &str| labels.is_some_and(|labels| labels.contains_key(label));
    let conditions = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let ready = conditions.into_iter().any(|condition| condition.type_ == "Ready" && condition.status == "True");
    ready && !has("node-role.kubernetes.io/control-plane") && !has("node-role.kubernetes.io/master")
}

/// Allocatable CPU, in cores.
fn processors(node: &Node) -> Option<f64> {
    let text = &node.status.as_ref()?.allocatable.as_ref()?.get("cpu")?.0;
    let cores = match text.strip_suffix('m') {
        Some(thousandths) => thousandths.parse::<f64>().ok()? / 1000.0,
        None => text.parse::<f64>().ok()?,
    };
    (cores.is_finite() && cores > 0.0).then_some(cores)
}

/// Gives every ready endpoint a hint for a zone; slices whose hints are still good are not touched. If that cannot be
/// done well, all hints go and the reason comes back.
pub fn share_out(drafts: &mut [Draft], shares: &Shares) -> Result<(), String> {
    let ready = drafts.iter().flat_map(|draft| draft.endpoints()).filter(|endpoint| hints::is_ready(endpoint)).count();
    let outcome = shares.allot(ready).and_then(|allotments| assign(drafts, &allotments));
    if outcome.is_err() {
        hints::remove(drafts);
    }
    outcome
}

fn assign(drafts: &mut [Draft], allotments: &BTreeMap<&str, Allotment>) -> Result<(), String> {
    let mut given: BTreeMap<String, usize> = BTreeMap::new();
    for draft in drafts.iter_mut().filter(|draft| !draft.is_edited()) {
        match good_hints(draft.endpoints(), &given, allotments) {
            Some(hints) => hints.into_iter().for_each(|(zone, count)| *given.entry(zone).or_default() += count),
            None => drop(draft.edit()),
        }
    }
    for endpoint in open(drafts) {
        let Some(zone) = endpoint.zone.clone().filter(|zone| !zone.is_empty()) else {
            return Err("an endpoint has no zone".to_owned());
        };
        *given.entry(zone.clone()).or_default() += 1;
        endpoint.hints = for_zone(zone);
    }
    let (mut giving, mut receiving) = imbalance(allotments, &given);
    for endpoint in open(drafts) {
        let Some(left) = endpoint.zone.as_ref().and_then(|zone| giving.get_mut(zone)).filter(|left| **left > 0) else {
            continue;
        };
        let Some((zone, wanted)) = receiving.iter_mut().find(|(_, wanted)| **wanted > 0) else { break };
        endpoint.hints = for_zone(zone.clone());
        *left -= 1;
        *wanted -= 1;
    }
    Ok(())
}

/// The ready endpoints of slices that are written anyway; the others there lose their hints.
fn open(drafts: &mut [Draft]) -> impl Iterator<Item = &mut Endpoint> {
    let edited = drafts.iter_mut().filter(|draft| draft.is_edited());
    edited.flat_map(|draft| draft.edit_endpoints()).filter_map(|endpoint| {
        if hints::is_ready(endpoint) {
            return Some(endpoint);
        }
        endpoint.hints = None;
        None
    })
}

fn for_zone(name: String) -> Option<EndpointHints> {
    Some(EndpointHints { for_zones: Some(vec![ForZone { name }]), for_nodes: None })
}

/// The hints of an untouched slice per zone, or nothing if they will not do any more.
fn good_hints(
    endpoints: &[Endpoint],
    given: &BTreeMap<String, usize>,
    allotments: &BTreeMap<&str, Allotment>,
) -> Option<BTreeMap<String, usize>> {
    let mut found: BTreeMap<String, usize> = BTreeMap::new();
    for endpoint in endpoints.iter().filter(|endpoint| hints::is_ready(endpoint)) {
        let zones = endpoint.hints.as_ref()?.for_zones.as_ref().filter(|zones| !zones.is_empty())?;
        for zone in zones {
            *found.entry(zone.name.clone()).or_default() += 1;
        }
    }
    let fits = found.iter().all(|(zone, count)| {
        let most = allotments.get(zone.as_str()).map(|allotment| allotment.most);
        most.is_some_and(|most| count + given.get(zone).copied().unwrap_or(0) <= most)
    });
    fits.then_some(found)
}

/// How many endpoints zones with too many give, and zones with too few get.
fn imbalance(
    allotments: &BTreeMap<&str, Allotment>,
    given: &BTreeMap<String, usize>,
) -> (BTreeMap<String, usize>, BTreeMap<String, usize>) {
    let mut over: BTreeMap<&str, f64> = BTreeMap::new();
    let mut under: BTreeMap<&str, f64> = BTreeMap::new();
    for (zone, allotment) in allotments {
        let difference = given.get(*zone).copied().unwrap_or(0) as f64 - allotment.desired;
        if difference > 0.0 {
            over.insert(zone, difference);
        } else if difference < 0.0 {
            under.insert(zone, -difference);
        }
    }
    let (mut giving, mut receiving) = (BTreeMap::new(), BTreeMap::new());
    while let (Some((from, give)), Some((to, get))) = (greatest(&over), greatest(&under)) {
        if (give < 1.0 && get < 1.0) || give < 0.5 || get < 0.5 {
            break;
        }
        *giving.entry(from.to_owned()).or_default() += 1;
        *receiving.entry(to.to_owned()).or_default() += 1;
        over.entry(from).and_modify(|left| *left -= 1.0);
        under.entry(to).and_modify(|left| *left -= 1.0);
    }
    (giving, receiving)
}

fn greatest<'a>(zones: &BTreeMap<&'a str, f64>) -> Option<(&'a str, f64)> {
    let positive = zones.iter().filter(|(_, left)| **left > 0.0);
    positive.max_by(|a, b| a.1.total_cmp(b.1)).map(|(zone, left)| (*zone, *left))
}
