//! What cannot be understood or must not be: the status and reason that Kubernetes gives, a message that names the place, and
//! nothing stored.

mod support;

use apiserver::ApiServer;
use serde_json::{Value, json};
use std::sync::Arc;
use support::{Reply, ask};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const JSON: &str = "application/json";

async fn send(server: &Arc<ApiServer>, method: &str, path: &str, kind: &str, body: impl Into<bytes::Bytes>) -> Reply {
    ask(server, method, path, &[("content-type", kind)], body).await
}

fn status_of(reply: &Reply) -> (u16, String, String) {
    let status = reply.json();
    let text = |field: &str| status[field].as_str().unwrap_or_default().to_owned();
    (reply.status, text("reason"), text("message"))
}

#[tokio::test]
async fn bodies_that_are_no_objects() {
    let server = apiserver::testing::server().await;
    let mut wrong = Vec::new();
    let deep = "[".repeat(100_000);
    let nested = format!("{{\"metadata\":{}1{}}}", "{\"a\":".repeat(20_000), "}".repeat(20_000));
    let bomb = (0..30).fold("a0: &a0 [x, x]\n".to_owned(), |text, level| {
        format!("{text}a{}: &a{} [*a{level}, *a{level}, *a{level}]\n", level + 1, level + 1)
    });
    for (kind, body, status, reason, word) in [
        (JSON, "{", 400, "BadRequest", ""),
        (JSON, "", 400, "BadRequest", ""),
        (JSON, "null", 422, "Invalid", "metadata.name"),
        (JSON, "[]", 400, "BadRequest", ""),
        (JSON, "\u{0}\u{1}", 400, "BadRequest", ""),
        (JSON, deep.as_str(), 400, "BadRequest", ""),
        (JSON, nested.as_str(), 400, "BadRequest", ""),
        (JSON, r#"{"metadata":{"name":7}}"#, 400, "BadRequest", "metadata.name"),
        (JSON, r#"{"metadata":{"name":"a"},"data":{"k":1}}"#, 400, "BadRequest", "data.k"),
        (JSON, r#"{"kind":"Pod","apiVersion":"v1","metadata":{"name":"a"}}"#, 400, "BadRequest", "Pod"),
        (JSON, r#"{"kind":"ConfigMap","apiVersion":"v9","metadata":{"name":"a"}}"#, 400, "BadRequest", "v9"),
        ("application/yaml", "a: [", 400, "BadRequest", ""),
        ("application/yaml", "a: &x [*x]", 400, "BadRequest", ""),
        ("application/yaml", bomb.as_str(), 400, "BadRequest", ""),
        ("application/vnd.kubernetes.protobuf", "k8s\u{0}\u{f}\u{7f}\u{7f}\u{7f}", 400, "BadRequest", ""),
        ("application/vnd.kubernetes.protobuf", "nothing of the sort", 400, "BadRequest", ""),
        ("text/plain", "{}", 415, "UnsupportedMediaType", "application/json"),
        (JSON, r#"{"metadata":{"name":"Not A Name"}}"#, 422, "Invalid", "metadata.name"),
        (JSON, r#"{"metadata":{"name":"../x"}}"#, 422, "Invalid", "metadata.name"),
        (JSON, r#"{"metadata":{}}"#, 422, "Invalid", "metadata.name"),
        (JSON, r#"{"metadata":{"name":"a","labels":{"a b":"c"}}}"#, 422, "Invalid", "metadata.labels"),
        (JSON, r#"{"metadata":{"name":"a","namespace":"other"}}"#, 400, "BadRequest", "namespace"),
        (JSON, r#"{"metadata":{"name":"a","resourceVersion":"5"}}"#, 400, "BadRequest", "resourceVersion"),
    ] {
        let (code, why, message) = status_of(&send(&server, "POST", MAPS, kind, body.to_owned()).await);
        let shown: String = body.chars().take(60).collect();
        if (code, why.as_str()) != (status, reason) || !message.contains(word) {
            wrong.push(format!("{kind} {shown}: {code} {why} {message}, not {status} {reason} {word}"));
        }
        assert!(message.len() < 4096, "the message of {shown} is {} bytes long", message.len());
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let stored = ask(&server, "GET", MAPS, &[], "").await.json();
    assert_eq!(stored["items"], json!([]), "nothing was stored");
}

#[tokio::test]
async fn bodies_that_are_too_large_are_not_read_to_the_end() {
    let server = apiserver::testing::server().await;
    let large = format!(r#"{{"metadata":{{"name":"a"}},"data":{{"k":"{}"}}}}"#, "x".repeat(4 << 20));
    assert_eq!(status_of(&send(&server, "POST", MAPS, JSON, large).await).0, 413);
    let fat = format!(r#"{{"metadata":{{"name":"a"}},"data":{{"k":"{}"}}}}"#, "x".repeat((1 << 20) + 1));
    let (code, reason, message) = status_of(&send(&server, "POST", MAPS, JSON, fat).await);
    assert_eq!((code, reason.as_str()), (422, "Invalid"), "a ConfigMap has a limit of its own: {message}");
}

#[tokio::test]
async fn questions_that_make_no_sense() {
    let server = apiserver::testing::server().await;
    let mut wrong = Vec::new();
    for (path, status, reason, word) in [
        ("?timeout=soon", 400, "BadRequest", "invalid timeout specified in the request URL"),
        ("?labelSelector=a%20in", 400, "BadRequest", "a in"),
        ("?labelSelector=%3D%3D", 400, "BadRequest", ""),
        ("?labelSelector=a%20in%20(b", 400, "BadRequest", ""),
        ("?fieldSelector=metadata.name", 400, "BadRequest", "metadata.name"),
        ("?fieldSelector=data.k%3Dv", 400, "BadRequest", "data.k"),
        ("?limit=1.5", 400, "BadRequest", "limit"),
        ("?limit=many", 400, "BadRequest", "many"),
        ("?continue=abc", 400, "BadRequest", "continue"),
        ("?continue=eyJ2IjoibWV0YSIsInJ2Ijo5OTk5OTk5OTksInN0YXJ0IjoiLi4vLi4ifQ", 400, "BadRequest", "continue"),
        ("?resourceVersion=new", 400, "BadRequest", "resourceVersion"),
        ("?resourceVersionMatch=Exact", 422, "Invalid", "resourceVersionMatch"),
        ("?resourceVersion=1&resourceVersionMatch=Sometimes", 422, "Invalid", "resourceVersionMatch"),
        ("?resourceVersion=999999&watch=true&timeoutSeconds=1", 504, "Timeout", "Too large resource version"),
        ("?sendInitialEvents=true&watch=true", 422, "Invalid", "sendInitialEvents"),
        ("?watch=true&resourceVersion=x", 400, "BadRequest", "resourceVersion"),
        ("/none", 404, "NotFound", "configmaps \"none\" not found"),
    ] {
        let (code, why, message) = status_of(&ask(&server, "GET", &format!("{MAPS}{path}"), &[], "").await);
        if (code, why.as_str()) != (status, reason) || !message.contains(word) {
            wrong.push(format!("{path}: {code} {why} {message}, not {status} {reason} {word}"));
        }
    }
    for (method, path, status) in [
        ("GET", "/api/v1/namespaces/default/none", 404),
        ("GET", "/api/v2/namespaces", 404),
        ("GET", "/apis/none.io/v1/x", 404),
        ("POST", "/api/v1/namespaces/default/configmaps/a", 405),
        ("PUT", MAPS, 405),
        ("PATCH", MAPS, 405),
        ("DELETE", "/api/v1/namespaces", 405),
        ("GET", "/api/v1/namespaces/default/pods/a/none", 404),
        ("TRACE", MAPS, 405),
    ] {
        let reply = ask(&server, method, path, &[], "").await;
        if reply.status != status {
            wrong.push(format!("{method} {path}: {} {}", reply.status, String::from_utf8_lossy(&reply.bytes)));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[tokio::test]
async fn writes_that_come_too_late_or_mean_another_object() {
    let server = apiserver::testing::server().await;
    let map = |more: Value| {
        let mut object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}});
        for (key, value) in more.as_object().into_iter().flatten() {
            object["metadata"][key] = value.clone();
        }
        object.to_string()
    };
    let one = format!("{MAPS}/a");
    assert_eq!(send(&server, "PUT", &one, JSON, map(json!({}))).await.status, 404);
    let made = send(&server, "POST", MAPS, JSON, map(json!({}))).await.json();
    for (more, status, reason) in [
        (json!({"resourceVersion": "1"}), 409, "Conflict"),
        (json!({"resourceVersion": "x"}), 400, "BadRequest"),
        (json!({"uid": "00000000-0000-0000-0000-000000000000"}), 409, "Conflict"),
        (json!({"name": "b"}), 400, "BadRequest"),
        (json!({"namespace": "b"}), 400, "BadRequest"),
    ] {
        let (code, why, message) = status_of(&send(&server, "PUT", &one, JSON, map(more.clone())).await);
        assert_eq!((code, why.as_str()), (status, reason), "{more}: {message}");
    }
    let options = json!({"preconditions": {"uid": "00000000-0000-0000-0000-000000000000"}}).to_string();
    assert_eq!(send(&server, "DELETE", &one, JSON, options).await.status, 409);
    for (kind, patch, status) in [
        ("application/json-patch+json", "{}", 400),
        ("application/json-patch+json", r#"[{"op":"fly"}]"#, 422),
        ("application/json-patch+json", r#"[{"op":"test","path":"/metadata/name","value":"b"}]"#, 422),
        ("application/merge-patch+json", "[", 400),
        ("application/strategic-merge-patch+json", r#"{"$patch":"fly"}"#, 400),
        ("application/apply-patch+yaml", "{}", 400),
        ("application/json", "{}", 415),
    ] {
        let (code, why, message) =
            status_of(&send(&server, "PATCH", &format!("{one}?fieldManager=m"), kind, patch).await);
        assert_eq!(code, status, "{kind} {patch}: {why} {message}");
    }
    let still = ask(&server, "GET", &one, &[], "").await.json();
    assert_eq!(still["metadata"]["resourceVersion"], made["metadata"]["resourceVersion"], "nothing was stored");
}

#[tokio::test]
async fn a_resource_version_of_zero_is_none() {
    let server = apiserver::testing::server().await;
    let leases = "/apis/coordination.k8s.io/v1/namespaces/default/leases";
    for (plural, status) in [(MAPS, 200), (leases, 422)] {
        let object = |version: Option<&str>| json!({"metadata": {"name": "a", "resourceVersion": version}}).to_string();
        assert_eq!(send(&server, "POST", plural, JSON, object(None)).await.status, 201);
        for version in [None, Some("0")] {
            let (code, _, message) =
                status_of(&send(&server, "PUT", &format!("{plural}/a"), JSON, object(version)).await);
            assert_eq!(code, status, "{plural} {version:?}: {message}");
        }
    }
}
