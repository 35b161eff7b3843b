//! A server in memory and a way to ask it things, for the tests in this folder.

#![allow(dead_code, unreachable_pub, clippy::unwrap_used, reason = "each test uses a part of it")]

pub mod secure;

use access::authn::User;
use apiserver::{ApiServer, handle::Insider};
use bytes::Bytes;
use flate2::read::GzDecoder;
use http::{HeaderMap, Request};
use http_body_util::{BodyExt, Full};
use serde_json::{Value, json};
use std::{fs::File, io::Read, path::PathBuf, sync::Arc, time::Duration};

/// How long a test waits for what must happen; nothing is measured by it.
pub const PATIENCE: Duration = Duration::from_secs(60);

pub fn testdata(name: &str) -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata")).join(name)
}

/// The lines of a gzip file as JSON.
pub fn lines(name: &str) -> Vec<Value> {
    let mut text = String::new();
    GzDecoder::new(File::open(testdata(name)).unwrap()).read_to_string(&mut text).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

pub struct Reply {
    pub status: u16,
    pub headers: HeaderMap,
    pub bytes: Bytes,
}

impl Reply {
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.bytes).unwrap_or(Value::Null)
    }
}

/// Asks as an administrator.
pub async fn ask(
    server: &Arc<ApiServer>,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: impl Into<Bytes>,
) -> Reply {
    let mut request = Request::builder().method(method).uri(path);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let admin = User::new("admin", ["system:masters", "system:authenticated"]);
    send(server, request.extension(Insider(admin)).body(Full::new(body.into())).unwrap()).await
}

/// Makes an object, as soon as it can be made: a definition is served a moment after it was made.
pub async fn make(server: &Arc<ApiServer>, path: &str, object: Value) -> Value {
    let mut last = Value::Null;
    for _ in 0..500 {
        let reply = ask(server, "POST", path, &[("content-type", "application/json")], object.to_string()).await;
        last = reply.json();
        if reply.status == 201 {
            return last;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("{path}: {last}");
}

pub const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";

/// A definition in `example.com` whose objects may hold anything, and a number of replicas.
pub fn definition(kind: &str, plural: &str, scope: &str, subresources: &Value) -> Value {
    let schema = json!({
        "type": "object", "x-kubernetes-preserve-unknown-fields": true,
        "properties": {"spec": {"type": "object", "x-kubernetes-preserve-unknown-fields": true,
            "properties": {"replicas": {"type": "integer"}}}},
    });
    let version = json!({
        "name": "v1", "served": true, "storage": true, "subresources": subresources,
        "schema": {"openAPIV3Schema": schema},
    });
    let names =
        json!({"plural": plural, "singular": kind.to_lowercase(), "kind": kind, "listKind": format!("{kind}List")});
    json!({
        "metadata": {"name": format!("{plural}.example.com")},
        "spec": {"group": "example.com", "scope": scope, "names": names, "versions": [version]},
    })
}

/// Subresources of such a definition.
pub fn status_and_scale() -> Value {
    json!({"status": {}, "scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}})
}

/// Gives a user a role, by a binding at this path.
pub async fn bind(server: &Arc<ApiServer>, path: &str, user: &str, kind: &str, role: &str) {
    let group = "rbac.authorization.k8s.io";
    let subject = json!({"kind": "User", "apiGroup": group, "name": user});
    let role = json!({"apiGroup": group, "kind": kind, "name": role});
    make(server, path, json!({"metadata": {"name": format!("b-{user}")}, "roleRef": role, "subjects": [subject]}))
        .await;
}

/// The events of a watch.
pub struct Events {
    body: apiserver::Body,
    rest: Vec<u8>,
}

impl Events {
    pub async fn open(server: &Arc<ApiServer>, path: &str) -> Self {
        let admin = User::new("admin", ["system:masters", "system:authenticated"]);
        let request = Request::get(path).extension(Insider(admin)).body(Full::new(Bytes::new())).unwrap();
        let response = apiserver::handle::handle(Arc::clone(server), request).await.unwrap();
        assert_eq!(response.status(), 200);
        Self { body: response.into_body(), rest: Vec::new() }
    }

    /// The next event; none when the server has ended the watch.
    pub async fn next(&mut self) -> Option<Value> {
        loop {
            if let Some(end) = self.rest.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.rest.drain(..=end).collect();
                return Some(serde_json::from_slice(&line).unwrap());
            }
            let frame = tokio::time::timeout(PATIENCE, self.body.frame()).await.expect("the watch goes on or ends")?;
            self.rest.extend_from_slice(&frame.unwrap().into_data().unwrap());
        }
    }
}

pub async fn send(server: &Arc<ApiServer>, request: Request<Full<Bytes>>) -> Reply {
    let response = apiserver::handle::handle(Arc::clone(server), request).await.unwrap();
    let (parts, body) = response.into_parts();
    Reply { status: parts.status.as_u16(), headers: parts.headers, bytes: body.collect().await.unwrap().to_bytes() }
}
