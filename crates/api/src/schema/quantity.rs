//! Quantities: how `0.5`, `1024Mi` or `1e3` are written back.
//!
//! Called by `decode`. Mirrors `resource.Quantity` of apimachinery, its habit of leaving some texts alone included. Differs in
//! one thing: 1000E stays 1000E, where upstream has no suffix for 10^21 and writes 1.

use super::scalar::Scalar;

/// Nothing smaller than a nano is kept; what is smaller is rounded away from zero.
const NANO_DIGITS: i64 = 9;
/// Binary quantities are capped here.
const MOST: &[u8] = b"9223372036854775807";

#[derive(Clone, Copy, PartialEq, Eq)]
enum Format {
    DecimalSi,
    DecimalExponent,
    BinarySi,
}

const DECIMAL: [(&str, i64); 10] =
    [("n", -9), ("u", -6), ("m", -3), ("", 0), ("k", 3), ("M", 6), ("G", 9), ("T", 12), ("P", 15), ("E", 18)];
const BINARY: [(&str, i64); 6] = [("Ki", 10), ("Mi", 20), ("Gi", 30), ("Ti", 40), ("Pi", 50), ("Ei", 60)];

/// The text as it is written back; none when it is no quantity.
pub(crate) fn canonical(text: &str) -> Option<Scalar> {
    let trimmed = text.trim();
    let quantity = Parsed::new(trimmed)?;
    let written = if quantity.left_alone() { trimmed.to_owned() } else { quantity.print() };
    Some(if written == text { Scalar::Same } else { Scalar::Text(written) })
}

/// A quantity taken apart: sign, digits before the point without leading zeros, digits after it, suffix.
struct Parsed<'a> {
    negative: bool,
    whole: &'a str,
    fraction: &'a str,
    exponent: i64,
    format: Format,
}

impl<'a> Parsed<'a> {
    fn new(text: &'a str) -> Option<Self> {
        if text.is_empty() {
            return None;
        }
        let negative = text.starts_with('-');
        let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text).trim_start_matches('0');
        let (whole, rest) = split_digits(unsigned);
        let (fraction, suffix) = rest.strip_prefix('.').map_or(("", rest), split_digits);
        let (exponent, format) = interpret(suffix)?;
        let whole = if whole.is_empty() { "0" } else { whole };
        Some(Self { negative, whole, fraction, exponent, format })
    }

    /// Whether upstream keeps the text because its quick check takes it for canonical.
    fn left_alone(&self) -> bool {
        let digits = (self.whole.len() + self.fraction.len()) as i64;
        if self.format == Format::BinarySi {
            // Few enough digits to be exact in 15 decimal places, with an exponent of 2 worth about 0.3 of them.
            let value: Option<i64> = self.whole.parse().ok().filter(|_| self.fraction.is_empty());
            let precision = 14 - self.whole.len() as i64 - self.exponent * 3 / 10;
            return precision >= 0 && value.is_some_and(|value| value & 7 != 0);
        }
        let scale = self.exponent - self.fraction.len() as i64;
        let both = self.whole.bytes().chain(self.fraction.bytes());
        let ends_in_zeros = both.rev().take_while(|digit| *digit == b'0').count() >= 3;
        digits <= 18 && scale >= -NANO_DIGITS && scale % 3 == 0 && !ends_in_zeros && !self.whole.starts_with('0')
    }

    fn print(&self) -> String {
        let mut amount = Amount::new(self.whole, self.fraction);
        if amount.is_zero() {
            return "0".to_owned();
        }
        if self.format == Format::BinarySi {
            (0..self.exponent).for_each(|_| amount.double());
        } else {
            amount.exponent = amount.exponent.saturating_add(self.exponent);
        }
        amount.round_up_to_nano();
        let sign = if self.negative { "-" } else { "" };
        let text = match self.format {
            Format::BinarySi => amount.print_binary(),
            Format::DecimalSi => amount.print_decimal(true),
            Format::DecimalExponent => amount.print_decimal(false),
        };
        format!("{sign}{text}")
    }
}

fn split_digits(text: &str) -> (&str, &str) {
    text.split_at(text.bytes().take_while(u8::is_ascii_digit).count())
}

fn interpret(suffix: &str) -> Option<(i64, Format)> {
    let known = |table: &[(&str, i64)]| table.iter().find(|(name, _)| *name == suffix).map(|(_, exponent)| *exponent);
    if let Some(exponent) = known(&DECIMAL) {
        return Some((exponent, Format::DecimalSi));
    }
    if let Some(exponent) = known(&BINARY) {
        return Some((exponent, Format::BinarySi));
    }
    let exponent = suffix.strip_prefix(['e', 'E'])?.parse::<i32>().ok()?;
    Some((exponent.into(), Format::DecimalExponent))
}

/// `digits` times ten to the `exponent`; digits are ASCII, without leading zeros unless zero.
struct Amount {
    digits: Vec<u8>,
    exponent: i64,
}

impl Amount {
    fn new(whole: &str, fraction: &str) -> Self {
        let digits = whole.bytes().chain(fraction.bytes()).skip_while(|digit| *digit == b'0').collect();
        Self { digits, exponent: -(fraction.len() as i64) }
    }

    fn is_zero(&self) -> bool {
        self.digits.iter().all(|digit| *digit == b'0')
    }

    fn double(&mut self) {
        let mut carry = 0;
        for digit in self.digits.iter_mut().rev() {
            let doubled = (*digit - b'0') * 2 + carry;
            *digit = b'0' + doubled % 10;
            carry = doubled / 10;
        }
        if carry > 0 {
            self.digits.insert(0, b'0' + carry);
        }
    }

    fn increment(&mut self) {
        for digit in self.digits.iter_mut().rev() {
            if *digit < b'9' {
                *digit += 1;
                return;
            }
            *digit = b'0';
        }
        self.digits.insert(0, b'1');
    }

    fn round_up_to_nano(&mut self) {
        let excess = -self.exponent - NANO_DIGITS;
        if excess <= 0 {
            return;
        }
        let kept = self.digits.len().saturating_sub(usize::try_from(excess).unwrap_or(usize::MAX));
        let lost = self.digits.split_off(kept);
        self.exponent = -NANO_DIGITS;
        if lost.iter().any(|digit| *digit != b'0') {
            self.increment();
        }
    }

    /// Moves factors of ten from the digits into the exponent.
    fn strip_zeros(&mut self) {
        while self.digits.len() > 1 && self.digits.last() == Some(&b'0') {
            self.digits.pop();
            self.exponent += 1;
        }
    }

    fn print_decimal(mut self, si: bool) -> String {
        self.strip_zeros();
        while self.exponent % 3 != 0 || (si && self.exponent > 18) {
            self.digits.push(b'0');
            self.exponent -= 1;
        }
        let digits = String::from_utf8_lossy(&self.digits);
        match DECIMAL.iter().find(|(_, exponent)| *exponent == self.exponent) {
            Some((suffix, _)) if si || self.exponent == 0 => format!("{digits}{suffix}"),
            _ => format!("{digits}e{}", self.exponent),
        }
    }

    fn print_binary(mut self) -> String {
        self.strip_zeros();
        let whole = self.exponent >= 0;
        let length = self.digits.len() as i64 + self.exponent;
        let fits = length < MOST.len() as i64 || (length == MOST.len() as i64 && self.padded().as_slice() <= MOST);
        if !fits {
            return String::from_utf8_lossy(MOST).into_owned();
        }
        let value: Option<u64> = String::from_utf8(self.padded()).ok().and_then(|text| text.parse().ok());
        let Some(mut value) = value.filter(|value| whole && *value >= 1024) else { return self.print_decimal(true) };
        let mut power = 0;
        while value % 1024 == 0 && power < BINARY.len() {
            value /= 1024;
            power += 1;
        }
        let suffix = power.checked_sub(1).map_or("", |power| BINARY[power].0);
        format!("{value}{suffix}")
    }

    /// The digits before the point. Only called when there are few of them.
    fn padded(&self) -> Vec<u8> {
        let length = usize::try_from(self.digits.len() as i64 + self.exponent).unwrap_or(0);
        let mut digits = self.digits.clone();
        digits.resize(length, b'0');
        digits
    }
}
