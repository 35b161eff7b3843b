//! How many requests are served at a time: a flood of one sort waits outside and cannot starve the control loops.
//!
//! Upstream's two limits (`--max-requests-inflight`, `--max-mutating-requests-inflight`); watches and connections to nodes
//! do not count, as they last. Components of the system (`system:` users, service accounts of `kube-system`, administrators)
//! have a share of their own on top, so that leases are renewed and nodes stay ready while others are turned away.

use crate::authn::User;
use api::error::ApiError;
use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The limits.
pub struct Inflight {
    reading: Arc<Semaphore>,
    writing: Arc<Semaphore>,
    system: Arc<Semaphore>,
}

/// A place; given back when dropped.
pub struct Place(#[allow(dead_code)] Option<OwnedSemaphorePermit>);

impl Inflight {
    /// `0` means no limit, as upstream has it.
    pub fn new(reading: usize, writing: usize) -> Self {
        let limit = |count: usize| Arc::new(Semaphore::new(if count == 0 { Semaphore::MAX_PERMITS } else { count }));
        Self { reading: limit(reading), writing: limit(writing), system: limit((reading + writing).div_ceil(4)) }
    }

    /// A place for a request, or 429.
    pub fn enter(&self, user: &User, mutating: bool, long_running: bool) -> Result<Place, ApiError> {
        if long_running {
            return Ok(Place(None));
        }
        let common = if mutating { &self.writing } else { &self.reading };
        if let Ok(place) = Arc::clone(common).try_acquire_owned() {
            return Ok(Place(Some(place)));
        }
        if is_system(user)
            && let Ok(place) = Arc::clone(&self.system).try_acquire_owned()
        {
            return Ok(Place(Some(place)));
        }
        Err(ApiError::too_many_requests("Too many requests, please try again later.", 1))
    }
}

fn is_system(user: &User) -> bool {
    let system_user = user.name.starts_with("system:") && !user.name.starts_with("system:serviceaccount:") && user.name != "system:anonymous";
    system_user || user.in_group("system:serviceaccounts:kube-system") || user.in_group("system:masters")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_leaves_room_for_the_system_and_for_the_other_sort() {
        let inflight = Inflight::new(2, 2);
        let flooder = User::new("eve", Vec::<String>::new());
        let node = User::new("system:node:a", ["system:nodes"]);
        let held: Vec<_> = (0..2).map(|_| inflight.enter(&flooder, false, false).unwrap()).collect();
        assert_eq!(inflight.enter(&flooder, false, false).err().map(|e| e.code), Some(429));
        let renewed = inflight.enter(&node, false, false).unwrap();
        assert!(inflight.enter(&node, false, false).is_err(), "the share is bounded too");
        assert!(inflight.enter(&flooder, true, false).is_ok(), "writes have their own limit");
        assert!(inflight.enter(&flooder, false, true).is_ok(), "watches do not count");
        drop((held, renewed));
        assert!(inflight.enter(&flooder, false, false).is_ok());
    }
}
