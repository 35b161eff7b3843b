//! The engine that leaves numbering and lasting to an etcd cluster, so that several stores may share one history.
//!
//! The mirror follows etcd by a watch (`feed`); transactions go to etcd and are answered once the mirror has them; a
//! consistent read asks etcd how far it is and waits for the mirror to get there (`barrier`).

mod barrier;
mod client;
mod config;
mod feed;
mod lease;
mod proto;
mod request;

use self::client::{Client, describe};
pub use self::config::{EtcdConfig, EtcdTls, Form, as_it_is};
use self::{
    feed::{Snapshot, header, unsigned},
    lease::Leases,
    proto::{CompactionRequest, TxnResponse},
};
use crate::{
    engine::{Engine, Health},
    error::{OpenError, ReadError, TxnError, Unavailable},
    mirror::Mirror,
    mvcc::{Mvcc, Retention},
    task::Task,
    txn::{Committed, Op, Txn},
};
use futures::{FutureExt, future::BoxFuture};
use parking_lot::RwLock;
use std::{sync::Arc, time::Duration};
use tokio::{
    sync::{mpsc, oneshot},
    time::timeout,
};
use tonic::{Code, Status};

/// The key that consistent reads ask about, and write when etcd is ahead for reasons outside the prefix.
const BARRIER: &str = "\0barrier";

/// How often the history in memory is trimmed by age.
const TRIM_EVERY: Duration = Duration::from_secs(10);

#[derive(Debug)]
pub(crate) struct Etcd {
    client: Arc<Client>,
    mirror: Arc<Mirror>,
    health: Arc<RwLock<Health>>,
    leases: Leases,
    barrier: mpsc::UnboundedSender<barrier::Waiter>,
    cluster_id: String,
    _tasks: [Task; 3],
}

impl Etcd {
    /// Reads everything and starts to follow.
    pub(crate) async fn connect(config: EtcdConfig) -> Result<(Arc<Mirror>, Self), OpenError> {
        let client = Arc::new(Client::new(&config)?);
        let failed = |status: Status| OpenError::Etcd { endpoints: client.names.clone(), reason: describe(&status) };
        let version = client.status().await.map_err(failed)?.version;
        let Snapshot { entries, revision, cluster_id } = feed::snapshot(&client).await.map_err(failed)?;
        if let Some(error) = OpenError::of_unreadable(&format!("etcd at {}", client.names), &entries) {
            return Err(error);
        }
        tracing::info!(endpoints = client.names, version, revision, entries = entries.len(), "connected to etcd");
        let mirror = Arc::new(Mirror::new(Mvcc::new(entries, revision, config.retention)));
        let health = Arc::new(RwLock::new(Health::Ready));
        let (barrier, waiters) = mpsc::unbounded_channel();
        let follow = feed::follow(Arc::clone(&client), Arc::clone(&mirror), Arc::clone(&health), cluster_id);
        let answer = barrier::answer(Arc::clone(&client), Arc::clone(&mirror), waiters);
        let tidy = tidy(Arc::clone(&client), Arc::clone(&mirror), config.retention);
        let tasks =
            [Task::start("etcd-watch", follow), Task::start("etcd-barrier", answer), Task::start("etcd-tidy", tidy)];
        let engine = Self {
            client,
            mirror: Arc::clone(&mirror),
            health,
            leases: Leases::default(),
            barrier,
            cluster_id: format!("{cluster_id:016x}"),
            _tasks: tasks,
        };
        Ok((mirror, engine))
    }

    async fn send(&self, txn: &Txn) -> Result<TxnResponse, Status> {
        let mut leases = Vec::with_capacity(txn.ops.len());
        for op in &txn.ops {
            leases.push(match op {
                Op::PutTtl(_, _, ttl) => self.leases.lease(&self.client, *ttl).await?,
                Op::Put(..) | Op::Delete(_) => 0,
            });
        }
        self.client.txn(request::build(&self.client, txn, &leases)?).await
    }

    async fn decide(&self, txn: Txn) -> Result<Committed, TxnError> {
        let mut sent = self.send(&txn).await;
        if sent.as_ref().is_err_and(|status| status.code() == Code::NotFound) {
            // A lease that was handed out again had ended in between; nothing was written.
            self.leases.forget();
            sent = self.send(&txn).await;
        }
        let response = sent.map_err(|status| refused_or_unavailable(&status))?;
        let revision = header(response.header).map_err(|status| refused_or_unavailable(&status))?.revision;
        if !response.succeeded {
            let conflict = request::conflict(&self.client, &self.mirror, &txn, response);
            return Err(TxnError::Conflict(Box::new(conflict)));
        }
        if !request::has_changed(&response) {
            return Ok(Committed { revision: self.ask().await? });
        }
        let revision = unsigned(revision);
        match timeout(barrier::PATIENCE, self.mirror.reached(revision)).await {
            Ok(()) => Ok(Committed { revision }),
            Err(_) => {
                Err(Unavailable::new(format!("written as revision {revision}, but the watch on etcd is behind")).into())
            }
        }
    }

    async fn ask(&self) -> Result<u64, Unavailable> {
        let gone = || Unavailable::new("the store is being closed");
        let (waiter, answer) = oneshot::channel();
        self.barrier.send(waiter).map_err(|_| gone())?;
        answer.await.unwrap_or_else(|_| Err(gone()))
    }
}

impl Engine for Etcd {
    fn commit(&self, txn: Txn) -> BoxFuture<'_, Result<Committed, TxnError>> {
        self.decide(txn).boxed()
    }

    fn current(&self) -> BoxFuture<'_, Result<u64, Unavailable>> {
        self.ask().boxed()
    }

    fn compact(&self, to: u64) -> BoxFuture<'_, Result<(), ReadError>> {
        async move {
            self.mirror.compact(to)?;
            compact_etcd(&self.client, to)
                .await
                .map_err(|status| Unavailable::new(format!("etcd: {}", describe(&status))))?;
            Ok(())
        }
        .boxed()
    }

    fn cluster_id(&self) -> &str {
        &self.cluster_id
    }

    fn health(&self) -> Health {
        self.health.read().clone()
    }
}

/// Trims the history here, and compacts etcd's to what was current one retention age ago. Other stores may do the same;
/// etcd then says that it has already been done.
async fn tidy(client: Arc<Client>, mirror: Arc<Mirror>, retention: Retention) {
    let mut due = tokio::time::Instant::now() + retention.age;
    let mut then = mirror.read().revision();
    loop {
        tokio::time::sleep(TRIM_EVERY.min(retention.age).max(Duration::from_millis(10))).await;
        mirror.trim();
        if tokio::time::Instant::now() < due {
            continue;
        }
        due = tokio::time::Instant::now() + retention.age;
        match compact_etcd(&client, then).await {
            Ok(()) => then = mirror.read().revision(),
            Err(status) => tracing::warn!(reason = describe(&status), "could not compact etcd; trying again later"),
        }
    }
}

async fn compact_etcd(client: &Client, to: u64) -> Result<(), Status> {
    let request = CompactionRequest { revision: i64::try_from(to).unwrap_or(i64::MAX) };
    match client.compact(request).await {
        // Already compacted, by us or by another store.
        Err(status) if status.code() == Code::OutOfRange => Ok(()),
        other => other.map(drop),
    }
}

fn refused_or_unavailable(status: &Status) -> TxnError {
    match status.code() {
        Code::InvalidArgument | Code::PermissionDenied | Code::Unauthenticated | Code::FailedPrecondition => {
            TxnError::Refused(describe(status))
        }
        // etcd's gRPC layer has a limit on messages of its own, just above etcd's on requests.
        Code::ResourceExhausted if status.message().starts_with("grpc: ") => TxnError::Refused(describe(status)),
        _ => Unavailable::new(format!("etcd: {}", describe(status))).into(),
    }
}
