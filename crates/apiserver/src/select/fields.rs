//! Field selectors: `metadata.name=x,spec.type!=ClusterIP`, over the fields that a kind declares.

use api::{
    error::ApiError,
    resource::{Resource, SelectableField},
};
use std::sync::Arc;

#[derive(Clone, Debug, PartialEq, Eq)]
struct Term {
    field: SelectableField,
    /// `=`, and not `!=`.
    equal: bool,
    value: String,
}

/// A field selector. The empty one selects everything.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct FieldSelector(Vec<Term>);

impl FieldSelector {
    /// Reads the text form. Terms are read in the order of their text, so that the same mistake is named whatever their order.
    pub fn parse(text: &str, resource: &Resource) -> Result<Self, ApiError> {
        let mut parts = split(text);
        parts.sort_unstable();
        let mut terms = Vec::new();
        for part in parts.into_iter().filter(|part| !part.is_empty()) {
            let (label, equal, value) = term(part).ok_or_else(|| {
                ApiError::bad_request(format!("invalid selector: '{text}'; can't understand '{part}'"))
            })?;
            let value = unescape(value)?;
            // Upstream drops a term that says nothing at all.
            if !label.is_empty() || !value.is_empty() {
                terms.push((label, equal, value));
            }
        }
        let term = |(label, equal, value)| {
            Ok(Term { field: resource.selectable_field(label).map_err(ApiError::bad_request)?, equal, value })
        };
        terms.into_iter().map(term).collect::<Result<_, _>>().map(Self)
    }

    /// Selects by name.
    pub fn of_name(name: &str) -> Self {
        Self(vec![Term { field: SelectableField::Name, equal: true, value: name.to_owned() }])
    }

    /// Whether everything is selected.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The one name that can match, if the selector pins it.
    pub fn name(&self) -> Option<&str> {
        self.pinned(SelectableField::Name)
    }

    /// The one namespace that can match, if the selector pins it.
    pub fn namespace(&self) -> Option<&str> {
        self.pinned(SelectableField::Namespace)
    }

    /// The one value of a field that can match, if the selector pins it.
    pub fn pinned(&self, field: SelectableField) -> Option<&str> {
        self.0.iter().find(|term| term.equal && term.field == field).map(|term| term.value.as_str())
    }

    /// Whether an object is selected; `declared` reads the declared fields, which costs something.
    pub fn matches(&self, name: &str, namespace: &str, declared: impl Fn() -> Arc<[Box<str>]>) -> bool {
        self.0.iter().all(|term| {
            let equal = match term.field {
                SelectableField::Name => name == term.value,
                SelectableField::Namespace => namespace == term.value,
                SelectableField::Declared(index) => declared().get(index).is_some_and(|found| **found == *term.value),
            };
            equal == term.equal
        })
    }
}

/// Splits at commas that are not escaped.
fn split(text: &str) -> Vec<&str> {
    let mut escaped = false;
    text.split(|c| {
        let ends = c == ',' && !escaped;
        escaped = c == '\\' && !escaped;
        ends
    })
    .collect()
}

/// Label, whether it is to be equal, and the value as it was written.
fn term(part: &str) -> Option<(&str, bool, &str)> {
    let at = part
        .char_indices()
        .map(|(at, _)| at)
        .find(|at| part[*at..].starts_with('=') || part[*at..].starts_with("!="))?;
    let (field, rest) = part.split_at(at);
    if let Some(value) = rest.strip_prefix("!=") {
        Some((field, false, value))
    } else if let Some(value) = rest.strip_prefix("==") {
        Some((field, true, value))
    } else {
        rest.strip_prefix('=').map(|value| (field, true, value))
    }
}

fn unescape(value: &str) -> Result<String, ApiError> {
    let wrong = |why: String| Err(ApiError::bad_request(format!("invalid field selector: {why}")));
    let mut out = String::with_capacity(value.len());
    let mut chars = value.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some(c @ ('\\' | ',' | '=')) => out.push(c),
                other => {
                    return wrong(format!(
                        "invalid escape sequence: \\{}",
                        other.map(String::from).unwrap_or_default()
                    ));
                }
            },
            // Upstream names the character by its number.
            ',' | '=' => return wrong(format!("unescaped character in value: {}", u32::from(c))),
            c => out.push(c),
        }
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(kind: &str, text: &str) -> Result<FieldSelector, String> {
        let table = api::kinds::table();
        let resource = table.iter().find(|resource| resource.kind == kind).unwrap();
        FieldSelector::parse(text, resource).map_err(|error| error.message)
    }

    #[test]
    fn terms_that_say_nothing_select_everything() {
        for text in ["", ",", ",,", "=", "!=", "==,=,"] {
            assert!(parse("Pod", text).unwrap().is_empty(), "{text}");
        }
    }

    #[test]
    fn mistakes_are_named_in_upstreams_words() {
        for (kind, text, wanted) in [
            ("Pod", "x", "invalid selector: 'x'; can't understand 'x'"),
            ("Pod", "a=b,!x", "invalid selector: 'a=b,!x'; can't understand '!x'"),
            ("Pod", "spec.bogus=1,metadata.uid=2", "field label not supported: metadata.uid"),
            ("Pod", "=1", "field label not supported: "),
            ("Pod", "metadata.name=a=b", "invalid field selector: unescaped character in value: 61"),
            ("Pod", r"metadata.name=a\b", r"invalid field selector: invalid escape sequence: \b"),
            ("Pod", r"metadata.name=a\", r"invalid field selector: invalid escape sequence: \"),
            ("Node", "metadata.namespace=a", "field label not supported: metadata.namespace"),
            (
                "ConfigMap",
                "data=a",
                "\"data\" is not a known field selector: only \"metadata.name\", \"metadata.namespace\"",
            ),
            (
                "ReplicaSet",
                "status.replicas=0",
                "\"status.replicas\" is not a known field selector: only \"metadata.name\", \"metadata.namespace\"",
            ),
        ] {
            assert_eq!(parse(kind, text).unwrap_err(), wanted, "{kind} {text}");
        }
    }

    #[test]
    fn values_may_hold_what_separates_terms() {
        let parsed = parse("Pod", r"metadata.name=a\,b\=c\\d").unwrap();
        assert_eq!(parsed.name(), Some(r"a,b=c\d"));
        assert_eq!(parse("ClusterRole", "metadata.namespace=").unwrap().namespace(), Some(""));
    }

    proptest::proptest! {
        #[test]
        fn no_text_panics(text in "([a-z.=!,]|\\\\|\\PC){0,40}") {
            let _ = parse("Pod", &text);
        }
    }
}
