//! Label selectors as objects (`matchLabels`, `matchExpressions`): validation, matching and their text form.
//!
//! Called by the kinds that select pods, and by their table columns.

use super::{
    check::{self, Errors},
    names,
};
use crate::{error::FieldError, object::Fields, path::Path};
use serde_json::Value;

/// Mistakes in a selector. An absent one has none.
pub fn validate(errors: &mut Errors, path: &Path, selector: &Value) {
    check::labels(errors, &path.child("matchLabels"), selector.at("matchLabels"));
    for (i, rule) in selector.list_at("matchExpressions").iter().enumerate() {
        let at = path.child("matchExpressions").index(i);
        let values = check::texts(rule, "values");
        match rule.str_at("operator") {
            "In" | "NotIn" if values.is_empty() => {
                errors.push(FieldError::required(&at.child("values"), "In and NotIn need at least one value"));
            }
            "Exists" | "DoesNotExist" if !values.is_empty() => {
                errors.push(FieldError::forbidden(&at.child("values"), "Exists and DoesNotExist take no values"));
            }
            "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
            other => errors.push(FieldError::invalid(
                &at.child("operator"),
                other,
                "accepted are In, NotIn, Exists and DoesNotExist",
            )),
        }
        check::qualified_name(errors, &at.child("key"), rule.str_at("key"));
        for (j, value) in values.iter().enumerate() {
            check::all_of(errors, &at.child("values").index(j), value, names::label_value(value));
        }
    }
}

/// Whether a selector can be used at all: it has no mistakes.
pub fn is_readable(selector: &Value) -> bool {
    let mut errors = Errors::new();
    validate(&mut errors, &Path::root(), selector);
    errors.is_empty()
}

/// Whether a selector says nothing. What that means differs: nothing is selected when it is absent, all when it is empty.
pub fn is_empty(selector: &Value) -> bool {
    selector.map_at("matchLabels").is_none_or(serde_json::Map::is_empty)
        && selector.list_at("matchExpressions").is_empty()
}

/// Whether the labels are selected. An absent selector selects nothing, an empty one everything.
pub fn matches(selector: &Value, labels: &Value) -> bool {
    if selector.is_null() {
        return false;
    }
    let label = |key: &str| labels.get(key).and_then(Value::as_str);
    let equal = selector
        .map_at("matchLabels")
        .into_iter()
        .flatten()
        .all(|(key, value)| label(key) == Some(value.as_str().unwrap_or_default()));
    equal
        && selector.list_at("matchExpressions").iter().all(|rule| {
            let found = label(rule.str_at("key"));
            let listed = || found.is_some_and(|value| check::texts(rule, "values").contains(&value));
            match rule.str_at("operator") {
                "In" => listed(),
                "NotIn" => !listed(),
                "Exists" => found.is_some(),
                "DoesNotExist" => found.is_none(),
                _ => false,
            }
        })
}

/// The text form, as `kubectl get -l` takes it; empty when nothing is said.
pub fn text(selector: &Value) -> String {
    let mut parts: Vec<(&str, String)> = selector
        .map_at("matchLabels")
        .into_iter()
        .flatten()
        .map(|(key, value)| (key.as_str(), format!("{key}={}", value.as_str().unwrap_or_default())))
        .collect();
    for rule in selector.list_at("matchExpressions") {
        let key = rule.str_at("key");
        let mut values = check::texts(rule, "values");
        values.sort_unstable();
        let values = values.join(",");
        parts.push((
            key,
            match rule.str_at("operator") {
                "In" => format!("{key} in ({values})"),
                "NotIn" => format!("{key} notin ({values})"),
                "DoesNotExist" => format!("!{key}"),
                _ => key.to_owned(),
            },
        ));
    }
    parts.sort_by_key(|(key, _)| *key);
    parts.into_iter().map(|(_, text)| text).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn selectors_match_and_print() {
        let labels = json!({"app": "web", "tier": "front"});
        for (selector, matched, printed) in [
            (json!(null), false, ""),
            (json!({}), true, ""),
            (json!({"matchLabels": {"app": "web"}}), true, "app=web"),
            (json!({"matchLabels": {"tier": "front", "app": "db"}}), false, "app=db,tier=front"),
            (
                json!({"matchLabels": {"z": "1"}, "matchExpressions": [{"key": "app", "operator": "In", "values": ["web", "db"]}]}),
                false,
                "app in (db,web),z=1",
            ),
            (
                json!({"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["db"]}]}),
                true,
                "app notin (db)",
            ),
            (
                json!({"matchExpressions": [{"key": "none", "operator": "NotIn", "values": ["db"]}]}),
                true,
                "none notin (db)",
            ),
            (json!({"matchExpressions": [{"key": "app", "operator": "Exists"}]}), true, "app"),
            (json!({"matchExpressions": [{"key": "app", "operator": "DoesNotExist"}]}), false, "!app"),
        ] {
            assert_eq!(matches(&selector, &labels), matched, "{selector}");
            assert_eq!(text(&selector), printed, "{selector}");
            let mut errors = Errors::new();
            validate(&mut errors, &Path::new("s"), &selector);
            assert_eq!(errors, [], "{selector}");
        }
    }

    #[test]
    fn mistakes_are_reported_where_they_are() {
        let selector = json!({"matchLabels": {"a b": "c"}, "matchExpressions": [
            {"key": "a", "operator": "In"},
            {"key": "a", "operator": "Exists", "values": ["x"]},
            {"key": "", "operator": "Near", "values": ["x y"]},
        ]});
        let mut errors = Errors::new();
        validate(&mut errors, &Path::new("s"), &selector);
        let got: Vec<_> = errors.iter().map(|e| (e.field.as_str(), e.reason.cause())).collect();
        assert_eq!(
            got,
            [
                ("s.matchLabels", "FieldValueInvalid"),
                ("s.matchExpressions[0].values", "FieldValueRequired"),
                ("s.matchExpressions[1].values", "FieldValueForbidden"),
                ("s.matchExpressions[2].operator", "FieldValueInvalid"),
                ("s.matchExpressions[2].key", "FieldValueInvalid"),
                ("s.matchExpressions[2].key", "FieldValueInvalid"),
                ("s.matchExpressions[2].values[0]", "FieldValueInvalid"),
            ]
        );
    }

    #[test]
    fn selectors_pick_by_labels_and_expressions() {
        let labels = json!({"a": "1", "b": "2"});
        for (selector, want) in [
            (json!({}), true),
            (json!({"matchLabels": {"a": "1"}}), true),
            (json!({"matchLabels": {"a": "2"}}), false),
            (json!({"matchLabels": {"c": "1"}}), false),
            (json!({"matchExpressions": [{"key": "a", "operator": "In", "values": ["0", "1"]}]}), true),
            (json!({"matchExpressions": [{"key": "c", "operator": "In", "values": ["1"]}]}), false),
            (json!({"matchExpressions": [{"key": "a", "operator": "NotIn", "values": ["1"]}]}), false),
            (json!({"matchExpressions": [{"key": "c", "operator": "NotIn", "values": ["1"]}]}), true),
            (json!({"matchExpressions": [{"key": "a", "operator": "Exists"}]}), true),
            (json!({"matchExpressions": [{"key": "a", "operator": "DoesNotExist"}]}), false),
            (json!({"matchExpressions": [{"key": "a", "operator": "Gt", "values": ["0"]}]}), false),
        ] {
            assert_eq!(matches(&selector, &labels), want, "{selector}");
        }
    }
}
