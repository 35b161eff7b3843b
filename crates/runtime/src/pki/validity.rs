//! From when until when a certificate holds, and when to replace it. Pure: the time is given.

use std::time::{Duration, SystemTime};
use x509_parser::certificate::X509Certificate;

/// A certificate's time, to the second as certificates have it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Validity {
    /// The first moment.
    pub not_before: SystemTime,
    /// The last second.
    pub not_after: SystemTime,
}

impl Validity {
    /// Clocks of two machines may differ by this much without a fresh certificate being refused.
    pub(super) const SKEW: Duration = Duration::from_secs(300);

    /// From shortly before `now` for `lifetime`, but not beyond `end`.
    pub(super) fn starting(now: SystemTime, lifetime: Duration, end: Option<SystemTime>) -> Self {
        let not_after = now + lifetime;
        Self { not_before: now - Self::SKEW, not_after: end.map_or(not_after, |end| not_after.min(end)) }
    }

    pub(super) fn of(certificate: &X509Certificate<'_>) -> Self {
        let validity = certificate.validity();
        let time = |seconds: i64| match u64::try_from(seconds) {
            Ok(after) => SystemTime::UNIX_EPOCH + Duration::from_secs(after),
            Err(_) => SystemTime::UNIX_EPOCH - Duration::from_secs(seconds.unsigned_abs()),
        };
        Self { not_before: time(validity.not_before.timestamp()), not_after: time(validity.not_after.timestamp()) }
    }
}

/// When to replace a certificate: after 80 % of its life, so that a fifth of it remains for whatever goes wrong.
#[must_use]
pub fn rotate_at(validity: Validity) -> SystemTime {
    let lifetime = validity.not_after.duration_since(validity.not_before).unwrap_or_default();
    validity.not_before + lifetime / 5 * 4
}

/// Whether a certificate should be replaced by now.
#[must_use]
pub fn rotation_due(validity: Validity, now: SystemTime) -> bool {
    now >= rotate_at(validity)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)
    }

    #[test]
    fn rotation_is_due_from_four_fifths_of_the_life() {
        let validity = Validity { not_before: at(1000), not_after: at(2000) };
        for (now, due) in [(0, false), (1000, false), (1799, false), (1800, true), (2000, true), (9000, true)] {
            assert_eq!(rotation_due(validity, at(now)), due, "{now}");
        }
    }

    #[test]
    fn a_certificate_that_ends_before_it_begins_is_due_at_once() {
        assert!(rotation_due(Validity { not_before: at(1000), not_after: at(500) }, at(1000)));
    }

    #[test]
    fn a_life_starts_early_and_never_outlasts_its_authority() {
        let day = Duration::from_secs(86_400);
        let free = Validity::starting(at(1000), day, None);
        assert_eq!(free, Validity { not_before: at(700), not_after: at(87_400) });
        assert_eq!(Validity::starting(at(1000), day, Some(at(5000))).not_after, at(5000));
    }
}
