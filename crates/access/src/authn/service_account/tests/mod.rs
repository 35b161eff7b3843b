//! Tokens from both sides: what is issued is accepted, and nothing else is.

mod keys;
mod random;
mod requests;

use super::*;
use api::object::Fields;
use aws_lc_rs::{
    encoding::{AsDer, EcPrivateKeyRfc5915Der, Pkcs8V1Der},
    hmac,
    rsa::{KeyPair as RsaPair, KeySize},
    signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair},
};
use base64::prelude::{BASE64_STANDARD, BASE64_URL_SAFE_NO_PAD, Engine};
use jiff::{SignedDuration, Timestamp};
use proptest::prelude::*;
use std::{collections::HashMap, sync::LazyLock};

const ISSUER: &str = "https://kubernetes.default.svc";

#[derive(Default)]
struct Cluster(HashMap<(ObjectKind, String, String), Arc<Value>>);

impl Cluster {
    fn with(mut self, kind: ObjectKind, object: Value) -> Self {
        let key = (kind, object.str_at("metadata.namespace").to_owned(), object.str_at("metadata.name").to_owned());
        self.0.insert(key, Arc::new(object));
        self
    }

    fn without(mut self, kind: ObjectKind) -> Self {
        self.0.retain(|(k, _, _), _| *k != kind);
        self
    }
}

impl Objects for Cluster {
    fn get(&self, kind: ObjectKind, namespace: &str, name: &str) -> Option<Arc<Value>> {
        self.0.get(&(kind, namespace.to_owned(), name.to_owned())).cloned()
    }
}

fn named(namespace: &str, name: &str, uid: &str) -> Value {
    let mut object = json!({"metadata": {"name": name, "uid": uid}});
    if !namespace.is_empty() {
        object.set("metadata.namespace", namespace);
    }
    object
}

fn pod() -> Value {
    let mut pod = named("ns", "web", "pod-1");
    pod.set("spec", json!({"serviceAccountName": "sa", "nodeName": "n1"}));
    pod
}

fn cluster() -> Cluster {
    Cluster::default()
        .with(ObjectKind::ServiceAccount, named("ns", "sa", "sa-1"))
        .with(ObjectKind::Pod, pod())
        .with(ObjectKind::Secret, named("ns", "hush", "secret-1"))
        .with(ObjectKind::Node, named("", "n1", "node-1"))
}

fn pem(label: &str, der: &[u8]) -> String {
    let lines: Vec<String> =
        BASE64_STANDARD.encode(der).as_bytes().chunks(64).map(|c| String::from_utf8(c.to_vec()).unwrap()).collect();
    format!("-----BEGIN {label}-----\n{}\n-----END {label}-----\n", lines.join("\n"))
}

fn der(pem: &str) -> Vec<u8> {
    BASE64_STANDARD.decode(pem.lines().filter(|line| !line.starts_with('-')).collect::<String>()).unwrap()
}

static EC: LazyLock<String> = LazyLock::new(|| rcgen::KeyPair::generate().unwrap().serialize_pem());
static OTHER_EC: LazyLock<String> = LazyLock::new(|| rcgen::KeyPair::generate().unwrap().serialize_pem());
static RSA: LazyLock<String> = LazyLock::new(|| {
    let pair = RsaPair::generate(KeySize::Rsa2048).unwrap();
    let der: Pkcs8V1Der<'_> = pair.as_der().unwrap();
    pem("PRIVATE KEY", der.as_ref())
});

fn now() -> Timestamp {
    "2026-01-02T03:04:05Z".parse().unwrap()
}

fn issuer(key: &str) -> Issuer {
    Issuer::new(SigningKey::from_pem(key).unwrap(), Settings::new(ISSUER))
}

fn verifier(keys: &[&str]) -> Verifier {
    let keys = keys.iter().flat_map(|key| PublicKey::from_pem(key).unwrap()).collect();
    Verifier::new(&Settings::new(ISSUER), keys)
}

fn request(spec: Value) -> Value {
    json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "metadata": {}, "spec": spec})
}

fn issue(key: &str, spec: Value) -> Result<Issued, api::error::ApiError> {
    let request = request(spec);
    issuer(key).issue(Asked { namespace: "ns", name: "sa", request: &request }, &cluster(), now(), "id-1")
}

fn token(key: &str, spec: Value) -> String {
    issue(key, spec).unwrap().answer.str_at("status.token").to_owned()
}

fn verify(token: &str) -> Result<Option<Verified>, TokenError> {
    verifier(&[&EC, &RSA]).verify(token, &[], &cluster(), now())
}

/// A token with our key and any claims.
fn signed(header: &Value, claims: &Value, key: &str) -> String {
    let signed = format!(
        "{}.{}",
        BASE64_URL_SAFE_NO_PAD.encode(header.to_string()),
        BASE64_URL_SAFE_NO_PAD.encode(claims.to_string())
    );
    let signature = SigningKey::from_pem(key).unwrap().sign(signed.as_bytes()).unwrap();
    format!("{signed}.{}", BASE64_URL_SAFE_NO_PAD.encode(signature))
}

fn claims() -> Value {
    let second = now().as_second();
    json!({
        "aud": [ISSUER], "exp": second + 600, "iat": second, "nbf": second, "iss": ISSUER, "jti": "id-9",
        "sub": "system:serviceaccount:ns:sa",
        "kubernetes.io": {"namespace": "ns", "serviceaccount": {"name": "sa", "uid": "sa-1"}},
    })
}

fn header(key: &str) -> Value {
    let key = SigningKey::from_pem(key).unwrap();
    json!({"alg": key.public().algorithm().name(), "kid": key.public().id()})
}

#[test]
fn an_issued_token_is_accepted_with_either_kind_of_key() {
    for key in [&*EC, &*RSA] {
        let verified = verify(&token(key, json!({}))).unwrap().unwrap();
        assert_eq!(verified.user.name, "system:serviceaccount:ns:sa");
        assert_eq!(verified.user.uid, "sa-1");
        assert_eq!(verified.user.groups, ["system:serviceaccounts", "system:serviceaccounts:ns"]);
        assert_eq!(verified.user.extra["authentication.kubernetes.io/credential-id"], ["JTI=id-1"]);
        assert_eq!(verified.audiences, [ISSUER]);
    }
}

#[test]
fn the_claims_have_upstreams_layout() {
    let bound = json!({"boundObjectRef": {"apiVersion": "v1", "kind": "Pod", "name": "web", "uid": "pod-1"}});
    let issued = issue(&EC, bound).unwrap();
    let token = issued.answer.str_at("status.token");
    let payload = BASE64_URL_SAFE_NO_PAD.decode(token.split('.').nth(1).unwrap()).unwrap();
    assert_eq!(
        String::from_utf8(payload).unwrap(),
        concat!(
            r#"{"aud":["https://kubernetes.default.svc"],"exp":1767326645,"iat":1767323045,"#,
            r#""iss":"https://kubernetes.default.svc","jti":"id-1","kubernetes.io":{"namespace":"ns","#,
            r#""node":{"name":"n1","uid":"node-1"},"pod":{"name":"web","uid":"pod-1"},"#,
            r#""serviceaccount":{"name":"sa","uid":"sa-1"}},"nbf":1767323045,"sub":"system:serviceaccount:ns:sa"}"#
        )
    );
    let mut answer = issued.answer;
    answer.set("status.token", "...");
    assert_eq!(
        answer,
        json!({
            "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest",
            "metadata": {"name": "sa", "namespace": "ns", "uid": "sa-1", "creationTimestamp": "2026-01-02T03:04:05Z"},
            "spec": {"audiences": [ISSUER], "expirationSeconds": 3600,
                     "boundObjectRef": {"apiVersion": "v1", "kind": "Pod", "name": "web", "uid": "pod-1"}},
            "status": {"token": "...", "expirationTimestamp": "2026-01-02T04:04:05Z"},
        })
    );
}

#[test]
fn a_bound_token_tells_its_pod_and_node_and_dies_with_the_pod() {
    let token = token(&EC, json!({"boundObjectRef": {"apiVersion": "v1", "kind": "Pod", "name": "web"}}));
    let check = |cluster: Cluster| verifier(&[&EC]).verify(&token, &[], &cluster, now());
    let extra = check(cluster()).unwrap().unwrap().user.extra;
    for (key, want) in [("pod-name", "web"), ("pod-uid", "pod-1"), ("node-name", "n1"), ("node-uid", "node-1")] {
        assert_eq!(extra[&format!("authentication.kubernetes.io/{key}")], [want]);
    }
    assert_eq!(check(cluster().without(ObjectKind::Pod)), Err(TokenError::BoundObjectGone));
    let anew = cluster().with(ObjectKind::Pod, named("ns", "web", "pod-2"));
    assert_eq!(check(anew), Err(TokenError::BoundObjectGone));
    let gone = cluster().without(ObjectKind::ServiceAccount);
    assert_eq!(check(gone), Err(TokenError::AccountGone("ns/sa".into())));
    assert!(check(cluster().without(ObjectKind::Node)).is_ok(), "the node is information only");
    for (deleted, accepted) in [("2026-01-02T03:03:30Z", true), ("2026-01-02T03:03:00Z", false)] {
        let mut dying = pod();
        dying.set("metadata.deletionTimestamp", deleted);
        assert_eq!(check(cluster().with(ObjectKind::Pod, dying)).is_ok(), accepted, "{deleted}");
    }
}

#[test]
fn a_remembered_signature_saves_no_token_from_revocation() {
    let token = token(&EC, json!({"boundObjectRef": {"apiVersion": "v1", "kind": "Secret", "name": "hush"}}));
    let verifier = verifier(&[&EC]);
    let ask = |cluster: Cluster, seconds| {
        verifier.verify(&token, &[], &cluster, now() + SignedDuration::from_secs(seconds)).map(|found| found.is_some())
    };
    assert_eq!(ask(cluster(), 0), Ok(true));
    assert_eq!(ask(cluster(), 1), Ok(true));
    assert_eq!(ask(cluster().without(ObjectKind::Secret), 1), Err(TokenError::BoundObjectGone));
    assert_eq!(ask(cluster(), 7200), Err(TokenError::Expired));
    assert!(verifier.verify(&token, &["other".into()], &cluster(), now()).is_err());
    let shown = format!("{verifier:?}");
    assert!(shown.contains("Signatures(1 known)") && !shown.contains(&token), "{shown}");
}

#[test]
fn tokens_bound_to_a_secret_or_a_node_die_with_it() {
    for (kind, name, what) in [("Secret", "hush", ObjectKind::Secret), ("Node", "n1", ObjectKind::Node)] {
        let token = token(&EC, json!({"boundObjectRef": {"apiVersion": "v1", "kind": kind, "name": name}}));
        assert!(verify(&token).is_ok(), "{kind}");
        let gone = verifier(&[&EC]).verify(&token, &[], &cluster().without(what), now());
        assert_eq!(gone, Err(TokenError::BoundObjectGone), "{kind}");
    }
}

#[test]
fn time_is_kept_with_a_minute_of_leeway() {
    let token = token(&EC, json!({"expirationSeconds": 600}));
    for (offset, want) in
        [(0, Ok(())), (660, Ok(())), (661, Err(TokenError::Expired)), (-60, Ok(())), (-61, Err(TokenError::NotYet))]
    {
        let then = now() + SignedDuration::from_secs(offset);
        let got = verifier(&[&EC]).verify(&token, &[], &cluster(), then).map(|_| ());
        assert_eq!(got, want, "{offset}");
    }
    let mut early = claims();
    early.remove("nbf");
    early.set("iat", now().as_second() + 61);
    assert_eq!(verify(&signed(&header(&EC), &early, &EC)), Err(TokenError::IssuedInFuture));
}

#[test]
fn forged_tokens_are_refused() {
    let good = signed(&header(&EC), &claims(), &EC);
    assert!(verify(&good).unwrap().is_some(), "the table below changes one thing each");
    let parts: Vec<&str> = good.split('.').collect();
    let [head, body, signature] = parts[..] else { panic!("three parts") };
    let mut other = claims();
    other.set("sub", "system:serviceaccount:kube-system:admin");
    let swapped = BASE64_URL_SAFE_NO_PAD.encode(other.to_string());
    let kid = header(&EC)["kid"].clone();
    let encode = |header: Value| BASE64_URL_SAFE_NO_PAD.encode(header.to_string());
    let none = encode(json!({"alg": "none", "kid": kid}));
    let confused = format!("{}.{body}", encode(json!({"alg": "HS256", "kid": kid})));
    let public = rcgen::KeyPair::from_pem(&EC).unwrap().public_key_pem();
    let mac = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, public.as_bytes()), confused.as_bytes());
    let mut flipped = BASE64_URL_SAFE_NO_PAD.decode(signature).unwrap();
    flipped[7] ^= 1;
    for (what, token, want) in [
        ("payload changed", format!("{head}.{swapped}.{signature}"), TokenError::Signature),
        (
            "signature changed",
            format!("{head}.{body}.{}", BASE64_URL_SAFE_NO_PAD.encode(flipped)),
            TokenError::Signature,
        ),
        ("signature empty", format!("{head}.{body}."), TokenError::Signature),
        ("alg none, no signature", format!("{none}.{body}."), TokenError::Signature),
        ("alg none, old signature", format!("{none}.{body}.{signature}"), TokenError::Signature),
        (
            "HS256 with the public key as secret",
            format!("{confused}.{}", BASE64_URL_SAFE_NO_PAD.encode(mac)),
            TokenError::Signature,
        ),
        (
            "RS256 named for an EC key",
            signed(&json!({"alg": "RS256", "kid": kid}), &claims(), &EC),
            TokenError::Signature,
        ),
        (
            "critical extension",
            signed(&json!({"alg": "ES256", "kid": kid, "crit": ["b64"]}), &claims(), &EC),
            TokenError::Signature,
        ),
        ("unknown kid", signed(&json!({"alg": "ES256", "kid": "nobody"}), &claims(), &EC), TokenError::UnknownKey),
        ("another key without kid", signed(&json!({"alg": "ES256"}), &claims(), &OTHER_EC), TokenError::Signature),
        ("another key under our kid", signed(&header(&EC), &claims(), &OTHER_EC), TokenError::Signature),
        ("subject is not the account", signed(&header(&EC), &other, &EC), TokenError::Claims),
    ] {
        assert_eq!(verify(&token), Err(want), "{what}");
    }
}

#[test]
fn a_signed_token_without_the_needed_claims_is_refused() {
    for field in ["exp", "sub", "kubernetes.io"] {
        let mut short = claims();
        short.as_object_mut().unwrap().remove(field);
        assert_eq!(verify(&signed(&header(&EC), &short, &EC)), Err(TokenError::Claims), "{field}");
    }
}

#[test]
fn a_token_without_kid_is_tried_with_every_key() {
    assert!(verify(&signed(&json!({"alg": "RS256"}), &claims(), &RSA)).unwrap().is_some());
}

#[test]
fn tokens_of_others_are_left_to_others() {
    let mut foreign = claims();
    foreign.set("iss", "https://elsewhere");
    for token in ["", "a", "a.b", "a.b.c", "a.b.c.d", &signed(&header(&EC), &foreign, &EC)] {
        assert_eq!(verify(token), Ok(None), "{token}");
    }
    let mut settings = Settings::new(ISSUER);
    settings.other_issuers.push("https://elsewhere".into());
    let both = Verifier::new(&settings, PublicKey::from_pem(&EC).unwrap());
    assert!(both.verify(&signed(&header(&EC), &foreign, &EC), &[], &cluster(), now()).unwrap().is_some());
}

#[test]
fn audiences_must_meet() {
    let token = token(&EC, json!({"audiences": ["vault", "db"]}));
    assert_eq!(
        verify(&token),
        Err(TokenError::Audience { has: vec!["vault".into(), "db".into()], wanted: vec![ISSUER.into()] })
    );
    let wanted = ["db".to_owned(), "mail".to_owned()];
    let verified = verifier(&[&EC]).verify(&token, &wanted, &cluster(), now()).unwrap().unwrap();
    assert_eq!(verified.audiences, ["db"]);
    let mut single = claims();
    single.set("aud", ISSUER);
    assert!(verify(&signed(&header(&EC), &single, &EC)).unwrap().is_some(), "aud may be one string");
}
