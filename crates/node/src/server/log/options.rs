//! Which part of a log is wanted.

use jiff::{SignedDuration, Timestamp};

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::server) struct LogOptions {
    pub(in crate::server) follow: bool,
    pub(in crate::server) previous: bool,
    pub(super) timestamps: bool,
    pub(super) tail: Option<u64>,
    pub(super) since: Option<Timestamp>,
    pub(super) limit: Option<u64>,
    /// `stdout` or `stderr` alone.
    pub(super) stream: Option<&'static str>,
}

impl LogOptions {
    /// Reads a query, with all its mistakes at once.
    pub(in crate::server) fn read(pairs: &[(String, String)], now: Timestamp) -> Result<Self, String> {
        let mut options = Self::default();
        let mut wrong = Vec::new();
        for (key, value) in pairs {
            let mut refuse = |accepted: &str| wrong.push(format!("{key}: {value:?} is not accepted; give {accepted}"));
            let flag = matches!(value.as_str(), "true" | "1");
            match key.as_str() {
                "follow" => options.follow = flag,
                "previous" => options.previous = flag,
                "timestamps" => options.timestamps = flag,
                "tailLines" => match value.parse() {
                    Ok(lines) => options.tail = Some(lines),
                    Err(_) => refuse("a number of lines"),
                },
                "limitBytes" => match value.parse() {
                    Ok(bytes) if bytes > 0 => options.limit = Some(bytes),
                    _ => refuse("a number of bytes above 0"),
                },
                "sinceSeconds" => match value.parse::<i64>() {
                    Ok(seconds) if seconds > 0 => {
                        options.since = now.checked_sub(SignedDuration::from_secs(seconds)).ok()
                    }
                    _ => refuse("a number of seconds above 0"),
                },
                "sinceTime" => match value.parse() {
                    Ok(time) => options.since = Some(time),
                    Err(_) => refuse("a time such as 2026-01-02T15:04:05Z"),
                },
                "stream" => match value.as_str() {
                    "All" | "" => options.stream = None,
                    "Stdout" => options.stream = Some("stdout"),
                    "Stderr" => options.stream = Some("stderr"),
                    _ => refuse("All, Stdout or Stderr"),
                },
                _ => {}
            }
        }
        if options.stream.is_some() && options.tail.is_some() {
            wrong.push("tailLines: cannot be given together with a specific stream".to_owned());
        }
        if wrong.is_empty() { Ok(options) } else { Err(wrong.join("; ")) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_is_read_and_its_mistakes_are_told_at_once() {
        let read =
            |query: &str| LogOptions::read(&crate::server::stream::pairs(query), Timestamp::from_second(1000).unwrap());
        let want = LogOptions {
            follow: true,
            timestamps: true,
            tail: Some(5),
            since: Timestamp::from_second(940).ok(),
            limit: Some(10),
            ..LogOptions::default()
        };
        assert_eq!(read("follow=true&tailLines=5&sinceSeconds=60&timestamps=1&limitBytes=10"), Ok(want));
        let error = "tailLines: \"-1\" is not accepted; give a number of lines; sinceTime: \"x\" is not accepted; give a time such as 2026-01-02T15:04:05Z";
        assert_eq!(read("tailLines=-1&sinceTime=x"), Err(error.to_owned()));
    }
}
