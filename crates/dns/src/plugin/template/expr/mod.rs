//! Expressions of `var` and `expr`: the part of the expr language that conditions on a question need.
//!
//! They are read and checked for their types when the file is loaded; what then goes wrong at run time is a value, such
//! as a text that is no number. Everything that is not built is refused with its column.

mod functions;
mod lexer;
mod parser;
mod run;

pub(super) use run::Asked;

use super::go::Value;
use functions::Function;
use regex::Regex;
use std::fmt;

/// An expression that was read.
#[derive(Debug)]
pub(super) struct Expression {
    node: Node,
    kind: Kind,
}

/// What a value is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Bool,
    Int,
    Float,
    Text,
    List(Box<Self>),
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bool => f.write_str("bool"),
            Self::Int => f.write_str("int"),
            Self::Float => f.write_str("float"),
            Self::Text => f.write_str("string"),
            Self::List(of) => write!(f, "list of {of}"),
        }
    }
}

/// One step of an expression, with the right kinds below it.
#[derive(Debug)]
enum Node {
    Constant(Value),
    /// By its place among those that were declared.
    Variable(usize),
    Call(Function, Vec<Self>),
    List(Vec<Self>),
    Not(Box<Self>),
    Negative(Box<Self>),
    And(Box<Self>, Box<Self>),
    Or(Box<Self>, Box<Self>),
    /// Condition, then, else.
    Choice(Box<[Self; 3]>),
    Binary(Operator, Box<Self>, Box<Self>),
    Matches(Box<Self>, Regex),
    /// A number, and the first and the last of those it may be.
    Within(Box<[Self; 3]>),
    Index(Box<Self>, Box<Self>),
    Slice(Box<Self>, Option<Box<Self>>, Option<Box<Self>>),
}

/// What stands between two values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operator {
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
    Power,
    Equal,
    Unequal,
    Less,
    AtMost,
    More,
    AtLeast,
    Contains,
    StartsWith,
    EndsWith,
    In,
}

/// A mistake in an expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Mistake {
    /// From 1.
    column: usize,
    problem: String,
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "column {} of the expression: {}", self.column, self.problem)
    }
}

/// Variables that were declared, in their order.
#[derive(Debug, Default)]
pub(super) struct Variables(Vec<(String, Kind)>);

impl Variables {
    /// Declares another; what is wrong with its name if it cannot have it.
    pub(super) fn declare(&mut self, name: &str, expression: &Expression) -> Result<(), String> {
        let plain = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
        if !name.chars().all(plain) || name.starts_with(|letter: char| letter.is_ascii_digit()) {
            return Err("is no name; accepted: letters, digits and underscores, with no digit at the start".to_owned());
        }
        if functions::is_reserved(name) || lexer::is_word_of_the_language(name) {
            return Err("is reserved: the language has a function or a word of this name".to_owned());
        }
        if self.0.iter().any(|(known, _)| known == name) {
            return Err("is declared already".to_owned());
        }
        self.0.push((name.to_owned(), expression.kind.clone()));
        Ok(())
    }
}

impl Expression {
    pub(super) fn compile(text: &str, variables: &Variables) -> Result<Self, Mistake> {
        parser::parse(text, &variables.0)
    }
}

#[cfg(test)]
mod tests;
