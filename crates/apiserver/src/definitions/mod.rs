//! CustomResourceDefinitions at work: what they define is served while they exist.
//!
//! `prime` opens the routes of all definitions before the server is ready; `run` follows the stored definitions from then on.
//! For each it asks `plan` what comes next, does that one thing, and asks again: names, routes, `Established`; after a
//! deletion the objects, then the finalizer. Nothing is remembered between steps that is not in the store, so whoever comes
//! after a crash goes on where it happened, and two servers on one etcd do the same work without a fight: of two writes
//! one loses, and finds on its next look that there is nothing left to do.

pub(crate) mod conversion;
mod index;
mod instances;
mod keeper;
mod plan;
mod publish;

#[cfg(test)]
mod tests;

pub(crate) use publish::{CustomKind, Definitions, gone};

use crate::{ApiServer, follow::FollowError};
use keeper::Keeper;
use std::{sync::Arc, time::Duration};
use tokio_util::sync::CancellationToken;

/// Where definitions are stored.
const PREFIX: &str = "apiextensions.k8s.io/customresourcedefinitions/";
/// How soon a definition that waits for its objects, or for the store, is looked at again.
const AGAIN: Duration = Duration::from_millis(500);

/// Opens the routes of all definitions that have any.
pub(crate) async fn prime(server: &Arc<ApiServer>) -> Result<(), FollowError> {
    Keeper::load(server).await?.publish().await;
    Ok(())
}

/// Follows the definitions until the server stops.
pub(crate) async fn run(server: Arc<ApiServer>, stop: CancellationToken) -> Result<(), FollowError> {
    tokio::select! {
        () = stop.cancelled() => Ok(()),
        ended = follow(server) => ended,
    }
}

async fn follow(server: Arc<ApiServer>) -> Result<(), FollowError> {
    let mut keeper = Keeper::load(&server).await?;
    let mut watch = server.store.watch(PREFIX, Some(keeper.revision())).await?;
    keeper.publish().await;
    loop {
        // What another server has decided on names must be known before this one decides.
        let current = server.store.revision().await.is_ok();
        while let Some(event) = watch.try_next()? {
            keeper.note(&event).await;
        }
        if current && keeper.round().await {
            continue;
        }
        tokio::select! {
            event = watch.next() => keeper.note(&*event?).await,
            () = tokio::time::sleep(AGAIN), if !keeper.is_idle() => keeper.wake(),
        }
    }
}

/// The name of a definition from its key.
fn name_of(key: &str) -> Option<&str> {
    key.strip_prefix(PREFIX).filter(|name| !name.is_empty())
}
