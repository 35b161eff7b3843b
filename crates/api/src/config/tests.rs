//! Definitions that are what they say, and values that stand for others.

use super::*;
use serde_json::{Value, json};

#[test]
fn every_definition_is_named_after_its_group_and_plural() {
    let definitions = definitions();
    assert_eq!(definitions.len(), definition_texts().len());
    for ((name, _), definition) in definition_texts().iter().zip(&definitions) {
        let (plural, group) = name.split_once('.').unwrap();
        assert_eq!(definition["metadata"]["name"], *name);
        assert_eq!(definition["spec"]["group"], group);
        assert_eq!(definition["spec"]["names"]["plural"], plural);
    }
}

/// A comma too many in YAML makes a key without a value.
#[test]
fn nothing_in_a_definition_is_null() {
    fn nulls(value: &Value, path: &str, found: &mut Vec<String>) {
        match value {
            Value::Null => found.push(path.to_owned()),
            Value::Object(map) => map.iter().for_each(|(key, value)| nulls(value, &format!("{path}.{key}"), found)),
            Value::Array(list) => list.iter().for_each(|value| nulls(value, path, found)),
            Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
    let mut found = Vec::new();
    definitions().iter().for_each(|definition| nulls(definition, "", &mut found));
    assert_eq!(found, [""; 0]);
}

#[test]
fn an_absent_or_empty_family_is_ipv4() {
    for aws in [json!({"region": "a"}), json!({"region": "a", "ipFamily": ""})] {
        let read: AwsPlatformStatus = serde_json::from_value(aws).unwrap();
        assert_eq!(read.ip_family, AwsIpFamily::IPv4);
    }
}
