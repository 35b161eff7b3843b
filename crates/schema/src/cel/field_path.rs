//! `fieldPath` of a rule and `jsonPath` of a selectable field: `.a.b['c']`, held against the schema.

use crate::structural::{Additional, Schema};
use api::path::Path;

/// Which notations are accepted.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Notation {
    /// `.a['b']`.
    DotsAndQuotes,
    /// `.a.b` alone.
    Dots,
}

/// A path that exists.
pub struct Found<'s> {
    /// Relative path, as messages show it.
    pub path: Path,
    /// Schema of what it points at.
    pub schema: &'s Schema,
}

/// Follows `text` through `schema`.
pub fn follow<'s>(text: &str, schema: &'s Schema, notation: Notation) -> Result<Found<'s>, String> {
    let mut found = Found { path: Path::root(), schema };
    let mut rest = text;
    while !rest.is_empty() {
        let name;
        if let Some(after) = rest.strip_prefix('.') {
            let end = after.find(['.', '[', ']']).unwrap_or(after.len());
            name = after[..end].to_owned();
            rest = &after[end..];
        } else if let Some(after) = rest.strip_prefix('[') {
            if notation == Notation::Dots {
                return Err("array notation is not allowed".to_owned());
            }
            (name, rest) = quoted(after)?;
        } else {
            return Err(format!("must start with . or [ at {rest:?}"));
        }
        found = step(&found, &name)?;
    }
    if found.path.as_str().is_empty() { Err("must not be empty".to_owned()) } else { Ok(found) }
}

fn step<'s>(at: &Found<'s>, name: &str) -> Result<Found<'s>, String> {
    if let Some(field) = at.schema.properties.get(name) {
        return Ok(Found { path: at.path.child(name), schema: field });
    }
    match &at.schema.additional {
        Some(Additional::Each(each)) if at.schema.properties.is_empty() => {
            Ok(Found { path: at.path.key(name), schema: each })
        }
        _ => Err(format!("does not refer to a valid field: there is no {name:?}")),
    }
}

/// The text of `'..']`, and what follows.
fn quoted(after: &str) -> Result<(String, &str), String> {
    let Some(inside) = after.strip_prefix('\'') else {
        return Err("expects a text in single quotes after [".to_owned());
    };
    let mut name = String::new();
    let mut chars = inside.char_indices();
    while let Some((i, c)) = chars.next() {
        match c {
            '\'' => {
                let Some(rest) = inside[i + 1..].strip_prefix(']') else { return Err("expects ] after '".to_owned()) };
                return Ok((name, rest));
            }
            '\\' => match chars.next() {
                Some((_, escaped)) => name.push(unescape(escaped)?),
                None => break,
            },
            c => name.push(c),
        }
    }
    Err("ends inside of a quoted text".to_owned())
}

fn unescape(c: char) -> Result<char, String> {
    Ok(match c {
        'a' => '\u{7}',
        'b' => '\u{8}',
        'f' => '\u{c}',
        'n' => '\n',
        'r' => '\r',
        't' => '\t',
        'v' => '\u{b}',
        '\'' | '\\' => c,
        other => return Err(format!("has the unknown escape \\{other}")),
    })
}
