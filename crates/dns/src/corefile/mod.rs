//! The language of Corefiles: text to server blocks with directives, and back. Pure but for reading imported files.

mod address;
mod lexer;
mod parser;
mod print;

pub use address::{Address, Scheme, zones};
pub use parser::{Disk, Files, parse};

use std::{fmt, sync::Arc};

/// Where in which file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Location {
    /// As it was named.
    pub file: Arc<str>,
    /// From 1.
    pub line: u32,
    /// From 1, in characters.
    pub column: u32,
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.file, self.line, self.column)
    }
}

/// A word. Equality is of the text alone, so that two files can be compared whatever their layout.
#[derive(Clone, Debug)]
pub struct Token {
    /// Without quotes, with environment variables filled in.
    pub text: String,
    /// Where it stands.
    pub place: Location,
}

impl PartialEq for Token {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for Token {}

/// A line of a block, perhaps with a block of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Directive {
    /// Its first word.
    pub name: Token,
    /// The words after it.
    pub args: Vec<Token>,
    /// The lines between its braces, if it has any braces.
    pub block: Option<Vec<Self>>,
}

/// A server block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// Zones, perhaps with scheme and port.
    pub keys: Vec<Token>,
    /// What is to be done for them.
    pub directives: Vec<Directive>,
}

/// A whole file with its imports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Corefile {
    /// In the order of the file.
    pub blocks: Vec<Block>,
}

/// What is wrong, where, and the text in question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    place: Location,
    text: String,
    message: String,
}

impl Problem {
    /// At this word.
    pub fn at(token: &Token, message: impl Into<String>) -> Self {
        Self { place: token.place.clone(), text: token.text.clone(), message: message.into() }
    }

    /// The same, with words that say in which plugin.
    #[must_use]
    pub fn within(mut self, plugin: &str) -> Self {
        self.message = format!("plugin {plugin}: {}", self.message);
        self
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {:?}: {}", self.place, self.text, self.message)
    }
}

impl std::error::Error for Problem {}

impl Directive {
    /// Its lines; none when it has no block.
    pub fn lines(&self) -> &[Self] {
        self.block.as_deref().unwrap_or_default()
    }

    /// The only argument.
    pub fn one(&self) -> Result<&Token, Problem> {
        match self.args.as_slice() {
            [only] => Ok(only),
            _ => Err(Problem::at(&self.name, format!("needs one argument, has {}", self.args.len()))),
        }
    }

    /// Refuses arguments.
    pub fn none(&self) -> Result<(), Problem> {
        self.args.first().map_or(Ok(()), |first| Err(Problem::at(first, "no argument is expected here")))
    }

    /// Refuses a block.
    pub fn no_block(&self) -> Result<(), Problem> {
        match &self.block {
            None => Ok(()),
            Some(_) => Err(Problem::at(&self.name, "takes no block")),
        }
    }

    /// This line is none that the plugin knows.
    pub fn unknown(&self, known: &[&str]) -> Problem {
        let near = runtime::suggest::nearest(&self.name.text, known.iter().copied());
        let near = near.map(|near| format!("; did you mean {near}?")).unwrap_or_default();
        Problem::at(&self.name, format!("unknown property{near}; known: {}", known.join(", ")))
    }
}

#[cfg(test)]
mod tests;
