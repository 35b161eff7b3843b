//! What time it is at AWS. A signature with another time is refused, and machines' clocks go wrong; every answer says the right one.

use http::{
    HeaderMap,
    header::{AGE, DATE},
};
use jiff::fmt::rfc2822::DateTimeParser;
use parking_lot::Mutex;
use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

/// A difference that signatures survive; below it this machine's clock counts.
const TOLERATED: Duration = Duration::from_secs(60);

/// The difference between AWS's clock and this machine's; clones share it.
#[derive(Clone, Debug, Default)]
pub(super) struct Clock(Arc<Mutex<Difference>>);

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Difference {
    #[default]
    None,
    /// AWS is ahead.
    Ahead(Duration),
    Behind(Duration),
}

impl Clock {
    /// The time to sign with.
    pub(super) fn now(&self) -> SystemTime {
        let now = SystemTime::now();
        let signed = match *self.0.lock() {
            Difference::None => Some(now),
            Difference::Ahead(by) => now.checked_add(by),
            Difference::Behind(by) => now.checked_sub(by),
        };
        signed.unwrap_or(now)
    }

    /// Takes note of the time that an answer tells, which was asked for and came at these times. One from a cache tells an old time.
    pub(super) fn heard(&self, headers: &HeaderMap, begun: SystemTime, ended: SystemTime) {
        if headers.contains_key(AGE) {
            return;
        }
        let server_time =
            headers.get(DATE).and_then(|date| DateTimeParser::new().parse_timestamp(date.as_bytes()).ok());
        let Some(server_time) = server_time.map(SystemTime::from) else { return };
        let between = begun + ended.duration_since(begun).unwrap_or_default() / 2;
        let difference = match server_time.duration_since(between) {
            Ok(by) if by > TOLERATED => Difference::Ahead(by),
            Err(error) if error.duration() > TOLERATED => Difference::Behind(error.duration()),
            Ok(_) | Err(_) => Difference::None,
        };
        let before = std::mem::replace(&mut *self.0.lock(), difference);
        if before == Difference::None && difference != Difference::None {
            tracing::warn!(
                ?difference,
                "this machine's clock is wrong: AWS's is another; requests are signed with AWS's"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_of_aws_counts_when_it_is_another() {
        let date_headers = |date: &str, age: Option<&'static str>| {
            let mut headers = HeaderMap::new();
            headers.insert(DATE, date.parse().expect("a value"));
            age.into_iter().for_each(|age| drop(headers.insert(AGE, age.parse().expect("a value"))));
            headers
        };
        // Sun, 06 Nov 1994 08:49:37 GMT.
        let here = SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_777);
        let minutes = |count: u64| Duration::from_secs(count * 60);
        for (date, age, expected) in [
            ("Sun, 06 Nov 1994 08:49:37 GMT", None, Difference::None),
            ("Sun, 06 Nov 1994 08:50:07 GMT", None, Difference::None),
            ("Sun, 06 Nov 1994 09:09:37 GMT", None, Difference::Ahead(minutes(20))),
            ("Sun, 06 Nov 1994 08:29:37 GMT", None, Difference::Behind(minutes(20))),
            ("Sun, 06 Nov 1994 09:09:37 GMT", Some("1"), Difference::None),
            ("yesterday", None, Difference::None),
        ] {
            let clock = Clock::default();
            clock.heard(&date_headers(date, age), here, here);
            assert_eq!(*clock.0.lock(), expected, "{date} {age:?}");
        }
        // Mended.
        let clock = Clock::default();
        for (date, right) in [("Sun, 06 Nov 1994 09:09:37 GMT", false), ("Sun, 06 Nov 1994 08:49:38 GMT", true)] {
            clock.heard(&date_headers(date, None), here, here + Duration::from_secs(2));
            assert_eq!(*clock.0.lock() == Difference::None, right, "{date}");
        }
    }
}
