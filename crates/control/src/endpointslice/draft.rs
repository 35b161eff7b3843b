//! A slice while it is being planned: what is stored, and what it is to become if that differs.

use super::{endpoint, families::is_headless};
use k8s_openapi::{
    api::{
        core::v1::Service,
        discovery::v1::{Endpoint, EndpointPort, EndpointSlice},
    },
    apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference},
};
use net::Family;
use std::{collections::BTreeMap, sync::Arc};

/// The label that says who keeps a slice.
pub const MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";
/// The label that says whose slice it is.
pub const SERVICE_NAME: &str = "kubernetes.io/service-name";
/// The label of slices of Services without a cluster IP.
pub const HEADLESS: &str = "service.kubernetes.io/headless";
/// The label's value for slices of this controller.
pub const CONTROLLER: &str = "endpointslice-controller.k8s.io";

/// Longest name of an object; a prefix beyond it gets no dash.
const LONGEST_PREFIX: usize = 253;

/// A slice that will exist. Without `stored` it has to be created; without `edited` nothing is to be done.
#[derive(Clone, Debug)]
pub struct Draft {
    stored: Option<Arc<EndpointSlice>>,
    edited: Option<EndpointSlice>,
}

impl Draft {
    /// A slice that is there.
    pub fn stored(slice: Arc<EndpointSlice>) -> Self {
        Self { stored: Some(slice), edited: None }
    }

    /// A slice that is not.
    pub fn new(slice: EndpointSlice) -> Self {
        Self { stored: None, edited: Some(slice) }
    }

    /// Its endpoints as planned so far.
    pub fn endpoints(&self) -> &[Endpoint] {
        let slice = self.edited.as_ref().or(self.stored.as_deref());
        slice.and_then(|slice| slice.endpoints.as_deref()).unwrap_or_default()
    }

    /// For a change; from then on it is written.
    pub fn edit(&mut self) -> &mut EndpointSlice {
        let stored = &self.stored;
        self.edited.get_or_insert_with(|| stored.as_deref().cloned().unwrap_or_default())
    }

    /// For a change of the endpoints.
    pub fn edit_endpoints(&mut self) -> &mut Vec<Endpoint> {
        self.edit().endpoints.get_or_insert_default()
    }

    /// Whether it is written anyway.
    pub fn is_edited(&self) -> bool {
        self.edited.is_some()
    }

    /// Whether it has to be created.
    pub fn is_new(&self) -> bool {
        self.stored.is_none()
    }

    /// Turns a new slice into a change of one that would be deleted: cheaper for everyone who watches.
    pub fn replace(&mut self, gone: Arc<EndpointSlice>) {
        let slice = self.edit();
        slice.metadata.name = gone.metadata.name.clone();
        slice.metadata.generate_name = gone.metadata.generate_name.clone();
        slice.metadata.uid = gone.metadata.uid.clone();
        slice.metadata.resource_version = gone.metadata.resource_version.clone();
        self.stored = Some(gone);
    }

    /// What to write, and whether it is new.
    pub fn finish(self) -> Option<(EndpointSlice, bool)> {
        let new = self.is_new();
        self.edited.map(|slice| (slice, new))
    }
}

/// An empty slice of a family for these ports.
pub fn empty(service: &Service, family: Family, ports: Vec<EndpointPort>) -> EndpointSlice {
    let name = service.metadata.name.clone().unwrap_or_default();
    let metadata = ObjectMeta {
        namespace: service.metadata.namespace.clone(),
        generate_name: Some(if name.len() < LONGEST_PREFIX { format!("{name}-") } else { name.clone() }),
        labels: Some(labels(service)),
        owner_references: Some(vec![owner(service)]),
        ..ObjectMeta::default()
    };
    EndpointSlice { address_type: family.to_string(), endpoints: Some(Vec::new()), metadata, ports: Some(ports) }
}

fn owner(service: &Service) -> OwnerReference {
    OwnerReference {
        api_version: "v1".to_owned(),
        kind: "Service".to_owned(),
        name: service.metadata.name.clone().unwrap_or_default(),
        uid: service.metadata.uid.clone().unwrap_or_default(),
        controller: Some(true),
        block_owner_deletion: Some(true),
    }
}

/// Whether the slice belongs to this very Service and not to one before it of the same name.
pub fn is_owned(slice: &EndpointSlice, service: &Service) -> bool {
    let owners = slice.metadata.owner_references.iter().flatten();
    owners.into_iter().any(|owner| {
        owner.kind == "Service" && owner.api_version == "v1" && Some(&owner.uid) == service.metadata.uid.as_ref()
    })
}

/// The labels of a Service's slices: its own, and those that say whose they are.
pub fn labels(service: &Service) -> BTreeMap<String, String> {
    let own = service.metadata.labels.iter().flatten().filter(|(key, _)| !is_reserved(key));
    let mut labels: BTreeMap<_, _> = own.map(|(key, value)| (key.clone(), value.clone())).collect();
    labels.insert(SERVICE_NAME.to_owned(), service.metadata.name.clone().unwrap_or_default());
    labels.insert(MANAGED_BY.to_owned(), CONTROLLER.to_owned());
    if is_headless(service) {
        labels.insert(HEADLESS.to_owned(), String::new());
    }
    labels
}

fn is_reserved(label: &str) -> bool {
    matches!(label, MANAGED_BY | SERVICE_NAME | HEADLESS)
}

/// What two endpoints have in common when they stand for the same thing.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Identity {
    addresses: Vec<String>,
    hostname: Option<String>,
    target: Option<(Option<String>, Option<String>)>,
}

pub fn identity(endpoint: &Endpoint) -> Identity {
    let mut addresses = endpoint.addresses.clone();
    addresses.sort_unstable();
    let target = endpoint.target_ref.as_ref().map(|target| (target.namespace.clone(), target.name.clone()));
    Identity { addresses, hostname: endpoint.hostname.clone(), target }
}

/// Whether two endpoints of one identity say the same; hints are decided later.
pub fn says_the_same(old: &Endpoint, new: &Endpoint) -> bool {
    let target =
        |endpoint: &Endpoint| endpoint.target_ref.as_ref().map(|target| (target.kind.clone(), target.uid.clone()));
    old.node_name == new.node_name
        && old.zone == new.zone
        && old.conditions == new.conditions
        && target(old) == target(new)
}

/// Ports in an order of their own, to tell groups apart.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ports(Vec<Port>);

/// Name, number, protocol, application protocol.
type Port = (Option<String>, Option<i32>, Option<String>, Option<String>);

impl Ports {
    /// The group that these ports make.
    pub fn of(ports: &[EndpointPort]) -> Self {
        let fields =
            |port: &EndpointPort| (port.name.clone(), port.port, port.protocol.clone(), port.app_protocol.clone());
        let mut list: Vec<_> = ports.iter().map(fields).collect();
        list.sort_unstable();
        Self(list)
    }

    /// The group that this Pod belongs to.
    pub fn of_pod(service: &Service, pod: &k8s_openapi::api::core::v1::Pod) -> (Self, Vec<EndpointPort>) {
        let ports = endpoint::ports(service, pod);
        (Self::of(&ports), ports)
    }
}
