//! PodCertificateRequest: a kubelet asks for the certificate of a pod. What it asks for and what was decided never change.

use super::{DAY, longest, pem, projected::user_annotations, signer_name};
use crate::{
    error::FieldError,
    kinds::{
        check::{self, Errors},
        columns::{self, NAME},
        edit::{fill, in_version},
    },
    object::Fields,
    path::Path,
    resource::{Column, Rules, change_only, take_over},
};
use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::{Value, json};
use std::borrow::Cow;

/// Seconds that a certificate holds at least.
pub(super) const SHORTEST: i64 = 3600;
/// Bytes of a uid, and of the request.
const UID_MOST: usize = 128;
const REQUEST_MOST: usize = 10 * 1024;
const CHAIN_MOST: usize = 100 * 1024;
const DECISIONS: [&str; 3] = ["Issued", "Denied", "Failed"];

/// Rules of certificates.k8s.io/v1 PodCertificateRequest.
pub(in crate::kinds) struct PodCertificateRequest;

impl Rules for PodCertificateRequest {
    fn default(&self, request: &mut Value) {
        if request.at("spec").is_object() {
            fill(request.at_mut("spec"), "maxExpirationSeconds", DAY);
        }
    }

    fn prepare_create(&self, request: &mut Value) {
        request.set("status", json!({}));
    }

    fn prepare_update(&self, request: &mut Value, old: &Value) {
        take_over(request, old, "status");
    }

    fn prepare_status(&self, request: &mut Value, old: &Value) {
        change_only(request, old, &["status"]);
    }

    fn validate(&self, request: &Value) -> Errors {
        let mut errors = Errors::new();
        let (path, spec) = (Path::new("spec"), request.at("spec"));
        let signer = spec.str_at("signerName");
        signer_name(&mut errors, &path.child("signerName"), signer);
        for field in ["podName", "serviceAccountName", "nodeName"] {
            check::dns_subdomain(&mut errors, &path.child(field), spec.str_at(field));
        }
        for field in ["podUID", "serviceAccountUID", "nodeUID"] {
            match spec.str_at(field) {
                "" => errors.push(FieldError::invalid(&path.child(field), "", "must not be empty")),
                uid if uid.len() > UID_MOST => errors.push(FieldError::too_long(&path.child(field), UID_MOST)),
                _ => {}
            }
        }
        let annotations = spec.at("unverifiedUserAnnotations");
        user_annotations(&mut errors, &path.child("unverifiedUserAnnotations"), annotations);
        let most = longest(signer);
        let seconds = spec.int_at("maxExpirationSeconds").unwrap_or_default();
        if !(SHORTEST..=most).contains(&seconds) {
            let text = format!("must be in the range [{SHORTEST}, {most}]");
            errors.push(FieldError::invalid(&path.child("maxExpirationSeconds"), seconds, text));
        }
        let at = path.child("stubPKCS10Request");
        match STANDARD.decode(spec.str_at("stubPKCS10Request")) {
            Ok(bytes) if bytes.is_empty() => errors.push(FieldError::required(&at, "")),
            Ok(bytes) if bytes.len() > REQUEST_MOST => errors.push(FieldError::too_long(&at, REQUEST_MOST)),
            _ => {}
        }
        errors
    }

    fn validate_update(&self, request: &Value, old: &Value) -> Errors {
        let mut errors = Errors::new();
        check::immutable(&mut errors, &Path::new("spec"), request.at("spec"), old.at("spec"));
        errors
    }

    fn validate_status(&self, request: &Value, old: &Value) -> Errors {
        let mut errors = Errors::new();
        let path = Path::new("status");
        let conditions = request.list_at("status.conditions");
        for (i, condition) in conditions.iter().enumerate() {
            let at = path.child("conditions").index(i);
            check::one_of(&mut errors, &at.child("type"), condition.str_at("type"), &DECISIONS);
            check::one_of(&mut errors, &at.child("status"), condition.str_at("status"), &["True"]);
            if i > 0 {
                let text = "There may be at most one condition with type \"Issued\", \"Denied\", or \"Failed\"";
                errors.push(FieldError::invalid(&at.child("type"), condition.str_at("type"), text));
            }
        }
        check::conditions(&mut errors, &path.child("conditions"), conditions);
        if !errors.is_empty() {
            return errors;
        }
        let (status, had) = (request.at("status"), old.at("status"));
        let only =
            |fields: &[&str]| status.as_object().into_iter().flatten().all(|(key, _)| fields.contains(&key.as_str()));
        match decision(request) {
            _ if decision(old).is_some() && check::same(status, had) => {}
            _ if decision(old).is_some() => {
                let text = "immutable after PodCertificateRequest is issued, denied, or failed";
                errors.push(FieldError::invalid(&path, status.clone(), text));
            }
            Some("Issued") => issued(&mut errors, &path, status),
            Some(_) if !only(&["conditions"]) => {
                let text =
                    "non-condition status fields must be empty when denying or failing the PodCertificateRequest";
                errors.push(FieldError::invalid(&path, status.clone(), text));
            }
            None if !only(&["conditions"]) => {
                let text = "must be empty until the PodCertificateRequest is issued, denied, or failed";
                errors.push(FieldError::invalid(&path, status.clone(), text));
            }
            _ => {}
        }
        errors
    }

    fn unconditional_update(&self) -> bool {
        false
    }

    fn kept_by_status(&self) -> &'static [&'static str] {
        &["metadata", "spec"]
    }

    fn to_stored<'a>(&self, object: &'a Value) -> Cow<'a, Value> {
        in_version(object, "certificates.k8s.io/v1beta1")
    }

    fn show_stored(&self, object: &mut Value) {
        object.set("apiVersion", "certificates.k8s.io/v1");
    }

    fn shows_as_stored(&self, _revision: u64) -> bool {
        false
    }

    fn stored_as(&self) -> Option<(&str, &str)> {
        Some(("certificates.k8s.io", "v1beta1"))
    }

    fn columns(&self) -> Vec<Column> {
        columns::columns(&[
            NAME,
            ("PodName", "string", 0, "Whose certificate it is"),
            ("ServiceAccountName", "string", 0, "As whom the pod runs"),
            ("NodeName", "string", 0, "Where it runs"),
            ("SignerName", "string", 0, "Who is asked to sign"),
            ("State", "string", 0, "How far it is"),
            ("UnverifiedUserAnnotations", "string", 1, "What the pod says to the signer; nobody has checked it"),
        ])
    }

    fn cells(&self, request: &Value, _now: jiff::Timestamp) -> Vec<Value> {
        let of = |field: &str| -> Value { request.str_at(&format!("spec.{field}")).into() };
        vec![
            columns::name(request),
            of("podName"),
            of("serviceAccountName"),
            of("nodeName"),
            of("signerName"),
            decision(request).unwrap_or("Pending").into(),
            columns::labels(request.at("spec.unverifiedUserAnnotations")).into(),
        ]
    }
}

fn decision(request: &Value) -> Option<&str> {
    let mut known = request.list_at("status.conditions").iter().map(|condition| condition.str_at("type"));
    known.rfind(|kind| DECISIONS.contains(kind))
}

fn issued(errors: &mut Errors, path: &Path, status: &Value) {
    let chain = status.str_at("certificateChain");
    let at = path.child("certificateChain");
    let blocks = pem::blocks(chain);
    match () {
        () if chain.len() > CHAIN_MOST => errors.push(FieldError::too_long(&at, CHAIN_MOST)),
        () if blocks.is_empty() => {
            let text = "issued certificate chain must contain at least one certificate";
            errors.push(FieldError::invalid(&at, chain, text));
        }
        () if blocks.iter().any(|block| block.label != "CERTIFICATE") => {
            let text = "issued certificate chain must consist entirely of CERTIFICATE PEM blocks";
            errors.push(FieldError::invalid(&at, chain, text));
        }
        () => {}
    }
    let time = |field: &str| status.str_at(field).parse::<jiff::Timestamp>().ok();
    for field in ["notBefore", "notAfter", "beginRefreshAt"] {
        if time(field).is_none() {
            errors.push(FieldError::required(
                &path.child(field),
                "must be present and consistent with the issued certificate",
            ));
        }
    }
    let Some(((from, until), refresh)) = time("notBefore").zip(time("notAfter")).zip(time("beginRefreshAt")) else {
        return;
    };
    let minutes = |count: i64| jiff::SignedDuration::from_mins(count);
    let refreshed = &path.child("beginRefreshAt");
    if refresh < from.saturating_add(minutes(10)).unwrap_or(from) {
        let text = "must be at least 10 minutes after status.notBefore";
        errors.push(FieldError::invalid(refreshed, status.str_at("beginRefreshAt"), text));
    }
    if refresh > until.saturating_sub(minutes(10)).unwrap_or(until) {
        let text = "must be at least 10 minutes before status.notAfter";
        errors.push(FieldError::invalid(refreshed, status.str_at("beginRefreshAt"), text));
    }
}
