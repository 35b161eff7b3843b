//! TokenRequests: what is checked, shortened and prolonged.

use super::*;

#[test]
fn token_requests_are_validated() {
    let invalid = |value: &str, rule: &str| {
        format!(
            "TokenRequest.authentication.k8s.io \"\" is invalid: spec.expirationSeconds: Invalid value: {value}: {rule}"
        )
    };
    for (spec, code, message) in [
        (json!({"expirationSeconds": 599}), 422, invalid("599", "may not specify a duration less than 10 minutes")),
        (
            json!({"expirationSeconds": 4_294_967_297_i64}),
            422,
            invalid("4294967297", "may not specify a duration larger than 2^32 seconds"),
        ),
        (
            json!({"boundObjectRef": {"apiVersion": "v1", "kind": "ConfigMap", "name": "x"}}),
            400,
            "cannot bind token to object of type /v1, Kind=ConfigMap".into(),
        ),
        (
            json!({"boundObjectRef": {"apiVersion": "v1", "kind": "Pod", "name": "nope"}}),
            404,
            "pods \"nope\" not found".into(),
        ),
        (
            json!({"boundObjectRef": {"apiVersion": "v1", "kind": "Secret", "name": "hush", "uid": "old"}}),
            409,
            "Operation cannot be fulfilled on Secret \"hush\": the UID in the bound object reference (old) does not match the UID in record. The object might have been deleted and then recreated".into(),
        ),
    ] {
        let error = issue(&EC, spec.clone()).unwrap_err();
        assert_eq!((error.code, error.message), (code, message), "{spec}");
    }
    assert!(issue(&EC, json!({"expirationSeconds": 600})).is_ok());
    assert!(issue(&EC, json!({"expirationSeconds": 4_294_967_296_i64})).is_ok());
}

#[test]
fn a_pod_of_another_account_cannot_be_bound() {
    let mut stranger = pod();
    stranger.set("spec.serviceAccountName", "other");
    let request = request(json!({"boundObjectRef": {"apiVersion": "v1", "kind": "Pod", "name": "web"}}));
    let cluster = cluster().with(ObjectKind::Pod, stranger);
    let error =
        issuer(&EC).issue(Asked { namespace: "ns", name: "sa", request: &request }, &cluster, now(), "id").unwrap_err();
    assert_eq!(
        (error.code, error.message.as_str()),
        (400, "cannot bind token for serviceaccount \"sa\" to pod running with different serviceaccount name.")
    );
}

#[test]
fn names_in_the_body_must_match_the_path() {
    for (field, code) in [("name", 422), ("namespace", 422), ("uid", 409)] {
        let mut request = request(json!({}));
        request.set(&format!("metadata.{field}"), "other");
        let asked = Asked { namespace: "ns", name: "sa", request: &request };
        assert_eq!(issuer(&EC).issue(asked, &cluster(), now(), "id").unwrap_err().code, code, "{field}");
    }
}

#[test]
fn long_requests_are_shortened_with_a_warning() {
    let settings = Settings { max_expiration: Some(7200), ..Settings::new(ISSUER) };
    let issuer = Issuer::new(SigningKey::from_pem(&EC).unwrap(), settings);
    let request = request(json!({"expirationSeconds": 86400}));
    let issued =
        issuer.issue(Asked { namespace: "ns", name: "sa", request: &request }, &cluster(), now(), "id").unwrap();
    assert_eq!(issued.warnings, ["requested expiration of 86400 seconds shortened to 7200 seconds"]);
    assert_eq!(issued.answer.int_at("spec.expirationSeconds"), Some(7200));
}

#[test]
fn a_token_that_admission_asked_for_lives_longer_unless_that_is_switched_off() {
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "name": "web"});
    let (hour, year) = (3607, 365 * 24 * 3600);
    for (extend, spec, lives) in [
        (true, json!({"expirationSeconds": hour, "boundObjectRef": pod}), year),
        (true, json!({"expirationSeconds": hour, "boundObjectRef": pod, "audiences": [ISSUER]}), year),
        (false, json!({"expirationSeconds": hour, "boundObjectRef": pod}), hour),
        (true, json!({"expirationSeconds": 3600, "boundObjectRef": pod}), 3600),
        (true, json!({"expirationSeconds": hour, "boundObjectRef": pod, "audiences": [ISSUER, "vault"]}), hour),
        (true, json!({"expirationSeconds": hour}), hour),
    ] {
        let settings = Settings { extend_expiration: extend, ..Settings::new(ISSUER) };
        let issuer = Issuer::new(SigningKey::from_pem(&EC).unwrap(), settings);
        let request = request(spec.clone());
        let asked = Asked { namespace: "ns", name: "sa", request: &request };
        let answer = issuer.issue(asked, &cluster(), now(), "id").unwrap().answer;
        let asked_for = request.int_at("spec.expirationSeconds").unwrap();
        let expiry: Timestamp = answer.str_at("status.expirationTimestamp").parse().unwrap();
        assert_eq!(expiry.as_second() - now().as_second(), asked_for, "what is told is what was asked: {spec}");
        let token = answer.str_at("status.token");
        let payload = BASE64_URL_SAFE_NO_PAD.decode(token.split('.').nth(1).unwrap()).unwrap();
        let claims: Value = serde_json::from_slice(&payload).unwrap();
        assert_eq!(claims["exp"].as_i64().unwrap() - now().as_second(), lives, "{spec}");
        let warn = claims["kubernetes.io"]["warnafter"].as_i64().map(|date| date - now().as_second());
        assert_eq!(warn, (lives != asked_for).then_some(asked_for), "{spec}");
        let later = now() + SignedDuration::from_secs(asked_for + 120);
        let verified = verifier(&[&EC]).verify(token, &[], &cluster(), later);
        assert_eq!(verified.is_ok(), lives > asked_for, "{spec}");
    }
}
