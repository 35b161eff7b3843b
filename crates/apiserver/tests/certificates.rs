//! Who may ask for certificates, approve, sign and attest, on a server in memory.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use apiserver::{ApiServer, testing};
use base64::{Engine, engine::general_purpose::STANDARD};
use rcgen::{CertificateParams, DistinguishedName, DnType, IsCa, KeyPair};
use serde_json::{Value, json};
use std::sync::Arc;
use support::{RBAC, Reply, ask};

const CSRS: &str = "/apis/certificates.k8s.io/v1/certificatesigningrequests";
const BUNDLES: &str = "/apis/certificates.k8s.io/v1/clustertrustbundles";
const AS: &str = "impersonate-user";

fn params(group: &str) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, "jane");
    params.distinguished_name.push(DnType::OrganizationName, group);
    params
}

fn request(name: &str, signer: &str, group: &str) -> Value {
    let key = KeyPair::generate().unwrap();
    let pem = params(group).serialize_request(&key).unwrap().pem().unwrap();
    json!({"metadata": {"name": name}, "spec": {
        "request": STANDARD.encode(pem), "signerName": signer, "usages": ["client auth"],
        "username": "somebody else", "groups": ["system:masters"]}})
}

fn authority(is_ca: IsCa) -> String {
    let mut params = params("ca");
    params.is_ca = is_ca;
    params.self_signed(&KeyPair::generate().unwrap()).unwrap().pem()
}

async fn send(server: &Arc<ApiServer>, user: &str, method: &str, path: &str, body: &Value) -> Reply {
    ask(server, method, path, &[(AS, user), ("content-type", "application/json")], body.to_string()).await
}

/// A role of this name with these rules, for the user of the same name.
async fn grant(server: &Arc<ApiServer>, user: &str, rules: Value) {
    let role = json!({"metadata": {"name": user}, "rules": rules});
    assert_eq!(ask(server, "POST", &format!("{RBAC}/clusterroles"), &[], role.to_string()).await.status, 201);
    let binding = json!({"metadata": {"name": user}, "subjects": [{"kind": "User", "name": user, "apiGroup": "rbac.authorization.k8s.io"}],
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": user}});
    assert_eq!(ask(server, "POST", &format!("{RBAC}/clusterrolebindings"), &[], binding.to_string()).await.status, 201);
}

fn rule(verbs: &[&str], resources: &[&str], names: &[&str]) -> Value {
    let mut rule = json!({"apiGroups": ["certificates.k8s.io"], "resources": resources, "verbs": verbs});
    if !names.is_empty() {
        rule["resourceNames"] = json!(names);
    }
    rule
}

#[tokio::test]
async fn a_request_says_who_asks_and_is_checked_before_it_is_kept() {
    let server = testing::server().await;
    grant(&server, "asker", json!([rule(&["create"], &["certificatesigningrequests"], &[])])).await;
    let made = send(&server, "asker", "POST", CSRS, &request("a", "example.com/s", "dev")).await;
    assert_eq!(made.status, 201, "{}", made.json());
    assert_eq!(made.json()["spec"]["username"], "asker", "whatever the request says");
    assert!(!made.json()["spec"]["groups"].as_array().unwrap().contains(&json!("system:masters")));
    assert_eq!(made.json()["status"], json!({}));

    let masters = request("b", "kubernetes.io/kube-apiserver-client", "system:masters");
    let refused = send(&server, "asker", "POST", CSRS, &masters).await;
    assert_eq!(refused.status, 403, "{}", refused.json());
    let mut broken = request("c", "example.com/s", "dev");
    let pem = "-----BEGIN CERTIFICATE REQUEST-----\nAQID\n-----END CERTIFICATE REQUEST-----\n";
    broken["spec"]["request"] = STANDARD.encode(pem).into();
    assert_eq!(send(&server, "asker", "POST", CSRS, &broken).await.status, 422);
}

#[tokio::test]
async fn approving_and_signing_need_a_right_to_the_signer() {
    let server = testing::server().await;
    let doors =
        ["certificatesigningrequests", "certificatesigningrequests/approval", "certificatesigningrequests/status"];
    let all = rule(&["get", "update", "patch"], &doors, &[]);
    grant(&server, "nobody", json!([all])).await;
    grant(&server, "approver", json!([all, rule(&["approve"], &["signers"], &["example.com/*"])])).await;
    grant(&server, "signer", json!([all, rule(&["sign"], &["signers"], &["example.com/s"])])).await;
    let made = ask(&server, "POST", CSRS, &[], request("a", "example.com/s", "dev").to_string()).await.json();
    let mut approved = made.clone();
    approved["status"]["conditions"] = json!([{"type": "Approved", "status": "True", "reason": "because"}]);
    let approval = format!("{CSRS}/a/approval");
    for (user, expected) in [("nobody", 403), ("signer", 403), ("approver", 200)] {
        let reply = send(&server, user, "PUT", &approval, &approved).await;
        assert_eq!(reply.status, expected, "{user}: {}", reply.json());
    }
    let stored = ask(&server, "GET", &format!("{CSRS}/a"), &[], "").await.json();
    let condition = &stored["status"]["conditions"][0];
    assert!(condition["lastUpdateTime"].is_string() && condition["lastTransitionTime"].is_string(), "{condition}");

    let mut signed = stored.clone();
    signed["status"]["certificate"] = STANDARD.encode(authority(IsCa::NoCa)).into();
    let status = format!("{CSRS}/a/status");
    for (user, expected) in [("nobody", 403), ("approver", 403), ("signer", 200)] {
        let reply = send(&server, user, "PUT", &status, &signed).await;
        assert_eq!(reply.status, expected, "{user}: {}", reply.json());
    }
    let mut again = ask(&server, "GET", &format!("{CSRS}/a"), &[], "").await.json();
    again["status"]["certificate"] = STANDARD.encode(authority(IsCa::NoCa)).into();
    assert_eq!(send(&server, "signer", "PUT", &status, &again).await.status, 422, "a certificate stays");
}

#[tokio::test]
async fn a_bundle_holds_authorities_and_belongs_to_its_signer() {
    let server = testing::server().await;
    grant(&server, "plain", json!([rule(&["create"], &["clustertrustbundles"], &[])])).await;
    let attest = rule(&["attest"], &["signers"], &["example.com/s"]);
    grant(&server, "attester", json!([rule(&["create"], &["clustertrustbundles"], &[]), attest])).await;
    let bundle = |name: &str, signer: Option<&str>, pem: &str| json!({"metadata": {"name": name}, "spec": {"signerName": signer, "trustBundle": pem}});
    let ca = authority(IsCa::Ca(rcgen::BasicConstraints::Unconstrained));
    let leaf = authority(IsCa::NoCa);
    for (user, name, signer, pem, expected) in [
        ("plain", "mine", None, &ca, 201),
        ("plain", "leaf", None, &leaf, 422),
        ("plain", "twice", None, &format!("{ca}{ca}"), 422),
        ("plain", "example.com:s:x", Some("example.com/s"), &ca, 403),
        ("attester", "example.com:s:x", Some("example.com/s"), &ca, 201),
        ("attester", "other", Some("example.com/s"), &ca, 422),
    ] {
        let reply = send(&server, user, "POST", BUNDLES, &bundle(name, signer, pem)).await;
        assert_eq!(reply.status, expected, "{user} {name}: {}", reply.json());
    }
}
