//! One entry of `spec.versions`: schema, subresources, columns, selectable fields.

use super::{LazySchema, Scale, Version, names};
use crate::{
    cel::field_path::{self, Notation},
    columns::PrinterColumn,
    jsonpath::JsonPath,
    structural::{Kind, Structural},
};
use api::{error::FieldError, object::Fields, path::Path, resource::Column};
use serde_json::Value;

/// Most selectable fields of one version.
const MAX_SELECTABLE: usize = 8;
const COLUMN_TYPES: [&str; 5] = ["boolean", "date", "integer", "number", "string"];
const COLUMN_FORMATS: [&str; 8] = ["byte", "date", "date-time", "double", "float", "int32", "int64", "password"];

/// Reads a version; absent when its schema cannot be used, which is then among the mistakes.
pub(super) fn read(raw: &Value, path: &Path, errors: &mut Vec<FieldError>) -> Option<Version> {
    let name = raw.str_at("name");
    if let Some(why) = names::label_mistake(name) {
        errors.push(FieldError::invalid(&path.child("name"), name, why));
    }
    let deprecation = deprecation(raw, &path.child("deprecationWarning"), errors);
    let status = !raw.at("subresources.status").is_null();
    let at_subresources = path.child("subresources");
    let scale = match raw.at("subresources.scale") {
        Value::Null => None,
        scale => Some(self::scale(scale, &at_subresources.child("scale"), errors)),
    };
    let columns = columns(raw, &path.child("additionalPrinterColumns"), errors);
    let source = raw.at("schema.openAPIV3Schema");
    let at_schema = path.child("schema").child("openAPIV3Schema");
    if source.is_null() {
        errors.push(FieldError::required(&at_schema, "every version needs a schema"));
        return None;
    }
    let fields = |schema: &Structural| selectable(raw, schema, &path.child("selectableFields"), errors);
    let (selectable, schema) = LazySchema::read(source, &at_schema, status, fields);
    let schema = match schema {
        Ok(schema) => schema,
        Err(found) => {
            errors.extend(found);
            return None;
        }
    };
    Some(Version {
        name: name.to_owned(),
        served: raw.is_true("served"),
        storage: raw.is_true("storage"),
        deprecation,
        schema,
        columns,
        status,
        scale,
        selectable: selectable.unwrap_or_default(),
    })
}

/// The warning of a deprecated version; empty until `fill_in_deprecations` when its author wrote none.
fn deprecation(raw: &Value, path: &Path, errors: &mut Vec<FieldError>) -> Option<String> {
    let deprecated = raw.is_true("deprecated");
    let Some(text) = raw.at("deprecationWarning").as_str() else { return deprecated.then(String::new) };
    let mut refuse = |why: &str| errors.push(FieldError::invalid(path, text, why));
    if !deprecated {
        refuse("can only be set for deprecated versions");
    }
    if text.is_empty() {
        refuse("must not be empty");
    }
    if text.len() > 256 {
        refuse("must be at most 256 characters long");
    }
    if text.chars().any(char::is_control) {
        refuse("must only contain printable characters");
    }
    deprecated.then(|| text.to_owned())
}

/// Writes the warning of deprecated versions without one; it names the newest version that is not deprecated.
pub(super) fn fill_in_deprecations(versions: &mut [Version], group: &str, kind: &str) {
    let alive: Vec<String> =
        versions.iter().filter(|v| v.served && v.deprecation.is_none()).map(|v| v.name.clone()).collect();
    for version in versions {
        let Some(text) = version.deprecation.as_mut().filter(|text| text.is_empty()) else { continue };
        *text = format!("{group}/{} {kind} is deprecated", version.name);
        let newer = alive.iter().filter(|name| rank(name) > rank(&version.name)).max_by_key(|name| rank(name));
        if let Some(newer) = newer {
            text.push_str(&format!("; use {group}/{newer} {kind}"));
        }
    }
}

/// The order of versions in Kubernetes: stable over beta over alpha, then by number; other names come last.
fn rank(version: &str) -> (u8, u64, u64) {
    let parse = || {
        let rest = version.strip_prefix('v')?;
        let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        let major = rest[..end].parse().ok()?;
        match &rest[end..] {
            "" => Some((3, major, 0)),
            rest => {
                let (stage, minor) =
                    rest.strip_prefix("beta").map(|n| (2, n)).or_else(|| rest.strip_prefix("alpha").map(|n| (1, n)))?;
                Some((stage, major, if minor.is_empty() { 0 } else { minor.parse().ok()? }))
            }
        }
    };
    parse().unwrap_or((0, 0, 0))
}

fn scale(raw: &Value, path: &Path, errors: &mut Vec<FieldError>) -> Scale {
    let mut dotted = |key: &str, below: &[&str], required: bool| {
        let (text, path) = (raw.str_at(key), path.child(key));
        if text.is_empty() {
            if required {
                errors.push(FieldError::required(&path, ""));
            }
        } else if !below.iter().any(|prefix| text.starts_with(prefix) && text.len() > prefix.len()) {
            let detail = format!("must be a path below {}", below.join(" or "));
            errors.push(FieldError::invalid(&path, text, detail));
        }
        text.trim_start_matches('.').to_owned()
    };
    Scale {
        spec_replicas: dotted("specReplicasPath", &[".spec."], true),
        status_replicas: dotted("statusReplicasPath", &[".status."], true),
        selector: Some(dotted("labelSelectorPath", &[".spec.", ".status."], false)).filter(|path| !path.is_empty()),
    }
}

fn columns(raw: &Value, path: &Path, errors: &mut Vec<FieldError>) -> Vec<PrinterColumn> {
    let list = raw.list_at("additionalPrinterColumns");
    if list.is_empty() {
        return vec![PrinterColumn::age()];
    }
    list.iter().enumerate().filter_map(|(i, raw)| column(raw, &path.index(i), errors)).collect()
}

fn column(raw: &Value, path: &Path, errors: &mut Vec<FieldError>) -> Option<PrinterColumn> {
    let (name, kind, format) = (raw.str_at("name"), raw.str_at("type"), raw.str_at("format"));
    let written = raw.str_at("jsonPath");
    if name.is_empty() {
        errors.push(FieldError::required(&path.child("name"), ""));
    }
    if kind.is_empty() {
        let detail = format!("must be one of {}", COLUMN_TYPES.join(", "));
        errors.push(FieldError::required(&path.child("type"), detail));
    } else if !COLUMN_TYPES.contains(&kind) {
        errors.push(FieldError::not_supported(&path.child("type"), kind, &COLUMN_TYPES));
    }
    if !format.is_empty() && !COLUMN_FORMATS.contains(&format) {
        errors.push(FieldError::not_supported(&path.child("format"), format, &COLUMN_FORMATS));
    }
    let at_path = path.child("jsonPath");
    if written.is_empty() {
        errors.push(FieldError::required(&at_path, ""));
        return None;
    }
    if !written.starts_with('.') {
        errors.push(FieldError::invalid(&at_path, written, "must be a JSONPath that starts with a dot"));
        return None;
    }
    match JsonPath::parse(written) {
        Ok(path) => {
            let description = match raw.str_at("description") {
                "" => format!("Value at {written}."),
                description => description.to_owned(),
            };
            let priority = raw.int_at("priority").and_then(|n| i32::try_from(n).ok()).unwrap_or_default();
            let (name, kind, format) = (name.to_owned(), kind.to_owned(), format.to_owned());
            Some(PrinterColumn { column: Column { name, kind, format, description, priority }, path })
        }
        Err(why) => {
            errors.push(FieldError::invalid(&at_path, written, why.to_string()));
            None
        }
    }
}

fn selectable(raw: &Value, schema: &Structural, path: &Path, errors: &mut Vec<FieldError>) -> Vec<String> {
    let mut fields: Vec<String> = Vec::new();
    for (i, raw) in raw.list_at("selectableFields").iter().enumerate() {
        let (path, text) = (path.index(i).child("jsonPath"), raw.str_at("jsonPath"));
        if text.is_empty() {
            errors.push(FieldError::required(&path, ""));
            continue;
        }
        let found = match field_path::follow(text, schema.root(), Notation::Dots) {
            Ok(found) => found,
            Err(why) => {
                errors.push(FieldError::invalid(&path, text, why));
                continue;
            }
        };
        let dotted = found.path.to_string();
        if dotted == "metadata" || dotted.starts_with("metadata.") {
            errors.push(FieldError::invalid(&path, text, "must not point to fields in metadata"));
        }
        if !matches!(found.schema.kind, Some(Kind::String | Kind::Boolean | Kind::Integer)) {
            errors.push(FieldError::invalid(&path, text, "must point to a field of type string, boolean or integer"));
        }
        if fields.contains(&dotted) {
            errors.push(FieldError::duplicate(&path, text));
        } else {
            fields.push(dotted);
        }
    }
    if fields.len() > MAX_SELECTABLE {
        errors.push(FieldError::too_many(path, fields.len(), MAX_SELECTABLE));
    }
    fields
}
