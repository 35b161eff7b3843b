//! What the audit log and the program's own log say of requests: who did what at every stage, and never a secret.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use access::authn::{TokenFile, User};
use apiserver::{
    ApiServer,
    audit::{Auditor, Log, Policy, Target},
    handle::Insider,
    testing::Lab,
};
use bytes::Bytes;
use http::Request;
use http_body_util::Full;
use runtime::http::Peer;
use serde_json::{Value, json};
use std::{
    fmt::Write as _,
    net::SocketAddr,
    sync::{Arc, Mutex},
    time::Duration,
};
use support::{Reply, ask, send};
use tempfile::TempDir;
use tracing::{Event, Metadata, Subscriber, field::Field, span};

const POLICY: &str = r#"
apiVersion: audit.k8s.io/v1
kind: Policy
rules:
  - {level: None, users: ["system:apiserver"]}
  - {level: None, nonResourceURLs: ["/healthz*"]}
  - {level: Metadata, resources: [{group: "", resources: ["pods"]}]}
  - {level: Request, resources: [{group: "", resources: ["services"]}]}
  - {level: RequestResponse, omitStages: [RequestReceived], resources: [{group: "", resources: ["configmaps"]}]}
  - {level: RequestResponse}
"#;

struct Audited {
    server: Arc<ApiServer>,
    folder: TempDir,
}

impl Audited {
    async fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let log = Log::open(Target::from_flag(folder.path().join("audit.log").to_str().unwrap())).unwrap();
        let mut lab = Lab::new();
        lab.server.auditor = Some(Auditor::new(Policy::parse(POLICY).unwrap(), log));
        lab.server.authenticator.token_file = Some(TokenFile::parse("hush-token,carol,7,system:masters").unwrap());
        Self { server: lab.start().await, folder }
    }

    fn text(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("audit.log")).unwrap()
    }

    /// The events of one request, once there are `count`.
    async fn events(&self, id: &str, count: usize) -> Vec<Value> {
        for _ in 0..1000 {
            let all = self.text();
            let events = all.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
            let found: Vec<Value> = events.filter(|event| event["auditID"] == id).collect();
            if found.len() >= count {
                return found;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("{count} events of {id} never came:\n{}", self.text());
    }

    async fn send(&self, id: &str, method: &str, path: &str, headers: &[(&str, &str)], body: &Value) -> Reply {
        let mut request = Request::builder().method(method).uri(path).header("audit-id", id);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let address: SocketAddr = if id.ends_with('6') { "[2001:db8::7]:9" } else { "192.0.2.7:9" }.parse().unwrap();
        let peer = Peer { address, local: address, certificates: Arc::new([]) };
        let bytes = if body.is_null() { Bytes::new() } else { body.to_string().into() };
        send(&self.server, request.extension(peer).body(Full::new(bytes)).unwrap()).await
    }
}

const CAROL: (&str, &str) = ("authorization", "Bearer hush-token");
const JSON: (&str, &str) = ("content-type", "application/json");

fn stages(events: &[Value]) -> Vec<&str> {
    events.iter().map(|event| event["stage"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn every_stage_is_told_at_the_level_of_the_policy() {
    let audited = Audited::start().await;
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}, "data": {"a": "b"}});
    let path = "/api/v1/namespaces/default/configmaps";
    assert_eq!(audited.send("whole", "POST", path, &[CAROL, JSON], &map).await.status, 201);
    let events = audited.events("whole", 1).await;
    assert_eq!(stages(&events), ["ResponseComplete"], "the rule leaves the first stage out");
    let event = &events[0];
    assert_eq!((&event["level"], &event["verb"]), (&json!("RequestResponse"), &json!("create")));
    assert_eq!(event["user"]["username"], "carol");
    assert_eq!(event["requestObject"]["data"], json!({"a": "b"}));
    assert_eq!(event["responseObject"]["data"], json!({"a": "b"}));
    assert_eq!(
        event["objectRef"],
        json!({"resource": "configmaps", "namespace": "default", "name": "m", "apiVersion": "v1"})
    );
    assert_eq!(event["responseStatus"], json!({"metadata": {}, "code": 201}));
    assert_eq!(event["sourceIPs"], json!(["192.0.2.7"]));
    assert_eq!(event["annotations"]["authorization.k8s.io/decision"], "allow");

    let wrong = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}, "spec": {"type": "Odd"}});
    let refused = audited.send("wrong-6", "POST", "/api/v1/namespaces/default/services", &[CAROL, JSON], &wrong).await;
    assert_eq!(refused.status, 422, "{}", refused.json());
    let events = audited.events("wrong-6", 2).await;
    assert_eq!(stages(&events), ["RequestReceived", "ResponseComplete"]);
    assert!(events[0]["responseStatus"].is_null() && events[0]["requestObject"].is_null());
    assert_eq!(events[1]["requestObject"]["spec"]["type"], "Odd");
    assert!(events[1]["responseObject"].is_null(), "the level is Request");
    assert_eq!(events[1]["responseStatus"]["reason"], "Invalid");
    assert_eq!(events[1]["sourceIPs"], json!(["2001:db8::7"]));

    assert_eq!(audited.send("health", "GET", "/healthz", &[], &Value::Null).await.status, 200);
    let listed = audited.send("list", "GET", "/api/v1/pods?limit=5", &[CAROL], &Value::Null).await;
    assert_eq!((listed.status, &listed.headers["audit-id"]), (200, &"list".parse().unwrap()));
    let events = audited.events("list", 2).await;
    assert_eq!(stages(&events), ["RequestReceived", "ResponseComplete"]);
    assert_eq!((&events[1]["level"], &events[1]["requestURI"]), (&json!("Metadata"), &json!("/api/v1/pods?limit=5")));
    assert!(events[1]["responseObject"].is_null());
    assert!(!audited.text().contains("\"health\""), "level None");
}

#[tokio::test]
async fn pod_security_says_what_it_enforced_and_what_it_would_have() {
    let audited = Audited::start().await;
    let labels = json!({"pod-security.kubernetes.io/enforce": "baseline", "pod-security.kubernetes.io/audit": "restricted", "pod-security.kubernetes.io/audit-version": "v1.18"});
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "a", "labels": labels}});
    assert_eq!(audited.send("ns", "POST", "/api/v1/namespaces", &[CAROL, JSON], &namespace).await.status, 201);
    let pod = |spec: Value| json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}, "spec": spec});
    let containers = json!([{"name": "c", "image": "i", "securityContext": {"allowPrivilegeEscalation": false}}]);
    for (id, spec, status) in [
        ("good", json!({"containers": containers}), 201),
        ("bad", json!({"containers": containers, "hostPID": true}), 403),
    ] {
        let sent = audited.send(id, "POST", "/api/v1/namespaces/a/pods?dryRun=All", &[CAROL, JSON], &pod(spec)).await;
        assert_eq!(sent.status, status, "{}", sent.json());
        let events = audited.events(id, 2).await;
        let annotation = |key: &str| events[1]["annotations"][format!("pod-security.kubernetes.io/{key}")].clone();
        assert_eq!(annotation("enforce-policy"), "baseline:latest");
        let violations = annotation("audit-violations");
        let violations = violations.as_str().unwrap();
        assert!(violations.starts_with("would violate PodSecurity \"restricted:v1.18\": "), "{violations}");
        assert_eq!(violations.contains("host namespaces"), id == "bad", "{violations}");
    }
}

#[tokio::test]
async fn yaml_and_patches_are_recorded_as_objects() {
    let audited = Audited::start().await;
    let path = "/api/v1/namespaces/default/services";
    let yaml = "apiVersion: v1\nkind: Service\nmetadata: {name: s}\nspec: {ports: [{port: 80}]}\n";
    let request = Request::post(path).header("audit-id", "yaml").header(CAROL.0, CAROL.1);
    let request = request.header("content-type", "application/yaml").body(Full::new(Bytes::from(yaml))).unwrap();
    assert_eq!(send(&audited.server, request).await.status, 201);
    let event = audited.events("yaml", 2).await.pop().unwrap();
    assert_eq!(event["requestObject"]["spec"]["ports"][0]["port"], 80);
    let merge = ("content-type", "application/merge-patch+json");
    let patch = json!({"metadata": {"labels": {"a": "b"}}});
    assert_eq!(audited.send("patch", "PATCH", &format!("{path}/s"), &[CAROL, merge], &patch).await.status, 200);
    let event = audited.events("patch", 2).await.pop().unwrap();
    assert_eq!(event["requestObject"], patch);
}

#[tokio::test]
async fn a_watch_is_told_when_it_starts_and_when_it_ends() {
    let audited = Audited::start().await;
    let path = "/api/v1/pods?watch=1";
    let admin = User::new("root", ["system:masters"]);
    let request = Request::get(path).header("audit-id", "watch").extension(Insider(admin));
    let request = request.body(Full::new(Bytes::new())).unwrap();
    let response = apiserver::handle::handle(Arc::clone(&audited.server), request).await.unwrap();
    assert_eq!(stages(&audited.events("watch", 2).await), ["RequestReceived", "ResponseStarted"]);
    drop(response);
    let events = audited.events("watch", 3).await;
    assert_eq!(stages(&events), ["RequestReceived", "ResponseStarted", "ResponseComplete"]);
    assert_eq!(events[2]["responseStatus"]["code"], 200);
}

#[tokio::test]
async fn who_hangs_up_early_is_told_of_too() {
    let audited = Audited::start().await;
    let never =
        http_body_util::StreamBody::new(futures::stream::pending::<Result<http_body::Frame<Bytes>, std::io::Error>>());
    let request = Request::post("/api/v1/namespaces/default/services").header("audit-id", "gone");
    let request = request.header(CAROL.0, CAROL.1).body(never).unwrap();
    let mut serving = Box::pin(apiserver::handle::handle(Arc::clone(&audited.server), request));
    assert!(futures::poll!(&mut serving).is_pending(), "the body never comes");
    drop(serving);
    let events = audited.events("gone", 2).await;
    assert_eq!(stages(&events), ["RequestReceived", "ResponseComplete"]);
    assert_eq!(events[1]["responseStatus"]["message"], "Connection closed early");
}

#[tokio::test]
async fn refusals_are_told_with_their_reason() {
    let audited = Audited::start().await;
    for (id, headers, message) in [
        ("token", &[("authorization", "Bearer hush-wrong")][..], "Authentication failed, attempted: bearer"),
        ("nothing", &[], "Authentication failed, no credentials provided"),
    ] {
        assert_eq!(audited.send(id, "GET", "/api/v1/pods", headers, &Value::Null).await.status, 401);
        let events = audited.events(id, 1).await;
        assert_eq!(stages(&events), ["ResponseStarted"]);
        assert_eq!(events[0]["responseStatus"], json!({"metadata": {}, "message": message, "code": 401}));
        assert_eq!(events[0]["user"], json!({}));
    }
    let as_bob = [CAROL, ("impersonate-user", "bob")];
    assert_eq!(audited.send("bob", "GET", "/api/v1/pods", &as_bob, &Value::Null).await.status, 403);
    let event = audited.events("bob", 2).await.pop().unwrap();
    assert_eq!((&event["user"]["username"], &event["impersonatedUser"]["username"]), (&json!("carol"), &json!("bob")));
    assert_eq!(event["annotations"]["authorization.k8s.io/decision"], "forbid");
    assert_eq!(event["responseStatus"]["reason"], "Forbidden");
    assert!(!audited.text().contains("hush"));
}

/// Everything that any part of the program says, at every level.
#[derive(Clone, Default)]
struct Everything(Arc<Mutex<String>>);

impl Subscriber for Everything {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }
    fn new_span(&self, attributes: &span::Attributes<'_>) -> span::Id {
        attributes.record(&mut |field: &Field, value: &dyn std::fmt::Debug| self.append(field, value));
        span::Id::from_u64(1)
    }
    fn record(&self, _: &span::Id, values: &span::Record<'_>) {
        values.record(&mut |field: &Field, value: &dyn std::fmt::Debug| self.append(field, value));
    }
    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}
    fn event(&self, event: &Event<'_>) {
        event.record(&mut |field: &Field, value: &dyn std::fmt::Debug| self.append(field, value));
    }
    fn enter(&self, _: &span::Id) {}
    fn exit(&self, _: &span::Id) {}
}

impl Everything {
    fn append(&self, field: &Field, value: &dyn std::fmt::Debug) {
        writeln!(self.0.lock().unwrap(), "{field}={value:?}").unwrap();
    }
}

#[tokio::test]
async fn no_secret_is_in_any_log() {
    let captured = Everything::default();
    let _listening = tracing::subscriber::set_default(captured.clone());
    tracing::trace!("listening");
    let audited = Audited::start().await;
    let base = "/api/v1/namespaces/default";
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "app"}});
    assert_eq!(
        ask(&audited.server, "POST", &format!("{base}/serviceaccounts"), &[JSON], account.to_string()).await.status,
        201
    );
    let secret = |data: Value, text: Value| json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "data": data, "stringData": text});
    let good = secret(json!({"password": "aHVzaC1zZWNyZXQ="}), json!({"text": "hush-text"}));
    let apply = ("content-type", "application/apply-patch+yaml");
    let merge = ("content-type", "application/merge-patch+json");
    let last = "kubectl.kubernetes.io/last-applied-configuration";
    let noted = json!({"metadata": {"annotations": {last: "{\"data\": \"aHVzaC1zZWNyZXQ=\"}"}}});
    for (method, path, kind, body, want) in [
        ("POST", "secrets", JSON, good.clone(), 201),
        ("POST", "secrets", JSON, good.clone(), 409),
        ("POST", "secrets", JSON, secret(json!({"password": "hush not base64"}), Value::Null), 400),
        ("POST", "secrets", JSON, secret(json!({"hush/key": "aHVzaC1zZWNyZXQ="}), Value::Null), 422),
        ("POST", "configmaps", JSON, good.clone(), 400),
        ("PATCH", "secrets/s", merge, noted, 200),
        ("PATCH", "secrets/s?fieldManager=a&force=true", apply, good, 200),
        ("GET", "secrets/s", JSON, Value::Null, 200),
        ("GET", "secrets", JSON, Value::Null, 200),
        ("GET", "secrets?watch=1&timeoutSeconds=1", JSON, Value::Null, 200),
    ] {
        let reply = audited.send("secret", method, &format!("{base}/{path}"), &[CAROL, kind], &body).await;
        assert_eq!(reply.status, want, "{method} {path}: {}", reply.json());
    }
    let request = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}});
    let issued =
        audited.send("issue", "POST", &format!("{base}/serviceaccounts/app/token"), &[CAROL, JSON], &request).await;
    let token = issued.json()["status"]["token"].as_str().unwrap().to_owned();
    let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token}});
    let reviewed =
        audited.send("review", "POST", "/apis/authentication.k8s.io/v1/tokenreviews", &[CAROL, JSON], &review).await;
    assert_eq!(reviewed.json()["status"]["authenticated"], true);
    for (value, want) in [(format!("Bearer {token}"), 403), (format!("Bearer {token}x"), 401)] {
        let headers = [("authorization", value.as_str())];
        assert_eq!(audited.send("use", "GET", "/api/v1/pods", &headers, &Value::Null).await.status, want);
    }
    let count = audited.send("last", "GET", "/version", &[CAROL], &Value::Null).await.status;
    assert_eq!((count, audited.events("last", 2).await.len()), (200, 2), "everything before it is written too");
    let signature = token.rsplit_once('.').unwrap().1;
    let (audit, log) = (audited.text(), captured.0.lock().unwrap().clone());
    assert!(audit.contains("\"secrets\"") && log.contains("listening"), "both logs are in use");
    for (name, text) in [("audit", &audit), ("log", &log)] {
        for hidden in ["aHVzaC1zZWNyZXQ=", "hush", &token, signature] {
            let line = text.lines().find(|line| line.contains(hidden));
            assert_eq!(line, None, "{hidden} is in the {name}");
        }
    }
}
