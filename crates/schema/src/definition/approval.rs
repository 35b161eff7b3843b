//! Groups of the Kubernetes community (`*.k8s.io`, `*.kubernetes.io`) need an approval, or a word that there is none.

use api::{error::FieldError, object::Fields, path::Path};
use serde_json::Value;

const ANNOTATION: &str = "api-approved.kubernetes.io";

enum Approval<'a> {
    Missing,
    Invalid(&'a str),
    /// The author says that there is none.
    Bypassed(&'a str),
    Approved(&'a str),
}

/// The approval of a definition; none where none is needed.
fn approval(definition: &Value) -> Option<Approval<'_>> {
    let group = definition.str_at("spec.group");
    let protected = ["k8s.io", "kubernetes.io"]
        .into_iter()
        .any(|domain| group.strip_suffix(domain).is_some_and(|rest| rest.is_empty() || rest.ends_with('.')));
    if !protected {
        return None;
    }
    let text = definition.at("metadata.annotations").get(ANNOTATION).and_then(Value::as_str).unwrap_or_default();
    let is_address = text.split_once("://").is_some_and(|(scheme, host)| !scheme.is_empty() && !host.is_empty());
    Some(match text {
        "" => Approval::Missing,
        text if text.starts_with("unapproved") => Approval::Bypassed(text),
        text if is_address => Approval::Approved(text),
        text => Approval::Invalid(text),
    })
}

/// A definition in a protected group without a usable annotation.
pub(super) fn mistake(definition: &Value) -> Option<FieldError> {
    let path = Path::new("metadata").child("annotations").key(ANNOTATION);
    let detail = "groups of the Kubernetes community need the address of their approval here, or a text that starts with \"unapproved\"";
    match approval(definition)? {
        Approval::Missing => Some(FieldError::required(&path, detail)),
        Approval::Invalid(text) => Some(FieldError::invalid(&path, text, detail)),
        Approval::Bypassed(_) | Approval::Approved(_) => None,
    }
}

/// Status, reason and message of the condition `KubernetesAPIApprovalPolicyConformant`.
pub(super) fn condition(definition: &Value) -> Option<(&'static str, &'static str, String)> {
    Some(match approval(definition)? {
        Approval::Missing => ("False", "MissingAnnotation", format!("annotation {ANNOTATION:?} is missing")),
        Approval::Invalid(text) => {
            ("False", "InvalidAnnotation", format!("neither an address nor \"unapproved\": {text:?}"))
        }
        Approval::Bypassed(text) => ("False", "UnapprovedAnnotation", format!("not approved: {text:?}")),
        Approval::Approved(text) => ("True", "ApprovedAnnotation", format!("approved in {text}")),
    })
}
