//! What did not work lately, by container, and until when it is left alone. Kept in memory: a kubelet that was restarted tries at once, as upstream's.

use jiff::{SignedDuration, Timestamp};
use std::collections::BTreeMap;

/// As upstream's `MaxContainerBackOff` and the pull back-off.
const FIRST: SignedDuration = SignedDuration::from_secs(10);
const CAP: SignedDuration = SignedDuration::from_secs(300);

/// The back-offs of one Pod.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Failures {
    crashes: BTreeMap<String, Delay>,
    starts: BTreeMap<String, Failed>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Delay {
    length: SignedDuration,
    since: Timestamp,
}

/// A start that failed.
#[derive(Clone, Debug, PartialEq)]
pub struct Failed {
    /// As the status of the container has it, such as `ErrImagePull`.
    pub reason: String,
    pub message: String,
    /// When it is tried again.
    pub until: Timestamp,
    length: SignedDuration,
}

impl Failures {
    /// How long the container that ended then still has to wait, of how long in all.
    #[must_use]
    pub fn crash_wait(
        &self,
        name: &str,
        finished: Timestamp,
        now: Timestamp,
    ) -> Option<(SignedDuration, SignedDuration)> {
        let delay = self.crashes.get(name).filter(|delay| !delay.is_over(now))?;
        let left = now.duration_until(finished + delay.length);
        left.is_positive().then_some((left, delay.length))
    }

    /// A container that had ended is started again: the next time it waits longer.
    pub fn restarted(&mut self, name: &str, now: Timestamp) {
        let known = self.crashes.get(name).filter(|delay| !delay.is_over(now));
        let length = known.map_or(FIRST, |delay| (delay.length * 2).min(CAP));
        self.crashes.insert(name.to_owned(), Delay { length, since: now });
    }

    /// A start failed for now.
    pub fn failed(&mut self, name: &str, reason: &str, message: String, now: Timestamp) {
        let known = self.starts.get(name).filter(|known| known.reason == reason);
        let length = known.map_or(FIRST, |known| (known.length * 2).min(CAP));
        // What waits for somebody to make a ConfigMap is looked at often.
        let length = if reason.ends_with("PullError") || reason.contains("ImagePull") { length } else { FIRST };
        let failed = Failed { reason: reason.to_owned(), message, until: now + length, length };
        self.starts.insert(name.to_owned(), failed);
    }

    /// A start worked.
    pub fn started(&mut self, name: &str) {
        self.starts.remove(name);
    }

    /// Why the container of this name did not start the last time.
    #[must_use]
    pub fn of(&self, name: &str) -> Option<&Failed> {
        self.starts.get(name)
    }

    /// Something changed that may help: all are tried again at once.
    pub fn retry(&mut self, now: Timestamp) {
        for failed in self.starts.values_mut() {
            failed.until = now;
        }
    }
}

impl Delay {
    /// A container that ran for long begins anew.
    fn is_over(&self, now: Timestamp) -> bool {
        now.duration_since(self.since) > CAP * 2
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn crashes_wait_longer_each_time_up_to_five_minutes() {
        let mut failures = Failures::default();
        assert_eq!(failures.crash_wait("c", at(0), at(0)), None, "the first restart is at once");
        let mut lengths = Vec::new();
        for _ in 0..7 {
            failures.restarted("c", at(100));
            let (left, length) = failures.crash_wait("c", at(101), at(102)).unwrap();
            assert_eq!(left, length - SignedDuration::from_secs(1));
            lengths.push(length.as_secs());
        }
        assert_eq!(lengths, [10, 20, 40, 80, 160, 300, 300]);
        assert_eq!(failures.crash_wait("c", at(800), at(801)), None, "it ran for long");
    }

    #[test]
    fn a_pull_waits_longer_each_time_and_others_do_not() {
        let mut failures = Failures::default();
        for _ in 0..2 {
            failures.failed("c", "ErrImagePull", String::new(), at(0));
            failures.failed("d", "CreateContainerConfigError", String::new(), at(0));
        }
        assert_eq!((failures.of("c").unwrap().until, failures.of("d").unwrap().until), (at(20), at(10)));
        failures.started("c");
        assert_eq!(failures.of("c"), None);
    }
}
