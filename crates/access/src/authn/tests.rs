//! The order of credentials, and who may come without any.

use super::{service_account::ObjectKind, *};
use serde_json::Value;
use std::sync::Arc;

struct Nothing;

impl Objects for Nothing {
    fn get(&self, _: ObjectKind, _: &str, _: &str) -> Option<Arc<Value>> {
        None
    }
}

fn authenticator() -> Authenticator {
    Authenticator {
        token_file: Some(TokenFile::parse("t1,alice,1,dev").unwrap()),
        audiences: vec!["api".into()],
        ..Authenticator::default()
    }
}

fn certificate(name: &str) -> Vec<u8> {
    let mut params = rcgen::CertificateParams::default();
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(rcgen::DnType::CommonName, name);
    params.self_signed(&rcgen::KeyPair::generate().unwrap()).unwrap().der().to_vec()
}

fn ask(certificate: Option<&[u8]>, authorization: Option<&str>, path: &str) -> Result<User, AuthnError> {
    let mut headers = HeaderMap::new();
    if let Some(value) = authorization {
        headers.insert("authorization", value.parse().unwrap());
    }
    authenticator().authenticate(
        Credentials { certificate, front_proxy: None, headers: &headers, path },
        &Nothing,
        Timestamp::UNIX_EPOCH,
    )
}

#[test]
fn a_certificate_comes_before_a_token_and_a_token_before_nobody() {
    let der = certificate("carol");
    let nameless = certificate("");
    for (certificate, token, path, want) in [
        (Some(&der), Some("Bearer t1"), "/api", Ok("carol")),
        (Some(&der), Some("Bearer wrong"), "/api", Ok("carol")),
        (Some(&nameless), Some("Bearer t1"), "/api", Ok("alice")),
        (None, Some("Bearer t1"), "/healthz", Ok("alice")),
        (None, Some("Bearer wrong"), "/healthz", Err(AuthnError::UnknownToken)),
        (None, None, "/api", Err(AuthnError::Missing)),
        (Some(&nameless), None, "/api", Err(AuthnError::Missing)),
        (None, Some("Basic dXNlcjpwYXNz"), "/api", Err(AuthnError::Missing)),
    ] {
        let got = ask(certificate.map(Vec::as_slice), token, path).map(|user| user.name);
        assert_eq!(got, want.map(str::to_owned), "{token:?} {path}");
    }
}

#[test]
fn a_browser_shows_its_token_as_a_subprotocol() {
    for (encoded, want) in [
        ("dDE", Ok("alice")),
        ("d3Jvbmc", Err(AuthnError::UnknownToken)),
        ("!", Err(AuthnError::Subprotocol(SubprotocolError::Encoding))),
    ] {
        let mut headers = HeaderMap::new();
        headers.insert("upgrade", "websocket".parse().unwrap());
        headers.insert("connection", "Upgrade".parse().unwrap());
        let protocols = format!("base64url.bearer.authorization.k8s.io.{encoded}, v5.channel.k8s.io");
        headers.insert("sec-websocket-protocol", protocols.parse().unwrap());
        let credentials = Credentials { certificate: None, front_proxy: None, headers: &headers, path: "/healthz" };
        let got = authenticator().authenticate(credentials, &Nothing, Timestamp::UNIX_EPOCH).map(|user| user.name);
        assert_eq!(got, want.map(str::to_owned), "{encoded}");
    }
}

#[test]
fn everybody_with_credentials_is_authenticated() {
    assert_eq!(ask(None, Some("Bearer t1"), "/api").unwrap().groups, ["dev", "system:authenticated"]);
    assert_eq!(ask(Some(&certificate("carol")), None, "/api").unwrap().groups, ["system:authenticated"]);
}

#[test]
fn nobody_sees_only_health_and_version() {
    for (path, allowed) in [
        ("/healthz", true),
        ("/livez", true),
        ("/readyz", true),
        ("/version", true),
        ("/healthz/etcd", false),
        ("/metrics", false),
        ("/api", false),
        ("/api/v1/namespaces/kube-system/secrets", false),
    ] {
        let got = ask(None, None, path);
        assert_eq!(got.is_ok(), allowed, "{path}");
        if let Ok(user) = got {
            assert_eq!(user, User::anonymous());
        }
    }
}

#[test]
fn static_tokens_are_for_the_api_server_alone() {
    let token = Token::new("t1");
    let ask = |wanted: &[String]| authenticator().token(&token, wanted, &Nothing, Timestamp::UNIX_EPOCH);
    assert_eq!(ask(&[]).unwrap().audiences, ["api"]);
    assert_eq!(ask(&["other".into(), "api".into()]).unwrap().audiences, ["api"]);
    assert_eq!(ask(&["other".into()]), Err(AuthnError::UnknownToken));
}

#[test]
fn the_answer_is_401_whatever_the_reason() {
    for error in [AuthnError::Missing, AuthnError::UnknownToken, AuthnError::Token(TokenError::Expired)] {
        let answer = ApiError::from(error);
        assert_eq!((answer.code, answer.message.as_str()), (401, "Unauthorized"));
    }
}

#[test]
fn debug_of_the_authenticator_hides_tokens() {
    let shown = format!("{:?}", authenticator());
    assert!(shown.contains("TokenFile(1 tokens)") && !shown.contains("t1"), "{shown}");
}
