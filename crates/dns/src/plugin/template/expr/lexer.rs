//! The words of an expression.

use super::Mistake;

/// A word with the column where it begins.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Token {
    pub(super) column: usize,
    pub(super) word: Word,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Word {
    Name(String),
    Int(i64),
    Float(f64),
    Text(String),
    /// An operator or a bracket; also `not`, `and`, `in` and the like.
    Mark(&'static str),
    End,
}

/// Those of several letters come before those that they begin with.
const MARKS: &[&str] = &[
    "**", "&&", "||", "==", "!=", "<=", ">=", "..", "??", "?.", "+", "-", "*", "/", "%", "^", "<", ">", "!", "?", ":",
    "(", ")", "[", "]", ",", ".", "|", "#", "{", "}", ";", "=",
];

const OPERATORS: &[&str] = &["not", "and", "or", "in", "matches", "contains", "startsWith", "endsWith"];

/// Words that cannot be names.
pub(super) fn is_word_of_the_language(name: &str) -> bool {
    OPERATORS.contains(&name) || ["true", "false", "nil", "let", "if", "else"].contains(&name)
}

/// All words, with an [`Word::End`] after the last.
pub(super) fn words(text: &str) -> Result<Vec<Token>, Mistake> {
    let mut tokens = Vec::new();
    let mut rest = text.trim_start();
    loop {
        let column = 1 + text[..text.len() - rest.len()].chars().count();
        let refuse = |problem: String| Err(Mistake { column, problem });
        let Some(letter) = rest.chars().next() else {
            tokens.push(Token { column, word: Word::End });
            return Ok(tokens);
        };
        let (word, length) = match letter {
            '\'' | '"' | '`' => match quoted(rest, letter) {
                Ok(found) => found,
                Err(problem) => return refuse(problem),
            },
            letter if letter.is_ascii_digit() => match number(rest) {
                Some(found) => found,
                None => return refuse("is no number; accepted: 12, 0x1f, 0b11, 0o17, 1_000, 1.5".to_owned()),
            },
            letter if letter.is_ascii_alphabetic() || letter == '_' => {
                let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
                let name = &rest[..end];
                let operator = OPERATORS.iter().find(|operator| **operator == name);
                (operator.map_or_else(|| Word::Name(name.to_owned()), |operator| Word::Mark(operator)), end)
            }
            _ => match MARKS.iter().find(|mark| rest.starts_with(**mark)) {
                Some(mark) => (Word::Mark(mark), mark.len()),
                None => return refuse(format!("{letter:?} means nothing in an expression")),
            },
        };
        tokens.push(Token { column, word });
        rest = rest[length..].trim_start();
    }
}

/// A text and its length with quotes. Between backquotes a backslash is a letter like any other.
fn quoted(rest: &str, quote: char) -> Result<(Word, usize), String> {
    let mut text = String::new();
    let mut letters = rest.char_indices().skip(1);
    while let Some((at, letter)) = letters.next() {
        match letter {
            letter if letter == quote => return Ok((Word::Text(text), at + 1)),
            '\\' if quote != '`' => match letters.next() {
                Some((_, 'n')) => text.push('\n'),
                Some((_, 't')) => text.push('\t'),
                Some((_, 'r')) => text.push('\r'),
                Some((_, letter @ ('\\' | '\'' | '"' | '`'))) => text.push(letter),
                _ => return Err(r#"has an unknown escape; accepted: \\ \' \" \` \n \t \r"#.to_owned()),
            },
            letter => text.push(letter),
        }
    }
    Err("the text has no closing quote".to_owned())
}

fn number(rest: &str) -> Option<(Word, usize)> {
    let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
    let whole = rest[..end].replace('_', "");
    for (prefix, radix) in [("0x", 16), ("0o", 8), ("0b", 2)] {
        if let Some(digits) = whole.strip_prefix(prefix) {
            let plain = !digits.starts_with(['+', '-']);
            return i64::from_str_radix(digits, radix).ok().filter(|_| plain).map(|number| (Word::Int(number), end));
        }
    }
    // `1..3` is no 1. with something after it.
    let decimals = rest[end..].strip_prefix('.').filter(|after| after.starts_with(|c: char| c.is_ascii_digit()));
    match decimals {
        Some(after) => {
            let more = after.find(|c: char| !c.is_ascii_digit()).unwrap_or(after.len());
            let text = format!("{whole}.{}", &after[..more]);
            text.parse().ok().map(|number| (Word::Float(number), end + 1 + more))
        }
        None => whole.parse().ok().map(|number| (Word::Int(number), end)),
    }
}
