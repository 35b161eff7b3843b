//! `twinstack proxy` with a real kernel: a client, a node and its pods in network namespaces, both families at once. How it
//! follows changes, what it refuses, and what outlives it; `matrix` has every way to a Service.

use e2e::{
    Process,
    proxy_lab::{self, Answer, CLIENT, GATES, Lab, NODE, PATIENCE, PODS, Pair, ask, ask_patiently, http, ip},
    wait_for,
};
use kernel::netns::Namespace;
use serde_json::{Value, json};
use std::{
    collections::BTreeMap,
    net::{IpAddr, SocketAddr, UdpSocket},
    sync::atomic::{AtomicBool, AtomicU32, Ordering},
    thread,
    time::Duration,
};

const BALANCER: Pair = ["198.51.100.7", "2001:db8::7"];
const CLUSTER: Pair = ["10.96.0.50", "fd00:10:96::50"];
const NEAR: Pair = ["10.96.0.53", "fd00:10:96::53"];
const NAMES: Pair = ["10.96.0.52", "fd00:10:96::52"];
const LIMITED: Pair = ["10.96.0.51", "fd00:10:96::51"];
const SERVICES: &str = "/api/v1/namespaces/default/services";

/// Asks both families until `good`.
#[track_caller]
fn until(lab: &Lab, from: &Namespace, to: Pair, port: u16, good: impl Fn(&Answer) -> bool) {
    for text in to {
        let mut last = None;
        let found = wait_for(PATIENCE, || {
            let answer = ask(from, SocketAddr::new(ip(text), port));
            let good = good(&answer);
            last = Some(answer);
            good.then_some(())
        });
        assert!(found.is_some(), "{text}:{port} last gave {last:?}\n{}\n{}", lab.table("ip"), lab.table("ip6"));
    }
}

/// Whom each pod saw in many connections, by pod.
fn many(from: &Namespace, to: &str, port: u16) -> BTreeMap<usize, IpAddr> {
    (0..40).map(|_| ask_patiently(from, SocketAddr::new(ip(to), port)).expect("an answer")).collect()
}

fn slice(service: &str, family: usize, pods: &[usize]) -> Value {
    let endpoints: Vec<Value> = pods
        .iter()
        .map(|pod| json!({"addresses": [PODS[*pod][family]], "nodeName": "n1", "conditions": {"ready": true}}))
        .collect();
    let name = format!("{service}-{}", ["v4", "v6"][family]);
    let kind = ["IPv4", "IPv6"][family];
    json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
        "metadata": {"name": name, "namespace": "default", "labels": {"kubernetes.io/service-name": service}},
        "addressType": kind, "endpoints": endpoints, "ports": [{"name": "http", "port": 8080, "protocol": "TCP"}],
    })
}

fn service(name: &str, ips: Pair, more: &Value) -> Value {
    let mut object = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": name, "namespace": "default"},
        "spec": {"clusterIP": ips[0], "clusterIPs": ips, "ipFamilyPolicy": "RequireDualStack",
            "ports": [{"name": "http", "port": 80, "protocol": "TCP"}]},
    });
    for (key, value) in more.as_object().into_iter().flatten() {
        object["spec"][key] = value.clone();
    }
    object
}

#[test]
fn services_work_on_both_families() {
    if let Some(how) = proxy_lab::missing() {
        e2e::skip("the proxy with a real kernel", how);
        return;
    }
    let lab = Lab::new();
    let foreign = "table inet foreign {\n\tchain untouched {\n\t\tcounter accept\n\t}\n}\n";
    lab.node.run("nft", &["-f", "-"], foreign).expect("a table of somebody else");
    lab.apply(&service(
        "web",
        CLUSTER,
        &json!({"type": "NodePort", "ports": [
        {"name": "http", "port": 80, "protocol": "TCP", "nodePort": 30080}]}),
    ));
    for family in [0, 1] {
        lab.apply(&slice("web", family, &[0, 1]));
    }
    let mut proxy = lab.proxy("nftables", "proxy.log");
    traffic_flows(&lab, &proxy);
    changes_follow(&lab);
    a_family_without_a_rule_is_closed(&lab);
    the_policy_local_keeps_the_clients_address(&lab);
    flows_of_datagrams_move(&lab);
    affinity_holds(&lab);
    a_node_that_goes_away_is_not_sent_traffic(&lab);
    what_it_would_do_is_told_without_doing_it(&lab);
    a_restart_leaves_no_gap(&lab, &mut proxy);
    nft_that_is_killed_is_made_good(&lab, &mut proxy);
    files_of_kube_proxy_are_read(&lab, &mut proxy);
    deletion_leaves_nothing(&lab, &mut proxy);
}

fn traffic_flows(lab: &Lab, proxy: &Process) {
    until(lab, &lab.client, CLUSTER, 80, Result::is_ok);
    for family in [0, 1] {
        // Both pods, by cluster IP and by node port; a client from outside is masqueraded.
        for (to, port) in [(CLUSTER[family], 80), (NODE[family], 30080)] {
            let seen = many(&lab.client, to, port);
            assert_eq!(seen.len(), 2, "both pods answer: {seen:?}\n{}", proxy.output());
            for (pod, client) in &seen {
                assert_eq!(*client, ip(GATES[*pod][family]), "the answer must come back through the node");
            }
        }
        // A pod keeps its address, but not towards itself.
        let seen = many(&lab.pods[0], CLUSTER[family], 80);
        assert_eq!(seen[&1], ip(PODS[0][family]));
        assert_eq!(seen[&0], ip(GATES[0][family]), "a pod that is sent to itself sees the node");
        // The node's own programs.
        assert_eq!(many(&lab.node, CLUSTER[family], 80).len(), 2);
        // A port that the Service does not have is refused at once.
        let refused = ask(&lab.client, SocketAddr::new(ip(CLUSTER[family]), 81));
        assert_eq!(refused, Err(std::io::ErrorKind::ConnectionRefused));
    }
    for at in ["127.0.0.1:10256", "[::1]:10256", "192.168.77.1:10256", "[fd77::1]:10256"] {
        let health = http(&lab.node, at.parse().expect("an address"), "/healthz");
        assert!(health.starts_with("HTTP/1.1 200 OK") && health.contains("\"nodeEligible\":true"), "{health}");
        assert!(health.contains("\"IPv4\":{") && health.contains("\"IPv6\":{"), "{health}");
    }
    let metrics = http(&lab.node, "127.0.0.1:10249".parse().expect("an address"), "/metrics");
    for family in ["IPv4", "IPv6"] {
        let synced = format!("kubeproxy_sync_full_proxy_rules_duration_seconds_count{{ip_family=\"{family}\"}} ");
        assert!(metrics.contains(&synced), "{metrics}");
    }
    unused_cluster_ips_lead_nowhere(lab);
    let second = lab.proxy("nftables", "second.log");
    let refused = wait_for(PATIENCE, || second.output().contains("another twinstack proxy runs").then_some(()));
    assert!(refused.is_some(), "two proxies would undo each other's work: {}", second.output());
}

/// A machine beyond the node has an address that no Service has: it is never asked.
fn unused_cluster_ips_lead_nowhere(lab: &Lab) {
    let unused = ["10.96.0.99", "fd00:10:96::99"];
    for ip in unused {
        lab.client.run("ip", &["addr", "add", ip, "dev", "lo"], "").expect("an address");
    }
    for family in [0, 1] {
        let dropped = Err(std::io::ErrorKind::TimedOut);
        for from in [&*lab.pods[0], &lab.node] {
            assert_eq!(ask(from, SocketAddr::new(ip(unused[family]), 80)), dropped, "{}", lab.table("ip6"));
        }
    }
}

fn changes_follow(lab: &Lab) {
    let only = |number: usize| move |answer: &Answer| matches!(answer, Ok((pod, _)) if *pod == number);
    for (pods, number) in [([0], 0), ([1], 1)] {
        for family in [0, 1] {
            lab.apply(&slice("web", family, &pods));
        }
        until(lab, &lab.client, CLUSTER, 80, only(number));
        until(lab, &lab.client, NODE, 30080, only(number));
        // One answer of the right pod may come while there are still two.
        for to in CLUSTER {
            let alone = wait_for(PATIENCE, || many(&lab.client, to, 80).keys().eq([&number]).then_some(()));
            assert!(alone.is_some(), "{to} leads to others than pod {number}");
        }
    }
    for family in [0, 1] {
        lab.apply(&slice("web", family, &[]));
    }
    let refused = |answer: &Answer| *answer == Err(std::io::ErrorKind::ConnectionRefused);
    for from in [&lab.client, &lab.node, &*lab.pods[0]] {
        until(lab, from, CLUSTER, 80, refused);
    }
    until(lab, &lab.client, NODE, 30080, refused);
    for family in [0, 1] {
        lab.apply(&slice("web", family, &[0, 1]));
    }
    until(lab, &lab.client, CLUSTER, 80, Result::is_ok);
}

/// Source ranges that name one family leave the other closed.
fn a_family_without_a_rule_is_closed(lab: &Lab) {
    for family in [0, 1] {
        lab.apply(&slice("limited", family, &[0]));
    }
    let ingress: Vec<Value> = BALANCER.iter().map(|ip| json!({"ip": ip})).collect();
    let status = json!({"loadBalancer": {"ingress": ingress}});
    let ranges = |list: &[&str]| {
        lab.apply(&service("limited", LIMITED, &json!({"type": "LoadBalancer", "loadBalancerSourceRanges": list})));
        lab.set_status(&format!("{SERVICES}/limited"), &status);
    };
    let open = |family: usize| ask(&lab.client, SocketAddr::new(ip(BALANCER[family]), 80)).is_ok();
    let closed = |family: usize| {
        ask(&lab.client, SocketAddr::new(ip(BALANCER[family]), 80)) == Err(std::io::ErrorKind::TimedOut)
    };
    for (list, which) in [(&["192.168.77.0/24"][..], 0), (&["fd77::/64"], 1), (&["0.0.0.0/0"], 0)] {
        ranges(list);
        let settled = wait_for(PATIENCE, || (open(which) && closed(1 - which)).then_some(()));
        assert!(settled.is_some(), "{list:?}\n{}\n{}", lab.table("ip"), lab.table("ip6"));
    }
    ranges(&["203.0.113.0/24", "2001:db8:5::/48"]);
    assert!(wait_for(PATIENCE, || (closed(0) && closed(1)).then_some(())).is_some());
    ranges(&["192.168.77.2/32", "192.168.77.0/24", "fd77::2/128"]);
    assert!(wait_for(PATIENCE, || (open(0) && open(1)).then_some(())).is_some(), "{}", lab.table("ip"));
    lab.delete(&format!("{SERVICES}/limited"));
}

/// Others see only endpoints here and come with their own address; the node and its pods see all. Where there is none
/// here, others get no answer. A family that the Service does not have stays closed.
fn the_policy_local_keeps_the_clients_address(lab: &Lab) {
    let slices = |nodes: [&str; 2]| {
        for family in [0, 1] {
            let mut slice = slice("near", family, &[0, 1]);
            for (pod, node) in nodes.iter().enumerate() {
                slice["endpoints"][pod]["nodeName"] = json!(node);
            }
            lab.apply(&slice);
        }
    };
    let balancer_sees = |status: &str, count: &str| {
        for node in NODE {
            let answer = || http(&lab.client, SocketAddr::new(ip(node), 30990), "/");
            let good = wait_for(PATIENCE, || {
                let answer = answer();
                (answer.starts_with(status) && answer.contains(count)).then_some(())
            });
            assert!(good.is_some(), "{node}: {}", answer());
        }
    };
    let ports = json!([{"name": "http", "port": 80, "protocol": "TCP", "nodePort": 30081}]);
    lab.apply(&service(
        "near",
        NEAR,
        &json!({"type": "LoadBalancer", "externalTrafficPolicy": "Local",
        "healthCheckNodePort": 30990, "ports": ports}),
    ));
    slices(["n1", "elsewhere"]);
    balancer_sees("HTTP/1.1 200 OK", "\"localEndpoints\":1,");
    until(lab, &lab.client, NODE, 30081, Result::is_ok);
    for family in [0, 1] {
        let seen = many(&lab.client, NODE[family], 30081);
        assert_eq!(seen, [(0, ip(CLIENT[family]))].into());
        assert_eq!(many(&lab.node, NODE[family], 30081).len(), 2);
        assert_eq!(many(&lab.pods[1], NODE[family], 30081)[&0], ip(PODS[1][family]));
        assert_eq!(many(&lab.client, NEAR[family], 80).len(), 2, "the cluster IP has a policy of its own");
    }
    slices(["elsewhere", "elsewhere"]);
    balancer_sees("HTTP/1.1 503", "\"localEndpoints\":0,");
    until(lab, &lab.client, NODE, 30081, |answer| *answer == Err(std::io::ErrorKind::TimedOut));
    until(lab, &lab.node, NODE, 30081, Result::is_ok);

    lab.delete(&format!("{SERVICES}/near"));
    let single = json!({"type": "NodePort", "ports": ports, "clusterIPs": [NEAR[0]], "ipFamilyPolicy": "SingleStack",
        "ipFamilies": ["IPv4"]});
    lab.apply(&service("near", NEAR, &single));
    until(lab, &lab.client, [NODE[0], NODE[0]], 30081, Result::is_ok);
    // Nothing listens there. The families change side by side, and either may be the first.
    let refused = |answer: &Answer| *answer == Err(std::io::ErrorKind::ConnectionRefused);
    until(lab, &lab.client, [NODE[1], NODE[1]], 30081, refused);
    lab.delete(&format!("{SERVICES}/near"));
}

/// A client that goes on sending from one port is taken to the endpoint that there is, not to the one that there was.
fn flows_of_datagrams_move(lab: &Lab) {
    let slice = |family: usize, pod: usize| {
        let mut slice = slice("names", family, &[pod]);
        slice["ports"] = json!([{"name": "dns", "port": 8053, "protocol": "UDP"}]);
        slice
    };
    lab.apply(&service("names", NAMES, &json!({"ports": [{"name": "dns", "port": 53, "protocol": "UDP"}]})));
    let sockets = ["0.0.0.0:5353", "[::]:5354"].map(|at| {
        let socket = lab.client.within(|| UdpSocket::bind(at)).expect("entered").expect("a socket");
        socket.set_read_timeout(Some(Duration::from_millis(300))).expect("a timeout");
        socket
    });
    for pod in [0, 1, 0] {
        for (family, socket) in sockets.iter().enumerate() {
            lab.apply(&slice(family, pod));
            let moved = wait_for(PATIENCE, || {
                let mut answer = [0; 16];
                socket.send_to(b"?", (NAMES[family], 53)).ok()?;
                let length = socket.recv(&mut answer).ok()?;
                (answer[..length] == *pod.to_string().as_bytes()).then_some(())
            });
            assert!(moved.is_some(), "{} does not lead to pod {pod}", NAMES[family]);
        }
    }
    lab.delete(&format!("{SERVICES}/names"));
}

fn affinity_holds(lab: &Lab) {
    lab.apply(&service(
        "web",
        CLUSTER,
        &json!({"type": "NodePort", "sessionAffinity": "ClientIP", "ports": [
        {"name": "http", "port": 80, "protocol": "TCP", "nodePort": 30080}]}),
    ));
    for family in ["ip", "ip6"] {
        let settled = wait_for(PATIENCE, || lab.table(family).contains("chain sticky-").then_some(()));
        assert!(settled.is_some(), "{}", lab.table(family));
    }
    for family in [0, 1] {
        let first = many(&lab.client, CLUSTER[family], 80);
        assert_eq!(first.len(), 1, "a client stays where it is: {first:?}");
        assert_eq!(many(&lab.client, NODE[family], 30080).keys().collect::<Vec<_>>(), first.keys().collect::<Vec<_>>());
    }
}

/// Connections go on while the proxy is dead, while it starts again, and after somebody flushed everything.
fn a_restart_leaves_no_gap(lab: &Lab, proxy: &mut Process) {
    let before: Vec<BTreeMap<usize, IpAddr>> = CLUSTER.iter().map(|to| many(&lab.client, to, 80)).collect();
    proxy.kill();
    CLUSTER.iter().for_each(|to| drop(many(&lab.client, to, 80)));
    let done = AtomicBool::new(false);
    let (good, bad) = (AtomicU32::new(0), AtomicU32::new(0));
    thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                for to in CLUSTER {
                    let count = if ask(&lab.client, SocketAddr::new(ip(to), 80)).is_ok() { &good } else { &bad };
                    count.fetch_add(1, Ordering::Relaxed);
                }
            }
        });
        *proxy = lab.proxy("nftables", "proxy.log");
        let adopted = wait_for(PATIENCE, || proxy.output().contains("rules are in place").then_some(()));
        let start = good.load(Ordering::Relaxed);
        let more = wait_for(PATIENCE, || (good.load(Ordering::Relaxed) > start + 20).then_some(()));
        done.store(true, Ordering::Relaxed);
        assert!(adopted.is_some() && more.is_some(), "{}", proxy.output());
    });
    assert_eq!(bad.load(Ordering::Relaxed), 0, "of {} connections", good.load(Ordering::Relaxed));
    assert!(!proxy.output().contains("making it anew"), "{}", proxy.output());
    let after: Vec<BTreeMap<usize, IpAddr>> = CLUSTER.iter().map(|to| many(&lab.client, to, 80)).collect();
    assert_eq!(before, after, "clients stay with their pods");

    for family in ["ip", "ip6"] {
        lab.node.run("nft", &["delete", "table", family, "twinstack-proxy"], "").expect("deleted");
    }
    until(lab, &lab.client, CLUSTER, 80, Result::is_ok);
    for family in ["ip", "ip6"] {
        lab.node.run("nft", &["flush", "table", family, "twinstack-proxy"], "").expect("flushed");
    }
    until(lab, &lab.client, CLUSTER, 80, Result::is_ok);
}

/// Load balancers are told by `/healthz`; `/livez` stays good, for the proxy is.
fn a_node_that_goes_away_is_not_sent_traffic(lab: &Lab) {
    let node = |taints: Value| json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}, "spec": {"taints": taints}});
    let health = |path: &str, status: &str| {
        let asked = || http(&lab.node, "[::1]:10256".parse().expect("an address"), path);
        let good = wait_for(PATIENCE, || asked().starts_with(status).then_some(()));
        assert!(good.is_some(), "{path}: {}", asked());
    };
    lab.apply(&node(json!([{"key": "ToBeDeletedByClusterAutoscaler", "effect": "NoSchedule"}])));
    health("/healthz", "HTTP/1.1 503");
    health("/livez", "HTTP/1.1 200");
    lab.apply(&node(json!([])));
    health("/healthz", "HTTP/1.1 200");
}

fn what_it_would_do_is_told_without_doing_it(lab: &Lab) {
    let flags = lab.flags();
    let run = |words: &[&str]| {
        let mut all = words.to_vec();
        all.extend(flags.iter().map(String::as_str));
        lab.run_proxy(&all).expect("it prints")
    };
    let rules = run(&["--dry-run"]);
    let (v4, v6) = rules.split_once("# IPv6, for nft -f -\n").expect("both families");
    assert!(v4.contains(CLUSTER[0]) && !v4.contains(CLUSTER[1]) && v6.contains(CLUSTER[1]), "{rules}");
    lab.client.run("nft", &["-c", "-f", "-"], &rules).expect("nft takes it as it is");
    assert_eq!(lab.client.run("nft", &["list", "ruleset"], "").expect("a list").stdout, "");
    let rules = run(&["--dry-run", "--proxy-mode=iptables"]);
    assert!(rules.contains("for ip6tables-restore --noflush") && rules.contains("-A KUBE-SERVICES "), "{rules}");

    let text = run(&["explain", "web"]);
    for line in
        ["cluster IP tcp 10.96.0.50:80", "cluster IP tcp [fd00:10:96::50]:80", "node port tcp 30080 at fd77::1/128"]
    {
        assert!(text.contains(line), "{text}");
    }
    let reported: Value = serde_json::from_str(&run(&["explain", "default/web", "-o", "json"])).expect("JSON");
    for family in [0, 1] {
        let endpoints = &reported["families"][family]["ways"][0]["endpoints"];
        let expected = [0, 1].map(|pod: usize| json!({"address": PODS[pod][family], "port": 8080, "onThisNode": true}));
        assert_eq!(*endpoints, json!(expected), "{reported:#}");
    }
    let unknown =
        lab.run_proxy(&[&["explain", "nobody"][..], &flags.iter().map(String::as_str).collect::<Vec<_>>()].concat());
    assert!(
        unknown.as_ref().is_err_and(|error| error.contains("no rules for a Service default/nobody")),
        "{unknown:?}"
    );
}

/// A program in the way of `nft` that dies in the middle, as long as a file is there.
fn nft_that_is_killed_is_made_good(lab: &Lab, proxy: &mut Process) {
    proxy.kill();
    let folder = lab.folder().join("bin");
    std::fs::create_dir(&folder).expect("a folder");
    let (program, deadly) = (folder.join("nft"), lab.folder().join("deadly"));
    let path = std::env::var("PATH").unwrap_or_default();
    let script = format!(
        "#!/bin/sh\nPATH='{path}'\nif [ -e '{0}' ]; then head -c 200 | nft -f - ; kill -9 $$; fi\nexec nft \"$@\"\n",
        deadly.display()
    );
    std::fs::write(&program, script).expect("a script");
    lab.node.run("chmod", &["755", &program.display().to_string()], "").expect("it can be run");
    let (search, twinstack) = (format!("PATH={}:{path}", folder.display()), e2e::twinstack().display().to_string());
    let flags = lab.flags();
    let mut words =
        vec!["env", &search, &twinstack, "proxy", "--iptables-sync-period=1s", "--log-level=debug,kube=info"];
    words.extend(flags.iter().map(String::as_str));
    *proxy = lab.start(&words, "killed.log");
    lab.wait_in_place(proxy);
    let ports = json!([{"name": "http", "port": 80, "protocol": "TCP", "nodePort": 30080}]);
    lab.apply(&service("web", CLUSTER, &json!({"type": "NodePort", "ports": ports})));
    let plain = wait_for(PATIENCE, || CLUSTER.iter().all(|to| many(&lab.client, to, 80).len() == 2).then_some(()));
    assert!(plain.is_some(), "{}", proxy.output());
    std::fs::write(&deadly, "").expect("a file");
    // Three endpoints are more than there ever were: that takes a new chain, and so nft.
    for family in [0, 1] {
        lab.apply(&slice("web", family, &[0, 1, 2]));
    }
    let failed = wait_for(PATIENCE, || (proxy.output().matches("cannot change the rules").count() > 2).then_some(()));
    assert!(failed.is_some(), "{}", proxy.output());
    CLUSTER.iter().for_each(|to| drop(many(&lab.client, to, 80)));
    std::fs::remove_file(&deadly).expect("it is there");
    for to in CLUSTER {
        let all = wait_for(PATIENCE, || (many(&lab.client, to, 80).len() == 3).then_some(()));
        assert!(all.is_some(), "{}", proxy.output());
    }
}

/// What kubeadm leaves on nodes works as it is; a mistake in it is told with its place.
fn files_of_kube_proxy_are_read(lab: &Lab, proxy: &mut Process) {
    let (file, twinstack) = (lab.folder().join("kube-proxy.yaml"), e2e::twinstack().display().to_string());
    let flag = format!("--config={}", file.display());
    let kubeconfig = lab.kubeconfig();
    let write = |more: &str| {
        let head = "apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\nhostnameOverride: n1\n";
        let client = format!("clientConnection: {{kubeconfig: {}}}\n", kubeconfig.trim_start_matches("--kubeconfig="));
        std::fs::write(&file, format!("{head}{client}{more}")).expect("a file");
    };
    write("nftables: {syncPeroid: 1s}\nmode: nftable\n");
    let refused = lab.run_proxy(&[&flag]).expect_err("it is refused");
    for part in ["nftables.syncPeroid: unknown field; did you mean nftables.syncPeriod?", "mode \"nftable\""] {
        assert!(refused.contains(part), "{refused}");
    }
    write("mode: nftables\nclusterCIDR: 10.244.0.0/16,fd44::/16\nnftables: {syncPeriod: 1s}\noomScoreAdj: -998\n");
    proxy.kill();
    *proxy = lab.start(&[&twinstack, "proxy", &flag, "--cluster-cidr=10.0.0.0/8"], "configured.log");
    lab.wait_in_place(proxy);
    let message = proxy.output();
    assert!(
        message.contains("--cluster-cidr has no effect") && message.contains("no effect here: oomScoreAdj"),
        "{message}"
    );
    CLUSTER.iter().for_each(|to| assert_eq!(many(&lab.client, to, 80).len(), 3));
}

fn deletion_leaves_nothing(lab: &Lab, proxy: &mut Process) {
    lab.delete(&format!("{SERVICES}/web"));
    for (family, ips) in [("ip", [CLUSTER[0], PODS[0][0]]), ("ip6", [CLUSTER[1], PODS[0][1]])] {
        let gone = wait_for(PATIENCE, || {
            let table = lab.table(family);
            (!table.is_empty() && !ips.iter().any(|ip| table.contains(ip)) && !table.contains("sticky")).then_some(())
        });
        assert!(gone.is_some(), "{}", lab.table(family));
    }
    proxy.kill();
    lab.run_proxy(&["--cleanup"]).expect("cleaned up");
    let left = lab.node.run("nft", &["list", "tables"], "").expect("a list").stdout;
    assert_eq!(left.trim(), "table inet foreign");
}
