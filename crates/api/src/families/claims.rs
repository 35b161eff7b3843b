//! What a resolved Service needs from the pools, and what it no longer needs.
//!
//! Mirrors the cases of `updateClusterIPs`, `initNodePorts` and `updateNodePorts`.

use super::spec::{Port, Spec};
use net::Family;
use serde_json::Value;
use std::{collections::BTreeSet, net::IpAddr};

/// What to take and what to give back. What is given back stays taken until the write has succeeded.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Claims {
    /// Addresses to take, in the order of `clusterIPs`.
    pub addresses: Vec<AddressClaim>,
    /// Ports to take.
    pub ports: Vec<PortClaim>,
    /// Addresses to give back.
    pub released_addresses: Vec<IpAddr>,
    /// Ports to give back.
    pub released_ports: Vec<i64>,
}

/// An address for one place in `clusterIPs`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddressClaim {
    /// The place in `clusterIPs`.
    pub index: usize,
    pub family: Family,
    pub wish: Wish<IpAddr>,
}

/// One number and where it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortClaim {
    /// Where it goes.
    pub field: PortField,
    /// Which one; a number outside the ports there are is possible here and found by the pool.
    pub wish: Wish<i64>,
}

/// Where a node port stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PortField {
    /// At these places in `ports`: protocols of one port share a number. Never empty.
    Ports(Vec<usize>),
    /// In `healthCheckNodePort`.
    HealthCheck,
}

/// What is asked of a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wish<T> {
    /// Any that is free.
    Any,
    This(T),
}

pub(super) fn of(spec: &Spec, old: Option<&Spec>) -> Claims {
    let mut claims = Claims::default();
    claim_addresses(&mut claims, spec, old);
    match old {
        None => claim_new_ports(&mut claims, spec),
        Some(old) => claim_changed_ports(&mut claims, spec, old),
    }
    claim_health_check(&mut claims, spec, old);
    claims
}

/// Everything that a stored Service has: its addresses, then its ports. For deletion and for repair.
pub fn held(service: &Value) -> (Vec<IpAddr>, Vec<i64>) {
    let spec = Spec::read(service);
    let mut ports = open_ports(&spec);
    if spec.needs_health_check() && spec.health_check_port != 0 {
        ports.insert(spec.health_check_port);
    }
    (spec.addresses(), ports.into_iter().collect())
}

/// The addresses of a Service; a headless one and an ExternalName have none.
pub fn addresses(service: &Value) -> Vec<IpAddr> {
    Spec::read(service).addresses()
}

fn claim_addresses(claims: &mut Claims, spec: &Spec, old: Option<&Spec>) {
    let families = spec.known_families();
    let indices = match old {
        Some(old) if spec.is_external_name() => {
            claims.released_addresses = old.addresses();
            return;
        }
        _ if spec.is_external_name() || spec.is_headless() => return,
        None => 0..families.len(),
        Some(old) if old.is_external_name() => 0..families.len(),
        Some(old) => match (old.families.len(), families.len()) {
            (1, 2) => 1..2,
            (2, 1) => {
                claims.released_addresses = old.addresses().into_iter().skip(1).collect();
                return;
            }
            _ => return,
        },
    };
    for (index, family) in families.into_iter().enumerate().filter(|(index, _)| indices.contains(index)) {
        let this = spec.ips.get(index).and_then(|ip| net::legacy::parse_stored_ip(ip).ok());
        claims.addresses.push(AddressClaim { index, family, wish: this.map_or(Wish::Any, Wish::This) });
    }
}

/// On create, ports of the same number share a node port unless each asks for its own.
fn claim_new_ports(claims: &mut Claims, spec: &Spec) {
    if !spec.may_have_node_ports() {
        return;
    }
    let mut chosen: Vec<(i64, usize)> = Vec::new();
    for (i, port) in spec.ports.iter().enumerate() {
        let wanted = port.node_port;
        if wanted == 0 && !spec.draws_node_ports() {
            continue;
        }
        let shared = chosen.iter().find(|(of, _)| *of == port.number).map(|(_, at)| *at);
        match shared.map(|at| &mut claims.ports[at]) {
            None => {
                chosen.push((port.number, claims.ports.len()));
                claims.ports.push(port_claim(i, requested(&spec.ports, port.number)));
            }
            Some(PortClaim { field: PortField::Ports(indices), wish })
                if wanted == 0 || *wish == Wish::This(wanted) =>
            {
                indices.push(i);
            }
            Some(_) => claims.ports.push(port_claim(i, wanted)),
        }
    }
}

/// The node port that the first port of this number asks for, if one does.
fn requested(ports: &[Port], number: i64) -> i64 {
    let same = ports.iter().filter(|port| port.number == number);
    same.map(|port| port.node_port).find(|port| *port != 0).unwrap_or_default()
}

fn port_claim(index: usize, number: i64) -> PortClaim {
    PortClaim { field: PortField::Ports(vec![index]), wish: wish(number) }
}

fn wish(number: i64) -> Wish<i64> {
    if number == 0 { Wish::Any } else { Wish::This(number) }
}

/// On update every port without a number draws its own.
fn claim_changed_ports(claims: &mut Claims, spec: &Spec, old: &Spec) {
    let (before, after) = (open_ports(old), open_ports(spec));
    if spec.may_have_node_ports() {
        let mut claimed = BTreeSet::new();
        for (i, port) in spec.ports.iter().enumerate() {
            match port.node_port {
                0 if spec.draws_node_ports() => claims.ports.push(port_claim(i, 0)),
                0 => {}
                number if claimed.insert(number) && !before.contains(&number) => {
                    claims.ports.push(port_claim(i, number));
                }
                _ => {}
            }
        }
    }
    claims.released_ports.extend(before.difference(&after));
}

/// The node ports that are open because of it.
fn open_ports(spec: &Spec) -> BTreeSet<i64> {
    if spec.may_have_node_ports() { spec.node_ports() } else { BTreeSet::new() }
}

fn claim_health_check(claims: &mut Claims, spec: &Spec, old: Option<&Spec>) {
    match (old.filter(|old| old.needs_health_check()), spec.needs_health_check()) {
        (None, true) => {
            claims.ports.push(PortClaim { field: PortField::HealthCheck, wish: wish(spec.health_check_port) });
        }
        (Some(old), false) if old.health_check_port != 0 => claims.released_ports.push(old.health_check_port),
        _ => {}
    }
}
