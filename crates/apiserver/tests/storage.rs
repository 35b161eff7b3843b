//! What the server does for claims, volumes, the kinds of drivers and Ingresses without a class beyond their own rules, on a server in memory.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use apiserver::{ApiServer, testing};
use serde_json::{Value, json};
use std::sync::Arc;
use support::ask;

const CLAIMS: &str = "/api/v1/namespaces/default/persistentvolumeclaims";
const CLASSES: &str = "/apis/storage.k8s.io/v1/storageclasses";

async fn post(server: &Arc<ApiServer>, path: &str, object: Value) -> (u16, Value) {
    let reply = ask(server, "POST", path, &[("content-type", "application/json")], object.to_string()).await;
    (reply.status, reply.json())
}

async fn patch(server: &Arc<ApiServer>, path: &str, object: Value) -> (u16, Value) {
    let headers = [("content-type", "application/merge-patch+json")];
    let reply = ask(server, "PATCH", path, &headers, object.to_string()).await;
    (reply.status, reply.json())
}

fn class(name: &str, default: bool, grows: bool) -> Value {
    json!({"metadata": {"name": name, "annotations": {"storageclass.kubernetes.io/is-default-class": default.to_string()}},
        "provisioner": "example.com/p", "allowVolumeExpansion": grows})
}

fn claim(name: &str, class: Value) -> Value {
    json!({"metadata": {"name": name}, "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": class,
        "resources": {"requests": {"storage": "1Gi"}}}})
}

#[tokio::test]
async fn claims_get_the_default_class_and_protection() {
    let server = testing::server().await;
    let (_, before) = post(&server, CLAIMS, claim("before", Value::Null)).await;
    assert!(before["spec"]["storageClassName"].is_null(), "there is no class");
    for (name, default) in [("b", true), ("a", true), ("other", false)] {
        assert_eq!(post(&server, CLASSES, class(name, default, false)).await.0, 201);
    }
    for (name, given, expected) in
        [("none", Value::Null, "a"), ("own", json!("other"), "other"), ("empty", json!(""), "")]
    {
        let (status, made) = post(&server, CLAIMS, claim(name, given)).await;
        assert_eq!((status, &made["spec"]["storageClassName"]), (201, &json!(expected)), "{name}");
        assert_eq!(made["metadata"]["finalizers"], json!(["kubernetes.io/pvc-protection"]));
        assert_eq!(made["status"], json!({"phase": "Pending"}));
    }
}

#[tokio::test]
async fn ingresses_get_the_default_class() {
    let server = testing::server().await;
    let group = "/apis/networking.k8s.io/v1";
    let ingress = |name: &str, annotations: Value, class: Value| {
        json!({"metadata": {"name": name, "annotations": annotations}, "spec": {"ingressClassName": class,
            "defaultBackend": {"service": {"name": "s", "port": {"number": 80}}}}})
    };
    let ingresses = format!("{group}/namespaces/default/ingresses");
    let (_, before) = post(&server, &ingresses, ingress("before", json!({}), Value::Null)).await;
    assert!(before["spec"]["ingressClassName"].is_null(), "there is no class");
    for (name, default) in [("b", "true"), ("a", "true"), ("other", "false")] {
        let class = json!({"metadata": {"name": name, "annotations": {"ingressclass.kubernetes.io/is-default-class": default}},
            "spec": {"controller": "example.com/c"}});
        assert_eq!(post(&server, &format!("{group}/ingressclasses"), class).await.0, 201);
    }
    let annotated = json!({"kubernetes.io/ingress.class": "old"});
    for (name, annotations, given, expected) in [
        ("none", json!({}), Value::Null, json!("a")),
        ("own", json!({}), json!("other"), json!("other")),
        ("annotated", annotated, Value::Null, Value::Null),
    ] {
        let (status, made) = post(&server, &ingresses, ingress(name, annotations, given)).await;
        assert_eq!((status, &made["spec"]["ingressClassName"]), (201, &expected), "{name}: {made}");
    }
}

#[tokio::test]
async fn a_claim_grows_when_it_is_bound_and_its_class_allows_it() {
    let server = testing::server().await;
    post(&server, CLASSES, class("grows", false, true)).await;
    post(&server, CLASSES, class("stays", false, false)).await;
    let bigger = json!({"spec": {"resources": {"requests": {"storage": "2Gi"}}}});
    for (name, expected) in [("grows", 200), ("stays", 403)] {
        post(&server, CLAIMS, claim(name, json!(name))).await;
        let path = format!("{CLAIMS}/{name}");
        let bound = json!({"status": {"phase": "Bound", "capacity": {"storage": "1Gi"}}});
        assert_eq!(patch(&server, &format!("{path}/status"), bound).await.0, 200);
        let (status, reply) = patch(&server, &path, bigger.clone()).await;
        assert_eq!(status, expected, "{name}: {reply}");
    }
}

#[tokio::test]
async fn a_volume_says_since_when_it_is_what_it_is() {
    let server = testing::server().await;
    let volume = json!({"metadata": {"name": "v"}, "spec": {"accessModes": ["ReadWriteOnce"],
        "capacity": {"storage": "1Gi"}, "hostPath": {"path": "/data"}}});
    let (status, made) = post(&server, "/api/v1/persistentvolumes", volume).await;
    assert_eq!(status, 201, "{made}");
    assert_eq!(made["spec"]["hostPath"], json!({"path": "/data", "type": ""}));
    assert_eq!(made["metadata"]["finalizers"], json!(["kubernetes.io/pv-protection"]));
    let path = "/api/v1/persistentvolumes/v/status";
    let (_, changed) = patch(&server, path, json!({"status": {"phase": "Available"}})).await;
    assert!(changed["status"]["lastPhaseTransitionTime"].is_string(), "{changed}");
}

/// As Kubernetes' conformance tests have it: made, changed, listed and deleted.
#[tokio::test]
async fn every_kind_of_a_driver_can_be_made_changed_and_deleted() {
    let server = testing::server().await;
    let storage = "/apis/storage.k8s.io/v1";
    let devices = "/apis/resource.k8s.io/v1";
    let request = json!([{"name": "r", "exactly": {"deviceClassName": "c"}}]);
    for (path, name, spec) in [
        (format!("{storage}/csidrivers"), "d.example.com", json!({"spec": {}})),
        (format!("{storage}/csinodes"), "n", json!({"spec": {"drivers": []}})),
        (format!("{storage}/namespaces/default/csistoragecapacities"), "c", json!({"storageClassName": "s"})),
        (
            format!("{storage}/volumeattachments"),
            "a",
            json!({"spec": {"attacher": "d.example.com", "nodeName": "n", "source": {"persistentVolumeName": "v"}}}),
        ),
        (
            format!("{storage}/volumeattributesclasses"),
            "v",
            json!({"driverName": "d.example.com", "parameters": {"a": "b"}}),
        ),
        (format!("{devices}/deviceclasses"), "c", json!({"spec": {"selectors": [{"cel": {"expression": "false"}}]}})),
        (
            format!("{devices}/namespaces/default/resourceclaims"),
            "c",
            json!({"spec": {"devices": {"requests": request}}}),
        ),
        (
            format!("{devices}/namespaces/default/resourceclaimtemplates"),
            "t",
            json!({"spec": {"spec": {"devices": {"requests": request}}}}),
        ),
        (
            format!("{devices}/resourceslices"),
            "s",
            json!({"spec": {"driver": "d.example.com", "nodeName": "n",
                "pool": {"name": "p", "generation": 1, "resourceSliceCount": 1}}}),
        ),
        (
            "/apis/storagemigration.k8s.io/v1/storageversionmigrations".to_owned(),
            "m",
            json!({"spec": {"resource": {"group": "", "resource": "foo"}}}),
        ),
    ] {
        let mut object = spec;
        object["metadata"] = json!({"name": name, "labels": {"test": "x"}});
        let (status, made) = post(&server, &path, object).await;
        assert_eq!(status, 201, "{path}: {made}");
        let one = format!("{path}/{name}");
        let (status, changed) = patch(&server, &one, json!({"metadata": {"labels": {"more": "y"}}})).await;
        assert_eq!((status, &changed["metadata"]["labels"]["more"]), (200, &json!("y")), "{path}: {changed}");
        let put = ask(&server, "PUT", &one, &[("content-type", "application/json")], changed.to_string()).await;
        assert_eq!(put.status, 200, "{path}: {}", put.json());
        let listed = ask(&server, "GET", &format!("{path}?labelSelector=test=x"), &[], "").await.json();
        assert_eq!(listed["items"].as_array().map(Vec::len), Some(1), "{path}");
        let gone = ask(&server, "DELETE", &format!("{path}?labelSelector=test=x"), &[], "").await;
        assert_eq!(gone.status, 200, "{path}: {}", gone.json());
        assert_eq!(ask(&server, "GET", &one, &[], "").await.status, 404, "{path}");
    }
}
