//! What one write takes and gives back: held in the pools until the store has decided.

use super::{
    claims::{self, Holder},
    pools::{NoAddress, Pools},
};
use crate::ApiServer;
use api::{
    error::{ApiError, FieldError},
    families::{Claims, PortClaim, PortField, Wish},
    object::Fields,
    path::Path,
};
use net::{Reservation, ReserveError};
use serde_json::Value;
use std::net::IpAddr;
use store::{Op, Txn};

/// What a write has taken. Dropped before the store was asked, everything goes back.
#[must_use = "dropping it gives everything back"]
#[derive(Default)]
pub struct Reserved {
    /// Written together with the object, or not at all.
    pub together: Txn,
    addresses: Vec<Reservation<IpAddr>>,
    ports: Vec<Reservation<u16>>,
    /// Held while quotas are charged.
    pub turn: Option<tokio::sync::OwnedMutexGuard<()>>,
}

impl Reserved {
    /// Nothing is needed.
    pub fn none() -> Self {
        Self::default()
    }

    /// Writes that take nothing from the pools.
    pub fn of(together: Txn) -> Self {
        Self { together, ..Self::default() }
    }

    /// The store has decided: the pools learn how. To be called after success and after refusal alike.
    pub fn settle(self, server: &ApiServer) {
        for key in self.together.ops.iter().map(Op::key) {
            server.services.note(&server.store, key);
        }
    }
}

/// Why nothing was taken.
#[derive(Debug)]
pub(super) enum Refusal {
    /// What was asked for by name cannot be had.
    Mistakes(Vec<FieldError>),
    /// Something is used up.
    Full(String),
}

impl Refusal {
    /// The answer to the client.
    pub(super) fn answer(self, name: &str) -> ApiError {
        match self {
            Self::Mistakes(errors) => ApiError::invalid("Service", "", name, &errors),
            Self::Full(why) => ApiError::internal(why),
        }
    }
}

/// Takes what is claimed and writes it into the Service. What is asked for by name comes first, so that nothing drawn
/// stands in its way.
pub(super) fn take(pools: &Pools, claims: &Claims, service: &mut Value) -> Result<Reserved, Refusal> {
    let mut reserved = Reserved::none();
    let mut errors = Vec::new();
    let mut addresses: Vec<_> = claims.addresses.iter().collect();
    addresses.sort_by_key(|claim| claim.wish == Wish::Any);
    for claim in addresses {
        let taken = match claim.wish {
            Wish::Any => pools.any_address(claim.family),
            Wish::This(ip) => pools.this_address(ip),
        };
        match taken {
            Ok(address) => {
                if claim.wish == Wish::Any {
                    set_address(service, claim.index, *address);
                }
                reserved.addresses.push(address);
            }
            Err(error @ (NoAddress::NoRange(_) | NoAddress::Pool(ReserveError::Full { .. }))) => {
                return Err(Refusal::Full(error.to_string()));
            }
            Err(error) => {
                let path = Path::new("spec").child("clusterIPs");
                let why = address_refusal(&error);
                errors.push(FieldError::invalid(&path, service.at("spec.clusterIPs").clone(), why));
            }
        }
    }
    let mut ports: Vec<_> = claims.ports.iter().collect();
    ports.sort_by_key(|claim| claim.wish == Wish::Any);
    for claim in ports {
        match take_port(pools, claim) {
            Ok(port) => {
                set_port(service, &claim.field, *port);
                reserved.ports.push(port);
            }
            Err(Refusal::Mistakes(more)) => errors.extend(more),
            Err(full) => return Err(full),
        }
    }
    if errors.is_empty() { Ok(reserved) } else { Err(Refusal::Mistakes(errors)) }
}

fn take_port(pools: &Pools, claim: &PortClaim) -> Result<Reservation<u16>, Refusal> {
    let path = match &claim.field {
        PortField::Ports(places) => Path::new("spec").child("ports").index(places[0]).child("nodePort"),
        PortField::HealthCheck => Path::new("spec").child("healthCheckNodePort"),
    };
    let wrong = |number: i64, why: String| Refusal::Mistakes(vec![FieldError::invalid(&path, number, why)]);
    match (pools.ports(), claim.wish) {
        (None, Wish::Any) => Err(Refusal::Full("this cluster has no node ports".to_owned())),
        (None, Wish::This(number)) => Err(wrong(number, "this cluster has no node ports".to_owned())),
        (Some(pool), Wish::Any) => pool.reserve_any().map_err(|full| Refusal::Full(full.to_string())),
        (Some(pool), Wish::This(number)) => match u16::try_from(number) {
            Ok(port) => pool.reserve(port).map_err(|error| wrong(number, port_refusal(&error))),
            Err(_) => Err(wrong(number, format!("accepted are {pool}"))),
        },
    }
}

/// With the words that clients look for when they want to know whether another address would do.
fn address_refusal(error: &NoAddress) -> String {
    match error {
        NoAddress::Pool(ReserveError::Taken { item, .. }) => {
            format!("failed to allocate IP {item}: provided IP is already allocated")
        }
        other => other.to_string(),
    }
}

/// The same for ports.
fn port_refusal(error: &ReserveError<u16>) -> String {
    match error {
        ReserveError::Taken { .. } => "provided port is already allocated".to_owned(),
        ReserveError::Outside { range, .. } => {
            format!("provided port is not in the valid range. The range of valid ports is {range}")
        }
        other => other.to_string(),
    }
}

fn set_address(service: &mut Value, index: usize, ip: IpAddr) {
    let mut list = service.list_at("spec.clusterIPs").to_vec();
    list.truncate(index);
    list.push(ip.to_string().into());
    if index == 0 {
        service.set("spec.clusterIP", ip.to_string());
    }
    service.set("spec.clusterIPs", list);
}

fn set_port(service: &mut Value, field: &PortField, port: u16) {
    match field {
        PortField::HealthCheck => service.set("spec.healthCheckNodePort", port),
        PortField::Ports(places) => {
            let list = service.at_mut("spec").get_mut("ports").and_then(Value::as_array_mut);
            for (_, entry) in list.into_iter().flatten().enumerate().filter(|(i, _)| places.contains(i)) {
                entry.set("nodePort", port);
            }
        }
    }
}

/// Completes the transaction: what was taken becomes the Service's, what it gave up is nobody's.
pub(super) fn together(
    server: &ApiServer,
    reserved: &mut Reserved,
    claims: &Claims,
    service: &Value,
) -> Result<(), ApiError> {
    let holder = Holder::of(service);
    let txn = &mut reserved.together;
    for address in &reserved.addresses {
        claims::claim(txn, claims::address_key(**address), claims::address_bytes(**address, &holder, server.now())?);
    }
    for port in &reserved.ports {
        claims::claim(txn, claims::port_key(**port), claims::port_bytes(&holder));
    }
    give_back(server, txn, &holder, &claims.released_addresses, &claims.released_ports);
    Ok(())
}

/// Adds to `txn` that `holder` has these no longer.
pub(super) fn give_back(server: &ApiServer, txn: &mut Txn, holder: &Holder, addresses: &[IpAddr], ports: &[i64]) {
    let addresses = addresses.iter().map(|ip| claims::address_key(*ip));
    let ports = ports.iter().filter_map(|port| u16::try_from(*port).ok()).map(claims::port_key);
    for key in addresses.chain(ports) {
        claims::release(txn, &server.store, key, holder);
    }
}
