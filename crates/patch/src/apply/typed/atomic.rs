//! What of a configuration is replaced as a whole.

use api::schema::{ListKind, MapKind, Shape};
use serde_json::Value;

/// The paths of lists, maps and structs of `config` that are atomic, each as `.spec.list[0]`.
pub(in crate::apply) fn atomics(shape: &Shape, config: &Value) -> Vec<String> {
    let mut found = Vec::new();
    walk(shape, config, "", &mut found);
    found
}

fn walk(shape: &Shape, value: &Value, path: &str, found: &mut Vec<String>) {
    match (shape, value) {
        (Shape::Or(object, _), Value::Object(_)) => walk(object, value, path, found),
        (Shape::Or(_, other), _) => walk(other, value, path, found),
        (Shape::List(item, kind), Value::Array(list)) => {
            if *kind == ListKind::Atomic {
                found.push(path.to_owned());
            }
            list.iter().enumerate().for_each(|(index, value)| walk(item, value, &format!("{path}[{index}]"), found));
        }
        (Shape::Map(_, MapKind::Atomic), Value::Object(_)) => found.push(path.to_owned()),
        (Shape::Named(_) | Shape::Struct(_), Value::Object(map)) => {
            let Some(known) = shape.as_struct() else { return };
            if known.atomic {
                found.push(path.to_owned());
            }
            for (name, value) in map {
                if let Some(field) = known.fields.get(name) {
                    walk(&field.shape, value, &format!("{path}.{name}"), found);
                }
            }
        }
        _ => {}
    }
}
