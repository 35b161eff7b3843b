//! Readers of single values, for settings that have no type of their own elsewhere. Each error completes "VALUE ...".

use std::{convert::Infallible, path::PathBuf, time::Duration};

/// A path, whatever it is.
pub(crate) fn path(text: &str) -> Result<PathBuf, Infallible> {
    Ok(PathBuf::from(text))
}

/// Texts between commas, without the space around them.
pub(crate) fn words(text: &str) -> Result<Vec<String>, Infallible> {
    Ok(text.split(',').map(str::trim).filter(|word| !word.is_empty()).map(str::to_owned).collect())
}

/// Paths between commas.
pub(crate) fn paths(text: &str) -> Result<Vec<PathBuf>, Infallible> {
    words(text).map(|words| words.into_iter().map(PathBuf::from).collect())
}

/// What [`duration`] accepts.
pub(crate) const DURATION: &str = "a length of time such as 90s or 1h30m";

/// Go's way to write a length of time: `1h30m`, `90s`, `1.5h`, `0`.
pub(crate) fn duration(text: &str) -> Result<Duration, &'static str> {
    api::go_duration::parse(text).ok_or("is no length of time")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn lengths_of_time_are_read_as_go_writes_them() {
        for (text, seconds) in
            [("0", 0.0), ("1h0m0s", 3600.0), ("90s", 90.0), ("1.5h", 5400.0), ("250ms", 0.25), ("1m30s", 90.0)]
        {
            assert_eq!(duration(text).map(|length| length.as_secs_f64()), Ok(seconds), "{text}");
        }
        for text in ["", "5", "h", "-1s", "1d", "1s1", "1e400h", "9999999999999999999h", "1 s"] {
            assert!(duration(text).is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn no_text_is_too_strange(text in ".{0,40}") {
            let _ = duration(&text);
            let _ = words(&text);
        }
    }
}
