//! Lengths of time as Go writes and reads them: `1h30m`, `90s`, `1.5h`, `250ms`, `0`.

use std::time::Duration;

const UNITS: [(&str, i128); 8] = [
    ("ns", 1),
    ("us", 1_000),
    ("µs", 1_000),
    ("μs", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("h", 3_600_000_000_000),
];

/// Nanoseconds of a duration; with a sign, as Go takes one.
pub fn nanoseconds(text: &str) -> Option<i64> {
    let (negative, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    if rest == "0" {
        return Some(0);
    }
    let mut total: i128 = 0;
    let mut parts = 0;
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (number, after) = rest.split_at(end);
        let unit = &after[..after.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(after.len())];
        let (_, nanos) = UNITS.iter().find(|(name, _)| *name == unit)?;
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        let any_digit = number != "." && !number.is_empty();
        let whole = whole.trim_start_matches('0');
        if !any_digit || whole.len() > 19 || fraction.contains('.') {
            return None;
        }
        // More than 18 digits of fraction are below a nanosecond in every unit.
        let fraction = &fraction[..fraction.len().min(18)];
        let scale = 10_i128.pow(u32::try_from(fraction.len()).ok()?);
        let whole: i128 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
        let part: i128 = if fraction.is_empty() { 0 } else { fraction.parse().ok()? };
        total += whole * nanos + part * nanos / scale;
        parts += 1;
        rest = &after[unit.len()..];
    }
    let signed = if negative { -total } else { total };
    if parts == 0 { None } else { i64::try_from(signed).ok() }
}

/// A length of time that is not negative.
pub fn parse(text: &str) -> Option<Duration> {
    nanoseconds(text).and_then(|nanos| u64::try_from(nanos).ok()).map(Duration::from_nanos)
}

/// As Go prints a duration of so many nanoseconds.
pub fn print(nanos: i64) -> String {
    let sign = if nanos < 0 { "-" } else { "" };
    let magnitude = nanos.unsigned_abs();
    let fraction = |value: u64, unit: u64, name: &str| {
        let digits = format!("{:0width$}", value % unit, width = unit.ilog10() as usize);
        let digits = digits.trim_end_matches('0');
        let dot = if digits.is_empty() || unit == 1 { String::new() } else { format!(".{digits}") };
        format!("{}{dot}{name}", value / unit)
    };
    let text = match magnitude {
        0 => "0s".to_owned(),
        1..1_000 => format!("{magnitude}ns"),
        1_000..1_000_000 => fraction(magnitude, 1_000, "µs"),
        1_000_000..1_000_000_000 => fraction(magnitude, 1_000_000, "ms"),
        _ => {
            let (hours, minutes) = (magnitude / 3_600_000_000_000, magnitude / 60_000_000_000 % 60);
            let seconds = fraction(magnitude % 60_000_000_000, 1_000_000_000, "s");
            match (hours, minutes) {
                (0, 0) => seconds,
                (0, _) => format!("{minutes}m{seconds}"),
                _ => format!("{hours}h{minutes}m{seconds}"),
            }
        }
    };
    format!("{sign}{text}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn lengths_of_time_are_read_as_go_reads_them() {
        for (text, milliseconds) in [
            ("0", 0),
            ("5s", 5_000),
            ("1h0m0s", 3_600_000),
            ("1.5h", 5_400_000),
            ("250ms", 250),
            ("1m30s", 90_000),
            (".5s", 500),
            ("+1s", 1_000),
            ("2000000µs", 2_000),
            ("00000000000000000000001s", 1_000),
        ] {
            assert_eq!(parse(text), Some(Duration::from_millis(milliseconds)), "{text}");
        }
        for text in [
            "",
            "5",
            "s",
            "-1s",
            "1d",
            "1s1",
            "1e400h",
            "99999999999999999999h",
            "9999999h",
            "1 s",
            ".s",
            "..5s",
            "1.2.3s",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn what_is_printed_is_read(nanos: i64) {
            prop_assert_eq!(nanoseconds(&print(nanos)), Some(nanos));
        }

        #[test]
        fn no_text_is_too_strange(text in ".{0,40}") {
            let _ = nanoseconds(&text);
        }
    }
}
