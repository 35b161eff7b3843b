//! Template text to pieces: plain text, and the words of actions.

/// A piece of a template.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Piece {
    /// Outside of braces.
    Text(String),
    /// `{{ ... }}`.
    Action(Vec<Word>),
}

/// A word of an action.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Word {
    /// `if`, `index`, `true`.
    Name(String),
    /// `.Name`; a lone dot is empty. `glued` says that it follows the word before without a space.
    Field {
        name: String,
        glued: bool,
    },
    /// `$name`; `$` alone is empty.
    Variable(String),
    Text(String),
    Number(i128),
    Open,
    Close,
    Pipe,
    Comma,
    /// `:=`.
    Declare,
    /// `=`.
    Assign,
}

/// All pieces; comments and trimmed spaces are gone.
pub(super) fn pieces(text: &str) -> Result<Vec<Piece>, String> {
    let mut pieces = Vec::new();
    let mut rest = text;
    let mut trim = false;
    loop {
        let (before, action) = match rest.split_once("{{") {
            Some((before, action)) => (before, Some(action)),
            None => (rest, None),
        };
        let trims_before =
            action.is_some_and(|action| action.strip_prefix('-').is_some_and(|a| a.starts_with(char::is_whitespace)));
        let mut plain = if trim { before.trim_start() } else { before };
        if trims_before {
            plain = plain.trim_end();
        }
        if !plain.is_empty() {
            pieces.push(Piece::Text(plain.to_owned()));
        }
        let Some(mut action) = action else { return Ok(pieces) };
        if trims_before {
            action = &action[1..];
        }
        let trimmed = action.trim_start();
        if let Some(comment) = trimmed.strip_prefix("/*") {
            let (_, after) = comment.split_once("*/").ok_or("unclosed comment")?;
            let after = after.trim_start();
            (rest, trim) = match after.strip_prefix("}}") {
                Some(rest) => (rest, false),
                None => (after.strip_prefix("-}}").ok_or("comment ends before closing delimiter")?, true),
            };
            continue;
        }
        let (words, after, trims_after) = words(action)?;
        pieces.push(Piece::Action(words));
        (rest, trim) = (after, trims_after);
    }
}

/// The words up to `}}`, what follows, and whether space after it goes.
fn words(mut rest: &str) -> Result<(Vec<Word>, &str, bool), String> {
    let mut words = Vec::new();
    loop {
        let spaced = rest.starts_with(char::is_whitespace) || words.is_empty();
        rest = rest.trim_start();
        if let Some(after) = rest.strip_prefix("}}") {
            return Ok((words, after, false));
        }
        if let Some(after) = rest.strip_prefix("-}}").filter(|_| spaced) {
            return Ok((words, after, true));
        }
        let Some(letter) = rest.chars().next() else { return Err("unclosed action".to_owned()) };
        let length = |rest: &str| rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
        let (word, used) = match letter {
            '(' => (Word::Open, 1),
            ')' => (Word::Close, 1),
            '|' => (Word::Pipe, 1),
            ',' => (Word::Comma, 1),
            ':' if rest.starts_with(":=") => (Word::Declare, 2),
            '=' => (Word::Assign, 1),
            '.' => {
                let name = &rest[1..1 + length(&rest[1..])];
                (Word::Field { name: name.to_owned(), glued: !spaced }, 1 + name.len())
            }
            '$' => {
                let name = &rest[1..1 + length(&rest[1..])];
                (Word::Variable(name.to_owned()), 1 + name.len())
            }
            '"' => quoted(rest)?,
            '`' => {
                let end = rest[1..].find('`').ok_or("unterminated raw quoted string")?;
                (Word::Text(rest[1..=end].to_owned()), end + 2)
            }
            '\'' => {
                let mut letters = rest[1..].chars();
                let letter = letters.next().filter(|letter| *letter != '\\').ok_or("bad character constant")?;
                if letters.next() != Some('\'') {
                    return Err("unterminated character constant".to_owned());
                }
                (Word::Number(i128::from(u32::from(letter))), 2 + letter.len_utf8())
            }
            letter if letter.is_ascii_digit() || letter == '-' || letter == '+' => number(rest)?,
            letter if letter.is_alphabetic() || letter == '_' => {
                let name = &rest[..length(rest)];
                (Word::Name(name.to_owned()), name.len())
            }
            other => return Err(format!("unexpected {other:?} in action")),
        };
        words.push(word);
        rest = &rest[used..];
    }
}

fn number(rest: &str) -> Result<(Word, usize), String> {
    let sign = usize::from(rest.starts_with(['-', '+']));
    let length = rest[sign..].find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len() - sign);
    let digits = &rest[sign..sign + length];
    let plain = digits.replace('_', "");
    let lower = plain.to_lowercase();
    let parsed = match lower.get(..2) {
        Some("0x") => i128::from_str_radix(&lower[2..], 16),
        Some("0b") => i128::from_str_radix(&lower[2..], 2),
        Some("0o") => i128::from_str_radix(&lower[2..], 8),
        _ => plain.parse(),
    };
    let value = parsed.map_err(|_| format!("bad number syntax: {:?}", &rest[..sign + length]))?;
    Ok((Word::Number(if rest.starts_with('-') { -value } else { value }), sign + length))
}

fn quoted(rest: &str) -> Result<(Word, usize), String> {
    let mut text = String::new();
    let mut letters = rest.char_indices().skip(1);
    while let Some((at, letter)) = letters.next() {
        match letter {
            '"' => return Ok((Word::Text(text), at + 1)),
            '\n' => break,
            '\\' => text.push(match letters.next().map(|(_, letter)| letter) {
                Some('n') => '\n',
                Some('t') => '\t',
                Some('r') => '\r',
                Some(letter @ ('"' | '\\' | '\'')) => letter,
                Some('x') => {
                    let digits: String = letters.by_ref().take(2).map(|(_, digit)| digit).collect();
                    let value = u8::from_str_radix(&digits, 16).map_err(|_| "bad escape in string")?;
                    char::from(value)
                }
                _ => return Err("unknown escape in string".to_owned()),
            }),
            other => text.push(other),
        }
    }
    Err("unterminated quoted string".to_owned())
}
