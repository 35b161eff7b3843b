//! Answers, lists and watches in protobuf say what they say in JSON, for every built-in kind that this server has objects of.

#![allow(missing_docs, clippy::unwrap_used)]

mod support;

use access::authn::User;
use apiserver::handle::Insider;
use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Full};
use serde_json::{Value, json};
use std::sync::Arc;
use support::{ask, make, testdata};

const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

/// Without what either form leaves out.
fn plain(value: &Value) -> Value {
    match value {
        Value::Object(map) => {
            let kept = map.iter().filter(|(key, _)| !matches!(key.as_str(), "kind" | "apiVersion"));
            let kept = kept.map(|(key, value)| (key.clone(), plain(value))).filter(|(_, value)| !is_nothing(value));
            Value::Object(kept.collect())
        }
        Value::Array(list) => list.iter().map(plain).collect(),
        other => other.clone(),
    }
}

fn is_nothing(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Object(map) => map.is_empty(),
        Value::Array(list) => list.is_empty(),
        Value::String(text) => text.is_empty(),
        _ => false,
    }
}

#[tokio::test]
async fn lists_and_objects_are_the_same_in_protobuf() {
    let server = apiserver::testing::server().await;
    let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i", "resources": {"limits": {"cpu": "500m"}}, "ports": [{"containerPort": 80}], "readinessProbe": {"httpGet": {"port": "http"}}}]}});
    make(&server, "/api/v1/namespaces/default/pods", pod).await;
    let service = json!({"metadata": {"name": "s"}, "spec": {"ipFamilyPolicy": "PreferDualStack", "ports": [{"port": 80, "targetPort": "http"}]}});
    make(&server, "/api/v1/namespaces/default/services", service).await;
    let discovery: Value = serde_json::from_slice(&std::fs::read(testdata("api/discovery.json")).unwrap()).unwrap();
    let mut seen = 0;
    for (path, document) in discovery.as_object().unwrap() {
        for resource in document["resources"].as_array().into_iter().flatten() {
            let name = resource["name"].as_str().unwrap();
            let lists = resource["verbs"].as_array().unwrap().contains(&json!("list"));
            if name.contains('/') || !lists {
                continue;
            }
            let collection = format!("{path}/{name}");
            let in_json = ask(&server, "GET", &collection, &[], "").await;
            if in_json.status != 200 {
                continue;
            }
            let reply = ask(&server, "GET", &collection, &[("accept", PROTOBUF)], "").await;
            assert_eq!(
                (reply.status, &reply.headers["content-type"]),
                (200, &PROTOBUF.parse().unwrap()),
                "{collection}"
            );
            let decoded = api::protobuf::decode(&reply.bytes, None).unwrap();
            let items = |list: &Value| {
                list["items"].as_array().map(|items| items.iter().map(plain).collect::<Vec<_>>()).unwrap_or_default()
            };
            let (got, want) = (items(&decoded), items(&in_json.json()));
            assert_eq!(got, want, "{collection}");
            seen += want.len();
        }
    }
    assert!(seen > 100, "{seen} objects");
    let one = ask(&server, "GET", "/api/v1/namespaces/default/pods/p", &[("accept", PROTOBUF)], "").await;
    assert_eq!(
        api::protobuf::decode(&one.bytes, None).unwrap()["spec"]["containers"][0]["resources"]["limits"]["cpu"],
        "500m"
    );
    let partial = format!("{PROTOBUF};as=PartialObjectMetadata;g=meta.k8s.io;v=v1");
    let one = ask(&server, "GET", "/api/v1/namespaces/default/pods/p", &[("accept", &partial)], "").await;
    assert_eq!(api::protobuf::decode(&one.bytes, None).unwrap()["metadata"]["name"], "p");
    let table = format!("{PROTOBUF};as=Table;g=meta.k8s.io;v=v1");
    assert_eq!(ask(&server, "GET", "/api/v1/pods", &[("accept", &table)], "").await.status, 406);
    assert_eq!(ask(&server, "GET", "/api/v1/pods?watch=true", &[("accept", "application/yaml")], "").await.status, 406);
}

#[tokio::test]
async fn a_watch_in_protobuf_has_frames_bookmarks_and_the_end_of_the_initial_events() {
    let server = apiserver::testing::server().await;
    let path = "/api/v1/namespaces/default/configmaps?watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true&timeoutSeconds=1";
    make(&server, "/api/v1/namespaces/default/configmaps", json!({"metadata": {"name": "a"}, "data": {"k": "v"}}))
        .await;
    let admin = User::new("admin", ["system:masters"]);
    let request = Request::get(path).header("accept", PROTOBUF).extension(Insider(admin)).body(Full::new(Bytes::new()));
    let response = apiserver::handle::handle(Arc::clone(&server), request.unwrap()).await.unwrap();
    assert_eq!(response.headers()["content-type"], "application/vnd.kubernetes.protobuf;stream=watch");
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    let mut rest = &bytes[..];
    let mut events = Vec::new();
    while !rest.is_empty() {
        let length = u32::from_be_bytes(rest[..4].try_into().unwrap()) as usize;
        let frame = &rest[4..4 + length];
        rest = &rest[4 + length..];
        // Field 1 is the word, field 2 a RawExtension whose field 1 is an object of its own.
        let word = String::from_utf8(frame[2..2 + usize::from(frame[1])].to_vec()).unwrap();
        let at = frame.windows(4).position(|window| window == b"k8s\0").unwrap();
        events.push((word, api::protobuf::decode(&frame[at..], None).unwrap()));
    }
    let words: Vec<&str> = events.iter().map(|(word, _)| word.as_str()).collect();
    assert_eq!(words[..2], ["ADDED", "BOOKMARK"], "{events:?}");
    assert_eq!(events[0].1["data"]["k"], "v");
    assert_eq!(events[1].1["metadata"]["annotations"]["k8s.io/initial-events-end"], "true");
}
