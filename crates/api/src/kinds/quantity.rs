//! Amounts such as `500m` and `1Gi`, read to be compared.
//!
//! Objects keep the text; validation of resources, quality-of-service classes and columns need the number.

/// A billionth, the smallest unit that the API keeps.
const NANO: i128 = 1_000_000_000;

/// The amount in billionths, rounded up; none when the text is no amount or too big to tell.
pub fn nanos(text: &str) -> Option<i128> {
    let (negative, rest) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
    let (digits, suffix) = rest.split_at(end);
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    if whole.is_empty() && fraction.is_empty() || fraction.contains('.') {
        return None;
    }
    let mantissa: i128 = format!("0{whole}{fraction}").parse().ok()?;
    let (numerator, denominator) = unit(suffix)?;
    let scale = 10_i128.checked_pow(u32::try_from(fraction.len()).ok()?)?;
    let top = mantissa.checked_mul(numerator)?.checked_mul(NANO)?;
    let bottom = denominator.checked_mul(scale)?;
    let amount = top / bottom + i128::from(top % bottom != 0);
    Some(if negative { -amount } else { amount })
}

/// Whether the amount is a whole number.
pub fn is_whole(text: &str) -> bool {
    nanos(text).is_some_and(is_whole_nanos)
}

/// Whether an amount in billionths is a whole number.
pub fn is_whole_nanos(nanos: i128) -> bool {
    nanos % NANO == 0
}

/// Whether the text counts in powers of two (`Ki`, `Mi`).
pub fn is_binary(text: &str) -> bool {
    text.ends_with('i')
}

/// The text of an amount in billionths, as short as it is exact.
pub fn text(nanos: i128, binary: bool) -> String {
    const DECIMAL: [&str; 10] = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"];
    const BINARY: [&str; 7] = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
    let shorten = |mut number: i128, step: i128, suffixes: &[&str]| {
        let mut power = 0;
        while number != 0 && number % step == 0 && power + 1 < suffixes.len() {
            number /= step;
            power += 1;
        }
        format!("{number}{}", if number == 0 { "" } else { suffixes[power] })
    };
    if binary && is_whole_nanos(nanos) && nanos / NANO >= 1024 {
        return shorten(nanos / NANO, 1024, &BINARY);
    }
    shorten(nanos, 1000, &DECIMAL)
}

/// The text of an amount with nothing below a thousandth, rounded up; none when that changes nothing.
pub fn rounded_to_milli(amount: &str) -> Option<String> {
    const MILLI: i128 = NANO / 1000;
    let exact = nanos(amount)?;
    let rest = exact.rem_euclid(MILLI);
    (rest != 0).then(|| text(exact - rest + MILLI, is_binary(amount)))
}

/// A suffix as a fraction.
fn unit(suffix: &str) -> Option<(i128, i128)> {
    let binary = |power: u32| 1_i128 << (10 * power);
    Some(match suffix {
        "" => (1, 1),
        "n" => (1, 1_000_000_000),
        "u" => (1, 1_000_000),
        "m" => (1, 1000),
        "k" => (1000, 1),
        "M" => (1_000_000, 1),
        "G" => (1_000_000_000, 1),
        "T" => (1_000_000_000_000, 1),
        "P" => (1_000_000_000_000_000, 1),
        "E" => (1_000_000_000_000_000_000, 1),
        "Ki" => (binary(1), 1),
        "Mi" => (binary(2), 1),
        "Gi" => (binary(3), 1),
        "Ti" => (binary(4), 1),
        "Pi" => (binary(5), 1),
        "Ei" => (binary(6), 1),
        _ => {
            let exponent = suffix.strip_prefix(['e', 'E'])?.parse::<i8>().ok()?;
            let power = 10_i128.checked_pow(u32::from(exponent.unsigned_abs()))?;
            if exponent < 0 { (1, power) } else { (power, 1) }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn amounts_compare_across_units() {
        for (a, b) in [
            ("1", "1000m"),
            ("0.5", "500m"),
            ("1Ki", "1024"),
            ("1Gi", "1024Mi"),
            ("1.5Gi", "1536Mi"),
            ("1e3", "1k"),
            ("1E", "1e18"),
            ("100n", "0.1u"),
            ("-1", "-1000m"),
            ("+2", "2"),
            (".5", "0.5"),
            ("5.", "5"),
        ] {
            assert_eq!(nanos(a), nanos(b), "{a} {b}");
            assert!(nanos(a).is_some(), "{a}");
        }
        for wrong in ["", "-", ".", "1.2.3", "1 Gi", "Gi", "1gi", "1e", "0x1", "1e99"] {
            assert_eq!(nanos(wrong), None, "{wrong}");
        }
        assert_eq!(nanos("0.1n"), Some(1));
        assert!(is_whole("3") && is_whole("1k") && !is_whole("500m") && !is_whole("x"));
    }

    proptest! {
        #[test]
        fn no_text_panics(text in ".{0,40}") {
            nanos(&text);
        }

        #[test]
        fn whole_numbers_read_as_themselves(n in 0..i64::MAX / 2) {
            prop_assert_eq!(nanos(&n.to_string()), Some(i128::from(n) * NANO));
        }
    }
}
