//! Server blocks back to text, in one layout whatever the original had. Reading it again gives the same blocks.

use super::{Block, Corefile, Directive, Token};
use std::fmt::{self, Write};

impl fmt::Display for Corefile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.blocks.iter().try_for_each(|block| write!(f, "{block}"))
    }
}

impl fmt::Display for Block {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for key in &self.keys {
            write!(f, "{} ", Quoted(key))?;
        }
        f.write_str("{\n")?;
        self.directives.iter().try_for_each(|directive| print(f, directive, 1))?;
        f.write_str("}\n")
    }
}

fn print(f: &mut fmt::Formatter<'_>, directive: &Directive, depth: usize) -> fmt::Result {
    let indent = "    ".repeat(depth);
    write!(f, "{indent}{}", Quoted(&directive.name))?;
    for argument in &directive.args {
        write!(f, " {}", Quoted(argument))?;
    }
    if let Some(lines) = &directive.block {
        f.write_str(" {\n")?;
        lines.iter().try_for_each(|line| print(f, line, depth + 1))?;
        write!(f, "{indent}}}")?;
    }
    f.write_char('\n')
}

/// A word, in quotes where it needs them.
struct Quoted<'a>(&'a Token);

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = &self.0.text;
        let structure = matches!(text.as_str(), "" | "{" | "}" | "import");
        let special = |letter: char| letter.is_whitespace() || letter == '#';
        // A comma at the end would go on with the next key; a parenthesis would be a snippet.
        if !structure && !text.starts_with(['"', '\u{feff}']) && !text.ends_with(',') && !text.contains(special) {
            return f.write_str(text);
        }
        write!(f, "\"{}\"", text.replace('"', "\\\""))
    }
}
