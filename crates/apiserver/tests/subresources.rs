//! What a write through a subresource changes, and what it leaves alone.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use apiserver::{ApiServer, testing};
use serde_json::{Value, json};
use std::{sync::Arc, time::Duration};
use support::{Reply, ask};

const PODS: &str = "/api/v1/namespaces/default/pods";

async fn send(server: &Arc<ApiServer>, method: &str, path: &str, body: &Value) -> Reply {
    let media = match method {
        "MERGE" => "application/merge-patch+json",
        "STRATEGIC" => "application/strategic-merge-patch+json",
        "APPLY" => "application/apply-patch+yaml",
        _ => "application/json",
    };
    let method = if ["MERGE", "STRATEGIC", "APPLY"].contains(&method) { "PATCH" } else { method };
    ask(server, method, path, &[("content-type", media)], body.to_string()).await
}

async fn make(server: &Arc<ApiServer>, path: &str, object: &Value) -> Value {
    for _ in 0..500 {
        let reply = send(server, "POST", path, object).await;
        if reply.status == 201 {
            return reply.json();
        }
        // A definition is served a moment after it was made.
        assert_eq!(reply.status, 404, "{path}: {}", reply.json());
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("{path} never came");
}

async fn get(server: &Arc<ApiServer>, path: &str) -> Value {
    ask(server, "GET", path, &[], "").await.json()
}

fn pod(name: &str) -> Value {
    let resources = json!({"requests": {"cpu": "100m", "memory": "64Mi"}, "limits": {"cpu": "200m", "memory": "64Mi"}});
    let containers = json!([{"name": "c", "image": "i", "resources": resources}]);
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"app": "x"}}, "spec": {"containers": containers}})
}

/// Everything that a stranger could want to change, in one body.
fn tampered(mut pod: Value) -> Value {
    pod["metadata"]["labels"] = json!({"app": "y"});
    pod["metadata"]["annotations"] = json!({"x": "y"});
    pod["metadata"]["finalizers"] = json!(["example.com/stay"]);
    pod["metadata"]["ownerReferences"] = json!([{"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "u"}]);
    pod["spec"]["containers"][0]["image"] = json!("other");
    pod["spec"]["nodeName"] = json!("n");
    pod["status"] = json!({"phase": "Running"});
    pod
}

fn rest(object: &Value, without: &[&str]) -> Value {
    let mut rest = object.clone();
    for path in ["/metadata/managedFields", "/metadata/resourceVersion", "/metadata/generation"].iter().chain(without) {
        if let Some(value) = rest.pointer_mut(path) {
            *value = Value::Null;
        }
    }
    rest
}

#[tokio::test]
async fn a_resize_changes_resources_and_nothing_else() {
    let server = testing::server().await;
    for method in ["PUT", "MERGE", "STRATEGIC", "APPLY"] {
        let name = method.to_lowercase();
        let before = make(&server, PODS, &pod(&name)).await;
        let mut wanted = tampered(pod(&name));
        wanted["spec"]["containers"][0]["resources"]["requests"]["cpu"] = json!("150m");
        let path = format!("{PODS}/{name}/resize?fieldManager=m&force=true");
        let path = if method == "APPLY" { path } else { path.replace("&force=true", "") };
        let reply = send(&server, method, &path, &wanted).await;
        assert_eq!(reply.status, 200, "{method}: {}", reply.json());
        let after = get(&server, &format!("{PODS}/{name}")).await;
        assert_eq!(after["spec"]["containers"][0]["resources"]["requests"]["cpu"], "150m", "{method}");
        assert_eq!(after["metadata"]["generation"], 2, "{method}");
        let resources = ["/spec/containers/0/resources"];
        assert_eq!(rest(&after, &resources), rest(&before, &resources), "{method}");
        let owned: Vec<&Value> = after["metadata"]["managedFields"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|entry| entry["subresource"] == "resize")
            .map(|entry| &entry["fieldsV1"])
            .collect();
        let text = serde_json::to_string(&owned).unwrap();
        assert!(text.contains("f:resources") && !text.contains("f:image") && !text.contains("f:labels"), "{text}");
    }
}

#[tokio::test]
async fn what_is_no_resize_is_refused() {
    let server = testing::server().await;
    make(&server, PODS, &pod("p")).await;
    let container = |change: Value| json!({"spec": {"containers": [change]}});
    for (change, field) in [
        (container(json!({"name": "other", "resources": {"limits": {"cpu": "1"}}})), "spec.containers"),
        (container(json!({"name": "c", "resources": {"limits": {"ephemeral-storage": "1Gi"}}})), "spec.containers[0]"),
        (container(json!({"name": "c", "resources": {"requests": {"cpu": "200m"}}})), "spec"),
        (
            container(json!({"name": "c", "resources": {"limits": {"cpu": null}}})),
            "spec.containers[0].resources.limits",
        ),
        (
            container(
                json!({"name": "c", "resizePolicy": [{"resourceName": "cpu", "restartPolicy": "RestartContainer"}]}),
            ),
            "spec.containers[0]",
        ),
    ] {
        let reply = send(&server, "STRATEGIC", &format!("{PODS}/p/resize"), &change).await;
        let causes = reply.json()["details"]["causes"].clone();
        let fields: Vec<&str> = causes.as_array().into_iter().flatten().filter_map(|c| c["field"].as_str()).collect();
        assert!(reply.status == 422 && fields.contains(&field), "{change}: {} {causes}", reply.status);
    }
    let gone = send(&server, "APPLY", &format!("{PODS}/q/resize?fieldManager=m"), &json!({"kind": "Nonsense"})).await;
    assert_eq!(gone.status, 404, "{}", gone.json());
}

#[tokio::test]
async fn ephemeral_containers_come_and_stay_as_they_are() {
    let server = testing::server().await;
    for method in ["PUT", "MERGE", "STRATEGIC", "APPLY"] {
        let name = method.to_lowercase();
        let before = make(&server, PODS, &pod(&name)).await;
        let path = format!("{PODS}/{name}/ephemeralcontainers?fieldManager=m");
        let mut wanted = tampered(pod(&name));
        let helper = json!({"name": "d", "image": "busybox", "targetContainerName": "c"});
        wanted["spec"]["ephemeralContainers"] = json!([helper]);
        let reply = send(&server, method, &path, &wanted).await;
        assert_eq!(reply.status, 200, "{method}: {}", reply.json());
        let after = get(&server, &format!("{PODS}/{name}")).await;
        let added = &after["spec"]["ephemeralContainers"][0];
        assert_eq!((&added["name"], &added["imagePullPolicy"]), (&json!("d"), &json!("Always")), "{method}");
        assert_eq!(after["metadata"]["generation"], 2, "{method}");
        let mut without = rest(&after, &[]);
        without["spec"].as_object_mut().unwrap().remove("ephemeralContainers");
        assert_eq!(without, rest(&before, &[]), "{method}");
        for (change, what) in [(json!([]), "removed"), (json!([{"name": "d", "image": "other"}]), "changed")] {
            let mut wanted = pod(&name);
            wanted["spec"]["ephemeralContainers"] = change;
            let refused = send(&server, "PUT", &path, &wanted).await;
            let message = refused.json()["message"].as_str().unwrap().to_owned();
            assert!(refused.status == 422 && message.contains(what), "{method}: {} {message}", refused.status);
        }
    }
}

#[tokio::test]
async fn a_pod_is_put_as_it_was_written() {
    let server = testing::server().await;
    let before = make(&server, PODS, &pod("p")).await;
    assert_eq!(before["spec"]["priority"], 0);
    let mut again = pod("p");
    again["spec"]["containers"][0]["image"] = json!("other");
    let reply = send(&server, "PUT", &format!("{PODS}/p"), &again).await;
    assert_eq!(reply.status, 200, "{}", reply.json());
    let after = reply.json();
    let image = ["/spec/containers/0/image"];
    assert_eq!(rest(&after, &image), rest(&before, &image));
    again["spec"]["priority"] = json!(5);
    assert_eq!(send(&server, "PUT", &format!("{PODS}/p"), &again).await.status, 422);
}

fn definition() -> Value {
    let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let below = json!({"status": {}, "scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}});
    let version = json!({"name": "v1", "served": true, "storage": true, "subresources": below, "schema": {"openAPIV3Schema": schema}});
    let names = json!({"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"});
    json!({"metadata": {"name": "widgets.example.com"}, "spec": {"group": "example.com", "scope": "Namespaced", "names": names, "versions": [version]}})
}

#[tokio::test]
async fn the_status_of_a_custom_object_is_all_that_its_subresource_changes() {
    let server = testing::server().await;
    make(&server, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &definition()).await;
    let base = "/apis/example.com/v1/namespaces/default/widgets";
    let widget = json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w", "labels": {"a": "b"}, "finalizers": ["example.com/x"]}, "spec": {"replicas": 1}});
    let before = make(&server, base, &widget).await;
    let mut tampered = before.clone();
    tampered["metadata"]["labels"] = json!({"x": "y"});
    tampered["metadata"]["annotations"] = json!({"x": "y"});
    tampered["metadata"]["finalizers"] = json!([]);
    tampered["metadata"]["ownerReferences"] = json!([{"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "u"}]);
    tampered["spec"] = json!({"replicas": 9});
    tampered["other"] = json!("field");
    for (method, n) in [("PUT", 1), ("MERGE", 2), ("APPLY", 3)] {
        tampered["status"] = json!({"n": n});
        if method != "PUT" {
            tampered["metadata"].as_object_mut().unwrap().remove("resourceVersion");
            tampered["metadata"].as_object_mut().unwrap().remove("managedFields");
        }
        let force = if method == "APPLY" { "&force=true" } else { "" };
        let reply = send(&server, method, &format!("{base}/w/status?fieldManager=m{force}"), &tampered).await;
        assert_eq!(reply.status, 200, "{method}: {}", reply.json());
        let after = get(&server, &format!("{base}/w")).await;
        assert_eq!(after["status"], json!({"n": n}), "{method}");
        let mut without = rest(&after, &[]);
        without.as_object_mut().unwrap().remove("status");
        assert_eq!(without, rest(&before, &[]), "{method}");
    }
    let scale = json!({"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "w", "labels": {"x": "y"}}, "spec": {"replicas": 4}});
    let reply = send(&server, "PUT", &format!("{base}/w/scale"), &scale).await;
    assert_eq!(reply.status, 200, "{}", reply.json());
    let after = get(&server, &format!("{base}/w")).await;
    assert_eq!((&after["spec"]["replicas"], &after["metadata"]["labels"]), (&json!(4), &json!({"a": "b"})));
    let mut stale = scale.clone();
    stale["metadata"]["resourceVersion"] = json!("1");
    assert_eq!(send(&server, "PUT", &format!("{base}/w/scale"), &stale).await.status, 409);
}

/// Built-in kinds differ in what their status carries along, as upstream's do.
#[tokio::test]
async fn the_status_of_a_built_in_object_carries_what_upstream_carries() {
    let server = testing::server().await;
    let labels = json!({"a": "b"});
    let template = json!({"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let deployment = json!({"selector": {"matchLabels": labels}, "template": template});
    for (base, spec, other_labels) in [
        ("/apis/apps/v1/namespaces/default/deployments", deployment.clone(), false),
        ("/apis/apps/v1/namespaces/default/replicasets", deployment.clone(), true),
        ("/api/v1/namespaces/default/services", json!({"ports": [{"port": 80}]}), true),
        ("/apis/networking.k8s.io/v1/servicecidrs", json!({"cidrs": ["192.0.2.0/24"]}), false),
        ("/api/v1/nodes", json!({}), true),
    ] {
        make(&server, base, &json!({"metadata": {"name": "o"}, "spec": spec})).await;
        let change = json!({"metadata": {"labels": {"x": "y"}}, "spec": {"replicas": 7, "unschedulable": true, "externalIPs": ["192.0.2.1"]}});
        let reply = send(&server, "MERGE", &format!("{base}/o/status?fieldValidation=Ignore"), &change).await;
        assert_eq!(reply.status, 200, "{base}: {}", reply.json());
        let after = get(&server, &format!("{base}/o")).await;
        assert_eq!(after["metadata"]["labels"]["x"] == "y", other_labels, "{base}: {}", after["metadata"]);
        assert_eq!(
            (&after["spec"]["unschedulable"], &after["spec"]["externalIPs"]),
            (&Value::Null, &Value::Null),
            "{base}"
        );
        assert_ne!(after["spec"]["replicas"], 7, "{base}");
    }
}

#[tokio::test]
async fn a_posted_subresource_is_of_the_object_in_the_path() {
    let server = testing::server().await;
    make(&server, "/api/v1/namespaces", &json!({"metadata": {"name": "b"}})).await;
    make(&server, "/api/v1/namespaces/b/pods", &pod("p")).await;
    let uid = make(&server, PODS, &pod("p")).await["metadata"]["uid"].clone();
    make(&server, "/api/v1/namespaces/default/serviceaccounts", &json!({"metadata": {"name": "s"}})).await;
    let target = json!({"kind": "Node", "name": "n"});
    for (path, body, want) in [
        (format!("{PODS}/p/binding"), json!({"metadata": {"name": "q"}, "target": target}), 400),
        (format!("{PODS}/p/binding"), json!({"metadata": {"name": "p", "namespace": "b"}, "target": target}), 400),
        (format!("{PODS}/p/binding"), json!({"metadata": {"name": "p", "uid": "other"}, "target": target}), 409),
        (PODS.replace("pods", "bindings"), json!({"metadata": {"name": "p", "namespace": "b"}, "target": target}), 400),
        (PODS.replace("pods", "bindings"), json!({"metadata": {"name": "../b/p"}, "target": target}), 404),
        (format!("{PODS}/p/eviction"), json!({"metadata": {"name": "q"}}), 400),
        (format!("{PODS}/p/eviction"), json!({"metadata": {"name": "p", "namespace": "b"}}), 400),
        (
            "/api/v1/namespaces/default/serviceaccounts/s/token".into(),
            json!({"metadata": {"name": "t"}, "spec": {}}),
            422,
        ),
        (
            "/api/v1/namespaces/default/serviceaccounts/s/token".into(),
            json!({"metadata": {"namespace": "b"}, "spec": {}}),
            422,
        ),
    ] {
        let reply = send(&server, "POST", &path, &body).await;
        assert_eq!(reply.status, want, "{path} {body}: {}", reply.json());
    }
    let bound = json!({"metadata": {"name": "p", "uid": uid}, "target": target});
    assert_eq!(send(&server, "POST", &format!("{PODS}/p/binding"), &bound).await.status, 201);
    assert_eq!(get(&server, &format!("{PODS}/p")).await["spec"]["nodeName"], "n");
    assert_eq!(get(&server, "/api/v1/namespaces/b/pods/p").await["spec"]["nodeName"], Value::Null);
}

#[tokio::test]
async fn replication_controllers_and_stateful_sets_are_scaled() {
    let server = testing::server().await;
    let template = json!({"metadata": {"labels": {"app": "x", "tier": "a"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    for (path, spec, selector) in [
        ("/api/v1/namespaces/default/replicationcontrollers", json!({"template": template}), "app=x,tier=a"),
        (
            "/apis/apps/v1/namespaces/default/statefulsets",
            json!({"selector": {"matchLabels": {"app": "x"}}, "template": template}),
            "app=x",
        ),
    ] {
        make(&server, path, &json!({"metadata": {"name": "s"}, "spec": spec})).await;
        let at = format!("{path}/s/scale");
        let scale = get(&server, &at).await;
        assert_eq!((&scale["spec"]["replicas"], &scale["status"]["selector"]), (&json!(1), &json!(selector)), "{path}");
        let reply = send(&server, "MERGE", &at, &json!({"spec": {"replicas": 4}})).await;
        assert_eq!(reply.status, 200, "{path}");
        let object = get(&server, &format!("{path}/s")).await;
        assert_eq!((&object["spec"]["replicas"], &object["metadata"]["generation"]), (&json!(4), &json!(2)), "{path}");
    }
}

#[tokio::test]
async fn a_job_is_known_by_the_uid_that_the_server_gives_it() {
    let server = testing::server().await;
    let path = "/apis/batch/v1/namespaces/default/jobs";
    let template = json!({"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}});
    let job = make(&server, path, &json!({"metadata": {"generateName": "j-"}, "spec": {"template": template}})).await;
    let (uid, name) = (&job["metadata"]["uid"], &job["metadata"]["name"]);
    assert_eq!(job["spec"]["selector"], json!({"matchLabels": {"batch.kubernetes.io/controller-uid": uid}}));
    assert_eq!(job["spec"]["template"]["metadata"]["labels"]["job-name"], *name);
    assert_eq!(job["metadata"]["labels"], job["spec"]["template"]["metadata"]["labels"]);
    // What a client leaves out of a delete means that pods stay, for this kind.
    let at = format!("{path}/{}", name.as_str().unwrap());
    assert_eq!(ask(&server, "DELETE", &at, &[], "").await.status, 200);
    assert_eq!(get(&server, &at).await["metadata"]["finalizers"], json!(["orphan"]));
    let selected = get(&server, &format!("{path}?fieldSelector=status.successful=0")).await;
    assert_eq!(selected["items"].as_array().unwrap().len(), 1);
}

/// A Job tells by it that the Pod did not fail by itself.
#[tokio::test]
async fn an_evicted_pod_says_that_it_was_disrupted() {
    let server = testing::server().await;
    let mut own = pod("p");
    own["spec"]["nodeName"] = json!("n");
    let made = make(&server, PODS, &own).await;
    let eviction = |version: &Value| json!({"metadata": {"name": "p"}, "deleteOptions": {"preconditions": {"resourceVersion": version}}});
    let path = format!("{PODS}/p/eviction");
    let mut rehearsed = eviction(&made["metadata"]["resourceVersion"]);
    rehearsed["deleteOptions"]["dryRun"] = json!(["All"]);
    assert_eq!(send(&server, "POST", &path, &rehearsed).await.status, 201);
    assert!(get(&server, &format!("{PODS}/p")).await["status"]["conditions"].is_null(), "nothing happened");
    assert_eq!(send(&server, "POST", &path, &eviction(&json!("1"))).await.status, 409);
    let reply = send(&server, "POST", &path, &eviction(&made["metadata"]["resourceVersion"])).await;
    assert_eq!(reply.status, 201, "{}", reply.json());
    let left = get(&server, &format!("{PODS}/p")).await;
    assert!(left["metadata"]["deletionTimestamp"].is_string(), "{left}");
    let condition = &left["status"]["conditions"][0];
    assert_eq!(
        (&condition["type"], &condition["status"], &condition["reason"]),
        (&json!("DisruptionTarget"), &json!("True"), &json!("EvictionByEvictionAPI"))
    );
}
