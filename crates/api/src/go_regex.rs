//! Regular expressions as Go reads them, on an engine that is just as linear.
//!
//! The `regex` crate has the same guarantees as Go's RE2 and almost the same syntax. `translate` rewrites what differs:
//! Perl classes are ASCII, classes do not nest and know no set operators, a brace that starts no repetition is a brace,
//! `\Q..\E` and octal escapes exist, verbose mode does not. Used for `pattern` of definitions, for `matches` in CEL, for the patterns
//! of Corefiles, and for those of IngressControllers.

use regex::{RegexBuilder, bytes};
use std::sync::Arc;

/// A compiled pattern and its text. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Pattern {
    regex: bytes::Regex,
    source: Arc<str>,
}

/// Why a pattern cannot be used. Not retryable: the pattern must change.
#[derive(Debug, thiserror::Error)]
pub enum PatternError {
    /// Something that Go does not accept.
    #[error("must be a regular expression as Go accepts it: {0}")]
    Syntax(String),
    /// Something that the engine does not accept, or that would take too much memory.
    #[error("must be a regular expression as Go accepts it: {0}")]
    Engine(#[from] regex::Error),
}

impl Pattern {
    /// Compiles a pattern in Go's syntax.
    pub fn new(source: &str) -> Result<Self, PatternError> {
        let regex = bytes::RegexBuilder::new(&translate(source)?).build()?;
        Ok(Self { regex, source: source.into() })
    }

    /// Compiles a pattern that an object brought along: it may take little memory, and so little time.
    pub fn small(source: &str) -> Result<Self, PatternError> {
        let regex = bytes::RegexBuilder::new(&translate(source)?).size_limit(128 * 1024).build()?;
        Ok(Self { regex, source: source.into() })
    }

    /// Whether the pattern occurs in `text`.
    pub fn is_match(&self, text: &str) -> bool {
        self.regex.is_match(text.as_bytes())
    }

    /// The parts of `text` that match, from left to right, without overlap.
    pub fn find<'t>(&self, text: &'t str) -> impl Iterator<Item = &'t str> {
        self.regex.find_iter(text.as_bytes()).filter_map(|found| text.get(found.range()))
    }

    /// As it was written.
    pub fn source(&self) -> &str {
        &self.source
    }
}

/// A pattern in Go's syntax, for whoever wants its groups.
pub fn compile(source: &str) -> Result<regex::Regex, PatternError> {
    Ok(RegexBuilder::new(&translate(source)?).build()?)
}

/// The same for bytes that need not be text: a dot is one byte, unless the pattern itself needs letters beyond ASCII.
pub fn compile_bytes(source: &str) -> Result<bytes::Regex, PatternError> {
    let translated = translate(source)?;
    let with = |unicode: bool| bytes::RegexBuilder::new(&translated).unicode(unicode).build();
    Ok(match source.is_ascii() {
        true => with(false).or_else(|_| with(true)),
        false => with(true),
    }?)
}

/// Go refuses to repeat more often.
const MAX_REPEAT: u32 = 1000;

fn translate(source: &str) -> Result<String, PatternError> {
    let mut out = String::with_capacity(source.len() + 8);
    let mut rest = source;
    while let Some(first) = rest.chars().next() {
        rest = match first {
            '\\' => escape(rest, Inside::Text, &mut out)?,
            '[' => class(rest, &mut out)?,
            '{' => brace(rest, &mut out)?,
            '(' => group(rest, &mut out)?,
            _ => {
                out.push(first);
                &rest[first.len_utf8()..]
            }
        };
    }
    Ok(out)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Inside {
    Text,
    Class,
}

fn literal(c: char, out: &mut String) {
    out.push_str(&format!("\\x{{{:X}}}", c as u32));
}

fn escape<'s>(rest: &'s str, inside: Inside, out: &mut String) -> Result<&'s str, PatternError> {
    let refuse = |what: &str| Err(PatternError::Syntax(format!("invalid escape sequence {what}")));
    let mut chars = rest.chars();
    chars.next();
    let Some(c) = chars.next() else { return Err(PatternError::Syntax("trailing backslash".to_owned())) };
    let after = chars.as_str();
    let perl = |members: &str, negated: bool, out: &mut String| match (inside, negated) {
        (Inside::Class, false) => out.push_str(members),
        (_, negated) => out.push_str(&format!("[{}{members}]", if negated { "^" } else { "" })),
    };
    match c {
        'd' | 'D' => perl("0-9", c == 'D', out),
        's' | 'S' => perl(r"\t\n\f\r ", c == 'S', out),
        'w' | 'W' => perl("0-9A-Za-z_", c == 'W', out),
        'b' | 'B' if inside == Inside::Text => out.push_str(if c == 'b' { r"(?-u:\b)" } else { r"(?-u:\B)" }),
        'A' | 'z' if inside == Inside::Text => out.extend(['\\', c]),
        'a' | 'f' | 't' | 'n' | 'r' | 'v' => out.extend(['\\', c]),
        // The braces of `\p{Greek}` and `\x{10FFFF}` are theirs, not a repetition.
        'p' | 'P' | 'x' => {
            let end = after.strip_prefix('{').and_then(|inside| inside.find('}')).map_or(0, |at| at + 2);
            out.extend(['\\', c]);
            out.push_str(&after[..end]);
            return Ok(&after[end..]);
        }
        'Q' if inside == Inside::Text => {
            let (quoted, after) = after.split_once(r"\E").unwrap_or((after, ""));
            quoted.chars().for_each(|c| literal(c, out));
            return Ok(after);
        }
        '0'..='7' => return octal(&rest[1..], out),
        c if c.is_ascii() && !c.is_ascii_alphanumeric() => literal(c, out),
        c => return refuse(&format!("\\{c}")),
    }
    Ok(after)
}

/// `\0`, `\07`, `\123`; a single other digit would be a backreference, which no linear engine has.
fn octal<'s>(digits: &'s str, out: &mut String) -> Result<&'s str, PatternError> {
    let length = digits.bytes().take(3).take_while(|b| (b'0'..=b'7').contains(b)).count();
    let (number, after) = digits.split_at(length);
    if length == 1 && number != "0" {
        return Err(PatternError::Syntax(format!("backreference \\{number} is not supported")));
    }
    let code = u32::from_str_radix(number, 8).ok().and_then(char::from_u32);
    code.into_iter().for_each(|c| literal(c, out));
    Ok(after)
}

fn class<'s>(rest: &'s str, out: &mut String) -> Result<&'s str, PatternError> {
    out.push('[');
    let mut rest = &rest[1..];
    if let Some(negated) = rest.strip_prefix('^') {
        out.push('^');
        rest = negated;
    }
    let mut first = true;
    loop {
        let Some(c) = rest.chars().next() else { return Err(PatternError::Syntax("missing closing ]".to_owned())) };
        match c {
            ']' if !first => {
                out.push(']');
                return Ok(&rest[1..]);
            }
            '\\' => rest = escape(rest, Inside::Class, out)?,
            '[' if rest.starts_with("[:") && rest.contains(":]") => {
                let end = rest.find(":]").map_or(rest.len(), |at| at + 2);
                out.push_str(&rest[..end]);
                rest = &rest[end..];
            }
            // A dash is a range or a dash; it is never doubled into a set operator, because its neighbours are escaped.
            '-' => {
                out.push('-');
                rest = &rest[1..];
            }
            c if c.is_ascii_alphanumeric() => {
                out.push(c);
                rest = &rest[1..];
            }
            c => {
                literal(c, out);
                rest = &rest[c.len_utf8()..];
            }
        }
        if out.ends_with("--") {
            out.truncate(out.len() - 2);
            out.push_str("-\\x2D");
        }
        first = false;
    }
}

/// `{n}`, `{n,}`, `{n,m}` repeat; any other brace is itself.
fn brace<'s>(rest: &'s str, out: &mut String) -> Result<&'s str, PatternError> {
    let counts = rest[1..].split_once('}').map(|(inside, _)| inside);
    let numbers = counts.map(|inside| inside.split_once(',').map_or((inside, inside), |(least, most)| (least, most)));
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    match (counts, numbers) {
        (Some(inside), Some((least, most))) if is_number(least) && (most.is_empty() || is_number(most)) => {
            let too_many = |text: &str| !text.is_empty() && text.parse::<u32>().map_or(true, |n| n > MAX_REPEAT);
            if too_many(least) || too_many(most) {
                let detail = format!("invalid repeat count {{{inside}}}, at most {MAX_REPEAT} is accepted");
                return Err(PatternError::Syntax(detail));
            }
            out.push_str(&rest[..inside.len() + 2]);
            Ok(&rest[inside.len() + 2..])
        }
        _ => {
            out.push_str("\\{");
            Ok(&rest[1..])
        }
    }
}

/// Flags that only this engine knows are refused.
fn group<'s>(rest: &'s str, out: &mut String) -> Result<&'s str, PatternError> {
    let flags = rest.strip_prefix("(?").map_or("", |after| {
        let end = after.find(|c: char| !c.is_ascii_alphabetic() && c != '-').unwrap_or(after.len());
        if after[end..].starts_with([')', ':']) { &after[..end] } else { "" }
    });
    if let Some(unknown) = flags.chars().find(|c| !"imsU-".contains(*c)) {
        return Err(PatternError::Syntax(format!("unknown flag {unknown} in (?{flags}")));
    }
    out.push('(');
    Ok(&rest[1..])
}

#[cfg(test)]
mod tests {
    use super::{Pattern, compile, compile_bytes};
    use proptest::prelude::*;

    #[test]
    fn whoever_wants_groups_or_bytes_has_the_same_syntax() {
        let found = compile(r"^(\Qa.b\E)-(\d+)$").unwrap();
        assert_eq!(&found.captures("a.b-42").unwrap()[2], "42");
        assert!(!found.is_match("axb-42") && !found.is_match("a.b-٤"));
        assert!(compile_bytes("^a.b$").unwrap().is_match(b"a\xffb"));
        assert!(compile_bytes("^ä.b$").unwrap().is_match("äöb".as_bytes()));
        assert!(compile("(?x)a").is_err() && compile_bytes("(?x)a").is_err());
    }

    #[test]
    fn patterns_match_as_go_matches() {
        for (pattern, text, expected) in [
            (r"^\d+$", "42", true),
            (r"^\d+$", "٤٢", false),
            (r"^\w+$", "größe", false),
            (r"^[\w.]+$", "a.b_1", true),
            (r"^[^\d]+$", "abc", true),
            (r"^[\D]+$", "a1", false),
            (r"^.$", "é", true),
            (r"^\p{Greek}+$", "αβγ", true),
            (r"^[[a]+$", "[a", true),
            (r"^[[:alpha:]]+$", "abc", true),
            (r"^[a&&b]+$", "a&b", true),
            (r"^[+--]+$", "+,-", true),
            (r"^[]a]+$", "]a", true),
            (r"^[a-]$", "-", true),
            (r"^\Qa.b\E+$", "a.bb", true),
            (r"^\Qa.b\E$", "axb", false),
            (r"^a{,2}$", "a{,2}", true),
            (r"^{x}$", "{x}", true),
            (r"^a{2}$", "aa", true),
            (r"^\123$", "S", true),
            (r"^\<$", "<", true),
            (r"^\_\-$", "_-", true),
            (r"\bfoo\b", "a foo b", true),
            (r"(?i)^FOO$", "foo", true),
            (r"^(?:[a-z0-9]([-a-z0-9]*[a-z0-9])?)$", "a-b", true),
            (r"^$", "\n", false),
        ] {
            let compiled = Pattern::new(pattern).unwrap_or_else(|why| panic!("{pattern}: {why}"));
            assert_eq!(compiled.is_match(text), expected, "{pattern} on {text:?}");
        }
    }

    #[test]
    fn what_go_refuses_is_refused() {
        for pattern in
            ["a(b", "[a", "a{1001}", r"\1", r"\8", r"\C", r"(?x)a b", r"(?=a)", r"\", r"*a", r"[b-a]", r"(?P=n)"]
        {
            assert!(Pattern::new(pattern).is_err(), "{pattern}");
        }
    }

    #[test]
    fn nested_repetition_costs_no_more_than_the_text_is_long() {
        let pattern = Pattern::new("^(a+)+$").unwrap();
        assert!(!pattern.is_match(&format!("{}b", "a".repeat(100_000))));
    }

    proptest! {
        #[test]
        fn any_text_is_a_pattern_or_an_error(text in ".{0,40}") {
            let _ = Pattern::new(&text);
        }

        #[test]
        fn quoted_text_matches_itself(text in "[^\\\\]{0,20}") {
            let pattern = Pattern::new(&format!("^\\Q{text}\\E$")).unwrap();
            prop_assert!(pattern.is_match(&text));
        }
    }
}
