//! Requests for certificates: what may be asked, and who may write which part of the answer.

use super::{CertificateSigningRequest, signer_name};
use crate::{error::FieldError, object::Fields, path::Path, resource::Rules};
use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::{Value, json};

fn block(label: &str) -> String {
    STANDARD.encode(format!("-----BEGIN {label}-----\nAQID\n-----END {label}-----\n"))
}

fn request(changes: &[(&str, Value)]) -> Value {
    let mut request = json!({"metadata": {"name": "r"}, "spec": {
        "request": block("CERTIFICATE REQUEST"), "signerName": "example.com/s", "usages": ["client auth"]}});
    for (path, value) in changes {
        request.set(path, value.clone());
    }
    request
}

fn texts(errors: &[FieldError]) -> Vec<String> {
    errors.iter().map(ToString::to_string).collect()
}

#[test]
fn what_is_asked_must_be_complete() {
    let wrong = request(&[
        ("spec.request", json!(block("CERTIFICATE"))),
        ("spec.signerName", json!("kubernetes.io/legacy-unknown")),
        ("spec.usages", json!(["client auth", "flying", "client auth"])),
        ("spec.expirationSeconds", json!(599)),
    ]);
    let errors = texts(&CertificateSigningRequest.validate(&wrong));
    assert_eq!(errors.len(), 5, "{errors:#?}");
    assert!(errors[0].ends_with("PEM block type must be CERTIFICATE REQUEST"), "{}", errors[0]);
    assert!(errors[1].starts_with("spec.usages[1]: Unsupported value: \"flying\""), "{}", errors[1]);
    assert_eq!(errors[2], "spec.usages[2]: Duplicate value: \"client auth\"");
    assert_eq!(
        errors[3],
        "spec.signerName: Invalid value: \"kubernetes.io/legacy-unknown\": the legacy signerName is not allowed via this API version"
    );
    assert_eq!(
        errors[4],
        "spec.expirationSeconds: Invalid value: 599: may not specify a duration less than 600 seconds (10 minutes)"
    );
    assert_eq!(texts(&CertificateSigningRequest.validate(&request(&[]))), Vec::<String>::new());
}

#[test]
fn a_signer_has_a_domain_and_a_path() {
    for (name, good) in [
        ("example.com/signer", true),
        ("kubernetes.io/kubelet-serving", true),
        ("example.com/a.b", true),
        ("", false),
        ("signer", false),
        ("com/signer", false),
        ("example.com/", false),
        ("example.com/a/b", false),
        ("Example.com/a", false),
    ] {
        let mut errors = Vec::new();
        signer_name(&mut errors, &Path::new("x"), name);
        assert_eq!(errors.is_empty(), good, "{name}: {errors:?}");
    }
}

#[test]
fn each_part_of_the_answer_has_its_own_door() {
    let rules = CertificateSigningRequest;
    let approved = json!([{"type": "Approved", "status": "True"}]);
    let old = request(&[]);
    let yes = request(&[("status.conditions", approved.clone())]);
    let signed =
        request(&[("status.conditions", approved.clone()), ("status.certificate", json!(block("CERTIFICATE")))]);
    assert_eq!(texts(&rules.validate_below("approval", &yes, &old)), Vec::<String>::new());
    assert_eq!(
        texts(&rules.validate_status(&yes, &old)),
        ["status.conditions: Forbidden: updates may not add a condition of type \"Approved\""]
    );
    assert_eq!(texts(&rules.validate_status(&signed, &yes)), Vec::<String>::new());
    assert_eq!(
        texts(&rules.validate_below("approval", &signed, &yes)),
        ["status.certificate: Forbidden: updates may not set certificate content"]
    );
    assert_eq!(
        texts(&rules.validate_status(&yes, &signed)),
        ["status.certificate: Forbidden: updates may not modify existing certificate content"]
    );
    assert_eq!(
        texts(&rules.validate_below("approval", &old, &yes)),
        ["status.conditions: Forbidden: updates may not remove a condition of type \"Approved\""]
    );
    let both = json!([{"type": "Approved", "status": "True"}, {"type": "Denied", "status": "False"}]);
    let errors = texts(&rules.validate_below("approval", &request(&[("status.conditions", both)]), &old));
    assert_eq!(
        errors,
        [
            "status.conditions[1].status: Unsupported value: \"False\": supported values: \"True\"",
            "status.conditions: Invalid value: \"Denied\": Approved and Denied conditions are mutually exclusive",
        ]
    );
}

#[test]
fn a_write_changes_only_what_its_door_is_for() {
    let rules = CertificateSigningRequest;
    let old = request(&[("status.conditions", json!([{"type": "Approved", "status": "True", "reason": "yes"}]))]);
    let sent = request(&[
        ("metadata.labels", json!({"a": "b"})),
        ("spec.signerName", json!("example.com/other")),
        ("status.conditions", json!([{"type": "Approved", "status": "True", "reason": "changed"}])),
        ("status.certificate", json!("Y2VydA==")),
    ]);
    let mut status = sent.clone();
    rules.prepare_status(&mut status, &old);
    assert_eq!(status["spec"], old["spec"]);
    assert_eq!(status["status"]["conditions"], old["status"]["conditions"], "an approval stays as it was");
    assert_eq!(status["status"]["certificate"], "Y2VydA==");
    let mut approval = sent.clone();
    rules.prepare_below("approval", &mut approval, &old);
    assert_eq!(approval["spec"], old["spec"]);
    assert_eq!(approval["status"]["conditions"], sent["status"]["conditions"]);
    assert!(approval["status"]["certificate"].is_null());
    assert_eq!(approval["metadata"]["labels"], json!({"a": "b"}));
    let mut main = sent;
    rules.prepare_update(&mut main, &old);
    assert_eq!((&main["spec"], &main["status"]), (&old["spec"], &old["status"]));
}

#[test]
fn the_table_says_how_far_a_request_is() {
    let now = jiff::Timestamp::UNIX_EPOCH;
    let shown = |conditions: Value, certificate: &str| {
        let request = request(&[("status.conditions", conditions), ("status.certificate", json!(certificate))]);
        CertificateSigningRequest.cells(&request, now)[5].clone()
    };
    let condition = |kind: &str| json!({"type": kind, "status": "True"});
    assert_eq!(shown(json!([]), ""), "Pending");
    assert_eq!(shown(json!([condition("Approved")]), ""), "Approved");
    assert_eq!(shown(json!([condition("Approved")]), "Y2VydA=="), "Approved,Issued");
    assert_eq!(shown(json!([condition("Denied")]), ""), "Denied");
    assert_eq!(shown(json!([condition("Approved"), condition("Failed")]), ""), "Approved,Failed");
}
