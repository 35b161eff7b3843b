//! Conversion webhooks: every way to read and write objects of a definition whose versions differ.

use crate::{
    V4, V6, server,
    support::{Events, ask, make, secure::Secure},
};
use apiserver::ApiServer;
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use parking_lot::Mutex;
use runtime::http::{Body, full};
use serde_json::{Value, json};
use std::{convert::Infallible, sync::Arc, time::Duration};

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const GROUP: &str = "/apis/example.com";

/// v1 has `spec.hostPort: "h:1"`, v2 `spec.host` and `spec.port`.
async fn convert(request: Request<Incoming>, asked: Arc<Mutex<Vec<Value>>>) -> Result<Response<Body>, Infallible> {
    let path = request.uri().path().to_owned();
    let review: Value = serde_json::from_slice(&request.into_body().collect().await.unwrap().to_bytes()).unwrap();
    asked.lock().push(review["request"].clone());
    let wanted = review["request"]["desiredAPIVersion"].as_str().unwrap();
    let converted: Vec<Value> = review["request"]["objects"]
        .as_array()
        .unwrap()
        .iter()
        .map(|object| {
            let mut object = object.clone();
            object["apiVersion"] = wanted.into();
            if let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut) {
                if wanted.ends_with("/v2") {
                    let both = spec.remove("hostPort").unwrap_or_default();
                    let (host, port) = both.as_str().unwrap_or_default().split_once(':').unwrap_or_default();
                    spec.insert("host".into(), host.into());
                    spec.insert("port".into(), port.into());
                } else {
                    let mut take =
                        |field| spec.remove(field).unwrap_or_default().as_str().unwrap_or_default().to_owned();
                    let both = format!("{}:{}", take("host"), take("port"));
                    spec.insert("hostPort".into(), both.into());
                }
            }
            object["metadata"]["labels"]["converted"] = wanted.rsplit('/').next().unwrap().into();
            object["metadata"]["generation"] = 99.into();
            if path == "/rename" {
                object["metadata"]["name"] = "other".into();
            }
            object
        })
        .collect();
    let result = match path.as_str() {
        "/fail" => json!({"status": "Failed", "message": "no way"}),
        _ => json!({"status": "Success"}),
    };
    let response = json!({"uid": review["request"]["uid"], "result": result, "convertedObjects": converted});
    let review = json!({"kind": "ConversionReview", "apiVersion": review["apiVersion"], "response": response});
    Ok(Response::new(full(Bytes::from(review.to_string()))))
}

fn definition(storage: &str, client: &Value) -> Value {
    let version = |name: &str, fields: Value| {
        json!({"name": name, "served": true, "storage": name == storage, "subresources": {"status": {}},
            "selectableFields": if name == "v2" { json!([{"jsonPath": ".spec.host"}]) } else { json!([]) },
            "additionalPrinterColumns": [{"name": "Host", "type": "string", "jsonPath": if name == "v2" { ".spec.host" } else { ".spec.hostPort" }}],
            "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                "spec": {"type": "object", "properties": fields},
                "status": {"type": "object", "properties": {"ready": {"type": "boolean"}}}}}}})
    };
    let text = json!({"type": "string"});
    json!({"metadata": {"name": "things.example.com"}, "spec": {"group": "example.com", "scope": "Namespaced",
        "names": {"plural": "things", "kind": "Thing"},
        "versions": [version("v1", json!({"hostPort": text})), version("v2", json!({"host": text, "port": text}))],
        "conversion": {"strategy": "Webhook", "webhook": {"clientConfig": client, "conversionReviewVersions": ["v1"]}}}})
}

fn things(version: &str) -> String {
    format!("{GROUP}/{version}/namespaces/default/things")
}

/// Waits until the definition is served as it was written: its storage version shows what it is.
async fn redefine(server: &Arc<ApiServer>, storage: &str, client: &Value) {
    let path = format!("{DEFINITIONS}/things.example.com");
    let mut wanted = definition(storage, client);
    wanted["metadata"]["resourceVersion"] =
        ask(server, "GET", &path, &[], "").await.json()["metadata"]["resourceVersion"].clone();
    let reply = ask(server, "PUT", &path, &[], wanted.to_string()).await;
    assert_eq!(reply.status, 200, "{}", reply.json());
    tokio::time::sleep(Duration::from_millis(300)).await;
}

struct Standin {
    server: Secure,
    asked: Arc<Mutex<Vec<Value>>>,
}

impl Standin {
    fn new(address: &str) -> Self {
        let asked: Arc<Mutex<Vec<Value>>> = Arc::default();
        let heard = Arc::clone(&asked);
        Self { server: Secure::new(address, move |request| convert(request, Arc::clone(&heard))), asked }
    }

    /// How many objects were converted since the last look, by call.
    fn asked(&self) -> Vec<usize> {
        self.asked.lock().drain(..).map(|request| request["objects"].as_array().unwrap().len()).collect()
    }
}

#[tokio::test]
async fn objects_are_read_and_written_in_either_version() {
    for address in [V4, V6] {
        let server = server().await;
        let standin = Standin::new(address);
        let client = standin.server.url(address, "/convert");
        make(&server, DEFINITIONS, definition("v1", &client)).await;
        let (v1, v2) = (things("v1"), things("v2"));
        let made = make(
            &server,
            &v2,
            json!({"apiVersion": "example.com/v2", "kind": "Thing",
            "metadata": {"name": "a"}, "spec": {"host": "h", "port": "1"}}),
        )
        .await;
        assert_eq!(
            (&made["apiVersion"], &made["spec"]),
            (&json!("example.com/v2"), &json!({"host": "h", "port": "1"}))
        );
        assert_eq!(made["metadata"]["generation"], 1, "metadata is not the webhook's");
        assert_eq!(made["metadata"]["labels"]["converted"], "v2", "labels are");
        // Stored as v1, so that v1 is read without anybody being asked.
        standin.asked();
        let read = ask(&server, "GET", &format!("{v1}/a"), &[], "").await.json();
        assert_eq!((&read["apiVersion"], &read["spec"]), (&json!("example.com/v1"), &json!({"hostPort": "h:1"})));
        assert_eq!(standin.asked(), Vec::<usize>::new());
        make(&server, &v1, json!({"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "b"}, "spec": {"hostPort": "i:2"}})).await;
        // A list is one call; selectors and columns see the version that is asked for.
        let list = ask(&server, "GET", &v2, &[], "").await.json();
        assert_eq!(standin.asked(), [2]);
        let hosts: Vec<&Value> = list["items"].as_array().unwrap().iter().map(|item| &item["spec"]["host"]).collect();
        assert_eq!(hosts, [&json!("h"), &json!("i")]);
        let selected = ask(&server, "GET", &format!("{v2}?fieldSelector=spec.host%3Di"), &[], "").await.json();
        assert_eq!(selected["items"].as_array().unwrap().len(), 1, "{selected}");
        let table =
            ask(&server, "GET", &v2, &[("accept", "application/json;as=Table;v=v1;g=meta.k8s.io")], "").await.json();
        assert_eq!(table["rows"][1]["cells"], json!(["b", "i"]));
        // All ways to write.
        let merge = [("content-type", "application/merge-patch+json")];
        let patched =
            ask(&server, "PATCH", &format!("{v2}/b"), &merge, json!({"spec": {"port": "3"}}).to_string()).await.json();
        assert_eq!(patched["spec"], json!({"host": "i", "port": "3"}), "{patched}");
        let json_patch = [("content-type", "application/json-patch+json")];
        let patch = json!([{"op": "replace", "path": "/spec/host", "value": "j"}]).to_string();
        assert_eq!(ask(&server, "PATCH", &format!("{v2}/b"), &json_patch, patch).await.json()["spec"]["host"], "j");
        let apply = [("content-type", "application/apply-patch+yaml")];
        let config = json!({"apiVersion": "example.com/v2", "kind": "Thing", "metadata": {"name": "c"}, "spec": {"host": "k", "port": "4"}});
        let applied = ask(&server, "PATCH", &format!("{v2}/c?fieldManager=me"), &apply, config.to_string()).await;
        assert_eq!((applied.status, &applied.json()["spec"]), (201, &config["spec"]));
        let config = json!({"apiVersion": "example.com/v2", "kind": "Thing", "metadata": {"name": "c"}, "spec": {"host": "k", "port": "5"}});
        let applied = ask(&server, "PATCH", &format!("{v2}/c?fieldManager=me"), &apply, config.to_string()).await;
        assert_eq!((applied.status, &applied.json()["spec"]), (200, &config["spec"]));
        assert_eq!(ask(&server, "GET", &format!("{v1}/c"), &[], "").await.json()["spec"]["hostPort"], "k:5");
        let status = json!({"status": {"ready": true}}).to_string();
        let patched = ask(&server, "PATCH", &format!("{v2}/c/status"), &merge, status).await.json();
        assert_eq!((&patched["status"], &patched["spec"]["host"]), (&json!({"ready": true}), &json!("k")));
        let mut whole = ask(&server, "GET", &format!("{v2}/c"), &[], "").await.json();
        whole["spec"]["host"] = "l".into();
        let updated = ask(&server, "PUT", &format!("{v2}/c"), &[], whole.to_string()).await;
        assert_eq!((updated.status, &updated.json()["spec"]["host"]), (200, &json!("l")));
        let dry =
            ask(&server, "PATCH", &format!("{v2}/c?dryRun=All"), &merge, json!({"spec": {"host": "m"}}).to_string())
                .await
                .json();
        assert_eq!(dry["spec"]["host"], "m");
        assert_eq!(ask(&server, "DELETE", &format!("{v2}/c"), &[], "").await.status, 200);
        assert_eq!(ask(&server, "DELETE", &v2, &[], "").await.status, 200);
        assert_eq!(ask(&server, "GET", &v1, &[], "").await.json()["items"], json!([]));
    }
}

#[tokio::test]
async fn a_watch_is_told_in_its_version_and_one_asks_for_all() {
    let server = server().await;
    let standin = Standin::new(V4);
    make(&server, DEFINITIONS, definition("v1", &standin.server.url(V4, "/convert"))).await;
    let (v1, v2) = (things("v1"), things("v2"));
    make(&server, &v1, json!({"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "a"}, "spec": {"hostPort": "h:1"}})).await;
    let mut watches = Vec::new();
    for _ in 0..3 {
        watches.push(Events::open(&server, &format!("{v2}?watch=true")).await);
    }
    for watch in &mut watches {
        let event = watch.next().await.unwrap();
        assert_eq!((&event["type"], &event["object"]["spec"]), (&json!("ADDED"), &json!({"host": "h", "port": "1"})));
    }
    standin.asked();
    let merge = [("content-type", "application/merge-patch+json")];
    ask(&server, "PATCH", &format!("{v1}/a"), &merge, json!({"spec": {"hostPort": "h:2"}}).to_string()).await;
    for watch in &mut watches {
        let event = watch.next().await.unwrap();
        assert_eq!((&event["type"], &event["object"]["spec"]["port"]), (&json!("MODIFIED"), &json!("2")));
    }
    assert_eq!(standin.asked(), [1], "one change, one call; what it was is known");
    ask(&server, "DELETE", &format!("{v1}/a"), &[], "").await;
    assert_eq!(watches[0].next().await.unwrap()["type"], "DELETED");
}

#[tokio::test]
async fn what_was_stored_before_the_storage_version_changed_is_converted_when_it_is_read_or_written() {
    let server = server().await;
    let standin = Standin::new(V4);
    let client = standin.server.url(V4, "/convert");
    make(&server, DEFINITIONS, definition("v1", &client)).await;
    make(&server, &things("v1"), json!({"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "a"}, "spec": {"hostPort": "h:1"}})).await;
    redefine(&server, "v2", &client).await;
    let stored = |server: &Arc<ApiServer>| {
        let entry = server.store.get("example.com/things/default/a").unwrap();
        let object: Value = serde_json::from_slice(entry.value()).unwrap();
        object["apiVersion"].clone()
    };
    assert_eq!(stored(&server), "example.com/v1");
    let read = |version: &'static str| {
        let server = Arc::clone(&server);
        async move { ask(&server, "GET", &format!("{}/a", things(version)), &[], "").await.json() }
    };
    assert_eq!(read("v1").await["spec"], json!({"hostPort": "h:1"}));
    assert_eq!(read("v2").await["spec"], json!({"host": "h", "port": "1"}));
    let merge = [("content-type", "application/merge-patch+json")];
    let patch = json!({"spec": {"hostPort": "h:2"}}).to_string();
    assert_eq!(ask(&server, "PATCH", &format!("{}/a", things("v1")), &merge, patch).await.status, 200);
    assert_eq!(stored(&server), "example.com/v2");
    assert_eq!(read("v1").await["spec"], json!({"hostPort": "h:2"}));
    assert_eq!(read("v2").await["spec"], json!({"host": "h", "port": "2"}));
}

#[tokio::test]
async fn a_webhook_that_cannot_convert_fails_the_request_in_upstreams_words() {
    let server = server().await;
    let standin = Standin::new(V4);
    make(&server, DEFINITIONS, definition("v1", &standin.server.url(V4, "/convert"))).await;
    make(&server, &things("v1"), json!({"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "a"}, "spec": {"hostPort": "h:1"}})).await;
    let of = "conversion webhook for example.com/v1, Kind=Thing";
    for (client, why) in [
        (standin.server.url(V4, "/fail"), format!("{of} failed: no way")),
        (
            standin.server.url(V4, "/rename"),
            format!("{of} returned invalid object: must have the same name: a != other"),
        ),
        (
            json!({"url": "https://127.0.0.1:1/x", "caBundle": standin.server.bundle}),
            format!(
                "{of} failed: Post \"https://127.0.0.1:1/x?timeout=30s\": dial tcp 127.0.0.1:1: Connection refused"
            ),
        ),
    ] {
        redefine(&server, "v1", &client).await;
        for path in [format!("{}/a", things("v2")), things("v2")] {
            let answer = ask(&server, "GET", &path, &[], "").await.json();
            assert_eq!(answer["code"], 500);
            assert!(answer["message"].as_str().unwrap().contains(&why), "{path}: {answer}");
        }
        let mut watch = Events::open(&server, &format!("{}?watch=true", things("v2"))).await;
        let event = watch.next().await.unwrap();
        assert_eq!(event["type"], "ERROR");
        assert!(event["object"]["message"].as_str().unwrap().contains(&why), "{event}");
        // The stored version needs nobody.
        assert_eq!(ask(&server, "GET", &things("v1"), &[], "").await.status, 200);
    }
}

#[tokio::test]
async fn webhooks_and_policies_see_the_version_that_they_ask_for() {
    let server = server().await;
    let standin = Standin::new(V6);
    make(&server, DEFINITIONS, definition("v1", &standin.server.url(V6, "/convert"))).await;
    let kinds = "/apis/admissionregistration.k8s.io/v1";
    let matched = json!({"resourceRules": [{"apiGroups": ["example.com"], "apiVersions": ["v2"], "resources": ["things"], "operations": ["*"]}]});
    let policy = json!({"metadata": {"name": "p"}, "spec": {"matchConstraints": matched,
        "validations": [{"expression": "request.operation == 'DELETE' || object.spec.host != 'bad'", "message": "a bad host"}]}});
    make(&server, &format!("{kinds}/validatingadmissionpolicies"), policy).await;
    let binding = json!({"metadata": {"name": "p"}, "spec": {"policyName": "p", "validationActions": ["Deny"]}});
    make(&server, &format!("{kinds}/validatingadmissionpolicybindings"), binding).await;
    let thing = |host: &str| json!({"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "a"}, "spec": {"hostPort": format!("{host}:1")}});
    make(&server, &things("v1"), thing("good")).await;
    let answer =
        ask(&server, "POST", &format!("{}?dryRun=All", things("v1")), &[], thing("bad").to_string()).await.json();
    assert!(answer["message"].as_str().unwrap().ends_with("denied request: a bad host"), "{answer}");
    // A mutating one changes it in its words.
    let mutation = json!({"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": "Object{spec: Object.spec{port: '7'}}"}});
    let policy = json!({"metadata": {"name": "m"}, "spec": {"matchConstraints": {"resourceRules": [{"apiGroups": ["example.com"],
        "apiVersions": ["v2"], "resources": ["things"], "operations": ["UPDATE"]}]}, "mutations": [mutation], "reinvocationPolicy": "Never"}});
    make(&server, &format!("{kinds}/mutatingadmissionpolicies"), policy).await;
    make(
        &server,
        &format!("{kinds}/mutatingadmissionpolicybindings"),
        json!({"metadata": {"name": "m"}, "spec": {"policyName": "m"}}),
    )
    .await;
    let merge = [("content-type", "application/merge-patch+json")];
    let patched = ask(
        &server,
        "PATCH",
        &format!("{}/a", things("v1")),
        &merge,
        json!({"spec": {"hostPort": "good:2"}}).to_string(),
    )
    .await
    .json();
    assert_eq!(patched["spec"]["hostPort"], "good:7", "{patched}");
    assert_eq!(ask(&server, "DELETE", &format!("{}/a", things("v1")), &[], "").await.status, 200);
}
