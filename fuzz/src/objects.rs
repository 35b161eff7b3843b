//! Bodies of requests: JSON, YAML and protobuf, and what the rules of each built-in kind make of them.

use crate::{Target, input};
use api::{object::Fields, protobuf, resource::Resource, schema};
use apiserver::{
    registry::Registry,
    request::{body, query::FieldValidation},
};
use serde_json::Value;
use std::sync::{Arc, LazyLock};

pub(crate) const TARGETS: &[Target] = &[
    Target::new("body-json", json).up_to(16 << 10),
    Target::new("body-yaml", yaml).up_to(16 << 10),
    Target::new("body-protobuf", protobuf_body).up_to(16 << 10),
    Target::new("object", object).up_to(16 << 10),
];

static REGISTRY: LazyLock<Registry> = LazyLock::new(apiserver::warm::registry);

fn json(data: &[u8]) {
    if let Ok((value, _)) = schema::parse_json(data) {
        reads_back(&value);
    }
}

fn yaml(data: &[u8]) {
    if let Ok((value, _)) = schema::parse_yaml(data) {
        reads_back(&value);
    }
}

/// What is stored as JSON is read again as the same.
fn reads_back(value: &Value) {
    let text = value.to_string();
    let again: Value = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{text}: {error}"));
    assert_eq!(again, *value);
}

fn protobuf_body(data: &[u8]) {
    let Ok(value) = protobuf::decode(data, None) else { return };
    reads_back(&value);
    let Ok(bytes) = protobuf::encode(&value) else { return };
    assert_eq!(protobuf::decode(&bytes, None).as_ref(), Ok(&value), "protobuf written and read again");
}

/// The resource that an object says it is of.
pub(crate) fn resource_of(object: &Value) -> Option<Arc<Resource>> {
    let api_version = object.str_at("apiVersion");
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let kind = object.str_at("kind");
    REGISTRY.iter().find(|known| known.group == group && known.version == version && known.kind == kind).cloned()
}

/// The object of a body, typed and with its defaults.
pub(crate) fn typed(value: &Value, resource: &Resource) -> Option<Value> {
    let parsed = body::Parsed { value: value.clone(), duplicates: body::Duplicates::default() };
    let mut warnings = Vec::new();
    let mut object = body::object(parsed, resource, FieldValidation::Warn, &mut warnings).ok()?.object;
    resource.rules.default(&mut object);
    Some(object)
}

/// Create with the first part, update with the second.
fn object(data: &[u8]) {
    let text = input::text(data);
    let [first, second] = input::parts(&text);
    let Ok((new, _)) = schema::parse_yaml(first.as_bytes()) else { return };
    let Some(resource) = resource_of(&new) else { return };
    let Some(mut new) = typed(&new, &resource) else { return };
    let rules = &resource.rules;
    let mut twice = new.clone();
    rules.default(&mut twice);
    assert_eq!(twice, new, "defaults are the same a second time");
    judge(&resource, &new, None);
    if let Ok(bytes) = protobuf::encode(&new) {
        let again = protobuf::decode(&bytes, None).unwrap_or_else(|error| panic!("{new}: {error}"));
        assert_eq!(typed(&again, &resource).as_ref(), Some(&new), "through protobuf and back");
    }
    let Ok((old, _)) = schema::parse_yaml(second.as_bytes()) else { return };
    let Some(old) = typed(&old, &resource) else { return };
    rules.prepare_update(&mut new, &old);
    judge(&resource, &new, Some(&old));
    rules.prepare_status(&mut new, &old);
    let _ = rules.validate_status(&new, &old);
}

fn judge(resource: &Resource, object: &Value, old: Option<&Value>) {
    let rules = &resource.rules;
    let errors = match old {
        Some(old) => rules.validate_update(object, old),
        None => rules.validate(object),
    };
    for error in errors {
        assert!(!error.to_string().is_empty());
    }
    let _ = rules.warnings(object, old);
    let cells = rules.cells(object, jiff::Timestamp::UNIX_EPOCH);
    assert_eq!(cells.len(), rules.columns().len(), "a cell for each column");
    assert_eq!(resource.selected(object).len(), resource.selectable.len(), "a value for each selectable field");
    if let Ok(bytes) = apiserver::stored::encode(object) {
        let _ = apiserver::stored::parse_bytes(&bytes, 1);
    }
    let _ = rules.name_mistakes(object.str_at("metadata.name"), false);
}
