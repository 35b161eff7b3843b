//! Which requests are signed, approved and cleared away, and what comes of a signature.

use super::plan::{auto_approvals, is_stale, lifetime, refusal};
use super::publish;
use jiff::Timestamp;
use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use runtime::pki::{Authority, CertificateRequest};
use serde_json::{Value, json};
use std::time::{Duration, SystemTime};

/// `openssl req -new -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /O=system:nodes/CN=system:node:n1`.
const NODE: &str = include_str!("testdata/node.csr");
/// The same with an RSA key and `-addext subjectAltName=DNS:n1,IP:10.0.0.1,IP:fd00::1`.
const SERVING: &str = include_str!("testdata/serving.csr");

fn usages(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

#[test]
fn each_signer_signs_what_it_is_for() {
    let (node, serving) = (CertificateRequest::from_pem(NODE).unwrap(), CertificateRequest::from_pem(SERVING).unwrap());
    assert_eq!(node.common_name, "system:node:n1");
    assert_eq!(serving.addresses, ["10.0.0.1".parse::<std::net::IpAddr>().unwrap(), "fd00::1".parse().unwrap()]);
    let client = ["digital signature", "client auth"];
    let server = ["digital signature", "key encipherment", "server auth"];
    for (signer, request, words, expected) in [
        ("kubernetes.io/kube-apiserver-client-kubelet", &node, &client[..], Ok(())),
        (
            "kubernetes.io/kube-apiserver-client-kubelet",
            &serving,
            &client[..],
            Err("DNS subjectAltNames are not allowed"),
        ),
        (
            "kubernetes.io/kube-apiserver-client-kubelet",
            &node,
            &server[..],
            Err("usages did not match [client auth digital signature key encipherment]"),
        ),
        ("kubernetes.io/kubelet-serving", &serving, &server[..], Ok(())),
        ("kubernetes.io/kubelet-serving", &node, &server[..], Err("DNS or IP subjectAltName is required")),
        ("kubernetes.io/kube-apiserver-client", &node, &client[..], Ok(())),
        (
            "kubernetes.io/kube-apiserver-client",
            &node,
            &server[..],
            Err("invalid usage for client certificate: server auth"),
        ),
        (
            "kubernetes.io/kube-apiserver-client",
            &node,
            &["digital signature"][..],
            Err("missing required usage for client certificate: client auth"),
        ),
        ("kubernetes.io/legacy-unknown", &serving, &["any"][..], Ok(())),
    ] {
        let expected = expected.map_err(str::to_owned);
        assert_eq!(refusal(signer, request, &usages(words)), expected, "{signer} {words:?}");
    }
}

fn asked(user: &str, signer: &str, words: &[&str]) -> CertificateSigningRequest {
    let spec = json!({"request": "", "signerName": signer, "usages": words, "username": user});
    serde_json::from_value(json!({"metadata": {"name": "r"}, "spec": spec})).unwrap()
}

#[test]
fn kubelets_are_approved_by_the_least_right_that_does() {
    let node = CertificateRequest::from_pem(NODE).unwrap();
    let (signer, client) = ("kubernetes.io/kube-apiserver-client-kubelet", ["digital signature", "client auth"]);
    let rights = |request: &CertificateSigningRequest| -> Vec<&'static str> {
        auto_approvals(request, &node).into_iter().map(|(right, _)| right).collect()
    };
    assert_eq!(rights(&asked("system:node:n1", signer, &client)), ["selfnodeclient", "nodeclient"]);
    assert_eq!(rights(&asked("system:bootstrap:abcdef", signer, &client)), ["nodeclient"]);
    assert!(rights(&asked("system:node:n1", "kubernetes.io/kubelet-serving", &client)).is_empty());
    assert!(rights(&asked("system:node:n1", signer, &["server auth"])).is_empty());
}

#[test]
fn a_certificate_lives_as_long_as_was_asked_within_the_limit() {
    let year = Duration::from_secs(365 * 86_400);
    for (wish, lives) in [(None, year), (Some(3600), Duration::from_secs(3600)), (Some(1), Duration::from_secs(600))] {
        assert_eq!(lifetime(wish, year), lives);
    }
    assert_eq!(lifetime(Some(7200), Duration::from_secs(3600)), Duration::from_secs(3600));
}

#[test]
fn requests_go_when_they_were_answered_or_nobody_did() {
    let now: Timestamp = "2026-01-03T00:00:00Z".parse().unwrap();
    let stale = |created: &str, conditions: Value, certificate: &str, ends: Option<&str>| {
        let request: CertificateSigningRequest = serde_json::from_value(json!({
            "metadata": {"name": "r", "creationTimestamp": created},
            "spec": {"request": "", "signerName": "example.com/s"},
            "status": {"conditions": conditions, "certificate": certificate}}))
        .unwrap();
        is_stale(&request, ends.map(|time| time.parse().unwrap()), now)
    };
    let set = |kind: &str, time: &str| json!([{"type": kind, "status": "True", "lastUpdateTime": time}]);
    let (recent, hours, days) = ("2026-01-02T23:30:00Z", "2026-01-02T21:00:00Z", "2026-01-01T00:00:00Z");
    for (created, conditions, certificate, ends, expected) in [
        (recent, json!([]), "", None, false),
        (hours, json!([]), "", None, false),
        (days, json!([]), "", None, true),
        (days, set("Approved", recent), "Y2VydA==", None, false),
        (days, set("Approved", hours), "Y2VydA==", None, true),
        (days, set("Approved", hours), "", None, false),
        (days, set("Approved", days), "", None, true),
        (days, set("Denied", hours), "", None, true),
        (days, set("Failed", hours), "", None, true),
        (days, set("Approved", recent), "Y2VydA==", Some("2026-01-02T00:00:00Z"), true),
    ] {
        assert_eq!(stale(created, conditions.clone(), certificate, ends), expected, "{created} {conditions}");
    }
}

#[test]
fn a_certificate_has_the_subject_and_the_names_of_its_request() {
    let authority = Authority::create("lab", SystemTime::now()).unwrap();
    for (pem, words) in
        [(NODE, &["digital signature", "client auth"][..]), (SERVING, &["key encipherment", "server auth"])]
    {
        let request = CertificateRequest::from_pem(pem).unwrap();
        let signed = authority.sign(&request, &usages(words), Duration::from_secs(86_400), SystemTime::now()).unwrap();
        let bundle = runtime::pki::Bundle::from_pem(&signed).unwrap();
        let left = bundle.ends().unwrap().duration_since(SystemTime::now()).unwrap();
        assert!(left < Duration::from_secs(86_400) && left > Duration::from_secs(86_000), "{left:?}");
    }
    let request = CertificateRequest::from_pem(NODE).unwrap();
    assert!(authority.sign(&request, &usages(&["flying"]), Duration::from_secs(3600), SystemTime::now()).is_err());
}

#[test]
fn a_bundle_is_named_after_its_signer_and_its_content() {
    // printf pem | sha256sum
    assert_eq!(publish::name("pem"), "kubernetes.io:kube-apiserver-serving:f0aeace912cf19dc1c6fffd4");
}
