//! Field selectors: `metadata.name=x,spec.type!=ClusterIP`, over the fields that a kind declares.

use api::{error::ApiError, resource::Resource};

/// One term.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Term {
    /// The label as the client wrote it.
    pub field: String,
    /// Dotted path in the object.
    pub path: String,
    /// `=` or `!=`.
    pub equal: bool,
    /// The value.
    pub value: String,
}

impl Term {
    /// Pins the name.
    pub fn name(name: &str) -> Self {
        let field = "metadata.name".to_owned();
        Self { path: field.clone(), field, equal: true, value: name.to_owned() }
    }
}

/// A field selector. The empty one selects everything.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct FieldSelector(pub Vec<Term>);

impl FieldSelector {
    /// Reads the text form; a field that the kind does not declare is refused with those it does.
    pub fn parse(text: &str, resource: &Resource) -> Result<Self, ApiError> {
        let mut terms = Vec::new();
        for part in split(text).into_iter().filter(|part| !part.is_empty()) {
            let (field, equal, value) = term(&part).ok_or_else(|| {
                ApiError::bad_request(format!(
                    "invalid selector: {text:?}; can't understand {part:?}, expected field=value or field!=value"
                ))
            })?;
            let path = path_of(field, resource).ok_or_else(|| {
                let known: Vec<&str> = ["metadata.name", "metadata.namespace"]
                    .into_iter()
                    .chain(resource.selectable.iter().map(|(label, _)| label.as_str()))
                    .collect();
                ApiError::bad_request(format!(
                    "field label not supported: {field}; {} accepts {}",
                    resource.kind,
                    known.join(", ")
                ))
            })?;
            terms.push(Term { field: field.to_owned(), path, equal, value: unescape(value)? });
        }
        Ok(Self(terms))
    }

    /// Whether everything is selected.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The one name that can match, if the selector pins it.
    pub fn name(&self) -> Option<&str> {
        self.0.iter().find(|term| term.equal && term.field == "metadata.name").map(|term| term.value.as_str())
    }

    /// The one namespace that can match, if the selector pins it.
    pub fn namespace(&self) -> Option<&str> {
        self.0.iter().find(|term| term.equal && term.field == "metadata.namespace").map(|term| term.value.as_str())
    }

    /// Whether an object is selected; `value` looks a declared field up as text.
    pub fn matches<'a>(&self, value: impl Fn(&str) -> std::borrow::Cow<'a, str>) -> bool {
        self.0.iter().all(|term| (value(&term.field) == term.value) == term.equal)
    }
}

fn path_of(field: &str, resource: &Resource) -> Option<String> {
    if field == "metadata.name" || field == "metadata.namespace" {
        return Some(field.to_owned());
    }
    resource.selectable.iter().find(|(label, _)| label == field).map(|(_, path)| path.clone())
}

/// Splits at commas that are not escaped.
fn split(text: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut escaped = false;
    for c in text.chars() {
        if c == ',' && !escaped {
            parts.push(String::new());
            continue;
        }
        escaped = c == '\\' && !escaped;
        if let Some(last) = parts.last_mut() {
            last.push(c);
        }
    }
    parts
}

fn term(part: &str) -> Option<(&str, bool, &str)> {
    let at = part.find(['=', '!'])?;
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
    let mut out = String::new();
    let mut chars = value.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some(c @ ('\\' | ',' | '=')) => out.push(c),
                _ => {
                    return Err(ApiError::bad_request(format!(
                        "invalid field selector: in {value:?} a backslash must be followed by \\, comma or ="
                    )));
                }
            },
            ',' | '=' => {
                return Err(ApiError::bad_request(format!("invalid field selector: unescaped {c:?} in {value:?}")));
            }
            c => out.push(c),
        }
    }
    Ok(out)
}
