//! Hooks are run, hold a container up as long as they take, and count against its time; probes of every kind ask on the family that a Pod names.

use super::{lab, nothing_is_left};
use e2e::{
    node_lab::{Lab, PATIENCE, Shape, pod, shell},
    twinstack, wait_for,
};
use serde_json::{Value, json};

fn with(mut container: Value, field: &str, value: Value) -> Value {
    container[field] = value;
    container
}

fn events(lab: &Lab) -> String {
    lab.kubectl(
        &["get", "events", "-o", "jsonpath={range .items[*]}{.reason} {.involvedObject.name}{\"\\n\"}{end}"],
        "",
    )
    .unwrap_or_default()
}

#[track_caller]
fn event(lab: &Lab, line: &str) {
    let seen = wait_for(PATIENCE, || events(lab).lines().any(|one| one == line).then_some(()));
    assert!(seen.is_some(), "no event {line:?}:\n{}\n{}", events(lab), lab.logs());
}

#[test]
fn hooks_are_run_before_and_after() {
    let Some(lab) = lab(Shape::V6V4, 1, &[]) else { return };
    let folder = tempfile::tempdir().unwrap();
    let shared = json!([{"name": "out", "hostPath": {"path": folder.path()}}]);
    let mount = json!([{"name": "out", "mountPath": "/out"}]);
    let read = |name: &str| std::fs::read_to_string(folder.path().join(name)).unwrap_or_default();
    // What the hook after the start does is done before the container counts as running; what the one before the end does, before it is told to.
    let line = "trap 'echo told >> /out/order; exit 0' TERM; while :; do sleep 0.1; done";
    let both = with(
        with(shell("c", line), "volumeMounts", mount.clone()),
        "lifecycle",
        json!({"postStart": {"exec": {"command": ["sh", "-c", "sleep 1; echo started >> /out/order"]}},
               "preStop": {"exec": {"command": ["sh", "-c", "echo before >> /out/order; sleep 1"]}}}),
    );
    let mut both = pod("both", &[both]);
    // By HTTP: a server beside it, in another Pod, is told when the other ends.
    let get = |path: &str, port: u16| json!({"httpGet": {"path": path, "port": port}});
    let web = shell("c", "mkdir -p /www; echo ok > /www/index.html; httpd -f -vv -p 8080 -h /www 2>> /out/log");
    let web = with(with(web, "volumeMounts", mount.clone()), "lifecycle", json!({"preStop": get("/bye", 8080)}));
    let mut web = pod("web", &[web]);
    let slow = with(shell("c", "sleep 600"), "lifecycle", json!({"preStop": {"sleep": {"seconds": 2}}}));
    let mut slow = pod("slow", &[slow]);
    let fails =
        with(shell("c", "sleep 600"), "lifecycle", json!({"postStart": {"exec": {"command": ["sh", "-c", "exit 4"]}}}));
    let mut fails = pod("fails", &[fails]);
    let bad =
        with(shell("c", "sleep 600"), "lifecycle", json!({"preStop": {"exec": {"command": ["sh", "-c", "exit 5"]}}}));
    let mut bad = pod("bad", &[bad]);
    for object in [&mut both, &mut web, &mut slow, &mut fails, &mut bad] {
        object["spec"]["volumes"] = shared.clone();
        object["spec"]["terminationGracePeriodSeconds"] = 10.into();
        lab.apply(object);
    }
    for name in ["both", "web", "slow", "bad"] {
        lab.ready(name);
    }
    assert_eq!(read("order"), "started\n");
    event(&lab, "FailedPostStartHook fails");
    for name in ["both", "web", "slow", "bad", "fails"] {
        lab.kubectl(&["delete", "pod", name, "--wait=false"], "").unwrap();
    }
    event(&lab, "FailedPreStopHook bad");
    nothing_is_left(&lab, 0);
    assert_eq!(read("order"), "started\nbefore\ntold\n");
    assert!(read("log").contains("/bye"), "{}", read("log"));
}

#[test]
fn probes_ask_by_https_and_grpc_on_the_family_that_a_pod_names() {
    let Some(lab) = lab(Shape::V4V6, 1, &[]) else { return };
    // The Pods are on the node's network, where a server of the test answers, on one family each.
    let server = |address: &str, port: u16| {
        let (http, https) = (format!("--http-port={port}"), format!("--https-port={}", port + 1));
        let bind = format!("--bind-address={address}");
        let program = twinstack().display().to_string();
        let words = [program.as_str(), "netexec", &bind, &http, &https, "--tcp-port=0", "--udp-port=0"];
        lab.network.node_process(0, &words, &lab.folder().join(format!("netexec-{port}.log")))
    };
    let _servers = [server(&lab.nodes[0].addresses[0], 9000), server(&lab.nodes[0].addresses[1], 9100)];
    let probes = |port: u16| {
        [
            ("https", json!({"httpGet": {"scheme": "HTTPS", "path": "/healthz", "port": port + 1}})),
            ("grpc", json!({"grpc": {"port": port}})),
            ("tcp", json!({"tcpSocket": {"port": port}})),
            ("http", json!({"httpGet": {"path": "/healthz", "port": port}})),
        ]
    };
    let families = [("IPv4", 9000_u16), ("IPv6", 9100)];
    for (family, port) in families {
        for (kind, probe) in probes(port) {
            let mut probe = probe;
            (probe["periodSeconds"], probe["failureThreshold"]) = (1.into(), 1.into());
            let name = format!("{kind}-{}", family.to_lowercase());
            let mut own = pod(&name, &[with(shell("c", "sleep 600"), "readinessProbe", probe)]);
            own["spec"]["hostNetwork"] = true.into();
            own["metadata"]["annotations"] = json!({"twinstack.dev/probe-ip-family": family});
            lab.apply(&own);
        }
    }
    let names = || {
        families.iter().flat_map(|(family, port)| {
            probes(*port).map(|(kind, _)| (kind, format!("{kind}-{}", family.to_lowercase())))
        })
    };
    for (_, name) in names() {
        lab.ready(&name);
    }
    // The servers say that they are not well: whoever is asked by health, and not by TCP, is not ready.
    for (address, port) in lab.nodes[0].addresses.iter().zip([9000, 9100]) {
        let host = if address.contains(':') { format!("[{address}]") } else { address.clone() };
        let url = format!("http://{host}:{port}/make-not-serving");
        lab.network.node(0).run("curl", &["-sS", "--max-time", "10", &url], "").unwrap();
    }
    for (kind, name) in names() {
        let wanted = if kind == "tcp" { "True" } else { "False" };
        lab.until(&["get", "pod", &name], |pod| {
            let conditions = e2e::node_lab::items(&pod["status"]["conditions"]);
            conditions.iter().any(|one| one["type"] == "Ready" && one["status"] == wanted).then_some(())
        });
    }
}
