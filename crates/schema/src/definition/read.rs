//! The definition as JSON into `Definition`, with every mistake. Mirrors upstream's validation of definitions.

use super::{Definition, Version, approval, names, status, version};
use api::{error::FieldError, object::Fields, path::Path, resource::Scope};
use serde_json::Value;

pub(super) fn definition(object: &Value) -> Result<Definition, Vec<FieldError>> {
    let mut errors = Vec::new();
    let spec = Path::new("spec");
    let group = object.str_at("spec.group");
    let asked = names::read(object.at("spec.names"));

    check_name(object, group, &asked.plural, &mut errors);
    check_group(group, &spec.child("group"), &mut errors);
    errors.extend(approval::mistake(object));
    let scope = scope(object, &spec.child("scope"), &mut errors);
    if object.is_true("spec.preserveUnknownFields") {
        let detail = "must be false; set x-kubernetes-preserve-unknown-fields in spec.versions[*].schema instead";
        errors.push(FieldError::invalid(&spec.child("preserveUnknownFields"), true, detail));
    }
    let mut versions = versions(object, &spec.child("versions"), &mut errors);
    names::check(&asked, &spec.child("names"), &mut errors);
    check_conversion(object.at("spec.conversion"), &spec.child("conversion"), &mut errors);
    if !errors.is_empty() {
        return Err(errors);
    }
    let accepted = names::read(object.at("status.acceptedNames"));
    let names = if accepted.plural.is_empty() { asked } else { accepted };
    version::fill_in_deprecations(&mut versions, group, &names.kind);
    Ok(Definition {
        name: object.str_at("metadata.name").to_owned(),
        group: group.to_owned(),
        scope,
        names,
        versions,
        revision: object.str_at("metadata.resourceVersion").parse().unwrap_or_default(),
        served: status::is_served(object),
    })
}

fn check_name(object: &Value, group: &str, plural: &str, errors: &mut Vec<FieldError>) {
    let name = object.str_at("metadata.name");
    if name != format!("{plural}.{group}") {
        let detail = format!("must be spec.names.plural and spec.group with a dot between: {plural}.{group}");
        errors.push(FieldError::invalid(&Path::new("metadata").child("name"), name, detail));
    }
}

fn check_group(group: &str, path: &Path, errors: &mut Vec<FieldError>) {
    match names::subdomain_mistake(group) {
        _ if group.is_empty() => errors.push(FieldError::required(path, "")),
        Some(why) => errors.push(FieldError::invalid(path, group, why)),
        None if !group.contains('.') => {
            errors.push(FieldError::invalid(path, group, "should be a domain with at least one dot"));
        }
        None => {}
    }
}

fn scope(object: &Value, path: &Path, errors: &mut Vec<FieldError>) -> Scope {
    match object.str_at("spec.scope") {
        "Cluster" => return Scope::Cluster,
        "Namespaced" => return Scope::Namespaced,
        "" => errors.push(FieldError::required(path, "Cluster or Namespaced")),
        other => errors.push(FieldError::not_supported(path, other, &["Cluster", "Namespaced"])),
    }
    Scope::Namespaced
}

fn versions(object: &Value, path: &Path, errors: &mut Vec<FieldError>) -> Vec<Version> {
    let list = object.list_at("spec.versions");
    let mut versions = Vec::with_capacity(list.len());
    for (i, raw) in list.iter().enumerate() {
        versions.extend(version::read(raw, &path.index(i), errors));
        let name = raw.str_at("name");
        if list[..i].iter().any(|other| other.str_at("name") == name) {
            errors.push(FieldError::duplicate(&path.index(i).child("name"), name));
        }
    }
    let stored: Vec<Value> =
        list.iter().filter(|raw| raw.is_true("storage")).map(|raw| raw.at("name").clone()).collect();
    if stored.len() != 1 {
        errors.push(FieldError::invalid(path, stored, "must have exactly one version with storage: true"));
    }
    versions
}

fn check_conversion(conversion: &Value, path: &Path, errors: &mut Vec<FieldError>) {
    match conversion.str_at("strategy") {
        "None" => {}
        "" if conversion.is_null() => {}
        "" => errors.push(FieldError::required(&path.child("strategy"), "None")),
        "Webhook" => {
            let detail = "this server converts between versions by apiVersion alone; use None, and versions with the same schema";
            errors.push(FieldError::invalid(&path.child("strategy"), "Webhook", detail));
            return;
        }
        other => errors.push(FieldError::not_supported(&path.child("strategy"), other, &["None"])),
    }
    for key in ["webhook", "webhookClientConfig", "conversionReviewVersions"] {
        if !conversion.at(key).is_null() {
            errors.push(FieldError::forbidden(&path.child(key), "must not be set if strategy is not Webhook"));
        }
    }
}
