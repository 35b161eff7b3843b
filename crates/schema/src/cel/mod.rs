//! Rules in CEL: `x-kubernetes-validations`.
//!
//! `compile` reads every rule of a schema once, when the definition is admitted; `run` holds an object against them. The
//! grammar and the function libraries are those of `kube-cel`; evaluation is ours (`eval`), because a rule is a program
//! that a stranger runs inside the server and each step of it has to be counted.
//!
//! What is enforced
//! - A rule's text: at most 16 KiB, `parse::MAX_MARKS` operators and brackets, and `expr::MAX_DEPTH` levels.
//! - Its types, as far as the schema tells them (`check`): unknown fields, functions and overloads are refused.
//! - Its worst cost, estimated from maxItems, maxLength and maxProperties, at most 10,000,000 per rule (times how often it
//!   may run in one object) and 100,000,000 per schema, as upstream.
//! - Its real cost, in the same units: at most 1,000,000 per run and 10,000,000 per object. A rule that goes beyond stops
//!   there and the object is refused: nothing is accepted unchecked, and no clock is needed.

mod authorizer;
mod charge;
mod check;
mod compile;
mod convert;
mod cost;
mod declared;
mod eval;
mod expand;
mod expr;
pub mod field_path;
mod fold;
mod function;
mod infer;
mod literal;
mod message;
mod operator;
mod overloads;
mod parse;
mod path;
mod program;
mod run;
mod shaped;
mod size;
mod types;
mod value;

#[cfg(test)]
mod tests;

pub use authorizer::{Authorizer, Decision, Question};
pub use compile::{RuleTree, compile};
pub use program::{Bound, Budget, Failure, Makes, Outcome, Program, Scope};
pub use run::validate;

/// Cost of one run of one rule.
pub const COST_PER_RULE: u64 = 1_000_000;
/// Cost of all rules on one object.
pub const COST_PER_OBJECT: u64 = 10_000_000;
/// Estimated worst cost of one rule in one object.
pub const ESTIMATE_PER_RULE: u64 = 10_000_000;
/// Estimated worst cost of all rules of a schema in one object.
pub const ESTIMATE_PER_SCHEMA: u64 = 100_000_000;
/// Largest request; what a schema leaves unbounded is bounded by it.
pub const MAX_REQUEST: u64 = 3 * 1024 * 1024;
