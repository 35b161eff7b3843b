//! When the kernel is changed next: at once, unless the last change was just now or went wrong.

use std::time::{Duration, Instant};

/// The first pause after a failure; it doubles up to the sync period.
const FIRST_RETRY: Duration = Duration::from_millis(500);
/// A change is followed by a rest of so many times as long as it took, in which others gather. What a mechanism writes anew with
/// every change is then not written for each of a thousand Services that come at once, and a single change waits for nothing.
const REST: u32 = 2;
/// No longer than this.
const LONGEST_REST: Duration = Duration::from_secs(1);

/// When to work next.
#[derive(Debug)]
pub(crate) struct Schedule {
    pub(crate) due: Option<Instant>,
    /// When the last change ended; `None` before the first.
    pub(crate) last: Option<Instant>,
    /// Whether the last change went well: that it does is told at the start and after a failure.
    pub(crate) in_place: bool,
    rest: Duration,
    retry: Duration,
    min_sync_period: Duration,
    sync_period: Duration,
}

impl Schedule {
    /// Nothing was done and nothing is due.
    pub(crate) const fn new(min_sync_period: Duration, sync_period: Duration) -> Self {
        Self {
            due: None,
            last: None,
            in_place: false,
            rest: Duration::ZERO,
            retry: FIRST_RETRY,
            min_sync_period,
            sync_period,
        }
    }

    /// There is something to change.
    pub(crate) fn queue(&mut self, now: Instant) {
        let pause = self.min_sync_period.max(self.rest);
        let earliest = self.last.map_or(now, |last| (last + pause).max(now));
        self.due = Some(self.due.map_or(earliest, |due| due.min(earliest)));
    }

    /// A change began at `start`, and went well or not.
    pub(crate) fn done(&mut self, start: Instant, now: Instant, good: bool) {
        // The first one writes everything, and nobody has waited for long yet.
        self.rest = self.last.map_or(Duration::ZERO, |_| ((now - start) * REST).min(LONGEST_REST));
        self.last = Some(now);
        self.due = if good { None } else { Some(now + self.retry) };
        self.retry = if good { FIRST_RETRY } else { (self.retry * 2).min(self.sync_period) };
        self.in_place = good;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(number: u64) -> Duration {
        Duration::from_millis(number)
    }

    #[test]
    fn a_single_change_waits_for_nothing_and_many_gather() {
        let start = Instant::now();
        let mut schedule = Schedule::new(Duration::ZERO, Duration::from_secs(30));
        schedule.queue(start);
        assert_eq!(schedule.due, Some(start));
        schedule.done(start, start + ms(400), true);
        schedule.queue(start + ms(400));
        assert_eq!(schedule.due, Some(start + ms(400)), "the first sync is followed by no rest");
        schedule.done(start + ms(400), start + ms(500), true);
        schedule.queue(start + ms(510));
        schedule.queue(start + ms(520));
        assert_eq!(schedule.due, Some(start + ms(700)), "twice as long as the change took");
        schedule.done(start + ms(700), start + ms(2700), true);
        schedule.queue(start + ms(2701));
        assert_eq!(schedule.due, Some(start + ms(3700)), "but not longer than a second");
        schedule.done(start + ms(3700), start + ms(3701), true);
        schedule.queue(start + ms(9000));
        assert_eq!(schedule.due, Some(start + ms(9000)));
    }

    #[test]
    fn a_failure_is_tried_again_with_growing_pauses_or_with_the_next_change() {
        let start = Instant::now();
        let mut schedule = Schedule::new(ms(50), Duration::from_secs(1));
        for pause in [500, 1000, 1000] {
            schedule.done(start, start, false);
            assert_eq!((schedule.due, schedule.in_place), (Some(start + ms(pause)), false));
        }
        schedule.queue(start + ms(10));
        assert_eq!(schedule.due, Some(start + ms(50)), "not before --min-sync-period");
        schedule.done(start, start, true);
        assert_eq!((schedule.due, schedule.in_place), (None, true));
    }
}
