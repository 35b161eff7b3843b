//! Scalars with a text form of their own: times, durations, bytes. Each function says what is written back for what was read.
//!
//! Called by `decode`; mirrors how Go reads and writes `metav1.Time`, `MicroTime`, `Duration` and `[]byte`.

use crate::go_duration;
use base64::{
    Engine,
    alphabet::STANDARD,
    engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig},
};
use std::borrow::Cow;

/// Go writes the zero time as null.
const ZERO_TIME: i64 = -62_135_596_800;

/// What became of a scalar.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Scalar {
    /// It is already as it would be written.
    Same,
    /// It is written as this text.
    Text(String),
    /// It is the zero value, which is written as null.
    Zero,
}

/// RFC 3339, any fraction and offset -> seconds, UTC.
pub(crate) fn time(text: &str) -> Option<Scalar> {
    let (at, fraction) = instant(text)?;
    if at.as_second() == ZERO_TIME && at.subsec_nanosecond() == 0 {
        return Some(Scalar::Zero);
    }
    if text.ends_with('Z') && fraction == 0 {
        return Some(Scalar::Same);
    }
    Some(Scalar::Text(jiff::fmt::strtime::format("%Y-%m-%dT%H:%M:%SZ", at).ok()?))
}

/// RFC 3339 with six digits of fraction -> the same, UTC.
pub(crate) fn micro_time(text: &str) -> Option<Scalar> {
    let (at, fraction) = instant(text)?;
    if fraction != 6 {
        return None;
    }
    if at.as_second() == ZERO_TIME && at.subsec_nanosecond() == 0 {
        return Some(Scalar::Zero);
    }
    if text.ends_with('Z') && !text.contains(',') {
        return Some(Scalar::Same);
    }
    Some(Scalar::Text(jiff::fmt::strtime::format("%Y-%m-%dT%H:%M:%S.%6fZ", at).ok()?))
}

/// The instant and how many digits of fraction the text has. Stricter than jiff, which takes ISO 8601 at large.
fn instant(text: &str) -> Option<(jiff::Timestamp, usize)> {
    let bytes = text.as_bytes();
    let form = b"dddd-dd-ddTdd:dd:dd";
    let fits = |(byte, form): (&u8, &u8)| if *form == b'd' { byte.is_ascii_digit() } else { byte == form };
    if bytes.len() <= form.len() || !bytes.iter().zip(form).all(fits) {
        return None;
    }
    let rest = &text[form.len()..];
    let (fraction, zone) = match rest.strip_prefix(['.', ',']) {
        Some(rest) => {
            let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
            (digits, &rest[digits..])
        }
        None => (0, rest),
    };
    let numeric = match zone.as_bytes() {
        [b'+' | b'-', hours @ .., b':', c, d] => {
            hours.len() == 2 && hours <= b"24" && [hours[0], hours[1], *c, *d].iter().all(u8::is_ascii_digit)
        }
        _ => false,
    };
    // A leap second is not a time to Go.
    if (rest.starts_with(['.', ',']) && fraction == 0) || (zone != "Z" && !numeric) || &bytes[17..19] == b"60" {
        return None;
    }
    text.parse().ok().map(|at| (at, fraction))
}

/// A Go duration (`1h30m`, `1.5s`) -> as Go prints it (`1h30m0s`, `1.5s`).
pub(crate) fn duration(text: &str) -> Option<Scalar> {
    let canonical = go_duration::print(go_duration::nanoseconds(text)?);
    Some(if canonical == text { Scalar::Same } else { Scalar::Text(canonical) })
}

/// As lenient as Go's `base64.StdEncoding`: bits after the last byte do not matter.
const LENIENT: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_allow_trailing_bits(true)
        .with_decode_padding_mode(DecodePaddingMode::RequireCanonical),
);

/// The bytes of base64 text; line breaks are skipped, as Go does.
pub(crate) fn decode_base64(text: &str) -> Option<Vec<u8>> {
    let text: Cow<'_, str> =
        if text.contains(['\r', '\n']) { text.replace(['\r', '\n'], "").into() } else { text.into() };
    LENIENT.decode(text.as_bytes()).ok()
}

/// Base64 text of bytes.
pub(crate) fn encode_base64(bytes: &[u8]) -> String {
    LENIENT.encode(bytes)
}

/// Base64 text -> base64 text as Go writes it.
pub(crate) fn bytes(text: &str) -> Option<Scalar> {
    let canonical = encode_base64(&decode_base64(text)?);
    Some(if canonical == text { Scalar::Same } else { Scalar::Text(canonical) })
}
