//! Objects along their schema: what is dropped, filled in, refused, and what a change is forgiven.

use super::{default, embedded, lists, prune, validate};
use crate::structural::Structural;
use api::{error::FieldError, path::Path};
use proptest::prelude::*;
use serde_json::{Value, json};

fn structural(fields: &Value) -> Structural {
    let schema = json!({"type": "object", "properties": fields});
    Structural::parse(&schema, &Path::root(), false).unwrap_or_else(|errors| panic!("{:?}", mistakes(&errors)))
}

fn mistakes(errors: &[FieldError]) -> Vec<String> {
    errors.iter().map(ToString::to_string).collect()
}

fn refused(fields: &Value, object: &Value) -> Vec<String> {
    let mut errors = Vec::new();
    validate::value(object, structural(fields).root(), &Path::root(), &mut errors);
    mistakes(&errors)
}

#[test]
fn what_the_schema_does_not_know_is_dropped() {
    let open = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true,
        "properties": {"known": {"type": "object", "properties": {"a": {"type": "integer"}}}}});
    for (fields, object, kept, dropped) in [
        (json!({"a": {"type": "integer"}}), json!({"a": 1, "b": 2}), json!({"a": 1}), vec!["b"]),
        // What every object has is not the schema's business.
        (
            json!({}),
            json!({"apiVersion": "g/v1", "kind": "K", "metadata": {"x": 1}}),
            json!({"apiVersion": "g/v1", "kind": "K", "metadata": {"x": 1}}),
            vec![],
        ),
        (
            json!({"l": {"type": "array", "items": {"type": "object", "properties": {"a": {"type": "integer"}}}}}),
            json!({"l": [{"a": 1, "b": 2}, {"b": 3}]}),
            json!({"l": [{"a": 1}, {}]}),
            vec!["l[0].b", "l[1].b"],
        ),
        (
            json!({"m": {"type": "object", "additionalProperties": {"type": "object", "properties": {"a": {"type": "integer"}}}}}),
            json!({"m": {"x": {"a": 1, "b": 2}}}),
            json!({"m": {"x": {"a": 1}}}),
            vec!["m.x.b"],
        ),
        (
            json!({"o": open}),
            json!({"o": {"free": {"x": 1}, "known": {"a": 1, "b": 2}}}),
            json!({"o": {"free": {"x": 1}, "known": {"a": 1}}}),
            vec!["o.known.b"],
        ),
        (json!({"s": {"x-kubernetes-int-or-string": true}}), json!({"s": "50%"}), json!({"s": "50%"}), vec![]),
        // A value of the wrong type is for validation to tell.
        (json!({"a": {"type": "object"}}), json!({"a": 1}), json!({"a": 1}), vec![]),
    ] {
        let mut pruned = object.clone();
        assert_eq!(prune::object(&mut pruned, structural(&fields).root()), dropped, "{object}");
        assert_eq!(pruned, kept);
        assert_eq!(prune::object(&mut pruned, structural(&fields).root()), Vec::<String>::new());
    }
}

#[test]
fn metadata_of_an_embedded_resource_has_known_fields_only() {
    let schema = structural(
        &json!({"pod": {"type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true}}),
    );
    let mut object =
        json!({"pod": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "odd": 1}, "spec": {"x": 1}}});
    embedded::prune(&mut object, schema.root());
    assert_eq!(object["pod"], json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": {"x": 1}}));
    for (pod, expected) in [
        (json!({"apiVersion": "v1", "kind": "Pod"}), vec![]),
        (json!({"kind": "Pod"}), vec!["pod.apiVersion: Required value"]),
        (
            json!({"apiVersion": "a/b/c", "kind": "Pod"}),
            vec!["pod.apiVersion: Invalid value: \"a/b/c\": must be version or group/version"],
        ),
        (
            json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"labels": {"a": 1}}}),
            vec!["pod.metadata.labels: Invalid value: {\"a\":1}: must be a map of strings"],
        ),
        (
            json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a/b"}}),
            vec!["pod.metadata.name: Invalid value: \"a/b\": must not be '.' or '..' or contain '/' or '%'"],
        ),
    ] {
        let mut errors = Vec::new();
        embedded::check(&json!({"pod": pod}), schema.root(), &Path::root(), &mut errors);
        assert_eq!(mistakes(&errors), expected, "{pod}");
    }
}

#[test]
fn defaults_are_filled_in_where_nothing_stands() {
    let fields = json!({
        "a": {"type": "integer", "default": 1},
        "n": {"type": "integer", "default": 2, "nullable": true},
        "o": {"type": "object", "properties": {"b": {"type": "string", "default": "x"}}},
        "d": {"type": "object", "default": {}, "properties": {"c": {"type": "boolean", "default": true}}},
        "l": {"type": "array", "items": {"type": "object", "properties": {"e": {"type": "integer", "default": 5}}}},
        "m": {"type": "object", "additionalProperties": {"type": "object", "properties": {"f": {"type": "integer", "default": 6}}}},
        "plain": {"type": "string"}, "maybe": {"type": "string", "nullable": true},
    });
    for (object, expected) in [
        (json!({}), json!({"a": 1, "n": 2, "d": {"c": true}})),
        (json!({"a": 7, "n": 8, "d": {"c": false}}), json!({"a": 7, "n": 8, "d": {"c": false}})),
        // null is no value, unless it is one; then it stays and is not defaulted.
        (
            json!({"a": null, "n": null, "plain": null, "maybe": null}),
            json!({"a": 1, "n": null, "maybe": null, "d": {"c": true}}),
        ),
        (
            json!({"o": {}, "l": [{}, {"e": 1}], "m": {"k": {}}}),
            json!({"a": 1, "n": 2, "d": {"c": true}, "o": {"b": "x"}, "l": [{"e": 5}, {"e": 1}], "m": {"k": {"f": 6}}}),
        ),
    ] {
        let mut filled = object.clone();
        default::object(&mut filled, structural(&fields).root());
        assert_eq!(filled, expected, "{object}");
        default::object(&mut filled, structural(&fields).root());
        assert_eq!(filled, expected, "twice");
    }
}

#[test]
fn values_are_held_against_types_and_limits() {
    let int_or_string = json!({"x-kubernetes-int-or-string": true, "anyOf": [{"type": "integer"}, {"type": "string"}], "pattern": "^[0-9]+%?$"});
    for (field, value, expected) in [
        (json!({"type": "integer"}), json!(1), ""),
        (json!({"type": "integer"}), json!(1.0), ""),
        (json!({"type": "integer"}), json!(1.5), "Invalid value: \"number\": must be of type integer, not number"),
        (json!({"type": "integer"}), json!("1"), "Invalid value: \"string\": must be of type integer, not string"),
        (json!({"type": "number"}), json!(1), ""),
        (json!({"type": "boolean"}), json!("true"), "Invalid value: \"string\": must be of type boolean, not string"),
        (json!({"type": "string"}), Value::Null, "Invalid value: \"null\": must be of type string, not null"),
        (json!({"type": "string", "nullable": true}), Value::Null, ""),
        (json!({"type": "integer", "minimum": 3}), json!(2), "Invalid value: 2: must be at least 3"),
        (
            json!({"type": "integer", "minimum": 3, "exclusiveMinimum": true}),
            json!(3),
            "Invalid value: 3: must be greater than 3",
        ),
        (json!({"type": "number", "maximum": 1.5}), json!(1.5), ""),
        (
            json!({"type": "number", "maximum": 1.5, "exclusiveMaximum": true}),
            json!(1.5),
            "Invalid value: 1.5: must be less than 1.5",
        ),
        // Beyond what a double tells apart.
        (
            json!({"type": "integer", "maximum": 9_007_199_254_740_992_u64}),
            json!(9_007_199_254_740_993_u64),
            "Invalid value: 9007199254740993: must be at most 9007199254740992",
        ),
        (json!({"type": "number", "multipleOf": 0.1}), json!(0.3), ""),
        (json!({"type": "integer", "multipleOf": 4}), json!(6), "Invalid value: 6: must be a multiple of 4"),
        (
            json!({"type": "integer", "format": "int32"}),
            json!(2_147_483_648_u64),
            "Invalid value: 2147483648: must fit format int32",
        ),
        (
            json!({"type": "string", "minLength": 2}),
            json!("ü"),
            "Invalid value: \"ü\": must have at least 2 characters",
        ),
        (json!({"type": "string", "maxLength": 2}), json!("üü"), ""),
        (json!({"type": "string", "maxLength": 2}), json!("abc"), "Too long: may not be more than 2 bytes"),
        (json!({"type": "string", "pattern": "^a+$"}), json!("ab"), "Invalid value: \"ab\": must match '^a+$'"),
        (
            json!({"type": "string", "enum": ["a", "b"]}),
            json!("c"),
            "Unsupported value: \"c\": supported values: \"a\", \"b\"",
        ),
        (json!({"type": "integer", "enum": [1, 2]}), json!(1.0), ""),
        (
            json!({"type": "array", "maxItems": 1, "items": {"type": "integer"}}),
            json!([1, 2]),
            "Too many: 2: must have at most 1 items",
        ),
        (
            json!({"type": "array", "minItems": 1, "items": {"type": "integer"}}),
            json!([]),
            "Invalid value: 0: must have at least 1 items",
        ),
        (
            json!({"type": "object", "maxProperties": 1, "additionalProperties": {"type": "integer"}}),
            json!({"a": 1, "b": 2}),
            "Too many: 2: must have at most 1 items",
        ),
        (
            json!({"type": "object", "minProperties": 1, "additionalProperties": {"type": "integer"}}),
            json!({}),
            "Invalid value: 0: must have at least 1 fields",
        ),
        (json!({"type": "string", "format": "ipv4"}), json!("192.0.2.1"), ""),
        (
            json!({"type": "string", "format": "ipv4"}),
            json!("2001:db8::1"),
            "Invalid value: \"2001:db8::1\": must be of format ipv4",
        ),
        (json!({"type": "string", "format": "ipv6"}), json!("2001:db8::1"), ""),
        (json!({"type": "string", "format": "cidr"}), json!("2001:db8::/32"), ""),
        (
            json!({"type": "string", "format": "cidr"}),
            json!("192.0.2.0"),
            "Invalid value: \"192.0.2.0\": must be of format cidr",
        ),
        (
            json!({"type": "string", "format": "date-time"}),
            json!("yesterday"),
            "Invalid value: \"yesterday\": must be of format date-time",
        ),
        (json!({"type": "string", "format": "nobody-knows"}), json!("anything"), ""),
        (int_or_string.clone(), json!(5), ""),
        (int_or_string.clone(), json!("50%"), ""),
        (int_or_string.clone(), json!("half"), "Invalid value: \"half\": must match '^[0-9]+%?$'"),
        (int_or_string, json!(true), "Invalid value: \"boolean\": must be of type integer or string, not boolean"),
    ] {
        let expected: Vec<String> = if expected.is_empty() { vec![] } else { vec![format!("f: {expected}")] };
        assert_eq!(refused(&json!({"f": field}), &json!({"f": value})), expected, "{field} {value}");
    }
}

#[test]
fn required_fields_and_places_are_named() {
    let fields = json!({"l": {"type": "array", "items": {"type": "object", "required": ["a"], "properties": {"a": {"type": "integer"}}}},
        "m": {"type": "object", "additionalProperties": {"type": "integer"}}});
    assert_eq!(
        refused(&fields, &json!({"l": [{"a": 1}, {}], "m": {"x.y": "z"}})),
        ["l[1].a: Required value", "m.x.y: Invalid value: \"string\": must be of type integer, not string"]
    );
}

#[test]
fn junctions_decide_as_json_schema_has_it() {
    let named = |key: &str| {
        json!({"o": {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
        key: [{"required": ["a"]}, {"required": ["b"]}]}})
    };
    let not = json!({"o": {"type": "object", "properties": {"a": {"type": "integer"}}, "not": {"required": ["a"]}}});
    for (fields, object, expected) in [
        (named("allOf"), json!({"a": 1}), vec!["o.b: Required value"]),
        (named("anyOf"), json!({"a": 1}), vec![]),
        (
            named("anyOf"),
            json!({}),
            vec!["o: Invalid value: \"\": must satisfy at least one schema of anyOf", "o.a: Required value"],
        ),
        (named("oneOf"), json!({"a": 1}), vec![]),
        (
            named("oneOf"),
            json!({"a": 1, "b": 1}),
            vec!["o: Invalid value: \"\": must satisfy exactly one schema of oneOf, and satisfies 2"],
        ),
        (not.clone(), json!({}), vec![]),
        (not, json!({"a": 1}), vec!["o: Invalid value: \"\": must not satisfy the schema of not"]),
    ] {
        assert_eq!(refused(&fields, &json!({"o": object})), expected, "{fields} {object}");
    }
}

#[test]
fn sets_and_maps_hold_each_item_once() {
    let fields = json!({
        "set": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
        "map": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name", "protocol"],
            "items": {"type": "object", "required": ["name"], "properties": {
                "name": {"type": "string"}, "protocol": {"type": "string", "default": "TCP"}, "port": {"type": "integer"}}}},
        "list": {"type": "array", "items": {"type": "string"}}});
    for (object, expected) in [
        (json!({"set": ["a", "b"], "list": ["a", "a"]}), vec![]),
        (json!({"set": ["a", "b", "a", "a"]}), vec!["set[2]: Duplicate value: \"a\""]),
        (json!({"map": [{"name": "a", "protocol": "TCP"}, {"name": "a", "protocol": "UDP"}]}), vec![]),
        (
            json!({"map": [{"name": "a", "protocol": "TCP", "port": 1}, {"name": "a", "protocol": "TCP", "port": 2}]}),
            vec!["map[1]: Duplicate value: {\"name\":\"a\",\"protocol\":\"TCP\"}"],
        ),
    ] {
        let mut errors = Vec::new();
        lists::check(&object, structural(&fields).root(), &Path::root(), &mut errors);
        assert_eq!(mistakes(&errors), expected, "{object}");
    }
}

#[test]
fn what_did_not_change_is_forgiven() {
    let fields = json!({
        "a": {"type": "integer", "maximum": 5}, "b": {"type": "integer"},
        "o": {"type": "object", "required": ["x"], "properties": {"x": {"type": "integer"}, "y": {"type": "integer", "maximum": 5}}},
        "map": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
            "items": {"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}, "n": {"type": "integer", "maximum": 5}}}},
        "list": {"type": "array", "items": {"type": "integer", "maximum": 5}},
        "each": {"type": "object", "additionalProperties": {"type": "integer", "maximum": 5}}});
    for (old, new, expected) in [
        (json!({"a": 9, "b": 1}), json!({"a": 9, "b": 2}), vec![]),
        (json!({"a": 9}), json!({"a": 8}), vec!["a: Invalid value: 8: must be at most 5"]),
        (json!({"o": {"y": 9}}), json!({"o": {"y": 9}, "b": 1}), vec![]),
        // The object changed, so what it lacks is told; the field in it did not.
        (json!({"o": {"y": 9}}), json!({"o": {"y": 9, "z": 1}}), vec!["o.x: Required value"]),
        // Items of a map list are found by key, wherever they stand now.
        (
            json!({"map": [{"name": "a", "n": 9}]}),
            json!({"map": [{"name": "b", "n": 1}, {"name": "a", "n": 9}]}),
            vec![],
        ),
        (
            json!({"map": [{"name": "a", "n": 9}]}),
            json!({"map": [{"name": "b", "n": 9}]}),
            vec!["map[0].n: Invalid value: 9: must be at most 5"],
        ),
        (
            json!({"each": {"a.b": 9, "c": 9}}),
            json!({"each": {"a.b": 8, "c": 9}}),
            vec!["each.a.b: Invalid value: 8: must be at most 5"],
        ),
        // Items of other lists have no past.
        (json!({"list": [9]}), json!({"list": [9, 1]}), vec!["list[0]: Invalid value: 9: must be at most 5"]),
    ] {
        let mut errors = Vec::new();
        validate::update(&new, Some(&old), structural(&fields).root(), &Path::root(), &mut errors);
        assert_eq!(mistakes(&errors), expected, "{old} to {new}");
    }
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        "[a-z]{0,3}".prop_map(Value::from)
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map("[a-e]", inner, 0..4).prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn any_object_is_walked(object in any_json()) {
        let each = json!({"type": "object", "additionalProperties": {"type": "array", "items": {"type": "integer", "default": 1}}});
        let schema = structural(&json!({
            "a": {"type": "object", "properties": {"b": {"type": "string", "default": "x"}, "c": {"x-kubernetes-int-or-string": true}}},
            "b": each, "c": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
            "d": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}}}));
        let mut walked = object;
        prune::object(&mut walked, schema.root());
        default::object(&mut walked, schema.root());
        let once = walked.clone();
        prop_assert_eq!(prune::object(&mut walked, schema.root()), Vec::<String>::new());
        default::object(&mut walked, schema.root());
        prop_assert_eq!(&walked, &once);
        let mut errors = Vec::new();
        validate::value(&walked, schema.root(), &Path::root(), &mut errors);
        lists::check(&walked, schema.root(), &Path::root(), &mut errors);
        embedded::check(&walked, schema.root(), &Path::root(), &mut errors);
        // The same object is never refused as an update of itself.
        let mut errors = Vec::new();
        validate::update(&walked, Some(&once), schema.root(), &Path::root(), &mut errors);
        prop_assert_eq!(mistakes(&errors), Vec::<String>::new());
    }
}
