//! Operators on two values, and what they cost.

use super::{
    eval::{Budget, Evaluated, Stop, as_optional, error, key_of, no_overload},
    expr::Operator,
};
use kube_cel::cel::{ExecutionError, Value};
use std::cmp::Ordering;

/// `-x`.
pub(super) fn negate(of: &Value) -> Evaluated {
    match of {
        Value::Int(n) => n.checked_neg().map(Value::Int).ok_or_else(|| error("integer overflow")),
        Value::Float(n) => Ok(Value::Float(-n)),
        _ => Err(no_overload("-")),
    }
}

/// `left operator right`.
pub(super) fn binary(operator: Operator, left: Value, right: Value, budget: &mut Budget) -> Evaluated {
    budget.spend(1)?;
    match operator {
        Operator::Equal => equal(&left, &right, budget).map(Value::Bool),
        Operator::NotEqual => equal(&left, &right, budget).map(|same| Value::Bool(!same)),
        Operator::In => is_in(&left, &right, budget),
        Operator::Less => compare(&left, &right, Ordering::is_lt, budget),
        Operator::LessEqual => compare(&left, &right, Ordering::is_le, budget),
        Operator::Greater => compare(&left, &right, Ordering::is_gt, budget),
        Operator::GreaterEqual => compare(&left, &right, Ordering::is_ge, budget),
        Operator::Add => {
            budget.spend(length(&left) + length(&right))?;
            made(left + right)
        }
        Operator::Subtract => made(left - right),
        Operator::Multiply => made(left * right),
        Operator::Divide => made(left / right),
        Operator::Remainder => made(left % right),
    }
}

/// What it takes to go over a value once, without what is inside of its items.
fn length(value: &Value) -> u64 {
    match value {
        Value::String(text) => text.len() as u64 / 10,
        Value::Bytes(bytes) => bytes.len() as u64 / 10,
        Value::List(list) => list.len() as u64,
        _ => 0,
    }
}

/// Whether two values are the same; every pair that is looked at costs a step.
fn equal(left: &Value, right: &Value, budget: &mut Budget) -> Result<bool, Stop> {
    match (left, right) {
        (Value::List(a), Value::List(b)) => {
            if a.len() != b.len() {
                return Ok(false);
            }
            for (a, b) in a.iter().zip(b.iter()) {
                budget.spend(1)?;
                if !equal(a, b, budget)? {
                    return Ok(false);
                }
            }
            Ok(true)
        }
        (Value::Map(a), Value::Map(b)) => {
            if a.map.len() != b.map.len() {
                return Ok(false);
            }
            for (key, a) in a.map.iter() {
                budget.spend(1)?;
                let same = b.get(key).map_or(Ok(false), |b| equal(a, b, budget))?;
                if !same {
                    return Ok(false);
                }
            }
            Ok(true)
        }
        _ => {
            if let (Some(a), Some(b)) = (as_optional(left), as_optional(right)) {
                return match (a.value(), b.value()) {
                    (Some(a), Some(b)) => equal(a, b, budget),
                    (a, b) => Ok(a.is_none() && b.is_none()),
                };
            }
            budget.spend(length(left).min(length(right)))?;
            Ok(left == right)
        }
    }
}

fn is_in(item: &Value, of: &Value, budget: &mut Budget) -> Evaluated {
    match of {
        Value::List(list) => {
            for other in list.iter() {
                budget.spend(1)?;
                if equal(item, other, budget)? {
                    return Ok(Value::Bool(true));
                }
            }
            Ok(Value::Bool(false))
        }
        Value::Map(map) => Ok(Value::Bool(key_of(item).is_ok_and(|key| map.get(&key).is_some()))),
        _ => Err(no_overload("in")),
    }
}

fn compare(left: &Value, right: &Value, holds: fn(Ordering) -> bool, budget: &mut Budget) -> Evaluated {
    budget.spend(length(left).min(length(right)))?;
    let order = match (left, right) {
        (Value::Bytes(a), Value::Bytes(b)) => Some(a.cmp(b)),
        (Value::Null, _) | (_, Value::Null) => None,
        _ => left.partial_cmp(right),
    };
    match (order, left, right) {
        (Some(order), _, _) => Ok(Value::Bool(holds(order))),
        // Not a number is neither less nor greater than anything.
        (None, Value::Float(_), _) | (None, _, Value::Float(_)) if is_number(left) && is_number(right) => {
            Ok(Value::Bool(false))
        }
        _ => Err(no_overload("comparison")),
    }
}

fn is_number(value: &Value) -> bool {
    matches!(value, Value::Int(_) | Value::UInt(_) | Value::Float(_))
}

fn made(result: Result<Value, ExecutionError>) -> Evaluated {
    result.map_err(|why| match why {
        ExecutionError::Overflow(..) => error("integer overflow"),
        ExecutionError::DivisionByZero(_) => error("division by zero"),
        ExecutionError::RemainderByZero(_) => error("modulus by zero"),
        ExecutionError::UnsupportedBinaryOperator(name, ..) => no_overload(name),
        _ => Stop::Error("no such overload".to_owned()),
    })
}
