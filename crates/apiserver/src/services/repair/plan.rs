//! What is wrong between Services, addresses and ports, and what mends it. Pure but for the uid of a new IPAddress.

use super::super::{
    claims::{self, Claimed, Holder},
    event::Note,
    ranges,
};
use crate::stored;
use api::{families, kinds::check};
use net::{PortRange, ServiceRange};
use serde_json::{Value, json};
use std::{
    collections::{BTreeMap, HashMap},
    net::IpAddr,
};
use store::{Compare, Entry, Key, Op, Txn};

/// An object as it was read.
pub struct Object {
    entry: Entry,
    value: Value,
}

/// Everything that matters, as of one revision.
pub struct Observed {
    /// All Services.
    pub services: Vec<Object>,
    /// All IPAddress objects.
    pub addresses: Vec<Object>,
    /// All keys of ports.
    pub ports: Vec<Entry>,
    /// All ranges, those of leaving ServiceCIDRs too.
    pub ranges: Vec<ServiceRange>,
    /// `--service-node-port-range`.
    pub node_ports: Option<PortRange>,
}

/// One finding: what to tell, and what to write, if anything can be mended.
pub struct Step {
    /// What to tell.
    pub note: Note,
    /// What to write; holds only if nothing changed.
    pub writes: Txn,
}

/// Objects from entries; what does not read is left out.
pub(super) fn read(entries: &[Entry]) -> Vec<Object> {
    let object = |entry: &Entry| Some(Object { entry: entry.clone(), value: stored::parse(entry).ok()? });
    entries.iter().filter_map(object).collect()
}

/// All findings.
pub fn plan(seen: &Observed, now: jiff::Timestamp) -> Vec<Step> {
    let mut steps = Vec::new();
    let mut services: Vec<&Object> = seen.services.iter().collect();
    // Of two that have the same, the older one keeps it.
    services.sort_by_key(|service| service.entry.create_revision());
    let owners = addresses(&mut steps, seen, &services, now);
    unowned_addresses(&mut steps, seen, &owners);
    ports(&mut steps, seen, &services);
    steps
}

fn step(about: &Value, reason: &'static str, message: String, writes: Txn) -> Step {
    Step { note: Note { about: about.clone(), reason, message }, writes }
}

/// The Service is still the one that was read.
fn while_unchanged(service: &Object) -> Txn {
    Txn::default().when(service.entry.key().clone(), Compare::ModRevision(service.entry.mod_revision()))
}

fn addresses(
    steps: &mut Vec<Step>,
    seen: &Observed,
    services: &[&Object],
    now: jiff::Timestamp,
) -> HashMap<IpAddr, Holder> {
    let by_ip: HashMap<IpAddr, &Object> = seen
        .addresses
        .iter()
        .filter_map(|object| match Claimed::of_key(object.entry.key()) {
            Some(Claimed::Address(ip)) => Some((ip, object)),
            _ => None,
        })
        .collect();
    let mut owners: HashMap<IpAddr, Holder> = HashMap::new();
    for service in services {
        let (value, holder) = (&service.value, Holder::of(&service.value));
        for text in check::texts(value, "spec.clusterIPs").into_iter().filter(|text| *text != "None") {
            if net::legacy::parse_stored_ip(text).is_err() {
                let message = format!("cluster IP {text:?} is not an address; please recreate the service");
                steps.push(step(value, "ClusterIPNotValid", message, Txn::default()));
            }
        }
        for ip in families::addresses(value) {
            if let Some(other) = owners.get(&ip) {
                let message = format!(
                    "cluster IP {ip} belongs to {}/{}; please recreate the service",
                    other.namespace, other.name
                );
                steps.push(step(value, "ClusterIPAlreadyAllocated", message, Txn::default()));
                continue;
            }
            owners.insert(ip, holder.clone());
            if !ranges::in_range(&seen.ranges, ip) {
                let ranges = seen.ranges.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
                let message = format!("cluster IP {ip} is in no service range ({ranges}); please recreate the service");
                steps.push(step(value, "ClusterIPOutOfRange", message, Txn::default()));
            }
            let key = claims::address_key(ip);
            let Ok(bytes) = claims::address_bytes(ip, &holder, now) else { continue };
            let mut writes = while_unchanged(service);
            match by_ip.get(&ip) {
                None => {
                    claims::claim(&mut writes, key, bytes);
                    let message = format!("cluster IP {ip} had no IPAddress object; it was made");
                    steps.push(step(value, "ClusterIPNotAllocated", message, writes));
                }
                Some(address) if Holder::of_address(&address.value).as_ref() != Some(&holder) => {
                    writes.compare.push((key.clone(), Compare::ModRevision(address.entry.mod_revision())));
                    writes.ops.push(Op::Put(key, bytes));
                    let message = format!(
                        "the address belongs to service {}/{}; its parentRef was mended",
                        holder.namespace, holder.name
                    );
                    steps.push(step(&address.value, "IPAddressWrongReference", message, writes));
                }
                Some(_) => {}
            }
        }
    }
    owners
}

/// IPAddress objects that the server made for Services which do not have them.
fn unowned_addresses(steps: &mut Vec<Step>, seen: &Observed, owners: &HashMap<IpAddr, Holder>) {
    for address in &seen.addresses {
        let key = address.entry.key();
        let Some(Claimed::Address(ip)) = Claimed::of_key(key) else { continue };
        let Some(holder) = Holder::of_address(&address.value) else { continue };
        if owners.contains_key(&ip) || !claims::is_managed(&address.value) {
            continue;
        }
        let writes =
            Txn::of([Op::Delete(key.clone())]).when(key.clone(), Compare::ModRevision(address.entry.mod_revision()));
        let writes = guard_against_return(writes, seen, &holder);
        let message =
            format!("no service has the address; {}/{} had it; it is free again", holder.namespace, holder.name);
        steps.push(step(&address.value, "IPAddressNotAllocated", message, writes));
    }
}

/// The Service that is said to have it has not come, gone or changed since.
fn guard_against_return(writes: Txn, seen: &Observed, holder: &Holder) -> Txn {
    let key: Key = format!("services/specs/{}/{}", holder.namespace, holder.name).into();
    let service = seen.services.iter().find(|service| *service.entry.key() == key);
    let compare = service.map_or(Compare::Absent, |service| Compare::ModRevision(service.entry.mod_revision()));
    writes.when(key, compare)
}

fn ports(steps: &mut Vec<Step>, seen: &Observed, services: &[&Object]) {
    let by_port: BTreeMap<u16, &Entry> = seen
        .ports
        .iter()
        .filter_map(|entry| match Claimed::of_key(entry.key()) {
            Some(Claimed::Port(port)) => Some((port, entry)),
            _ => None,
        })
        .collect();
    let mut owners: BTreeMap<u16, Holder> = BTreeMap::new();
    for service in services {
        let (value, holder) = (&service.value, Holder::of(&service.value));
        for number in families::held(value).1 {
            let Some(port) =
                u16::try_from(number).ok().filter(|port| seen.node_ports.is_some_and(|range| range.contains(*port)))
            else {
                let range = seen.node_ports.map_or_else(|| "none".to_owned(), |range| range.to_string());
                let message = format!(
                    "node port {number} is not in the range of node ports ({range}); please recreate the service"
                );
                steps.push(step(value, "PortOutOfRange", message, Txn::default()));
                continue;
            };
            if let Some(other) = owners.get(&port) {
                let message = format!(
                    "node port {port} belongs to {}/{}; please recreate the service",
                    other.namespace, other.name
                );
                steps.push(step(value, "PortAlreadyAllocated", message, Txn::default()));
                continue;
            }
            owners.insert(port, holder.clone());
            let key = claims::port_key(port);
            let mut writes = while_unchanged(service);
            match by_port.get(&port) {
                None => claims::claim(&mut writes, key, claims::port_bytes(&holder)),
                Some(entry) if claims::holder_of(entry).as_ref() != Some(&holder) => {
                    writes.compare.push((key.clone(), Compare::ModRevision(entry.mod_revision())));
                    writes.ops.push(Op::Put(key, claims::port_bytes(&holder)));
                }
                Some(_) => continue,
            }
            let message = format!("node port {port} was not allocated to the service; now it is");
            steps.push(step(value, "PortNotAllocated", message, writes));
        }
    }
    for (port, entry) in by_port.into_iter().filter(|(port, _)| !owners.contains_key(port)) {
        let key = entry.key().clone();
        let writes = Txn::of([Op::Delete(key.clone())]).when(key, Compare::ModRevision(entry.mod_revision()));
        let holder = claims::holder_of(entry);
        let (namespace, name) = holder.as_ref().map_or(("", "unknown"), |h| (h.namespace.as_str(), h.name.as_str()));
        let about = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"namespace": namespace, "name": name}});
        let writes = match &holder {
            Some(holder) => guard_against_return(writes, seen, holder),
            None => writes,
        };
        steps.push(step(&about, "PortLeaked", format!("no service has node port {port}; it is free again"), writes));
    }
}
