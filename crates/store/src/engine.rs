//! What a store asks of the engine that makes its changes last. Implemented by `local` (redb or nothing) and by `etcd`.

use crate::{
    error::{ReadError, TxnError, Unavailable},
    txn::{Committed, Txn},
};
use futures::future::BoxFuture;
use std::fmt;

/// Whether an engine can do its work.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Health {
    /// Writes are accepted, and the state in memory is current.
    Ready,
    /// Not now, for this reason. Reads from memory go on.
    Failing(String),
}

/// The other side of the state in memory: an engine is made with the mirror, and puts there what is durable.
pub(crate) trait Engine: Send + Sync + fmt::Debug {
    /// Decides a transaction whose keys are valid. Answers once it is durable and the mirror shows it.
    fn commit(&self, txn: Txn) -> BoxFuture<'_, Result<Committed, TxnError>>;

    /// A revision not older than anything acknowledged to anyone before the call. Answers once the mirror shows it.
    fn current(&self) -> BoxFuture<'_, Result<u64, Unavailable>>;

    /// Drops history before `to`.
    fn compact(&self, to: u64) -> BoxFuture<'_, Result<(), ReadError>>;

    /// Who numbers the revisions; two stores with the same name share one history.
    fn cluster_id(&self) -> &str;

    /// Whether writes and consistent reads work at the moment.
    fn health(&self) -> Health;
}
