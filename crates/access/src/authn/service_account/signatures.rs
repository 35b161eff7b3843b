//! Tokens whose signature has been found good. Checking one costs 90 us, and every request of a controller carries one.
//!
//! Remembers only what cannot change while the keys stay: that these claims were signed. Time, audience and bound objects are
//! looked at anew on every request, so that a revoked token is refused at once. Holds digests, never tokens.

use super::claims::Claims;
use aws_lc_rs::digest::{SHA256, digest};
use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, PoisonError, RwLock},
};

/// More tokens than this are not in use at one time on a server of this size; then it starts anew. About 2 MB.
const MOST: usize = 4096;

type Key = [u8; 32];

/// Claims by the digest of the token that carried them.
#[derive(Default)]
pub(super) struct Signatures(RwLock<HashMap<Key, Arc<Claims>>>);

impl Signatures {
    /// The claims of a token: remembered, or from `check`, which must have verified the signature.
    pub(super) fn claims<E>(
        &self,
        token: &str,
        check: impl FnOnce() -> Result<Option<Claims>, E>,
    ) -> Result<Option<Arc<Claims>>, E> {
        let mut key = Key::default();
        key.copy_from_slice(digest(&SHA256, token.as_bytes()).as_ref());
        if let Some(known) = self.0.read().unwrap_or_else(PoisonError::into_inner).get(&key) {
            return Ok(Some(known.clone()));
        }
        let Some(claims) = check()?.map(Arc::new) else { return Ok(None) };
        let mut known = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= MOST {
            known.clear();
        }
        known.insert(key, claims.clone());
        Ok(Some(claims))
    }
}

impl fmt::Debug for Signatures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Signatures({} known)", self.0.read().unwrap_or_else(PoisonError::into_inner).len())
    }
}
