//! JSON patch (RFC 6902) as Kubernetes executes it.
//!
//! Called by the engine for `application/json-patch+json`. Differs from the standard where kube-apiserver's library
//! does, since clients rely on it: `replace` adds an absent key, `test` of null passes on an absent key (client-side apply
//! migrates managedFields that way), an absent `value` is null, and -1 counts from the end of a list.

use api::{error::ApiError, schema::NESTING_LIMIT};
use serde_json::{Map, Value};

/// The most operations one patch may hold.
pub const MOST_OPERATIONS: usize = 10_000;

/// How much a document may grow by `copy`, in values: without a bound, each copy of a list into itself doubles it.
const MOST_COPIED: usize = 1_000_000;

/// The document after all operations, in order. A malformed patch is 400, too long a one 413, and an operation that does
/// not apply 422: then nothing of the patch counts.
pub fn apply(document: Value, patch: &Value) -> Result<Value, ApiError> {
    match attempt(document, patch)? {
        Attempted::Patched(document) => Ok(document),
        Attempted::FailedTest { index, path } => Err(inapplicable(index, &format!("the test of {path:?} failed"))),
    }
}

/// The same; nothing when a `test` does not hold.
pub fn apply_if_tests_hold(document: Value, patch: &Value) -> Result<Option<Value>, ApiError> {
    attempt(document, patch).map(|attempted| match attempted {
        Attempted::Patched(document) => Some(document),
        Attempted::FailedTest { .. } => None,
    })
}

enum Attempted {
    Patched(Value),
    FailedTest { index: usize, path: String },
}

fn inapplicable(index: usize, why: &str) -> ApiError {
    ApiError::new(422, "Invalid", format!("operation {index} of the JSON patch: {why}"))
}

fn attempt(mut document: Value, patch: &Value) -> Result<Attempted, ApiError> {
    let Value::Array(list) = patch else {
        return Err(ApiError::bad_request("a JSON patch must be a list of operations"));
    };
    if list.len() > MOST_OPERATIONS {
        let message = format!("a JSON patch may hold {MOST_OPERATIONS} operations, this one holds {}", list.len());
        return Err(ApiError::new(413, "RequestEntityTooLarge", message));
    }
    let operations = list.iter().enumerate().map(|(index, value)| read(index, value)).collect::<Result<Vec<_>, _>>()?;
    let mut copied = 0;
    for (index, operation) in operations.into_iter().enumerate() {
        let path = operation.path.unwrap_or_default();
        let holds = run(&mut document, operation, &mut copied).map_err(|why| inapplicable(index, &why))?;
        if !holds {
            return Ok(Attempted::FailedTest { index, path: path.to_owned() });
        }
    }
    Ok(Attempted::Patched(document))
}

/// Fields of operations that mean nothing, as `[0].bogus`: warnings or mistakes, as field validation has it.
pub fn unknown_fields(patch: &Value) -> Vec<String> {
    let operations = patch.as_array().into_iter().flatten().enumerate();
    let fields = operations.flat_map(|(index, operation)| {
        operation.as_object().into_iter().flat_map(Map::keys).map(move |key| (index, key))
    });
    let unknown = fields.filter(|(_, key)| !["op", "path", "from", "value"].contains(&key.as_str()));
    unknown.map(|(index, key)| format!("[{index}].{key}")).collect()
}

struct Operation<'a> {
    op: &'a str,
    path: Option<&'a str>,
    from: Option<&'a str>,
    value: &'a Value,
}

fn read(index: usize, value: &Value) -> Result<Operation<'_>, ApiError> {
    let bad = |what: &str| ApiError::bad_request(format!("operation {index} of the JSON patch: {what}"));
    let map = value.as_object().ok_or_else(|| bad("must be an object"))?;
    let text = |name: &str| match map.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.as_str())),
        Some(_) => Err(bad(&format!("{name} must be a string"))),
    };
    Ok(Operation {
        op: text("op")?.unwrap_or_default(),
        path: text("path")?,
        from: text("from")?,
        value: map.get("value").unwrap_or(&Value::Null),
    })
}

/// Carries out one operation; false when it is a `test` that does not hold.
fn run(document: &mut Value, operation: Operation<'_>, copied: &mut usize) -> Result<bool, String> {
    let Operation { op, path, from, value } = operation;
    let path = || path.ok_or_else(|| format!("{op} needs a path"));
    let from = || from.ok_or_else(|| format!("{op} needs a from"));
    match op {
        "add" => locate(document, path()?)?.add(value.clone())?,
        "remove" => locate(document, path()?)?.take().map(drop)?,
        "replace" if path()?.is_empty() => {
            if !value.is_object() && !value.is_array() {
                return Err("the whole document can only be replaced by an object or a list".to_owned());
            }
            *document = value.clone();
        }
        "replace" => locate(document, path()?)?.replace(value.clone())?,
        "move" => {
            let moved = locate(document, from()?)?.take()?;
            locate(document, path()?)?.add(moved)?;
        }
        "copy" => {
            let copy = locate(document, from()?)?.get()?.cloned().unwrap_or_default();
            *copied += size(&copy);
            if *copied > MOST_COPIED {
                return Err(format!("copies more than {MOST_COPIED} values"));
            }
            locate(document, path()?)?.add(copy)?;
        }
        "test" => {
            let path = path()?;
            let holds = if path.is_empty() {
                document == value
            } else {
                locate(document, path)?.get()?.unwrap_or(&Value::Null) == value
            };
            return Ok(holds);
        }
        _ => return Err(format!("op {op:?} is unknown; use add, remove, replace, move, copy or test")),
    }
    Ok(true)
}

fn size(value: &Value) -> usize {
    1 + match value {
        Value::Object(map) => map.values().map(size).sum(),
        Value::Array(list) => list.iter().map(size).sum(),
        _ => 0,
    }
}

/// A field of an object or an item of a list, which may not be there yet.
struct Location<'a> {
    slot: Slot<'a>,
    /// How many levels of the document are around it.
    depth: usize,
}

enum Slot<'a> {
    Field(&'a mut Map<String, Value>, String),
    Item(&'a mut Vec<Value>, String),
}

/// Finds the container that a pointer ends in. The text before the first slash is ignored, as upstream does.
fn locate<'a>(document: &'a mut Value, pointer: &str) -> Result<Location<'a>, String> {
    let missing = || format!("the document has no {pointer:?}");
    let mut steps: Vec<String> = pointer.split('/').skip(1).map(unescape).collect();
    let last = steps.pop().ok_or_else(missing)?;
    let mut here = document;
    for step in &steps {
        here = match here {
            Value::Object(map) => map.get_mut(step).ok_or_else(missing)?,
            Value::Array(list) => {
                let index = index(step, list.len())?;
                list.get_mut(index).ok_or_else(missing)?
            }
            _ => return Err(missing()),
        };
    }
    let slot = match here {
        Value::Object(map) => Slot::Field(map, last),
        Value::Array(list) => Slot::Item(list, last),
        _ => return Err(missing()),
    };
    Ok(Location { slot, depth: steps.len() + 1 })
}

impl Location<'_> {
    /// What is there. An absent field is nothing; an absent item is a mistake.
    fn get(&self) -> Result<Option<&Value>, String> {
        match &self.slot {
            Slot::Field(map, key) => Ok(map.get(key)),
            Slot::Item(list, key) => {
                let index = index(key, list.len())?;
                list.get(index).map(Some).ok_or_else(|| out_of_range(key))
            }
        }
    }

    fn add(self, value: Value) -> Result<(), String> {
        self.bound(&value)?;
        match self.slot {
            Slot::Field(map, key) => drop(map.insert(key, value)),
            Slot::Item(list, key) if key == "-" => list.push(value),
            Slot::Item(list, key) => {
                // One past the end is a place to add to, and -1 is that place.
                let index = index(&key, list.len() + 1)?;
                if index > list.len() {
                    return Err(out_of_range(&key));
                }
                list.insert(index, value);
            }
        }
        Ok(())
    }

    fn replace(self, value: Value) -> Result<(), String> {
        self.bound(&value)?;
        match self.slot {
            Slot::Field(map, key) => drop(map.insert(key, value)),
            Slot::Item(list, key) => {
                let index = index(&key, list.len())?;
                *list.get_mut(index).ok_or_else(|| out_of_range(&key))? = value;
            }
        }
        Ok(())
    }

    fn take(self) -> Result<Value, String> {
        match self.slot {
            Slot::Field(map, key) => map.remove(&key).ok_or_else(|| format!("there is no key {key:?} to take away")),
            Slot::Item(list, key) => {
                let index = index(&key, list.len())?;
                if index >= list.len() {
                    return Err(out_of_range(&key));
                }
                Ok(list.remove(index))
            }
        }
    }

    /// Patches are the one way to nest deeper than a body may: what is too deep could not be read back.
    fn bound(&self, value: &Value) -> Result<(), String> {
        if self.depth + depth(value) > NESTING_LIMIT {
            return Err(format!("the document would nest deeper than {NESTING_LIMIT} levels"));
        }
        Ok(())
    }
}

/// How many levels a value has; scalars have none.
fn depth(value: &Value) -> usize {
    match value {
        Value::Object(map) => 1 + map.values().map(depth).max().unwrap_or_default(),
        Value::Array(list) => 1 + list.iter().map(depth).max().unwrap_or_default(),
        _ => 0,
    }
}

/// The index a step means in a list of `length`; negative ones count from the end.
fn index(step: &str, length: usize) -> Result<usize, String> {
    let number: i64 = step.parse().map_err(|_| format!("{step:?} is no index of a list"))?;
    let index = if number < 0 { number + i64::try_from(length).unwrap_or(i64::MAX) } else { number };
    usize::try_from(index).map_err(|_| out_of_range(step))
}

fn out_of_range(step: &str) -> String {
    format!("index {step} is out of range")
}

fn unescape(step: &str) -> String {
    step.replace("~1", "/").replace("~0", "~")
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    /// Arbitrary JSON objects without nulls, a few levels deep, with few names so that they overlap.
    pub(crate) fn document() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            any::<bool>().prop_map(Value::from),
            (0..3i64).prop_map(Value::from),
            "[a-c]".prop_map(Value::from)
        ];
        let value = leaf.prop_recursive(3, 24, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map("[a-d]", inner, 0..4)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        });
        prop::collection::btree_map("[a-d]", value, 0..4).prop_map(|map| Value::Object(map.into_iter().collect()))
    }

    #[test]
    fn operations_change_the_document_in_order() {
        for (document, patch, expected) in [
            (json!({"a": 1}), json!([{"op": "replace", "path": "/a", "value": 2}]), json!({"a": 2})),
            (json!({}), json!([{"op": "replace", "path": "/a", "value": 2}]), json!({"a": 2})),
            (
                json!({"a": 1}),
                json!([{"op": "test", "path": "/a", "value": 1}, {"op": "remove", "path": "/a"}]),
                json!({}),
            ),
            (json!({}), json!([{"op": "test", "path": "/a", "value": null}]), json!({})),
            (json!({}), json!([{"op": "test", "path": "/a"}]), json!({})),
            (json!({"a": 1}), json!([{"op": "test", "path": "", "value": {"a": 1}}]), json!({"a": 1})),
            (json!({}), json!([{"op": "add", "path": "/a~1b~0c", "value": 1}]), json!({"a/b~c": 1})),
            (json!({"l": [1, 2]}), json!([{"op": "add", "path": "/l/-", "value": 3}]), json!({"l": [1, 2, 3]})),
            (json!({"l": [1, 2]}), json!([{"op": "add", "path": "/l/0", "value": 3}]), json!({"l": [3, 1, 2]})),
            (json!({"l": [1, 2]}), json!([{"op": "add", "path": "/l/2", "value": 3}]), json!({"l": [1, 2, 3]})),
            (json!({"l": [1, 2]}), json!([{"op": "add", "path": "/l/-1", "value": 3}]), json!({"l": [1, 2, 3]})),
            (json!({"l": [1, 2]}), json!([{"op": "remove", "path": "/l/-1"}]), json!({"l": [1]})),
            (json!({"l": [1, 2]}), json!([{"op": "replace", "path": "/l/1", "value": 3}]), json!({"l": [1, 3]})),
            (json!({"a": {"b": 1}}), json!([{"op": "move", "from": "/a/b", "path": "/c"}]), json!({"a": {}, "c": 1})),
            (json!({"a": 1}), json!([{"op": "copy", "from": "/a", "path": "/b"}]), json!({"a": 1, "b": 1})),
            (json!({"a": 1}), json!([{"op": "replace", "path": "", "value": {"b": 1}}]), json!({"b": 1})),
            (json!({"a": 1}), json!([]), json!({"a": 1})),
        ] {
            assert_eq!(apply(document.clone(), &patch), Ok(expected), "{patch} on {document}");
        }
    }

    #[test]
    fn what_does_not_apply_is_invalid_and_what_is_malformed_a_bad_request() {
        let operation = |op: &str, path: &str| json!([{"op": op, "path": path, "value": 1}]);
        for (patch, code, reason) in [
            (operation("test", "/a"), 422, "Invalid"),
            (operation("add", "/x/y"), 422, "Invalid"),
            (operation("add", "/a/y"), 422, "Invalid"),
            (operation("add", ""), 422, "Invalid"),
            (operation("add", "/l/3"), 422, "Invalid"),
            (operation("add", "/l/x"), 422, "Invalid"),
            (operation("remove", "/x"), 422, "Invalid"),
            (operation("remove", "/l/2"), 422, "Invalid"),
            (operation("replace", "/l/-3"), 422, "Invalid"),
            (operation("test", "/l/9"), 422, "Invalid"),
            (operation("bogus", "/a"), 422, "Invalid"),
            (json!([{"op": "add"}]), 422, "Invalid"),
            (json!([{"op": "move", "path": "/b"}]), 422, "Invalid"),
            (json!([{"op": "move", "from": "/x", "path": "/b"}]), 422, "Invalid"),
            (json!({"not": "a list"}), 400, "BadRequest"),
            (json!(["x"]), 400, "BadRequest"),
            (json!([{"op": 1, "path": "/a"}]), 400, "BadRequest"),
            (
                json!(vec![json!({"op": "test", "path": "/l/0", "value": 1}); MOST_OPERATIONS + 1]),
                413,
                "RequestEntityTooLarge",
            ),
        ] {
            let error = apply(json!({"a": "v", "l": [1, 2]}), &patch).unwrap_err();
            assert_eq!((error.code, error.reason), (code, reason), "{}", error.message);
        }
    }

    #[test]
    fn fields_that_no_operation_has_are_named() {
        let patch = json!([{"op": "test", "path": "/a", "value": 1}, {"op": "test", "bogus": 1}]);
        assert_eq!(unknown_fields(&patch), ["[1].bogus"]);
        assert!(unknown_fields(&json!({"bogus": 1})).is_empty());
    }

    #[test]
    fn a_document_grows_only_so_far() {
        let doubling = Value::Array(vec![json!({"op": "copy", "from": "/a", "path": "/a/-"}); 64]);
        let error = apply(json!({"a": [1]}), &doubling).unwrap_err();
        assert!(error.code == 422 && error.message.contains("copies more than"), "{}", error.message);

        let chain = |levels: usize| (1..levels).fold(json!([]), |value, _| json!([value]));
        let deepen = json!([{"op": "copy", "from": "/a", "path": "/a/0/0/-"}]);
        assert!(apply(json!({"a": chain(NESTING_LIMIT - 4)}), &deepen).is_ok());
        let error = apply(json!({"a": chain(NESTING_LIMIT - 3)}), &deepen).unwrap_err();
        assert!(error.code == 422 && error.message.contains("nest deeper"), "{}", error.message);
    }

    proptest! {
        #[test]
        fn the_difference_of_two_documents_leads_from_one_to_the_other(from in document(), to in document()) {
            let patch = serde_json::to_value(json_patch::diff(&from, &to)).unwrap();
            prop_assert_eq!(apply(from, &patch).unwrap(), to);
        }

        #[test]
        fn no_patch_makes_it_panic(
            document in document(),
            operations in prop::collection::vec(("(add|remove|replace|move|copy|test|x)", "(/[a-d0-3-]{0,2}){0,3}", "(/[a-d0-3-]{0,2}){0,3}", document()), 0..6),
        ) {
            let patch = operations.iter().map(|(op, path, from, value)| json!({"op": op, "path": path, "from": from, "value": value}));
            let _ = apply(document, &Value::Array(patch.collect()));
        }
    }
}
