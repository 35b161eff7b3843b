//! Many Pods at once, and whatever is killed at whatever moment: everything settles, and nothing is left.

use super::{lab, nothing_is_left};
use e2e::{
    node_lab::{PATIENCE, Shape, items, pod, server_pod, shell},
    wait_for,
};
use serde_json::json;

/// How many Pods: few for every day, `TWINSTACK_STORM=100` as the limit of a node.
fn many() -> usize {
    std::env::var("TWINSTACK_STORM").ok().and_then(|text| text.parse().ok()).unwrap_or(15)
}

#[test]
fn a_storm_of_pods_settles_and_leaves_nothing() {
    let Some(lab) = lab(Shape::V4V6, 1, &[]) else { return };
    let containers = pod("x", &[shell("c", "exec sleep 3600")])["spec"]["containers"].clone();
    let template = json!({"metadata": {"labels": {"app": "storm"}},
        "spec": {"terminationGracePeriodSeconds": 1, "containers": containers}});
    let object = json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "storm"},
        "spec": {"replicas": many(), "selector": {"matchLabels": {"app": "storm"}}, "template": template}});
    let begun = std::time::Instant::now();
    lab.apply(&object);
    lab.until(&["get", "replicaset", "storm"], |set| (set["status"]["readyReplicas"] == many()).then_some(()));
    eprintln!("{} pods ready after {:?}", many(), begun.elapsed());
    let pods = lab.get(&["get", "pods", "-l", "app=storm"]).unwrap();
    let mut addresses: Vec<&str> = items(&pods["items"])
        .iter()
        .flat_map(|pod| items(&pod["status"]["podIPs"]))
        .filter_map(|one| one["ip"].as_str())
        .collect();
    addresses.sort_unstable();
    addresses.dedup();
    assert_eq!(addresses.len(), 2 * many(), "two addresses each, all different");
    lab.kubectl(&["delete", "replicaset", "storm", "--wait=false"], "").unwrap();
    let gone = wait_for(PATIENCE, || {
        let pods = lab.get(&["get", "pods", "-l", "app=storm"])?;
        items(&pods["items"]).is_empty().then_some(())
    });
    assert!(gone.is_some(), "{}", lab.logs());
    eprintln!("{} pods gone after {:?}", many(), begun.elapsed());
    nothing_is_left(&lab, 0);
}

#[test]
fn a_shim_that_is_killed_at_any_moment_leaves_nothing() {
    let Some(lab) = lab(Shape::V4V6, 1, &[]) else { return };
    // As soon as there is a sandbox, as soon as there is a container, when it runs, while it ends.
    for round in 0..4_usize {
        let name = format!("web{round}");
        lab.apply(&server_pod(&name));
        match round {
            0 | 1 => {
                let seen = wait_for(PATIENCE, || (lab.nodes[0].tasks().len() > round).then_some(()));
                assert!(seen.is_some(), "{}", lab.logs());
            }
            _ => {
                lab.ready(&name);
            }
        }
        if round == 3 {
            lab.kubectl(&["delete", "pod", &name, "--wait=false"], "").unwrap();
        }
        lab.nodes[0].kill_shims();
        if round < 3 {
            // It comes back, in another sandbox.
            lab.until(&["get", "pod", &name], |pod| {
                let status = &pod["status"]["containerStatuses"][0];
                (status["ready"] == true && lab.nodes[0].tasks().len() == 2).then_some(())
            });
            lab.kubectl(&["delete", "pod", &name, "--wait=false"], "").unwrap();
        }
        let gone = wait_for(PATIENCE, || lab.get(&["get", "pod", &name]).is_none().then_some(()));
        assert!(gone.is_some(), "{round}\n{}", lab.logs());
        nothing_is_left(&lab, 0);
    }
}
