//! Who somebody says he is: tokens, certificates, headers.

use crate::{Target, input, requests};
use access::authn::{
    Authenticator, Credentials, Impersonation, Token, TokenFile,
    service_account::{ObjectKind, Objects, Settings, SigningKey, Verifier},
    websocket,
};
use base64::prelude::{BASE64_URL_SAFE_NO_PAD, Engine};
use http::HeaderMap;
use jiff::Timestamp;
use serde_json::{Value, json};
use std::sync::{Arc, LazyLock};

pub(crate) const TARGETS: &[Target] = &[
    Target::new("token", token),
    Target::new("identity-headers", identity_headers),
    Target::new("client-certificate", certificate),
    Target::new("token-file", token_file),
];

const ISSUER: &str = "https://kubernetes.default.svc";

static KEY: LazyLock<SigningKey> = LazyLock::new(|| {
    let key = runtime::pki::TokenKey::generate().expect("a key can be made");
    SigningKey::from_pem(key.private_pem().expose()).expect("a key can be read")
});
static AUTHENTICATOR: LazyLock<Authenticator> = LazyLock::new(|| {
    let settings = Settings::new(ISSUER);
    Authenticator {
        service_accounts: Some(Verifier::new(&settings, vec![KEY.public().clone()])),
        audiences: settings.audiences,
        ..Authenticator::default()
    }
});

struct Everything;

impl Objects for Everything {
    fn get(&self, _: ObjectKind, namespace: &str, name: &str) -> Option<Arc<Value>> {
        Some(Arc::new(json!({"metadata": {"name": name, "namespace": namespace, "uid": "u"}})))
    }
}

fn now() -> Timestamp {
    Timestamp::from_second(1_800_000_000).expect("a time")
}

/// Header and claims, signed by our key when the first part is empty; otherwise a token as it was sent.
fn token(data: &[u8]) {
    let text = input::text(data);
    let [sent, header, claims] = input::parts(&text);
    let forged = Token::new(sent);
    assert!(AUTHENTICATOR.token(&forged, &[], &Everything, now()).is_err(), "nobody signed {sent:?}");
    let signed = [header, claims].map(|part| BASE64_URL_SAFE_NO_PAD.encode(part)).join(".");
    let Ok(signature) = KEY.sign(signed.as_bytes()) else { return };
    let token = Token::new(format!("{signed}.{}", BASE64_URL_SAFE_NO_PAD.encode(signature)));
    if let Ok(known) = AUTHENTICATOR.token(&token, &[], &Everything, now()) {
        assert!(known.user.name.starts_with("system:serviceaccount:"), "{:?}", known.user);
        assert!(!known.user.in_group("system:masters"));
    }
}

fn identity_headers(data: &[u8]) {
    let text = input::text(data);
    let headers = requests::headers(text.lines());
    if let Ok(Some(wish)) = Impersonation::parse(&headers) {
        let _ = wish.into_user();
    }
    let _ = websocket(&headers);
    let shown = Credentials { certificate: None, front_proxy: None, headers: &headers, path: "/" };
    let _ = shown.shown();
    if let Ok(user) = AUTHENTICATOR.authenticate(shown, &Everything, now()) {
        assert_eq!(user.name, "system:anonymous", "no header alone is proof");
    }
}

fn certificate(data: &[u8]) {
    let headers = HeaderMap::new();
    let shown = Credentials { certificate: Some(data), front_proxy: Some(data), headers: &headers, path: "/" };
    if let Ok(user) = AUTHENTICATOR.authenticate(shown, &Everything, now()) {
        assert!(!user.name.is_empty());
    }
}

fn token_file(data: &[u8]) {
    let text = input::text(data);
    let _ = TokenFile::parse(&text);
}
