use super::{plan::View, pod};
use jiff::Timestamp;
use k8s_openapi::api::{
    apps::v1::DaemonSet,
    core::v1::{Node, Pod},
};
use serde_json::{Value, from_value, json};

fn now() -> Timestamp {
    "2026-01-01T12:00:00Z".parse().unwrap()
}

fn set(strategy: Value, image: &str) -> DaemonSet {
    from_value(json!({
        "metadata": {"name": "agent", "namespace": "default", "uid": "ds", "generation": 2},
        "spec": {"selector": {"matchLabels": {"app": "agent"}}, "updateStrategy": strategy, "revisionHistoryLimit": 1,
            "template": {"metadata": {"labels": {"app": "agent"}}, "spec": {"nodeSelector": {"os": "linux"},
                "containers": [{"name": "c", "image": image}]}}},
    }))
    .unwrap()
}

fn rolling(surge: Value, unavailable: Value) -> Value {
    json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}})
}

fn node(name: &str, os: &str, taints: Value) -> Node {
    from_value(json!({"metadata": {"name": name, "labels": {"os": os}}, "spec": {"taints": taints}})).unwrap()
}

/// `old` or `new` template; `state` is `ready`, `starting`, `ending` or a phase.
fn daemon(name: &str, node: &str, hash: &str, state: &str) -> Pod {
    let ready = if matches!(state, "ready" | "ending") { "True" } else { "False" };
    let phase = if matches!(state, "ready" | "ending" | "starting") { "Running" } else { state };
    let deleted = if state == "ending" { json!("2026-01-01T11:00:00Z") } else { Value::Null };
    from_value(json!({
        "metadata": {"name": name, "uid": name, "creationTimestamp": "2026-01-01T00:00:00Z", "deletionTimestamp": deleted,
            "labels": {"app": "agent", "controller-revision-hash": hash}},
        "spec": {"nodeName": node, "containers": []},
        "status": {"phase": phase, "conditions": [{"type": "Ready", "status": ready, "lastTransitionTime": "2026-01-01T00:00:00Z"}]},
    }))
    .unwrap()
}

fn plan(set: &DaemonSet, nodes: &[Node], pods: &[Pod]) -> (Vec<String>, Vec<String>) {
    let nodes: Vec<&Node> = nodes.iter().collect();
    let pods: Vec<&Pod> = pods.iter().collect();
    let plan = View { set, nodes: &nodes, pods: &pods, hash: "new", now: now() }.plan();
    let names = plan.delete.iter().map(|pod| pod.metadata.name.clone().unwrap()).collect();
    (plan.create.into_iter().map(str::to_owned).collect(), names)
}

fn three() -> Vec<Node> {
    ["a", "b", "c"].map(|name| node(name, "linux", json!([]))).into()
}

#[test]
fn every_node_that_fits_gets_one() {
    let set = set(rolling(json!(0), json!(1)), "one");
    let taint = |key: &str, effect: &str| json!([{"key": key, "effect": effect}]);
    let nodes = [
        node("plain", "linux", json!([])),
        node("other", "windows", json!([])),
        node("cordoned", "linux", taint("node.kubernetes.io/unschedulable", "NoSchedule")),
        node("sick", "linux", taint("node.kubernetes.io/unreachable", "NoExecute")),
        node("reserved", "linux", taint("team", "NoSchedule")),
    ];
    assert_eq!(plan(&set, &nodes, &[]).0, ["plain", "cordoned", "sick"]);
    let there = [daemon("p", "other", "new", "ready"), daemon("q", "reserved", "new", "ready")];
    assert_eq!(plan(&set, &nodes[1..2], &there[..1]).1, ["p"], "a node that no longer fits loses it");
    assert_eq!(plan(&set, &nodes[4..], &there[1..]).1, [""; 0], "a taint against new pods leaves old ones");
}

#[test]
fn failed_and_doubled_pods_go() {
    let set = set(rolling(json!(0), json!(1)), "one");
    let pods = [
        daemon("a1", "a", "new", "Failed"),
        daemon("b1", "b", "new", "ready"),
        daemon("b2", "b", "new", "ready"),
        daemon("c1", "c", "new", "ending"),
    ];
    assert_eq!(plan(&set, &three(), &pods), (vec![], vec!["a1".to_owned(), "b2".to_owned()]));
}

#[test]
fn a_rolling_update_replaces_as_many_as_allowed() {
    let old = |state: [&str; 3]| -> Vec<Pod> {
        ["a", "b", "c"].iter().zip(state).map(|(node, state)| daemon(&format!("{node}1"), node, "old", state)).collect()
    };
    type Row = (&'static str, Value, Vec<Pod>, &'static [&'static str], &'static [&'static str]);
    let rows: [Row; 7] = [
        ("one at a time", rolling(json!(0), json!(1)), old(["ready"; 3]), &[], &["a1"]),
        ("a percentage rounds up", rolling(json!(0), json!("50%")), old(["ready"; 3]), &[], &["a1", "b1"]),
        ("not while one is missing", rolling(json!(0), json!(1)), old(["ending", "ready", "ready"]), &[], &[]),
        ("broken ones first", rolling(json!(0), json!(1)), old(["ready", "starting", "ready"]), &[], &["b1"]),
        ("surge makes before it breaks", rolling(json!(1), json!(0)), old(["ready"; 3]), &["a"], &[]),
        (
            "surge is counted",
            rolling(json!(1), json!(0)),
            [old(["ready"; 3]), vec![daemon("a2", "a", "new", "starting")]].concat(),
            &[],
            &[],
        ),
        (
            "the new one takes over",
            rolling(json!(1), json!(0)),
            [old(["ready"; 3]), vec![daemon("a2", "a", "new", "ready")]].concat(),
            &[],
            &["a1"],
        ),
    ];
    for (name, strategy, pods, created, deleted) in rows {
        let (create, delete) = plan(&set(strategy, "two"), &three(), &pods);
        assert_eq!(
            (create, delete),
            (
                created.iter().map(|one| (*one).to_owned()).collect(),
                deleted.iter().map(|one| (*one).to_owned()).collect::<Vec<_>>()
            ),
            "{name}"
        );
    }
    assert_eq!(plan(&set(json!({"type": "OnDelete"}), "two"), &three(), &old(["ready"; 3])), (vec![], vec![]));
}

#[test]
fn a_daemon_pod_belongs_to_its_node_before_it_is_bound() {
    let set = set(rolling(json!(0), json!(1)), "one");
    let made = pod::create(&set, "b", "new");
    assert_eq!(pod::node(&made), "b");
    assert_eq!(made.metadata.labels.as_ref().unwrap()["controller-revision-hash"], "new");
    assert_eq!(plan(&set, &three(), &[made]).0, ["a", "c"]);
}

#[test]
fn the_status_counts_nodes() {
    let set = set(rolling(json!(0), json!(1)), "two");
    let mut nodes = three();
    nodes.push(node("w", "windows", json!([])));
    let pods =
        [daemon("a1", "a", "new", "ready"), daemon("b1", "b", "old", "starting"), daemon("w1", "w", "new", "ready")];
    let nodes: Vec<&Node> = nodes.iter().collect();
    let pods: Vec<&Pod> = pods.iter().collect();
    let status = View { set: &set, nodes: &nodes, pods: &pods, hash: "new", now: now() }.status();
    assert_eq!(
        serde_json::to_value(status).unwrap(),
        json!({"desiredNumberScheduled": 3, "currentNumberScheduled": 2, "numberReady": 1, "numberAvailable": 1,
            "numberUnavailable": 2, "updatedNumberScheduled": 1, "numberMisscheduled": 1, "observedGeneration": 2}),
    );
}
