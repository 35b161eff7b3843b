//! Rights in one place never reach another: the ways that once led out of a namespace, or from `patch` to `create`.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use access::authn::User;
use apiserver::{ApiServer, handle::Insider, testing};
use bytes::Bytes;
use http::Request;
use http_body_util::Full;
use serde_json::{Value, json};
use std::{sync::Arc, time::Duration};
use support::{Reply, ask, send};

const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";
const JSON: &str = "application/json";
const APPLY: &str = "application/apply-patch+yaml";

async fn make(server: &Arc<ApiServer>, path: &str, object: Value) {
    let reply = ask(server, "POST", path, &[("content-type", JSON)], object.to_string()).await;
    assert_eq!(reply.status, 201, "{path}: {}", reply.json());
}

/// Asks as somebody of this name.
async fn as_user(server: &Arc<ApiServer>, user: &str, method: &str, path: &str, media: &str, body: &Value) -> Reply {
    let bytes = if body.is_null() { Bytes::new() } else { body.to_string().into() };
    let insider = Insider(User::new(user, ["system:authenticated"]));
    let request = Request::builder().method(method).uri(path).header("content-type", media).extension(insider);
    send(server, request.body(Full::new(bytes)).unwrap()).await
}

/// A Role of these rules in a namespace for the user of the same name, waited for.
async fn grant(server: &Arc<ApiServer>, namespace: &str, user: &str, rules: Value, known: &str) {
    let role = json!({"metadata": {"name": user}, "rules": rules});
    make(server, &format!("{RBAC}/namespaces/{namespace}/roles"), role).await;
    let binding = json!({
        "metadata": {"name": user}, "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": user},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}],
    });
    make(server, &format!("{RBAC}/namespaces/{namespace}/rolebindings"), binding).await;
    for _ in 0..1000 {
        if as_user(server, user, "GET", known, JSON, &Value::Null).await.status == 200 {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("{user} never got its role");
}

async fn two_namespaces() -> Arc<ApiServer> {
    let server = testing::server().await;
    for name in ["a", "b"] {
        make(&server, "/api/v1/namespaces", json!({"metadata": {"name": name}})).await;
        make(&server, &format!("/api/v1/namespaces/{name}/configmaps"), json!({"metadata": {"name": "one"}})).await;
    }
    server
}

#[tokio::test]
async fn who_owns_one_namespace_reaches_no_other() {
    let server = two_namespaces().await;
    let all = json!([{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}]);
    grant(&server, "a", "owner", all, "/api/v1/namespaces/a/configmaps/one").await;
    let config = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "one", "namespace": "b"}});
    let before = server.store.known_revision();
    for (method, path) in [
        ("DELETE", "/api/v1/namespaces/a/namespaces/b"),
        ("DELETE", "/api/v1/namespaces/a/namespaces/a"),
        ("PUT", "/api/v1/namespaces/a/namespaces/b/finalize"),
        ("GET", "/api/v1/namespaces/a/namespaces/b"),
        ("GET", "/api/v1/namespaces/a/namespaces"),
        ("DELETE", "/api/v1/namespaces/a/nodes/n"),
        ("GET", "/api/v1/watch/namespaces/a/nodes"),
        ("DELETE", "/api/v1/namespaces/a/namespaces/b/configmaps/one"),
        ("DELETE", "/api/v1/namespaces/a/namespaces/b/configmaps"),
        ("DELETE", "/api/v1/namespaces/a//configmaps/one"),
        ("GET", "/api/v1/namespaces/a/configmaps/one/status"),
        ("GET", "/api/v1/namespaces/a/configmaps/one/x/y"),
        ("DELETE", "/api/v1/namespaces/a%2f..%2fb/configmaps/one"),
        ("DELETE", "/api/v1/namespaces/a/..%2fb/configmaps/one"),
        ("DELETE", "/api/v1/namespaces/a/../b/configmaps/one"),
        ("DELETE", "/api/v1//namespaces/b/configmaps/one"),
        ("DELETE", "//api/v1/namespaces/b/configmaps/one"),
        ("PUT", "/api/v1/namespaces/b/configmaps/one"),
    ] {
        let reply = as_user(&server, "owner", method, path, JSON, &config).await;
        assert!([403, 404].contains(&reply.status), "{method} {path}: {} {}", reply.status, reply.json());
    }
    for (method, path, want) in [
        ("POST", "/api/v1/namespaces/a/configmaps", 400),
        ("PUT", "/api/v1/namespaces/a/configmaps/one", 400),
        ("DELETE", "/api/v1/namespaces/a/configmaps/..", 400),
        ("DELETE", "/api/v1/namespaces/a/configmaps/%252e", 400),
        ("POST", "/api/v1/watch/namespaces/a/configmaps", 405),
        ("DELETE", "/api/v1/watch/namespaces/a/configmaps", 405),
        ("POST", "/api/v1/namespaces/a/configmaps/one", 405),
        ("HEAD", "/api/v1/namespaces/a/configmaps/one", 405),
        ("OPTIONS", "/api/v1/namespaces/a/configmaps/one", 405),
        ("BREW", "/api/v1/namespaces/a/configmaps/one", 405),
    ] {
        let reply = as_user(&server, "owner", method, path, JSON, &config).await;
        assert_eq!(reply.status, want, "{method} {path}: {}", reply.json());
    }
    assert_eq!(server.store.known_revision(), before, "something was written");
}

#[tokio::test]
async fn only_who_may_create_creates_whatever_the_method() {
    let server = two_namespaces().await;
    let kinds = [
        ("configmaps", "/api/v1", "v1", "ConfigMap", json!({})),
        ("services", "/api/v1", "v1", "Service", json!({"ports": [{"port": 80}]})),
        ("endpoints", "/api/v1", "v1", "Endpoints", json!({})),
        ("leases", "/apis/coordination.k8s.io/v1", "coordination.k8s.io/v1", "Lease", json!({})),
    ];
    let rule = |verbs: &[&str]| json!([{"verbs": verbs, "apiGroups": ["*"], "resources": kinds.each_ref().map(|kind| kind.0)}]);
    let known = "/api/v1/namespaces/a/configmaps/one";
    grant(&server, "a", "changer", rule(&["get", "patch", "update"]), known).await;
    grant(&server, "a", "maker", rule(&["get", "patch", "update", "create"]), known).await;
    let before = server.store.known_revision();
    for who in ["changer", "maker"] {
        for (plural, prefix, version, kind, spec) in &kinds {
            let mut object = json!({"apiVersion": version, "kind": kind, "metadata": {"name": "new"}});
            if !spec.as_object().unwrap().is_empty() {
                object["spec"] = spec.clone();
            }
            let path = format!("{prefix}/namespaces/a/{plural}/new");
            for (method, media) in [("PATCH", APPLY), ("PUT", JSON)] {
                let path = format!("{path}?fieldManager=m{}", if who == "maker" { "&dryRun=All" } else { "" });
                let reply = as_user(&server, who, method, &path, media, &object).await;
                let want = match (who, method, *plural) {
                    (_, "PUT", "configmaps") => 404,
                    ("changer", ..) => 403,
                    _ => 201,
                };
                assert_eq!(reply.status, want, "{who} {method} {path}: {}", reply.json());
                if want == 403 {
                    let message = reply.json()["message"].as_str().unwrap().to_owned();
                    assert!(message.contains("cannot create resource"), "{message}");
                }
            }
        }
    }
    assert_eq!(server.store.known_revision(), before, "something was written");
}
