//! How slow the other side may be: a grace, and after it so many bytes per second on average.
//!
//! A plain timeout between two pieces lets a client send one byte at a time for ever; a plain timeout for the whole cuts off
//! those who honestly have much to move. Used for request bodies (`collect`) and for answers (`outgoing`).

use std::time::Duration;

/// The slowest that is accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// Time for the first byte, and the longest that nothing may move.
    pub grace: Duration,
    /// What has to move on average once the grace is over.
    pub bytes_per_second: u64,
}

impl Pace {
    /// How long all of `bytes` may take together.
    #[must_use]
    pub fn allowed(&self, bytes: u64) -> Duration {
        let millis = bytes.saturating_mul(1000) / self.bytes_per_second.max(1);
        self.grace.saturating_add(Duration::from_millis(millis))
    }

    /// How long the other side may take for its next step, `bytes` having moved in `spent` so far.
    #[must_use]
    pub fn left(&self, bytes: u64, spent: Duration) -> Duration {
        self.allowed(bytes).saturating_sub(spent).min(self.grace)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_moves_buys_time_and_a_standstill_never_more_than_the_grace() {
        let pace = Pace { grace: Duration::from_secs(10), bytes_per_second: 1000 };
        for (bytes, spent, left) in [
            (0, 0, 10),
            (0, 4, 6),
            (0, 11, 0),
            // One byte at a time buys nothing worth having.
            (9, 10, 0),
            (5_000, 10, 5),
            (5_000, 15, 0),
            (1_000_000, 20, 10),
        ] {
            let got = pace.left(bytes, Duration::from_secs(spent));
            assert_eq!(got.as_secs(), left, "{bytes} bytes in {spent} s");
        }
        assert!(Pace { bytes_per_second: 0, ..pace }.allowed(u64::MAX) > pace.grace, "no division by zero");
    }
}
