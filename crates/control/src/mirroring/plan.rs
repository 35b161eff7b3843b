//! The slices that mirror a hand-made Endpoints object: for each set of ports one slice of each family it has.
//!
//! Called by the controller in `mod.rs`. Mirrors the EndpointSlice mirroring controller of kube-controller-manager.

use crate::endpointslice::{
    draft::{Identity, MANAGED_BY, Ports, SERVICE_NAME, identity},
    plan::Plan,
    trigger,
};
use k8s_openapi::{
    api::{
        core::v1::{EndpointAddress, Endpoints},
        discovery::v1::{Endpoint, EndpointConditions, EndpointPort, EndpointSlice},
    },
    apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference},
};
use net::{Family, HasFamily, legacy::parse_stored_ip};
use std::{
    collections::{BTreeMap, btree_map::Entry},
    sync::Arc,
};

/// The value of the managed-by label of mirrored slices.
pub const CONTROLLER: &str = "endpointslicemirroring-controller.k8s.io";

const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// What to write, and what could not be mirrored.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Mirrored {
    /// The writes.
    pub plan: Plan,
    /// How many addresses were no IP addresses.
    pub invalid: usize,
    /// How many were more than a subset may have.
    pub too_many: usize,
}

type Group = (Family, Ports);

/// Ports as they are written, and the endpoints behind them.
type Members = (Vec<EndpointPort>, BTreeMap<Identity, Endpoint>);

/// Ports as they are written, and addresses with whether they are ready.
type Addresses<'a> = (Vec<EndpointPort>, Vec<(&'a EndpointAddress, bool)>);

/// Plans the slices of an Endpoints object, at most `most` addresses of each set of ports.
#[must_use]
pub fn plan(endpoints: &Endpoints, stored: &[Arc<EndpointSlice>], most: usize) -> Mirrored {
    let mut mirrored = Mirrored::default();
    let mut known: BTreeMap<Option<Group>, Vec<Arc<EndpointSlice>>> = BTreeMap::new();
    for slice in stored {
        let family = slice.address_type.parse::<Family>().ok();
        let group = family.map(|family| (family, Ports::of(slice.ports.as_deref().unwrap_or_default())));
        known.entry(group).or_default().push(Arc::clone(slice));
    }
    let mut new = Vec::new();
    for (group, (ports, list)) in wanted(endpoints, most, &mut mirrored) {
        let family = group.0;
        let mut existing = known.remove(&Some(group)).unwrap_or_default().into_iter();
        let slice = slice(endpoints, family, ports, list);
        match existing.next() {
            None => new.push(slice),
            Some(old) if is_same(&old, &slice) => {}
            Some(old) => mirrored.plan.update.push(over(&old, slice)),
        }
        mirrored.plan.delete.extend(existing);
    }
    mirrored.plan.delete.extend(known.into_values().flatten());
    for slice in new {
        // One that would be deleted becomes the new one: cheaper for everyone who watches.
        let reusable = mirrored.plan.delete.iter().position(|old| old.address_type == slice.address_type);
        match reusable {
            Some(at) => {
                let old = mirrored.plan.delete.swap_remove(at);
                mirrored.plan.update.push(over(&old, slice));
            }
            None if endpoints.metadata.deletion_timestamp.is_some() => {}
            None => mirrored.plan.create.push(slice),
        }
    }
    mirrored
}

/// The endpoints of each group; an address that is ready and not ready counts as ready.
fn wanted(endpoints: &Endpoints, most: usize, mirrored: &mut Mirrored) -> BTreeMap<Group, Members> {
    let mut by_ports: BTreeMap<Ports, Addresses<'_>> = BTreeMap::new();
    for subset in endpoints.subsets.iter().flatten() {
        let ports: Vec<EndpointPort> = subset.ports.iter().flatten().map(port).collect();
        let (_, addresses) = by_ports.entry(Ports::of(&ports)).or_insert_with(|| (ports, Vec::new()));
        addresses.extend(subset.addresses.iter().flatten().map(|address| (address, true)));
        addresses.extend(subset.not_ready_addresses.iter().flatten().map(|address| (address, false)));
    }
    let mut groups: BTreeMap<Group, Members> = BTreeMap::new();
    for (key, (ports, mut addresses)) in by_ports {
        addresses.sort_by_key(|(_, ready)| !ready);
        let mut count = 0;
        for (address, ready) in addresses {
            let Ok(ip) = parse_stored_ip(&address.ip) else {
                mirrored.invalid += 1;
                continue;
            };
            let endpoint = endpoint(address, ip.to_string(), ready);
            let group = groups.entry((ip.family(), key.clone()));
            let (_, list) = group.or_insert_with(|| (ports.clone(), BTreeMap::new()));
            if let Entry::Vacant(place) = list.entry(identity(&endpoint)) {
                if count < most {
                    place.insert(endpoint);
                    count += 1;
                } else {
                    mirrored.too_many += 1;
                }
            }
        }
    }
    groups.retain(|_, (_, list)| !list.is_empty());
    groups
}

fn port(port: &k8s_openapi::api::core::v1::EndpointPort) -> EndpointPort {
    EndpointPort {
        name: Some(port.name.clone().unwrap_or_default()),
        port: Some(port.port),
        protocol: Some(port.protocol.clone().unwrap_or_else(|| "TCP".to_owned())),
        app_protocol: port.app_protocol.clone(),
    }
}

fn endpoint(address: &EndpointAddress, ip: String, ready: bool) -> Endpoint {
    Endpoint {
        addresses: vec![ip],
        conditions: Some(EndpointConditions { ready: Some(ready), ..EndpointConditions::default() }),
        hostname: address.hostname.clone().filter(|hostname| !hostname.is_empty()),
        node_name: address.node_name.clone(),
        target_ref: address.target_ref.clone(),
        ..Endpoint::default()
    }
}

fn slice(
    endpoints: &Endpoints,
    family: Family,
    ports: Vec<EndpointPort>,
    list: BTreeMap<Identity, Endpoint>,
) -> EndpointSlice {
    let name = endpoints.metadata.name.clone().unwrap_or_default();
    let mut labels = endpoints.metadata.labels.clone().unwrap_or_default();
    labels.insert(SERVICE_NAME.to_owned(), name.clone());
    labels.insert(MANAGED_BY.to_owned(), CONTROLLER.to_owned());
    let mut annotations = endpoints.metadata.annotations.clone().unwrap_or_default();
    annotations.remove(LAST_APPLIED);
    annotations.remove(trigger::ANNOTATION);
    let owner = OwnerReference {
        api_version: "v1".to_owned(),
        kind: "Endpoints".to_owned(),
        uid: endpoints.metadata.uid.clone().unwrap_or_default(),
        name: name.clone(),
        controller: Some(true),
        block_owner_deletion: Some(true),
    };
    let metadata = ObjectMeta {
        namespace: endpoints.metadata.namespace.clone(),
        generate_name: Some(format!("{name}-")),
        labels: Some(labels),
        annotations: Some(annotations),
        owner_references: Some(vec![owner]),
        ..ObjectMeta::default()
    };
    let endpoints = Some(list.into_values().collect());
    EndpointSlice { address_type: family.to_string(), endpoints, metadata, ports: Some(ports) }
}

/// Whether the stored slice says what the wanted one does, in whatever order.
fn is_same(old: &EndpointSlice, new: &EndpointSlice) -> bool {
    let set = |slice: &EndpointSlice| -> BTreeMap<Identity, Endpoint> {
        slice.endpoints.iter().flatten().map(|endpoint| (identity(endpoint), endpoint.clone())).collect()
    };
    let annotations = |slice: &EndpointSlice| slice.metadata.annotations.clone().unwrap_or_default();
    old.metadata.labels == new.metadata.labels
        && annotations(old) == annotations(new)
        && old.metadata.owner_references == new.metadata.owner_references
        && set(old) == set(new)
}

/// The new content under the stored slice's name.
fn over(old: &EndpointSlice, mut new: EndpointSlice) -> EndpointSlice {
    new.metadata.name = old.metadata.name.clone();
    new.metadata.generate_name = old.metadata.generate_name.clone();
    new.metadata.uid = old.metadata.uid.clone();
    new.metadata.resource_version = old.metadata.resource_version.clone();
    new
}
