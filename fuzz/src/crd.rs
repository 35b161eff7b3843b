//! Definitions of custom kinds: schemas, rules in CEL, patterns.

use crate::{Target, input};
use api::{go_regex::Pattern, path::Path};
use schema::{Definition, cel, resources, structural::Structural, walk::format::Format};
use serde_json::{Value, json};

pub(crate) const TARGETS: &[Target] = &[
    Target::new("definition", definition).up_to(16 << 10),
    Target::new("cel", rule),
    Target::new("pattern", pattern).up_to(512),
    Target::new("text-format", format).up_to(512),
];

/// A definition and an object of it, new and old.
fn definition(data: &[u8]) {
    let text = input::text(data);
    let [definition, new, old] = input::parts(&text);
    let Ok((definition, _)) = api::schema::parse_yaml(definition.as_bytes()) else { return };
    let Ok(definition) = Definition::read(&definition) else { return };
    let old = input::json(old);
    let Some(new) = input::json(new) else { return };
    for resource in resources(&definition) {
        let mut object = new.clone();
        let Some(decoded) = resource.rules.decode(&mut object) else { continue };
        if !decoded.errors.is_empty() {
            continue;
        }
        resource.rules.default(&mut object);
        let mut twice = object.clone();
        resource.rules.decode(&mut twice);
        resource.rules.default(&mut twice);
        assert_eq!(twice, object, "read and given defaults a second time");
        let _ = resource.rules.validate(&object);
        let _ = old.as_ref().map(|old| resource.rules.validate_update(&object, old));
        let _ = resource.rules.cells(&object, jiff::Timestamp::UNIX_EPOCH);
    }
}

fn fields() -> Value {
    let text = json!({"type": "string", "maxLength": 64});
    json!({
        "replicas": {"type": "integer"}, "ratio": {"type": "number"}, "on": {"type": "boolean"}, "name": text,
        "tags": {"type": "array", "maxItems": 20, "items": text},
        "ports": {"type": "array", "maxItems": 20, "items": {"type": "object", "properties": {
            "name": text, "port": {"type": "integer"}}}},
        "labels": {"type": "object", "maxProperties": 20, "additionalProperties": text},
        "size": {"x-kubernetes-int-or-string": true}, "since": {"type": "string", "format": "date-time"},
        "wait": {"type": "string", "format": "duration"}, "data": {"type": "string", "format": "byte", "maxLength": 64},
        "maybe": {"type": "string", "nullable": true, "maxLength": 9},
    })
}

/// A rule, an object, and the object before.
fn rule(data: &[u8]) {
    let text = input::text(data);
    let [rule, new, old] = input::parts(&text);
    let schema = json!({"type": "object", "properties": fields(), "x-kubernetes-validations": [{"rule": rule}]});
    let Ok(schema) = Structural::parse(&schema, &Path::root(), false) else { return };
    let Ok(tree) = cel::compile(&schema, &Path::root()) else { return };
    let (new, old) = (input::json(new).unwrap_or_else(|| json!({})), input::json(old));
    let mut errors = Vec::new();
    schema::walk::validate::value(&new, schema.root(), &Path::root(), &mut errors);
    if errors.is_empty() {
        let _ = cel::validate(&tree, schema.root(), &new, old.as_ref(), &Path::root());
    }
}

/// A pattern and a text.
fn pattern(data: &[u8]) {
    let text = input::text(data);
    let [source, text] = input::parts(&text);
    for pattern in [Pattern::new(source), Pattern::small(source)].into_iter().flatten() {
        assert!(pattern.is_match(text) || pattern.find(text).next().is_none(), "found, but no match");
    }
}

/// A format's name and a text.
fn format(data: &[u8]) {
    let text = input::text(data);
    let [name, text] = input::parts(&text);
    if let Some(format) = Format::of(name, None) {
        let _ = format.fits_text(text);
    }
}
