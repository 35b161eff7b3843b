//! What a node holds Pods to: memory, sysctls, seccomp, the size of logs, room on the disk.

use super::{lab, nothing_is_left};
use e2e::{
    node_lab::{Lab, PATIENCE, Shape, items, pod, shell},
    wait_for,
};
use serde_json::{Value, json};
use std::path::Path;

#[track_caller]
fn run(lab: &Lab, pod: &str, line: &str) -> String {
    let words = ["exec", pod, "--", "sh", "-c", line];
    lab.kubectl(&words, "").unwrap_or_else(|error| panic!("{line}: {error}\n{}", lab.logs())).trim().to_owned()
}

fn phase(lab: &Lab, name: &str, wanted: &str) -> Value {
    lab.until(&["get", "pod", name], |pod| (pod["status"]["phase"] == wanted).then(|| pod.clone()))
}

#[test]
fn memory_sysctls_and_seccomp_are_as_a_pod_says() {
    let Some(lab) = lab(Shape::V4V6, 1, &["--allowed-unsafe-sysctls=kernel.msg*"]) else { return };
    let mut eats = shell("c", "tail /dev/zero");
    eats["resources"] = json!({"limits": {"memory": "16Mi"}});
    let mut eats = pod("eats", &[eats]);
    eats["spec"]["restartPolicy"] = "Never".into();
    let sysctls = |name: &str, sysctl: &str, value: &str| {
        let mut own = pod(name, &[shell("c", "sleep 600")]);
        own["spec"]["securityContext"] = json!({"sysctls": [{"name": sysctl, "value": value}]});
        own
    };
    let profile = |name: &str, kind: &str| {
        let mut own = pod(name, &[shell("c", "sleep 600")]);
        own["spec"]["securityContext"] = json!({"seccompProfile": {"type": kind}});
        own
    };
    for object in [
        eats,
        sysctls("safe", "net.ipv4.ip_unprivileged_port_start", "80"),
        sysctls("allowed", "kernel.msgmax", "65536"),
        sysctls("refused", "net.core.somaxconn", "5"),
        profile("default", "RuntimeDefault"),
        profile("free", "Unconfined"),
    ] {
        lab.apply(&object);
    }
    let ended = phase(&lab, "eats", "Failed");
    let state = &ended["status"]["containerStatuses"][0]["state"]["terminated"];
    assert_eq!((&state["reason"], &state["exitCode"]), (&json!("OOMKilled"), &json!(137)));
    let refused = phase(&lab, "refused", "Failed");
    assert_eq!(refused["status"]["reason"], "SysctlForbidden");
    assert_eq!(
        refused["status"]["message"],
        "Pod was rejected: forbidden sysctl: \"net.core.somaxconn\" not allowlisted"
    );
    for name in ["safe", "allowed", "default", "free"] {
        lab.ready(name);
    }
    assert_eq!(run(&lab, "safe", "cat /proc/sys/net/ipv4/ip_unprivileged_port_start"), "80");
    assert_eq!(run(&lab, "allowed", "cat /proc/sys/kernel/msgmax"), "65536");
    assert_eq!(run(&lab, "default", "grep Seccomp: /proc/self/status | tr -d '[:space:]'"), "Seccomp:2");
    assert_eq!(run(&lab, "free", "grep Seccomp: /proc/self/status | tr -d '[:space:]'"), "Seccomp:0");
    for name in ["eats", "refused", "safe", "allowed", "default", "free"] {
        lab.delete(name);
    }
    nothing_is_left(&lab, 0);
}

fn logs(folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    let mut folders = vec![folder.join("n0/logs")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            if entry.path().is_dir() {
                folders.push(entry.path());
            } else {
                found.push(entry.file_name().to_string_lossy().into_owned());
            }
        }
    }
    found.sort();
    found
}

#[test]
fn logs_are_turned_over_while_they_are_followed() {
    let flags = ["--container-log-max-size=4Ki", "--container-log-max-files=3"];
    let Some(lab) = lab(Shape::V4V6, 1, &flags) else { return };
    lab.apply(&pod("talks", &[shell("c", "n=0; while :; do n=$((n+1)); echo line $n of many; sleep 0.01; done")]));
    lab.ready("talks");
    let turned = wait_for(PATIENCE, || {
        let all = logs(lab.folder());
        (all.iter().any(|name| name.ends_with(".gz")) && all.contains(&"0.log".to_owned())).then_some(all)
    });
    let all = turned.unwrap_or_else(|| panic!("{:?}\n{}", logs(lab.folder()), lab.logs()));
    assert!(all.len() <= 3, "{all:?}");
    let last = lab.kubectl(&["logs", "talks", "--tail=1"], "").unwrap();
    assert!(last.starts_with("line "), "{last}");
    lab.delete("talks");
    nothing_is_left(&lab, 0);
}

/// The first Pod that was ended for lack of something.
#[track_caller]
fn evicted(lab: &Lab, name: &str, word: &str) {
    let ended = phase(lab, name, "Failed");
    assert_eq!(ended["status"]["reason"], "Evicted");
    let message = ended["status"]["message"].as_str().unwrap_or_default();
    assert!(message.contains(&format!("The node was low on resource: {word}")), "{message}");
}

#[track_caller]
fn condition(lab: &Lab, kind: &str) {
    lab.until(&["get", "node", "n0"], |node| {
        let all = items(&node["status"]["conditions"]);
        all.iter().any(|one| one["type"] == kind && one["status"] == "True").then_some(())
    });
}

#[test]
fn a_node_without_memory_ends_those_who_asked_for_nothing_first() {
    // More than any machine has.
    let Some(lab) = lab(Shape::V6V4, 1, &["--eviction-hard=memory.available<1000000Gi"]) else { return };
    condition(&lab, "MemoryPressure");
    let mut asks = shell("c", "sleep 600");
    asks["resources"] = json!({"requests": {"memory": "1Mi", "cpu": "1m"}, "limits": {"memory": "32Mi", "cpu": "1"}});
    let tolerate = json!([{"operator": "Exists"}]);
    for (name, container) in [("asks", asks), ("nothing", shell("c", "sleep 600"))] {
        let mut own = pod(name, &[container]);
        own["spec"]["tolerations"] = tolerate.clone();
        own["spec"]["nodeName"] = "n0".into();
        lab.apply(&own);
    }
    evicted(&lab, "nothing", "memory");
}

#[test]
fn a_node_without_room_removes_images_and_then_pods() {
    let flags = ["--eviction-hard=nodefs.available<100%,memory.available<1Mi", "--minimum-image-ttl-duration=0s"];
    let Some(lab) = lab(Shape::V4V6, 1, &flags) else { return };
    condition(&lab, "DiskPressure");
    // Nobody uses it; that of sandboxes stays.
    let gone = wait_for(PATIENCE, || {
        let images = lab.nodes[0].ctr(&["images", "list", "-q"]);
        (!images.contains("twinstack-busybox") && images.contains("twinstack-pause")).then_some(())
    });
    assert!(gone.is_some(), "{}\n{}", lab.nodes[0].ctr(&["images", "list", "-q"]), lab.logs());
    let mut own = pod("nothing", &[shell("c", "sleep 600")]);
    own["spec"]["tolerations"] = json!([{"operator": "Exists"}]);
    own["spec"]["nodeName"] = "n0".into();
    lab.apply(&own);
    evicted(&lab, "nothing", "ephemeral-storage");
    lab.delete("nothing");
    nothing_is_left(&lab, 0);
}
