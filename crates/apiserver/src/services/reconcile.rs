//! From a store to pools that agree with it, and what keeps them so.

use super::{
    claims::{self, Holder},
    kubernetes, metrics, ranges, repair,
};
use crate::ApiServer;
use api::{error::ApiError, families};
use net::{Family, HasFamily, ServiceRange};
use std::{sync::Arc, time::Duration};
use store::{Entry, Event, ReadError, WatchError};
use tokio_util::sync::CancellationToken;

/// How often everything is looked at again.
const INTERVAL: Duration = Duration::from_secs(180);

/// Why Services cannot be served. The first is for the operator, the others are tried again.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The flag says another first family than the cluster was made with.
    #[error(
        "--service-cluster-ip-range: the first range, {given}, is {}, but this cluster was made with {family} first \
         ({seen}); put the {family} range first", .given.family()
    )]
    FamilyChanged {
        /// The first range of the flag.
        given: ServiceRange,
        /// The first family of the cluster.
        family: Family,
        /// Where that was seen.
        seen: String,
    },
    /// The store cannot be read.
    #[error("cannot load service addresses: {0}")]
    Read(#[from] ReadError),
    /// What others wrote cannot be followed.
    #[error("cannot follow service addresses: {0}")]
    Watch(#[from] WatchError),
    /// An object cannot be written.
    #[error("cannot prepare service addresses: {0}")]
    Write(#[from] ApiError),
}

/// Fills the pools. Called before the server takes its first request.
pub async fn load(server: &Arc<ApiServer>) -> Result<(), StartError> {
    ranges::check_first_family(server)?;
    metrics::register(server);
    ranges::serve(server).await?;
    for ip in ranges::addresses(server).await? {
        server.services.pools.note_address(ip, true);
    }
    for entry in server.store.list(claims::PORTS, None, None, None).await?.entries {
        server.services.note(&server.store, entry.key());
    }
    Ok(())
}

/// Makes the default ServiceCIDR and the `kubernetes` Service, and mends what an earlier run left. Called once the
/// namespaces are there.
pub async fn bootstrap(server: &Arc<ApiServer>) -> Result<(), StartError> {
    ranges::ensure_default(server).await?;
    ranges::reconcile(server).await?;
    repair::repair(server).await?;
    kubernetes::reconcile(server).await?;
    Ok(())
}

/// Follows what other servers and clients do, and looks at everything from time to time. Ends when the server stops.
pub async fn run(server: Arc<ApiServer>, stop: CancellationToken) -> Result<(), StartError> {
    let from = server.store.revision().await.map_err(ReadError::from)?;
    let mut addresses = server.store.watch(claims::ADDRESSES, Some(from)).await?;
    let mut ports = server.store.watch(claims::PORTS, Some(from)).await?;
    let mut cidrs = server.store.watch(ranges::RANGES, Some(from)).await?;
    // What happened between an earlier watch and these.
    ranges::serve(&server).await?;
    repair::align(&server).await?;
    let (mut round, mut lease) = (every(INTERVAL), every(kubernetes::INTERVAL));
    loop {
        tokio::select! {
            () = stop.cancelled() => {
                kubernetes::leave(&server).await;
                return Ok(());
            }
            event = addresses.next() => {
                let event = event?;
                server.services.note(&server.store, key(&event));
                if let Event::Delete { previous, .. } = &*event {
                    if is_needed(&server, previous) {
                        repair::repair(&server).await?;
                    }
                    if ranges::is_any_leaving(&server).await? {
                        report(ranges::reconcile(&server).await);
                    }
                }
            }
            event = ports.next() => server.services.note(&server.store, key(&*event?)),
            event = cidrs.next() => {
                event?;
                report(ranges::ensure_default(&server).await);
                report(ranges::reconcile(&server).await);
            }
            _ = round.tick() => {
                report(ranges::reconcile(&server).await);
                repair::repair(&server).await?;
            }
            _ = lease.tick() => report(kubernetes::reconcile(&server).await),
        }
    }
}

/// Somebody deleted the IPAddress of a Service that has the address still.
fn is_needed(server: &ApiServer, deleted: &Entry) -> bool {
    let Some(Holder { namespace, name }) = claims::holder_of(deleted) else { return false };
    let service = server.object(&format!("services/specs/{namespace}/{name}"));
    let held = service.map(|service| families::addresses(&service)).unwrap_or_default();
    held.iter().any(|ip| *claims::address_key(*ip) == **deleted.key())
}

/// The first time after one period: `bootstrap` has just done it all.
fn every(period: Duration) -> tokio::time::Interval {
    let mut interval = tokio::time::interval_at(tokio::time::Instant::now() + period, period);
    interval.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    interval
}

/// What cannot be written now is tried again in the next round; following others must not wait for it.
fn report(written: Result<(), ApiError>) {
    if let Err(error) = written {
        tracing::warn!(%error, "service addresses: will be tried again");
    }
}

fn key(event: &Event) -> &str {
    match event {
        Event::Put { entry, .. } => entry.key(),
        Event::Delete { previous, .. } => previous.key(),
    }
}
