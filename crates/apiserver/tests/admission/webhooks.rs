//! Webhooks as servers of their own with TLS, reached by URL and by Service, over both families.

use crate::{
    V4, V6, lab, server,
    support::{Reply, ask, make, secure::Secure},
};
use apiserver::{ApiServer, testing::Lab};
use base64::{Engine, engine::general_purpose::STANDARD};
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use parking_lot::Mutex;
use runtime::{
    http::{Body, full},
    pki::Identity,
};
use serde_json::{Value, json};
use std::{convert::Infallible, sync::Arc, time::Duration};

const HOOKS: &str = "/apis/admissionregistration.k8s.io/v1";

/// A server of webhooks; what it says depends on the path.
struct StandIn {
    server: Secure,
    asked: Arc<Mutex<Vec<(String, Value)>>>,
}

impl std::ops::Deref for StandIn {
    type Target = Secure;

    fn deref(&self) -> &Secure {
        &self.server
    }
}

impl StandIn {
    fn new(address: &str) -> Self {
        let asked: Arc<Mutex<Vec<_>>> = Arc::default();
        let heard = Arc::clone(&asked);
        Self { server: Secure::new(address, move |request| answer(request, Arc::clone(&heard))), asked }
    }

    fn showing(address: &str, identity: &Identity, bundle: String) -> Self {
        let asked: Arc<Mutex<Vec<_>>> = Arc::default();
        let heard = Arc::clone(&asked);
        let server = Secure::showing(address, identity, bundle, move |request| answer(request, Arc::clone(&heard)));
        Self { server, asked }
    }

    /// The paths that were asked since the last look.
    fn asked(&self) -> Vec<String> {
        self.asked.lock().drain(..).map(|(path, _)| path).collect()
    }

    /// The requests that were made since the last look.
    fn requests(&self) -> Vec<Value> {
        self.asked.lock().drain(..).map(|(_, review)| review["request"].clone()).collect()
    }
}

async fn answer(
    request: Request<Incoming>,
    asked: Arc<Mutex<Vec<(String, Value)>>>,
) -> Result<Response<Body>, Infallible> {
    let path = request.uri().path().to_owned();
    let bytes = request.into_body().collect().await.unwrap().to_bytes();
    let review: Value = serde_json::from_slice(&bytes).unwrap();
    // The server writes by itself as well.
    if review["request"]["userInfo"]["username"] == "admin" {
        asked.lock().push((path.clone(), review.clone()));
    }
    let uid = &review["request"]["uid"];
    let allowed = |extra: Value| {
        let mut response = json!({"uid": uid, "allowed": true});
        response.as_object_mut().unwrap().extend(extra.as_object().cloned().unwrap_or_default());
        response
    };
    let patch = |patch: Value| allowed(json!({"patchType": "JSONPatch", "patch": STANDARD.encode(patch.to_string())}));
    let response = match path.split('/').collect::<Vec<_>>().as_slice() {
        ["", "deny"] => {
            json!({"uid": uid, "allowed": false, "status": {"message": "not today", "code": 403, "reason": "Forbidden"}})
        }
        ["", "mute"] => json!({"uid": uid, "allowed": false}),
        ["", "label", name] => {
            let labels = &review["request"]["object"]["metadata"]["labels"];
            match labels.is_null() {
                true => patch(json!([{"op": "add", "path": "/metadata/labels", "value": {*name: "yes"}}])),
                false => patch(json!([{"op": "add", "path": format!("/metadata/labels/{name}"), "value": "yes"}])),
            }
        }
        ["", "family"] => patch(json!([{"op": "add", "path": "/spec/ipFamilyPolicy", "value": "PreferDualStack"}])),
        ["", "warn"] => allowed(json!({"warnings": ["mind the gap"], "auditAnnotations": {"seen": "by me"}})),
        ["", "stranger"] => json!({"uid": "another", "allowed": true}),
        ["", "slow"] => {
            tokio::time::sleep(Duration::from_secs(3600)).await;
            Value::Null
        }
        ["", "broken"] => {
            let mut response = Response::new(full(Bytes::from("out of order")));
            *response.status_mut() = http::StatusCode::INTERNAL_SERVER_ERROR;
            return Ok(response);
        }
        _ => allowed(json!({})),
    };
    let review = json!({"kind": "AdmissionReview", "apiVersion": review["apiVersion"], "response": response});
    Ok(Response::new(full(Bytes::from(review.to_string()))))
}

/// A webhook for ConfigMaps, changed by `extra`.
fn hook(name: &str, client: Value, extra: Value) -> Value {
    let mut hook = json!({
        "name": format!("{name}.example.com"), "clientConfig": client, "sideEffects": "None", "admissionReviewVersions": ["v1"],
        "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"], "operations": ["*"]}],
    });
    hook.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
    hook
}

async fn configure(server: &Arc<ApiServer>, kind: &str, name: &str, hooks: Vec<Value>) {
    let path = format!("{HOOKS}/{}webhookconfigurations", kind.to_lowercase());
    let object = json!({"kind": format!("{kind}WebhookConfiguration"), "metadata": {"name": name}, "webhooks": hooks});
    make(server, &path, object).await;
}

async fn clear(server: &Arc<ApiServer>) {
    for kind in ["mutating", "validating"] {
        assert_eq!(ask(server, "DELETE", &format!("{HOOKS}/{kind}webhookconfigurations"), &[], "").await.status, 200);
    }
}

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

async fn post(server: &Arc<ApiServer>, path: &str, object: Value) -> Reply {
    ask(server, "POST", path, &[("content-type", "application/json")], object.to_string()).await
}

async fn map(server: &Arc<ApiServer>, name: &str) -> (u16, Value) {
    let reply = post(server, MAPS, json!({"metadata": {"name": name}})).await;
    (reply.status, reply.json())
}

/// An object that validation would refuse for its loopback address.
async fn put(server: &Arc<ApiServer>, key: String, object: Value) {
    let bytes = apiserver::stored::encode(&object).unwrap();
    server.store.txn(store::Txn::of([store::Op::Put(key.into(), bytes)])).await.unwrap();
}

#[tokio::test]
async fn a_webhook_is_asked_by_url_and_by_service_over_either_family() {
    let server = server().await;
    for (address, family) in [(V4, "IPv4"), (V6, "IPv6")] {
        let standin = StandIn::new(address);
        let service = json!({
            "apiVersion": "v1", "kind": "Service", "metadata": {"name": "hook", "namespace": "default"},
            "spec": {"ipFamilies": ["IPv4", "IPv6"], "ports": [{"name": "https", "port": 8443}]},
        });
        put(&server, "services/specs/default/hook".into(), service).await;
        let labels = json!({"kubernetes.io/service-name": "hook"});
        let slice = json!({
            "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": family,
            "metadata": {"name": "hook", "namespace": "default", "labels": labels},
            "endpoints": [{"addresses": [address]}], "ports": [{"name": "https", "port": standin.port}],
        });
        put(&server, "endpointslices/default/hook".into(), slice).await;
        let by_service = json!({
            "service": {"namespace": "default", "name": "hook", "port": 8443, "path": "/deny"}, "caBundle": standin.bundle,
        });
        // A bundle may be the certificate itself, and slashes may repeat.
        let mut pinned = standin.url(address, "//deny");
        pinned["caBundle"] = standin.shown.as_str().into();
        for client in [standin.url(address, "/deny"), by_service, pinned] {
            configure(&server, "Validating", "one", vec![hook("one", client, json!({}))]).await;
            let (status, answer) = map(&server, "a").await;
            assert_eq!((status, answer["reason"].as_str()), (403, Some("Forbidden")), "{answer}");
            assert_eq!(answer["message"], "admission webhook \"one.example.com\" denied the request: not today");
            let request = standin.requests().remove(0);
            assert_eq!(request["operation"], "CREATE");
            assert_eq!(request["resource"], json!({"group": "", "version": "v1", "resource": "configmaps"}));
            assert_eq!(request["kind"], json!({"group": "", "version": "v1", "kind": "ConfigMap"}));
            assert_eq!(request["userInfo"]["username"], "admin");
            assert_eq!((&request["name"], &request["namespace"]), (&json!("a"), &json!("default")));
            assert_eq!(request["object"]["metadata"]["name"], "a");
            assert_eq!(request["options"]["kind"], "CreateOptions");
            assert_eq!((&request["dryRun"], &request["oldObject"]), (&json!(false), &Value::Null));
            clear(&server).await;
        }
    }
}

#[tokio::test]
async fn a_certificate_that_signed_itself_is_trusted_where_it_is_listed() {
    let server = server().await;
    let mut params = rcgen::CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
    params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let key = rcgen::KeyPair::generate().unwrap();
    let certificate = params.self_signed(&key).unwrap();
    let folder = tempfile::TempDir::new().unwrap();
    let (shown, secret) = (folder.path().join("tls.crt"), folder.path().join("tls.key"));
    std::fs::write(&shown, certificate.pem()).unwrap();
    std::fs::write(&secret, key.serialize_pem()).unwrap();
    let identity = Identity::load_pair(&shown, &secret).unwrap();
    let standin = StandIn::showing(V4, &identity, STANDARD.encode(certificate.pem()));
    for (client, status) in [
        (standin.url(V4, "/deny"), 403),
        // Its name is another one, and it is not listed.
        (json!({"url": format!("https://localhost:{}/deny", standin.port), "caBundle": standin.bundle}), 500),
        (json!({"url": format!("https://127.0.0.1:{}/deny", standin.port), "caBundle": StandIn::new(V4).shown}), 500),
    ] {
        configure(&server, "Validating", "one", vec![hook("one", client.clone(), json!({}))]).await;
        let (got, answer) = map(&server, "a").await;
        assert_eq!(got, status, "{client} {answer}");
        clear(&server).await;
    }
}

#[tokio::test]
async fn changes_are_made_in_order_and_those_before_are_asked_again_if_they_want() {
    let server = server().await;
    let standin = StandIn::new(V4);
    let url = |path: &str| standin.url(V4, path);
    let again = json!({"reinvocationPolicy": "IfNeeded"});
    configure(&server, "Mutating", "b", vec![hook("b", url("/label/b"), json!({}))]).await;
    let first = vec![hook("a1", url("/label/a1"), again), hook("a2", url("/label/a2"), json!({}))];
    configure(&server, "Mutating", "a", first).await;
    configure(&server, "Validating", "v", vec![hook("v", url("/see"), json!({}))]).await;
    let (status, made) = map(&server, "a").await;
    assert_eq!(status, 201, "{made}");
    assert_eq!(made["metadata"]["labels"], json!({"a1": "yes", "a2": "yes", "b": "yes"}));
    let seen: Vec<_> = standin.asked.lock().clone();
    let paths: Vec<&str> = seen.iter().map(|(path, _)| path.as_str()).collect();
    assert_eq!(paths, ["/label/a1", "/label/a2", "/label/b", "/label/a1", "/see"]);
    assert_eq!(seen[4].1["request"]["object"]["metadata"]["labels"], made["metadata"]["labels"]);
    assert_eq!(made["metadata"]["managedFields"], Value::Null, "a webhook owns nothing");
    standin.asked();
    // Nobody changes anything now, so nobody is asked twice.
    let body = json!({"metadata": {"name": "a", "labels": made["metadata"]["labels"]}, "data": {"k": "v"}});
    let reply = ask(&server, "PUT", &format!("{MAPS}/a"), &[], body.to_string()).await;
    assert_eq!(reply.status, 200);
    assert_eq!(standin.asked(), ["/label/a1", "/label/a2", "/label/b", "/see"]);
    let reply = ask(&server, "DELETE", &format!("{MAPS}/a"), &[], "").await;
    assert_eq!(reply.json()["code"], 500, "a deletion cannot be changed");
}

#[tokio::test]
async fn a_webhook_that_gives_no_answer_is_passed_over_only_where_that_is_said() {
    let server = server().await;
    let standin = StandIn::new(V4);
    let dead = json!({"url": "https://127.0.0.1:1/x", "caBundle": standin.bundle});
    let untrusted =
        json!({"url": format!("https://127.0.0.1:{}/see", standin.port), "caBundle": StandIn::new(V4).bundle});
    for (client, why) in [
        (dead, "Post \"https://127.0.0.1:1/x?timeout=1s\": dial tcp 127.0.0.1:1: Connection refused"),
        (standin.url(V4, "/slow"), "context deadline exceeded"),
        (standin.url(V4, "/broken"), "an error on the server (\"out of order\") has prevented"),
        (standin.url(V4, "/stranger"), "received invalid webhook response: expected response.uid="),
        (untrusted, "tls: invalid peer certificate"),
    ] {
        for kind in ["Mutating", "Validating"] {
            let closed = hook("one", client.clone(), json!({"timeoutSeconds": 1}));
            configure(&server, kind, "one", vec![closed]).await;
            let (status, answer) = map(&server, "a").await;
            let text = answer["message"].as_str().unwrap();
            assert_eq!(status, 500, "{text}");
            assert!(
                text.starts_with("Internal error occurred: failed calling webhook \"one.example.com\": "),
                "{text}"
            );
            assert!(text.contains(why), "{text}");
            clear(&server).await;
            let open = hook("one", client.clone(), json!({"timeoutSeconds": 1, "failurePolicy": "Ignore"}));
            configure(&server, kind, "one", vec![open]).await;
            assert_eq!(map(&server, "a").await.0, 201);
            clear(&server).await;
            ask(&server, "DELETE", &format!("{MAPS}/a"), &[], "").await;
        }
    }
    // A refusal without a word is one, whatever the failure policy says.
    let mute = hook("one", standin.url(V4, "/mute"), json!({"failurePolicy": "Ignore"}));
    configure(&server, "Validating", "one", vec![mute]).await;
    let (status, answer) = map(&server, "a").await;
    assert_eq!(status, 400);
    assert_eq!(answer["message"], "admission webhook \"one.example.com\" denied the request without explanation");
}

#[tokio::test]
async fn only_requests_that_are_meant_are_asked_about() {
    let server = server().await;
    let standin = StandIn::new(V6);
    let url = || standin.url(V6, "/see");
    make(&server, "/api/v1/namespaces", json!({"metadata": {"name": "far", "labels": {"place": "far"}}})).await;
    let on = |resources: Value, operations: Value| json!({"rules": [{"apiGroups": ["*"], "apiVersions": ["*"], "resources": resources, "operations": operations}]});
    let with = |mut one: Value, other: Value| {
        one.as_object_mut().unwrap().extend(other.as_object().unwrap().clone());
        one
    };
    let all = on(json!(["*/*"]), json!(["*"]));
    let condition = |text: &str| json!({"matchConditions": [{"name": "c", "expression": text}]});
    let far = json!({"namespaceSelector": {"matchLabels": {"place": "far"}}});
    for (rule, meant) in [
        (all.clone(), [true, true, true, true]),
        (on(json!(["configmaps"]), json!(["CREATE"])), [true, true, false, false]),
        (on(json!(["namespaces"]), json!(["*"])), [false, false, true, false]),
        (on(json!(["serviceaccounts/token"]), json!(["CREATE"])), [false, false, false, true]),
        (on(json!(["*"]), json!(["*"])), [true, true, true, false]),
        (with(all.clone(), far), [false, true, false, false]),
        (with(all.clone(), json!({"objectSelector": {"matchLabels": {"a": "b"}}})), [false, true, false, false]),
        (
            with(all.clone(), condition("has(object.metadata.name) && object.metadata.name == 'one'")),
            [true, false, false, false],
        ),
        (
            with(all.clone(), condition("request.namespace == 'far' && has(namespaceObject.metadata.labels)")),
            [false, true, false, false],
        ),
        (
            with(all.clone(), condition("authorizer.group('').resource('pods').namespace('x').check('get').allowed()")),
            [true; 4],
        ),
        (
            with(all.clone(), condition("authorizer.serviceAccount('default', 'x').path('/').check('get').allowed()")),
            [false; 4],
        ),
        (with(all.clone(), condition("authorizer.requestResource.check('update').allowed()")), [true; 4]),
        (
            json!({"rules": [{"apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"], "operations": ["*"], "scope": "Cluster"}]}),
            [false, false, true, false],
        ),
    ] {
        configure(&server, "Validating", "one", vec![hook("one", url(), rule.clone())]).await;
        let token = json!({"spec": {"audiences": ["x"]}});
        for (index, (path, object)) in [
            (MAPS, json!({"metadata": {"name": "one"}})),
            ("/api/v1/namespaces/far/configmaps", json!({"metadata": {"name": "two", "labels": {"a": "b"}}})),
            ("/api/v1/namespaces", json!({"metadata": {"name": "new"}})),
            ("/api/v1/namespaces/default/serviceaccounts/default/token", token),
        ]
        .into_iter()
        .enumerate()
        {
            if index == 3 {
                post(&server, "/api/v1/namespaces/default/serviceaccounts", json!({"metadata": {"name": "default"}}))
                    .await;
                standin.asked();
            }
            let reply = post(&server, &format!("{path}?dryRun=All"), object).await;
            assert_eq!(reply.status, 201, "{}", reply.json());
            assert_eq!(!standin.asked().is_empty(), meant[index], "{rule} {path}");
        }
        clear(&server).await;
    }
}

#[tokio::test]
async fn evictions_scales_statuses_and_deletions_are_shown_as_what_they_are() {
    let server = server().await;
    let standin = StandIn::new(V4);
    let rules =
        json!({"rules": [{"apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*/*"], "operations": ["*"]}]});
    let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    make(&server, "/api/v1/namespaces/default/pods", pod.clone()).await;
    let deployment = json!({"metadata": {"name": "d"}, "spec": {"replicas": 1, "selector": {"matchLabels": {"a": "b"}},
        "template": {"metadata": {"labels": {"a": "b"}}, "spec": pod["spec"]}}});
    make(&server, "/apis/apps/v1/namespaces/default/deployments", deployment).await;
    configure(&server, "Validating", "one", vec![hook("one", standin.url(V4, "/see"), rules)]).await;
    let apps = "/apis/apps/v1/namespaces/default/deployments/d";
    let merge = [("content-type", "application/merge-patch+json")];
    let replicas = json!({"spec": {"replicas": 3}}).to_string();
    assert_eq!(ask(&server, "PATCH", &format!("{apps}/scale"), &merge, replicas).await.status, 200);
    let status = json!({"status": {"replicas": 1}}).to_string();
    assert_eq!(ask(&server, "PATCH", &format!("{apps}/status"), &merge, status).await.status, 200);
    let binding = json!({"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n"}});
    assert_eq!(post(&server, "/api/v1/namespaces/default/pods/p/binding", binding).await.status, 201);
    let eviction = json!({"metadata": {"name": "p"}});
    assert_eq!(post(&server, "/api/v1/namespaces/default/pods/p/eviction", eviction).await.status, 201);
    assert_eq!(ask(&server, "DELETE", &format!("{apps}?gracePeriodSeconds=0"), &[], "").await.status, 200);
    let told: Vec<_> = standin
        .requests()
        .iter()
        .map(|request| {
            let text = |field: &Value| field.as_str().unwrap_or_default().to_owned();
            let (kind, below) = (text(&request["kind"]["kind"]), text(&request["subResource"]));
            (
                text(&request["operation"]),
                kind,
                below,
                request["object"]["spec"]["replicas"].as_i64(),
                !request["oldObject"].is_null(),
            )
        })
        .collect();
    let row = |operation: &str, kind: &str, below: &str, replicas, old| {
        (operation.to_owned(), kind.to_owned(), below.to_owned(), replicas, old)
    };
    assert_eq!(
        told,
        [
            row("UPDATE", "Scale", "scale", Some(3), true),
            row("UPDATE", "Deployment", "status", Some(3), true),
            row("CREATE", "Binding", "binding", None, false),
            row("CREATE", "Eviction", "eviction", None, false),
            row("DELETE", "Deployment", "", None, true),
        ]
    );
}

#[tokio::test]
async fn another_version_of_a_resource_is_the_same_resource() {
    let server = server().await;
    let standin = StandIn::new(V4);
    let mut definition = crate::support::definition("Widget", "widgets", "Namespaced", &json!({}));
    let mut second = definition["spec"]["versions"][0].clone();
    second["name"] = "v2".into();
    second["storage"] = false.into();
    definition["spec"]["versions"].as_array_mut().unwrap().push(second);
    make(&server, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition).await;
    let widgets = "/apis/example.com/v2/namespaces/default/widgets";
    make(&server, widgets, json!({"apiVersion": "example.com/v2", "kind": "Widget", "metadata": {"name": "first"}}))
        .await;
    for (policy, asked) in [("Equivalent", 1), ("Exact", 0)] {
        let rules = json!({"matchPolicy": policy, "rules": [{"apiGroups": ["example.com"], "apiVersions": ["v1"], "resources": ["widgets"], "operations": ["CREATE"]}]});
        configure(&server, "Mutating", "one", vec![hook("one", standin.url(V4, "/label/x"), rules)]).await;
        let name = policy.to_lowercase();
        let made = make(
            &server,
            widgets,
            json!({"apiVersion": "example.com/v2", "kind": "Widget", "metadata": {"name": name}}),
        )
        .await;
        let requests = standin.requests();
        assert_eq!(requests.len(), asked);
        assert_eq!(made["apiVersion"], "example.com/v2");
        if let [request] = requests.as_slice() {
            assert_eq!(request["object"]["apiVersion"], "example.com/v1");
            assert_eq!((&request["kind"]["version"], &request["requestKind"]["version"]), (&json!("v1"), &json!("v2")));
            assert_eq!(made["metadata"]["labels"], json!({"x": "yes"}));
        }
        clear(&server).await;
    }
}

#[tokio::test]
async fn a_webhook_warns_and_nobody_can_be_locked_out_by_one() {
    let server = server().await;
    let standin = StandIn::new(V4);
    let all = json!({"rules": [{"apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*/*"], "operations": ["*"]}]});
    let refusing = vec![hook("one", standin.url(V4, "/deny"), all.clone())];
    configure(&server, "Validating", "one", refusing).await;
    assert_eq!(map(&server, "a").await.0, 403);
    let review = json!({"spec": {"resourceAttributes": {"verb": "get", "resource": "pods"}}});
    assert_eq!(post(&server, "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", review).await.status, 201);
    clear(&server).await;
    configure(&server, "Validating", "one", vec![hook("one", standin.url(V4, "/warn"), all)]).await;
    let reply = post(&server, MAPS, json!({"metadata": {"name": "a"}})).await;
    assert_eq!(reply.headers["warning"], "299 - \"mind the gap\"");
}

#[tokio::test]
async fn a_webhook_makes_dual_stack_the_default() {
    let mut lab = Lab::new();
    let ranges = net::flags::service_ranges("10.96.0.0/16,fd00:96::/108").unwrap();
    lab.server.services =
        apiserver::services::Services::new(apiserver::services::Settings { ranges, ..Default::default() });
    let server = lab.start().await;
    let standin = StandIn::new(V6);
    let rules = json!({"rules": [{"apiGroups": [""], "apiVersions": ["v1"], "resources": ["services"], "operations": ["CREATE"]}],
        "matchConditions": [{"name": "unset", "expression": "!has(object.spec.ipFamilyPolicy)"}]});
    configure(&server, "Mutating", "one", vec![hook("one", standin.url(V6, "/family"), rules)]).await;
    let services = "/api/v1/namespaces/default/services";
    let made = make(&server, services, json!({"metadata": {"name": "a"}, "spec": {"ports": [{"port": 80}]}})).await;
    assert_eq!(made["spec"]["ipFamilies"], json!(["IPv4", "IPv6"]));
    assert_eq!(made["spec"]["clusterIPs"].as_array().unwrap().len(), 2);
    let single = json!({"metadata": {"name": "b"}, "spec": {"ipFamilyPolicy": "SingleStack", "ports": [{"port": 80}]}});
    assert_eq!(make(&server, services, single).await["spec"]["ipFamilies"], json!(["IPv4"]));
}

#[tokio::test]
async fn mistakes_in_a_configuration_are_told_together() {
    let server = server().await;
    let object = json!({"metadata": {"name": "bad"}, "webhooks": [
        {"name": "short", "clientConfig": {"url": "http://user@host/x?y#z"}, "timeoutSeconds": 31, "failurePolicy": "Maybe",
         "rules": [{"operations": ["*", "READ"], "apiGroups": [], "apiVersions": [""], "resources": ["*", "pods", "pods/*", "pods/log"]}],
         "matchConditions": [{"name": "", "expression": "object.x"}, {"name": "c", "expression": "request.nothing == ''"}, {"name": "c", "expression": " "}]},
        {"name": "a.b.c", "clientConfig": {"service": {"name": "s", "port": 0, "path": "x//y"}}, "sideEffects": "Some", "admissionReviewVersions": ["v7"]},
        {"name": "a.b.c", "clientConfig": {}, "sideEffects": "None", "admissionReviewVersions": ["v1"]},
    ]});
    let reply = post(&server, &format!("{HOOKS}/mutatingwebhookconfigurations"), object).await.json();
    let causes = reply["details"]["causes"].as_array().unwrap();
    let fields: Vec<&str> = causes.iter().map(|cause| cause["field"].as_str().unwrap()).collect();
    assert_eq!(
        fields,
        [
            "webhooks[0].name",
            "webhooks[0].rules[0].operations",
            "webhooks[0].rules[0].operations[1]",
            "webhooks[0].rules[0].apiGroups",
            "webhooks[0].rules[0].apiVersions[0]",
            "webhooks[0].rules[0].resources[3]",
            "webhooks[0].rules[0].resources",
            "webhooks[0].failurePolicy",
            "webhooks[0].sideEffects",
            "webhooks[0].timeoutSeconds",
            "webhooks[0].clientConfig.url",
            "webhooks[0].clientConfig.url",
            "webhooks[0].clientConfig.url",
            "webhooks[0].clientConfig.url",
            "webhooks[0].admissionReviewVersions",
            "webhooks[1].sideEffects",
            "webhooks[1].clientConfig.service.namespace",
            "webhooks[1].clientConfig.service.path",
            "webhooks[1].clientConfig.service.path",
            "webhooks[1].admissionReviewVersions",
            "webhooks[2].clientConfig",
            "webhooks[2].name",
            "webhooks[0].matchConditions[0].expression",
            "webhooks[0].matchConditions[0].name",
            "webhooks[0].matchConditions[1].expression",
            "webhooks[0].matchConditions[2].expression",
            "webhooks[0].matchConditions[2].name",
        ],
        "{reply:#}"
    );
}

#[tokio::test]
async fn a_webhook_is_shown_what_the_configuration_says() {
    let heard: Arc<Mutex<Vec<String>>> = Arc::default();
    let noted = Arc::clone(&heard);
    let standin = Secure::new(V6, move |request: Request<Incoming>| {
        let shown = request.headers().get("authorization").map(|value| value.to_str().unwrap().to_owned());
        noted.lock().push(shown.unwrap_or_default());
        answer(request, Arc::default())
    });
    let folder = tempfile::TempDir::new().unwrap();
    let file = folder.path().join("webhooks.kubeconfig");
    let users = format!("users: [{{name: '[::1]:{}', user: {{token: for-the-webhook}}}}]", standin.port);
    std::fs::write(&file, users).unwrap();
    let mut lab = lab();
    let credentials = apiserver::webhook::Credentials::load(&file).unwrap();
    lab.server.config.admission.mutating_credentials = Some(Arc::new(credentials));
    let server = lab.start().await;
    configure(&server, "Mutating", "one", vec![hook("one", standin.url(V6, "/see"), json!({}))]).await;
    configure(&server, "Validating", "one", vec![hook("one", standin.url(V6, "/see"), json!({}))]).await;
    assert_eq!(map(&server, "a").await.0, 201);
    // The server's own writes are shown to them as well.
    let heard: std::collections::BTreeSet<String> = heard.lock().iter().cloned().collect();
    assert_eq!(heard.into_iter().collect::<Vec<_>>(), ["", "Bearer for-the-webhook"]);
}

#[tokio::test]
async fn managed_fields_of_a_webhook_are_kept_when_they_are_valid() {
    let server = server().await;
    let standin = Secure::new(V4, |request: Request<Incoming>| async move {
        let good = request.uri().path() == "/good";
        let review: Value = serde_json::from_slice(&request.into_body().collect().await.unwrap().to_bytes()).unwrap();
        let entry = json!({"manager": "hook", "operation": if good { "Update" } else { "Nonsense" }, "apiVersion": "v1",
            "fieldsType": "FieldsV1", "time": "2024-01-01T00:00:00Z", "fieldsV1": {"f:data": {"f:k": {}}}});
        let patch = json!([{"op": "add", "path": "/metadata/managedFields", "value": [entry]}]).to_string();
        let response = json!({"uid": review["request"]["uid"], "allowed": true, "patchType": "JSONPatch", "patch": STANDARD.encode(patch)});
        let review = json!({"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "response": response});
        Ok::<_, Infallible>(Response::new(full(Bytes::from(review.to_string()))))
    });
    for (path, managers, warned) in [("/good", ["hook"], false), ("/bad", ["me"], true)] {
        configure(&server, "Mutating", "one", vec![hook("one", standin.url(V4, path), json!({}))]).await;
        let object = json!({"metadata": {"name": "a"}, "data": {"k": "v"}});
        let reply = post(&server, &format!("{MAPS}?dryRun=All&fieldManager=me"), object).await;
        let made = reply.json();
        let shown: Vec<&str> = made["metadata"]["managedFields"]
            .as_array()
            .unwrap()
            .iter()
            .map(|entry| entry["manager"].as_str().unwrap())
            .collect();
        assert_eq!(shown, managers, "{made}");
        assert_eq!(reply.headers.contains_key("warning"), warned, "{path}");
        clear(&server).await;
    }
}
