//! Custom resources from definition to deletion, as a client meets them.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod lifecycle;
#[path = "../support/mod.rs"]
mod support;

use apiserver::{ApiServer, testing};
use serde_json::{Value, json};
use std::{sync::Arc, time::Duration};
use support::{Events, PATIENCE, Reply, ask};

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const WIDGETS: &str = "/apis/example.com/v1/namespaces/default/widgets";
const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";

fn schema() -> Value {
    json!({"type": "object", "required": ["spec"], "properties": {
        "spec": {"type": "object", "required": ["size"],
            "x-kubernetes-validations": [
                {"rule": "self.size <= self.most", "message": "size over most"},
                {"rule": "self.color == oldSelf.color", "message": "color is fixed", "fieldPath": ".color", "reason": "FieldValueForbidden"}],
            "properties": {
                "size": {"type": "integer", "minimum": 0},
                "most": {"type": "integer", "default": 10},
                "color": {"type": "string", "default": "red", "enum": ["red", "green"], "maxLength": 9},
                "addresses": {"type": "array", "maxItems": 2, "x-kubernetes-list-type": "set",
                    "items": {"type": "string", "maxLength": 45,
                        "x-kubernetes-validations": [{"rule": "isIP(self)", "messageExpression": "'not an address: ' + self"}]}},
                "ports": {"type": "array", "maxItems": 9, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
                    "items": {"type": "object", "required": ["name"], "properties": {
                        "name": {"type": "string", "maxLength": 15}, "port": {"type": "integer"}}}}}},
        "status": {"type": "object", "properties": {
            "size": {"type": "integer"}, "selector": {"type": "string"}, "phase": {"type": "string"}}}}})
}

fn version(name: &str, storage: bool) -> Value {
    json!({"name": name, "served": true, "storage": storage, "schema": {"openAPIV3Schema": schema()},
        "subresources": {"status": {}, "scale": {"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.size",
            "labelSelectorPath": ".status.selector"}},
        "selectableFields": [{"jsonPath": ".spec.color"}],
        "additionalPrinterColumns": [
            {"name": "Size", "type": "integer", "jsonPath": ".spec.size"},
            {"name": "Color", "type": "string", "jsonPath": ".spec.color", "priority": 1}]})
}

fn definition() -> Value {
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {"group": "example.com", "scope": "Namespaced",
            "names": {"plural": "widgets", "kind": "Widget", "shortNames": ["wd"], "categories": ["all"]},
            "versions": [version("v1", true), version("v1beta1", false)]}})
}

fn widget(name: &str, spec: Value) -> Value {
    json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": name}, "spec": spec})
}

async fn send(server: &Arc<ApiServer>, method: &str, path: &str, body: &Value) -> Reply {
    let kind = match method {
        "PATCH" => "application/merge-patch+json",
        _ => "application/json",
    };
    let body = if body.is_null() { String::new() } else { body.to_string() };
    ask(server, method, path, &[("content-type", kind)], body).await
}

async fn get(server: &Arc<ApiServer>, path: &str) -> Value {
    ask(server, "GET", path, &[], "").await.json()
}

fn condition(object: &Value, kind: &str) -> (String, String) {
    let conditions = object["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let found = conditions.into_iter().find(|one| one["type"] == kind).unwrap_or_default();
    let text = |key: &str| found[key].as_str().unwrap_or_default().to_owned();
    (text("status"), text("reason"))
}

/// Asks until the answer is as wanted.
async fn until(server: &Arc<ApiServer>, path: &str, wanted: impl Fn(&Reply) -> bool) -> Value {
    let mut last = String::new();
    let wait = async {
        loop {
            let reply = ask(server, "GET", path, &[], "").await;
            if wanted(&reply) {
                return reply.json();
            }
            last = String::from_utf8_lossy(&reply.bytes).into_owned();
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    match tokio::time::timeout(PATIENCE, wait).await {
        Ok(found) => found,
        Err(_) => panic!("{path} stays {last}"),
    }
}

async fn define(server: &Arc<ApiServer>, definition: &Value) -> Value {
    let reply = send(server, "POST", DEFINITIONS, definition).await;
    assert_eq!(reply.status, 201, "{}", reply.json());
    let path = format!("{DEFINITIONS}/{}", definition["metadata"]["name"].as_str().unwrap());
    until(server, &path, |reply| condition(&reply.json(), "Established").0 == "True").await
}

async fn with_widgets() -> Arc<ApiServer> {
    let server = testing::server().await;
    define(&server, &definition()).await;
    server
}

fn names(list: &Value) -> Vec<&str> {
    list["items"].as_array().unwrap().iter().map(|item| item["metadata"]["name"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn a_definition_is_accepted_and_its_routes_are_open_when_it_says_so() {
    let server = testing::server().await;
    assert_eq!(ask(&server, "GET", WIDGETS, &[], "").await.status, 404);
    let established = define(&server, &definition()).await;
    assert_eq!(condition(&established, "NamesAccepted"), ("True".into(), "NoConflicts".into()));
    assert_eq!(condition(&established, "Established"), ("True".into(), "InitialNamesAccepted".into()));
    assert_eq!(established["status"]["storedVersions"], json!(["v1"]));
    let accepted = json!({"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList",
        "shortNames": ["wd"], "categories": ["all"]});
    assert_eq!(established["status"]["acceptedNames"], accepted);
    assert_eq!(established["metadata"]["generation"], 1);
    assert_eq!(names(&get(&server, WIDGETS).await), Vec::<&str>::new());
}

#[tokio::test]
async fn discovery_shows_the_kind_in_both_forms() {
    let server = with_widgets().await;
    let group = get(&server, "/apis/example.com").await;
    assert_eq!(group["preferredVersion"]["groupVersion"], "example.com/v1");
    let resources = get(&server, "/apis/example.com/v1").await;
    let shown: Vec<&str> =
        resources["resources"].as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap()).collect();
    assert_eq!(shown, ["widgets", "widgets/scale", "widgets/status"]);
    let main = &resources["resources"][0];
    assert_eq!(
        (&main["shortNames"], &main["categories"], &main["kind"]),
        (&json!(["wd"]), &json!(["all"]), &json!("Widget"))
    );

    let accept = "application/json;v=v2;g=apidiscovery.k8s.io;as=APIGroupDiscoveryList";
    let all = ask(&server, "GET", "/apis", &[("accept", accept)], "").await.json();
    let group = all["items"].as_array().unwrap().iter().find(|item| item["metadata"]["name"] == "example.com").unwrap();
    assert_eq!(group["versions"].as_array().unwrap().len(), 2);
    assert_eq!(group["versions"][0]["resources"][0]["responseKind"]["kind"], "Widget");
}

#[tokio::test]
async fn openapi_shows_the_schema() {
    let server = with_widgets().await;
    let document = get(&server, "/openapi/v3/apis/example.com/v1").await;
    let widget = &document["components"]["schemas"]["com.example.v1.Widget"];
    assert_eq!(widget["properties"]["spec"]["properties"]["color"]["default"], "red", "{widget}");
    assert!(document["paths"].get("/apis/example.com/v1/namespaces/{namespace}/widgets").is_some());
    let two = get(&server, "/openapi/v2").await;
    assert_eq!(two["definitions"]["com.example.v1.Widget"]["properties"]["spec"]["type"], "object");
}

#[tokio::test]
async fn objects_are_pruned_and_defaulted() {
    let server = with_widgets().await;
    let made = send(&server, "POST", WIDGETS, &widget("a", json!({"size": 3, "unknown": 1}))).await;
    assert_eq!(made.status, 201, "{}", made.json());
    let made = made.json();
    assert_eq!(made["spec"], json!({"size": 3, "most": 10, "color": "red"}));
    assert_eq!((&made["apiVersion"], &made["kind"]), (&json!("example.com/v1"), &json!("Widget")));
    assert_eq!(get(&server, &format!("{WIDGETS}/a")).await, made);
    let strict = send(
        &server,
        "POST",
        &format!("{WIDGETS}?fieldValidation=Strict"),
        &widget("b", json!({"size": 3, "unknown": 1})),
    )
    .await;
    assert_eq!(strict.status, 400);
    assert!(strict.json()["message"].as_str().unwrap().contains("unknown field \"spec.unknown\""), "{}", strict.json());
}

#[tokio::test]
async fn what_the_schema_or_a_rule_refuses_is_told_by_field() {
    let server = with_widgets().await;
    for (spec, expected) in [
        (
            json!({"size": "x"}),
            vec![
                ("spec.size", "FieldValueTypeInvalid"),
                ("spec.size", "FieldValueInvalid"),
                ("<nil>", "FieldValueInvalid"),
            ],
        ),
        (json!({}), vec![("spec.size", "FieldValueRequired"), ("<nil>", "FieldValueInvalid")]),
        (json!({"size": -1}), vec![("spec.size", "FieldValueInvalid"), ("spec.size", "FieldValueInvalid")]),
        (
            json!({"size": 1, "color": "blue"}),
            vec![("spec.color", "FieldValueNotSupported"), ("<nil>", "FieldValueInvalid")],
        ),
        (json!({"size": 11}), vec![("spec", "FieldValueInvalid")]),
        (json!({"size": 1, "addresses": ["192.0.2.1", "2001:db8::1"]}), vec![]),
        (
            json!({"size": 1, "addresses": ["192.0.2.1", "2001:db8::x"]}),
            vec![("spec.addresses[1]", "FieldValueInvalid")],
        ),
        (json!({"size": 1, "addresses": ["::1", "::1"]}), vec![("spec.addresses[1]", "FieldValueDuplicate")]),
        (json!({"size": 1, "ports": [{"name": "a"}, {"name": "a"}]}), vec![("spec.ports[1]", "FieldValueDuplicate")]),
    ] {
        let reply = send(&server, "POST", &format!("{WIDGETS}?dryRun=All"), &widget("a", spec.clone())).await;
        let reported = reply.json();
        let causes = reported["details"]["causes"].as_array().cloned().unwrap_or_default();
        let causes: Vec<_> =
            causes.iter().map(|one| (one["field"].as_str().unwrap(), one["reason"].as_str().unwrap())).collect();
        assert_eq!(causes, expected, "{spec}: {reported}");
        assert_eq!(reply.status, if expected.is_empty() { 201 } else { 422 }, "{spec}");
    }
    let reported = send(&server, "POST", WIDGETS, &widget("a", json!({"size": 11}))).await.json();
    assert_eq!(reported["message"], "Widget.example.com \"a\" is invalid: spec: Invalid value: size over most");
    let reported = send(&server, "POST", WIDGETS, &widget("a", json!({"size": 1, "addresses": ["x"]}))).await.json();
    assert_eq!(
        reported["message"],
        "Widget.example.com \"a\" is invalid: spec.addresses[0]: Invalid value: \"x\": not an address: x"
    );
}

#[tokio::test]
async fn transition_rules_hold_on_update() {
    let server = with_widgets().await;
    send(&server, "POST", WIDGETS, &widget("a", json!({"size": 3}))).await;
    let path = format!("{WIDGETS}/a");
    let refused = send(&server, "PATCH", &path, &json!({"spec": {"color": "green"}})).await;
    assert_eq!(refused.json()["message"], "Widget.example.com \"a\" is invalid: spec.color: Forbidden: color is fixed");
    let grown = send(&server, "PATCH", &path, &json!({"spec": {"size": 4}})).await;
    assert_eq!((grown.status, &grown.json()["metadata"]["generation"]), (200, &json!(2)));
    let same = send(&server, "PATCH", &path, &json!({"spec": {"size": 4}})).await.json();
    assert_eq!(same["metadata"]["resourceVersion"], grown.json()["metadata"]["resourceVersion"]);
}

#[tokio::test]
async fn a_stricter_schema_leaves_what_is_stored_editable() {
    let server = with_widgets().await;
    send(&server, "POST", WIDGETS, &widget("a", json!({"size": 9, "most": 9}))).await;
    let path = format!("{DEFINITIONS}/widgets.example.com");
    let mut stricter = get(&server, &path).await;
    for version in stricter["spec"]["versions"].as_array_mut().unwrap() {
        version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["most"] =
            json!({"type": "integer", "default": 5, "maximum": 5});
    }
    assert_eq!(send(&server, "PUT", &path, &stricter).await.status, 200);
    let new = widget("b", json!({"size": 1, "most": 9}));
    let wait = async {
        while send(&server, "POST", &format!("{WIDGETS}?dryRun=All"), &new).await.status != 422 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(PATIENCE, wait).await.expect("the new schema is in force");
    let path = format!("{WIDGETS}/a");
    let changed = send(&server, "PATCH", &path, &json!({"spec": {"size": 8}})).await;
    assert_eq!(changed.status, 200, "{}", changed.json());
    assert_eq!(send(&server, "PATCH", &path, &json!({"spec": {"most": 8}})).await.status, 422);
}

#[tokio::test]
async fn a_later_default_shows_up_on_what_was_stored_before() {
    let server = with_widgets().await;
    send(&server, "POST", WIDGETS, &widget("a", json!({"size": 1}))).await;
    let path = format!("{DEFINITIONS}/widgets.example.com");
    let mut richer = get(&server, &path).await;
    for version in richer["spec"]["versions"].as_array_mut().unwrap() {
        let spec = &mut version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"];
        spec["extra"] = json!({"type": "string", "default": "yes"});
    }
    assert_eq!(send(&server, "PUT", &path, &richer).await.status, 200);
    let path = format!("{WIDGETS}/a");
    let shown = until(&server, &path, |reply| reply.json()["spec"]["extra"] == "yes").await;
    assert_eq!(get(&server, WIDGETS).await["items"][0]["spec"], shown["spec"]);
    let mut watch = Events::open(&server, &format!("{WIDGETS}?watch=1")).await;
    assert_eq!(watch.next().await.unwrap()["object"], shown);
    // The next write stores it.
    let changed = send(&server, "PATCH", &path, &json!({"spec": {"size": 2}})).await.json();
    assert_eq!(changed["spec"], json!({"size": 2, "most": 10, "color": "red", "extra": "yes"}));
    assert_eq!(watch.next().await.unwrap()["object"], changed);
}

#[tokio::test]
async fn tables_have_the_columns_of_the_definition() {
    let server = with_widgets().await;
    send(&server, "POST", WIDGETS, &widget("a", json!({"size": 3}))).await;
    let table = ask(&server, "GET", WIDGETS, &[("accept", TABLE)], "").await.json();
    let columns: Vec<_> = table["columnDefinitions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| (one["name"].as_str().unwrap(), one["priority"].as_i64().unwrap()))
        .collect();
    assert_eq!(columns, [("Name", 0), ("Size", 0), ("Color", 1)]);
    assert_eq!(table["rows"][0]["cells"], json!(["a", 3, "red"]));
    let of_definitions = ask(&server, "GET", DEFINITIONS, &[("accept", TABLE)], "").await.json();
    assert_eq!(of_definitions["rows"][0]["cells"][0], "widgets.example.com");
}

#[tokio::test]
async fn status_and_scale_are_paths_of_their_own() {
    let server = with_widgets().await;
    let mut made = widget("a", json!({"size": 3}));
    made["status"] = json!({"phase": "smuggled"});
    let made = send(&server, "POST", WIDGETS, &made).await.json();
    assert_eq!(made.get("status"), None);
    let status = format!("{WIDGETS}/a/status");
    let changed =
        send(&server, "PATCH", &status, &json!({"status": {"size": 2, "selector": "app=x"}, "spec": {"size": 9}}))
            .await;
    assert_eq!(changed.status, 200, "{}", changed.json());
    assert_eq!((&changed.json()["spec"]["size"], &changed.json()["status"]["size"]), (&json!(3), &json!(2)));
    assert_eq!(changed.json()["metadata"]["generation"], 1);
    let wrong = send(&server, "PATCH", &status, &json!({"status": {"size": "x"}})).await;
    assert_eq!((wrong.status, &wrong.json()["details"]["causes"][0]["field"]), (422, &json!("status.size")));

    let scale = format!("{WIDGETS}/a/scale");
    let shown = get(&server, &scale).await;
    assert_eq!(
        (&shown["kind"], &shown["spec"], &shown["status"]),
        (&json!("Scale"), &json!({"replicas": 3}), &json!({"replicas": 2, "selector": "app=x"}))
    );
    let scaled = send(&server, "PATCH", &scale, &json!({"spec": {"replicas": 5}})).await;
    assert_eq!(scaled.status, 200, "{}", scaled.json());
    assert_eq!(get(&server, &format!("{WIDGETS}/a")).await["spec"]["size"], 5);
    let refused = send(&server, "PATCH", &scale, &json!({"spec": {"replicas": 50}})).await;
    assert_eq!(refused.status, 422, "{}", refused.json());
}

#[tokio::test]
async fn every_served_version_shows_the_same_object() {
    let server = with_widgets().await;
    let beta = WIDGETS.replace("/v1/", "/v1beta1/");
    let mut old = widget("a", json!({"size": 3}));
    old["apiVersion"] = json!("example.com/v1beta1");
    let made = send(&server, "POST", &beta, &old).await;
    assert_eq!((made.status, &made.json()["apiVersion"]), (201, &json!("example.com/v1beta1")));
    let shown = get(&server, &format!("{WIDGETS}/a")).await;
    assert_eq!((&shown["apiVersion"], &shown["spec"]["size"]), (&json!("example.com/v1"), &json!(3)));
    let changed = send(&server, "PATCH", &format!("{WIDGETS}/a"), &json!({"spec": {"size": 4}})).await.json();
    assert_eq!(changed["apiVersion"], "example.com/v1");
    let list = get(&server, &beta).await;
    assert_eq!(
        (&list["items"][0]["apiVersion"], &list["items"][0]["spec"]["size"]),
        (&json!("example.com/v1beta1"), &json!(4))
    );
    let wrong = send(&server, "POST", &beta, &widget("b", json!({"size": 3}))).await;
    assert_eq!(wrong.status, 400, "{}", wrong.json());
    // However it is written, it is stored in the storage version, and writing the same again writes nothing.
    let stored = server.store.get("example.com/widgets/default/a").unwrap();
    assert!(stored.value().starts_with(br#"{"apiVersion":"example.com/v1","kind":"Widget""#), "{:?}", stored.value());
    let again = send(&server, "PUT", &format!("{beta}/a"), &list["items"][0]).await.json();
    assert_eq!(again["metadata"]["resourceVersion"], changed["metadata"]["resourceVersion"]);
}

#[tokio::test]
async fn a_version_that_is_no_longer_served_is_gone_and_the_rest_stays() {
    let server = with_widgets().await;
    send(&server, "POST", WIDGETS, &widget("a", json!({"size": 3}))).await;
    let beta = WIDGETS.replace("/v1/", "/v1beta1/");
    assert_eq!(names(&get(&server, &beta).await), ["a"]);
    let path = format!("{DEFINITIONS}/widgets.example.com");
    let mut changed = get(&server, &path).await;
    changed["spec"]["versions"][1]["served"] = json!(false);
    assert_eq!(send(&server, "PUT", &path, &changed).await.status, 200);
    until(&server, &beta, |reply| reply.status == 404).await;
    assert_eq!(names(&get(&server, WIDGETS).await), ["a"]);
}

#[tokio::test]
async fn server_side_apply_owns_fields_and_items() {
    let server = with_widgets().await;
    let apply = async |manager: &str, spec: Value| {
        let path = format!("{WIDGETS}/a?fieldManager={manager}");
        ask(&server, "PATCH", &path, &[("content-type", "application/apply-patch+yaml")], widget("a", spec).to_string())
            .await
    };
    let made = apply("one", json!({"size": 3, "ports": [{"name": "http", "port": 80}]})).await;
    assert_eq!(made.status, 201, "{}", made.json());
    assert_eq!(made.json()["spec"]["color"], "red");
    let owner = &made.json()["metadata"]["managedFields"][0];
    assert_eq!((&owner["manager"], &owner["operation"]), (&json!("one"), &json!("Apply")));
    let item = &owner["fieldsV1"]["f:spec"]["f:ports"]["k:{\"name\":\"http\"}"];
    assert_eq!(*item, json!({".": {}, "f:name": {}, "f:port": {}}), "{owner}");
    assert_eq!(apply("two", json!({"ports": [{"name": "https", "port": 443}]})).await.status, 200);
    let conflict = apply("two", json!({"size": 4})).await;
    assert_eq!((conflict.status, &conflict.json()["reason"]), (409, &json!("Conflict")));
    // What an applier no longer names goes, and what others own stays.
    let left = apply("one", json!({"size": 3})).await.json();
    assert_eq!(left["spec"]["ports"], json!([{"name": "https", "port": 443}]));
    let again = apply("one", json!({"size": 3})).await.json();
    assert_eq!(again["metadata"]["resourceVersion"], left["metadata"]["resourceVersion"]);
}

#[tokio::test]
async fn field_selectors_know_selectable_fields() {
    let server = with_widgets().await;
    for (name, color) in [("a", "red"), ("b", "green")] {
        send(&server, "POST", WIDGETS, &widget(name, json!({"size": 1, "color": color}))).await;
    }
    assert_eq!(names(&get(&server, &format!("{WIDGETS}?fieldSelector=spec.color%3Dgreen")).await), ["b"]);
    assert_eq!(ask(&server, "GET", &format!("{WIDGETS}?fieldSelector=spec.size%3D1"), &[], "").await.status, 400);
}
