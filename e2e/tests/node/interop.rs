//! Ours with upstream's: our kubelet in a cluster of kube-apiserver (`KUBE_APISERVER`), upstream's kubelet in a cluster of ours (`KUBELET`).

use super::{nothing_is_left, url};
use e2e::node_lab::{Lab, Parts, Shape, items, missing, server_pod};
use serde_json::json;
use std::path::PathBuf;

/// The program that a variable names. Comparisons with peers are extra: their absence is no skip.
pub(super) fn peer(variable: &str) -> Option<PathBuf> {
    let program = std::env::var_os(variable).map(PathBuf::from)?;
    missing().is_none().then_some(program)
}

#[track_caller]
fn ok(lab: &Lab, words: &[&str], input: &str) -> String {
    lab.kubectl(words, input).unwrap_or_else(|error| panic!("kubectl {words:?}: {error}\n{}", lab.logs()))
}

/// A Pod with a bit of everything runs, is reached on each family, and goes.
#[track_caller]
fn a_pod_lives_and_goes(lab: &Lab) {
    lab.apply(&json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}, "data": {"a": "1"}}));
    lab.apply(
        &json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "stringData": {"key": "secret"}}),
    );
    let mut web = server_pod("web");
    web["spec"]["volumes"] =
        json!([{"name": "map", "configMap": {"name": "m"}}, {"name": "secret", "secret": {"secretName": "s"}}]);
    web["spec"]["containers"][0]["volumeMounts"] =
        json!([{"name": "map", "mountPath": "/map"}, {"name": "secret", "mountPath": "/secret"}]);
    web["spec"]["containers"][0]["readinessProbe"] = json!({"httpGet": {"port": 8080}, "periodSeconds": 1});
    lab.apply(&web);
    let ips = lab.ready("web");
    let families: Vec<bool> = ips.iter().map(std::net::IpAddr::is_ipv4).collect();
    assert_eq!(families, lab.shape.of(&[true, false]), "{ips:?}");
    for ip in &ips {
        let answer = lab.network.node(0).run("curl", &["-sS", "--max-time", "10", &url(ip, 8080)], "");
        answer.unwrap_or_else(|error| panic!("{ip}: {error}\n{}", lab.logs()));
    }
    assert_eq!(ok(lab, &["exec", "web", "--", "cat", "/map/a", "/secret/key"], ""), "1secret");
    let token = ok(lab, &["exec", "web", "--", "cat", "/var/run/secrets/kubernetes.io/serviceaccount/token"], "");
    assert_eq!(token.split('.').count(), 3, "{token}");
    ok(lab, &["logs", "web"], "");
    let metrics = ok(lab, &["get", "--raw", "/api/v1/nodes/n0/proxy/metrics/resource"], "");
    assert!(metrics.contains("node_cpu_usage_seconds_total"), "{metrics}");
    let node = lab.get(&["get", "node", "n0"]).expect("it works");
    let own: Vec<&str> = items(&node["status"]["addresses"])
        .iter()
        .filter(|one| one["type"] == "InternalIP")
        .filter_map(|one| one["address"].as_str())
        .collect();
    assert_eq!(own, lab.nodes[0].addresses);
    lab.until(&["get", "lease", "n0", "-n", "kube-node-lease"], |lease| {
        (lease["spec"]["holderIdentity"] == "n0").then_some(())
    });
    lab.delete("web");
}

#[test]
fn our_kubelet_joins_a_cluster_of_kube_apiserver() {
    let Some(program) = peer("KUBE_APISERVER") else { return };
    for shape in [Shape::V4V6, Shape::V6V4] {
        let lab = Lab::of(&Parts { kube_apiserver: Some(program.clone()), ..Parts::new(shape, 1, &[]) });
        lab.node_ready("n0");
        a_pod_lives_and_goes(&lab);
        nothing_is_left(&lab, 0);
    }
}

#[test]
fn upstreams_kubelet_joins_a_cluster_of_ours() {
    let Some(program) = peer("KUBELET") else { return };
    for shape in [Shape::V4V6, Shape::V6V4] {
        let lab = Lab::of(&Parts { kubelet: Some(program.clone()), ..Parts::new(shape, 1, &[]) });
        lab.connect();
        lab.node_ready("n0");
        a_pod_lives_and_goes(&lab);
    }
}
