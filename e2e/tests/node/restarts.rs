//! Whatever is killed, Pods go on or come back, and statuses become true again.

use super::{lab, nothing_is_left, url};
use e2e::node_lab::{Lab, PATIENCE, Shape, server_pod};
use serde_json::Value;
use std::net::IpAddr;

fn first(lab: &Lab, pod: &str) -> Value {
    lab.get(&["get", "pod", pod]).unwrap_or_default()["status"]["containerStatuses"][0].clone()
}

#[track_caller]
fn answers(lab: &Lab, ips: &[IpAddr]) {
    for ip in ips {
        let answer = e2e::wait_for(PATIENCE, || {
            lab.network.node(0).run("curl", &["-sS", "--max-time", "5", &url(ip, 8080)], "").ok()
        });
        assert!(answer.is_some(), "{ip} does not answer\n{}", lab.logs());
    }
}

#[track_caller]
fn restarted(lab: &Lab, pod: &str, times: u64) -> Vec<IpAddr> {
    lab.until(&["get", "pod", pod], |pod| {
        let status = &pod["status"]["containerStatuses"][0];
        (status["restartCount"].as_u64() == Some(times) && status["ready"] == true).then_some(())
    });
    lab.ready(pod)
}

#[test]
fn whoever_is_killed_pods_go_on_or_come_back() {
    let Some(mut lab) = lab(Shape::V4V6, 1, &[]) else { return };
    lab.apply(&server_pod("web"));
    let ips = lab.ready("web");
    let before = first(&lab, "web");

    // The kubelet, at once and in order: no container is touched.
    for stop in [true, false] {
        let mut node = lab.nodes.remove(0);
        if stop {
            node.stop_kubelet();
        } else {
            node.kill_kubelet();
        }
        answers(&lab, &ips);
        node.start_kubelet(lab.network.node(0));
        lab.nodes.insert(0, node);
        lab.until(&["get", "node", "n0"], |_| lab.nodes[0].kubelet_log().contains("node is registered").then_some(()));
        answers(&lab, &ips);
        assert_eq!(first(&lab, "web")["containerID"], before["containerID"]);
    }

    // The runtime: containers go on, and are found again.
    let mut node = lab.nodes.remove(0);
    node.kill_containerd();
    answers(&lab, &ips);
    node.start_containerd(lab.network.node(0));
    lab.nodes.insert(0, node);
    assert_eq!(lab.ready("web"), ips);
    answers(&lab, &ips);
    assert_eq!(first(&lab, "web")["containerID"], before["containerID"]);

    // The container: it is started again in the same sandbox, with the same addresses.
    let id = before["containerID"].as_str().unwrap().trim_start_matches("containerd://").to_owned();
    lab.nodes[0].ctr(&["tasks", "kill", "--signal", "KILL", &id]);
    assert_eq!(restarted(&lab, "web", 1), ips);
    answers(&lab, &ips);
    assert_eq!(first(&lab, "web")["lastState"]["terminated"]["exitCode"], 137);

    // The shim, and everything in it: another sandbox, with other addresses perhaps.
    lab.nodes[0].kill_shims();
    let ips = restarted(&lab, "web", 2);
    answers(&lab, &ips);

    // Deleted while nobody looks: gone when somebody does.
    let mut node = lab.nodes.remove(0);
    node.kill_kubelet();
    lab.kubectl(&["delete", "pod", "web", "--force", "--grace-period=0"], "").unwrap();
    node.start_kubelet(lab.network.node(0));
    lab.nodes.insert(0, node);
    nothing_is_left(&lab, 0);
}
