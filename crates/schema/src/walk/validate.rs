//! Holds a value against its schema: types, limits, patterns, formats, enums, required fields, allOf and the like.
//!
//! On update, what did not change is not looked at (ratcheting): an object that was stored before the schema became
//! stricter stays editable. Old and new are matched by field name, and by key fields in lists of type map.

use super::{OldItems, number, old_field};
use crate::structural::{Additional, Checks, Kind, Nested, Schema};
use api::{error::FieldError, path::Path};
use serde_json::{Map, Number, Value};
use std::cmp::Ordering;

/// Mistakes in a value.
pub fn value(value: &Value, schema: &Schema, path: &Path, errors: &mut Vec<FieldError>) {
    walk(value, None, schema, path, errors);
}

/// Mistakes in what changed between `old` and `new`.
pub fn update(new: &Value, old: Option<&Value>, schema: &Schema, path: &Path, errors: &mut Vec<FieldError>) {
    walk(new, old, schema, path, errors);
}

fn walk(value: &Value, old: Option<&Value>, schema: &Schema, path: &Path, errors: &mut Vec<FieldError>) {
    if old == Some(value) || (value.is_null() && schema.nullable) {
        return;
    }
    if !has_type(value, schema, path, errors) {
        return;
    }
    match value {
        Value::Object(map) => fields(map, old, schema, path, errors),
        Value::Array(list) => {
            let old = OldItems::of(schema, old);
            for (i, item) in list.iter().enumerate() {
                if let Some(items) = &schema.items {
                    walk(item, old.get(item), items, &path.index(i), errors);
                }
            }
        }
        _ => {}
    }
    checks(value, &schema.checks, path, errors);
}

/// A wrong type is the only mistake worth telling; the rest would follow from it.
fn has_type(value: &Value, schema: &Schema, path: &Path, errors: &mut Vec<FieldError>) -> bool {
    let (fits, wanted) = match schema.kind {
        _ if schema.int_or_string => (is(value, Kind::Integer) || value.is_string(), "integer or string"),
        Some(kind) => (is(value, kind), kind.name()),
        None => (true, ""),
    };
    if !fits {
        errors.push(wrong_type(value, wanted, path));
    }
    fits
}

fn is(value: &Value, kind: Kind) -> bool {
    match (kind, value) {
        (Kind::Object, Value::Object(_))
        | (Kind::Array, Value::Array(_))
        | (Kind::String, Value::String(_))
        | (Kind::Number, Value::Number(_))
        | (Kind::Boolean, Value::Bool(_)) => true,
        (Kind::Integer, Value::Number(number)) => number::whole(number).is_some(),
        _ => false,
    }
}

fn wrong_type(value: &Value, wanted: &str, path: &Path) -> FieldError {
    let given = match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number::whole(number).is_some() => "integer",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    FieldError::type_invalid(path, given, format!("must be of type {wanted}, not {given}"))
}

fn fields(map: &Map<String, Value>, old: Option<&Value>, schema: &Schema, path: &Path, errors: &mut Vec<FieldError>) {
    for (name, value) in map {
        if let Some(field) = schema.properties.get(name) {
            // Old and new were converted to the same version, so that a change of these would not be seen.
            let is_type_meta = path.as_str().is_empty() && (name == "apiVersion" || name == "kind");
            let old = if is_type_meta { None } else { old_field(old, name) };
            walk(value, old, field, &path.child(name), errors);
            continue;
        }
        match &schema.additional {
            // As upstream names it here: `map.key`, which is `map[key]` for duplicates in lists and for rules.
            Some(Additional::Each(each)) => walk(value, old_field(old, name), each, &path.child(name), errors),
            Some(Additional::Nothing) => {
                errors.push(FieldError::invalid(path, name.as_str(), "is a field that the schema does not accept"));
            }
            Some(Additional::Free) | None => {}
        }
    }
}

fn checks(value: &Value, checks: &Checks, path: &Path, errors: &mut Vec<FieldError>) {
    match value {
        Value::Number(number) => numbers(number, checks, path, errors),
        Value::String(text) => texts(text, checks, path, errors),
        Value::Array(list) => {
            if let Some(least) = checks.min_items.filter(|least| (list.len() as u64) < *least) {
                let detail = format!("must have at least {least} items");
                errors.push(FieldError::invalid(path, list.len(), detail));
            }
            if let Some(most) = checks.max_items.filter(|most| list.len() as u64 > *most) {
                errors.push(FieldError::too_many(path, list.len(), most as usize));
            }
        }
        Value::Object(map) => {
            if let Some(least) = checks.min_properties.filter(|least| (map.len() as u64) < *least) {
                let detail = format!("must have at least {least} fields");
                errors.push(FieldError::invalid(path, map.len(), detail));
            }
            if let Some(most) = checks.max_properties.filter(|most| map.len() as u64 > *most) {
                errors.push(FieldError::too_many(path, map.len(), most as usize));
            }
            let missing = checks.required.iter().filter(|name| !map.contains_key(*name));
            errors.extend(missing.map(|name| FieldError::required(&path.child(name), "")));
        }
        Value::Null | Value::Bool(_) => {}
    }
    if !checks.allowed.is_empty() && !checks.allowed.iter().any(|allowed| number::equal(allowed, value)) {
        let shown = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let accepted: Vec<String> = checks.allowed.iter().map(shown).collect();
        let accepted: Vec<&str> = accepted.iter().map(String::as_str).collect();
        errors.push(FieldError::not_supported(path, value.clone(), &accepted));
    }
    junctions(value, checks, path, errors);
}

fn numbers(number: &Number, checks: &Checks, path: &Path, errors: &mut Vec<FieldError>) {
    let mut refuse = |detail: String| errors.push(FieldError::invalid(path, number.clone(), detail));
    if let Some(least) = &checks.minimum {
        match number::compare(number, &least.limit) {
            Ordering::Less if !least.exclusive => refuse(format!("must be at least {}", least.limit)),
            Ordering::Less | Ordering::Equal if least.exclusive => {
                refuse(format!("must be greater than {}", least.limit))
            }
            _ => {}
        }
    }
    if let Some(most) = &checks.maximum {
        match number::compare(number, &most.limit) {
            Ordering::Greater if !most.exclusive => refuse(format!("must be at most {}", most.limit)),
            Ordering::Greater | Ordering::Equal if most.exclusive => {
                refuse(format!("must be less than {}", most.limit))
            }
            _ => {}
        }
    }
    if let Some(step) = &checks.multiple_of
        && !number::is_multiple(number, step)
    {
        refuse(format!("must be a multiple of {step}"));
    }
    if let Some(format) = &checks.format
        && !format.fits_number(number)
    {
        refuse(format!("must fit format {}", format.name()));
    }
}

fn texts(text: &str, checks: &Checks, path: &Path, errors: &mut Vec<FieldError>) {
    if checks.min_length.is_some() || checks.max_length.is_some() {
        let length = text.chars().count() as u64;
        if let Some(least) = checks.min_length.filter(|least| length < *least) {
            errors.push(FieldError::invalid(path, text, format!("must have at least {least} characters")));
        }
        if let Some(most) = checks.max_length.filter(|most| length > *most) {
            errors.push(FieldError::too_long(path, most as usize));
        }
    }
    if let Some(pattern) = &checks.pattern
        && !pattern.is_match(text)
    {
        errors.push(FieldError::invalid(path, text, format!("must match '{}'", pattern.source())));
    }
    if let Some(format) = &checks.format
        && !format.fits_text(text)
    {
        errors.push(FieldError::type_invalid(path, text, format!("must be of format {}", format.name())));
    }
}

fn junctions(value: &Value, checks: &Checks, path: &Path, errors: &mut Vec<FieldError>) {
    let mistakes = |one: &Nested| {
        let mut errors = Vec::new();
        nested(value, one, path, &mut errors);
        errors
    };
    for one in &checks.all_of {
        errors.extend(mistakes(one));
    }
    if !checks.any_of.is_empty() {
        let mut fewest: Option<Vec<FieldError>> = None;
        for one in &checks.any_of {
            let found = mistakes(one);
            if fewest.as_ref().is_none_or(|known| found.len() < known.len()) {
                fewest = Some(found);
            }
            if fewest.as_ref().is_some_and(Vec::is_empty) {
                break;
            }
        }
        if let Some(fewest) = fewest.filter(|fewest| !fewest.is_empty()) {
            errors.push(FieldError::invalid(path, "", "must satisfy at least one schema of anyOf"));
            errors.extend(fewest);
        }
    }
    if !checks.one_of.is_empty() {
        let found: Vec<_> = checks.one_of.iter().map(mistakes).collect();
        let fit = found.iter().filter(|found| found.is_empty()).count();
        if fit != 1 {
            let detail = format!("must satisfy exactly one schema of oneOf, and satisfies {fit}");
            errors.push(FieldError::invalid(path, "", detail));
            let fewest = found.into_iter().filter(|_| fit == 0).min_by_key(Vec::len);
            errors.extend(fewest.into_iter().flatten());
        }
    }
    if checks.not.as_ref().is_some_and(|not| mistakes(not).is_empty()) {
        errors.push(FieldError::invalid(path, "", "must not satisfy the schema of not"));
    }
}

/// Nothing is tolerated in here: "unchanged, so it holds" would turn a `not` around.
fn nested(value: &Value, schema: &Nested, path: &Path, errors: &mut Vec<FieldError>) {
    if let Some(kind) = schema.kind.filter(|kind| !is(value, *kind)) {
        errors.push(wrong_type(value, kind.name(), path));
        return;
    }
    match value {
        Value::Object(map) => {
            for (name, field) in &schema.properties {
                if let Some(value) = map.get(name) {
                    nested(value, field, &path.child(name), errors);
                }
            }
        }
        Value::Array(list) => {
            for (i, item) in list.iter().enumerate() {
                if let Some(items) = &schema.items {
                    nested(item, items, &path.index(i), errors);
                }
            }
        }
        _ => {}
    }
    checks(value, &schema.checks, path, errors);
}
