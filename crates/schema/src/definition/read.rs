//! The definition as JSON into `Definition`, with every mistake. Mirrors upstream's validation of definitions.

use super::{Definition, Version, approval, names, status, version};
use api::{
    error::FieldError,
    kinds::{check, webhook},
    object::Fields,
    path::Path,
    resource::{Conversion, Scope},
};
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
    let conversion = conversion(object, &spec.child("conversion"), &mut errors);
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
        conversion,
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

/// What is said of conversion; mistakes are named as upstream names them, after the fields of its older version.
fn conversion(object: &Value, path: &Path, errors: &mut Vec<FieldError>) -> Option<Conversion> {
    let conversion = object.at("spec.conversion");
    if conversion.is_null() {
        return None;
    }
    check::required_one_of(errors, &path.child("strategy"), conversion.str_at("strategy"), &["None", "Webhook"]);
    let (at_client, at_versions) = (path.child("webhookClientConfig"), path.child("conversionReviewVersions"));
    let (client, versions) = (conversion.at("webhook.clientConfig"), conversion.at("webhook.conversionReviewVersions"));
    if conversion.str_at("strategy") != "Webhook" {
        for (given, at) in [(client, &at_client), (versions, &at_versions)] {
            if !given.is_null() {
                errors.push(FieldError::forbidden(at, "should not be set when strategy is not set to Webhook"));
            }
        }
        return None;
    }
    match client {
        Value::Null => errors.push(FieldError::required(&at_client, "required when strategy is set to Webhook")),
        client => webhook::client(errors, &at_client, client),
    }
    webhook::review_versions(errors, &at_versions, versions, "");
    let storage = object.list_at("spec.versions").iter().find(|version| version.is_true("storage"))?;
    let texts = versions.as_array().into_iter().flatten().filter_map(Value::as_str);
    Some(Conversion {
        client: client.clone(),
        review_versions: texts.map(str::to_owned).collect(),
        stored_as: format!("{}/{}", object.str_at("spec.group"), storage.str_at("name")),
    })
}
