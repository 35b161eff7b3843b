//! Who is let in and what they may do, asked through the same door as every client: credentials in, status and message out.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod kubelets;
mod roles;
#[path = "../support/mod.rs"]
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
