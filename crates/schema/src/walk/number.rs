//! Comparing JSON numbers without losing digits: whole numbers as whole numbers, the rest as doubles.

use serde_json::{Number, Value};
use std::cmp::Ordering;

/// Which of two numbers is greater.
pub fn compare(a: &Number, b: &Number) -> Ordering {
    match (whole(a), whole(b)) {
        (Some(a), Some(b)) => a.cmp(&b),
        _ => double(a).total_cmp(&double(b)),
    }
}

/// The number as a whole one, `1.0` included.
pub fn whole(number: &Number) -> Option<i128> {
    if let Some(n) = number.as_i64() {
        return Some(n.into());
    }
    if let Some(n) = number.as_u64() {
        return Some(n.into());
    }
    // Beyond 2^53 a double does not tell its neighbours apart; it is still whole.
    number.as_f64().filter(|n| n.fract() == 0.0 && n.abs() < 1e36).map(|n| n as i128)
}

/// Whether `number` is a whole multiple of `step`, which is positive.
pub fn is_multiple(number: &Number, step: &Number) -> bool {
    match (whole(number), whole(step)) {
        (Some(n), Some(step)) if step != 0 => n % step == 0,
        _ => {
            let (n, step) = (double(number), double(step));
            // For steps below 1 the inverse is the more exact way: 0.3 / 0.1 is not 3 in doubles, 0.3 * (1 / 0.1) is.
            let times = if step < 1.0 { 1.0 / step * n } else { n / step };
            (times - times.round()).abs() <= f64::EPSILON * times.abs().max(1.0)
        }
    }
}

/// Whether two JSON values are the same, numbers by value.
pub fn equal(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => compare(a, b) == Ordering::Equal,
        _ => a == b,
    }
}

fn double(number: &Number) -> f64 {
    number.as_f64().unwrap_or(f64::NAN)
}
