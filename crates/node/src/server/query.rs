//! Decoding of one word of a query.

/// `%41` is `A`, `+` is a blank.
pub(super) fn decoded(text: &str) -> String {
    super::route::decoded(&text.replace('+', " "))
}
