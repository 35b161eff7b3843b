//! Server blocks back to text, in one layout whatever the original had. Reading it again gives the same blocks.

use super::{Block, Corefile, Directive};
use std::{
    borrow::Cow,
    fmt::{self, Write},
};

impl fmt::Display for Corefile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.blocks.iter().try_for_each(|block| write!(f, "{block}"))
    }
}

impl fmt::Display for Block {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for key in &self.keys {
            // A comma at the end would go on with the next key.
            let word = if key.text.ends_with(',') { quoted(&key.text) } else { word(&key.text) };
            write!(f, "{word} ")?;
        }
        f.write_str("{\n")?;
        self.directives.iter().try_for_each(|directive| print(f, directive, 1))?;
        f.write_str("}\n")
    }
}

fn print(f: &mut fmt::Formatter<'_>, directive: &Directive, depth: usize) -> fmt::Result {
    let indent = "    ".repeat(depth);
    write!(f, "{indent}{}", word(&directive.name.text))?;
    for argument in &directive.args {
        write!(f, " {}", word(&argument.text))?;
    }
    if let Some(lines) = &directive.block {
        f.write_str(" {\n")?;
        lines.iter().try_for_each(|line| print(f, line, depth + 1))?;
        write!(f, "{indent}}}")?;
    }
    f.write_char('\n')
}

/// A word, in quotes where it needs them.
fn word(text: &str) -> Cow<'_, str> {
    let structure = matches!(text, "" | "{" | "}" | "import");
    let special = |letter: char| letter.is_whitespace() || letter == '#';
    if structure || text.starts_with(['"', '\u{feff}']) || text.contains(special) { quoted(text) } else { text.into() }
}

fn quoted(text: &str) -> Cow<'_, str> {
    format!("\"{}\"", text.replace('"', "\\\"")).into()
}
