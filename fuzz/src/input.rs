//! Inputs in parts: texts one after another, with a line of equal signs between them, so that corpora can be read and written.

/// Between two parts.
const BETWEEN: &str = "\n====\n";

/// The input as text; what is no UTF-8 is replaced, as the API server does.
pub(crate) fn text(data: &[u8]) -> String {
    String::from_utf8_lossy(data).into_owned()
}

/// The first parts of a text; those that are missing are empty.
pub(crate) fn parts<const N: usize>(text: &str) -> [&str; N] {
    let mut parts = text.splitn(N, BETWEEN);
    std::array::from_fn(|_| parts.next().unwrap_or_default())
}

/// A part as JSON.
pub(crate) fn json(text: &str) -> Option<serde_json::Value> {
    serde_json::from_str(text).ok()
}
