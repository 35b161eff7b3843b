//! What a resolved Service needs from the pools, and what it no longer needs.
//!
//! Mirrors the cases of `updateClusterIPs`, `initNodePorts` and `updateNodePorts`.

use super::spec::{FAMILIES, IPS, draws_node_ports, families, is_external_name, may_have_node_ports};
use crate::{
    kinds::{
        check,
        service::{is_headless, needs_health_check},
    },
    object::Fields,
};
use net::Family;
use serde_json::Value;
use std::{collections::BTreeSet, net::IpAddr};

const HEALTH: &str = "spec.healthCheckNodePort";

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

pub(super) fn of(service: &Value, old: Option<&Value>) -> Claims {
    let mut claims = Claims::default();
    claim_addresses(&mut claims, service, old);
    match old {
        None => claim_new_ports(&mut claims, service),
        Some(old) => claim_changed_ports(&mut claims, service, old),
    }
    claim_health_check(&mut claims, service, old);
    claims
}

/// Everything that a stored Service has: its addresses, then its ports. For deletion and for repair.
pub fn held(service: &Value) -> (Vec<IpAddr>, Vec<i64>) {
    let mut ports = if may_have_node_ports(service) { numbers(service) } else { BTreeSet::new() };
    if needs_health_check(service) {
        ports.extend(service.int_at(HEALTH).filter(|port| *port != 0));
    }
    (addresses(service), ports.into_iter().collect())
}

/// The addresses of a Service; a headless one and an ExternalName have none.
pub fn addresses(service: &Value) -> Vec<IpAddr> {
    if is_external_name(service) || is_headless(service) {
        return Vec::new();
    }
    check::texts(service, IPS).into_iter().filter_map(|ip| net::legacy::parse_stored_ip(ip).ok()).collect()
}

fn claim_addresses(claims: &mut Claims, service: &Value, old: Option<&Value>) {
    let indices = match old {
        Some(old) if is_external_name(service) => {
            claims.released_addresses = addresses(old);
            return;
        }
        _ if is_external_name(service) || is_headless(service) => return,
        None => 0..families(service).len(),
        Some(old) if is_external_name(old) => 0..families(service).len(),
        Some(old) => match (old.list_at(FAMILIES).len(), families(service).len()) {
            (1, 2) => 1..2,
            (2, 1) => {
                claims.released_addresses = addresses(old).into_iter().skip(1).collect();
                return;
            }
            _ => return,
        },
    };
    let given = check::texts(service, IPS);
    for (index, family) in families(service).into_iter().enumerate().filter(|(index, _)| indices.contains(index)) {
        let this = given.get(index).and_then(|ip| net::legacy::parse_stored_ip(ip).ok());
        claims.addresses.push(AddressClaim { index, family, wish: this.map_or(Wish::Any, Wish::This) });
    }
}

/// On create, ports of the same number share a node port unless each asks for its own.
fn claim_new_ports(claims: &mut Claims, service: &Value) {
    if !may_have_node_ports(service) {
        return;
    }
    let ports = service.list_at("spec.ports");
    let mut chosen: Vec<(i64, usize)> = Vec::new();
    for (i, port) in ports.iter().enumerate() {
        let wanted = port.int_at("nodePort").unwrap_or_default();
        if wanted == 0 && !draws_node_ports(service) {
            continue;
        }
        let number = port.int_at("port").unwrap_or_default();
        let shared = chosen.iter().find(|(of, _)| *of == number).map(|(_, at)| *at);
        match shared.map(|at| &mut claims.ports[at]) {
            None => {
                chosen.push((number, claims.ports.len()));
                claims.ports.push(port_claim(i, requested(ports, number)));
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
fn requested(ports: &[Value], number: i64) -> i64 {
    let same = ports.iter().filter(|port| port.int_at("port").unwrap_or_default() == number);
    same.filter_map(|port| port.int_at("nodePort")).find(|port| *port != 0).unwrap_or_default()
}

fn port_claim(index: usize, number: i64) -> PortClaim {
    let wish = if number == 0 { Wish::Any } else { Wish::This(number) };
    PortClaim { field: PortField::Ports(vec![index]), wish }
}

/// On update every port without a number draws its own.
fn claim_changed_ports(claims: &mut Claims, service: &Value, old: &Value) {
    let before = if may_have_node_ports(old) { numbers(old) } else { BTreeSet::new() };
    let mut after = BTreeSet::new();
    if may_have_node_ports(service) {
        for (i, port) in service.list_at("spec.ports").iter().enumerate() {
            match port.int_at("nodePort").unwrap_or_default() {
                0 if draws_node_ports(service) => claims.ports.push(port_claim(i, 0)),
                0 => {}
                number => {
                    if after.insert(number) && !before.contains(&number) {
                        claims.ports.push(port_claim(i, number));
                    }
                }
            }
        }
    }
    claims.released_ports.extend(before.difference(&after));
}

fn numbers(service: &Value) -> BTreeSet<i64> {
    let ports = service.list_at("spec.ports").iter();
    ports.filter_map(|port| port.int_at("nodePort")).filter(|number| *number != 0).collect()
}

fn claim_health_check(claims: &mut Claims, service: &Value, old: Option<&Value>) {
    let number = |service: &Value| service.int_at(HEALTH).unwrap_or_default();
    match (old.filter(|old| needs_health_check(old)), needs_health_check(service)) {
        (None, true) => {
            let wish = if number(service) == 0 { Wish::Any } else { Wish::This(number(service)) };
            claims.ports.push(PortClaim { field: PortField::HealthCheck, wish });
        }
        (Some(old), false) if number(old) != 0 => claims.released_ports.push(number(old)),
        _ => {}
    }
}
