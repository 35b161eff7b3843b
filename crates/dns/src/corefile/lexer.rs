//! Text to words. Words are between spaces; a word that begins with a quote goes on to the next quote that has no
//! backslash before it; `#` begins a comment anywhere outside quotes.

use super::{Location, Problem, Token};
use std::sync::Arc;

/// A word as it stands in the file.
#[derive(Clone, Debug)]
pub(super) struct Word {
    pub(super) token: Token,
    /// In quotes, so that a brace is only a letter.
    pub(super) quoted: bool,
    /// The first of its line.
    pub(super) first: bool,
}

impl Word {
    /// Whether this is structure and not text.
    pub(super) fn is(&self, brace: &str) -> bool {
        !self.quoted && self.token.text == brace
    }
}

/// All words of a file.
pub(super) fn words(file: &Arc<str>, text: &str) -> Result<Vec<Word>, Problem> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut words = Vec::new();
    let (mut line, mut column, mut first) = (1, 0, true);
    let mut letters = text.chars().filter(|letter| *letter != '\r').peekable();
    while let Some(letter) = letters.next() {
        column += 1;
        let place = Location { file: Arc::clone(file), line, column };
        match letter {
            '\n' => (line, column, first) = (line + 1, 0, true),
            '#' => while letters.next_if(|letter| *letter != '\n').is_some() {},
            space if space.is_whitespace() => {}
            '"' => {
                let mut text = String::new();
                let mut closed = false;
                while let Some(letter) = letters.next() {
                    column += 1;
                    match letter {
                        '"' => {
                            closed = true;
                            break;
                        }
                        '\\' => {
                            let next = letters.next();
                            column += 1;
                            if next != Some('"') {
                                text.push('\\');
                            }
                            if next == Some('\n') {
                                (line, column) = (line + 1, 0);
                            }
                            text.extend(next);
                        }
                        '\n' => {
                            (line, column) = (line + 1, 0);
                            text.push('\n');
                        }
                        other => text.push(other),
                    }
                }
                let token = Token { text, place };
                if !closed {
                    return Err(Problem::at(&token, "this quote is never closed"));
                }
                words.push(Word { token, quoted: true, first });
                first = false;
            }
            letter => {
                let mut text = String::from(letter);
                while let Some(letter) = letters.next_if(|letter| !letter.is_whitespace() && *letter != '#') {
                    column += 1;
                    text.push(letter);
                }
                words.push(Word { token: Token { text, place }, quoted: false, first });
                first = false;
            }
        }
    }
    Ok(words)
}
