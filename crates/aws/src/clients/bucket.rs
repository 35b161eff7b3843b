//! A bucket of permissions to call: fills at a rate, holds a burst, and is emptied when AWS says that it was too much.

use parking_lot::Mutex;
use std::time::{Duration, Instant};

/// Calls per second, and how many may be saved up.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Rate {
    pub(super) per_second: f64,
    pub(super) burst: f64,
}

#[derive(Debug)]
pub(super) struct Bucket {
    rate: Rate,
    held: Mutex<Held>,
}

#[derive(Debug)]
struct Held {
    /// Below zero when calls wait.
    tokens: f64,
    at: Instant,
}

impl Bucket {
    pub(super) fn new(rate: Rate, now: Instant) -> Self {
        Self { rate, held: Mutex::new(Held { tokens: rate.burst, at: now }) }
    }

    fn filled(&self, held: &mut Held, now: Instant) {
        let passed = now.saturating_duration_since(held.at).as_secs_f64();
        held.tokens = (held.tokens + passed * self.rate.per_second).min(self.rate.burst);
        held.at = now;
    }

    /// Takes the right to one call; it may be made after so long. Who asks first goes first.
    pub(super) fn take(&self, now: Instant) -> Duration {
        let mut held = self.held.lock();
        self.filled(&mut held, now);
        held.tokens -= 1.0;
        Duration::from_secs_f64((-held.tokens).max(0.0) / self.rate.per_second)
    }

    /// Gives up what was saved: everyone slows down to the rate.
    pub(super) fn empty(&self, now: Instant) {
        let mut held = self.held.lock();
        self.filled(&mut held, now);
        held.tokens = held.tokens.min(0.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATE: Rate = Rate { per_second: 5.0, burst: 3.0 };

    #[test]
    fn a_burst_goes_at_once_and_the_rest_at_the_rate() {
        let start = Instant::now();
        let bucket = Bucket::new(RATE, start);
        let waits: Vec<u128> = (0..6).map(|_| bucket.take(start).as_millis()).collect();
        assert_eq!(waits, [0, 0, 0, 200, 400, 600]);
    }

    #[test]
    fn it_fills_with_time_up_to_the_burst() {
        let start = Instant::now();
        let bucket = Bucket::new(RATE, start);
        (0..3).for_each(|_| assert_eq!(bucket.take(start), Duration::ZERO));
        let later = start + Duration::from_millis(200);
        assert_eq!(bucket.take(later), Duration::ZERO);
        assert_eq!(bucket.take(later).as_millis(), 200);
        let much_later = start + Duration::from_secs(3600);
        let waits: Vec<u128> = (0..4).map(|_| bucket.take(much_later).as_millis()).collect();
        assert_eq!(waits, [0, 0, 0, 200]);
    }

    #[test]
    fn being_throttled_empties_it() {
        let start = Instant::now();
        let bucket = Bucket::new(RATE, start);
        bucket.empty(start);
        assert_eq!(bucket.take(start).as_millis(), 200);
        assert_eq!(bucket.take(start).as_millis(), 400);
    }
}
