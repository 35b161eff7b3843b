//! Defaults must be values that the schema itself accepts: of the right type, pruned, valid.
//!
//! Runs once the rest of the schema is sound, because it uses the walkers on it. Rules in CEL are held against defaults by
//! `cel::compile`, which has them compiled.

use super::Schema;
use crate::walk::{embedded, lists, prune, validate};
use api::{error::FieldError, path::Path};

/// Reports defaults that could not be stored as they are.
pub(super) fn check(schema: &Schema, path: &Path, errors: &mut Vec<FieldError>) {
    if let Some(default) = &schema.default {
        let path = path.child("default");
        let mut pruned = default.clone();
        if !prune::value(&mut pruned, schema).is_empty() {
            errors.push(FieldError::invalid(&path, default.clone(), "must not have unknown fields"));
        }
        let before = errors.len();
        embedded::check(default, schema, &path, errors);
        if errors.len() == before {
            validate::value(default, schema, &path, errors);
            lists::check(default, schema, &path, errors);
        }
    }
    if let Some(items) = &schema.items {
        check(items, &path.child("items"), errors);
    }
    for (name, field) in &schema.properties {
        check(field, &path.child("properties").key(name), errors);
    }
}
