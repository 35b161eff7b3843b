//! `Object{..}` and `JSONPatch{..}`: values that expressions of mutating policies put together.
//!
//! `Object.spec.template{..}` is named after the place where it belongs, which is checked when the whole is there; its fields
//! are whatever they are. A `JSONPatch` is one operation.

use super::{
    eval::{self, Evaluated, Evaluation},
    expr::{Access, Node},
    types::Type,
    value,
};
use kube_cel::cel::{Value, objects::Opaque};
use serde_json::{Map, Value as Json};
use std::{collections::BTreeMap, sync::Arc};

/// The configuration that an expression makes, and one operation of a patch.
pub(super) const OBJECT: &str = "Object";
pub(super) const JSON_PATCH: &str = "JSONPatch";
/// Makes a key fit into the path of an operation.
pub(super) const ESCAPE_KEY: &str = "jsonpatch.escapeKey";

/// Whether there is such a type.
pub(super) fn is_known(name: &str) -> bool {
    name == JSON_PATCH || name == OBJECT || name.strip_prefix(OBJECT).is_some_and(|rest| rest.starts_with('.'))
}

/// The type of a field; none when there is no such field.
pub(super) fn field_type(message: &str, field: &str) -> Option<Type> {
    match (message, field) {
        (JSON_PATCH, "op" | "path" | "from") => Some(Type::Text),
        (JSON_PATCH, "value") => Some(Type::Dyn),
        (JSON_PATCH, _) => None,
        _ => Some(Type::Dyn),
    }
}

/// A value of such a type.
#[derive(Debug, PartialEq)]
pub(super) struct Message {
    name: Arc<str>,
    fields: BTreeMap<String, Value>,
}

impl Eq for Message {}

impl Opaque for Message {
    fn runtime_type_name(&self) -> &str {
        &self.name
    }
}

/// Puts one together; a field that is an empty optional is left out where its name says so.
pub(super) fn evaluate(
    evaluation: &mut Evaluation<'_>,
    name: &Arc<str>,
    given: &[(Arc<str>, Node, bool)],
) -> Evaluated {
    evaluation.budget.spend(40 + given.len() as u64)?;
    let mut fields = BTreeMap::new();
    for (field, of, optional) in given {
        let of = evaluation.node(of)?;
        match eval::as_optional(&of).filter(|_| *optional) {
            Some(optional) => fields.extend(optional.value().cloned().map(|of| (field.to_string(), of))),
            None => drop(fields.insert(field.to_string(), of)),
        }
    }
    Ok(Value::Opaque(Arc::new(Message { name: name.clone(), fields })))
}

fn as_message(value: &Value) -> Option<&Message> {
    match value {
        Value::Opaque(opaque) => opaque.downcast_ref(),
        _ => None,
    }
}

/// A field of a message; none of anything else.
pub(super) fn select(of: &Value, field: &str, how: Access) -> Option<Evaluated> {
    let found = as_message(of)?.fields.get(field);
    Some(match how {
        Access::Test => Ok(Value::Bool(found.is_some())),
        Access::Optional => Ok(found.map_or_else(eval::none, |value| eval::some(value.clone()))),
        Access::Get => found.cloned().ok_or_else(|| eval::error(format!("no such key: {field}"))),
    })
}

/// What is in a message; nothing of anything else.
pub(super) fn parts(of: &Value) -> impl Iterator<Item = &Value> {
    as_message(of).into_iter().flat_map(|message| message.fields.values())
}

/// The configuration that an expression made; an error when a part of it is named after another place.
pub(super) fn configuration(made: &Value) -> Result<Json, String> {
    let mut wrong = Vec::new();
    misplaced(made, OBJECT, &mut wrong);
    if !wrong.is_empty() {
        return Err(format!("type mismatch: {}", wrong.join("\n")));
    }
    to_json(made).ok_or_else(|| "type mismatch: the configuration has no form in JSON".to_owned())
}

/// The operations that an expression made.
pub(super) fn operations(made: &Value) -> Result<Vec<Json>, String> {
    let Value::List(list) = made else {
        return Err("type mismatch: JSONPatchType.expression should evaluate to array".to_owned());
    };
    list.iter().map(operation).collect()
}

fn operation(made: &Value) -> Result<Json, String> {
    let message = as_message(made).filter(|message| &*message.name == JSON_PATCH);
    let message = message.ok_or("type mismatch: JSONPatchType.expression should evaluate to array of JSONPatch")?;
    let mut operation = Map::new();
    for (field, of) in &message.fields {
        if let Some(part) = as_message(of) {
            let mut wrong = Vec::new();
            misplaced(of, &part.name, &mut wrong);
            if !wrong.is_empty() {
                return Err(format!("type mismatch: {}", wrong.join("\n")));
            }
        }
        let json = to_json(of).ok_or("JSONPath valueExpression evaluated to a type that could not marshal to JSON")?;
        if field != "from" || json != "" {
            operation.insert(field.clone(), json);
        }
    }
    Ok(operation.into())
}

/// Finds parts whose type is not named after the fields that lead to them. Lists and maps on the way have no name.
fn misplaced(of: &Value, place: &str, wrong: &mut Vec<String>) {
    match of {
        Value::List(list) => list.iter().for_each(|item| misplaced(item, place, wrong)),
        Value::Map(map) => map.map.values().for_each(|item| misplaced(item, place, wrong)),
        _ => {
            let Some(message) = as_message(of) else { return };
            if &*message.name != place {
                wrong.push(format!(
                    "unexpected type name {:?}, expected {place:?}, which matches field name path from root Object type",
                    message.name
                ));
            }
            message.fields.iter().for_each(|(field, of)| misplaced(of, &format!("{place}.{field}"), wrong));
        }
    }
}

/// A value as JSON, with all messages in it.
pub(super) fn to_json(of: &Value) -> Option<Json> {
    match of {
        Value::List(list) => list.iter().map(to_json).collect::<Option<Vec<_>>>().map(Json::from),
        Value::Map(map) => {
            let entry = |(key, of): (&_, &Value)| match key {
                kube_cel::cel::objects::Key::String(key) => Some((key.to_string(), to_json(of)?)),
                _ => None,
            };
            map.map.iter().map(entry).collect::<Option<Map<_, _>>>().map(Json::from)
        }
        _ => match (as_message(of), eval::as_optional(of)) {
            (Some(message), _) => {
                let fields = message.fields.iter().map(|(field, of)| Some((field.clone(), to_json(of)?)));
                fields.collect::<Option<Map<_, _>>>().map(Json::from)
            }
            (None, Some(optional)) => optional.value().map_or(Some(Json::Null), to_json),
            (None, None) => value::to_json(of),
        },
    }
}

/// Carries out `jsonpatch.escapeKey`.
pub(super) fn escape_key(key: &str) -> Value {
    value::text(&key.replace('~', "~0").replace('/', "~1"))
}
