//! Conversions between types that `kube-cel` does not have: `string(true)`, `int(duration('1s'))`, `timestamp(0)`.

use super::{
    eval::{self, Evaluated, error, no_overload},
    function,
    value::text,
};
use jiff::Timestamp;
use kube_cel::cel::Value;

/// The functions that convert.
pub(super) const CONVERSIONS: [&str; 8] = ["bool", "bytes", "double", "duration", "int", "string", "timestamp", "uint"];

/// Carries out a conversion.
pub(super) fn convert(name: &str, value: &Value) -> Evaluated {
    match (name, value) {
        ("bool", Value::Bool(_))
        | ("bytes", Value::Bytes(_))
        | ("double", Value::Float(_))
        | ("duration", Value::Duration(_))
        | ("int", Value::Int(_))
        | ("string", Value::String(_))
        | ("timestamp", Value::Timestamp(_))
        | ("uint", Value::UInt(_)) => Ok(value.clone()),
        ("bool", Value::String(given)) => match given.as_str() {
            "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(Value::Bool(true)),
            "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(Value::Bool(false)),
            _ => Err(error("type conversion error from 'string' to 'bool'")),
        },
        ("string", Value::Bool(value)) => Ok(text(&value.to_string())),
        ("string", Value::Duration(duration)) => {
            let nanoseconds = duration.num_nanoseconds().ok_or_else(|| error("integer overflow"))?;
            Ok(text(&format!("{}s", seconds(nanoseconds))))
        }
        ("string", Value::Timestamp(time)) if time.offset().local_minus_utc() == 0 => {
            let time = Timestamp::new(time.timestamp(), i32::try_from(time.timestamp_subsec_nanos()).unwrap_or(0));
            time.map(|time| text(&time.to_string())).map_err(|_| error("timestamp overflow"))
        }
        ("int", Value::Duration(duration)) => {
            duration.num_nanoseconds().map(Value::Int).ok_or_else(|| error("integer overflow"))
        }
        ("int", Value::Timestamp(time)) => Ok(Value::Int(time.timestamp())),
        ("timestamp", Value::Int(since)) => {
            let time = Timestamp::from_second(*since).map_err(|_| error("timestamp overflow"))?;
            eval::bridge(&function::call(name, false, 1), vec![text(&time.to_string())])
        }
        ("bool", _) => Err(no_overload(name)),
        _ => eval::bridge(&function::call(name, false, 1), vec![value.clone()]),
    }
}

/// Seconds with as many decimals as needed.
fn seconds(nanoseconds: i64) -> String {
    let sign = if nanoseconds < 0 { "-" } else { "" };
    let (whole, part) = (nanoseconds.unsigned_abs() / 1_000_000_000, nanoseconds.unsigned_abs() % 1_000_000_000);
    if part == 0 {
        return format!("{sign}{whole}");
    }
    let part = format!("{part:09}");
    format!("{sign}{whole}.{}", part.trim_end_matches('0'))
}
