//! What keeping account of ownership costs, for a Pod as a kubelet reports it: `cargo bench -p apiserver`.
//!
//! Prints nanoseconds of processor time per operation, so that other work on the machine does not count.

#![allow(clippy::unwrap_used, reason = "a measurement that cannot be made should say so")]

use api::{object::Fields, schema::Shape};
use jiff::Timestamp;
use patch::apply::{Apply, Claim, FieldSet, Force, Update, apply, settle_times, track_update};
use serde_json::{Value, json};
use std::hint::black_box;

const POD: Shape = Shape::Named("io.k8s.api.core.v1.Pod");
const ROUNDS: u64 = 300;

fn main() {
    let pod = running_pod();
    let mut touched = pod.clone();
    touched["status"]["containerStatuses"][0]["restartCount"] = json!(7);
    touched["status"]["conditions"][1]["lastTransitionTime"] = json!("2030-01-01T00:09:00Z");
    let mut relabelled = pod.clone();
    relabelled["metadata"]["labels"]["app"] = json!("other");
    let config = with_head(spec(&["a", "b"]));
    let mut other = config.clone();
    other["spec"]["containers"][0]["image"] = json!("a:9");

    measure("status update, nothing changed", || update(&pod, pod.clone(), "kubelet", "status"));
    measure("status update, two fields changed", || update(&pod, touched.clone(), "kubelet", "status"));
    measure("update, one label changed", || update(&pod, relabelled.clone(), "kubectl-edit", ""));
    measure("create", || update_of(None, with_head(spec(&["a", "b"])), "kube-controller-manager", ""));
    measure("apply, nothing changed", || applied(&pod, &config));
    measure("apply, one field changed", || applied(&pod, &other));
    measure("a copy of the object, for comparison", || pod.clone());
}

fn measure(what: &str, mut run: impl FnMut() -> Value) {
    black_box(run());
    let start = busy();
    for _ in 0..ROUNDS {
        black_box(run());
    }
    println!("{:>9} ns  {what}", (busy() - start) / ROUNDS);
}

/// How long this thread has been running, in nanoseconds: other work on the machine does not count.
fn busy() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    text.split(' ').next().unwrap().parse().unwrap()
}

fn update(live: &Value, new: Value, manager: &str, subresource: &str) -> Value {
    let mut new = update_of(Some(live), new, manager, subresource);
    settle_times(live, &mut new);
    new
}

fn update_of(live: Option<&Value>, mut new: Value, manager: &str, subresource: &str) -> Value {
    let update = Update {
        shape: &POD,
        live,
        claim: Claim::of(&new),
        manager,
        api_version: "v1",
        versions: &["v1"],
        subresource,
        reset: &FieldSet::of(&[if subresource == "status" { "spec" } else { "status" }]),
        now: Timestamp::from_second(60).unwrap(),
    };
    track_update(&update, &mut new);
    new
}

fn applied(live: &Value, config: &Value) -> Value {
    let request = Apply {
        shape: &POD,
        kind: "Pod",
        live: Some(live),
        config,
        manager: "deployer",
        force: Force::Yes,
        api_version: "v1",
        versions: &["v1"],
        subresource: "",
        reset: &FieldSet::of(&["status"]),
        now: Timestamp::from_second(60).unwrap(),
    };
    apply(&request).unwrap()
}

fn with_head(spec: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "n", "labels": {"app": "web", "tier": "front"}}, "spec": spec})
}

fn spec(names: &[&str]) -> Value {
    let container = |name: &&str| {
        json!({
            "name": name, "image": format!("{name}:1"), "imagePullPolicy": "IfNotPresent", "args": ["--port", "80"],
            "env": [{"name": "X", "value": "1"}, {"name": "Y", "value": "2"}],
            "ports": [{"containerPort": 80, "protocol": "TCP", "name": "http"}, {"containerPort": 53, "protocol": "UDP"}],
            "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}},
            "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File",
            "volumeMounts": [{"name": "data", "mountPath": "/data"}, {"name": "token", "mountPath": "/token", "readOnly": true}],
        })
    };
    json!({
        "containers": names.iter().map(container).collect::<Vec<_>>(),
        "dnsPolicy": "ClusterFirst", "restartPolicy": "Always", "schedulerName": "default-scheduler",
        "securityContext": {}, "terminationGracePeriodSeconds": 30, "serviceAccountName": "default",
        "tolerations": [{"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}],
        "volumes": [{"name": "data", "emptyDir": {}}, {"name": "token", "projected": {"defaultMode": 420, "sources": [{"configMap": {"name": "ca"}}]}}],
    })
}

/// A Pod of both families that a controller created, a scheduler bound, a kubelet runs and a deployer applied to.
fn running_pod() -> Value {
    let created = update_of(None, with_head(spec(&["a", "b"])), "kube-controller-manager", "");
    let mut labels = created.clone();
    labels["metadata"]["labels"]["track"] = json!("stable");
    let labelled = update(&created, labels, "labeller", "");
    let mut running = applied(&labelled, &with_head(spec(&["a"])));
    running["metadata"]["uid"] = json!("3c6a1d5e");
    running["metadata"]["resourceVersion"] = json!("12345");
    let before = running.clone();
    let condition = |kind: &str| json!({"type": kind, "status": "True", "lastProbeTime": null, "lastTransitionTime": "2030-01-01T00:00:00Z"});
    let container = |name: &str| {
        json!({
            "name": name, "image": format!("{name}:1"), "imageID": format!("sha256:{name}"), "containerID": format!("containerd://{name}"),
            "ready": true, "started": true, "restartCount": 0, "state": {"running": {"startedAt": "2030-01-01T00:00:00Z"}}, "lastState": {},
        })
    };
    let conditions = ["PodScheduled", "Initialized", "ContainersReady", "Ready"].map(condition);
    running.set(
        "status",
        json!({
            "phase": "Running", "qosClass": "Burstable", "startTime": "2030-01-01T00:00:00Z",
            "hostIP": "192.0.2.1", "hostIPs": [{"ip": "192.0.2.1"}, {"ip": "2001:db8::1"}],
            "podIP": "10.0.0.7", "podIPs": [{"ip": "10.0.0.7"}, {"ip": "fd00::7"}],
            "conditions": conditions,
            "containerStatuses": [container("a"), container("b")],
        }),
    );
    update(&before, running, "kubelet", "status")
}
