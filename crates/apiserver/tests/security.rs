//! Who is let in and what they may do, asked through the same door as every client: credentials in, status and message out.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use access::{
    Access, Mode,
    authn::{Anonymous, TokenFile, User, service_account::Asked},
    authz::Attributes,
};
use apiserver::{
    ApiServer,
    handle::Insider,
    inflight::{Inflight, Weight},
    testing::Lab,
};
use bytes::Bytes;
use http::Request;
use http_body_util::Full;
use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair};
use runtime::http::Peer;
use serde_json::{Value, json};
use std::{future::Future, net::SocketAddr, sync::Arc, time::Duration};
use support::{Reply, ask, send};

const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";
const LOCAL: &str = "127.0.0.1:1";

/// How somebody shows who they are.
#[derive(Clone)]
enum Who {
    Nobody,
    Token(String),
    Certificate(Vec<u8>),
    Known(User),
}

use Who::{Certificate, Known, Nobody, Token};

/// A client certificate as it is after TLS has checked its chain.
fn certificate(user: &str, groups: &[&str]) -> Who {
    let mut name = DistinguishedName::new();
    name.push(DnType::CommonName, user);
    groups.iter().for_each(|group| name.push(DnType::OrganizationName, *group));
    let mut params = CertificateParams::default();
    params.distinguished_name = name;
    Certificate(params.self_signed(&KeyPair::generate().unwrap()).unwrap().der().to_vec())
}

fn user(name: &str) -> Who {
    Known(User::new(name, ["system:authenticated"]))
}

fn kubelet(node: &str) -> Who {
    Known(User::new(format!("system:node:{node}"), ["system:nodes", "system:authenticated"]))
}

async fn with_headers(
    server: &Arc<ApiServer>,
    who: &Who,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &Value,
) -> Reply {
    let media = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
    let mut request = Request::builder().method(method).uri(path).header("content-type", media);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let address: SocketAddr = LOCAL.parse().unwrap();
    let mut peer = Peer { address, local: address, certificates: Arc::new([]) };
    request = match who {
        Nobody => request,
        Token(token) => request.header("authorization", format!("Bearer {token}")),
        Certificate(der) => {
            peer.certificates = Arc::new([der.clone().into()]);
            request
        }
        Known(user) => request.extension(Insider(user.clone())),
    };
    let bytes = if body.is_null() { Bytes::new() } else { body.to_string().into() };
    send(server, request.extension(peer).body(Full::new(bytes)).unwrap()).await
}

async fn get(server: &Arc<ApiServer>, who: &Who, path: &str) -> Reply {
    with_headers(server, who, "GET", path, &[], &Value::Null).await
}

async fn post(server: &Arc<ApiServer>, who: &Who, path: &str, body: &Value) -> Reply {
    with_headers(server, who, "POST", path, &[], body).await
}

/// What an administrator makes; it must work.
async fn make(server: &Arc<ApiServer>, path: &str, object: Value) -> Value {
    let reply = ask(server, "POST", path, &[("content-type", "application/json")], object.to_string()).await;
    assert_eq!(reply.status, 201, "{path}: {}", reply.json());
    reply.json()
}

async fn remove(server: &Arc<ApiServer>, path: &str) {
    let now = r#"{"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0}"#;
    let reply = ask(server, "DELETE", path, &[("content-type", "application/json")], now).await;
    assert!(reply.status < 300, "{path}: {}", reply.json());
}

/// Indexes follow the store a moment later; waits until they have.
async fn until<F: Future<Output = bool>>(what: &str, mut check: impl FnMut() -> F) {
    for _ in 0..1000 {
        if check().await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("never came: {what}");
}

fn message(reply: &Reply) -> (u16, String) {
    (reply.status, reply.json()["message"].as_str().unwrap_or_default().to_owned())
}

fn pod(name: &str, node: &str, account: &str, secret: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {
        "nodeName": node, "serviceAccountName": account,
        "containers": [{"name": "c", "image": "i"}],
        "volumes": [{"name": "s", "secret": {"secretName": secret}},
                    {"name": "t", "projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}}]}})
}

async fn grant(server: &Arc<ApiServer>, name: &str, rules: Value) {
    let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": name}, "rules": rules});
    make(server, &format!("{RBAC}/clusterroles"), role).await;
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": name}]});
    make(server, &format!("{RBAC}/clusterrolebindings"), binding).await;
    let known = || async { server.access.rbac().snapshot().knows_binding(name) };
    until("the binding in the index", known).await;
}

#[tokio::test]
async fn nobody_sees_health_and_version_alone() {
    let server = apiserver::testing::server().await;
    for path in ["/healthz", "/livez", "/readyz", "/version"] {
        assert_eq!(get(&server, &Nobody, path).await.status, 200, "{path}");
    }
    for path in ["/", "/api", "/apis", "/api/v1/pods", "/openapi/v2", "/metrics", "/openid/v1/jwks", "/healthz/../api"]
    {
        let reply = get(&server, &Nobody, path).await;
        assert_eq!(
            reply.json(),
            json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": "Unauthorized",
                   "reason": "Unauthorized", "code": 401}),
            "{path}"
        );
    }
    for (flag, health, api) in [(Some(false), 401, 401), (Some(true), 200, 403), (None, 200, 401)] {
        let mut lab = Lab::new();
        lab.server.authenticator.anonymous = Anonymous::from_flag(flag);
        let server = lab.start().await;
        assert_eq!(get(&server, &Nobody, "/readyz").await.status, health, "--anonymous-auth={flag:?}");
        assert_eq!(get(&server, &Nobody, "/api/v1/pods").await.status, api, "--anonymous-auth={flag:?}");
    }
    let posted = post(&server, &Nobody, "/version", &json!({})).await;
    assert_eq!(message(&posted), (403, r#"forbidden: User "system:anonymous" cannot post path "/version""#.to_owned()));
}

#[tokio::test]
async fn wrong_credentials_never_become_nobody() {
    let server = apiserver::testing::server().await;
    for token in ["hush", "a.b.c", "eyJhbGciOiJub25lIn0.e30.", "é"] {
        for path in ["/healthz", "/api/v1/pods"] {
            assert_eq!(get(&server, &Token(token.into()), path).await.status, 401, "{token} {path}");
        }
    }
}

#[tokio::test]
async fn a_static_token_names_its_user() {
    let mut lab = Lab::new();
    lab.server.authenticator.token_file = Some(TokenFile::parse("hush,carol,7,\"dev,ops\"").unwrap());
    let server = lab.start().await;
    let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"});
    let path = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
    let me = post(&server, &Token("hush".into()), path, &review).await;
    assert_eq!(me.status, 201, "{}", me.json());
    assert_eq!(
        me.json()["status"]["userInfo"],
        json!({"username": "carol", "uid": "7", "groups": ["dev", "ops", "system:authenticated"]})
    );
    assert_eq!(get(&server, &Token("hus".into()), "/api").await.status, 401);
}

#[tokio::test]
async fn a_certificate_names_user_and_groups_and_roles_decide() {
    let server = apiserver::testing::server().await;
    let bob = certificate("bob", &["dev"]);
    for (path, want) in [
        (
            "/api/v1/namespaces/default/pods",
            r#"pods is forbidden: User "bob" cannot list resource "pods" in API group "" in the namespace "default""#,
        ),
        (
            "/api/v1/namespaces/default/pods/p/log",
            r#"pods "p" is forbidden: User "bob" cannot get resource "pods/log" in API group "" in the namespace "default""#,
        ),
        (
            "/apis/apps/v1/deployments",
            r#"deployments.apps is forbidden: User "bob" cannot list resource "deployments" in API group "apps" at the cluster scope"#,
        ),
        (
            "/api/v1/pods?watch=1",
            r#"pods is forbidden: User "bob" cannot watch resource "pods" in API group "" at the cluster scope"#,
        ),
        (
            "/api/v1/namespaces/kube-system",
            r#"namespaces "kube-system" is forbidden: User "bob" cannot get resource "namespaces" in API group "" in the namespace "kube-system""#,
        ),
        ("/metrics", r#"forbidden: User "bob" cannot get path "/metrics""#),
        ("/nowhere", r#"forbidden: User "bob" cannot get path "/nowhere""#),
    ] {
        let reply = get(&server, &bob, path).await;
        assert_eq!(message(&reply), (403, want.to_owned()), "{path}");
        assert_eq!(reply.json()["reason"], "Forbidden");
    }
    assert_eq!(get(&server, &bob, "/api").await.status, 200, "discovery is for everybody who is known");
    let root = certificate("root", &["system:masters"]);
    for path in ["/api/v1/pods", "/metrics", "/api/v1/namespaces/kube-system"] {
        assert_eq!(get(&server, &root, path).await.status, 200, "{path}");
    }
    assert_eq!(
        get(&server, &certificate("", &["system:masters"]), "/api").await.status,
        401,
        "a group alone is nobody"
    );
}

/// Asks for a token as an administrator.
async fn issued(server: &Arc<ApiServer>, account: &str, spec: Value) -> Who {
    let request = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec});
    let path = format!("/api/v1/namespaces/default/serviceaccounts/{account}/token");
    let answer = make(server, &path, request).await;
    Token(answer["status"]["token"].as_str().unwrap().to_owned())
}

async fn account(server: &Arc<ApiServer>, name: &str) -> Value {
    let object = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}});
    make(server, "/api/v1/namespaces/default/serviceaccounts", object).await
}

#[tokio::test]
async fn a_token_is_its_account_until_the_account_is_gone() {
    let server = apiserver::testing::server().await;
    let uid = account(&server, "app").await["metadata"]["uid"].as_str().unwrap().to_owned();
    let token = issued(&server, "app", json!({"expirationSeconds": 600})).await;
    let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"});
    let me = post(&server, &token, "/apis/authentication.k8s.io/v1/selfsubjectreviews", &review).await.json();
    let info = &me["status"]["userInfo"];
    assert_eq!((&info["username"], &info["uid"]), (&json!("system:serviceaccount:default:app"), &json!(uid)));
    assert_eq!(
        info["groups"],
        json!(["system:serviceaccounts", "system:serviceaccounts:default", "system:authenticated"])
    );
    let refused = get(&server, &token, "/api/v1/namespaces/default/secrets").await;
    assert_eq!(
        message(&refused),
        (
            403,
            r#"secrets is forbidden: User "system:serviceaccount:default:app" cannot list resource "secrets" in API group "" in the namespace "default""#
                .to_owned()
        )
    );
    remove(&server, "/api/v1/namespaces/default/serviceaccounts/app").await;
    assert_eq!(get(&server, &token, "/api").await.status, 401, "the account is gone");
    account(&server, "app").await;
    assert_eq!(get(&server, &token, "/api").await.status, 401, "another account of that name");
}

#[tokio::test]
async fn a_token_is_refused_when_it_is_old_foreign_or_changed() {
    let server = apiserver::testing::server().await;
    account(&server, "app").await;
    let request = json!({"spec": {"expirationSeconds": 600}});
    let asked = Asked { namespace: "default", name: "app", request: &request };
    let issuer = server.issuer.as_ref().unwrap();
    let at = |seconds: i64| {
        let moment = jiff::Timestamp::now() + jiff::SignedDuration::from_secs(seconds);
        let answer = issuer.issue(asked, &*server, moment, "id").unwrap().answer;
        Token(answer["status"]["token"].as_str().unwrap().to_owned())
    };
    let fresh = at(0);
    assert_eq!(get(&server, &fresh, "/api").await.status, 200);
    let Token(text) = &fresh else { unreachable!() };
    let (signed, _) = text.rsplit_once('.').unwrap();
    for (who, why) in [
        (at(-3600), "expired"),
        (at(3600), "not yet valid"),
        (issued(&server, "app", json!({"audiences": ["vault"]})).await, "for somebody else"),
        (Token(format!("{signed}.AAAA")), "another signature"),
        (Token(format!("{signed}.")), "no signature"),
    ] {
        assert_eq!(get(&server, &who, "/api").await.status, 401, "{why}");
        assert_eq!(get(&server, &who, "/healthz").await.status, 401, "{why}: nor as nobody");
    }
}

#[tokio::test]
async fn a_bound_token_dies_with_its_object() {
    let server = apiserver::testing::server().await;
    account(&server, "app").await;
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}});
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}});
    for (kind, collection, object) in [
        ("Pod", "/api/v1/namespaces/default/pods", pod("s", "", "app", "s")),
        ("Secret", "/api/v1/namespaces/default/secrets", secret),
        ("Node", "/api/v1/nodes", node),
    ] {
        let made = make(&server, collection, object.clone()).await;
        let (name, uid) = (made["metadata"]["name"].clone(), made["metadata"]["uid"].clone());
        let reference = json!({"apiVersion": "v1", "kind": kind, "name": name, "uid": uid});
        let token = issued(&server, "app", json!({"boundObjectRef": reference})).await;
        assert_eq!(get(&server, &token, "/api").await.status, 200, "{kind}");
        let path = format!("{collection}/{}", name.as_str().unwrap());
        remove(&server, &path).await;
        assert_eq!(get(&server, &token, "/api").await.status, 401, "{kind} is gone");
        make(&server, collection, object).await;
        assert_eq!(get(&server, &token, "/api").await.status, 401, "{kind} is another one");
        remove(&server, &path).await;
        let request = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"boundObjectRef": reference}});
        let late = post(&server, &user_root(), "/api/v1/namespaces/default/serviceaccounts/app/token", &request).await;
        assert_eq!(late.status, 404, "{kind}: {}", late.json());
    }
}

fn user_root() -> Who {
    Known(User::new("root", ["system:masters", "system:authenticated"]))
}

#[tokio::test]
async fn a_token_review_tells_whose_token_it_is_and_for_whom() {
    let server = apiserver::testing::server().await;
    account(&server, "app").await;
    let Token(own) = issued(&server, "app", json!({})).await else { unreachable!() };
    let Token(vault) = issued(&server, "app", json!({"audiences": ["vault"]})).await else { unreachable!() };
    let review = async |token: &str, audiences: Value| {
        let spec = json!({"token": token, "audiences": audiences});
        let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": spec});
        let reply = post(&server, &user_root(), "/apis/authentication.k8s.io/v1/tokenreviews", &review).await;
        assert_eq!(reply.status, 201, "{}", reply.json());
        reply.json()["status"].clone()
    };
    let good = review(&own, json!([])).await;
    assert_eq!(good["authenticated"], true, "{good}");
    assert_eq!(good["user"]["username"], "system:serviceaccount:default:app");
    assert_eq!(good["audiences"], json!(["https://kubernetes.default.svc.cluster.local"]));
    let other = review(&vault, json!(["vault", "x"])).await;
    assert_eq!((&other["authenticated"], &other["audiences"]), (&json!(true), &json!(["vault"])));
    for (token, audiences) in [(vault.as_str(), json!([])), (own.as_str(), json!(["vault"])), ("hush", json!([]))] {
        let bad = review(token, audiences).await;
        assert!(bad["authenticated"].is_null() && bad["error"].is_string(), "{bad}");
    }
    let refused = post(&server, &user("bob"), "/apis/authentication.k8s.io/v1/tokenreviews", &json!({})).await;
    assert_eq!(refused.status, 403, "asking is a right of its own");
}

#[tokio::test]
async fn a_role_opens_what_it_names() {
    let server = apiserver::testing::server().await;
    for name in ["mine", "other"] {
        let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}});
        make(&server, "/api/v1/namespaces/default/configmaps", map).await;
    }
    let verbs = ["get", "list", "watch", "deletecollection"];
    let rule = json!({"verbs": verbs, "apiGroups": [""], "resources": ["configmaps"], "resourceNames": ["mine"]});
    grant(&server, "bob", json!([rule])).await;
    let (bob, base) = (user("bob"), "/api/v1/namespaces/default/configmaps");
    for (path, want) in [
        (format!("{base}/mine"), 200),
        (format!("{base}/other"), 403),
        (base.to_owned(), 403),
        (format!("{base}?fieldSelector=metadata.name%3Dmine"), 200),
        (format!("{base}?fieldSelector=metadata.name%3Dother"), 403),
        (format!("{base}?fieldSelector=metadata.name!%3Dmine"), 403),
        (format!("{base}?watch=1&timeoutSeconds=1&fieldSelector=metadata.name%3Dmine"), 200),
    ] {
        assert_eq!(get(&server, &bob, &path).await.status, want, "{path}");
    }
    let one = format!("{base}?fieldSelector=metadata.name%3Dmine");
    let listed = get(&server, &bob, &one).await.json();
    assert_eq!(listed["items"].as_array().map(Vec::len), Some(1), "{listed}");
    let refused = with_headers(&server, &bob, "DELETE", &one, &[], &Value::Null).await;
    assert_eq!(refused.status, 403, "a name never bounds who deletes collections, as upstream has it");
}

#[tokio::test]
async fn reviews_answer_what_requests_would_get() {
    let server = apiserver::testing::server().await;
    let rules = json!([{"verbs": ["get"], "apiGroups": ["apps"], "resources": ["deployments"]},
                       {"verbs": ["get"], "nonResourceURLs": ["/metrics"]}]);
    grant(&server, "bob", rules).await;
    let base = "/apis/authorization.k8s.io/v1";
    let asked = |verb: &str| json!({"verb": verb, "group": "apps", "resource": "deployments", "namespace": "default"});
    let ask = async |who: &Who, path: &str, kind: &str, spec: Value| {
        let review = json!({"apiVersion": "authorization.k8s.io/v1", "kind": kind, "spec": spec,
                            "metadata": {"namespace": if path.contains("namespaces/") { json!("default") } else { Value::Null }}});
        let reply = post(&server, who, &format!("{base}/{path}"), &review).await;
        assert_eq!(reply.status, 201, "{kind}: {}", reply.json());
        reply.json()["status"].clone()
    };
    for (verb, allowed) in [("get", true), ("delete", false)] {
        let own = json!({"resourceAttributes": asked(verb)});
        let of_bob = json!({"resourceAttributes": asked(verb), "user": "bob"});
        let local = "namespaces/default/localsubjectaccessreviews";
        for (who, path, kind, spec) in [
            (user("bob"), "selfsubjectaccessreviews", "SelfSubjectAccessReview", own),
            (user_root(), "subjectaccessreviews", "SubjectAccessReview", of_bob.clone()),
            (user_root(), local, "LocalSubjectAccessReview", of_bob),
        ] {
            let status = ask(&who, path, kind, spec).await;
            assert_eq!(status["allowed"], allowed, "{kind} {verb}: {status}");
        }
    }
    let path = json!({"nonResourceAttributes": {"verb": "get", "path": "/metrics"}});
    assert_eq!(ask(&user("bob"), "selfsubjectaccessreviews", "SelfSubjectAccessReview", path).await["allowed"], true);
    let namespace = json!({"namespace": "default"});
    let all = ask(&user("bob"), "selfsubjectrulesreviews", "SelfSubjectRulesReview", namespace).await;
    let has = |list: &str, rule: Value| all[list].as_array().unwrap().contains(&rule);
    assert!(
        has("resourceRules", json!({"verbs": ["get"], "apiGroups": ["apps"], "resources": ["deployments"]})),
        "{all}"
    );
    assert!(has("nonResourceRules", json!({"verbs": ["get"], "nonResourceURLs": ["/metrics"]})), "{all}");
    assert_eq!(all["incomplete"], false);
    let body =
        json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": {"user": "root"}});
    assert_eq!(post(&server, &user("bob"), &format!("{base}/subjectaccessreviews"), &body).await.status, 403);
    let both = post(&server, &user_root(), &format!("{base}/subjectaccessreviews"), &body).await;
    assert_eq!(both.status, 422, "{}", both.json());
}

#[tokio::test]
async fn nobody_grants_more_than_they_have() {
    let server = apiserver::testing::server().await;
    let group = "rbac.authorization.k8s.io";
    let own = json!({"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]});
    let resources = ["roles", "rolebindings", "clusterroles", "clusterrolebindings"];
    let writes = json!({"verbs": ["create", "update", "patch"], "apiGroups": [group], "resources": resources});
    grant(&server, "bob", json!([own, writes])).await;
    grant(
        &server,
        "eve",
        json!([writes, {"verbs": ["escalate"], "apiGroups": [group], "resources": ["roles"]},
        {"verbs": ["bind"], "apiGroups": [group], "resources": ["clusterroles"], "resourceNames": ["cluster-admin"]}]),
    )
    .await;
    let roles = format!("{RBAC}/namespaces/default/roles");
    let role = |name: &str, verbs: Value| {
        json!({"apiVersion": format!("{group}/v1"), "kind": "Role", "metadata": {"name": name},
               "rules": [{"verbs": verbs, "apiGroups": [""], "resources": ["pods"]}]})
    };
    assert_eq!(post(&server, &user("bob"), &roles, &role("same", json!(["get"]))).await.status, 201);
    let more = post(&server, &user("bob"), &roles, &role("more", json!(["get", "delete"]))).await;
    assert_eq!(
        message(&more),
        (
            403,
            "roles.rbac.authorization.k8s.io \"more\" is forbidden: user \"bob\" (groups=[\"system:authenticated\"]) is attempting to grant \
             RBAC permissions not currently held:\n{APIGroups:[\"\"], Resources:[\"pods\"], Verbs:[\"delete\"]}"
                .to_owned()
        )
    );
    let widen = json!({"rules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}]});
    let path = format!("{roles}/same");
    assert_eq!(with_headers(&server, &user("bob"), "PATCH", &path, &[], &widen).await.status, 403, "nor by a patch");
    assert_eq!(
        with_headers(&server, &user("eve"), "PATCH", &path, &[], &widen).await.status,
        200,
        "escalate is the right to"
    );
    let bind = |role: &str, name: &str| {
        json!({"apiVersion": format!("{group}/v1"), "kind": "ClusterRoleBinding", "metadata": {"name": name},
               "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": role},
               "subjects": [{"apiGroup": group, "kind": "User", "name": "bob"}]})
    };
    let bindings = format!("{RBAC}/clusterrolebindings");
    for (who, role, want) in [
        ("bob", "cluster-admin", 403),
        ("bob", "nowhere", 404),
        ("eve", "system:node", 403),
        ("eve", "cluster-admin", 201),
    ] {
        let reply = post(&server, &user(who), &bindings, &bind(role, &format!("{who}-{role}"))).await;
        assert_eq!(reply.status, want, "{who} {role}: {}", reply.json());
    }
}

#[tokio::test]
async fn aggregated_roles_are_filled_and_count_at_once() {
    let server = apiserver::testing::server().await;
    let rules_of = async |name: &str| {
        get(&server, &user_root(), &format!("{RBAC}/clusterroles/{name}")).await.json()["rules"].clone()
    };
    until("rules in admin, edit and view", || async {
        let filled = [rules_of("admin").await, rules_of("edit").await, rules_of("view").await];
        filled.iter().all(|rules| rules.as_array().is_some_and(|rules| !rules.is_empty()))
    })
    .await;
    let binding = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": {"name": "v"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "bob"}]});
    make(&server, &format!("{RBAC}/namespaces/default/rolebindings"), binding).await;
    let (pods, leases) = ("/api/v1/namespaces/default/pods", "/apis/coordination.k8s.io/v1/namespaces/default/leases");
    until("view for bob", || async { get(&server, &user("bob"), pods).await.status == 200 }).await;
    assert_eq!(get(&server, &user("bob"), "/api/v1/namespaces/kube-system/pods").await.status, 403);
    assert_eq!(get(&server, &user("bob"), "/api/v1/namespaces/default/secrets").await.status, 403);
    assert_eq!(get(&server, &user("bob"), leases).await.status, 403);
    let rule = json!({"verbs": ["list"], "apiGroups": ["coordination.k8s.io"], "resources": ["leases"]});
    let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "rules": [rule],
        "metadata": {"name": "more", "labels": {"rbac.authorization.k8s.io/aggregate-to-view": "true"}}});
    make(&server, &format!("{RBAC}/clusterroles"), role).await;
    until("leases for bob", || async { get(&server, &user("bob"), leases).await.status == 200 }).await;
    until("the rule in the object", || async {
        rules_of("view").await.as_array().is_some_and(|rules| rules.contains(&rule))
    })
    .await;
    let view = get(&server, &user_root(), &format!("{RBAC}/clusterroles/view")).await.json();
    let managers = view["metadata"]["managedFields"].as_array().unwrap();
    assert!(managers.iter().any(|entry| entry["manager"] == "clusterrole-aggregation-controller"), "{managers:?}");
    remove(&server, &format!("{RBAC}/clusterroles/more")).await;
    until("the end of it", || async { get(&server, &user("bob"), leases).await.status == 403 }).await;
}

#[tokio::test]
async fn acting_as_somebody_needs_the_right_for_every_part() {
    let server = apiserver::testing::server().await;
    let rule = |group: &str, resource: &str, names: &[&str]| json!({"verbs": ["impersonate"], "apiGroups": [group], "resources": [resource], "resourceNames": names});
    let rules = json!([
        rule("", "users", &["alice"]),
        rule("", "groups", &["dev"]),
        rule("authentication.k8s.io", "uids", &["7"]),
        rule("authentication.k8s.io", "userextras/acme.com/scope", &["view"]),
    ]);
    grant(&server, "bob", rules).await;
    let path = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
    let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"});
    let alice = ("impersonate-user", "alice");
    let whole =
        [alice, ("impersonate-group", "dev"), ("impersonate-uid", "7"), ("impersonate-extra-acme.com%2Fscope", "view")];
    let me = with_headers(&server, &user("bob"), "POST", path, &whole, &review).await;
    assert_eq!(
        me.json()["status"]["userInfo"],
        json!({"username": "alice", "uid": "7", "groups": ["dev", "system:authenticated"], "extra": {"acme.com/scope": ["view"]}})
    );
    for (headers, want) in [
        (&[("impersonate-user", "root")][..], 403),
        (&[alice, ("impersonate-group", "system:masters")], 403),
        (&[alice, ("impersonate-uid", "8")], 403),
        (&[alice, ("impersonate-extra-acme.com%2Fscope", "admin")], 403),
        (&[alice, ("impersonate-extra-other", "view")], 403),
        (&[("impersonate-group", "dev")], 400),
        (&[("impersonate-uid", "7")], 400),
    ] {
        let reply = with_headers(&server, &user("bob"), "POST", path, headers, &review).await;
        assert_eq!(reply.status, want, "{headers:?}: {}", reply.json());
    }
    let refused = with_headers(&server, &user("bob"), "GET", "/api/v1/pods", &[alice], &Value::Null).await;
    assert_eq!(
        message(&refused),
        (
            403,
            r#"pods is forbidden: User "alice" cannot list resource "pods" in API group "" at the cluster scope"#
                .to_owned()
        ),
        "what alice may not, bob as alice may not"
    );
    let stranger = with_headers(&server, &Nobody, "GET", "/version", &[alice], &Value::Null).await;
    assert_eq!(stranger.status, 403, "nobody may act as nobody else");
}

#[tokio::test]
async fn a_kubelet_reads_what_its_pods_need() {
    let server = apiserver::testing::server().await;
    account(&server, "app").await;
    for name in ["mine", "other"] {
        let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}});
        make(&server, "/api/v1/namespaces/default/secrets", secret).await;
    }
    for name in ["n1", "n2"] {
        make(&server, "/api/v1/nodes", json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}})).await;
    }
    let ours = make(&server, "/api/v1/namespaces/default/pods", pod("ours", "n1", "app", "mine")).await;
    let theirs = make(&server, "/api/v1/namespaces/default/pods", pod("theirs", "n2", "app", "other")).await;
    let (n1, base) = (kubelet("n1"), "/api/v1/namespaces/default");
    until("the pod in the graph", || async { get(&server, &n1, &format!("{base}/secrets/mine")).await.status == 200 })
        .await;
    for (path, want) in [
        (format!("{base}/secrets/other"), 403),
        (format!("{base}/secrets"), 403),
        (format!("{base}/secrets?fieldSelector=metadata.name%3Dmine"), 200),
        (format!("{base}/secrets?watch=1&timeoutSeconds=1&fieldSelector=metadata.name%3Dmine"), 200),
        (format!("{base}/secrets?fieldSelector=metadata.name%3Dother"), 403),
        (format!("{base}/pods/ours"), 200),
        (format!("{base}/pods/theirs"), 403),
        ("/api/v1/pods".to_owned(), 403),
        ("/api/v1/pods?fieldSelector=spec.nodeName%3Dn1".to_owned(), 200),
        ("/api/v1/pods?fieldSelector=spec.nodeName%3Dn2".to_owned(), 403),
        ("/api/v1/nodes/n1".to_owned(), 200),
        ("/api/v1/nodes/n2".to_owned(), 403),
        ("/api/v1/nodes".to_owned(), 403),
        ("/api/v1/nodes?fieldSelector=metadata.name%3Dn1".to_owned(), 200),
        ("/api/v1/nodes?watch=1&timeoutSeconds=1&fieldSelector=metadata.name%3Dn1".to_owned(), 200),
        ("/api/v1/services".to_owned(), 200),
        ("/apis/discovery.k8s.io/v1/endpointslices".to_owned(), 200),
        (format!("{base}/serviceaccounts"), 403),
    ] {
        assert_eq!(get(&server, &n1, &path).await.status, want, "{path}");
    }
    let refused = get(&server, &n1, &format!("{base}/secrets/other")).await;
    assert_eq!(
        message(&refused),
        (
            403,
            "secrets \"other\" is forbidden: User \"system:node:n1\" cannot get resource \"secrets\" in API group \"\" in the \
             namespace \"default\": no relationship found between node 'n1' and this object"
                .to_owned()
        )
    );
    let request = |pod: &Value| {
        let bound =
            json!({"apiVersion": "v1", "kind": "Pod", "name": pod["metadata"]["name"], "uid": pod["metadata"]["uid"]});
        json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"boundObjectRef": bound}})
    };
    let path = format!("{base}/serviceaccounts/app/token");
    let good = post(&server, &n1, &path, &request(&ours)).await;
    assert_eq!(good.status, 201, "{}", good.json());
    assert_eq!(post(&server, &n1, &path, &request(&theirs)).await.status, 403, "a pod of another node");
    let unbound = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}});
    assert_eq!(post(&server, &n1, &path, &unbound).await.status, 403, "bound to no pod");
    remove(&server, &format!("{base}/pods/ours")).await;
    until("the end of the pod", || async { get(&server, &n1, &format!("{base}/secrets/mine")).await.status == 403 })
        .await;
}

#[tokio::test]
async fn a_kubelet_writes_what_is_its_own() {
    let server = apiserver::testing::server().await;
    let n1 = kubelet("n1");
    let node = |name: &str, labels: Value| json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}});
    assert_eq!(
        post(&server, &n1, "/api/v1/nodes", &node("n1", json!({"kubernetes.io/hostname": "n1"}))).await.status,
        201
    );
    let other = post(&server, &n1, "/api/v1/nodes", &node("n2", json!({}))).await;
    assert_eq!(
        message(&other),
        (403, r#"nodes "n2" is forbidden: node "n1" is not allowed to modify node "n2""#.to_owned())
    );
    make(&server, "/api/v1/nodes", node("n2", json!({}))).await;
    account(&server, "default").await;
    make(&server, "/api/v1/namespaces/default/pods", pod("ours", "n1", "default", "s")).await;
    make(&server, "/api/v1/namespaces/default/pods", pod("theirs", "n2", "default", "s")).await;
    let ready = json!({"status": {"conditions": [{"type": "Ready", "status": "True"}]}});
    let running = json!({"status": {"phase": "Running"}});
    let drawing = json!({"metadata": {"labels": {"node-restriction.kubernetes.io/trusted": "yes"}}});
    let taint = json!({"spec": {"taints": [{"key": "a", "effect": "NoSchedule"}]}});
    let pods = "/api/v1/namespaces/default/pods";
    for (path, body, want) in [
        ("/api/v1/nodes/n1/status".to_owned(), &ready, 200),
        ("/api/v1/nodes/n2/status".to_owned(), &ready, 403),
        ("/api/v1/nodes/n1".to_owned(), &drawing, 403),
        ("/api/v1/nodes/n1".to_owned(), &taint, 403),
        (format!("{pods}/ours/status"), &running, 200),
        (format!("{pods}/theirs/status"), &running, 403),
        (format!("{pods}/ours"), &drawing, 403),
    ] {
        let reply = with_headers(&server, &n1, "PATCH", &path, &[], body).await;
        assert_eq!(reply.status, want, "{path} {body}: {}", reply.json());
    }
    let free = post(&server, &n1, pods, &pod("free", "n1", "default", "s")).await;
    assert_eq!(free.status, 403, "only mirror pods: {}", free.json());
    let leases = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases";
    let lease =
        |name: &str| json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": name}});
    assert_eq!(post(&server, &n1, leases, &lease("n1")).await.status, 201);
    assert_eq!(post(&server, &n1, leases, &lease("n2")).await.status, 403);
    assert_eq!(with_headers(&server, &n1, "DELETE", &format!("{pods}/theirs"), &[], &Value::Null).await.status, 403);
    assert_eq!(with_headers(&server, &n1, "DELETE", &format!("{pods}/ours"), &[], &Value::Null).await.status, 200);
}

#[tokio::test]
async fn a_kubelet_evicts_what_runs_on_its_node() {
    let server = apiserver::testing::server().await;
    let (n1, pods) = (kubelet("n1"), "/api/v1/namespaces/default/pods");
    account(&server, "default").await;
    let budget = json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "b"},
        "spec": {"maxUnavailable": 1, "selector": {"matchLabels": {}}},
    });
    let budgets = "/apis/policy/v1/namespaces/default/poddisruptionbudgets";
    make(&server, budgets, budget).await;
    let allowed = json!({"status": {"observedGeneration": 1, "disruptionsAllowed": 1, "currentHealthy": 2, "desiredHealthy": 1, "expectedPods": 2}});
    let merge = [("content-type", "application/merge-patch+json")];
    let status = ask(&server, "PATCH", &format!("{budgets}/b/status"), &merge, allowed.to_string()).await;
    assert_eq!(status.status, 200, "{}", status.json());
    for (name, node) in [("ours", "n1"), ("theirs", "n2")] {
        make(&server, pods, pod(name, node, "default", "s")).await;
        let ready = json!({"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}});
        assert_eq!(
            ask(&server, "PATCH", &format!("{pods}/{name}/status"), &merge, ready.to_string()).await.status,
            200
        );
    }
    let left = async || {
        get(&server, &user_root(), &format!("{budgets}/b")).await.json()["status"]["disruptionsAllowed"].clone()
    };
    let evict = async |name: &str| {
        let eviction = json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}});
        post(&server, &n1, &format!("{pods}/{name}/eviction"), &eviction).await
    };
    let theirs = evict("theirs").await;
    let why = r#"pods "theirs" is forbidden: node n1 can only evict pods with spec.nodeName set to itself"#;
    assert_eq!(message(&theirs), (403, why.to_owned()));
    assert_eq!(left().await, 1, "a refused eviction spends nothing");
    let ours = evict("ours").await;
    assert_eq!(ours.status, 201, "{}", ours.json());
    assert_eq!(left().await, 0);
    assert!(
        get(&server, &user_root(), &format!("{pods}/ours")).await.json()["metadata"]["deletionTimestamp"].is_string()
    );
}

#[tokio::test]
async fn without_fairness_a_flood_is_turned_away_and_the_cluster_stays_alive() {
    let mut lab = Lab::new();
    lab.server.access = Access::new(&[Mode::AlwaysAllow]);
    lab.server.fairness = None;
    lab.server.inflight = Inflight::new(2, 2);
    let server = lab.start().await;
    let n1 = kubelet("n1");
    let leases = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases";
    let lease = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "n1"}});
    assert_eq!(post(&server, &n1, leases, &lease).await.status, 201);
    let (eve, manager) =
        (User::new("eve", ["dev"]), User::new("system:kube-controller-manager", ["system:authenticated"]));
    let floods = |user| Attributes::resource(user, "list", "", "configmaps");
    let mut places = Vec::new();
    for (user, mutating, count) in [(&eve, false, 2), (&eve, true, 2), (&manager, false, 1)] {
        for _ in 0..count {
            let mut entered = server.inflight.take(Weight::of(&floods(user)), mutating);
            // The server's own chores may be in one for a moment.
            while entered.is_err() {
                tokio::time::sleep(Duration::from_millis(10)).await;
                entered = server.inflight.take(Weight::of(&floods(user)), mutating);
            }
            places.push(entered.unwrap());
        }
    }
    let refused = get(&server, &Known(eve.clone()), "/api/v1/configmaps").await;
    assert_eq!(refused.headers["retry-after"], "1");
    assert_eq!(message(&refused), (429, "Too many requests, please try again later.".to_owned()));
    assert_eq!(
        get(&server, &Known(manager.clone()), "/api/v1/pods").await.status,
        429,
        "a component's share has an end"
    );
    let renewed = json!({"spec": {"holderIdentity": "n1"}});
    let renewal = with_headers(&server, &n1, "PATCH", &format!("{leases}/n1"), &[], &renewed).await;
    assert_eq!(renewal.status, 200, "{}", renewal.json());
    assert_eq!(get(&server, &user_root(), "/api/v1/configmaps").await.status, 200, "administrators");
    assert_eq!(get(&server, &Nobody, "/readyz").await.status, 200, "probes");
    assert_eq!(get(&server, &Nobody, "/version").await.status, 429, "strangers wait like everybody");
    drop(places);
    until("an end of the flood", || async { get(&server, &Nobody, "/version").await.status == 200 }).await;
}
