//! Parameters of connections: read from the query with repetition, written back encoded. Used by the plans beside it.

use crate::request::info::decode;
use api::error::ApiError;
use std::fmt::Write;

/// Decoded parameters in the order in which they stand.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Parameters(Vec<(String, String)>);

impl Parameters {
    /// Reads the part of a URL after `?`.
    pub fn new(text: &str) -> Self {
        let decoded = |text: &str| decode(&text.replace('+', " "));
        let pairs = text.split('&').filter(|pair| !pair.is_empty());
        Self(
            pairs
                .map(|pair| pair.split_once('=').unwrap_or((pair, "")))
                .map(|(k, v)| (decoded(k), decoded(v)))
                .collect(),
        )
    }

    /// All values of a parameter.
    pub fn all<'a>(&'a self, key: &'a str) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter(move |(known, _)| known == key).map(|(_, value)| value.as_str())
    }

    /// The first value, if it is not empty.
    pub fn first(&self, key: &str) -> Option<&str> {
        let first = self.0.iter().find(|(known, _)| known == key);
        first.map(|(_, value)| value.as_str()).filter(|value| !value.is_empty())
    }

    /// Upstream's reading of a boolean: there, and neither `0` nor `false`.
    pub fn flag(&self, key: &str) -> bool {
        self.all(key).next().is_some_and(|value| value != "0" && !value.eq_ignore_ascii_case("false"))
    }
}

/// Values that could not be read; reported together.
#[derive(Debug, Default)]
pub struct Unreadable(Vec<String>);

impl Unreadable {
    /// The parameter read by `parse`; one that cannot be read is noted.
    pub fn read<T>(
        &mut self,
        parameters: &Parameters,
        key: &str,
        accepted: &str,
        parse: impl Fn(&str) -> Option<T>,
    ) -> Option<T> {
        let text = parameters.first(key)?;
        let value = parse(text);
        if value.is_none() {
            self.note(key, text, accepted);
        }
        value
    }

    /// Notes a value that is not accepted.
    pub fn note(&mut self, key: &str, text: &str, accepted: &str) {
        self.0.push(format!("{key}: {text:?} is not accepted; give {accepted}"));
    }

    /// 400 if anything was noted.
    pub fn done(self) -> Result<(), ApiError> {
        if self.0.is_empty() { Ok(()) } else { Err(ApiError::bad_request(self.0.join("; "))) }
    }
}

/// A query being written.
#[derive(Debug, Default)]
pub struct Writer(String);

impl Writer {
    /// Adds a pair.
    pub fn add(&mut self, key: &str, value: &str) {
        self.0.push(if self.0.is_empty() { '?' } else { '&' });
        self.0.push_str(&encode(key));
        self.0.push('=');
        self.0.push_str(&encode(value));
    }

    /// `path` followed by the query, if there is one.
    pub fn after(self, path: &str) -> String {
        path.to_owned() + &self.0
    }
}

/// Percent-encodes all that is not unreserved (RFC 3986, section 2.3).
pub fn encode(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            // Writing to a String cannot fail.
            let _ = write!(out, "%{byte:02X}");
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repetition_order_and_absence_are_kept() {
        let read = Parameters::new("command=sh&command=-c&command=a+b%26c&stdin&tty=False&stdout=&x=0");
        assert_eq!(read.all("command").collect::<Vec<_>>(), ["sh", "-c", "a b&c"]);
        let flags = ["stdin", "stdout", "tty", "x", "stderr"].map(|key| read.flag(key));
        assert_eq!(flags, [true, true, false, false, false]);
        assert_eq!(read.first("stdout"), None);
    }

    proptest::proptest! {
        #[test]
        fn what_is_written_is_read_back(pairs in proptest::collection::vec(("\\PC{1,8}", "\\PC{0,12}"), 0..6)) {
            let mut writer = Writer::default();
            for (key, value) in &pairs {
                writer.add(key, value);
            }
            let written = writer.after("/");
            proptest::prop_assert!(written.parse::<http::Uri>().is_ok(), "{}", written);
            let query = written.split_once('?').map_or("", |(_, query)| query);
            proptest::prop_assert_eq!(Parameters::new(query), Parameters(pairs));
        }

        #[test]
        fn no_query_panics(text in "(%|&|=|\\+|\\PC){0,40}") {
            Parameters::new(&text);
        }
    }
}
