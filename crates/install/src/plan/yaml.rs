//! Objects as YAML text, and back.

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

/// All documents of a text that are not empty.
pub fn documents(text: &str) -> Result<Vec<Value>, String> {
    let options = serde_saphyr::options! { strict_booleans: true, with_snippet: false };
    match serde_saphyr::from_multiple_with_options::<Option<Value>>(text, options) {
        Ok(documents) => Ok(documents.into_iter().flatten().filter(|document| !document.is_null()).collect()),
        Err(error) => {
            let problem = error.render_with_formatter(&serde_saphyr::UserMessageFormatter);
            Err(format!("not YAML or JSON: {}", problem.trim_end()))
        }
    }
}
