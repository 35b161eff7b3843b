//! CertificateSigningRequest: what is asked for never changes; approval and certificate come through their own paths.

use super::{LEGACY_SIGNER, pem, signer_name};
use crate::{
    error::FieldError,
    kinds::{
        check::{self, Errors},
        columns::{self, AGE, NAME},
        names,
    },
    object::Fields,
    path::Path,
    resource::{Column, Rules, carry_over_all_but_status, take_over},
};
use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::{Value, json};

const USAGES: [&str; 23] = [
    "any",
    "cert sign",
    "client auth",
    "code signing",
    "content commitment",
    "crl sign",
    "data encipherment",
    "decipher only",
    "digital signature",
    "email protection",
    "encipher only",
    "ipsec end system",
    "ipsec tunnel",
    "ipsec user",
    "key agreement",
    "key encipherment",
    "microsoft sgc",
    "netscape sgc",
    "ocsp signing",
    "s/mime",
    "server auth",
    "signing",
    "timestamping",
];
/// Conditions that are there or not, and never false.
const DECISIONS: [&str; 3] = ["Approved", "Denied", "Failed"];
/// Those of them that an approver sets.
const APPROVAL: [&str; 2] = ["Approved", "Denied"];
const SHORTEST_SECONDS: i64 = 600;

/// Which part of the status a write may set.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Setting {
    Nothing,
    Approval,
    Certificate,
}

/// Rules of certificates.k8s.io/v1 CertificateSigningRequest.
pub(in crate::kinds) struct CertificateSigningRequest;

impl Rules for CertificateSigningRequest {
    fn prepare_create(&self, request: &mut Value) {
        request.set("status", json!({}));
    }

    fn prepare_update(&self, request: &mut Value, old: &Value) {
        for part in ["spec", "status"] {
            take_over(request, old, part);
        }
    }

    fn prepare_status(&self, request: &mut Value, old: &Value) {
        carry_over_all_but_status(request, old);
        for kind in APPROVAL {
            keep_conditions(request, old, kind);
        }
    }

    fn prepare_below(&self, _subresource: &str, request: &mut Value, old: &Value) {
        let conditions = request.at("status.conditions").clone();
        for part in ["spec", "status"] {
            take_over(request, old, part);
        }
        match conditions {
            Value::Null => drop(request.remove("status.conditions")),
            conditions => request.set("status.conditions", conditions),
        }
    }

    fn validate(&self, request: &Value) -> Errors {
        validate(request, None)
    }

    fn validate_update(&self, request: &Value, old: &Value) -> Errors {
        validate_change(request, old, Setting::Nothing)
    }

    fn validate_status(&self, request: &Value, old: &Value) -> Errors {
        validate_change(request, old, Setting::Certificate)
    }

    fn validate_below(&self, _subresource: &str, request: &Value, old: &Value) -> Errors {
        validate_change(request, old, Setting::Approval)
    }

    fn name_mistakes(&self, name: &str, _prefix: bool) -> Vec<String> {
        names::path_segment(name)
    }

    fn columns(&self) -> Vec<Column> {
        columns::columns(&[
            NAME,
            AGE,
            ("SignerName", "string", 0, "Who is asked to sign"),
            ("Requestor", "string", 0, "Who asks"),
            ("RequestedDuration", "string", 0, "For how long; the signer may give less"),
            ("Condition", "string", 0, "How far it is"),
        ])
    }

    fn cells(&self, request: &Value, now: jiff::Timestamp) -> Vec<Value> {
        let seconds = request.int_at("spec.expirationSeconds");
        vec![
            columns::name(request),
            columns::age(request, now),
            columns::or(request.str_at("spec.signerName"), "<none>").into(),
            request.str_at("spec.username").into(),
            seconds.map_or_else(|| "<none>".to_owned(), columns::human_duration).into(),
            progress(request).into(),
        ]
    }
}

fn progress(request: &Value) -> String {
    let has = |kind: &str| !conditions(request, kind).is_empty();
    let decided = if has("Denied") {
        "Denied"
    } else if has("Approved") {
        "Approved"
    } else {
        "Pending"
    };
    let failed = if has("Failed") { ",Failed" } else { "" };
    let issued = if request.str_at("status.certificate").is_empty() { "" } else { ",Issued" };
    format!("{decided}{failed}{issued}")
}

fn conditions<'a>(request: &'a Value, kind: &str) -> Vec<&'a Value> {
    request.list_at("status.conditions").iter().filter(|condition| condition.str_at("type") == kind).collect()
}

/// What a status write sends back of an approval is the approval as it was; one that comes or goes is a mistake.
fn keep_conditions(request: &mut Value, old: &Value, kind: &str) {
    let kept: Vec<Value> = conditions(old, kind).into_iter().cloned().collect();
    if conditions(request, kind).len() != kept.len() {
        return;
    }
    let all = request.at_mut("status.conditions").as_array_mut().into_iter().flatten();
    let own = all.filter(|condition| condition.str_at("type") == kind);
    own.zip(kept).for_each(|(own, kept)| *own = kept);
    if request.at("status.conditions").is_null() {
        request.remove("status.conditions");
    }
}

fn validate(request: &Value, old: Option<&Value>) -> Errors {
    let mut errors = Errors::new();
    let (path, spec) = (Path::new("spec"), request.at("spec"));
    let is_request = |text: &str| pem::blocks(text).first().is_some_and(|block| block.label == "CERTIFICATE REQUEST");
    if !decoded(spec.str_at("request")).is_some_and(|text| is_request(&text)) {
        let text = "PEM block type must be CERTIFICATE REQUEST";
        errors.push(FieldError::invalid(&path.child("request"), spec.str_at("request"), text));
    }
    let usages = check::texts(spec, "usages");
    if usages.is_empty() {
        errors.push(FieldError::required(&path.child("usages"), ""));
    }
    // What was stored once is not judged again: it cannot be changed.
    for (i, usage) in usages.iter().enumerate().filter(|_| old.is_none()) {
        let at = path.child("usages").index(i);
        check::one_of(&mut errors, &at, usage, &USAGES);
        if usages[..i].contains(usage) {
            errors.push(FieldError::duplicate(&at, *usage));
        }
    }
    match spec.str_at("signerName") {
        LEGACY_SIGNER if old.is_none() => {
            let text = "the legacy signerName is not allowed via this API version";
            errors.push(FieldError::invalid(&path.child("signerName"), LEGACY_SIGNER, text));
        }
        name => signer_name(&mut errors, &path.child("signerName"), name),
    }
    if let Some(seconds) = spec.int_at("expirationSeconds").filter(|seconds| *seconds < SHORTEST_SECONDS) {
        let text = "may not specify a duration less than 600 seconds (10 minutes)";
        errors.push(FieldError::invalid(&path.child("expirationSeconds"), seconds, text));
    }
    validate_conditions(&mut errors, request);
    let certificate = request.str_at("status.certificate");
    if !certificate.is_empty()
        && old.is_none_or(|old| old.str_at("status.certificate") != certificate)
        && let Err(why) = certificates(certificate)
    {
        let path = Path::new("status").child("certificate");
        errors.push(FieldError::invalid(&path, "<certificate data>", why));
    }
    errors
}

fn validate_conditions(errors: &mut Errors, request: &Value) {
    let path = Path::new("status").child("conditions");
    let all = request.list_at("status.conditions");
    for (i, condition) in all.iter().enumerate() {
        let (at, kind) = (path.index(i), condition.str_at("type"));
        if kind.is_empty() {
            errors.push(FieldError::required(&at.child("type"), ""));
        }
        let accepted: &[&str] = if DECISIONS.contains(&kind) { &["True"] } else { &["False", "True", "Unknown"] };
        check::required_one_of(errors, &at.child("status"), condition.str_at("status"), accepted);
        let before = |kind: &str| all[..i].iter().any(|other| other.str_at("type") == kind);
        if (kind == "Approved" && before("Denied")) || (kind == "Denied" && before("Approved")) {
            let text = "Approved and Denied conditions are mutually exclusive";
            errors.push(FieldError::invalid(&path, kind, text));
        }
        if before(kind) {
            errors.push(FieldError::duplicate(&at.child("type"), kind));
        }
    }
}

fn validate_change(request: &Value, old: &Value, setting: Setting) -> Errors {
    let mut errors = validate(request, Some(old));
    let path = Path::new("status");
    for kind in DECISIONS {
        let (new, had) = (conditions(request, kind), conditions(old, kind));
        let verb = match () {
            () if new.len() < had.len() => "remove",
            () if setting == Setting::Approval || !APPROVAL.contains(&kind) => continue,
            () if new.len() > had.len() => "add",
            () if new != had => "modify",
            () => continue,
        };
        let text = format!("updates may not {verb} a condition of type {kind:?}");
        errors.push(FieldError::forbidden(&path.child("conditions"), text));
    }
    let had = old.str_at("status.certificate");
    if request.str_at("status.certificate") != had {
        let at = path.child("certificate");
        if setting != Setting::Certificate {
            errors.push(FieldError::forbidden(&at, "updates may not set certificate content"));
        } else if !had.is_empty() {
            errors.push(FieldError::forbidden(&at, "updates may not modify existing certificate content"));
        }
    }
    errors
}

/// Whether this is PEM of certificates and nothing else.
fn certificates(encoded: &str) -> Result<(), String> {
    let blocks = decoded(encoded).map(|text| pem::blocks(&text)).unwrap_or_default();
    if let Some(other) = blocks.iter().find(|block| block.label != "CERTIFICATE") {
        return Err(format!("only CERTIFICATE PEM blocks are allowed, found {:?}", other.label));
    }
    match () {
        () if blocks.iter().any(|block| block.has_headers) => Err("no PEM block headers are permitted".to_owned()),
        () if blocks.is_empty() => Err("must contain at least one CERTIFICATE PEM block".to_owned()),
        () => Ok(()),
    }
}

fn decoded(encoded: &str) -> Option<String> {
    String::from_utf8(STANDARD.decode(encoded).ok()?).ok()
}
