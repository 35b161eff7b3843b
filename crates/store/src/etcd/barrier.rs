//! Consistent reads: asks etcd for its revision, once for all who ask at the same time, and waits for the mirror.

use super::{
    BARRIER,
    client::{Client, describe},
    feed::{barrier_probe, header, unsigned},
    proto::PutRequest,
};
use crate::{error::Unavailable, mirror::Mirror};
use std::{sync::Arc, time::Duration};
use tokio::{
    sync::{mpsc, oneshot},
    time::timeout,
};

/// How long the mirror may take to show a change of ours before something else must have raised the revision.
const NUDGE: Duration = Duration::from_millis(50);

/// How long a reader waits for the mirror in all.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);

/// Who waits for an answer.
pub(super) type Waiter = oneshot::Sender<Result<u64, Unavailable>>;

/// Answers waiters until there can be no more. Those who come while a question is under way share the next one: only a
/// question asked after their call can tell them what was acknowledged before it.
pub(super) async fn answer(client: Arc<Client>, mirror: Arc<Mirror>, mut waiters: mpsc::UnboundedReceiver<Waiter>) {
    let mut batch = Vec::new();
    while waiters.recv_many(&mut batch, usize::MAX).await > 0 {
        let answer = ask(&client, &mirror).await;
        for waiter in batch.drain(..) {
            _ = waiter.send(answer.clone());
        }
    }
}

async fn ask(client: &Client, mirror: &Mirror) -> Result<u64, Unavailable> {
    let failed = |status| Unavailable::new(format!("etcd: {}", describe(&status)));
    let known = mirror.read().revision();
    let response = client.range(barrier_probe(client)).await.map_err(failed)?;
    let revision = unsigned(header(response.header).map_err(failed)?.revision);
    if revision < known && mirror.read().revision() >= known {
        // Not for long: the watch has ended with the etcd that was there before.
        return Err(Unavailable::new(format!(
            "etcd went back from revision {known} to {revision}; reading everything again"
        )));
    }
    if timeout(NUDGE, mirror.reached(revision)).await.is_ok() {
        return Ok(revision);
    }
    // Writes outside our prefix raise the revision without an event for us. A write of our own brings one, in order, and
    // works with every etcd; a progress request may overtake events in versions before 3.4.25 and 3.5.8.
    let request = PutRequest { key: client.key(BARRIER), ..PutRequest::default() };
    let response = client.put(request).await.map_err(failed)?;
    let revision = unsigned(header(response.header).map_err(failed)?.revision);
    match timeout(PATIENCE, mirror.reached(revision)).await {
        Ok(()) => Ok(revision),
        Err(_) => Err(Unavailable::new(format!("the watch on etcd is behind revision {revision} for {PATIENCE:?}"))),
    }
}
