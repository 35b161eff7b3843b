//! Keeps the server's own indexes in step with the store: roles, pods' secrets, definitions.
//!
//! Loaded once before the server is ready, then fed by watches. A restart of the task loads again.

use crate::{ApiServer, definitions, stored};
use std::sync::Arc;
use store::{Entry, Event, ReadError, WatchError};
use tokio_util::sync::CancellationToken;

/// What is indexed, by storage prefix.
const FOLLOWED: [&str; 7] =
    ["roles", "rolebindings", "clusterroles", "clusterrolebindings", "pods", "persistentvolumes", "volumeattachments"];

/// Why following broke off; it starts again from a fresh list.
#[derive(Debug, thiserror::Error)]
pub enum FollowError {
    /// The list could not be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The watch ended.
    #[error(transparent)]
    Watch(#[from] WatchError),
}

/// Loads one prefix and returns the revision to go on from.
async fn load(server: &ApiServer, storage: &str) -> Result<u64, FollowError> {
    let page = server.store.list(&format!("{storage}/"), None, None, None).await?;
    let objects: Vec<_> = page.entries.iter().filter_map(readable).collect();
    server.access.replace(storage, &objects);
    Ok(page.revision)
}

/// Loads everything; called before the server is ready.
pub(crate) async fn prime(server: &Arc<ApiServer>) -> Result<(), FollowError> {
    for storage in FOLLOWED {
        load(server, storage).await?;
    }
    definitions::prime(server).await?;
    Ok(())
}

/// Follows one prefix until the server stops.
pub(crate) async fn run(
    server: Arc<ApiServer>,
    storage: &'static str,
    stop: CancellationToken,
) -> Result<(), FollowError> {
    let from = load(&server, storage).await?;
    let mut watch = server.store.watch(&format!("{storage}/"), Some(from)).await?;
    loop {
        let event = tokio::select! {
            () = stop.cancelled() => return Ok(()),
            event = watch.next() => event?,
        };
        match &*event {
            Event::Put { entry, .. } => note(&server, storage, entry, true),
            Event::Delete { previous, .. } => note(&server, storage, previous, false),
        }
    }
}

/// The prefixes that need a task each.
pub(crate) fn followed() -> impl Iterator<Item = &'static str> {
    FOLLOWED.into_iter()
}

fn note(server: &ApiServer, storage: &str, entry: &Entry, present: bool) {
    let key = entry.key().to_string();
    let rest = key.strip_prefix(storage).unwrap_or_default();
    let rest = rest.trim_start_matches('/');
    let (namespace, name) = rest.split_once('/').unwrap_or(("", rest));
    let object = if present { readable(entry) } else { None };
    server.access.follow(storage, namespace, name, object.as_ref());
}

fn readable(entry: &Entry) -> Option<serde_json::Value> {
    let object = stored::parse(entry).ok();
    if object.is_none() {
        tracing::warn!(key = %entry.key(), "stored object cannot be read and is left out of authorization");
    }
    object
}
