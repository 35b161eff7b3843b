//! Revisions over bytes: get, list, transactions, watch, compaction.
//!
//! The API server keeps its objects here. A [`Store`] is a handle on an ordered map from keys to bytes in which every change
//! gets the next revision. Reads and watches come from memory; what makes a change last is an engine behind it: a redb file
//! ([`Store::open`]), an etcd cluster ([`Store::etcd`]), or nothing ([`Store::memory`]). The README of this crate states the guarantees.

mod bell;
mod engine;
mod entry;
mod error;
mod etcd;
mod event;
mod local;
mod mirror;
mod mvcc;
mod store;
mod task;
mod transform;
mod txn;
mod watch;

pub use engine::Health;
pub use entry::{Entry, Key};
pub use error::{Conflict, KeyFault, OpenError, ReadError, TxnError, Unavailable, WatchError};
pub use etcd::{EtcdConfig, EtcdTls, Form, as_it_is};
pub use event::Event;
pub use mvcc::Retention;
pub use store::{Page, Store};
pub use transform::{AsItIs, Plain, StorageKey, Transform};
pub use txn::{Committed, Compare, Op, Txn};
pub use watch::Watch;
