//! How many seats a priority level could have used of late: the most, and a smoothed average.

/// How much of the past a new observation leaves; half of it is gone after five minutes of periods of ten seconds.
const MEMORY: f64 = 0.977;

/// What was seen in a period.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Observed {
    /// The most at any time.
    pub high: f64,
    /// What is usual, with some room above. Follows a rise at once and a fall slowly.
    pub smoothed: f64,
}

/// Seats in use and waited for, over time.
#[derive(Clone, Copy, Debug)]
pub struct Demand {
    current: f64,
    since: f64,
    begin: f64,
    sum: f64,
    squares: f64,
    high: f64,
    smoothed: f64,
}

impl Demand {
    /// None so far.
    pub fn new(now: f64) -> Self {
        Self { current: 0.0, since: now, begin: now, sum: 0.0, squares: 0.0, high: 0.0, smoothed: 0.0 }
    }

    /// So many from now on.
    pub fn set(&mut self, now: f64, seats: u32) {
        self.add_up(now);
        self.current = f64::from(seats);
        self.high = self.high.max(self.current);
    }

    /// Ends a period and begins the next.
    pub fn period(&mut self, now: f64) -> Observed {
        self.add_up(now);
        let length = now - self.begin;
        let (average, square) = if length > 0.0 {
            (self.sum / length, self.squares / length)
        } else {
            (self.current, self.current.powi(2))
        };
        let envelope = average + (square - average.powi(2)).max(0.0).sqrt();
        self.smoothed = envelope.max(MEMORY * self.smoothed + (1.0 - MEMORY) * envelope);
        let observed = Observed { high: self.high, smoothed: self.smoothed };
        (self.begin, self.sum, self.squares, self.high) = (now, 0.0, 0.0, self.current);
        observed
    }

    fn add_up(&mut self, now: f64) {
        let passed = (now - self.since).max(0.0);
        self.sum += self.current * passed;
        self.squares += self.current.powi(2) * passed;
        self.since = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rise_counts_at_once_and_a_fall_slowly() {
        let mut demand = Demand::new(0.0);
        demand.set(0.0, 4);
        demand.set(5.0, 8);
        // Average 6, deviation 2.
        assert_eq!(demand.period(10.0), Observed { high: 8.0, smoothed: 8.0 });
        demand.set(10.0, 0);
        let calm = demand.period(20.0);
        assert_eq!(calm.high, 8.0, "it began with eight");
        assert!((calm.smoothed - 8.0 * MEMORY).abs() < 1e-9);
        assert_eq!(demand.period(30.0).high, 0.0);
    }
}
