//! Readers of the texts of flags. Each error completes "VALUE ...".

use crate::flag::Form;
use net::{DualStack, flags};
use runtime::log::Level;
use std::{path::PathBuf, str::FromStr, time::Duration};

/// What has a form as text.
pub(crate) fn parsed<T: FromStr<Err: ToString>>(text: &str) -> Result<T, String> {
    text.parse().map_err(|error: T::Err| error.to_string())
}

/// One value, or two of different families.
pub(crate) fn one_or_pair<T: flags::FlagValue>(flag: &'static str, text: &str) -> Result<DualStack<T>, String> {
    flags::one_or_pair(flag, text).map_err(|mistakes| mistakes.to_string())
}

pub(crate) fn text(text: &str) -> Result<String, String> {
    Ok(text.to_owned())
}

pub(crate) fn word(text: &str) -> Result<String, String> {
    if text.trim().is_empty() { Err("is empty".to_owned()) } else { Ok(text.to_owned()) }
}

/// Texts between commas, without the space around them.
pub(crate) fn words(text: &str) -> Result<Vec<String>, String> {
    Ok(text.split(',').map(str::trim).filter(|word| !word.is_empty()).map(str::to_owned).collect())
}

pub(crate) fn path(text: &str) -> Result<PathBuf, String> {
    Ok(PathBuf::from(text))
}

/// Paths between commas.
pub(crate) fn paths(text: &str) -> Result<Vec<PathBuf>, String> {
    words(text).map(|words| words.into_iter().map(PathBuf::from).collect())
}

/// What is in the file of this name.
pub(crate) fn content(path: &str) -> Result<String, String> {
    std::fs::read_to_string(path).map_err(|error| error.to_string())
}

/// The same as bytes.
pub(crate) fn bytes(path: &str) -> Result<Vec<u8>, String> {
    std::fs::read(path).map_err(|error| error.to_string())
}

/// What [`duration`] accepts.
pub(crate) const DURATION: &str = "a length of time such as 90s or 1h30m";

/// Go's way to write a length of time: `1h30m`, `90s`, `1.5h`, `0`.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    api::go_duration::parse(text).ok_or_else(|| "is no length of time".to_owned())
}

/// As [`duration`] reads it.
#[allow(clippy::trivially_copy_pass_by_ref, reason = "the form that flags of all types have")]
pub(crate) fn typed_duration(time: &Duration) -> String {
    api::go_duration::print(time.as_nanos().try_into().unwrap_or(i64::MAX))
}

/// A length of time that something can be done in again and again.
pub(crate) fn period(text: &str) -> Result<Duration, String> {
    match duration(text)? {
        time if time.is_zero() => Err("must be longer than 0".to_owned()),
        time => Ok(time),
    }
}

pub(crate) fn positive(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(count) if count > 0 => Ok(count),
        _ => Err("is not a number from 1 on".to_owned()),
    }
}

/// Threads that answer DNS.
pub(crate) fn threads(text: &str) -> Result<usize, String> {
    text.parse().ok().filter(|count| (1..=1024).contains(count)).ok_or_else(|| "is out of range".to_owned())
}

pub(crate) fn form(text: &str) -> Result<Form, String> {
    match text {
        "text" => Ok(Form::Text),
        "json" => Ok(Form::Json),
        _ => Err("is no form that this can have".to_owned()),
    }
}

/// A number is Kubernetes' `-v`.
pub(crate) fn level(text: &str) -> Result<Level, String> {
    match text.parse::<u8>() {
        Ok(verbosity) => Ok(Level::from_verbosity(verbosity)),
        Err(_) => parsed(text),
    }
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
