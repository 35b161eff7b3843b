//! Times to live in etcd: leases, shared by keys that are written at about the same time.

use super::{client::Client, proto::LeaseGrantRequest};
use parking_lot::Mutex;
use std::{
    collections::HashMap,
    time::{Duration, Instant},
};
use tonic::Status;

/// The longest that one lease is handed out for.
const LONGEST_WINDOW: u64 = 60;

/// The leases that may still be handed out, by the seconds their keys must live.
#[derive(Debug, Default)]
pub(super) struct Leases(Mutex<HashMap<u64, Lease>>);

#[derive(Clone, Copy, Debug)]
struct Lease {
    id: i64,
    until: Instant,
}

impl Leases {
    /// A lease under which a key lives for `ttl`, and at most a twentieth longer: a lease per event would swamp etcd.
    pub(super) async fn lease(&self, client: &Client, ttl: Duration) -> Result<i64, Status> {
        let seconds = ttl.as_secs() + u64::from(ttl.subsec_nanos() > 0);
        let now = Instant::now();
        if let Some(lease) = self.0.lock().get(&seconds).filter(|lease| lease.until > now) {
            return Ok(lease.id);
        }
        let window = (seconds / 20).min(LONGEST_WINDOW);
        let granted =
            client.lease_grant(LeaseGrantRequest { ttl: i64::try_from(seconds + window).unwrap_or(i64::MAX) }).await?;
        let mut leases = self.0.lock();
        leases.retain(|_, lease| lease.until > now);
        leases.insert(seconds, Lease { id: granted.id, until: now + Duration::from_secs(window) });
        Ok(granted.id)
    }

    /// Forgets all: etcd no longer knew one of them.
    pub(super) fn forget(&self) {
        self.0.lock().clear();
    }
}
