//! Validation of `metadata`, the same for every kind, built in or custom.
//!
//! The engine calls it beside the kind's own validation; names go through `Rules::name_mistakes`.

use super::{
    check::{self, Errors},
    names,
};
use crate::{
    error::FieldError,
    object::Fields,
    path::Path,
    resource::{Resource, Scope, Verbs},
};
use serde_json::Value;

/// Bytes that keys and values of annotations may have together.
pub const ANNOTATIONS_MAX: usize = 256 * 1024;

/// Mistakes in the metadata of a new object. A name has been generated already if one was asked for.
///
/// What is answered and never stored (reviews, bindings) needs no name, and has no mistakes here.
pub fn validate(object: &Value, resource: &Resource) -> Errors {
    let mut errors = Errors::new();
    if resource.verbs == Verbs::CreateOnly {
        return errors;
    }
    let path = Path::new("metadata");
    let meta = object.at("metadata");
    generate_name(&mut errors, &path, meta, resource);
    match meta.str_at("name") {
        "" => errors.push(FieldError::required(&path.child("name"), "give name or generateName")),
        name => check::all_of(&mut errors, &path.child("name"), name, resource.rules.name_mistakes(name, false)),
    }
    let namespace = meta.str_at("namespace");
    match resource.scope {
        Scope::Namespaced if namespace.is_empty() => errors.push(FieldError::required(&path.child("namespace"), "")),
        Scope::Namespaced => check::dns_label(&mut errors, &path.child("namespace"), namespace),
        Scope::Cluster if !namespace.is_empty() => {
            errors.push(FieldError::forbidden(&path.child("namespace"), "objects of this kind are not in a namespace"));
        }
        Scope::Cluster => {}
    }
    check::not_negative(&mut errors, &path, meta, "generation");
    finalizers(&mut errors, &path.child("finalizers"), meta);
    both(&mut errors, &path, meta, !resource.custom && resource.rules.strict_finalizers());
    errors
}

/// Mistakes in the metadata of a changed object.
///
/// A missing resourceVersion is not one: the engine has decided by then whether an unconditional update may go on.
pub fn validate_update(object: &Value, old: &Value, resource: &Resource) -> Errors {
    let mut errors = Errors::new();
    let path = Path::new("metadata");
    let (meta, before) = (object.at("metadata"), old.at("metadata"));
    if !before.at("deletionTimestamp").is_null() {
        let kept = check::texts(before, "finalizers");
        let added: Vec<_> = check::texts(meta, "finalizers").into_iter().filter(|name| !kept.contains(name)).collect();
        if !added.is_empty() {
            let text =
                format!("no finalizer can be added to an object that is being deleted, got {}", added.join(", "));
            errors.push(FieldError::forbidden(&path.child("finalizers"), text));
        }
    }
    let (generation, was) = (meta.int_at("generation").unwrap_or(0), before.int_at("generation").unwrap_or(0));
    if generation < was {
        errors.push(FieldError::invalid(&path.child("generation"), generation, format!("must not go back from {was}")));
    }
    for field in ["name", "namespace", "uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds"] {
        check::immutable(&mut errors, &path.child(field), meta.at(field), before.at(field));
    }
    finalizers(&mut errors, &path.child("finalizers"), meta);
    both(&mut errors, &path, meta, !resource.custom && resource.rules.strict_finalizers());
    errors
}

fn generate_name(errors: &mut Errors, path: &Path, meta: &Value, resource: &Resource) {
    let prefix = meta.str_at("generateName");
    if !prefix.is_empty() {
        check::all_of(errors, &path.child("generateName"), prefix, resource.rules.name_mistakes(prefix, true));
    }
}

/// Label keys and values, annotations, owners: the part that both pod templates and objects have.
pub fn labels_and_annotations(errors: &mut Errors, path: &Path, meta: &Value) {
    check::labels(errors, &path.child("labels"), meta.at("labels"));
    let path = path.child("annotations");
    let mut size = 0;
    for (key, value) in meta.map_at("annotations").into_iter().flatten() {
        check::all_of(errors, &path, key, names::qualified_name(&key.to_lowercase()));
        size += key.len() + value.as_str().map_or(0, str::len);
    }
    if size > ANNOTATIONS_MAX {
        errors.push(FieldError::too_long(&path, ANNOTATIONS_MAX));
    }
}

fn both(errors: &mut Errors, path: &Path, meta: &Value, strict_finalizers: bool) {
    labels_and_annotations(errors, path, meta);
    owners(errors, &path.child("ownerReferences"), meta);
    managed_fields(errors, &path.child("managedFields"), meta);
    if strict_finalizers {
        for (i, name) in check::texts(meta, "finalizers").into_iter().enumerate() {
            known_finalizer(errors, &path.child("finalizers").index(i), name);
        }
    }
}

fn finalizers(errors: &mut Errors, path: &Path, meta: &Value) {
    let names = check::texts(meta, "finalizers");
    for name in &names {
        check::qualified_name(errors, path, name);
    }
    if names.contains(&"orphan") && names.contains(&"foregroundDeletion") {
        let text = "orphan and foregroundDeletion exclude each other; give one of them";
        errors.push(FieldError::invalid(path, meta.at("finalizers").clone(), text));
    }
}

/// A finalizer without a domain must be one that Kubernetes itself knows.
pub fn known_finalizer(errors: &mut Errors, path: &Path, name: &str) {
    if !name.contains('/') && !["kubernetes", "orphan", "foregroundDeletion"].contains(&name) {
        let text = "needs a domain, such as 'example.com/name'; without one only kubernetes, orphan and foregroundDeletion \
                    are accepted";
        errors.push(FieldError::invalid(path, name, text));
    }
}

fn owners(errors: &mut Errors, path: &Path, meta: &Value) {
    let mut controller: Option<String> = None;
    for (i, owner) in meta.list_at("ownerReferences").iter().enumerate() {
        let at = path.index(i);
        let api_version = owner.str_at("apiVersion");
        if !api_version.is_empty() && (api_version.matches('/').count() > 1 || api_version.ends_with('/')) {
            errors.push(FieldError::invalid(&at.child("apiVersion"), api_version, "accepted are 'v1' and 'group/v1'"));
        }
        for field in ["apiVersion", "kind", "name", "uid"] {
            if owner.str_at(field).is_empty() {
                errors.push(FieldError::required(&at.child(field), ""));
            }
        }
        if (api_version, owner.str_at("kind")) == ("v1", "Event") {
            errors.push(FieldError::invalid(&at, owner.clone(), "an Event cannot own anything"));
        }
        if owner.is_true("controller") {
            let name = format!("{}/{}", owner.str_at("kind"), owner.str_at("name"));
            match &controller {
                Some(first) => errors.push(FieldError::invalid(
                    path,
                    meta.at("ownerReferences").clone(),
                    format!("only one owner can be the controller, but {first} and {name} both say so"),
                )),
                None => controller = Some(name),
            }
        }
    }
}

fn managed_fields(errors: &mut Errors, path: &Path, meta: &Value) {
    for (i, entry) in meta.list_at("managedFields").iter().enumerate() {
        let at = path.index(i);
        check::required_one_of(errors, &at.child("operation"), entry.str_at("operation"), &["Apply", "Update"]);
        let kind = entry.str_at("fieldsType");
        if !kind.is_empty() && kind != "FieldsV1" {
            errors.push(FieldError::invalid(&at.child("fieldsType"), kind, "must be FieldsV1"));
        }
        manager(errors, &at.child("manager"), entry.str_at("manager"));
        if entry.str_at("subresource").len() > 256 {
            errors.push(FieldError::too_long(&at.child("subresource"), 256));
        }
    }
}

/// The name of a field manager, in managedFields and in requests.
pub fn manager(errors: &mut Errors, path: &Path, name: &str) {
    if name.len() > 128 {
        errors.push(FieldError::too_long(path, 128));
    }
    if name.chars().any(char::is_control) {
        errors.push(FieldError::invalid(path, name, "only printable characters are accepted"));
    }
}
