//! Replays what a real controller manager made of Services and Pods: slices and Endpoints are the same, with no difference.
//!
//! The recording is described in testdata/README.md. Everything goes through the API server, so its rules are in it too.

mod support;

use control::endpointslice::draft::is_owned;
use k8s_openapi::api::{
    core::v1::{Endpoints, Namespace, Node, Pod, Service},
    discovery::v1::{EndpointPort, EndpointSlice},
};
use kube::{
    Api, Client,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::{collections::BTreeMap, io::Read, path::PathBuf};
use support::{Running, client, server, until};

fn testdata(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../testdata/slices").join(name)
}

fn rows(shape: &str) -> Vec<Value> {
    let packed = std::fs::read(testdata(&format!("{shape}.jsonl.gz"))).expect("the recording is there");
    let mut text = String::new();
    flate2::read::GzDecoder::new(&*packed).read_to_string(&mut text).expect("it is gzip");
    text.lines().map(|line| serde_json::from_str(line).expect("it is JSON")).collect()
}

fn object<K: DeserializeOwned>(value: Value) -> K {
    serde_json::from_value(value).expect("an object")
}

/// Makes a set of Pods in a namespace of its own.
async fn make_pods(client: &Client, namespace: &str, pods: &Value) {
    let spaces: Api<Namespace> = Api::all(client.clone());
    spaces
        .create(&PostParams::default(), &object(json!({"metadata": {"name": namespace}})))
        .await
        .expect("a namespace");
    let api: Api<Pod> = Api::namespaced(client.clone(), namespace);
    for pod in pods.as_array().expect("a list") {
        let name = pod["name"].as_str().expect("a name");
        let body = json!({"metadata": {"name": name, "labels": pod["labels"]}, "spec": pod["spec"]});
        api.create(&PostParams::default(), &object(body)).await.expect("a pod");
        if !pod["status"].is_null() {
            let patch = Patch::Merge(json!({"status": pod["status"]}));
            api.patch_status(name, &PatchParams::default(), &patch).await.expect("its status");
        }
        if pod["terminating"] == true {
            api.delete(name, &DeleteParams::default()).await.expect("on its way out");
        }
    }
}

fn ports(list: &[EndpointPort]) -> Value {
    let mut ports: Vec<Value> =
        list.iter().map(|port| json!([port.name, port.port, port.protocol, port.app_protocol])).collect();
    ports.sort_by_key(Value::to_string);
    Value::Array(ports)
}

/// The slices in the words of the recording.
fn slices(list: &[EndpointSlice]) -> (Value, usize) {
    let mut groups: BTreeMap<String, (Value, Vec<Value>)> = BTreeMap::new();
    let mut largest = 0;
    for slice in list {
        let shown = ports(slice.ports.as_deref().unwrap_or_default()).to_string().replace(",", ", ");
        let mut labels = slice.metadata.labels.clone().unwrap_or_default();
        labels.remove("kubernetes.io/service-name");
        let endpoints = slice.endpoints.as_deref().unwrap_or_default();
        largest = largest.max(endpoints.len());
        let entry =
            groups.entry(format!("{} {shown}", slice.address_type)).or_insert_with(|| (json!(labels), Vec::new()));
        entry.1.extend(endpoints.iter().map(|endpoint| {
            let conditions = endpoint.conditions.clone().unwrap_or_default();
            let target = endpoint.target_ref.as_ref().and_then(|target| target.name.clone());
            json!([
                endpoint.addresses,
                conditions.ready,
                conditions.serving,
                conditions.terminating,
                endpoint.node_name,
                endpoint.zone,
                endpoint.hostname,
                target
            ])
        }));
    }
    let groups = groups.into_iter().map(|(name, (labels, mut endpoints))| {
        endpoints.sort_by_key(Value::to_string);
        (name, json!({"labels": labels, "endpoints": endpoints}))
    });
    (Value::Object(groups.collect()), largest)
}

fn endpoints(found: Option<Endpoints>) -> Value {
    let Some(found) = found else { return Value::Null };
    let subsets = found.subsets.unwrap_or_default().into_iter().map(|subset| {
        let ips = |list: Option<Vec<k8s_openapi::api::core::v1::EndpointAddress>>| {
            let mut ips: Vec<String> = list.unwrap_or_default().into_iter().map(|address| address.ip).collect();
            ips.sort();
            ips
        };
        let mut ports: Vec<Value> = subset
            .ports
            .unwrap_or_default()
            .into_iter()
            .map(|port| json!([port.name.unwrap_or_default(), port.port, port.protocol]))
            .collect();
        ports.sort_by_key(Value::to_string);
        json!([ips(subset.addresses), ips(subset.not_ready_addresses), ports])
    });
    let mut subsets: Vec<Value> = subsets.collect();
    subsets.sort_by_key(Value::to_string);
    Value::Array(subsets)
}

/// The recording with its lists in one order.
fn sorted(got: &Value) -> Value {
    let mut got = got.clone();
    if let Some(groups) = got["slices"].as_object_mut() {
        for group in groups.values_mut() {
            group["endpoints"].as_array_mut().expect("a list").sort_by_key(Value::to_string);
        }
    }
    if let Some(subsets) = got["endpoints"].as_array_mut() {
        for subset in subsets.iter_mut() {
            for part in 0..3 {
                subset[part].as_array_mut().expect("a list").sort_by_key(Value::to_string);
            }
        }
        subsets.sort_by_key(Value::to_string);
    }
    got
}

/// What there is of this very Service; slices of one before it of the same name are the garbage collector's.
async fn seen(client: &Client, namespace: &str, service: &Service) -> Value {
    let name = service.metadata.name.as_deref().expect("a name");
    let api: Api<EndpointSlice> = Api::namespaced(client.clone(), namespace);
    let selector = ListParams::default().labels(&format!("kubernetes.io/service-name={name}"));
    let mut list = api.list(&selector).await.expect("a list").items;
    list.retain(|slice| is_owned(slice, service));
    let api: Api<Endpoints> = Api::namespaced(client.clone(), namespace);
    let (slices, largest) = slices(&list);
    let found = api.get_opt(name).await.expect("an answer");
    json!({"slices": slices, "largest": largest, "endpoints": endpoints(found)})
}

async fn replay(shape: &str) {
    let server = server(shape).await;
    let client = client(&server);
    let nodes: Api<Node> = Api::all(client.clone());
    let node = json!({"metadata": {"name": "n1", "labels": {"topology.kubernetes.io/zone": "z1"}}});
    nodes.create(&PostParams::default(), &object(node)).await.expect("a node");
    let sets: Value = serde_json::from_slice(&std::fs::read(testdata("pods.json")).expect("there")).expect("JSON");
    for (name, pods) in sets.as_object().expect("sets") {
        make_pods(&client, name, pods).await;
    }
    let running = Running::start(client.clone(), "endpointslice-controller,endpoints-controller", Default::default());
    let mut differences = Vec::new();
    for row in rows(shape) {
        let namespace = row["pods"].as_str().expect("a set");
        let api: Api<Service> = Api::namespaced(client.clone(), namespace);
        let service: Service = object(json!({"metadata": {"name": "s"}, "spec": row["spec"]}));
        let made = api.create(&PostParams::default(), &service).await;
        let expected = sorted(&row["got"]);
        if let Some(error) = expected["error"].as_str() {
            let status = match made {
                Err(kube::Error::Api(status)) => format!("service {}", status.code),
                other => format!("{other:?}"),
            };
            assert_eq!(status, error, "{row}");
            continue;
        }
        let made = made.expect("the service is accepted");
        // What is to stay empty must not be judged before the controllers have had their say on another Service.
        if expected["endpoints"].is_null() {
            let canary: Service = object(
                json!({"metadata": {"name": "canary"}, "spec": {"selector": {"a": "b"}, "ports": [{"port": 1}]}}),
            );
            let canary = api.create(&PostParams::default(), &canary).await.expect("accepted");
            until("the canary has its objects", || async {
                (seen(&client, namespace, &canary).await["endpoints"] == json!([])).then_some(())
            })
            .await;
            api.delete("canary", &DeleteParams::default()).await.expect("deleted");
        }
        let deadline = tokio::time::Instant::now() + support::PATIENCE;
        loop {
            let now = seen(&client, namespace, &made).await;
            if now == expected {
                break;
            }
            if tokio::time::Instant::now() > deadline {
                differences.push(format!("{} {}\n  expected {expected}\n  got      {now}", row["pods"], row["spec"]));
                break;
            }
            tokio::time::sleep(std::time::Duration::from_millis(2)).await;
        }
        api.delete("s", &DeleteParams::default()).await.expect("deleted");
        let left: Api<Endpoints> = Api::namespaced(client.clone(), namespace);
        until("its Endpoints are gone", || async {
            left.get_opt("s").await.expect("an answer").is_none().then_some(())
        })
        .await;
    }
    running.stop().await;
    assert!(differences.is_empty(), "{} differences:\n{}", differences.len(), differences.join("\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_ipv4_cluster_has_the_recorded_endpoints() {
    Box::pin(replay("v4")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dual_stack_cluster_has_the_recorded_endpoints() {
    Box::pin(replay("v4v6")).await;
}
