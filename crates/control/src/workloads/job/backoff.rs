//! How long a Job waits before it makes the next pod: ten seconds after the first failure, twice as long after each more. Pure.

use super::pod;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Pod;
use runtime::backoff::Backoff;
use std::time::Duration;

/// As kube-controller-manager has it.
const PAUSES: Backoff = Backoff { first: Duration::from_secs(10), cap: Duration::from_secs(10 * 60) };

/// Failures since the last success.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Failures {
    pub count: u32,
    pub last: Option<Timestamp>,
}

impl Failures {
    /// After these pods have ended, which nobody knew of before.
    #[must_use]
    pub fn after(self, succeeded: &[&Pod], failed: &[&Pod]) -> Self {
        let success = succeeded.iter().map(|pod| pod::finished_at(pod)).max();
        let since = |time: &Timestamp| success.is_none_or(|success| *time > success);
        let failures: Vec<Timestamp> = failed.iter().map(|pod| pod::finished_at(pod)).filter(since).collect();
        let before = if success.is_some() { Self::default() } else { self };
        Self {
            count: before.count + u32::try_from(failures.len()).unwrap_or(u32::MAX),
            last: failures.into_iter().max().or(before.last),
        }
    }

    /// How long is left to wait.
    #[must_use]
    pub fn left(self, now: Timestamp) -> Option<SignedDuration> {
        left(self.count, self.last?, now)
    }
}

/// How long is left after so many failures, the last of them at `last`.
pub(super) fn left(count: u32, last: Timestamp, now: Timestamp) -> Option<SignedDuration> {
    if count == 0 {
        return None;
    }
    let pause = SignedDuration::try_from(PAUSES.delay(count, 0.0)).unwrap_or(SignedDuration::MAX);
    Some(pause - now.duration_since(last)).filter(SignedDuration::is_positive)
}
