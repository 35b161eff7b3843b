//! Which objects a list finds by field and label selectors: what a real kube-apiserver found against what this one finds.
//!
//! `testdata/select/objects.jsonl.gz` has the writes that make the objects, `rows.jsonl.gz` the lists: path, query, and in
//! `got` the status code and the names.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use apiserver::{ApiServer, testing};
use serde_json::{Value, json};
use std::sync::Arc;
use support::{Events, ask, lines, make};

const JSON: (&str, &str) = ("content-type", "application/json");
const MERGE: (&str, &str) = ("content-type", "application/merge-patch+json");

/// What the rows count; a server has namespaces and services of its own.
const OWN: [&str; 7] = ["n1", "n2", "n3", "sel-a", "sel-b", "default", "gadgets.sel.example.com"];

async fn furnished() -> Arc<ApiServer> {
    let server = testing::server().await;
    for write in lines("select/objects.jsonl.gz") {
        let path = write["path"].as_str().unwrap();
        if write["method"] == "POST" {
            make(&server, path, write["body"].clone()).await;
        } else {
            assert_eq!(ask(&server, "PATCH", path, &[MERGE], write["body"].to_string()).await.status, 200, "{path}");
        }
    }
    server
}

fn escape(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02X}")).collect()
}

async fn found(server: &Arc<ApiServer>, path: &str, query: &Value) -> Value {
    let query: Vec<String> = query
        .as_object()
        .unwrap()
        .iter()
        .map(|(name, value)| format!("{name}={}", escape(value.as_str().unwrap())))
        .collect();
    let reply = ask(server, "GET", &format!("{path}?{}", query.join("&")), &[], "").await;
    if reply.status != 200 {
        return json!({"code": reply.status});
    }
    let list = reply.json();
    let mut names: Vec<String> = list["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|item| {
            (item["metadata"]["namespace"].as_str().unwrap_or_default(), item["metadata"]["name"].as_str().unwrap())
        })
        .filter(|(namespace, name)| namespace.starts_with("sel-") || namespace.is_empty() && OWN.contains(name))
        .map(|(namespace, name)| format!("{namespace}/{name}"))
        .collect();
    names.sort();
    json!({"code": 200, "names": names})
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lists_by_selector_find_what_upstream_finds() {
    let server = furnished().await;
    let (mut differ, rows) = (Vec::new(), lines("select/rows.jsonl.gz"));
    for row in &rows {
        let here = found(&server, row["path"].as_str().unwrap(), &row["query"]).await;
        if here != row["got"] {
            differ.push(format!("{} {}: {} here {here}", row["path"], row["query"], row["got"]));
        }
    }
    assert!(differ.is_empty(), "{} of {} differ:\n{}", differ.len(), rows.len(), differ.join("\n"));
}

async fn names(server: &Arc<ApiServer>, path: &str, selector: &str) -> Vec<String> {
    let found = found(server, path, &json!({"fieldSelector": selector})).await;
    found["names"].as_array().unwrap().iter().map(|name| name.as_str().unwrap().to_owned()).collect()
}

const CORE_EVENTS: &str = "/api/v1/namespaces/sel-a/events";
const NEW_EVENTS: &str = "/apis/events.k8s.io/v1/namespaces/sel-a/events";

/// Both show the same stored objects: what one was asked must not change what the other finds.
#[tokio::test]
async fn the_two_apis_of_events_do_not_spoil_each_others_selectors() {
    for core_first in [true, false] {
        let server = furnished().await;
        let core =
            async || assert_eq!(names(&server, CORE_EVENTS, "involvedObject.name=p0").await, ["sel-a/e0", "sel-a/f0"]);
        let new = async || assert_eq!(names(&server, NEW_EVENTS, "regarding.name=p0").await, ["sel-a/e0", "sel-a/f0"]);
        if core_first {
            core().await;
            new().await;
        } else {
            new().await;
            core().await;
        }
        core().await;
        assert_eq!(names(&server, CORE_EVENTS, "source=d").await, ["sel-a/f0", "sel-a/f1", "sel-a/f2"]);
        assert_eq!(names(&server, NEW_EVENTS, "reportingController=c").await, ["sel-a/e1"]);
    }
}

#[tokio::test]
async fn what_is_false_when_absent_is_found_as_false() {
    let server = furnished().await;
    assert_eq!(names(&server, "/api/v1/nodes", "spec.unschedulable=false").await, ["/n1", "/n3"]);
    assert_eq!(names(&server, "/api/v1/nodes", "spec.unschedulable!=false").await, ["/n2"]);
    assert_eq!(names(&server, "/api/v1/namespaces/sel-a/pods", "spec.hostNetwork!=false").await, ["sel-a/p5"]);
}

/// Versions of one kind share their objects, each with its own fields and defaults.
#[tokio::test]
async fn versions_of_a_custom_kind_select_by_their_own_fields() {
    let server = testing::server().await;
    let version = |name: &str, selectable: &[&str], shape: Value| {
        let spec = json!({"type": "object", "properties": {"color": {"type": "string"}, "shape": shape}});
        let selectable: Vec<Value> = selectable.iter().map(|field| json!({"jsonPath": field})).collect();
        json!({"name": name, "served": true, "storage": name == "v1", "selectableFields": selectable,
            "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}}})
    };
    let versions = [
        version("v1", &[".spec.color"], json!({"type": "string"})),
        version("v2", &[".spec.shape", ".spec.color"], json!({"type": "string", "default": "square"})),
    ];
    let names_of = json!({"plural": "toys", "singular": "toy", "kind": "Toy", "listKind": "ToyList"});
    let spec = json!({"group": "sel.example.com", "scope": "Cluster", "names": names_of, "versions": versions});
    let definition = json!({"metadata": {"name": "toys.sel.example.com"}, "spec": spec});
    make(&server, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition).await;
    for (name, spec) in [("n1", json!({"color": "red"})), ("n2", json!({"color": "blue", "shape": "round"}))] {
        let toy = json!({"apiVersion": "sel.example.com/v1", "kind": "Toy", "metadata": {"name": name}, "spec": spec});
        make(&server, "/apis/sel.example.com/v1/toys", toy).await;
    }
    let (v1, v2) = ("/apis/sel.example.com/v1/toys", "/apis/sel.example.com/v2/toys");
    for _ in 0..2 {
        assert_eq!(names(&server, v1, "spec.color=red").await, ["/n1"]);
        assert_eq!(names(&server, v2, "spec.shape=square").await, ["/n1"]);
        assert_eq!(names(&server, v2, "spec.shape!=square,spec.color=blue").await, ["/n2"]);
    }
    for (path, selector) in [(v1, "spec.shape=round"), (v2, "metadata.namespace=")] {
        assert_eq!(found(&server, path, &json!({"fieldSelector": selector})).await, json!({"code": 400}), "{selector}");
    }
}

/// What a watch tells: type and name, until the bookmark object of the test.
async fn received(watch: &mut Events, last: &str) -> Vec<(String, String)> {
    let mut events = Vec::new();
    loop {
        let event = watch.next().await.unwrap();
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let one = (text(&event["type"]), text(&event["object"]["metadata"]["name"]));
        if one.1 == last {
            return events;
        }
        events.push(one);
    }
}

#[tokio::test]
async fn a_watch_tells_of_objects_that_enter_and_leave_its_selection() {
    let server = furnished().await;
    let patch = async |path: &str, body: Value| {
        let reply = ask(&server, "PATCH", path, &[MERGE], body.to_string()).await;
        assert_eq!(reply.status, 200, "{path}: {}", reply.json());
        reply.json()["metadata"]["resourceVersion"].as_str().unwrap().to_owned()
    };
    let start = ask(&server, "GET", "/api/v1/nodes", &[], "").await.json()["metadata"]["resourceVersion"].clone();
    let start = start.as_str().unwrap();
    let path = format!("/api/v1/nodes?watch=1&resourceVersion={start}&fieldSelector=spec.unschedulable%3Dfalse");
    let mut schedulable = Events::open(&server, &path).await;
    let mut named = Events::open(
        &server,
        &format!("/api/v1/nodes?watch=1&resourceVersion={start}&fieldSelector=metadata.name%3Dn1"),
    )
    .await;
    let mut labelled =
        Events::open(&server, &format!("/api/v1/nodes?watch=1&resourceVersion={start}&labelSelector=a+in+(1,9)")).await;
    let left = patch("/api/v1/nodes/n1", json!({"spec": {"unschedulable": true}})).await;
    patch("/api/v1/nodes/n2", json!({"spec": {"unschedulable": null}, "metadata": {"labels": {"a": "9"}}})).await;
    patch("/api/v1/nodes/n3", json!({"metadata": {"labels": {"x": "y"}}})).await;
    patch("/api/v1/nodes/n1", json!({"metadata": {"labels": {"a": "2"}}})).await;
    let n11 = json!({"metadata": {"name": "n11"}});
    make(&server, "/api/v1/nodes", n11).await;
    for name in ["n1", "n2"] {
        assert_eq!(ask(&server, "DELETE", &format!("/api/v1/nodes/{name}"), &[JSON], "").await.status, 200);
    }
    make(&server, "/api/v1/nodes", json!({"metadata": {"name": "z", "labels": {"a": "1"}}})).await;

    let first = schedulable.next().await.unwrap();
    // As it was when it was last in sight, at the revision at which it left.
    assert_eq!((&first["type"], &first["object"]["metadata"]["name"]), (&json!("DELETED"), &json!("n1")));
    assert_eq!(first["object"]["spec"]["unschedulable"], Value::Null);
    assert_eq!(first["object"]["metadata"]["resourceVersion"], *left);
    let pairs = |all: &[(&str, &str)]| all.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect::<Vec<_>>();
    assert_eq!(
        received(&mut schedulable, "z").await,
        pairs(&[("ADDED", "n2"), ("MODIFIED", "n3"), ("ADDED", "n11"), ("DELETED", "n2")])
    );
    assert_eq!(
        received(&mut labelled, "z").await,
        pairs(&[("MODIFIED", "n1"), ("ADDED", "n2"), ("DELETED", "n1"), ("DELETED", "n2")])
    );
    for word in ["MODIFIED", "MODIFIED", "DELETED"] {
        let event = named.next().await.unwrap();
        assert_eq!((&event["type"], &event["object"]["metadata"]["name"]), (&json!(word), &json!("n1")));
    }
}

/// Kubelets ask for the Pods of their node: found by an index, and told of what comes, changes and goes.
#[tokio::test]
async fn pods_are_listed_and_watched_by_their_node() {
    let server = furnished().await;
    let pods = "/api/v1/namespaces/sel-a/pods";
    assert_eq!(names(&server, "/api/v1/pods", "spec.nodeName=n2").await, ["sel-a/p1", "sel-b/p1"]);
    assert_eq!(names(&server, pods, "spec.nodeName=n1,metadata.name!=p1").await, ["sel-a/p3"]);
    assert_eq!(names(&server, pods, "spec.nodeName=n1,spec.nodeName=n2").await, Vec::<String>::new());
    let mut old =
        Events::open(&server, "/api/v1/pods?watch=1&fieldSelector=spec.nodeName%3Dn2&resourceVersion=0").await;
    for name in ["sel-a", "sel-b"] {
        let event = old.next().await.unwrap();
        assert_eq!((&event["type"], &event["object"]["metadata"]["namespace"]), (&json!("ADDED"), &json!(name)));
    }
    let target = json!({"metadata": {"name": "p0"}, "target": {"kind": "Node", "name": "n2"}}).to_string();
    assert_eq!(ask(&server, "POST", &format!("{pods}/p0/binding"), &[JSON], target).await.status, 201);
    let other = json!({"metadata": {"labels": {"x": "y"}}}).to_string();
    for name in ["p3", "p1"] {
        assert_eq!(ask(&server, "PATCH", &format!("{pods}/{name}"), &[MERGE], other.clone()).await.status, 200);
    }
    let delete = format!("{pods}/p0?gracePeriodSeconds=0");
    assert_eq!(ask(&server, "DELETE", &delete, &[JSON], "").await.status, 200);
    for (word, name) in [("ADDED", "p0"), ("MODIFIED", "p1"), ("DELETED", "p0")] {
        let event = old.next().await.unwrap();
        assert_eq!((&event["type"], &event["object"]["metadata"]["name"]), (&json!(word), &json!(name)));
    }
    assert_eq!(names(&server, pods, "spec.nodeName=n2").await, ["sel-a/p1"]);
}

#[tokio::test]
async fn a_watch_of_one_name_begins_with_that_object_alone() {
    let server = furnished().await;
    make(&server, "/api/v1/nodes", json!({"metadata": {"name": "n10"}})).await;
    for path in ["/api/v1/nodes?watch=1&fieldSelector=metadata.name%3Dn1", "/api/v1/watch/nodes/n1"] {
        let mut watch = Events::open(&server, path).await;
        let event = watch.next().await.unwrap();
        assert_eq!((&event["type"], &event["object"]["metadata"]["name"]), (&json!("ADDED"), &json!("n1")), "{path}");
        make(&server, "/api/v1/nodes", json!({"metadata": {"name": "n12"}})).await;
        assert_eq!(ask(&server, "DELETE", "/api/v1/nodes/n12", &[JSON], "").await.status, 200);
        ask(
            &server,
            "PATCH",
            "/api/v1/nodes/n1",
            &[MERGE],
            json!({"metadata": {"labels": {"at": path.len().to_string()}}}).to_string(),
        )
        .await;
        let event = watch.next().await.unwrap();
        assert_eq!(
            (&event["type"], &event["object"]["metadata"]["name"]),
            (&json!("MODIFIED"), &json!("n1")),
            "{path}"
        );
    }
    let other = "/api/v1/watch/nodes/n1?fieldSelector=metadata.name%3Dn2";
    assert_eq!(ask(&server, "GET", other, &[], "").await.status, 400);
}

#[tokio::test]
async fn a_deletion_of_many_takes_what_is_selected() {
    let server = furnished().await;
    for (query, left) in [
        ("fieldSelector=involvedObject.name%3Dp1", &["e0", "e2", "f0", "f2"][..]),
        ("fieldSelector=source%3Ds", &["e2", "f0", "f2"][..]),
        ("fieldSelector=metadata.name%3Df2", &["e2", "f0"][..]),
        ("labelSelector=nothing", &["e2", "f0"][..]),
    ] {
        assert_eq!(ask(&server, "DELETE", &format!("{CORE_EVENTS}?{query}"), &[JSON], "").await.status, 200);
        let left: Vec<String> = left.iter().map(|name| format!("sel-a/{name}")).collect();
        assert_eq!(names(&server, CORE_EVENTS, "").await, left, "{query}");
    }
    assert_eq!(
        ask(&server, "DELETE", &format!("{CORE_EVENTS}?fieldSelector=bogus%3D1"), &[JSON], "").await.status,
        400
    );
}

/// Pages are cut by what is selected; how many are left is not told, because nobody counted.
#[tokio::test]
async fn pages_of_a_selection_hold_as_many_as_asked() {
    let server = furnished().await;
    let (mut token, mut pages) = (String::new(), Vec::new());
    loop {
        let path = format!("/api/v1/pods?limit=3&fieldSelector=spec.nodeName%3D&continue={token}");
        let page = ask(&server, "GET", &path, &[], "").await.json();
        assert!(page["metadata"].get("remainingItemCount").is_none());
        let items = page["items"].as_array().unwrap();
        pages.push(items.iter().map(|item| item["metadata"]["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>());
        match page["metadata"]["continue"].as_str() {
            Some(next) => next.clone_into(&mut token),
            None => break,
        }
    }
    // Something follows p4 in the store, so that there is a third page, as upstream has it.
    assert_eq!(pages, [vec!["p0", "p2", "p4"], vec!["p0", "p2", "p4"], vec![]]);
    for (query, found) in [("limit=2&resourceVersion=0", 6), ("limit=-1", 6), ("limit=2", 2)] {
        let page = ask(&server, "GET", &format!("/api/v1/namespaces/sel-a/pods?{query}"), &[], "").await.json();
        assert_eq!(page["items"].as_array().unwrap().len(), found, "{query}");
        assert_eq!(page["metadata"]["continue"].is_string(), found == 2, "{query}");
    }
    let page = ask(&server, "GET", &format!("{CORE_EVENTS}?limit=2&resourceVersion=0"), &[], "").await.json();
    assert_eq!(page["items"].as_array().unwrap().len(), 2, "events are never read from a cache");
    for query in ["limit=", "limit=x", "limit=1.5"] {
        assert_eq!(ask(&server, "GET", &format!("/api/v1/pods?{query}"), &[], "").await.status, 400, "{query}");
    }
    let one =
        ask(&server, "GET", "/api/v1/namespaces/sel-a/pods?limit=1&fieldSelector=metadata.name%3Dp1", &[], "").await;
    assert!(one.json()["metadata"].get("continue").is_none());
}
