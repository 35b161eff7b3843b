//! `format`: the ones that Kubernetes enforces. Others are documentation and are dropped when a schema is read.

use super::{number, text_format};
use crate::structural::Kind;
use serde_json::Number;

/// A format with a meaning.
#[derive(Clone, Copy, Debug)]
pub enum Format {
    /// A whole number of 32 bits.
    Int32,
    /// A whole number of 64 bits.
    Int64,
    /// A number that fits single precision.
    Float,
    Double,
    /// RFC 3339 full-date.
    Date,
    /// RFC 3339 date-time.
    DateTime,
    /// `1h30m`, or `90 minutes`.
    Duration,
    /// Base64.
    Byte,
    /// Any other format of text, by its name without dashes and its rule.
    Text(&'static str, fn(&str) -> bool),
}

impl Format {
    /// The format `name` on a value of this kind, if it is enforced there. Dashes do not count: `date-time` is `datetime`.
    /// But only to rules it is a time when it is spelt like that.
    pub fn of(name: &str, kind: Option<Kind>) -> Option<Self> {
        match (kind, name) {
            (Some(Kind::Integer), "int32") => Some(Self::Int32),
            (Some(Kind::Integer), "int64") => Some(Self::Int64),
            (Some(Kind::Number), "float") => Some(Self::Float),
            (Some(Kind::Number), "double") => Some(Self::Double),
            (None | Some(Kind::String), "date") => Some(Self::Date),
            (None | Some(Kind::String), "date-time") => Some(Self::DateTime),
            (None | Some(Kind::String), "duration") => Some(Self::Duration),
            (None | Some(Kind::String), "byte") => Some(Self::Byte),
            (None | Some(Kind::String), name) => match name.replace('-', "").as_str() {
                "date" => Some(Self::Text("date", text_format::is_date)),
                "datetime" => Some(Self::Text("datetime", text_format::is_date_time)),
                "duration" => Some(Self::Text("duration", text_format::is_duration)),
                "byte" => Some(Self::Text("byte", text_format::is_base64)),
                name => text_format::RULES.iter().find(|rule| rule.0 == name).map(|rule| Self::Text(rule.0, rule.1)),
            },
            _ => None,
        }
    }

    /// For messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::Int32 => "int32",
            Self::Int64 => "int64",
            Self::Float => "float",
            Self::Double => "double",
            Self::Date => "date",
            Self::DateTime => "date-time",
            Self::Duration => "duration",
            Self::Byte => "byte",
            Self::Text(name, _) => name,
        }
    }

    /// Whether a number has this format; formats of text say nothing about numbers.
    pub fn fits_number(self, given: &Number) -> bool {
        match self {
            Self::Int32 => number::whole(given).is_none_or(|n| i32::try_from(n).is_ok()),
            Self::Int64 => number::whole(given).is_none_or(|n| i64::try_from(n).is_ok()),
            Self::Float => given.as_f64().is_none_or(|n| n.abs() <= f64::from(f32::MAX)),
            _ => true,
        }
    }

    /// Whether a text has this format; formats of numbers say nothing about text.
    pub fn fits_text(self, text: &str) -> bool {
        match self {
            Self::Int32 | Self::Int64 | Self::Float | Self::Double => true,
            Self::Date => text_format::is_date(text),
            Self::DateTime => text_format::is_date_time(text),
            Self::Duration => text_format::is_duration(text),
            Self::Byte => text_format::is_base64(text),
            Self::Text(_, rule) => rule(text),
        }
    }
}
