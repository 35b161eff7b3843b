//! How long to wait before the next attempt. Called by `task` and by every loop that talks to something that can be
//! away.

use std::time::Duration;

/// Doubles from `first` up to `cap`; each delay is shortened by up to half, so that many waiters do not come back at
/// once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    /// The delay before the first retry, before jitter.
    pub first: Duration,
    /// No delay is longer than this.
    pub cap: Duration,
}

impl Backoff {
    /// The delay after `failures` failures in a row (0 counts as 1). `random` is in `0.0..1.0`: 0 gives the full delay,
    /// values near 1 give half of it. Values outside are clamped.
    #[must_use]
    pub fn delay(&self, failures: u32, random: f64) -> Duration {
        let doublings = failures.saturating_sub(1).min(31);
        let full = self.first.saturating_mul(1 << doublings).min(self.cap);
        let random = if random.is_nan() { 0.0 } else { random.clamp(0.0, 1.0) };
        full.mul_f64(1.0 - random / 2.0)
    }
}

/// A number in `0.0..1.0` for [`Backoff::delay`]. 0 when the system has no randomness to give: jitter is a courtesy,
/// not a need.
#[must_use]
pub fn random() -> f64 {
    const MANTISSA: u32 = 53;
    getrandom::u64().map_or(0.0, |bits| (bits >> (64 - MANTISSA)) as f64 / (1u64 << MANTISSA) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const BACKOFF: Backoff = Backoff { first: Duration::from_millis(100), cap: Duration::from_secs(5) };

    #[test]
    fn delays_double_and_stop_at_the_cap() {
        let millis: Vec<u128> = (0..9).map(|failures| BACKOFF.delay(failures, 0.0).as_millis()).collect();
        assert_eq!(millis, [100, 100, 200, 400, 800, 1600, 3200, 5000, 5000]);
    }

    #[test]
    fn jitter_shortens_by_at_most_half() {
        assert_eq!(BACKOFF.delay(1, 0.5), Duration::from_millis(75));
        assert_eq!(BACKOFF.delay(1, 1.0), Duration::from_millis(50));
    }

    proptest! {
        #[test]
        fn every_delay_is_between_half_the_first_and_the_cap(failures: u32, random: f64) {
            let delay = BACKOFF.delay(failures, random);
            prop_assert!(delay >= BACKOFF.first / 2 && delay <= BACKOFF.cap);
        }
    }

    #[test]
    fn random_numbers_stay_in_range() {
        for _ in 0..1000 {
            assert!((0.0..1.0).contains(&random()));
        }
    }
}
