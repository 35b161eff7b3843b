//! Which slices a Service should have, and what has to be written so that it has them.
//!
//! Called by `apply` for one Service; `twinstack plan` can show it. Pure: the same objects give the same plan.

use super::{
    draft::{Draft, Ports, empty, is_owned, labels},
    endpoint,
    families::families,
    hints::{self, Mode},
    pack::{Group, pack},
    topology::{self, Shares},
};
use k8s_openapi::api::{
    core::v1::{Node, Pod, Service},
    discovery::v1::{Endpoint, EndpointPort, EndpointSlice},
};
use net::Family;
use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

/// What a plan is made from.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'a> {
    /// The Service; it has a selector.
    pub service: &'a Service,
    /// The Pods that it picks.
    pub pods: &'a [Arc<Pod>],
    /// The nodes of those Pods, as far as they exist.
    pub nodes: &'a HashMap<String, Arc<Node>>,
    /// The zones' shares, for topology mode `Auto`.
    pub shares: &'a Shares,
    /// How many endpoints go into one slice.
    pub most: usize,
}

/// What has to be written, in this order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// New slices.
    pub create: Vec<EndpointSlice>,
    /// Stored slices with other content.
    pub update: Vec<EndpointSlice>,
    /// Stored slices that nobody needs.
    pub delete: Vec<Arc<EndpointSlice>>,
    /// For topology mode `Auto`: how it went, per family.
    pub topology: BTreeMap<Family, Result<(), String>>,
    /// Endpoints that were not there before.
    pub added: usize,
    /// Endpoints that are there no longer.
    pub removed: usize,
}

impl Plan {
    /// How many writes it takes.
    #[must_use]
    pub fn writes(&self) -> usize {
        self.create.len() + self.update.len() + self.delete.len()
    }
}

/// Plans the slices of all families. `stored` are this controller's slices of the Service.
#[must_use]
pub fn plan(wanted: Wanted<'_>, stored: &[Arc<EndpointSlice>]) -> Plan {
    let mut plan = Plan::default();
    let families = families(wanted.service);
    for family in families.iter() {
        let address_type = family.to_string();
        let own: Vec<_> = stored.iter().filter(|slice| slice.address_type == address_type).cloned().collect();
        plan_family(wanted, family, own, &mut plan);
    }
    let wants =
        |slice: &EndpointSlice| slice.address_type.parse::<Family>().is_ok_and(|family| families.contains(family));
    plan.delete.extend(stored.iter().filter(|slice| !wants(slice)).cloned());
    plan
}

/// The wanted endpoints behind one set of ports, and the slices that have those ports.
#[derive(Default)]
struct Members {
    ports: Vec<EndpointPort>,
    endpoints: Vec<Endpoint>,
    stored: Vec<Arc<EndpointSlice>>,
}

fn plan_family(wanted: Wanted<'_>, family: Family, stored: Vec<Arc<EndpointSlice>>, plan: &mut Plan) {
    let service = wanted.service;
    let mut groups = groups(wanted, family);
    // Of a Service of the same name that is gone: not ours to change, only to clear away.
    let (owned, foreign): (Vec<_>, Vec<_>) = stored.into_iter().partition(|slice| is_owned(slice, service));
    let mut gone = Vec::new();
    for slice in owned {
        match groups.get_mut(&Ports::of(slice.ports.as_deref().unwrap_or_default())) {
            Some(group) => group.stored.push(slice),
            None => gone.push(slice),
        }
    }
    let mut drafts = Vec::new();
    for members in groups.into_values() {
        let group = Group { service, family, ports: &members.ports, most: wanted.most };
        let packed = pack(group, members.stored, members.endpoints);
        drafts.extend(packed.drafts);
        gone.extend(packed.gone);
        plan.added += packed.added;
        plan.removed += packed.removed;
    }
    if drafts.is_empty() {
        drafts.push(placeholder(service, family, &mut gone));
    }
    match hints::mode(service) {
        Mode::Off => hints::remove(&mut drafts),
        Mode::SameZone => hints::prefer_close(&mut drafts, false),
        Mode::SameNode => hints::prefer_close(&mut drafts, true),
        Mode::Auto => drop(plan.topology.insert(family, topology::share_out(&mut drafts, wanted.shares))),
    }
    for draft in drafts.iter_mut().filter(|draft| draft.is_new()) {
        let Some(slice) = gone.pop() else { break };
        draft.replace(slice);
    }
    plan.delete.extend(gone);
    plan.delete.extend(foreign);
    // A Service on its way out gets nothing new: it would race with the garbage collector.
    let ending = service.metadata.deletion_timestamp.is_some();
    for (slice, new) in drafts.into_iter().filter_map(Draft::finish) {
        match new {
            true if ending => {}
            true => plan.create.push(slice),
            false => plan.update.push(slice),
        }
    }
}

fn groups(wanted: Wanted<'_>, family: Family) -> BTreeMap<Ports, Members> {
    let spec = wanted.service.spec.as_ref();
    let publish = spec.and_then(|spec| spec.publish_not_ready_addresses).unwrap_or(false);
    let mut groups: BTreeMap<Ports, Members> = BTreeMap::new();
    for pod in wanted.pods.iter().filter(|pod| endpoint::has_endpoints(pod)) {
        let (key, ports) = Ports::of_pod(wanted.service, pod);
        let members = groups.entry(key).or_insert_with(|| Members { ports, ..Members::default() });
        let node = endpoint::node_name(pod).and_then(|name| wanted.nodes.get(name));
        // Its node is gone, and so will it be; when the node appears, the Service is looked at again.
        if node.is_none() && !publish {
            continue;
        }
        members.endpoints.extend(endpoint::endpoint(pod, node.map(|node| &**node), wanted.service, family));
    }
    groups
}

/// A Service without endpoints has one empty slice per family, so that readers can tell "none" from "not known yet".
fn placeholder(service: &Service, family: Family, gone: &mut Vec<Arc<EndpointSlice>>) -> Draft {
    let is_one = |slice: &EndpointSlice| {
        slice.endpoints.as_ref().is_none_or(Vec::is_empty)
            && slice.ports.as_ref().is_none_or(Vec::is_empty)
            && slice.metadata.labels.as_ref() == Some(&labels(service))
    };
    match gone.iter().position(|slice| is_one(slice)) {
        Some(at) => Draft::stored(gone.swap_remove(at)),
        None => Draft::new(empty(service, family, Vec::new())),
    }
}
