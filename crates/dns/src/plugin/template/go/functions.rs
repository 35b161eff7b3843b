//! The functions that templates may call.

use super::value::Value;
use std::{cmp::Ordering, fmt::Write};

const NAMES: &[&str] = &[
    "and", "or", "not", "index", "slice", "len", "print", "printf", "println", "html", "js", "urlquery", "eq", "ne",
    "lt", "le", "gt", "ge", "parseInt",
];

pub(super) fn exists(name: &str) -> bool {
    NAMES.contains(&name)
}

pub(super) fn call(name: &str, arguments: &[Value]) -> Result<Value, String> {
    match (name, arguments) {
        ("not", [value]) => Ok(Value::Bool(!value.is_true())),
        ("index", [value, keys @ ..]) => keys.iter().try_fold(value.clone(), |value, key| index(&value, key)),
        ("slice", [value, bounds @ ..]) if bounds.len() < 3 => slice(value, bounds),
        ("len", [value]) => match value {
            Value::Text(text) => Ok(Value::Int(text.len() as i128)),
            Value::List(list) => Ok(Value::Int(list.len() as i128)),
            Value::Map(map) => Ok(Value::Int(map.len() as i128)),
            other => Err(format!("len of type {other}")),
        },
        ("print", values) => Ok(Value::Text(print(values))),
        ("println", values) => {
            let texts: Vec<String> = values.iter().map(Value::to_string).collect();
            Ok(Value::Text(texts.join(" ") + "\n"))
        }
        ("printf", [Value::Text(format), values @ ..]) => Ok(Value::Text(printf(format, values))),
        ("html", values) => Ok(Value::Text(escape(&print(values), |letter| match letter {
            '<' => Some("&lt;".to_owned()),
            '>' => Some("&gt;".to_owned()),
            '&' => Some("&amp;".to_owned()),
            '"' => Some("&#34;".to_owned()),
            '\'' => Some("&#39;".to_owned()),
            _ => None,
        }))),
        ("js", values) => Ok(Value::Text(escape(&print(values), |letter| match letter {
            '\\' | '\'' | '"' => Some(format!("\\{letter}")),
            '<' | '>' | '&' | '=' => Some(format!("\\u{:04X}", u32::from(letter))),
            letter if letter < ' ' => Some(format!("\\u{:04X}", u32::from(letter))),
            _ => None,
        }))),
        ("urlquery", values) => {
            let mut text = String::new();
            for byte in print(values).bytes() {
                match byte {
                    b' ' => text.push('+'),
                    byte if byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte) => text.push(char::from(byte)),
                    // Writing to a string does not fail.
                    byte => drop(write!(text, "%{byte:02X}")),
                }
            }
            Ok(Value::Text(text))
        }
        ("eq", [value, others @ ..]) if !others.is_empty() => {
            for other in others {
                if compare(value, other)? == Some(Ordering::Equal) {
                    return Ok(Value::Bool(true));
                }
            }
            Ok(Value::Bool(false))
        }
        ("ne", [a, b]) => Ok(Value::Bool(compare(a, b)? != Some(Ordering::Equal))),
        ("lt", [a, b]) => Ok(Value::Bool(compare(a, b)? == Some(Ordering::Less))),
        ("le", [a, b]) => Ok(Value::Bool(matches!(compare(a, b)?, Some(Ordering::Less | Ordering::Equal)))),
        ("gt", [a, b]) => Ok(Value::Bool(compare(a, b)? == Some(Ordering::Greater))),
        ("ge", [a, b]) => Ok(Value::Bool(matches!(compare(a, b)?, Some(Ordering::Greater | Ordering::Equal)))),
        ("parseInt", [Value::Text(text), Value::Int(base), Value::Int(bits)]) => parse_int(text, *base, *bits),
        _ => Err(format!("wrong number or type of arguments for {name}: got {}", arguments.len())),
    }
}

fn index(value: &Value, key: &Value) -> Result<Value, String> {
    match (value, key) {
        (Value::List(list), Value::Int(at)) => {
            let found = usize::try_from(*at).ok().and_then(|at| list.get(at));
            found.cloned().ok_or_else(|| format!("index out of range: {at}"))
        }
        (Value::Text(text), Value::Int(at)) => {
            let found = usize::try_from(*at).ok().and_then(|at| text.as_bytes().get(at));
            found.map(|byte| Value::Int(i128::from(*byte))).ok_or_else(|| format!("index out of range: {at}"))
        }
        // A map of texts has a text for every key.
        (Value::Map(map), Value::Text(key)) => Ok(map.get(key).cloned().unwrap_or(Value::Text(String::new()))),
        (Value::Nil, _) => Err("index of untyped nil".to_owned()),
        (value, key) => Err(format!("cannot index {value} with {key}")),
    }
}

fn slice(value: &Value, bounds: &[Value]) -> Result<Value, String> {
    let length = match value {
        Value::Text(text) => text.len(),
        Value::List(list) => list.len(),
        other => return Err(format!("can't slice {other}")),
    };
    let bound = |index: usize, default: usize| match bounds.get(index) {
        None => Ok(default),
        Some(Value::Int(at)) => usize::try_from(*at).map_err(|_| format!("index out of range: {at}")),
        Some(other) => Err(format!("cannot index slice with {other}")),
    };
    let (from, to) = (bound(0, 0)?, bound(1, length)?);
    let out_of_range = || format!("index out of range: {from}:{to}");
    match value {
        Value::Text(text) => text.get(from..to).map(|part| Value::Text(part.to_owned())).ok_or_else(out_of_range),
        Value::List(list) => list.get(from..to).map(|part| Value::List(part.to_vec())).ok_or_else(out_of_range),
        _ => Err(out_of_range()),
    }
}

/// Spaces stand between neighbours that are both no text.
fn print(values: &[Value]) -> String {
    let mut text = String::new();
    for (index, value) in values.iter().enumerate() {
        let is_text = |value: &Value| matches!(value, Value::Text(_));
        if index > 0 && !is_text(value) && !is_text(&values[index - 1]) {
            text.push(' ');
        }
        text.push_str(&value.to_string());
    }
    text
}

fn escape(text: &str, replace: impl Fn(char) -> Option<String>) -> String {
    text.chars().map(|letter| replace(letter).unwrap_or_else(|| letter.to_string())).collect()
}

fn compare(a: &Value, b: &Value) -> Result<Option<Ordering>, String> {
    match (a, b) {
        (Value::Int(a), Value::Int(b)) => Ok(Some(a.cmp(b))),
        (Value::Float(a), Value::Float(b)) => Ok(a.partial_cmp(b)),
        (Value::Text(a), Value::Text(b)) => Ok(Some(a.cmp(b))),
        (Value::Bool(a), Value::Bool(b)) => Ok(Some(a.cmp(b))),
        (Value::Nil, Value::Nil) => Ok(Some(Ordering::Equal)),
        (Value::Nil, _) | (_, Value::Nil) => Ok(None),
        _ => Err("incompatible types for comparison".to_owned()),
    }
}

/// An unsigned number; base 0 looks at its prefix.
fn parse_int(text: &str, base: i128, bits: i128) -> Result<Value, String> {
    let refused = || format!("parsing {text:?}: invalid syntax");
    let (digits, radix) = match (base, text.get(..2).map(str::to_lowercase).as_deref()) {
        (0, Some("0x")) => (&text[2..], 16),
        (0, Some("0b")) => (&text[2..], 2),
        (0, Some("0o")) => (&text[2..], 8),
        (0, _) => (text, 10),
        (2..=36, _) => (text, base as u32),
        _ => return Err(format!("parsing {text:?}: invalid base {base}")),
    };
    if digits.is_empty() || digits.starts_with(['+', '-']) {
        return Err(refused());
    }
    let number = u128::from_str_radix(digits, radix).map_err(|_| refused())?;
    let bits = if bits == 0 { 64 } else { bits };
    if !(1..=64).contains(&bits) {
        return Err(format!("parsing {text:?}: invalid bit size {bits}"));
    }
    match number >> bits {
        0 => Ok(Value::Int(number as i128)),
        _ => Err(format!("parsing {text:?}: value out of range")),
    }
}

/// Widest field: no record is longer.
const WIDEST: usize = 1000;

/// Go's verbs for numbers, texts and everything.
fn printf(format: &str, values: &[Value]) -> String {
    let mut text = String::new();
    let mut values = values.iter();
    let mut letters = format.chars().peekable();
    while let Some(letter) = letters.next() {
        if letter != '%' {
            text.push(letter);
            continue;
        }
        let mut flags = String::new();
        while let Some(flag) = letters.next_if(|letter| "-+# 0".contains(*letter)) {
            flags.push(flag);
        }
        let mut number = || -> Option<usize> {
            let mut digits = String::new();
            while let Some(digit) = letters.next_if(char::is_ascii_digit) {
                digits.push(digit);
            }
            digits.parse().ok().map(|width: usize| width.min(WIDEST))
        };
        let width = number().unwrap_or(0);
        let precision = if letters.next_if_eq(&'.').is_some() {
            let mut digits = String::new();
            while let Some(digit) = letters.next_if(char::is_ascii_digit) {
                digits.push(digit);
            }
            Some(digits.parse::<usize>().unwrap_or(0).min(WIDEST))
        } else {
            None
        };
        let Some(verb) = letters.next() else {
            text.push_str("%!(NOVERB)");
            break;
        };
        if verb == '%' {
            text.push('%');
            continue;
        }
        let Some(value) = values.next() else {
            text.push_str(&format!("%!{verb}(MISSING)"));
            continue;
        };
        let shown = formatted(verb, &flags, precision, value);
        let missing = width.saturating_sub(shown.chars().count());
        let numeric = matches!(value, Value::Int(_) | Value::Float(_));
        match (flags.contains('-'), flags.contains('0') && numeric) {
            (true, _) => text.push_str(&(shown + &" ".repeat(missing))),
            (false, true) => {
                let (sign, digits) = shown.strip_prefix('-').map_or(("", shown.as_str()), |digits| ("-", digits));
                text.push_str(&format!("{sign}{}{digits}", "0".repeat(missing)));
            }
            (false, false) => text.push_str(&(" ".repeat(missing) + &shown)),
        }
    }
    if values.len() > 0 {
        let rest: Vec<String> = values.map(Value::to_string).collect();
        text.push_str(&format!("%!(EXTRA {})", rest.join(", ")));
    }
    text
}

fn formatted(verb: char, flags: &str, precision: Option<usize>, value: &Value) -> String {
    match (verb, value) {
        ('d' | 'v', Value::Int(number)) if flags.contains('+') && *number >= 0 => format!("+{number}"),
        ('d', Value::Int(number)) => number.to_string(),
        ('x', Value::Int(number)) if flags.contains('#') => format!("0x{number:x}"),
        ('x', Value::Int(number)) => format!("{number:x}"),
        ('X', Value::Int(number)) => format!("{number:X}"),
        ('o', Value::Int(number)) => format!("{number:o}"),
        ('b', Value::Int(number)) => format!("{number:b}"),
        ('c', Value::Int(number)) => {
            u32::try_from(*number).ok().and_then(char::from_u32).unwrap_or(char::REPLACEMENT_CHARACTER).to_string()
        }
        ('f', Value::Float(number)) => format!("{number:.*}", precision.unwrap_or(6)),
        ('t', Value::Bool(truth)) => truth.to_string(),
        ('s', Value::Text(text)) => text.chars().take(precision.unwrap_or(usize::MAX)).collect(),
        ('q', Value::Text(text)) => format!("{text:?}"),
        ('x', Value::Text(text)) => text.bytes().map(|byte| format!("{byte:02x}")).collect(),
        ('X', Value::Text(text)) => text.bytes().map(|byte| format!("{byte:02X}")).collect(),
        ('s', value @ (Value::List(_) | Value::Map(_))) | ('v', value) => value.to_string(),
        (verb, value) => format!("%!{verb}({value})"),
    }
}
