//! A serving certificate that is replaced while the server runs. Given to `tls::server_config`; kept fresh by a task.

use super::{
    error::PkiError,
    identity::Identity,
    validity::{Validity, rotate_at, rotation_due},
};
use arc_swap::ArcSwapOption;
use rustls::{
    server::{ClientHello, ResolvesServerCert},
    sign::CertifiedKey,
};
use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};
use tokio_util::sync::CancellationToken;

/// Shows one certificate, and from some moment on another: new connections see the new one, old ones live on.
#[derive(Debug)]
pub struct Rotating {
    current: ArcSwapOption<Current>,
}

#[derive(Debug)]
struct Current {
    key: Arc<CertifiedKey>,
    validity: Validity,
}

impl Current {
    fn of(identity: &Identity) -> Result<Self, PkiError> {
        Ok(Self { key: Arc::new(identity.certified_key()?), validity: identity.validity() })
    }
}

impl Rotating {
    /// Starts with `identity`.
    pub fn new(identity: &Identity) -> Result<Arc<Self>, PkiError> {
        Ok(Arc::new(Self { current: ArcSwapOption::from_pointee(Current::of(identity)?) }))
    }

    /// Has nothing to show yet: until it has, every handshake fails.
    #[must_use]
    pub fn empty() -> Arc<Self> {
        Arc::new(Self { current: ArcSwapOption::empty() })
    }

    /// Shows `identity` to connections from now on.
    pub fn replace(&self, identity: &Identity) -> Result<(), PkiError> {
        self.current.store(Some(Arc::new(Current::of(identity)?)));
        Ok(())
    }

    /// The time of the certificate that is shown.
    #[must_use]
    pub fn validity(&self) -> Option<Validity> {
        self.current.load().as_ref().map(|current| current.validity)
    }

    /// Replaces the certificate if it is due. Whether it was.
    pub fn rotate_if_due(
        &self,
        now: SystemTime,
        issue: impl FnOnce(SystemTime) -> Result<Identity, PkiError>,
    ) -> Result<bool, PkiError> {
        if self.validity().is_some_and(|validity| !rotation_due(validity, now)) {
            return Ok(false);
        }
        self.replace(&issue(now)?)?;
        tracing::info!("serving certificate rotated");
        Ok(true)
    }

    /// Rotates whenever due until `stop`. A failure is logged and tried again at the next look: the old certificate
    /// still has a fifth of its life.
    pub async fn keep_fresh(
        &self,
        clock: impl Fn() -> SystemTime,
        issue: impl Fn(SystemTime) -> Result<Identity, PkiError>,
        stop: CancellationToken,
    ) {
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(next_look(self.validity(), clock())) => {}
            }
            if let Err(error) = self.rotate_if_due(clock(), &issue) {
                tracing::error!(%error, "serving certificate could not be rotated");
            }
        }
    }
}

impl ResolvesServerCert for Rotating {
    fn resolve(&self, _hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.current.load().as_ref().map(|current| Arc::clone(&current.key))
    }
}

/// How long to sleep: until the certificate is due, but at most an hour, since clocks are set and machines are
/// suspended, and at least a minute, since what failed just now will fail again.
fn next_look(validity: Option<Validity>, now: SystemTime) -> Duration {
    let until_due = validity.and_then(|validity| rotate_at(validity).duration_since(now).ok()).unwrap_or_default();
    until_due.clamp(Duration::from_secs(60), Duration::from_secs(3600))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_are_between_a_minute_and_an_hour_apart() {
        let at = |seconds| SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
        let validity = Validity { not_before: at(0), not_after: at(10_000) };
        for (now, sleep) in [(0, 3600), (5000, 3000), (7990, 60), (8000, 60), (20_000, 60)] {
            assert_eq!(next_look(Some(validity), at(now)), Duration::from_secs(sleep), "{now}");
        }
    }
}
