//! Strategic merge patch: a merge patch that knows which lists merge by key, and obeys directives.
//!
//! Called by the engine for `application/strategic-merge-patch+json`, for built-in kinds only (415 for custom resources:
//! [`super::Format::CUSTOM`]). Mirrors the behaviour of apimachinery's strategicpatch; what answers 500 there (an item
//! without its merge key, an unknown `$patch`) is 400 here.
//!
//! | directive | where | meaning |
//! |---|---|---|
//! | `$patch: replace` | object | the patch takes its place |
//! | `$patch: replace` | item of a merged list | the other items of the patch take the list's place |
//! | `$patch: delete` | object, item | removes it |
//! | `$retainKeys: [..]` | object | fields not named are dropped first |
//! | `$deleteFromPrimitiveList/x: [..]` | beside `x` | removes these scalars from `x` |
//! | `$setElementOrder/x: [..]` | beside `x` | orders the items of `x` |

mod list;
#[cfg(test)]
mod tests;

use api::{
    error::ApiError,
    schema::{Patch, Shape},
};
use serde_json::{Map, Value};
use std::collections::BTreeSet;

type Object = Map<String, Value>;

const DIRECTIVE: &str = "$patch";
const RETAIN_KEYS: &str = "$retainKeys";
const DELETE_FROM: &str = "$deleteFromPrimitiveList";
const ORDER: &str = "$setElementOrder";

/// The document after the patch; `shape` is the type of both.
///
/// A patch that deletes the whole object yields an empty one, without name or kind: the engine refuses it like any patch
/// that changes the name.
pub fn apply(shape: &Shape, document: Value, patch: Value) -> Result<Value, ApiError> {
    let Value::Object(patch) = patch else {
        return Err(Refused::NotAnObject.into());
    };
    let document = if let Value::Object(map) = document { map } else { Object::new() };
    Ok(Value::Object(merge_objects(document, patch, shape)?))
}

/// Why a patch cannot be applied. Not retryable: the client must change the patch.
#[derive(Debug, PartialEq, thiserror::Error)]
enum Refused {
    #[error("a strategic merge patch must be a JSON object")]
    NotAnObject,
    #[error("$patch must be replace or delete here, got {0}")]
    Directive(Value),
    #[error("$retainKeys must be a list that names every field of the patch beside it")]
    RetainKeys,
    #[error("{0} must be {DELETE_FROM}/ and the name of a list")]
    DeleteFrom(String),
    #[error("{ORDER}/{0} must be a list that holds the items of the patch in the same order")]
    Order(String),
    #[error("{0} must be {ORDER}/ and the name of a list")]
    OrderName(String),
    #[error("{0:?} must be a list")]
    NotAList(String),
    #[error("every item of the list must have the field {key:?} that tells items apart, got {item}")]
    NoMergeKey { key: String, item: Value },
    #[error("a list of objects without a key to tell them apart cannot be merged")]
    NoKeyInType,
    #[error("the items of a merged list must be all objects or all scalars of one type, got {0}")]
    Mixed(Value),
    #[error("lists of lists cannot be merged")]
    ListOfLists,
}

impl From<Refused> for ApiError {
    fn from(why: Refused) -> Self {
        match why {
            Refused::ListOfLists => Self::new(422, "Invalid", why.to_string()),
            _ => Self::bad_request(why.to_string()),
        }
    }
}

fn merge_objects(mut original: Object, mut patch: Object, shape: &Shape) -> Result<Object, Refused> {
    if let Some(directive) = patch.remove(DIRECTIVE) {
        return match directive.as_str() {
            Some("replace") => Ok(patch),
            Some("delete") => Ok(Object::new()),
            _ => Err(Refused::Directive(directive)),
        };
    }
    if let Some(keys) = patch.remove(RETAIN_KEYS) {
        retain(&mut original, &patch, &keys)?;
    }
    list::merge_ordered(&mut original, &mut patch, shape)?;
    for (key, value) in patch {
        match key.strip_prefix(DELETE_FROM) {
            None => merge_field(&mut original, &key, value, shape)?,
            Some(rest) => match rest.strip_prefix('/') {
                Some(name) => delete_from(&mut original, name, value, shape)?,
                None => return Err(Refused::DeleteFrom(key)),
            },
        }
    }
    Ok(original)
}

/// Drops what `$retainKeys` does not name. The patch itself may only set what is retained.
fn retain(original: &mut Object, patch: &Object, keys: &Value) -> Result<(), Refused> {
    let keys: BTreeSet<&str> = keys.as_array().ok_or(Refused::RetainKeys)?.iter().filter_map(Value::as_str).collect();
    let retained = |(key, value): (&String, &Value)| {
        value.is_null() || key.starts_with(DELETE_FROM) || key.starts_with(ORDER) || keys.contains(key.as_str())
    };
    if !patch.iter().all(retained) {
        return Err(Refused::RetainKeys);
    }
    original.retain(|key, _| keys.contains(key.as_str()));
    Ok(())
}

fn merge_field(original: &mut Object, key: &str, patch: Value, shape: &Shape) -> Result<(), Refused> {
    let (below, rule) = field(shape, key);
    let merged = match (original.remove(key), patch) {
        (_, Value::Null) => return Ok(()),
        (Some(Value::Object(original)), Value::Object(patch)) => Value::Object(merge_objects(original, patch, below)?),
        (Some(Value::Array(original)), Value::Array(patch)) if rule.merge => {
            Value::Array(list::merge(original, patch, item(below), rule.merge_key)?)
        }
        (Some(Value::Array(_)), patch @ Value::Array(_)) => patch,
        (_, mut patch) => {
            drop_nulls(&mut patch);
            match without_directives(patch) {
                Some(patch) => patch,
                None => return Ok(()),
            }
        }
    };
    original.insert(key.to_owned(), merged);
    Ok(())
}

fn delete_from(original: &mut Object, name: &str, patch: Value, shape: &Shape) -> Result<(), Refused> {
    let (below, rule) = field(shape, name);
    match (original.remove(name), patch) {
        (_, Value::Null) | (None, _) => {}
        (Some(Value::Array(list)), Value::Array(gone)) => {
            let left = list::delete(list, gone, item(below), rule.merge_key)?;
            original.insert(name.to_owned(), Value::Array(left));
        }
        (Some(other), _) => drop(original.insert(name.to_owned(), other)),
    }
    Ok(())
}

/// What strategic merge needs to know of one field.
#[derive(Clone, Copy, Default)]
struct Rule<'a> {
    merge: bool,
    merge_key: Option<&'a str>,
}

impl<'a> From<&'a Patch> for Rule<'a> {
    fn from(patch: &'a Patch) -> Self {
        Self { merge: patch.merge, merge_key: patch.merge_key.as_deref() }
    }
}

/// The type and rule of a field. What the type does not know merges like a merge patch.
fn field<'a>(shape: &'a Shape, key: &str) -> (&'a Shape, Rule<'a>) {
    match shape {
        Shape::Map(values, _) => (values, Rule::default()),
        _ => match shape.as_struct().and_then(|known| known.fields.get(key)) {
            Some(field) => (&field.shape, Rule::from(&field.patch)),
            None => (&Shape::Any, Rule::default()),
        },
    }
}

fn item(shape: &Shape) -> &Shape {
    if let Shape::List(item, _) = shape { item } else { &Shape::Any }
}

/// Removes fields that are null from a value that is new to the document.
fn drop_nulls(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.retain(|_, value| !value.is_null());
            map.values_mut().for_each(drop_nulls);
        }
        Value::Array(list) => list.iter_mut().for_each(drop_nulls),
        _ => {}
    }
}

/// A value that is new to the document has nothing to delete or replace: objects with `$patch` vanish.
fn without_directives(value: Value) -> Option<Value> {
    match value {
        Value::Object(map) if map.contains_key(DIRECTIVE) => None,
        Value::Object(map) => Some(Value::Object(
            map.into_iter().filter_map(|(key, value)| without_directives(value).map(|value| (key, value))).collect(),
        )),
        Value::Array(list) => Some(Value::Array(list.into_iter().filter_map(without_directives).collect())),
        scalar => Some(scalar),
    }
}
