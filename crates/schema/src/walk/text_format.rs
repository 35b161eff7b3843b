//! The rules behind formats of text, one function each, as strict and as lax as the Go functions that upstream calls.

use api::{
    go_duration,
    kinds::names::{is_dns_label, is_dns_subdomain},
};
use regex::Regex;
use std::{net::Ipv6Addr, sync::LazyLock};

/// Name and rule of a format.
type Rule = (&'static str, fn(&str) -> bool);

/// Formats by name without dashes.
pub(super) const RULES: &[Rule] = &[
    ("bsonobjectid", |text| text.len() == 24 && is_hex(text)),
    ("uri", is_request_uri),
    ("email", is_email),
    ("hostname", is_hostname),
    ("ipv4", is_ipv4),
    ("ipv6", |text| text.contains(':') && is_ipv6(text)),
    ("cidr", is_cidr),
    ("mac", is_mac),
    ("uuid", |text| is_uuid(text, None, false)),
    ("uuid3", |text| is_uuid(text, Some('3'), false)),
    ("uuid4", |text| is_uuid(text, Some('4'), true)),
    ("uuid5", |text| is_uuid(text, Some('5'), true)),
    ("isbn", |text| is_isbn10(text) || is_isbn13(text)),
    ("isbn10", is_isbn10),
    ("isbn13", is_isbn13),
    ("creditcard", is_credit_card),
    ("ssn", |text| SSN.is_match(text)),
    ("hexcolor", |text| {
        let digits = text.strip_prefix('#').unwrap_or(text);
        matches!(digits.len(), 3 | 6) && is_hex(digits)
    }),
    ("rgbcolor", is_rgb),
    ("k8sshortname", is_dns_label),
    ("k8slongname", is_dns_subdomain),
];

static SSN: LazyLock<Regex> = LazyLock::new(|| fixed("^[0-9]{3}[- ]?[0-9]{2}[- ]?[0-9]{4}$"));
static HOST_CHARACTER: LazyLock<Regex> = LazyLock::new(|| fixed(r"^[a-zA-Z0-9\p{S}\p{L}]$"));
static TIME: LazyLock<Regex> =
    LazyLock::new(|| fixed("^([0-9]{2}):([0-9]{2}):([0-9]{2})(.[0-9]+)?(z|[+-][0-9]{2}:[0-9]{2})$"));
static AMOUNT: LazyLock<Regex> = LazyLock::new(|| fixed("([0-9]+)[ \t\n\r]*([A-Za-zµ]+)"));

fn fixed(pattern: &str) -> Regex {
    Regex::new(pattern).expect("the patterns of this file compile; a test uses each")
}

fn is_hex(text: &str) -> bool {
    text.bytes().all(|b| b.is_ascii_hexdigit())
}

/// A request URI: absolute, or a path from the root; escapes must be whole.
fn is_request_uri(text: &str) -> bool {
    let clean = text.bytes().all(|b| b > b' ' && b != 0x7f) && escapes_are_whole(text);
    let Some((scheme, rest)) = text.split_once(':').filter(|(scheme, _)| is_scheme(scheme)) else {
        return clean && text.starts_with('/');
    };
    let authority = rest.strip_prefix("//").map_or("", |rest| rest.split(['/', '?']).next().unwrap_or_default());
    let host = authority.rsplit('@').next().unwrap_or_default();
    let port = match host.rsplit_once(']') {
        Some((_, port)) => port.strip_prefix(':').or_else(|| port.is_empty().then_some("")),
        None => Some(host.split_once(':').map_or("", |(_, port)| port)),
    };
    let host_is_plain = !host.contains(['\\', '"', '<', '>', '^', '`', '{', '|', '}']);
    clean && !scheme.is_empty() && host_is_plain && port.is_some_and(|port| port.bytes().all(|b| b.is_ascii_digit()))
}

fn is_scheme(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c))
}

fn escapes_are_whole(text: &str) -> bool {
    text.split('%').skip(1).all(|after| after.len() >= 2 && after.as_bytes()[..2].iter().all(u8::is_ascii_hexdigit))
}

/// `ann@example.org` or `Ann <ann@example.org>`.
fn is_email(text: &str) -> bool {
    let text = text.trim();
    let address = match text.split_once('<') {
        Some((_, rest)) => rest.strip_suffix('>').unwrap_or_default(),
        None => text,
    };
    let Some((local, domain)) = address.rsplit_once('@') else { return false };
    let is_atom = |text: &str| {
        !text.is_empty()
            && text.chars().all(|c| c.is_alphanumeric() || "!#$%&'*+-/=?^_`{|}~".contains(c) || !c.is_ascii())
    };
    let quoted = local.len() > 2 && local.starts_with('"') && local.ends_with('"');
    let literal = domain.len() > 2 && domain.starts_with('[') && domain.ends_with(']');
    (quoted || local.split('.').all(is_atom)) && (literal || domain.split('.').all(is_atom))
}

/// A single label may hold one dash, in second place; of several, the last has two letters or more and letters only.
fn is_hostname(text: &str) -> bool {
    let known = |c: char| HOST_CHARACTER.is_match(c.encode_utf8(&mut [0; 4]));
    let labels: Vec<&str> = text.split('.').collect();
    if text.len() > 255 || labels.iter().any(|label| label.len() > 63) {
        return false;
    }
    let [above @ .., last] = labels.as_slice() else { return false };
    if above.is_empty() {
        let mut chars = last.chars();
        let first = chars.next().is_some_and(known);
        let rest = chars.as_str();
        return first && rest.strip_prefix('-').unwrap_or(rest).chars().all(known);
    }
    let is_inner = |label: &&str| {
        let ends = [label.chars().next(), label.chars().next_back()];
        ends.into_iter().all(|end| end.is_some_and(known)) && label.chars().all(|c| c == '-' || known(c))
    };
    above.iter().all(is_inner) && last.chars().count() >= 2 && last.chars().all(char::is_alphabetic)
}

/// Four decimal numbers, leading zeros accepted as old Go versions did; or an IPv6 address with a dotted tail.
fn is_ipv4(text: &str) -> bool {
    let part = |part: &str| {
        !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit()) && part.parse::<u32>().is_ok_and(|n| n <= 255)
    };
    (text.split('.').count() == 4 && text.split('.').all(part)) || (text.contains('.') && is_ipv6(text))
}

fn is_ipv6(text: &str) -> bool {
    text.parse::<Ipv6Addr>().is_ok()
}

fn is_cidr(text: &str) -> bool {
    let Some((address, length)) = text.split_once('/') else { return false };
    let most = if address.contains(':') { 128 } else { 32 };
    let plain = !length.is_empty() && length.bytes().all(|b| b.is_ascii_digit());
    let address_fits = if most == 128 { is_ipv6(address) } else { is_ipv4(address) };
    address_fits && plain && length.parse::<u32>().is_ok_and(|n| n <= most)
}

/// 6, 8 or 20 octets, in twos with colons or dashes or in fours with dots.
fn is_mac(text: &str) -> bool {
    let grouped = |separator: char, digits: usize, counts: [usize; 3]| {
        let parts: Vec<&str> = text.split(separator).collect();
        counts.contains(&parts.len()) && parts.iter().all(|part| part.len() == digits && is_hex(part))
    };
    grouped(':', 2, [6, 8, 20]) || grouped('-', 2, [6, 8, 20]) || grouped('.', 4, [3, 4, 10])
}

/// 32 hexadecimal digits with dashes or not between the groups; the version and the variant are digits 13 and 17.
fn is_uuid(text: &str, version: Option<char>, variant: bool) -> bool {
    let mut rest = text;
    let mut digits = String::with_capacity(32);
    for (i, length) in [8, 4, 4, 4, 12].into_iter().enumerate() {
        if i > 0 {
            rest = rest.strip_prefix('-').unwrap_or(rest);
        }
        let Some(group) = rest.get(..length).filter(|group| is_hex(group)) else { return false };
        digits.push_str(group);
        rest = &rest[length..];
    }
    let digit = |at: usize| digits.as_bytes()[at].to_ascii_lowercase() as char;
    rest.is_empty()
        && version.is_none_or(|version| digit(12) == version)
        && (!variant || matches!(digit(16), '8' | '9' | 'a' | 'b'))
}

fn digits_of(text: &str) -> String {
    text.chars().filter(|c| !matches!(c, ' ' | '-')).collect()
}

fn is_isbn10(text: &str) -> bool {
    let digits = digits_of(text);
    let value = |(i, c): (usize, char)| match c {
        'X' if i == 9 => Some(10),
        c => c.to_digit(10),
    };
    let values: Option<Vec<u32>> = digits.chars().enumerate().map(value).collect();
    values.is_some_and(|values| {
        values.len() == 10 && values.iter().zip(1..).map(|(value, weight)| value * weight).sum::<u32>() % 11 == 0
    })
}

fn is_isbn13(text: &str) -> bool {
    let values: Option<Vec<u32>> = digits_of(text).chars().map(|c| c.to_digit(10)).collect();
    values.is_some_and(|values| {
        values.len() == 13
            && values.iter().zip([1, 3].iter().cycle()).map(|(value, weight)| value * weight).sum::<u32>() % 10 == 0
    })
}

/// The number ranges of the known issuers, and the check digit.
fn is_credit_card(text: &str) -> bool {
    let digits: Vec<u32> = text.chars().filter_map(|c| c.to_digit(10)).collect();
    let number = |length: usize| digits.iter().take(length).fold(0, |sum, digit| sum * 10 + digit);
    let known = matches!(
        (digits.len(), number(4)),
        (13 | 16, 4000..=4999)
            | (16, 5100..=5599 | 6011 | 6500..=6599 | 3500..=3599)
            | (15, 3400..=3499 | 3700..=3799 | 2131 | 1800)
            | (14, 3000..=3059 | 3600..=3699 | 3800..=3899)
    );
    let doubled = |(i, digit): (usize, &u32)| match i % 2 {
        0 => *digit,
        _ => digit * 2 / 10 + digit * 2 % 10,
    };
    known && digits.iter().rev().enumerate().map(doubled).sum::<u32>() % 10 == 0
}

fn is_rgb(text: &str) -> bool {
    let Some(inside) = text.strip_prefix("rgb(").and_then(|text| text.strip_suffix(')')) else { return false };
    let part = |part: &str| {
        let part = part.trim();
        !part.is_empty() && (part == "0" || !part.starts_with('0')) && part.parse::<u8>().is_ok()
    };
    inside.split(',').count() == 3 && inside.split(',').all(part)
}

/// Standard alphabet, padded; upstream does not take the empty text for it.
pub(super) fn is_base64(text: &str) -> bool {
    let data = text.trim_end_matches('=');
    let known = |b: u8| b.is_ascii_alphanumeric() || b == b'+' || b == b'/';
    !data.is_empty() && text.len().is_multiple_of(4) && text.len() - data.len() <= 2 && data.bytes().all(known)
}

pub(super) fn is_date(text: &str) -> bool {
    text.len() == 10 && text.is_ascii() && text.as_bytes()[4] == b'-' && text.parse::<jiff::civil::Date>().is_ok()
}

/// Hours, minutes and seconds are compared as text with 23, 59 and 59, so leap seconds are refused.
pub(super) fn is_date_time(text: &str) -> bool {
    let text = text.to_lowercase();
    let mut parts = text.split('t');
    let (Some(date), Some(time)) = (parts.next(), parts.next()) else { return false };
    let Some(found) = TIME.captures(time) else { return false };
    is_date(date) && &found[1] <= "23" && &found[2] <= "59" && &found[3] <= "59"
}

/// Go's durations, or a number and the name of a unit somewhere in the text (`22 ns`, `3 weeks`).
pub(super) fn is_duration(text: &str) -> bool {
    go_duration::nanoseconds(text).is_some()
        || AMOUNT.captures_iter(text).any(|found| is_unit(&found[2].to_lowercase()))
}

fn is_unit(name: &str) -> bool {
    // The last word of each may be cut short by the schema's author: "minutes" starts with "min".
    const EXACT: [&str; 12] = ["ns", "us", "µs", "ms", "s", "m", "h", "hr", "d", "w", "wk", "sec"];
    const STEMS: [&str; 8] = ["nano", "micro", "milli", "sec", "min", "hour", "day", "week"];
    EXACT.contains(&name) || STEMS.iter().any(|stem| name.starts_with(stem))
}
