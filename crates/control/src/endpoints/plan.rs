//! What the old Endpoints object of a Service holds: its primary family only, at most a thousand addresses.
//!
//! Called by the controller in `mod.rs`. Mirrors the endpoints controller of kube-controller-manager.

use crate::endpointslice::{
    endpoint,
    families::{families, is_headless},
};
use k8s_openapi::{
    api::core::v1::{EndpointAddress, EndpointPort, EndpointSubset, Endpoints, Pod, Service},
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use std::{collections::BTreeMap, sync::Arc};

/// The most addresses that one object holds.
pub const CAPACITY: usize = 1000;
/// Says that addresses were left out.
pub const OVER_CAPACITY: &str = "endpoints.kubernetes.io/over-capacity";
/// The label that says who keeps the object.
pub const MANAGED_BY: &str = "endpoints.kubernetes.io/managed-by";
/// The label's value for objects of this controller.
pub const CONTROLLER: &str = "endpoint-controller";

const HEADLESS: &str = "service.kubernetes.io/headless";

/// What to do with the stored object.
#[derive(Clone, Debug, PartialEq)]
pub enum Plan {
    /// It is as it should be.
    Keep,
    /// There is none.
    Create(Endpoints),
    /// It says something else.
    Update(Endpoints),
}

/// Plans the object of a Service from the Pods that it picks.
#[must_use]
pub fn plan(service: &Service, pods: &[Arc<Pod>], stored: Option<&Endpoints>) -> Plan {
    let mut subsets = subsets(service, pods);
    let truncated = truncate(&mut subsets);
    let labels = labels(service);
    let Some(stored) = stored else {
        let metadata = ObjectMeta {
            namespace: service.metadata.namespace.clone(),
            name: service.metadata.name.clone(),
            labels: Some(labels),
            annotations: truncated.then(|| [(OVER_CAPACITY.to_owned(), "truncated".to_owned())].into()),
            ..ObjectMeta::default()
        };
        return Plan::Create(Endpoints { metadata, subsets: Some(subsets) });
    };
    let marked = stored.metadata.annotations.as_ref().is_some_and(|all| all.contains_key(OVER_CAPACITY));
    let same_labels = stored.metadata.labels.as_ref() == Some(&labels);
    if same_labels && marked == truncated && in_order(stored.subsets.as_deref().unwrap_or_default()) == subsets {
        return Plan::Keep;
    }
    let mut new = stored.clone();
    new.subsets = Some(subsets);
    new.metadata.labels = Some(labels);
    let annotations = new.metadata.annotations.get_or_insert_default();
    match truncated {
        true => drop(annotations.insert(OVER_CAPACITY.to_owned(), "truncated".to_owned())),
        false => drop(annotations.remove(OVER_CAPACITY)),
    }
    Plan::Update(new)
}

fn labels(service: &Service) -> BTreeMap<String, String> {
    let mut labels = service.metadata.labels.clone().unwrap_or_default();
    labels.insert(MANAGED_BY.to_owned(), CONTROLLER.to_owned());
    match is_headless(service) {
        true => drop(labels.insert(HEADLESS.to_owned(), String::new())),
        false => drop(labels.remove(HEADLESS)),
    }
    labels
}

/// The addresses behind one set of ports.
#[derive(Default)]
struct Group {
    ports: Vec<EndpointPort>,
    ready: Vec<EndpointAddress>,
    not_ready: Vec<EndpointAddress>,
}

fn subsets(service: &Service, pods: &[Arc<Pod>]) -> Vec<EndpointSubset> {
    let spec = service.spec.as_ref();
    let publish = spec.and_then(|spec| spec.publish_not_ready_addresses).unwrap_or(false);
    let no_ports = spec.is_none_or(|spec| spec.ports.as_ref().is_none_or(Vec::is_empty));
    let family = families(service).primary();
    let mut groups: BTreeMap<String, Group> = BTreeMap::new();
    for pod in pods.iter().filter(|pod| endpoint::has_endpoints(pod)) {
        if endpoint::is_terminating(pod) && !publish {
            continue;
        }
        let Some(ip) = endpoint::addresses(pod, family).into_iter().next() else { continue };
        let ports = ports(service, pod);
        // A Pod without any of the ports is no endpoint; a headless Service needs none.
        if ports.is_empty() && !(no_ports && is_headless(service)) {
            continue;
        }
        let address = EndpointAddress {
            ip,
            hostname: endpoint::hostname(pod, service).map(str::to_owned),
            node_name: endpoint::node_name(pod).map(str::to_owned),
            target_ref: Some(endpoint::target(pod)),
        };
        let group = groups.entry(order(&ports)).or_insert_with(|| Group { ports, ..Group::default() });
        let list = if publish || endpoint::is_ready(pod) { &mut group.ready } else { &mut group.not_ready };
        list.push(address);
    }
    let subset = |group: Group| EndpointSubset {
        addresses: Some(group.ready).filter(|list| !list.is_empty()),
        not_ready_addresses: Some(group.not_ready).filter(|list| !list.is_empty()),
        ports: Some(group.ports).filter(|list| !list.is_empty()),
    };
    in_order(&groups.into_values().map(subset).collect::<Vec<_>>())
}

fn ports(service: &Service, pod: &Pod) -> Vec<EndpointPort> {
    let found = endpoint::ports(service, pod).into_iter().filter_map(|port| {
        let name = port.name.filter(|name| !name.is_empty());
        Some(EndpointPort { name, port: port.port?, protocol: port.protocol, app_protocol: port.app_protocol })
    });
    found.collect()
}

fn order(ports: &[EndpointPort]) -> String {
    let mut words: Vec<String> = ports
        .iter()
        .map(|port| format!("{:?}/{:05}/{:?}/{:?}", port.name, port.port, port.protocol, port.app_protocol))
        .collect();
    words.sort_unstable();
    words.join(" ")
}

/// Subsets, ports and addresses in one order, so that what another controller wrote in its own order is no difference.
fn in_order(subsets: &[EndpointSubset]) -> Vec<EndpointSubset> {
    let sorted = |list: &Option<Vec<EndpointAddress>>| {
        let mut list = list.clone().filter(|list| !list.is_empty())?;
        let uid = |address: &EndpointAddress| address.target_ref.as_ref().and_then(|target| target.uid.clone());
        list.sort_by_key(|address| (address.ip.clone(), uid(address)));
        Some(list)
    };
    let one = |subset: &EndpointSubset| {
        let mut ports = subset.ports.clone().unwrap_or_default();
        ports.sort_by_key(|port| order(std::slice::from_ref(port)));
        EndpointSubset {
            addresses: sorted(&subset.addresses),
            not_ready_addresses: sorted(&subset.not_ready_addresses),
            ports: Some(ports).filter(|list| !list.is_empty()),
        }
    };
    let mut all: Vec<EndpointSubset> = subsets.iter().map(one).collect();
    all.sort_by_cached_key(|subset| order(subset.ports.as_deref().unwrap_or_default()));
    all
}

/// Leaves out what is over capacity: those not ready first, then each subset's share. Whether it had to.
fn truncate(subsets: &mut [EndpointSubset]) -> bool {
    let count = |list: &Option<Vec<EndpointAddress>>| list.as_ref().map_or(0, Vec::len);
    let ready: usize = subsets.iter().map(|subset| count(&subset.addresses)).sum();
    let not_ready: usize = subsets.iter().map(|subset| count(&subset.not_ready_addresses)).sum();
    if ready + not_ready <= CAPACITY {
        return false;
    }
    let (room, total) = if ready > CAPACITY { (CAPACITY, ready) } else { (CAPACITY - ready, not_ready) };
    let mut left = room;
    for subset in subsets {
        if ready > CAPACITY {
            subset.not_ready_addresses = None;
        }
        let list = if ready > CAPACITY { &mut subset.addresses } else { &mut subset.not_ready_addresses };
        let share = (count(list) * room).div_ceil(total).min(left);
        if let Some(addresses) = list {
            addresses.truncate(share);
            left -= addresses.len();
        }
        if count(list) == 0 {
            *list = None;
        }
    }
    true
}
