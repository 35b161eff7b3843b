//! Zones as people write them: in any case, with or without a final dot.

use crate::wire::Name;

/// The zone in one spelling, or what is wrong with it. `.` is the root.
pub(super) fn read(text: &str) -> Result<Name, String> {
    let refused =
        |problem: &str| format!("{problem}; accepted is a DNS name such as example.com, or \".\" for every name");
    if text == "." {
        return Ok(Name::ROOT);
    }
    let plain = text.strip_suffix('.').unwrap_or(text);
    if plain.is_empty() {
        return Err(refused("is empty"));
    }
    if !plain.is_ascii() {
        return Err(refused("has letters outside ASCII: write them as xn--"));
    }
    if plain.contains('*') {
        return Err(refused("has a wildcard: a zone stands for all names below it anyway"));
    }
    if plain.len() > 253 {
        return Err(refused("is longer than 253 characters"));
    }
    for label in plain.split('.') {
        let hyphen = label.starts_with('-') || label.ends_with('-');
        let plain = label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
        match (label.len(), hyphen || !plain) {
            (0, _) => return Err(refused("has an empty part between dots")),
            (64.., _) => return Err(refused("has a part of more than 63 characters")),
            (_, true) => return Err(refused("is no DNS name: letters, digits and, within a part, hyphens")),
            _ => {}
        }
    }
    Name::parse(plain).map(|name| name.lower()).map_err(|error| refused(&error.to_string()))
}

/// As it stands in a Corefile and in messages: without a final dot, but for the root.
pub(super) fn text(zone: &Name) -> String {
    let text = zone.to_string();
    if zone.is_root() { text } else { text.trim_end_matches('.').to_owned() }
}
