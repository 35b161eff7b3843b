//! What a real kube-apiserver answered to restricted users, request by request, against what this one answers.
//!
//! `testdata/authz/rows.jsonl.gz` has user, method, path, body and headers, and in `got` the status code and, for writes, the
//! labels and images that the write would have left. All are reads or dry runs, so the order does not matter.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use access::authn::User;
use apiserver::{ApiServer, handle::Insider, testing};
use bytes::Bytes;
use futures::{StreamExt, stream};
use http::Request;
use http_body_util::{BodyExt, Full};
use serde_json::{Value, json};
use std::{sync::Arc, time::Duration};
use support::{RBAC, bind, definition, lines, make, status_and_scale};

const RBAC_GROUP: &str = "rbac.authorization.k8s.io";
/// Requests at a time: watches wait a second each.
const AT_A_TIME: usize = 64;

fn rule(verbs: &str, resources: &str, groups: &[&str]) -> Value {
    let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    json!({"verbs": words(verbs), "resources": words(resources), "apiGroups": groups})
}

/// Who may do what in namespace `a`; `reader` and `imper` may do something everywhere.
fn roles() -> Vec<(&'static str, Value)> {
    let all = ["", "apps", "coordination.k8s.io", "example.com", RBAC_GROUP, "discovery.k8s.io", "networking.k8s.io"];
    let mut named = rule("get list watch update patch delete", "configmaps secrets pods", &[""]);
    named["resourceNames"] = json!(["one"]);
    vec![
        ("nsview", rule("get list watch", "configmaps pods services deployments leases widgets pods/log", &all)),
        (
            "nsedit",
            rule(
                "get list watch create update patch delete deletecollection",
                "configmaps secrets pods services deployments deployments/scale leases widgets",
                &all,
            ),
        ),
        ("patcher", rule("get patch", "configmaps pods services deployments widgets secrets", &all)),
        ("updater", rule("get update", "configmaps pods services deployments widgets leases secrets", &all)),
        ("statuser", rule("get update patch", "pods/status services/status deployments/status widgets/status", &all)),
        ("scaler", rule("get update patch", "deployments/scale widgets/scale", &all)),
        ("resizer", rule("get update patch", "pods/resize", &[""])),
        ("debugger", rule("get update patch", "pods/ephemeralcontainers", &[""])),
        ("named", named),
        ("binder", rule("create update patch get", "roles rolebindings", &all)),
        ("deleter", rule("delete deletecollection", "configmaps pods services", &all)),
        ("creator", rule("create", "configmaps pods services widgets leases deployments", &all)),
        ("wild", rule("*", "*", &["*"])),
    ]
}

async fn furnish(server: &Arc<ApiServer>) {
    let widgets = definition("Widget", "widgets", "Namespaced", &status_and_scale());
    make(server, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", widgets).await;
    let containers = json!([{"name": "c", "image": "i"}]);
    let template = json!({"metadata": {"labels": {"a": "b"}}, "spec": {"containers": containers}});
    let deployment = json!({"selector": {"matchLabels": {"a": "b"}}, "template": template});
    for namespace in ["a", "b"] {
        make(server, "/api/v1/namespaces", json!({"metadata": {"name": namespace}})).await;
        for (prefix, plural, field, value) in [
            ("/api/v1", "configmaps", "data", json!({"k": "v"})),
            ("/api/v1", "secrets", "stringData", json!({"k": "v"})),
            ("/api/v1", "pods", "spec", json!({"containers": containers})),
            ("/api/v1", "services", "spec", json!({"ports": [{"port": 80}]})),
            ("/apis/apps/v1", "deployments", "spec", deployment.clone()),
            ("/apis/coordination.k8s.io/v1", "leases", "spec", json!({"holderIdentity": "x"})),
            ("/apis/example.com/v1", "widgets", "spec", json!({"replicas": 1})),
        ] {
            for name in ["one", "two"] {
                let mut object = json!({"metadata": {"name": name}});
                object[field] = value.clone();
                if plural == "widgets" {
                    object["apiVersion"] = json!("example.com/v1");
                    object["kind"] = json!("Widget");
                }
                make(server, &format!("{prefix}/namespaces/{namespace}/{plural}"), object).await;
            }
        }
    }
    make(server, "/api/v1/nodes", json!({"metadata": {"name": "one"}})).await;
    let bindings = format!("{RBAC}/namespaces/a/rolebindings");
    bind(server, &bindings, "nsadmin", "ClusterRole", "cluster-admin").await;
    for (user, rule) in roles() {
        make(server, &format!("{RBAC}/namespaces/a/roles"), json!({"metadata": {"name": user}, "rules": [rule]})).await;
        bind(server, &bindings, user, "Role", user).await;
    }
    let mut impersonate = rule("impersonate", "users", &[""]);
    impersonate["resourceNames"] = json!(["nsview"]);
    for (user, role, rule) in
        [("reader", "cl-reader", rule("get list watch", "*", &["*"])), ("imper", "cl-imper", impersonate)]
    {
        make(server, &format!("{RBAC}/clusterroles"), json!({"metadata": {"name": role}, "rules": [rule]})).await;
        bind(server, &format!("{RBAC}/clusterrolebindings"), user, "ClusterRole", role).await;
    }
    // Indexes follow the store a moment later; those who were granted something last are known when all are.
    for (user, path) in [("wild", "/api/v1/namespaces/a/secrets"), ("reader", "/api/v1/nodes")] {
        let row = json!({"user": user, "verb": "LIST", "method": "GET", "path": path, "body": null, "headers": {}});
        let mut patience = 500;
        while answer(server, &row).await["code"] != 200 {
            patience -= 1;
            assert!(patience > 0, "{user} never got its role");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

/// The answer in the form of the recording.
async fn answer(server: &Arc<ApiServer>, row: &Value) -> Value {
    let text = |field: &str| row[field].as_str().unwrap();
    let user = User::new(text("user"), ["system:authenticated"]);
    let mut request = Request::builder().method(text("method")).uri(text("path")).extension(Insider(user));
    let body = if row["body"].is_null() { Bytes::new() } else { row["body"].to_string().into() };
    if !row["body"].is_null() {
        request = request.header("content-type", text("ctype"));
    }
    for (name, value) in row["headers"].as_object().unwrap() {
        request = request.header(name, value.as_str().unwrap());
    }
    let response = apiserver::handle::handle(Arc::clone(server), request.body(Full::new(body)).unwrap()).await.unwrap();
    let code = response.status().as_u16();
    let changes = ["PUT", "JSON", "MERGE", "STRATEGIC", "APPLY"].contains(&text("verb"));
    if code >= 300 || !changes {
        return json!({"code": code, "changed": null});
    }
    if text("path").contains("watch") {
        return json!({"code": code, "changed": "no object"});
    }
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    let object: Value = serde_json::from_slice(&bytes).unwrap();
    let images = object["spec"]["containers"].as_array();
    let images = images.map(|all| all.iter().map(|one| one["image"].clone()).collect::<Vec<_>>()).unwrap_or_default();
    let image = if object["kind"] == "Pod" { json!(images) } else { Value::Null };
    json!({"code": code, "changed": {"labels": object["metadata"]["labels"], "image": image}})
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn restricted_users_get_what_upstream_gives_them() {
    let server = testing::server().await;
    furnish(&server).await;
    let rows = lines("authz/rows.jsonl.gz");
    let answers = stream::iter(&rows).map(|row| answer(&server, row)).buffered(AT_A_TIME).collect::<Vec<_>>().await;
    let other: Vec<String> = rows
        .iter()
        .zip(&answers)
        .filter(|(row, answer)| row["got"] != **answer)
        .map(|(row, answer)| {
            let text = |field: &str| row[field].as_str().unwrap();
            format!(
                "{} {} {} {}: {} here {answer}",
                text("user"),
                text("verb"),
                text("path"),
                row["headers"],
                row["got"]
            )
        })
        .collect();
    assert!(other.is_empty(), "{} of {} differ:\n{}", other.len(), rows.len(), other.join("\n"));
}
