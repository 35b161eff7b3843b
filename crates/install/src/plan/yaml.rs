//! Objects as YAML text.

use serde_json::Value;

/// One document. Keys are in order; a text of several lines stays readable, a long one stays on its line.
#[must_use]
pub fn render(value: &Value) -> String {
    let options = serde_saphyr::ser_options! { folded_wrap_chars: 1 << 20 };
    match serde_saphyr::to_string_with_options(value, options) {
        Ok(text) => text,
        // JSON is YAML too.
        Err(_) => format!("{value:#}\n"),
    }
}
