//! The language of Go's text/template, as far as Corefiles use it: compiled when the file is read, run per query.
//!
//! There are actions, pipelines, variables, `if`, `range`, `with`, `define`, `template`, `block`, comments, trimming, the
//! built-in functions but for `call`, and `parseInt`.

mod functions;
mod lexer;
mod parser;
mod run;
mod value;

pub(super) use parser::Template;
pub(super) use value::{Fields, Value};

#[cfg(test)]
mod tests;
