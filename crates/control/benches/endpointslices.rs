//! How fast endpoints follow Pods: what one change costs in a small and in a large cluster, and how far behind the slices are
//! when many Pods turn ready.
//!
//! `cargo bench --package control`. `BENCH_SERVICES` (5000), `BENCH_PODS` (50000) and `BENCH_RATE` (1000 per second) make it
//! shorter. Everything happens in this process, against the API server in memory.

use apiserver::client::{InProcess, myself};
use control::{
    endpointslice::{
        index::Selected,
        plan::{Wanted, plan},
        topology::Shares,
    },
    framework::{self, Context, ControllerOptions, Key, Selection, Store},
};
use futures::{StreamExt, future::join_all};
use k8s_openapi::api::{
    core::v1::{Node, Pod, Service},
    discovery::v1::EndpointSlice,
};
use kube::{
    Api, Client,
    api::{Patch, PatchParams, PostParams, WatchEvent, WatchParams},
    runtime::watcher::Event,
};
use runtime::{admin::Admin, health::Health, metrics::Metrics, task::Tasks};
use serde_json::{Value, json};
use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

/// As in the program.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const PODS_PER_SERVICE: usize = 20;

/// What the variable says. As a test, without `--bench`, it only shows that it runs.
fn number(name: &str, default: usize, as_a_test: usize) -> usize {
    let default = if std::env::args().any(|word| word == "--bench") { default } else { as_a_test };
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

fn object<K: serde::de::DeserializeOwned>(value: Value) -> K {
    serde_json::from_value(value).expect("an object")
}

fn service(index: usize) -> Value {
    json!({
        "metadata": {"name": format!("s{index}"), "namespace": "default", "uid": format!("s{index}")},
        "spec": {"ipFamilyPolicy": "RequireDualStack", "ipFamilies": ["IPv4", "IPv6"],
                 "selector": {"app": format!("a{index}")}, "ports": [{"name": "http", "port": 80}]},
    })
}

fn pod(index: usize) -> Value {
    let labels = json!({"app": format!("a{}", index / PODS_PER_SERVICE), "tier": "web"});
    json!({
        "metadata": {"name": format!("p{index}"), "namespace": "default", "uid": format!("p{index}"), "labels": labels},
        "spec": {"nodeName": "n1", "containers": [{"name": "c", "image": "i"}]},
    })
}

fn status(index: usize, ready: bool) -> Value {
    let four = format!("10.{}.{}.{}", 64 + index / 65536, index / 256 % 256, index % 256);
    let six = format!("fd00:1::{:x}:{:x}", 1 + index / 65536, index % 65536);
    let ready = if ready { "True" } else { "False" };
    json!({"phase": "Running", "podIP": four, "podIPs": [{"ip": four}, {"ip": six}],
           "conditions": [{"type": "Ready", "status": ready}]})
}

fn stored_pod(index: usize, version: usize, ready: bool) -> Pod {
    let mut value = pod(index);
    value["metadata"]["resourceVersion"] = json!(version.to_string());
    value["status"] = status(index, ready);
    object(value)
}

/// Microseconds from a Pod's event to the plan of its Service.
fn one_change(services: usize) -> (f64, f64) {
    let (service_store, pod_store) = (Store::<Service>::default(), Store::<Pod>::default());
    let selected = Selected::new(service_store.clone(), pod_store.clone());
    let node: Arc<Node> = Arc::new(object(json!({"metadata": {"name": "n1"}})));
    let nodes = HashMap::from([("n1".to_owned(), node)]);
    for index in 0..services {
        service_store.apply(Event::Apply(object(service(index))));
    }
    let mut version = 1;
    for index in 0..services * PODS_PER_SERVICE {
        version += 1;
        pod_store.apply(Event::Apply(stored_pod(index, version, true)));
    }
    let plan_one = |key: &Key, stored: &[Arc<EndpointSlice>]| {
        let service = selected.service(key).expect("there");
        let pods = selected.pods_of(&service);
        let wanted = Wanted { service: &service, pods: &pods, nodes: &nodes, shares: &Shares::default(), most: 100 };
        plan(wanted, stored)
    };
    let begun = Instant::now();
    let mut slices: Vec<Vec<Arc<EndpointSlice>>> = Vec::with_capacity(services);
    for index in 0..services {
        let made = plan_one(&Key::new("default", format!("s{index}")), &[]).create;
        let named = made.into_iter().enumerate().map(|(at, mut slice)| {
            slice.metadata.name = Some(format!("s{index}-{at}"));
            Arc::new(slice)
        });
        slices.push(named.collect());
    }
    let all = begun.elapsed().as_secs_f64() * 1e3;

    let touched = Arc::new(Mutex::new(Vec::<Key>::new()));
    let subscription = {
        // Not told of what is there already: those came before.
        let (selected, touched) = (selected.clone(), Arc::clone(&touched));
        pod_store.on_change(move |change| {
            if change.old.is_some() {
                touched.lock().expect("one thread").extend(selected.touched_by_pod(change));
            }
        })
    };
    let rounds = 1000;
    let mut spent = Duration::ZERO;
    for round in 0..rounds {
        let index = round * 7919 % (services * PODS_PER_SERVICE);
        version += 1;
        let changed = stored_pod(index, version, false);
        let begun = Instant::now();
        pod_store.apply(Event::Apply(changed));
        let keys = std::mem::take(&mut *touched.lock().expect("one thread"));
        for key in &keys {
            let at: usize = key.name[1..].parse().expect("a number");
            assert_eq!(plan_one(key, &slices[at]).writes(), 2, "a slice of each family");
        }
        spent += begun.elapsed();
        assert!(keys.len() <= 1);
        // And back, untimed, so that every round finds the same.
        version += 1;
        pod_store.apply(Event::Apply(stored_pod(index, version, true)));
        touched.lock().expect("one thread").clear();
    }
    drop(subscription);
    (all, spent.as_secs_f64() * 1e6 / rounds as f64)
}

fn resident_megabytes() -> usize {
    let text = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.split_whitespace().next()?.parse::<usize>().ok()).unwrap_or(0) / 1024
}

async fn fill(client: &Client, pods: usize) {
    let services: Api<Service> = Api::default_namespaced(client.clone());
    let api: Api<Pod> = Api::default_namespaced(client.clone());
    let nodes: Api<Node> = Api::all(client.clone());
    nodes.create(&PostParams::default(), &object(json!({"metadata": {"name": "n1"}}))).await.expect("a node");
    for chunk in (0..pods.div_ceil(PODS_PER_SERVICE)).collect::<Vec<_>>().chunks(64) {
        join_all(chunk.iter().map(async |index| {
            services.create(&PostParams::default(), &object(service(*index))).await.expect("a service");
        }))
        .await;
    }
    for chunk in (0..pods).collect::<Vec<_>>().chunks(64) {
        join_all(chunk.iter().map(async |index| {
            api.create(&PostParams::default(), &object(pod(*index))).await.expect("a pod");
            let patch = Patch::Merge(json!({"status": status(*index, false)}));
            api.patch_status(&format!("p{index}"), &PatchParams::default(), &patch).await.expect("its status");
        }))
        .await;
    }
}

/// When each Pod was first seen ready in a slice of each family.
type ObservedAt = Arc<Mutex<HashMap<(String, String), Instant>>>;

async fn follow(client: Client, seen: ObservedAt) {
    let slices: Api<EndpointSlice> = Api::all(client);
    let mut version = "0".to_owned();
    loop {
        let Ok(stream) = slices.watch(&WatchParams::default().timeout(290), &version).await else { continue };
        let mut stream = std::pin::pin!(stream);
        while let Some(Ok(event)) = stream.next().await {
            let (WatchEvent::Added(slice) | WatchEvent::Modified(slice)) = event else { continue };
            version = slice.metadata.resource_version.clone().unwrap_or_default();
            let now = Instant::now();
            let mut seen = seen.lock().expect("nobody panics with it");
            for endpoint in slice.endpoints.into_iter().flatten() {
                let ready = endpoint.conditions.and_then(|conditions| conditions.ready) == Some(true);
                let pod = endpoint.target_ref.and_then(|target| target.name);
                if let Some(pod) = pod.filter(|_| ready) {
                    seen.entry((pod, slice.address_type.clone())).or_insert(now);
                }
            }
        }
    }
}

async fn many_turn_ready(pods: usize, rate: usize) {
    let server = apiserver::testing::server().await;
    let client = Client::new(InProcess::new(server, myself()), "default");
    fill(&client, pods).await;
    let before = resident_megabytes();
    let admin = Admin { health: Health::new(), metrics: Metrics::new() };
    let tasks = Tasks::new(&admin.metrics, &admin.health);
    let context = Context::new(client.clone(), ControllerOptions::default(), &admin, &tasks);
    let all = control::controllers();
    let selection = Selection::parse("endpointslice-controller", &all).expect("a controller");
    framework::start(&context, &all, &selection);
    let seen: ObservedAt = Arc::default();
    tasks.once("follow", {
        let (client, seen) = (client.clone(), Arc::clone(&seen));
        |stop| async move {
            tokio::select! {
                () = stop.cancelled() => {}
                () = follow(client, seen) => {}
            }
            Ok::<_, std::convert::Infallible>(())
        }
    });
    let api: Api<EndpointSlice> = Api::all(client.clone());
    let wanted = pods.div_ceil(PODS_PER_SERVICE) * 2;
    while api.list_metadata(&Default::default()).await.map_or(0, |list| list.items.len()) < wanted {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let with = resident_megabytes();
    println!(
        "memory of the controller, {pods} Pods, {} Services: {} MB",
        pods / PODS_PER_SERVICE,
        with.saturating_sub(before)
    );

    let api: Api<Pod> = Api::default_namespaced(client);
    let begun = Instant::now();
    let mut asked: Vec<Instant> = Vec::with_capacity(pods);
    let batch = (rate / 100).max(1);
    // Spread over all Services, as a rollout of many is.
    let order: Vec<usize> = (0..pods).map(|index| index * 7919 % pods).collect();
    for (round, chunk) in order.chunks(batch).enumerate() {
        let due = begun + Duration::from_secs_f64((round * batch) as f64 / rate as f64);
        tokio::time::sleep_until(due.into()).await;
        let times = join_all(chunk.iter().map(async |index| {
            let patch = Patch::Merge(json!({"status": {"conditions": [{"type": "Ready", "status": "True"}]}}));
            api.patch_status(&format!("p{index}"), &PatchParams::default(), &patch).await.expect("patched");
            Instant::now()
        }))
        .await;
        asked.extend(times);
    }
    let took = begun.elapsed().as_secs_f64();
    let distinct: std::collections::HashSet<usize> = order.iter().copied().collect();
    while seen.lock().expect("nobody panics with it").len() < distinct.len() * 2 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let seen = seen.lock().expect("nobody panics with it");
    let mut lags: Vec<f64> = order
        .iter()
        .zip(&asked)
        .flat_map(|(index, asked)| {
            let times = ["IPv4", "IPv6"].map(|family| seen[&(format!("p{index}"), family.to_owned())]);
            times.map(|time| time.saturating_duration_since(*asked).as_secs_f64() * 1e3)
        })
        .collect();
    lags.sort_by(f64::total_cmp);
    let at = |share: f64| lags[((lags.len() - 1) as f64 * share) as usize];
    println!(
        "{pods} Pods turn ready at {:.0} per second: slices follow after {:.1} ms (half), {:.1} ms (99%), {:.1} ms (all)",
        pods as f64 / took,
        at(0.5),
        at(0.99),
        at(1.0)
    );
    println!("memory at the end, API server included: {} MB", resident_megabytes());
    tasks.abort();
}

fn main() {
    let services = number("BENCH_SERVICES", 5000, 20);
    let mut costs = Vec::new();
    for services in [services / 100, services] {
        let services = services.max(2);
        let (all, change) = one_change(services);
        println!(
            "{services} Services x {PODS_PER_SERVICE} Pods: plan of all {all:.1} ms; one Pod changes {change:.1} us"
        );
        costs.push(change);
    }
    println!("a change in the large cluster against the small one: {:.2}", costs[1] / costs[0]);
    let threads = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("threads");
    threads.block_on(many_turn_ready(number("BENCH_PODS", 50_000, 100), number("BENCH_RATE", 1000, 100).max(1)));
    threads.shutdown_background();
}
