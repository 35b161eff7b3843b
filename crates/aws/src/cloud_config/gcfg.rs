//! The text of a cloud-config, in the dialect of git's configuration or as YAML, to a flat list of entries.
//!
//! Called by `CloudConfig::parse`. Mirrors gcfg: `[Section]`, `[Section "subsection"]`, `key = value`, comments with `;` and `#`,
//! quotes, escapes, lines that go on after a backslash. Nothing is known here of what the keys mean.

use std::fmt;

/// One line `key = value`, and the section it stands in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The section as written.
    pub section: String,
    /// The subsection, if there is one.
    pub subsection: Option<String>,
    /// The key as written.
    pub key: String,
    /// The value; `None` for a key that stands alone, which means true.
    pub value: Option<String>,
    /// Where it stands, from 1.
    pub line: usize,
}

/// The text is no cloud-config.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {problem}")]
pub struct SyntaxError {
    /// Where, from 1.
    pub line: usize,
    /// What is wrong and what is accepted.
    pub problem: String,
}

impl SyntaxError {
    fn new(line: usize, problem: impl fmt::Display) -> Self {
        Self { line, problem: problem.to_string() }
    }
}

/// Reads the dialect of git's configuration.
pub fn entries(text: &str) -> Result<Vec<Entry>, SyntaxError> {
    let mut entries = Vec::new();
    let mut section: Option<(String, Option<String>)> = None;
    let mut lines = text.trim_start_matches('\u{feff}').lines().enumerate();
    while let Some((index, raw)) = lines.next() {
        let line = index + 1;
        let content = raw.trim();
        if content.is_empty() || content.starts_with([';', '#']) {
            continue;
        }
        if let Some(rest) = content.strip_prefix('[') {
            section = Some(header(rest, line)?);
            continue;
        }
        let Some((name, subsection)) = &section else {
            return Err(SyntaxError::new(line, format!("{content:?} stands before any section; start with [Global]")));
        };
        let end = content.find(['=', ';', '#']).unwrap_or(content.len());
        let (key, value) = match content[end..].strip_prefix('=') {
            None => (content[..end].trim(), None),
            Some(first) => {
                let mut whole = first.to_owned();
                while continues(&whole) {
                    whole.pop();
                    match lines.next() {
                        Some((_, more)) => whole.push_str(more),
                        None => return Err(SyntaxError::new(line, "the last line ends with a backslash")),
                    }
                }
                (content[..end].trim(), Some(value(&whole, line)?))
            }
        };
        let well_formed = key.starts_with(|c: char| c.is_ascii_alphabetic())
            && key.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_');
        if !well_formed {
            let accepted = "a key is letters, digits and hyphens, such as Region";
            return Err(SyntaxError::new(line, format!("{key:?} is no key; {accepted}")));
        }
        let (section, subsection, key) = (name.clone(), subsection.clone(), key.to_owned());
        entries.push(Entry { section, subsection, key, value, line });
    }
    Ok(entries)
}

/// Whether a value goes on in the next line: it ends with a backslash that is neither escaped itself nor in a comment.
fn continues(text: &str) -> bool {
    let mut quoted = false;
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            '"' => quoted = !quoted,
            '\\' if chars.next().is_none() => return true,
            ';' | '#' if !quoted => return false,
            _ => {}
        }
    }
    false
}

fn header(rest: &str, line: usize) -> Result<(String, Option<String>), SyntaxError> {
    let unclosed = || SyntaxError::new(line, "the section has no closing bracket; write [Name] or [Name \"part\"]");
    let Some((name, rest)) = rest.split_once(']').filter(|(name, _)| !name.contains('"')) else {
        let (name, quoted) = rest.split_once('"').ok_or_else(unclosed)?;
        let mut part = String::new();
        let mut chars = quoted.chars();
        loop {
            match chars.next().ok_or_else(unclosed)? {
                '"' => break,
                '\\' => part.push(chars.next().ok_or_else(unclosed)?),
                c => part.push(c),
            }
        }
        let after = chars.as_str().trim_start().strip_prefix(']').ok_or_else(unclosed)?;
        nothing_follows(after, line)?;
        return Ok((section_name(name, line)?, Some(part)));
    };
    nothing_follows(rest, line)?;
    Ok((section_name(name, line)?, None))
}

fn section_name(name: &str, line: usize) -> Result<String, SyntaxError> {
    let name = name.trim();
    let fits = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '.');
    if fits { Ok(name.to_owned()) } else { Err(SyntaxError::new(line, format!("{name:?} is no section name"))) }
}

fn nothing_follows(rest: &str, line: usize) -> Result<(), SyntaxError> {
    let rest = rest.trim();
    if rest.is_empty() || rest.starts_with([';', '#']) {
        return Ok(());
    }
    Err(SyntaxError::new(line, format!("{rest:?} follows the section; it belongs on a line of its own")))
}

/// A value without its comment, quotes and escapes; space around it does not count unless it is quoted.
fn value(text: &str, line: usize) -> Result<String, SyntaxError> {
    let mut out = String::new();
    let mut kept = 0;
    let mut quoted = false;
    let mut chars = text.trim_start().chars();
    while let Some(c) = chars.next() {
        match c {
            '"' => {
                quoted = !quoted;
                kept = out.len();
            }
            '\\' => {
                let escaped = match chars.next() {
                    Some('n') => '\n',
                    Some('t') => '\t',
                    Some('b') => '\u{8}',
                    Some(c @ ('"' | '\\')) => c,
                    other => {
                        let other = other.map(String::from).unwrap_or_default();
                        let accepted = r#"accepted are \", \\, \n, \t and \b"#;
                        return Err(SyntaxError::new(line, format!("\\{other} is no escape; {accepted}")));
                    }
                };
                out.push(escaped);
                kept = out.len();
            }
            ';' | '#' if !quoted => break,
            c => {
                out.push(c);
                if quoted || !c.is_whitespace() {
                    kept = out.len();
                }
            }
        }
    }
    if quoted {
        return Err(SyntaxError::new(line, "a quote is not closed"));
    }
    out.truncate(kept);
    Ok(out)
}

/// A value as it has to be written so that [`entries`] reads it back.
pub fn written(value: &str) -> String {
    let plain = !value.contains(['"', '\\', ';', '#', '\n', '\t', '\u{8}']) && value.trim() == value;
    if plain {
        return value.to_owned();
    }
    let mut out = String::from('"');
    for c in value.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}
