//! Types and worst cost of an expression, before it ever runs.
//!
//! Called by `compile` for every rule and message. What the schema tells is checked; what it does not is `dyn` and checked
//! when the rule runs. The units of cost are those of `eval`.

use super::{cost, declared::Declared, expand, expr::Expression, infer, literal, types::Type};

/// What is known of an expression.
pub(super) struct Checked {
    pub(super) of: Type,
    pub(super) cost: u64,
}

/// Checks an expression on values that `this` declares. All mistakes come back as one text.
pub(super) fn check(expression: &Expression, this: &Declared, optional_old_self: bool) -> Result<Checked, String> {
    let failed = |mistakes: &[String]| format!("compilation failed: ERROR: {}", mistakes.join("\nERROR: "));
    let tree = expand::expand(&expression.root).map_err(|why| failed(&[why]))?;
    let mut inferred = infer::infer(&tree, &infer::variables(this, optional_old_self), false);
    if inferred.mistakes.is_empty() {
        inferred.mistakes = literal::mistakes(&tree, &inferred);
    }
    if !inferred.mistakes.is_empty() {
        return Err(failed(&inferred.mistakes));
    }
    if let Some(why) = literal::failing_conversion(&tree) {
        return Err(format!("program instantiation failed: {why}"));
    }
    let cost = cost::estimate(&tree, &inferred, this).most;
    Ok(Checked { of: inferred.types[tree.root].clone(), cost })
}
