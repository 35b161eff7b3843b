//! Value validation: `Checks` of any node, and the schemas below `allOf`, `anyOf`, `oneOf` and `not`.
//!
//! Called by `parse` for each structural node. What a nested schema must not say is refused here.

use super::{Bound, Checks, Kind, MAX_DEPTH, Nested, keywords::Keywords};
use crate::walk::format::Format;
use api::{error::FieldError, go_regex::Pattern, path::Path};
use serde_json::Value;
use std::collections::HashMap;

/// Distinct patterns that one schema may have: each costs up to megabytes once compiled.
const MAX_PATTERNS: usize = 1000;

/// What reading a schema carries along: the mistakes, and the patterns compiled so far.
pub(super) struct Reader<'a> {
    pub(super) errors: &'a mut Vec<FieldError>,
    patterns: HashMap<String, Pattern>,
}

impl<'a> Reader<'a> {
    pub(super) fn new(errors: &'a mut Vec<FieldError>) -> Self {
        Self { errors, patterns: HashMap::new() }
    }

    fn pattern(&mut self, node: &Keywords<'_>) -> Option<Pattern> {
        let text = node.text("pattern", self.errors)?;
        if let Some(known) = self.patterns.get(text) {
            return Some(known.clone());
        }
        let compiled = if self.patterns.len() < MAX_PATTERNS {
            Pattern::new(text).map_err(|why| why.to_string())
        } else {
            Err(format!("a schema may have at most {MAX_PATTERNS} different patterns"))
        };
        match compiled {
            Ok(pattern) => {
                self.patterns.insert(text.to_owned(), pattern.clone());
                Some(pattern)
            }
            Err(why) => {
                self.errors.push(FieldError::invalid(&node.at("pattern"), text, why));
                None
            }
        }
    }
}

/// Keywords that JSON Schema has and custom resources do not.
pub(super) fn refuse_unsupported(node: &Keywords<'_>, errors: &mut Vec<FieldError>) {
    for key in ["id", "additionalItems", "patternProperties", "definitions", "dependencies", "$ref"] {
        if node.get(key).is_some() {
            errors.push(FieldError::forbidden(&node.at(key), format!("{key} is not supported")));
        }
    }
    if node.flag("uniqueItems", errors) {
        let detail = "comparing every item with every other takes quadratic time; use x-kubernetes-list-type: set";
        errors.push(FieldError::forbidden(&node.at("uniqueItems"), detail));
    }
}

/// `type`, if it is one.
pub(super) fn kind(node: &Keywords<'_>, errors: &mut Vec<FieldError>) -> Option<Kind> {
    let text = node.text("type", errors)?;
    let kind = Kind::ALL.into_iter().find(|kind| kind.name() == text);
    if text == "null" {
        errors.push(FieldError::forbidden(&node.at("type"), "null is no type; use nullable"));
    } else if kind.is_none() {
        errors.push(FieldError::not_supported(&node.at("type"), text, &Kind::ALL.map(Kind::name)));
    }
    kind
}

/// The checks of a node; `kind` decides which formats mean something.
pub(super) fn checks(node: &Keywords<'_>, kind: Option<Kind>, depth: usize, reader: &mut Reader<'_>) -> Checks {
    let bound = |limit: &str, exclusive: &str, errors: &mut Vec<FieldError>| {
        let exclusive = node.flag(exclusive, errors);
        node.number(limit, errors).map(|limit| Bound { limit, exclusive })
    };
    let minimum = bound("minimum", "exclusiveMinimum", reader.errors);
    let maximum = bound("maximum", "exclusiveMaximum", reader.errors);
    let multiple_of = node.number("multipleOf", reader.errors);
    if let Some(step) = multiple_of.as_ref().filter(|step| step.as_f64().is_none_or(|step| step <= 0.0)) {
        reader.errors.push(FieldError::invalid(&node.at("multipleOf"), step.clone(), "must be greater than 0"));
    }
    let pattern = reader.pattern(node);
    let errors = &mut *reader.errors;
    Checks {
        format: node.text("format", errors).and_then(|name| Format::of(name, kind)),
        minimum,
        maximum,
        multiple_of,
        min_length: node.count("minLength", errors),
        max_length: node.count("maxLength", errors),
        pattern,
        min_items: node.count("minItems", errors),
        max_items: node.count("maxItems", errors),
        min_properties: node.count("minProperties", errors),
        max_properties: node.count("maxProperties", errors),
        required: node.texts("required", errors),
        allowed: node.list("enum", errors).to_vec(),
        // The two spellings of int-or-string: alone, or as the first of allOf.
        any_of: list(node, "anyOf", depth, Types::IfIntOrString, reader),
        all_of: list(node, "allOf", depth, Types::IfIntOrStringBelow, reader),
        one_of: list(node, "oneOf", depth, Types::Refused, reader),
        not: node.get("not").map(|raw| Box::new(nested(raw, &node.at("not"), depth + 1, Types::Refused, reader))),
    }
}

/// Whether a nested schema may name types.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Types {
    Refused,
    /// As a list that is exactly integer and string.
    IfIntOrString,
    /// In the `anyOf` of the first of the list.
    IfIntOrStringBelow,
    /// Accepted: one of the pair integer and string.
    Accepted,
}

fn list(node: &Keywords<'_>, key: &str, depth: usize, types: Types, reader: &mut Reader<'_>) -> Vec<Nested> {
    let raw = node.list(key, reader.errors);
    let of = |i: usize| match types {
        Types::IfIntOrString if is_int_or_string(raw) => Types::Accepted,
        Types::IfIntOrStringBelow if i == 0 => Types::IfIntOrStringBelow,
        _ => Types::Refused,
    };
    let path = node.at(key);
    raw.iter().enumerate().map(|(i, raw)| nested(raw, &path.index(i), depth + 1, of(i), reader)).collect()
}

fn is_int_or_string(list: &[Value]) -> bool {
    let only = |value: &Value, kind: &str| {
        value.as_object().is_some_and(|map| map.len() == 1 && map.get("type").is_some_and(|given| given == kind))
    };
    matches!(list, [first, second] if only(first, "integer") && only(second, "string"))
}

fn nested(raw: &Value, path: &Path, depth: usize, types: Types, reader: &mut Reader<'_>) -> Nested {
    if depth > MAX_DEPTH {
        let detail = format!("is nested too deep; at most {MAX_DEPTH} levels are accepted");
        reader.errors.push(FieldError::forbidden(path, detail));
        return Nested::default();
    }
    let Some(node) = Keywords::of(raw, path, reader.errors) else { return Nested::default() };
    refuse_unsupported(&node, reader.errors);
    refuse_structure(&node, types, reader.errors);
    let mut checks = checks(&node, None, depth, reader);
    if types != Types::IfIntOrStringBelow {
        refuse_types(&mut checks.any_of, &node.at("anyOf"), reader.errors);
    }
    let properties = node.object("properties", reader.errors);
    if properties.is_some_and(|all| all.contains_key("metadata")) {
        let path = node.at("properties").key("metadata");
        reader.errors.push(FieldError::forbidden(&path, "must not be specified in a nested schema"));
    }
    let path = node.at("properties");
    let mut one = |(name, raw): (&String, &Value)| {
        (name.clone(), nested(raw, &path.key(name), depth + 1, Types::Refused, reader))
    };
    let properties = properties.into_iter().flatten().map(&mut one).collect();
    let items =
        node.get("items").map(|raw| Box::new(nested(raw, &node.at("items"), depth + 1, Types::Refused, reader)));
    let kind = (types == Types::Accepted).then(|| kind(&node, &mut Vec::new())).flatten();
    Nested { kind, checks, items, properties }
}

/// Deeper inside, the pair of types is not accepted; `checks` cannot know how deep it is, so it is taken back here.
fn refuse_types(any_of: &mut [Nested], path: &Path, errors: &mut Vec<FieldError>) {
    for (i, nested) in any_of.iter_mut().enumerate() {
        if nested.kind.take().is_some() {
            let path = path.index(i).child("type");
            errors.push(FieldError::forbidden(&path, "must be empty to be structural"));
        }
    }
}

fn refuse_structure(node: &Keywords<'_>, types: Types, errors: &mut Vec<FieldError>) {
    if types != Types::Accepted && kind(node, errors).is_some() {
        errors.push(FieldError::forbidden(&node.at("type"), "must be empty to be structural"));
    }
    for key in ["additionalProperties", "default"] {
        if node.get(key).is_some() {
            errors.push(FieldError::forbidden(&node.at(key), "must be undefined to be structural"));
        }
    }
    for key in ["title", "description", "x-kubernetes-list-type", "x-kubernetes-map-type"] {
        if node.text(key, errors).is_some() {
            errors.push(FieldError::forbidden(&node.at(key), "must be empty to be structural"));
        }
    }
    for key in [
        "nullable",
        "x-kubernetes-preserve-unknown-fields",
        "x-kubernetes-embedded-resource",
        "x-kubernetes-int-or-string",
    ] {
        if node.flag(key, errors) {
            errors.push(FieldError::forbidden(&node.at(key), "must be false to be structural"));
        }
    }
    for key in ["x-kubernetes-list-map-keys", "x-kubernetes-validations"] {
        if !node.list(key, errors).is_empty() {
            errors.push(FieldError::forbidden(&node.at(key), "must be empty to be structural"));
        }
    }
}
