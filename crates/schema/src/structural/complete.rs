//! Everything that value validation speaks of must exist in the structural part.
//!
//! As upstream, this is asked of the checks at the root; deeper ones may speak of fields that are pruned anyway.

use super::{Checks, Nested, Schema};
use api::{error::FieldError, path::Path};

/// Reports fields and items that only value validation knows.
pub(super) fn check(schema: &Schema, path: &Path, errors: &mut Vec<FieldError>) {
    checks(&schema.checks, schema, path, path, errors);
}

fn checks(from: &Checks, schema: &Schema, path: &Path, declared_at: &Path, errors: &mut Vec<FieldError>) {
    for (key, list) in [("allOf", &from.all_of), ("anyOf", &from.any_of), ("oneOf", &from.one_of)] {
        for (i, one) in list.iter().enumerate() {
            nested(one, Some(schema), path, &declared_at.child(key).index(i), errors);
        }
    }
    if let Some(not) = &from.not {
        nested(not, Some(schema), path, &declared_at.child("not"), errors);
    }
}

fn nested(from: &Nested, schema: Option<&Schema>, path: &Path, declared_at: &Path, errors: &mut Vec<FieldError>) {
    let Some(schema) = schema else {
        errors.push(FieldError::required(path, format!("because it is defined in {declared_at}")));
        return;
    };
    checks(&from.checks, schema, path, declared_at, errors);
    if let Some(items) = &from.items {
        nested(items, schema.items.as_deref(), &path.child("items"), &declared_at.child("items"), errors);
    }
    for (name, field) in &from.properties {
        let (path, declared_at) = (path.child("properties").key(name), declared_at.child("properties").key(name));
        nested(field, schema.properties.get(name), &path, &declared_at, errors);
    }
}
