//! Text of a rule into an expression, on a stack that is large enough for it.
//!
//! The parser recurses with the nesting of the text and builds operator chains to the left, so a long rule is a deep one. It
//! runs on a thread of its own with a stack to match; what could overflow even that is refused by a look at the text.

use super::expr::{self, Expression};
use kube_cel::cel::parser::Parser;
use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    thread,
};

/// Longest rule.
pub(super) const MAX_LENGTH: usize = 16 * 1024;
/// Most operators, dots and brackets outside of quotes; each may be one level of nesting.
pub(super) const MAX_MARKS: usize = 2000;
/// Enough for `MAX_MARKS` levels in a build without optimisation; pages that are not used cost nothing.
const STACK: usize = 512 * 1024 * 1024;

/// Runs `work` where `expression` may be called.
pub(super) fn with_stack<T: Send>(work: impl FnOnce() -> T + Send) -> Result<T, String> {
    thread::scope(|scope| {
        let thread = thread::Builder::new().name("cel-compile".to_owned()).stack_size(STACK).spawn_scoped(scope, work);
        let thread = thread.map_err(|why| format!("cannot start a thread to compile rules: {why}"))?;
        thread.join().map_err(|_| "compiling rules failed".to_owned())
    })
}

/// Parses a rule; all that is wrong with it comes back as one text.
pub(super) fn expression(text: &str) -> Result<Expression, String> {
    if text.len() > MAX_LENGTH {
        return Err(format!("is {} bytes long, at most {MAX_LENGTH} are accepted", text.len()));
    }
    let marks = marks(text);
    if marks > MAX_MARKS {
        return Err(format!("has {marks} operators and brackets, at most {MAX_MARKS} are accepted"));
    }
    // The generated parser is not ours: a panic in it is a mistake in the rule, not the end of the server.
    let parsed = catch_unwind(AssertUnwindSafe(|| Parser::new().enable_optional_syntax(true).parse(text)));
    match parsed {
        Ok(Ok(parsed)) => expr::lower(parsed).map_err(|why| format!("compilation failed: ERROR: {why}")),
        Ok(Err(errors)) => Err(format!("compilation failed: ERROR: Syntax error: {}", one_line(&errors.to_string()))),
        Err(_) => Err("compilation failed: ERROR: Syntax error: the expression cannot be parsed".to_owned()),
    }
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn marks(text: &str) -> usize {
    let mut quote = None;
    let mut escaped = false;
    let mut count = 0;
    for c in text.chars() {
        match quote {
            Some(_) if escaped => escaped = false,
            Some(_) if c == '\\' => escaped = true,
            Some(open) if c == open => quote = None,
            Some(_) => {}
            None if c == '"' || c == '\'' => quote = Some(c),
            None => count += usize::from("+-*/%<>=!?:.([{&|,".contains(c)),
        }
    }
    count
}
