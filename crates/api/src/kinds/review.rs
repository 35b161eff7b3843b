//! What is posted, answered and never stored: reviews of access, and the binding of a pod to a node.

use super::check::{self, Errors};
use crate::{error::FieldError, object::Fields, path::Path, resource::Rules};
use serde_json::Value;

/// Rules of a review that has none beyond its shape.
pub(super) struct Review;

impl Rules for Review {}

/// Rules of the reviews that ask whether somebody may do something.
pub(super) enum AccessReview {
    /// SubjectAccessReview: about any user.
    Subject,
    /// LocalSubjectAccessReview: about any user, in one namespace.
    Local,
    /// SelfSubjectAccessReview: about the user who asks.
    Itself,
}

impl Rules for AccessReview {
    fn validate(&self, review: &Value) -> Errors {
        let mut errors = Errors::new();
        let (path, spec) = (Path::new("spec"), review.at("spec"));
        let (resource, url) = (spec.at("resourceAttributes"), spec.at("nonResourceAttributes"));
        if resource.is_null() == url.is_null() {
            let text = "must have exactly one of resourceAttributes and nonResourceAttributes";
            errors.push(FieldError::invalid(&path, url.clone(), text));
        }
        let asks_for_nobody = spec.str_at("user").is_empty() && spec.list_at("groups").is_empty();
        if !matches!(self, Self::Itself) && asks_for_nobody {
            errors.push(FieldError::invalid(&path.child("user"), "", "must be given, unless groups are"));
        }
        if matches!(self, Self::Local) {
            let namespace = review.str_at("metadata.namespace");
            if !resource.is_null() && resource.str_at("namespace") != namespace {
                let at = Path::new("spec.resourceAttributes.namespace");
                errors.push(FieldError::invalid(&at, resource.str_at("namespace"), "must be metadata.namespace"));
            }
            if !url.is_null() {
                let at = Path::new("spec.nonResourceAttributes");
                errors.push(FieldError::invalid(&at, url.clone(), "a namespace has no URLs; use SubjectAccessReview"));
            }
        }
        errors
    }
}

/// Rules of v1 Binding.
pub(super) struct Binding;

impl Rules for Binding {
    fn validate(&self, binding: &Value) -> Errors {
        let mut errors = Errors::new();
        let path = Path::new("target");
        let (kind, name) = (binding.str_at("target.kind"), binding.str_at("target.name"));
        if !matches!(kind, "" | "Node") {
            errors.push(FieldError::not_supported(&path.child("kind"), kind, &["Node", "<empty>"]));
        }
        match name {
            "" => errors.push(FieldError::required(&path.child("name"), "the node to run on")),
            name if matches!(kind, "" | "Node") => check::dns_subdomain(&mut errors, &path.child("name"), name),
            _ => {}
        }
        errors
    }
}
