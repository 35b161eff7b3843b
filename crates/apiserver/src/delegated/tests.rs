//! Files, claims and answers: what is read from them, and what is refused.

use super::{
    AuthenticationConfiguration, AuthorizationConfiguration, Oidc, WebhookMetrics,
    authorization::{decision, spec},
    oidc,
    token_webhook::read,
};
use access::{
    Mode,
    authn::{Anonymous, Token, User, jwt::Jwt},
    authz::{Attributes, Decision},
};
use base64::prelude::{BASE64_URL_SAFE_NO_PAD, Engine};
use runtime::metrics::Metrics;
use serde_json::{Value, json};

const FILE: &str = r#"
apiVersion: apiserver.config.k8s.io/v1
kind: AuthenticationConfiguration
jwt:
- issuer: {url: "https://issuer.example.com", audiences: [a, b], audienceMatchPolicy: MatchAny}
  claimValidationRules:
  - {claim: hd, requiredValue: example.com}
  - {expression: "claims.exp - claims.nbf <= 86400", message: "lives too long"}
  claimMappings:
    username: {expression: "claims.email + ':x'"}
    groups: {expression: "claims.roles.split(',')"}
    uid: {claim: sub}
    extra: [{key: example.com/tenant, valueExpression: claims.tenant}]
  userValidationRules:
  - {expression: "!user.username.startsWith('system:')", message: "reserved"}
anonymous: {enabled: true, conditions: [{path: /healthz}]}
"#;

fn jwt(claims: &Value) -> Jwt {
    let encode = |value: &Value| BASE64_URL_SAFE_NO_PAD.encode(value.to_string());
    Jwt::parse(&Token::new(format!("{}.{}.AA", encode(&json!({"alg": "RS256"})), encode(claims)))).unwrap()
}

fn claims() -> Value {
    json!({
        "iss": "https://issuer.example.com", "aud": ["b"], "exp": 2000, "nbf": 1000, "hd": "example.com", "sub": "s1",
        "email": "jane@example.com", "roles": "dev,ops", "tenant": "t", "jti": "j1",
    })
}

#[test]
fn claims_become_a_user_as_the_file_says() {
    let configuration = AuthenticationConfiguration::parse(FILE).unwrap();
    assert_eq!(configuration.anonymous, Some(Anonymous::Paths(vec!["/healthz".into()])));
    let issuer = &configuration.issuers[0];
    let now = jiff::Timestamp::from_second(1500).unwrap();
    let user = issuer.user(&jwt(&claims()), now).unwrap();
    assert_eq!((user.name.as_str(), user.uid.as_str()), ("jane@example.com:x", "s1"));
    assert_eq!(user.groups, ["dev", "ops"]);
    assert_eq!(user.extra["example.com/tenant"], ["t"]);
    assert_eq!(user.extra["authentication.kubernetes.io/credential-id"], ["JTI=j1"]);
    for (field, value, why) in [
        ("exp", json!(1500), "token is expired"),
        ("exp", json!(90000), "lives too long"),
        ("aud", json!("c"), r#"expected audience ["a", "b"] got ["c"]"#),
        ("hd", json!("other"), r#"required claim "hd" has another value"#),
        ("hd", Value::Null, r#"required claim "hd" is not there"#),
        ("email", json!("system:"), "reserved"),
        ("nbf", json!(9000), "token is not valid yet"),
    ] {
        let mut changed = claims();
        changed[field] = value;
        assert_eq!(issuer.user(&jwt(&changed), now), Err(why.to_owned()), "{field}");
    }
}

#[test]
fn all_mistakes_of_the_file_are_named() {
    let text = r#"
apiVersion: apiserver.config.k8s.io/v2
kind: Configuration
jwt:
- issuer: {url: "http://issuer", audiences: []}
  claimMappings: {username: {claim: sub}, groups: {claim: a, expression: b}}
  userValidationRules: [{expression: "user.username"}]
"#;
    let mistakes = AuthenticationConfiguration::parse(text).err().unwrap().0;
    let begins: Vec<&str> = mistakes.iter().map(|mistake| mistake.split(": ").next().unwrap()).collect();
    assert_eq!(
        begins,
        [
            "apiVersion",
            "kind",
            "jwt[0].issuer.url",
            "jwt[0].issuer.audiences",
            "jwt[0].userValidationRules[0].expression",
            "jwt[0].claimMappings.username.prefix",
            "jwt[0].claimMappings.groups",
        ],
        "{mistakes:?}"
    );
    assert!(AuthenticationConfiguration::parse("kind: x\nunknown: 1").is_err());
}

#[test]
fn the_flags_are_one_issuer() {
    let settings = Oidc {
        issuer_url: "https://issuer.example.com".into(),
        client_id: "b".into(),
        ca_file: None,
        username_claim: "sub".into(),
        username_prefix: String::new(),
        groups_claim: "groups".into(),
        groups_prefix: "oidc:".into(),
        required_claims: vec![],
        signing_algs: vec!["RS256".into()],
    };
    let mut sent = claims();
    sent["groups"] = json!(["dev"]);
    let now = jiff::Timestamp::from_second(1500).unwrap();
    let user = |settings: &Oidc| oidc(settings).unwrap().issuers[0].user(&jwt(&sent), now);
    let found = user(&settings).unwrap();
    assert_eq!(
        (found.name.as_str(), &found.groups[..]),
        ("https://issuer.example.com#s1", &["oidc:dev".to_owned()][..])
    );
    let plain = user(&Oidc { username_claim: "email".into(), ..settings.clone() }).unwrap();
    assert_eq!(plain.name, "jane@example.com");
    sent["email_verified"] = false.into();
    let unverified = oidc(&Oidc { username_claim: "email".into(), ..settings.clone() }).unwrap();
    assert_eq!(unverified.issuers[0].user(&jwt(&sent), now), Err("email not verified".to_owned()));
    let wrong = oidc(&Oidc {
        issuer_url: "x".into(),
        client_id: String::new(),
        signing_algs: vec!["HS256".into()],
        ..settings
    });
    assert_eq!(wrong.err().unwrap().0.len(), 3);
}

#[test]
fn a_webhook_names_a_user_or_nobody() {
    let wanted = ["api".to_owned()];
    let yes = json!({"status": {"authenticated": true, "user": {
        "username": "jane", "uid": "u", "groups": ["dev"], "extra": {"scopes": ["a"]}}}});
    let known = read(&yes, &wanted).unwrap().unwrap();
    assert_eq!((known.user.name.as_str(), known.user.uid.as_str()), ("jane", "u"));
    assert_eq!((known.audiences, known.user.extra["scopes"].clone()), (vec!["api".to_owned()], vec!["a".to_owned()]));
    let mut other = yes.clone();
    other["status"]["audiences"] = json!(["somebody else"]);
    assert_eq!(read(&other, &wanted), Ok(None));
    assert_eq!(read(&json!({"status": {}}), &wanted), Ok(None));
    assert_eq!(read(&json!({"status": {"error": "late"}}), &wanted), Err("late".to_owned()));
}

#[test]
fn a_question_is_put_and_an_answer_read_as_upstream_does() {
    let user = User::new("jane", ["dev"]);
    let asked =
        Attributes { namespace: "a", version: "v1", ..Attributes::resource(&user, "get", "apps", "deployments") };
    assert_eq!(
        spec(&asked),
        json!({"user": "jane", "groups": ["dev"], "resourceAttributes": {
            "namespace": "a", "verb": "get", "group": "apps", "version": "v1", "resource": "deployments"}})
    );
    assert_eq!(
        spec(&Attributes::path(&user, "get", "/metrics"))["nonResourceAttributes"],
        json!({"path": "/metrics", "verb": "get"})
    );
    for (status, want) in [
        (json!({"allowed": true, "reason": "yes"}), Ok(Decision::Allow("yes".into()))),
        (json!({"denied": true}), Ok(Decision::Deny("".into()))),
        (json!({}), Ok(Decision::NoOpinion("".into()))),
        (json!({"allowed": true, "denied": true}), Err("the answer both allows and denies".to_owned())),
    ] {
        assert_eq!(decision(&json!({"status": status})), want);
    }
}

#[test]
fn authorizers_stand_in_the_order_of_the_file() {
    let metrics = WebhookMetrics::new(&Metrics::new());
    let good = "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthorizationConfiguration\nauthorizers:\n- {type: Node, name: n}\n- {type: RBAC, name: r}\n";
    let read = |text: &str| AuthorizationConfiguration::parse(text, &metrics);
    assert_eq!(read(good).unwrap().modes(), [Mode::Node, Mode::Rbac]);
    let without = read(&good.replace("- {type: RBAC, name: r}\n", "")).unwrap();
    let refused = without.keeps(&[Mode::Node, Mode::Rbac]).err().unwrap();
    assert_eq!(refused.0, ["authorizers: missing required types: [Rbac]"]);
    assert!(read(good).unwrap().keeps(&[Mode::Rbac]).is_ok());
    let wrong = "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthorizationConfiguration\nauthorizers:\n- {type: ABAC, name: a}\n- {type: Node}\n- {type: Webhook, name: a}\n- {type: Webhook, name: w, webhook: {timeout: 1m, failurePolicy: Maybe}}\n";
    let mistakes = AuthorizationConfiguration::parse(wrong, &metrics).err().unwrap().0;
    let begins: Vec<&str> = mistakes.iter().map(|mistake| mistake.split(": ").next().unwrap()).collect();
    assert_eq!(
        begins,
        [
            "authorizers[0].type",
            "authorizers[1].name",
            "authorizers[2].name",
            "authorizers[2].webhook",
            "authorizers[3].webhook.timeout",
            "authorizers[3].webhook.subjectAccessReviewVersion",
            "authorizers[3].webhook.failurePolicy",
            "authorizers[3].webhook.connectionInfo.type",
            "authorizers[3].webhook.connectionInfo.kubeConfigFile",
        ],
        "{mistakes:?}"
    );
}
