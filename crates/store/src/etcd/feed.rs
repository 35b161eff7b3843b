//! Keeps the mirror equal to etcd: one full read, then one watch, resumed where it broke off.

use super::{
    BARRIER,
    client::{Client, describe},
    proto::{self, EventType, KeyValue, RangeRequest, ResponseHeader, WatchCreateRequest, WatchResponse},
};
use crate::{
    engine::Health,
    entry::{Entry, Key, Stamp},
    event::Event,
    mirror::Mirror,
};
use bytes::Bytes;
use parking_lot::RwLock;
use std::{collections::HashMap, sync::Arc, time::Duration};
use tonic::{Code, Status};

/// Entries per request of a full read; with values of a few KB an answer stays around a megabyte.
const PAGE: i64 = 500;

/// Waiting times between attempts to reach etcd again.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));

/// Everything below the prefix at one revision.
pub(super) struct Snapshot {
    pub(super) entries: Vec<Entry>,
    pub(super) revision: u64,
    pub(super) cluster_id: u64,
}

/// Reads everything, in pages, at the revision of the first one.
pub(super) async fn snapshot(client: &Client) -> Result<Snapshot, Status> {
    let mut snapshot = Snapshot { entries: Vec::new(), revision: 0, cluster_id: 0 };
    let mut start = Bytes::from(client.prefix.clone());
    loop {
        let revision = i64::try_from(snapshot.revision).unwrap_or(i64::MAX);
        let request = RangeRequest {
            key: start,
            range_end: client.range_end(),
            limit: PAGE,
            revision,
            ..RangeRequest::default()
        };
        let page = client.range(request).await?;
        let header = header(page.header)?;
        if snapshot.revision == 0 {
            snapshot.revision = unsigned(header.revision);
            snapshot.cluster_id = header.cluster_id;
        }
        let last = page.kvs.last().map(|kv| kv.key.clone());
        snapshot.entries.extend(page.kvs.iter().filter_map(|kv| entry(client, kv)));
        match last {
            Some(last) if page.more => start = [&last[..], b"\0"].concat().into(),
            _ => return Ok(snapshot),
        }
    }
}

/// Follows etcd for as long as the task lives.
pub(super) async fn follow(client: Arc<Client>, mirror: Arc<Mirror>, health: Arc<RwLock<Health>>, mut cluster_id: u64) {
    let mut delay = BACKOFF.0;
    loop {
        let Err(status) = watch_once(&client, &mirror, &health, &mut cluster_id).await else { continue };
        let reason = describe(&status);
        if *health.read() == Health::Ready {
            tracing::warn!(%reason, "lost the watch on etcd; reads from memory go on");
            delay = BACKOFF.0;
        }
        *health.write() = Health::Failing(format!("etcd: {reason}"));
        client.leave_current();
        tokio::time::sleep(delay).await;
        delay = (delay * 2).min(BACKOFF.1);
    }
}

/// Watches until it breaks, or until everything had to be read again.
async fn watch_once(
    client: &Client,
    mirror: &Mirror,
    health: &RwLock<Health>,
    cluster_id: &mut u64,
) -> Result<(), Status> {
    let now = header(client.range(barrier_probe(client)).await?.header)?;
    let known = mirror.read().revision();
    if now.cluster_id != *cluster_id || unsigned(now.revision) < known || !is_same_history(client, mirror).await? {
        tracing::error!(known, found = now.revision, "etcd has another history than before, perhaps an older backup");
        *cluster_id = refill(client, mirror).await?;
    }
    let mut stream = client.watch(create_request(client, mirror)).await?;
    let mut fragments = Vec::new();
    loop {
        let message = stream.message().await?.ok_or_else(|| Status::unavailable("the watch was ended by etcd"))?;
        let WatchResponse { header: head, created, canceled, compact_revision, cancel_reason, fragment, events } =
            message;
        if compact_revision > 0 {
            tracing::warn!(
                compact_revision,
                "etcd has compacted changes that were not seen yet; reading everything again"
            );
            *cluster_id = refill(client, mirror).await?;
            return Ok(());
        }
        if canceled {
            return Err(Status::unavailable(format!("the watch was refused: {cancel_reason}")));
        }
        if created {
            *health.write() = Health::Ready;
            tracing::info!("watching etcd");
            continue;
        }
        if events.is_empty() && fragments.is_empty() {
            // A progress notification: everything up to it has been sent on this stream.
            mirror.apply(Vec::new(), unsigned(header(head)?.revision));
            continue;
        }
        fragments.extend(events);
        if !fragment {
            let batch = std::mem::take(&mut fragments);
            // Not the header's: that one may run ahead of the events still to be sent.
            let revision = batch.iter().filter_map(|event| event.kv.as_ref()).map(|kv| unsigned(kv.mod_revision)).max();
            let events = translate(client, batch, |key| mirror.read().get(key));
            mirror.apply(events, revision.unwrap_or(0));
        }
    }
}

/// Whether etcd still has what the mirror knows as its newest value. A backup that was put back and written to by others may
/// have come past our revision, and yet never had it.
async fn is_same_history(client: &Client, mirror: &Mirror) -> Result<bool, Status> {
    let newest = mirror.read().live().max_by_key(|entry| entry.mod_revision()).cloned();
    let Some(newest) = newest else { return Ok(true) };
    let request = RangeRequest {
        key: client.key(newest.key()),
        revision: i64::try_from(newest.mod_revision()).unwrap_or(i64::MAX),
        ..RangeRequest::default()
    };
    match client.range(request).await {
        Ok(then) => Ok(then
            .kvs
            .iter()
            .filter_map(|kv| entry(client, kv))
            .any(|then| then.mod_revision() == newest.mod_revision() && then.value() == newest.value())),
        // Compacted since: nobody can tell any more.
        Err(status) if status.code() == Code::OutOfRange => Ok(false),
        Err(status) => Err(status),
    }
}

/// Replaces the mirror; its watchers end.
async fn refill(client: &Client, mirror: &Mirror) -> Result<u64, Status> {
    let Snapshot { entries, revision, cluster_id } = snapshot(client).await?;
    mirror.write(|state| ((), state.reset(entries, revision)));
    Ok(cluster_id)
}

fn create_request(client: &Client, mirror: &Mirror) -> WatchCreateRequest {
    WatchCreateRequest {
        key: client.prefix.clone().into(),
        range_end: client.range_end(),
        start_revision: i64::try_from(mirror.read().revision() + 1).unwrap_or(i64::MAX),
        progress_notify: true,
        fragment: true,
    }
}

/// The cheapest question that only a member in touch with the majority can answer.
pub(super) fn barrier_probe(client: &Client) -> RangeRequest {
    RangeRequest { key: client.key(BARRIER), count_only: true, ..RangeRequest::default() }
}

/// What etcd's events mean for keys of ours, each with what the key held before it.
fn translate(client: &Client, events: Vec<proto::Event>, lookup: impl Fn(&str) -> Option<Entry>) -> Vec<Event> {
    let mut latest: HashMap<Key, Option<Entry>> = HashMap::new();
    let mut translated = Vec::with_capacity(events.len());
    for event in events {
        let kind = event.r#type();
        let Some((kv, key)) = event.kv.as_ref().and_then(|kv| Some((kv, our_key(client, &kv.key)?))) else { continue };
        let previous = latest.get(key).cloned().unwrap_or_else(|| lookup(key));
        let event = match (kind, previous) {
            (EventType::Put, previous) => Event::Put { entry: new_entry(client, key, kv), previous },
            (EventType::Delete, Some(previous)) => Event::Delete { revision: unsigned(kv.mod_revision), previous },
            (EventType::Delete, None) => continue,
        };
        latest.insert(event.key().clone(), event.entry().cloned());
        translated.push(event);
    }
    translated
}

/// The entry that a pair of etcd's is, if its key is one of ours.
pub(super) fn entry(client: &Client, kv: &KeyValue) -> Option<Entry> {
    Some(new_entry(client, our_key(client, &kv.key)?, kv))
}

fn new_entry(client: &Client, key: &str, kv: &KeyValue) -> Entry {
    let stamp = Stamp {
        create_revision: unsigned(kv.create_revision),
        mod_revision: unsigned(kv.mod_revision),
        version: unsigned(kv.version),
        deadline: None,
    };
    client.entry(key, &kv.value, stamp)
}

/// Our name for a key of etcd's. Keys with NUL are the store's own; text that is not UTF-8 was written by someone else.
fn our_key<'a>(client: &Client, key: &'a [u8]) -> Option<&'a str> {
    let key = std::str::from_utf8(key.strip_prefix(client.prefix.as_bytes())?).ok()?;
    (!key.is_empty() && !key.contains('\0')).then_some(key)
}

pub(super) fn header(header: Option<ResponseHeader>) -> Result<ResponseHeader, Status> {
    header.ok_or_else(|| Status::internal("an answer without a header; is this etcd?"))
}

/// etcd's numbers are signed by custom only.
pub(super) fn unsigned(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}
