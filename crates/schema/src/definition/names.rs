//! Names in a definition: which characters, which are required, which must differ.

use super::Names;
use api::{
    error::FieldError,
    kinds::names::{is_dns_label, is_dns_subdomain},
    object::Fields,
    path::Path,
};
use serde_json::Value;

/// Why `text` is no DNS label that starts with a letter.
pub(super) fn label_mistake(text: &str) -> Option<&'static str> {
    let fits = text.starts_with(|first: char| first.is_ascii_lowercase()) && is_dns_label(text);
    (!fits).then_some(
        "must be a DNS label of at most 63 lower case letters, digits and dashes that starts with a letter and does not end with a dash",
    )
}

/// Why `text` is no DNS subdomain.
pub(super) fn subdomain_mistake(text: &str) -> Option<&'static str> {
    (!is_dns_subdomain(text)).then_some(
        "must be a DNS subdomain of at most 253 lower case letters, digits, dashes and dots, whose parts start and end with a letter or digit",
    )
}

fn texts(value: &Value, key: &str) -> Vec<String> {
    value.list_at(key).iter().filter_map(Value::as_str).map(str::to_owned).collect()
}

/// The names in `spec.names` or `status.acceptedNames`.
pub(super) fn read(value: &Value) -> Names {
    Names {
        plural: value.str_at("plural").to_owned(),
        singular: value.str_at("singular").to_owned(),
        kind: value.str_at("kind").to_owned(),
        list_kind: value.str_at("listKind").to_owned(),
        short_names: texts(value, "shortNames"),
        categories: texts(value, "categories"),
    }
}

/// Mistakes in the names that a definition asks for.
pub(super) fn check(names: &Names, path: &Path, errors: &mut Vec<FieldError>) {
    for (field, name) in [("plural", &names.plural), ("singular", &names.singular)] {
        let path = path.child(field);
        match label_mistake(name) {
            _ if name.is_empty() => errors.push(FieldError::required(&path, "")),
            Some(why) => errors.push(FieldError::invalid(&path, name.as_str(), why)),
            None => {}
        }
    }
    for (field, name) in [("kind", &names.kind), ("listKind", &names.list_kind)] {
        let path = path.child(field);
        match label_mistake(&name.to_ascii_lowercase()) {
            _ if name.is_empty() => errors.push(FieldError::required(&path, "")),
            Some(why) => {
                let detail = format!("may have mixed case, but otherwise {why}");
                errors.push(FieldError::invalid(&path, name.as_str(), detail));
            }
            None => {}
        }
    }
    if !names.kind.is_empty() && names.kind == names.list_kind {
        let path = path.child("listKind");
        errors.push(FieldError::invalid(&path, names.list_kind.as_str(), "must differ from kind"));
    }
    for (field, list) in [("shortNames", &names.short_names), ("categories", &names.categories)] {
        for (i, name) in list.iter().enumerate() {
            if let Some(why) = label_mistake(name) {
                errors.push(FieldError::invalid(&path.child(field).index(i), name.as_str(), why));
            }
        }
    }
}
