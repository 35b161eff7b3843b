//! What a namespace may use: quotas that are charged with the object, limit ranges, runtime classes, priorities; in a server in memory.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use apiserver::ApiServer;
use serde_json::{Value, json};
use std::sync::Arc;
use support::{Reply, ask};

const JSON: [(&str, &str); 1] = [("content-type", "application/json")];
const MERGE: [(&str, &str); 1] = [("content-type", "application/merge-patch+json")];
const NAMESPACE: &str = "/api/v1/namespaces/default";

async fn post(server: &Arc<ApiServer>, path: &str, object: &Value) -> Reply {
    ask(server, "POST", path, &JSON, object.to_string()).await
}

async fn made(server: &Arc<ApiServer>, path: &str, object: &Value) -> Value {
    let reply = post(server, path, object).await;
    assert_eq!(reply.status, 201, "{}", reply.json());
    reply.json()
}

async fn refused(server: &Arc<ApiServer>, path: &str, object: &Value) -> String {
    let reply = post(server, path, object).await;
    assert_eq!(reply.status, 403, "{}", reply.json());
    reply.json()["message"].as_str().unwrap().to_owned()
}

fn pod(name: &str, spec: &Value) -> Value {
    let mut pod = json!({"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    for (field, value) in spec.as_object().unwrap() {
        pod["spec"][field] = value.clone();
    }
    pod
}

async fn server() -> Arc<ApiServer> {
    let server = apiserver::testing::server().await;
    let account = json!({"metadata": {"name": "default"}});
    made(&server, &format!("{NAMESPACE}/serviceaccounts"), &account).await;
    server
}

/// A quota whose status says that nothing is used, as its controller would.
async fn quota(server: &Arc<ApiServer>, name: &str, spec: &Value) {
    let path = format!("{NAMESPACE}/resourcequotas");
    made(server, &path, &json!({"metadata": {"name": name}, "spec": spec})).await;
    let used: serde_json::Map<String, Value> =
        spec["hard"].as_object().unwrap().keys().map(|name| (name.clone(), json!("0"))).collect();
    let status = json!({"status": {"hard": spec["hard"], "used": used}});
    let reply = ask(server, "PATCH", &format!("{path}/{name}/status"), &MERGE, status.to_string()).await;
    assert_eq!(reply.status, 200, "{}", reply.json());
}

async fn used(server: &Arc<ApiServer>, name: &str) -> Value {
    ask(server, "GET", &format!("{NAMESPACE}/resourcequotas/{name}"), &[], "").await.json()["status"]["used"].clone()
}

#[tokio::test]
async fn what_is_stored_is_charged_and_what_is_refused_is_not() {
    let server = server().await;
    let pods = format!("{NAMESPACE}/pods");
    quota(&server, "q", &json!({"hard": {"pods": "2", "requests.cpu": "1", "count/configmaps": "1"}})).await;
    let cpu =
        |amount: &str| json!({"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": amount}}}]});
    assert_eq!(
        refused(&server, &pods, &pod("silent", &json!({}))).await,
        "pods \"silent\" is forbidden: failed quota: q: must specify requests.cpu for: c"
    );
    made(&server, &pods, &pod("a", &cpu("600m"))).await;
    assert_eq!(
        refused(&server, &pods, &pod("b", &cpu("500m"))).await,
        "pods \"b\" is forbidden: exceeded quota: q, requested: requests.cpu=500m, used: requests.cpu=600m, limited: requests.cpu=1"
    );
    let dry = post(&server, &format!("{pods}?dryRun=All"), &pod("dry", &cpu("100m"))).await;
    assert_eq!(dry.status, 201);
    let invalid = post(&server, &pods, &pod("Wrong", &cpu("100m"))).await;
    assert_eq!(invalid.status, 422);
    assert_eq!(used(&server, "q").await, json!({"pods": "1", "requests.cpu": "600m", "count/configmaps": "0"}));
    made(&server, &pods, &pod("b", &cpu("400m"))).await;
    assert_eq!(used(&server, "q").await["requests.cpu"], "1");
    let maps = format!("{NAMESPACE}/configmaps");
    made(&server, &maps, &json!({"metadata": {"name": "one"}})).await;
    assert_eq!(
        refused(&server, &maps, &json!({"metadata": {"name": "two"}})).await,
        "configmaps \"two\" is forbidden: exceeded quota: q, requested: count/configmaps=1, used: count/configmaps=1, limited: count/configmaps=1"
    );
}

#[tokio::test]
async fn many_at_once_never_use_more_than_there_is() {
    let server = server().await;
    quota(&server, "q", &json!({"hard": {"configmaps": "7", "count/configmaps": "50"}})).await;
    let path = format!("{NAMESPACE}/configmaps");
    let mut tries = tokio::task::JoinSet::new();
    for i in 0..30 {
        let (server, path) = (Arc::clone(&server), path.clone());
        tries.spawn(async move { post(&server, &path, &json!({"metadata": {"name": format!("m{i}")}})).await.status });
    }
    let answers = tries.join_all().await;
    assert_eq!(answers.iter().filter(|status| **status == 201).count(), 7);
    assert_eq!(answers.iter().filter(|status| **status == 403).count(), 23);
    assert_eq!(used(&server, "q").await, json!({"configmaps": "7", "count/configmaps": "7"}));
}

#[tokio::test]
async fn a_service_that_changes_its_type_is_charged_for_what_it_gains() {
    let server = server().await;
    quota(&server, "q", &json!({"hard": {"services": "5", "services.nodeports": "2", "services.loadbalancers": "0"}}))
        .await;
    let path = format!("{NAMESPACE}/services");
    made(&server, &path, &json!({"metadata": {"name": "web"}, "spec": {"ports": [{"port": 80}]}})).await;
    let change = |kind: &str| json!({"spec": {"type": kind}}).to_string();
    let patched = |kind: &'static str| {
        let (server, path) = (Arc::clone(&server), format!("{path}/web"));
        async move { ask(&server, "PATCH", &path, &MERGE, change(kind)).await }
    };
    assert_eq!(patched("NodePort").await.status, 200);
    let balanced = patched("LoadBalancer").await;
    assert_eq!(
        (balanced.status, balanced.json()["message"].as_str().unwrap()),
        (
            403,
            "services \"web\" is forbidden: exceeded quota: q, requested: services.loadbalancers=1, used: services.loadbalancers=0, limited: services.loadbalancers=0"
        )
    );
    assert_eq!(
        used(&server, "q").await,
        json!({"services": "1", "services.nodeports": "1", "services.loadbalancers": "0"})
    );
}

#[tokio::test]
async fn scopes_and_custom_kinds_count() {
    let server = server().await;
    let spec = json!({"hard": {"pods": "1"}, "scopeSelector": {"matchExpressions": [
        {"scopeName": "PriorityClass", "operator": "In", "values": ["high"]}]}});
    quota(&server, "high", &spec).await;
    let classes = "/apis/scheduling.k8s.io/v1/priorityclasses";
    made(&server, classes, &json!({"metadata": {"name": "high"}, "value": 10})).await;
    let pods = format!("{NAMESPACE}/pods");
    made(&server, &pods, &pod("plain", &json!({}))).await;
    made(&server, &pods, &pod("first", &json!({"priorityClassName": "high"}))).await;
    assert!(
        refused(&server, &pods, &pod("second", &json!({"priorityClassName": "high"})))
            .await
            .contains("exceeded quota: high")
    );
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    made(&server, definitions, &support::definition("Widget", "widgets", "Namespaced", &json!({}))).await;
    quota(&server, "widgets", &json!({"hard": {"count/widgets.example.com": "1"}})).await;
    let widgets = "/apis/example.com/v1/namespaces/default/widgets";
    support::make(
        &server,
        widgets,
        json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "a"}}),
    )
    .await;
    let second = json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "b"}});
    assert!(
        refused(&server, widgets, &second)
            .await
            .starts_with("widgets.example.com \"b\" is forbidden: exceeded quota: widgets")
    );
}

#[tokio::test]
async fn limit_ranges_fill_in_and_refuse() {
    let server = server().await;
    let spec = json!({"limits": [{"type": "Container", "min": {"cpu": "50m"}, "max": {"cpu": "500m"}, "defaultRequest": {"cpu": "100m"}}]});
    let range =
        made(&server, &format!("{NAMESPACE}/limitranges"), &json!({"metadata": {"name": "r"}, "spec": spec})).await;
    assert_eq!(range["spec"]["limits"][0]["default"], json!({"cpu": "500m"}), "the most is the default limit");
    let pods = format!("{NAMESPACE}/pods");
    let plain = made(&server, &pods, &pod("plain", &json!({}))).await;
    assert_eq!(
        plain["spec"]["containers"][0]["resources"],
        json!({"limits": {"cpu": "500m"}, "requests": {"cpu": "100m"}})
    );
    assert_eq!(
        plain["metadata"]["annotations"]["kubernetes.io/limit-ranger"],
        "LimitRanger plugin set: cpu request for container c; cpu limit for container c"
    );
    let greedy = json!({"containers": [{"name": "c", "image": "i", "resources": {"limits": {"cpu": "1"}}}]});
    assert_eq!(
        refused(&server, &pods, &pod("greedy", &greedy)).await,
        "pods \"greedy\" is forbidden: [maximum cpu usage per Container is 500m, but limit is 1]"
            .replace(['[', ']'], "")
    );
}

#[tokio::test]
async fn runtime_classes_and_priorities_are_written_into_pods() {
    let server = server().await;
    let pods = format!("{NAMESPACE}/pods");
    let class = json!({"metadata": {"name": "kata"}, "handler": "kata", "overhead": {"podFixed": {"cpu": "250m"}},
        "scheduling": {"nodeSelector": {"kata": "yes"}}});
    made(&server, "/apis/node.k8s.io/v1/runtimeclasses", &class).await;
    let shown = made(&server, &pods, &pod("in", &json!({"runtimeClassName": "kata"}))).await;
    assert_eq!(
        (&shown["spec"]["overhead"], &shown["spec"]["nodeSelector"]),
        (&json!({"cpu": "250m"}), &json!({"kata": "yes"}))
    );
    assert_eq!(
        refused(&server, &pods, &pod("none", &json!({"runtimeClassName": "gvisor"}))).await,
        "pods \"none\" is forbidden: pod rejected: RuntimeClass \"gvisor\" not found"
    );
    assert_eq!(
        refused(&server, &pods, &pod("self", &json!({"overhead": {"cpu": "1"}}))).await,
        "pods \"self\" is forbidden: pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead"
    );
    let classes = "/apis/scheduling.k8s.io/v1/priorityclasses";
    made(
        &server,
        classes,
        &json!({"metadata": {"name": "usual"}, "value": 5, "globalDefault": true, "preemptionPolicy": "Never"}),
    )
    .await;
    let usual = made(&server, &pods, &pod("usual", &json!({}))).await;
    assert_eq!((&usual["spec"]["priority"], &usual["spec"]["preemptionPolicy"]), (&json!(5), &json!("Never")));
    assert_eq!(
        refused(&server, classes, &json!({"metadata": {"name": "other"}, "value": 6, "globalDefault": true})).await,
        "priorityclasses.scheduling.k8s.io \"other\" is forbidden: PriorityClass usual is already marked as default. Only one default can exist"
    );
}

#[tokio::test]
async fn an_autoscaler_is_one_object_in_two_versions() {
    let server = server().await;
    let (v1, v2) = ["v1", "v2"]
        .map(|version| format!("/apis/autoscaling/{version}/namespaces/default/horizontalpodautoscalers"))
        .into();
    let target = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"});
    let old = json!({"metadata": {"name": "web"}, "spec": {"scaleTargetRef": target, "maxReplicas": 4, "targetCPUUtilizationPercentage": 60}});
    let shown = made(&server, &v1, &old).await;
    assert_eq!((&shown["apiVersion"], &shown["spec"]["minReplicas"]), (&json!("autoscaling/v1"), &json!(1)));
    let new = ask(&server, "GET", &format!("{v2}/web"), &[], "").await.json();
    assert_eq!(new["spec"]["metrics"][0]["resource"]["target"]["averageUtilization"], 60);
    let memory = json!({"spec": {"metrics": [{"type": "Resource", "resource": {"name": "memory",
        "target": {"type": "AverageValue", "averageValue": "1Gi"}}}]}});
    assert_eq!(ask(&server, "PATCH", &format!("{v2}/web"), &MERGE, memory.to_string()).await.status, 200);
    let shown = ask(&server, "GET", &format!("{v1}/web"), &[], "").await.json();
    assert_eq!(
        shown["metadata"]["annotations"]["autoscaling.alpha.kubernetes.io/metrics"],
        r#"[{"resource":{"name":"memory","targetAverageValue":"1Gi"},"type":"Resource"}]"#
    );
    let higher = json!({"spec": {"maxReplicas": 9}}).to_string();
    let changed = ask(&server, "PATCH", &format!("{v1}/web"), &MERGE, higher).await.json();
    assert_eq!(changed["metadata"]["generation"], 3, "{changed}");
    let new = ask(&server, "GET", &format!("{v2}/web"), &[], "").await.json();
    assert_eq!(new["spec"]["metrics"][0]["resource"]["name"], "memory", "nothing is lost by a client of v1");
    let none = json!({"metadata": {"name": "none"}, "spec": {"scaleTargetRef": target, "maxReplicas": 0}});
    assert_eq!(post(&server, &v2, &none).await.status, 422);
}

#[tokio::test]
async fn a_new_node_is_not_ready_and_endpoints_are_deprecated() {
    let server = server().await;
    let node = made(&server, "/api/v1/nodes", &json!({"metadata": {"name": "n"}})).await;
    assert_eq!(node["spec"]["taints"], json!([{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]));
    let list = ask(&server, "GET", "/api/v1/endpoints", &[], "").await;
    assert_eq!(
        list.headers["warning"],
        "299 - \"v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice\""
    );
}
