//! Checks of single fields that many kinds share: each adds its mistakes to a list, with the path of the field.
//!
//! Called by the validation of each kind. Addresses are strict when new; a value that was stored before passes as it is.

use super::names;
use crate::{error::FieldError, object::Fields, path::Path};
use serde_json::Value;
use std::net::IpAddr;

/// Mistakes found so far.
pub type Errors = Vec<FieldError>;

/// Adds one mistake for each text in `wrong`.
pub fn all_of(errors: &mut Errors, path: &Path, value: &str, wrong: Vec<String>) {
    errors.extend(wrong.into_iter().map(|text| FieldError::invalid(path, value, text)));
}

/// A DNS-1123 label.
pub fn dns_label(errors: &mut Errors, path: &Path, value: &str) {
    all_of(errors, path, value, names::dns_label(value, false));
}

/// A DNS-1123 subdomain.
pub fn dns_subdomain(errors: &mut Errors, path: &Path, value: &str) {
    all_of(errors, path, value, names::dns_subdomain(value, false));
}

pub fn qualified_name(errors: &mut Errors, path: &Path, value: &str) {
    all_of(errors, path, value, names::qualified_name(value));
}

/// A path segment that must be given.
pub fn required_segment(errors: &mut Errors, path: &Path, value: &str) {
    if value.is_empty() {
        errors.push(FieldError::required(path, ""));
    }
    all_of(errors, path, value, names::path_segment(value));
}

/// Label keys and values; mistakes are reported at the map, as upstream does.
pub fn labels(errors: &mut Errors, path: &Path, labels: &Value) {
    for (key, value) in labels.as_object().into_iter().flatten() {
        qualified_name(errors, path, key);
        let value = value.as_str().unwrap_or_default();
        all_of(errors, path, value, names::label_value(value));
    }
}

/// One of the accepted words; must be given.
pub fn required_one_of(errors: &mut Errors, path: &Path, value: &str, accepted: &[&str]) {
    if value.is_empty() {
        errors.push(FieldError::required(path, format!("one of {}", accepted.join(", "))));
    } else {
        one_of(errors, path, value, accepted);
    }
}

/// One of the accepted words.
pub fn one_of(errors: &mut Errors, path: &Path, value: &str, accepted: &[&str]) {
    if !accepted.contains(&value) {
        errors.push(FieldError::not_supported(path, value, accepted));
    }
}

/// `protocol` of a port.
pub fn protocol(errors: &mut Errors, path: &Path, value: &str) {
    required_one_of(errors, path, value, &["SCTP", "TCP", "UDP"]);
}

/// A port number, 1 to 65535.
pub fn port(errors: &mut Errors, path: &Path, value: i64) {
    in_range(errors, path, value, 1, 65535);
}

/// A port number or the name of a port.
pub fn port_or_name(errors: &mut Errors, path: &Path, value: &Value) {
    match value.as_str() {
        Some(name) => all_of(errors, path, name, names::port_name(name)),
        None => port(errors, path, value.as_i64().unwrap_or_default()),
    }
}

/// A number between two bounds, both accepted.
pub fn in_range(errors: &mut Errors, path: &Path, value: i64, least: i64, most: i64) {
    if !(least..=most).contains(&value) {
        errors.push(FieldError::invalid(path, value, format!("must be between {least} and {most}")));
    }
}

/// The number at `field`, if there is one, is not negative.
pub fn not_negative(errors: &mut Errors, path: &Path, object: &Value, field: &str) {
    if let Some(value) = object.int_at(field).filter(|value| *value < 0) {
        errors.push(FieldError::invalid(&path.child(field), value, "must be 0 or more"));
    }
}

/// Each of the numbers at `fields`, if there, is not negative.
pub fn none_negative(errors: &mut Errors, path: &Path, object: &Value, fields: &[&str]) {
    for field in fields {
        not_negative(errors, path, object, field);
    }
}

/// A number from 0 on, or a percentage.
pub fn int_or_percent(errors: &mut Errors, path: &Path, value: &Value) {
    match value.as_str() {
        Some(text) if percent(text).is_none() => {
            errors.push(FieldError::invalid(path, text, "must be a number or a percentage such as '25%'"));
        }
        Some(_) => {}
        None if value.as_i64().unwrap_or_default() < 0 => {
            errors.push(FieldError::invalid(path, value.clone(), "must be 0 or more"));
        }
        None => {}
    }
}

/// A percentage of at most 100.
pub fn at_most_100_percent(errors: &mut Errors, path: &Path, value: &Value) {
    if value.as_str().and_then(percent).is_some_and(|n| n > 100) {
        errors.push(FieldError::invalid(path, value.clone(), "must be at most 100%"));
    }
}

/// The number, or the number before the percent sign; 0 for anything else.
pub fn number_or_percent(value: &Value) -> i64 {
    value.as_str().map_or_else(|| value.as_i64(), percent).unwrap_or_default()
}

fn percent(text: &str) -> Option<i64> {
    let digits = text.strip_suffix('%')?;
    if digits.bytes().all(|b| b.is_ascii_digit()) { digits.parse().ok() } else { None }
}

/// A field that an update leaves as it was. Null and empty count as absent.
pub fn immutable(errors: &mut Errors, path: &Path, new: &Value, old: &Value) {
    if !same(new, old) {
        errors.push(FieldError::invalid(path, new.clone(), "field is immutable; delete the object and make it anew"));
    }
}

/// Whether two values mean the same: absent, null, empty lists and empty objects do not differ.
pub fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Object(x), Value::Object(y)) => {
            let covers = |x: &serde_json::Map<String, Value>, y: &serde_json::Map<String, Value>| {
                x.iter().all(|(key, value)| same(value, y.get(key).unwrap_or(&Value::Null)))
            };
            covers(x, y) && covers(y, x)
        }
        (Value::Array(x), Value::Array(y)) => x.len() == y.len() && x.iter().zip(y).all(|(x, y)| same(x, y)),
        _ => a == b || is_nothing(a) && is_nothing(b),
    }
}

fn is_nothing(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(list) => list.is_empty(),
        Value::Object(map) => map.values().all(is_nothing),
        _ => false,
    }
}

/// An address: strict, unless the same text was accepted before (`old`). Gives the address back when it reads.
pub fn ip<'a>(errors: &mut Errors, path: &Path, value: &str, old: impl IntoIterator<Item = &'a str>) -> Option<IpAddr> {
    if old.into_iter().any(|old| old == value) {
        return net::legacy::parse_stored_ip(value).ok();
    }
    net::parse_ip(value).map_err(|error| errors.push(FieldError::invalid(path, value, error.to_string()))).ok()
}

/// A CIDR: strict, unless the same text was accepted before (`old`).
pub fn cidr<'a>(
    errors: &mut Errors,
    path: &Path,
    value: &str,
    old: impl IntoIterator<Item = &'a str>,
) -> Option<net::Cidr> {
    if old.into_iter().any(|old| old == value) {
        return net::legacy::parse_stored_cidr(value).ok();
    }
    value.parse::<net::Cidr>().map_err(|error| errors.push(FieldError::invalid(path, value, error.to_string()))).ok()
}

/// An address that traffic can be sent to from elsewhere.
pub fn endpoint_ip(errors: &mut Errors, path: &Path, value: &str, ip: IpAddr) {
    let link_local = match ip {
        IpAddr::V4(ip) => ip.is_link_local(),
        IpAddr::V6(ip) => ip.is_unicast_link_local(),
    };
    let link_local_multicast = match ip {
        IpAddr::V4(ip) => ip.octets()[..3] == [224, 0, 0],
        IpAddr::V6(ip) => ip.segments()[0] & 0xff0f == 0xff02,
    };
    for (wrong, what) in [
        (ip.is_unspecified(), "the unspecified address"),
        (ip.is_loopback(), "a loopback address (127.0.0.0/8, ::1)"),
        (link_local, "a link-local address (169.254.0.0/16, fe80::/10)"),
        (link_local_multicast, "a link-local multicast address (224.0.0.0/24, ff02::/16)"),
    ] {
        if wrong {
            errors.push(FieldError::invalid(path, value, format!("cannot be {what}")));
        }
    }
}

/// At most one value of each family. `what` is in the plural: `addresses`.
pub fn one_per_family<T: net::HasFamily>(errors: &mut Errors, path: &Path, value: &Value, parsed: &[T], what: &str) {
    let families: Vec<_> = parsed.iter().map(T::family).collect();
    if families.len() > 2 || families.len() == 2 && families[0] == families[1] {
        errors.push(FieldError::invalid(
            path,
            value.clone(),
            format!("accepted are one or two {what}, one of each family"),
        ));
    }
}

/// Conditions as new kinds have them: each type once, with a status, a reason and a time.
pub fn conditions(errors: &mut Errors, path: &Path, conditions: &[Value]) {
    let is_reason = |text: &str| {
        let bytes = text.as_bytes();
        let inner = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b',' | b':');
        bytes.first().is_some_and(u8::is_ascii_alphabetic)
            && bytes.iter().all(inner)
            && bytes.last().is_some_and(|b| b.is_ascii_alphanumeric() || *b == b'_')
    };
    for (i, condition) in conditions.iter().enumerate() {
        let (at, kind, reason) = (path.index(i), condition.str_at("type"), condition.str_at("reason"));
        if conditions[..i].iter().any(|other| other.str_at("type") == kind) {
            errors.push(FieldError::duplicate(&at, kind));
        }
        match kind {
            "" => errors.push(FieldError::required(&at.child("type"), "")),
            kind => qualified_name(errors, &at.child("type"), kind),
        }
        required_one_of(errors, &at.child("status"), condition.str_at("status"), &["False", "True", "Unknown"]);
        not_negative(errors, &at, condition, "observedGeneration");
        if condition.str_at("lastTransitionTime").is_empty() {
            errors.push(FieldError::required(&at.child("lastTransitionTime"), ""));
        }
        match reason {
            "" => errors.push(FieldError::required(&at.child("reason"), "")),
            reason if !is_reason(reason) => {
                let text =
                    "accepted is a word of letters, digits, '_', ',' and ':', a letter first, such as 'PodsReady'";
                errors.push(FieldError::invalid(&at.child("reason"), reason, text));
            }
            _ => {}
        }
        for (field, most) in [("reason", 1024), ("message", 32768)] {
            if condition.str_at(field).len() > most {
                errors.push(FieldError::too_long(&at.child(field), most));
            }
        }
    }
}

/// A name of a host that is a DNS name and not an address.
pub fn hostname(errors: &mut Errors, path: &Path, value: &str) {
    dns_subdomain(errors, path, value);
    not_an_address(errors, path, value);
}

/// Not an IP address in any spelling.
pub fn not_an_address(errors: &mut Errors, path: &Path, value: &str) {
    if net::legacy::parse_stored_ip(value).is_ok() {
        errors.push(FieldError::invalid(path, value, "must be a DNS name, not an IP address"));
    }
}

/// The texts in a list.
pub fn texts<'a>(object: &'a Value, path: &str) -> Vec<&'a str> {
    object.list_at(path).iter().filter_map(Value::as_str).collect()
}

/// Advice on the spelling of an address.
pub fn ip_advice(path: &Path, value: &str) -> Option<String> {
    net::legacy::ip_spelling(value).map(|spelling| format!("{path}: {spelling}"))
}

/// Advice on the spelling of a CIDR.
pub fn cidr_advice(path: &Path, value: &str) -> Option<String> {
    net::legacy::cidr_spelling(value).map(|spelling| format!("{path}: {spelling}"))
}
