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

/// An amount and how it is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Amount {
    /// Billionths.
    pub nanos: i128,
    /// Whether it counts in powers of two (`Ki`, `Mi`).
    pub binary: bool,
}

impl Amount {
    /// So many of something.
    #[must_use]
    pub fn count(number: usize) -> Self {
        Self { nanos: i128::try_from(number).unwrap_or(i128::MAX / NANO) * NANO, binary: false }
    }

    /// None when the text is no amount.
    #[must_use]
    pub fn read(text: &str) -> Option<Self> {
        Some(Self { nanos: nanos(text)?, binary: is_binary(text) })
    }

    /// The sum, written as the first; zero has no way of writing.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        let binary = if self.nanos == 0 { other.binary } else { self.binary };
        Self { nanos: self.nanos.saturating_add(other.nanos), binary }
    }

    /// The larger of both.
    #[must_use]
    pub fn at_least(self, other: Self) -> Self {
        if other.nanos > self.nanos { other } else { self }
    }

    /// What is left when `other` is taken away, which may be nothing.
    #[must_use]
    pub fn less(self, other: Self) -> Self {
        Self { nanos: self.nanos.saturating_sub(other.nanos).max(0), ..self }
    }

    /// The whole number, rounded up.
    #[must_use]
    pub fn rounded_up(self) -> Self {
        let rest = self.nanos.rem_euclid(NANO);
        Self { nanos: if rest == 0 { self.nanos } else { self.nanos - rest + NANO }, ..self }
    }
}

impl std::fmt::Display for Amount {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(&text(self.nanos, self.binary))
    }
}

/// Amounts by the name of what is counted.
pub type Amounts = std::collections::BTreeMap<String, Amount>;

/// The amounts in a map of an object: `{"cpu": "500m"}`. What is no amount is left out.
#[must_use]
pub fn amounts(map: &serde_json::Value) -> Amounts {
    let entries = map.as_object().into_iter().flatten();
    entries.filter_map(|(name, value)| Some((name.clone(), Amount::read(value.as_str()?)?))).collect()
}

/// Adds amount by amount.
pub fn add(sum: &mut Amounts, more: &Amounts) {
    for (name, amount) in more {
        let slot = sum.entry(name.clone()).or_default();
        *slot = slot.plus(*amount);
    }
}

/// Raises each amount to what is in `least`.
pub fn raise(sum: &mut Amounts, least: &Amounts) {
    for (name, amount) in least {
        let slot = sum.entry(name.clone()).or_default();
        *slot = slot.at_least(*amount);
    }
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
