//! The handle that callers hold.

use crate::{
    engine::{Engine, Health},
    entry::{Entry, Key},
    error::{OpenError, ReadError, TxnError, Unavailable},
    etcd::{Etcd, EtcdConfig},
    local::{self, Local},
    mirror::Mirror,
    mvcc::{Retention, TagOf, Tagger, Topic},
    transform::{AsItIs, Transform},
    txn::{Committed, Txn},
    watch::Watch,
};
use std::{path::Path, sync::Arc};

/// An ordered map from keys to bytes with revisions. Cloning gives another handle on the same one; the last handle to go
/// ends all watches and releases the file.
#[derive(Clone, Debug)]
pub struct Store(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    mirror: Arc<Mirror>,
    engine: Box<dyn Engine>,
}

/// One page of a list.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Page {
    /// The entries in the order of their keys.
    pub entries: Vec<Entry>,
    /// The revision at which all of them held; give it for the next page.
    pub revision: u64,
    /// The key after which the next page starts, if there is one.
    pub more: Option<Key>,
    /// How many entries follow this page.
    pub remaining: usize,
}

impl Store {
    /// A store that lasts as long as its handles, for tests and throw-away clusters.
    pub fn memory(retention: Retention) -> Self {
        let (mirror, engine) = Local::memory(retention);
        Self::new(mirror, engine)
    }

    /// The store in the redb file `path`, created with its directory if there is none. Reads the whole file: call it from a
    /// thread that may block.
    pub fn open(path: &Path, retention: Retention) -> Result<Self, OpenError> {
        Self::open_with(path, retention, Arc::new(AsItIs))
    }

    /// The same with values that go through `transform` on their way to the file and back.
    pub fn open_with(path: &Path, retention: Retention, transform: Arc<dyn Transform>) -> Result<Self, OpenError> {
        let (mirror, engine) = local::open(path, retention, transform)?;
        Ok(Self::new(mirror, engine))
    }

    /// The store in an etcd cluster. Its tasks run on the tokio runtime that calls this.
    pub async fn etcd(config: EtcdConfig) -> Result<Self, OpenError> {
        let (mirror, engine) = Etcd::connect(config).await?;
        Ok(Self::new(mirror, engine))
    }

    fn new(mirror: Arc<Mirror>, engine: impl Engine + 'static) -> Self {
        Self(Arc::new(Inner { mirror, engine: Box::new(engine) }))
    }

    /// What a key holds, as far as this process knows. With etcd, call [`revision`](Self::revision) first where others may
    /// have written.
    pub fn get(&self, key: &str) -> Option<Entry> {
        self.0.mirror.read().get(key)
    }

    /// What a key held at a revision.
    pub async fn get_at(&self, key: &str, revision: u64) -> Result<Option<Entry>, ReadError> {
        self.catch_up(Some(revision)).await?;
        self.0.mirror.read().get_at(key, revision)
    }

    /// The entries whose keys start with `prefix`, after `start_after`, at most `limit` (`None`: all), as of `at` (`None`:
    /// what this process knows now; see [`get`](Self::get)).
    pub async fn list(
        &self,
        prefix: &str,
        start_after: Option<&str>,
        limit: Option<usize>,
        at: Option<u64>,
    ) -> Result<Page, ReadError> {
        self.catch_up(at).await?;
        let found = self.0.mirror.list(prefix, start_after, limit.unwrap_or(usize::MAX), at)?;
        let more = found.entries.last().filter(|_| found.remaining > 0).map(|entry| entry.key().clone());
        Ok(Page { more, entries: found.entries, revision: found.revision, remaining: found.remaining })
    }

    /// Carries out a transaction. Answers once it is durable and visible to every read of this store.
    ///
    /// Dropping the future does not take the transaction back.
    pub async fn txn(&self, txn: Txn) -> Result<Committed, TxnError> {
        let faults = txn.faults();
        if !faults.is_empty() {
            return Err(TxnError::Invalid(faults));
        }
        self.0.engine.commit(txn).await
    }

    /// The current revision, not older than anything acknowledged to anyone before this call; reads that follow see it.
    /// With etcd this asks etcd, once for all who ask at the same time.
    pub async fn revision(&self) -> Result<u64, Unavailable> {
        self.0.engine.current().await
    }

    /// The newest revision that this process knows; never waits.
    pub fn known_revision(&self) -> u64 {
        self.0.mirror.read().revision()
    }

    /// The changes below `prefix` after revision `from` (`None`: from now on).
    pub async fn watch(&self, prefix: &str, from: Option<u64>) -> Result<Watch, ReadError> {
        self.watch_topic(Topic { prefix: prefix.into(), tag: None }, from).await
    }

    /// Lets entries be watched by more than their keys: `tag` names what an entry belongs to, such as the node of a Pod. It is
    /// asked about every value, on every write, and must always answer the same of the same bytes.
    pub fn tag_by(&self, tag: impl Fn(&Entry) -> Option<Arc<str>> + Send + Sync + 'static) {
        let tag: Arc<TagOf> = Arc::new(tag);
        self.0.mirror.write(|state| (state.tag_by(Tagger::new(tag)), Vec::new()));
    }

    /// The entries with this tag whose keys start with `prefix`, as far as this process knows; costs what is found.
    pub fn list_tagged(&self, prefix: &str, tag: &str) -> Page {
        let state = self.0.mirror.read();
        let entries = state.tagged(tag, prefix).cloned().collect();
        Page { entries, revision: state.revision(), more: None, remaining: 0 }
    }

    /// As [`watch`](Self::watch), but only of entries that get, have or lose this tag: a change elsewhere wakes nobody.
    pub async fn watch_tagged(&self, prefix: &str, tag: &str, from: Option<u64>) -> Result<Watch, ReadError> {
        self.watch_topic(Topic { prefix: prefix.into(), tag: Some(tag.into()) }, from).await
    }

    async fn watch_topic(&self, topic: Topic, from: Option<u64>) -> Result<Watch, ReadError> {
        self.catch_up(from).await?;
        Watch::new(Arc::clone(&self.0.mirror), topic, from)
    }

    /// Drops the history before revision `to`: it stays the oldest that can be read at or watched from. Watches under way
    /// keep the events they have not had yet.
    pub async fn compact(&self, to: u64) -> Result<(), ReadError> {
        self.catch_up(Some(to)).await?;
        self.0.engine.compact(to).await
    }

    /// Names the history that the revisions belong to: made with the file, or by etcd.
    pub fn cluster_id(&self) -> &str {
        self.0.engine.cluster_id()
    }

    /// Whether writes and consistent reads work at the moment.
    pub fn health(&self) -> Health {
        self.0.engine.health()
    }

    /// A revision that this process has not seen may have come from another one on the same etcd.
    async fn catch_up(&self, revision: Option<u64>) -> Result<(), ReadError> {
        if revision.is_some_and(|revision| revision > self.known_revision()) {
            self.revision().await?;
        }
        Ok(())
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.mirror.write(|state| ((), state.close()));
    }
}
