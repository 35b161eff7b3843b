//! Compares Services with who has which address and port, and mends what differs. Runs at start and from time to time.
//!
//! Services, IPAddress objects and ports are read as of one revision, and a mending is a transaction that holds only if
//! what was read is still so: no waiting and no second look is needed to tell a leak from a write under way.

mod plan;

pub use plan::{Observed, Step, plan};

use super::{claims, event, ranges};
use crate::ApiServer;
use std::sync::Arc;
use store::{Entry, Op, ReadError, TxnError};

/// What a round came to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Reasons of what was found, in order.
    pub found: Vec<&'static str>,
    /// Places in the pools that differed from the store.
    pub pools: usize,
}

impl Report {
    /// Whether there was nothing to do.
    pub fn is_clean(&self) -> bool {
        self.found.is_empty() && self.pools == 0
    }
}

/// One round.
pub async fn repair(server: &Arc<ApiServer>) -> Result<Report, ReadError> {
    let seen = look(server).await?;
    let mut report = Report::default();
    for Step { note, writes } in plan(&seen, server.now()) {
        if !writes.ops.is_empty() {
            let keys: Vec<_> = writes.ops.iter().map(Op::key).cloned().collect();
            match server.store.txn(writes).await {
                Ok(_) => {}
                // It changed since it was read: the next round looks again.
                Err(TxnError::Conflict(_)) => continue,
                Err(error) => {
                    tracing::warn!(%error, reason = note.reason, "repair of service addresses failed");
                    continue;
                }
            }
            for key in keys {
                server.services.note(&server.store, &key);
            }
        }
        report.found.push(note.reason);
        event::record(server, &note).await;
    }
    report.pools = align(server).await?;
    Ok(report)
}

async fn look(server: &ApiServer) -> Result<Observed, ReadError> {
    let revision = server.store.revision().await?;
    let list = async |prefix: &str| -> Result<Vec<Entry>, ReadError> {
        Ok(server.store.list(prefix, None, None, Some(revision)).await?.entries)
    };
    let mut known = ranges::stored_ranges(&list(ranges::RANGES).await?);
    known.extend(server.services.pools.ranges());
    Ok(Observed {
        services: plan::read(&list("services/specs/").await?),
        addresses: plan::read(&list(claims::ADDRESSES).await?),
        ports: list(claims::PORTS).await?,
        ranges: known,
        node_ports: server.services.settings.node_ports,
    })
}

/// Brings the pools in step with the store; says how many places differed. A write that ends meanwhile may look like a
/// difference: that costs a second try of somebody's transaction, nothing else.
pub(super) async fn align(server: &ApiServer) -> Result<usize, ReadError> {
    let mut differed = 0;
    let taken = ranges::addresses(server).await?;
    for pool in server.services.pools.addresses() {
        let mine = taken.iter().copied().filter(|ip| pool.space().cidr().contains(*ip));
        let audit = pool.repair(mine);
        differed += audit.leaked.len() + audit.missing.len();
    }
    if let Some(pool) = server.services.pools.ports() {
        let ports = server.store.list(claims::PORTS, None, None, None).await?.entries;
        let ports = ports.iter().filter_map(|entry| match claims::Claimed::of_key(entry.key()) {
            Some(claims::Claimed::Port(port)) if pool.space().contains(port) => Some(port),
            _ => None,
        });
        let audit = pool.repair(ports);
        differed += audit.leaked.len() + audit.missing.len();
    }
    Ok(differed)
}
