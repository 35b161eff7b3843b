//! `twinstack proxy --proxy-mode=iptables` with the real iptables and ip6tables, of both variants: what it takes over, what
//! it repairs, and what it leaves; `matrix` has every way to a Service.

use e2e::{
    Process,
    proxy_lab::{self, Answer, Lab, NODE, PATIENCE, PODS, Pair, ask, ask_patiently, http, ip},
    wait_for,
};
use kernel::netns::Namespace;
use serde_json::{Value, json};
use std::{
    io::ErrorKind,
    net::{SocketAddr, TcpStream, UdpSocket},
    sync::atomic::{AtomicBool, AtomicU32, Ordering},
    thread,
    time::Duration,
};

const WEB: Pair = ["10.96.0.50", "fd00:10:96::50"];
const LIMITED: Pair = ["10.96.0.51", "fd00:10:96::51"];
const CHECKED: Pair = ["10.96.0.53", "fd00:10:96::53"];
const NAMES: Pair = ["10.96.0.52", "fd00:10:96::52"];
const BALANCER: Pair = ["198.51.100.7", "2001:db8::7"];
const SERVICES: &str = "/api/v1/namespaces/default/services";
const TABLES: [&str; 3] = ["mangle", "filter", "nat"];

/// The kubelet's sign of which variant is used, a firewall of somebody else, and what an ended kube-proxy left.
const OTHERS: &str = "*mangle\n:KUBE-IPTABLES-HINT - [0:0]\nCOMMIT\n\
    *filter\n:SITE - [0:0]\n-A INPUT -p tcp -m tcp --dport 9 -j SITE\n-A SITE -j DROP\nCOMMIT\n";
const KUBE_PROXY: &str = "*nat\n:KUBE-SERVICES - [0:0]\n:KUBE-SVC-AAAAAAAAAAAAAAAA - [0:0]\n\
    -A PREROUTING -m comment --comment \"kubernetes service portals\" -j KUBE-SERVICES\n\
    -A KUBE-SERVICES -p tcp -m tcp --dport 80 -j KUBE-SVC-AAAAAAAAAAAAAAAA\n\
    -A KUBE-SVC-AAAAAAAAAAAAAAAA -j ACCEPT\nCOMMIT\n";

/// The programs of a variant, on the node of a lab.
struct Iptables<'a> {
    node: &'a Namespace,
    variant: &'static str,
}

impl Iptables<'_> {
    fn program(&self, family: usize, what: &str) -> String {
        format!("{}-{}{what}", ["iptables", "ip6tables"][family], self.variant)
    }

    #[track_caller]
    fn run(&self, family: usize, words: &str) {
        let words: Vec<&str> = words.split(' ').collect();
        self.node.run(&self.program(family, ""), &words, "").expect("iptables does it");
    }

    #[track_caller]
    fn restore(&self, family: usize, words: &[&str], text: &str) {
        self.node.run(&self.program(family, "-restore"), words, text).expect("iptables-restore takes it");
    }

    /// Rules of Services that packets have passed, with their counters.
    fn counters(&self, family: usize) -> String {
        let saved = self.node.run(&self.program(family, "-save"), &["-c", "-t", "nat"], "").expect("a list").stdout;
        let of_services = |line: &&str| ["KUBE-SVC-", "KUBE-SEP-", "KUBE-EXT-"].iter().any(|name| line.contains(name));
        let passed = saved.lines().filter(|line| line.starts_with('[') && !line.starts_with("[0:0]"));
        passed.filter(of_services).collect::<Vec<_>>().join("\n")
    }

    /// Chains and rules of all tables, without counters and times.
    fn save(&self, family: usize) -> String {
        let mut text = String::new();
        for table in TABLES {
            let saved = self.node.run(&self.program(family, "-save"), &["-t", table], "").expect("a list").stdout;
            let lines = saved.lines().filter(|line| line.starts_with(':') || line.starts_with("-A"));
            lines.for_each(|line| text.push_str(&format!("{table} {}\n", line.split(" [").next().unwrap_or(line))));
        }
        text
    }
}

/// What is missing to run this with a variant.
fn missing(variant: &str) -> Option<&'static str> {
    if let Some(how) = proxy_lab::missing() {
        return Some(how);
    }
    let space = Namespace::new("probe").ok()?;
    let works = ["iptables", "ip6tables"].iter().all(|program| {
        space.run(&format!("{program}-{variant}-restore"), &["--noflush"], "*nat\n:PROBE - [0:0]\nCOMMIT\n").is_ok()
    });
    if works { None } else { Some("apt-get install iptables, on a kernel that has this variant") }
}

fn slice(service: &str, family: usize, pod: &[usize], port: &Value) -> Value {
    let endpoint = |pod: &usize| json!({"addresses": [PODS[*pod][family]], "nodeName": "n1"});
    let kind = ["IPv4", "IPv6"][family];
    json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
        "metadata": {"name": format!("{service}-{}", ["v4", "v6"][family]), "namespace": "default",
            "labels": {"kubernetes.io/service-name": service}},
        "addressType": kind, "endpoints": pod.iter().map(endpoint).collect::<Vec<_>>(), "ports": [port],
    })
}

fn service(name: &str, ips: Pair, more: &Value) -> Value {
    let mut object = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": name, "namespace": "default"},
        "spec": {"clusterIP": ips[0], "clusterIPs": ips, "ipFamilyPolicy": "RequireDualStack",
            "ports": [{"name": "x", "port": 80, "protocol": "TCP"}]},
    });
    for (key, value) in more.as_object().into_iter().flatten() {
        object["spec"][key] = value.clone();
    }
    object
}

fn http_port() -> Value {
    json!({"name": "x", "port": 8080, "protocol": "TCP"})
}

fn web(more: &Value) -> Value {
    let ports = json!([{"name": "x", "port": 80, "protocol": "TCP", "nodePort": 30080}]);
    let mut object = service("web", WEB, &json!({"type": "NodePort", "ports": ports}));
    for (key, value) in more.as_object().into_iter().flatten() {
        object["spec"][key] = value.clone();
    }
    object
}

/// Asks until `good`; both families.
#[track_caller]
fn until(iptables: &Iptables<'_>, from: &Namespace, to: Pair, port: u16, good: impl Fn(&Answer) -> bool) {
    for (family, text) in to.iter().enumerate() {
        let mut last = None;
        let found = wait_for(PATIENCE, || {
            let answer = last.insert(ask(from, SocketAddr::new(ip(text), port)));
            good(answer).then_some(())
        });
        assert!(found.is_some(), "{text}:{port} last gave {last:?}\n{}", iptables.save(family));
    }
}

/// Which pods answer many connections, in order.
fn many(from: &Namespace, to: &str, port: u16) -> Vec<usize> {
    let asked = (0..30).map(|_| ask_patiently(from, SocketAddr::new(ip(to), port)).expect("an answer").0);
    let mut pods: Vec<usize> = asked.collect();
    pods.sort_unstable();
    pods.dedup();
    pods
}

#[test]
fn services_work_with_iptables_over_nftables() {
    whole("nft", "legacy");
}

#[test]
fn services_work_with_legacy_iptables() {
    whole("legacy", "nft");
}

fn whole(variant: &'static str, other: &'static str) {
    if let Some(how) = missing(variant) {
        e2e::skip(&format!("the proxy with iptables-{variant}"), how);
        return;
    }
    let lab = Lab::new();
    let iptables = Iptables { node: &lab.node, variant };
    for family in [0, 1] {
        iptables.restore(family, &["--noflush"], OTHERS);
    }
    let before = [0, 1].map(|family| iptables.save(family));
    for family in [0, 1] {
        iptables.restore(family, &["--noflush"], KUBE_PROXY);
        lab.apply(&slice("web", family, &[0, 1], &http_port()));
    }
    lab.apply(&web(&json!({})));
    let mut proxy = lab.proxy("iptables", "proxy.log");
    lab.wait_in_place(&proxy);
    what_was_there_is_taken_over(&lab, &iptables, other);
    node_ports_are_at_loopback_for_the_node_alone(&lab, &iptables);
    a_family_without_a_range_is_closed(&lab, &iptables);
    health_checks_pass_a_firewall(&lab, &iptables);
    what_is_told_is_what_is_there(&lab, &iptables);
    flows_of_datagrams_move(&lab);
    clients_stay_with_their_pods(&lab, &iptables);
    a_restart_leaves_no_gap(&lab, &mut proxy);
    a_restart_writes_nothing_that_is_right_already(&lab, &iptables, &mut proxy);
    whatever_others_do_is_repaired(&lab, &iptables, &proxy);
    a_deleted_service_leaves_nothing(&lab, &iptables);
    modes_replace_each_other(&lab, &iptables, &mut proxy);
    lab.run_proxy(&["--cleanup"]).expect("cleaned up");
    assert_eq!([0, 1].map(|family| iptables.save(family)), before, "only what others made is left");
}

fn what_was_there_is_taken_over(lab: &Lab, iptables: &Iptables<'_>, other: &'static str) {
    for family in [0, 1] {
        assert_eq!(many(&lab.client, WEB[family], 80), [0, 1]);
        assert_eq!(many(&lab.client, NODE[family], 30080), [0, 1]);
        let saved = iptables.save(family);
        assert!(saved.contains("filter -A INPUT -p tcp -m tcp --dport 9 -j SITE\n"), "{saved}");
        assert!(
            !saved.contains("KUBE-SVC-AAAAAAAAAAAAAAAA") && !saved.contains("kubernetes service portals"),
            "{saved}"
        );
        let unused = Iptables { node: iptables.node, variant: other };
        assert!(!unused.save(family).contains("KUBE-"), "the variant is the one that the kubelet uses");
    }
}

/// A program on the node that trusts its loopback addresses must not hear its neighbours there.
fn node_ports_are_at_loopback_for_the_node_alone(lab: &Lab, iptables: &Iptables<'_>) {
    assert_eq!(many(&lab.node, "127.0.0.1", 30080), [0, 1]);
    let v6 = ask(&lab.node, "[::1]:30080".parse().expect("an address"));
    assert_eq!(v6, Err(ErrorKind::ConnectionRefused), "nothing can be routed away from ::1");

    let neighbour = "ip addr del 127.0.0.1/8 dev lo; ip route add 127.0.0.0/8 via 192.168.77.1; \
                     echo 1 > /proc/sys/net/ipv4/conf/all/route_localnet";
    lab.client.run("sh", &["-c", neighbour], "").expect("a neighbour that tries");
    let heard = || {
        let to = "127.0.0.1:6443".parse().expect("an address");
        let connected = || TcpStream::connect_timeout(&to, Duration::from_millis(700)).map(drop);
        lab.client.within(connected).expect("entered").map_err(|error| error.kind())
    };
    assert_eq!(heard(), Err(ErrorKind::TimedOut));
    // Without the rule it would: this is a test that can fail. The proxy puts it back.
    let guard = "-D INPUT -j TWINSTACK-PROXY";
    let open = wait_for(PATIENCE, || {
        iptables.node.run(&iptables.program(0, ""), &guard.split(' ').collect::<Vec<_>>(), "").ok()?;
        heard().ok()
    });
    assert!(open.is_some(), "the neighbour cannot send to loopback addresses at all");
    assert!(wait_for(PATIENCE, || (heard() == Err(ErrorKind::TimedOut)).then_some(())).is_some());
}

fn a_family_without_a_range_is_closed(lab: &Lab, iptables: &Iptables<'_>) {
    for family in [0, 1] {
        lab.apply(&slice("limited", family, &[0], &http_port()));
    }
    let open = |family: usize| ask(&lab.client, SocketAddr::new(ip(BALANCER[family]), 80)).is_ok();
    let closed =
        |family: usize| ask(&lab.client, SocketAddr::new(ip(BALANCER[family]), 80)) == Err(ErrorKind::TimedOut);
    for (ranges, which) in [(["192.168.77.0/24"], 0), (["fd77::/64"], 1)] {
        let more = json!({"type": "LoadBalancer", "loadBalancerSourceRanges": ranges});
        lab.apply(&service("limited", LIMITED, &more));
        let ingress: Vec<Value> = BALANCER.iter().map(|ip| json!({"ip": ip})).collect();
        lab.set_status(&format!("{SERVICES}/limited"), &json!({"loadBalancer": {"ingress": ingress}}));
        let settled = wait_for(PATIENCE, || (open(which) && closed(1 - which)).then_some(()));
        assert!(settled.is_some(), "{ranges:?}\n{}\n{}", iptables.save(0), iptables.save(1));
    }
    lab.delete(&format!("{SERVICES}/limited"));
}

/// A load balancer must hear whether there are endpoints here, whatever else the node lets in.
fn health_checks_pass_a_firewall(lab: &Lab, iptables: &Iptables<'_>) {
    let asked = |family: usize| http(&lab.client, SocketAddr::new(ip(NODE[family]), 30999), "/");
    for family in [0, 1] {
        iptables.run(family, "-A INPUT -p tcp -m tcp --dport 30999 -j DROP");
        lab.apply(&slice("checked", family, &[0], &http_port()));
    }
    let more = json!({"type": "LoadBalancer", "externalTrafficPolicy": "Local", "healthCheckNodePort": 30999});
    lab.apply(&service("checked", CHECKED, &more));
    for family in [0, 1] {
        let heard = wait_for(PATIENCE, || asked(family).contains("\"localEndpoints\":1").then_some(()));
        assert!(heard.is_some(), "{}\n{}", asked(family), iptables.save(family));
        // Without the line it would not: this is a test that can fail. The next change writes it again.
        iptables.run(family, "-t filter -F KUBE-NODEPORTS");
        let refused = asked(family);
        assert!(refused.contains("timed out"), "{refused}");
    }
    lab.delete(&format!("{SERVICES}/checked"));
    for family in [0, 1] {
        iptables.run(family, "-D INPUT -p tcp -m tcp --dport 30999 -j DROP");
        let gone = wait_for(PATIENCE, || (!iptables.save(family).contains("30999")).then_some(()));
        assert!(gone.is_some(), "{}", iptables.save(family));
    }
}

/// Figures, `explain` and `--dry-run` name what iptables has.
fn what_is_told_is_what_is_there(lab: &Lab, iptables: &Iptables<'_>) {
    let flags = lab.flags();
    let mut words = vec!["explain", "web", "--proxy-mode=iptables"];
    words.extend(flags.iter().map(String::as_str));
    let reported = lab.run_proxy(&words).expect("it explains");
    let chains: Vec<&str> = reported.split_whitespace().filter(|word| word.starts_with("KUBE-SVC-")).collect();
    assert!(chains.len() > 1, "{reported}");
    let figures = http(&lab.node, "127.0.0.1:10249".parse().expect("an address"), "/metrics");
    for (family, name) in ["IPv4", "IPv6"].into_iter().enumerate() {
        let saved = iptables.save(family);
        assert!(chains.iter().all(|chain| saved.contains(&format!("nat :{chain} "))), "{reported}\n{saved}");
        for table in ["filter", "nat"] {
            let ours = |line: &&str| {
                line.starts_with(&format!("{table} -A KUBE-")) || line.starts_with(&format!("{table} -A TWINSTACK-"))
            };
            let count = saved.lines().filter(ours).count();
            let line = format!(
                "kubeproxy_sync_proxy_rules_iptables_total{{table=\"{table}\",ip_family=\"{name}\"}} {count}\n"
            );
            assert!(figures.contains(&line), "{line}{figures}\n{saved}");
        }
    }
    let words: Vec<&str> =
        ["--dry-run", "--proxy-mode=ipvs"].into_iter().chain(flags.iter().map(String::as_str)).collect();
    let ipvs = lab.run_proxy(&words).expect("it prints");
    for (to, pods) in [(WEB, PODS[0]), (NODE, PODS[1])] {
        let port = if to == WEB { 80 } else { 30080 };
        for family in [0, 1] {
            let (server, pod) = (SocketAddr::new(ip(to[family]), port), SocketAddr::new(ip(pods[family]), 8080));
            for line in [format!("-A -t {server} -s rr\n"), format!("-a -t {server} -r {pod} -m -w 1\n")] {
                assert!(ipvs.contains(&line), "{line}{ipvs}");
            }
        }
    }
}

/// A client that goes on sending from one port is taken to the endpoint that there is, not to the one that there was.
fn flows_of_datagrams_move(lab: &Lab) {
    let port = json!({"name": "x", "port": 8053, "protocol": "UDP"});
    lab.apply(&service("names", NAMES, &json!({"ports": [{"name": "x", "port": 53, "protocol": "UDP"}]})));
    let sockets = ["0.0.0.0:5353", "[::]:5354"].map(|at| {
        let socket = lab.client.within(|| UdpSocket::bind(at)).expect("entered").expect("a socket");
        socket.set_read_timeout(Some(Duration::from_millis(300))).expect("a timeout");
        socket
    });
    for pod in [0, 1] {
        for (family, socket) in sockets.iter().enumerate() {
            lab.apply(&slice("names", family, &[pod], &port));
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

fn clients_stay_with_their_pods(lab: &Lab, iptables: &Iptables<'_>) {
    lab.apply(&web(&json!({"sessionAffinity": "ClientIP"})));
    for family in [0, 1] {
        let sticky = wait_for(PATIENCE, || iptables.save(family).contains("-m recent --rcheck").then_some(()));
        assert!(sticky.is_some(), "{}", iptables.save(family));
        let first = many(&lab.client, WEB[family], 80);
        assert_eq!(first.len(), 1, "a client stays where it is: {first:?}");
        assert_eq!(many(&lab.client, NODE[family], 30080), first);
    }
}

/// Connections go on while the proxy is dead and while it starts again, and clients stay with their pods.
fn a_restart_leaves_no_gap(lab: &Lab, proxy: &mut Process) {
    let before = WEB.map(|to| many(&lab.client, to, 80));
    proxy.kill();
    *proxy = started_without_a_gap(lab, "restarted.log");
    assert_eq!(WEB.map(|to| many(&lab.client, to, 80)), before, "clients stay with their pods");
}

/// Starts a proxy under a stream of connections, none of which may fail.
fn started_without_a_gap(lab: &Lab, log: &str) -> Process {
    let done = AtomicBool::new(false);
    let (good, bad) = (AtomicU32::new(0), AtomicU32::new(0));
    let proxy = thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                for to in WEB {
                    let count = if ask(&lab.client, SocketAddr::new(ip(to), 80)).is_ok() { &good } else { &bad };
                    count.fetch_add(1, Ordering::Relaxed);
                }
            }
        });
        let proxy = lab.proxy("iptables", log);
        let adopted = wait_for(PATIENCE, || proxy.output().contains("rules are in place").then_some(()));
        let start = good.load(Ordering::Relaxed);
        let more = wait_for(PATIENCE, || (good.load(Ordering::Relaxed) > start + 20).then_some(()));
        done.store(true, Ordering::Relaxed);
        assert!(adopted.is_some() && more.is_some(), "{}", proxy.output());
        proxy
    });
    assert_eq!(bad.load(Ordering::Relaxed), 0, "of {} connections", good.load(Ordering::Relaxed));
    proxy
}

/// What is written anew counts its packets from zero.
fn a_restart_writes_nothing_that_is_right_already(lab: &Lab, iptables: &Iptables<'_>, proxy: &mut Process) {
    proxy.kill();
    let counted = || [0, 1].map(|family| iptables.counters(family));
    let before = counted();
    *proxy = lab.proxy("iptables", "again.log");
    lab.wait_in_place(proxy);
    assert!(before.iter().all(|lines| lines.contains("KUBE-SEP-") && lines.contains("--rcheck")), "{before:?}");
    assert_eq!(counted(), before);
}

fn whatever_others_do_is_repaired(lab: &Lab, iptables: &Iptables<'_>, proxy: &Process) {
    let emptied = |family| iptables.run(family, "-t nat -F");
    let replaced = |family| iptables.restore(family, &[], "*nat\nCOMMIT\n");
    for harm in [&emptied as &dyn Fn(usize), &replaced] {
        harm(0);
        harm(1);
        until(iptables, &lab.client, WEB, 80, Result::is_ok);
        until(iptables, &lab.client, NODE, 30080, Result::is_ok);
    }
    assert!(proxy.output().contains("somebody changed the rules"), "{}", proxy.output());
}

fn a_deleted_service_leaves_nothing(lab: &Lab, iptables: &Iptables<'_>) {
    lab.delete(&format!("{SERVICES}/web"));
    for (family, address) in WEB.iter().enumerate() {
        let gone = wait_for(PATIENCE, || {
            let saved = iptables.save(family);
            let left = [address, "KUBE-SEP-", "KUBE-SVC-", "KUBE-EXT-"].iter().any(|text| saved.contains(text));
            (saved.contains("KUBE-SERVICES") && !left).then_some(())
        });
        assert!(gone.is_some(), "{}", iptables.save(family));
    }
    lab.apply(&web(&json!({})));
    until(iptables, &lab.client, WEB, 80, Result::is_ok);
}

/// Rules of two modes would both act on packets.
fn modes_replace_each_other(lab: &Lab, iptables: &Iptables<'_>, proxy: &mut Process) {
    for (mode, nftables) in [("nftables", true), ("iptables", false)] {
        proxy.kill();
        *proxy = lab.proxy(mode, &format!("{mode}.log"));
        lab.wait_in_place(proxy);
        until(iptables, &lab.client, WEB, 80, Result::is_ok);
        for (family, word) in ["ip", "ip6"].into_iter().enumerate() {
            assert_eq!(!lab.table(word).is_empty(), nftables, "{mode}");
            assert_eq!(!iptables.save(family).contains("TWINSTACK-PROXY"), nftables, "{mode}");
        }
    }
    proxy.kill();
}

/// A comparison, not a test that CI needs: runs when `KUBE_PROXY` names one.
#[test]
fn a_real_kube_proxy_is_replaced_without_a_gap() {
    let Some(program) = std::env::var_os("KUBE_PROXY") else { return };
    if let Some(how) = missing("nft") {
        e2e::skip("the proxy after a real kube-proxy", how);
        return;
    }
    let lab = Lab::new();
    lab.apply(&web(&json!({})));
    [0, 1].into_iter().for_each(|family| lab.apply(&slice("web", family, &[0, 1], &http_port())));
    let (program, kubeconfig) = (program.to_string_lossy().into_owned(), lab.kubeconfig());
    let words = [
        "netns",
        "exec",
        lab.node.name(),
        &program,
        &kubeconfig,
        "--proxy-mode=iptables",
        "--hostname-override=n1",
        "--cluster-cidr=10.244.0.0/16,fd44::/16",
        "--conntrack-max-per-core=0",
    ];
    let mut peer = Process::start("ip", &words, &lab.folder().join("kube-proxy.log"));
    let iptables = Iptables { node: &lab.node, variant: "nft" };
    for from in [&lab.client, &lab.node] {
        until(&iptables, from, WEB, 80, Result::is_ok);
    }
    peer.kill();
    let theirs = [0, 1].map(|family| iptables.save(family));
    assert!(theirs.iter().all(|saved| saved.contains("KUBE-SEP-") && !saved.contains("TWINSTACK-PROXY")));
    lab.run_proxy(&["--cleanup"]).expect("cleaned up");
    assert_eq!([0, 1].map(|family| iptables.save(family)), theirs, "not ours to clean up");

    let mut ours = started_without_a_gap(&lab, "proxy.log");
    for (family, theirs) in theirs.iter().enumerate() {
        let saved = iptables.save(family);
        let old = theirs.lines().filter(|line| line.contains("KUBE-SEP-") && line.contains("--to-destination"));
        assert!(old.clone().count() > 1 && old.clone().all(|line| !saved.contains(line)), "{saved}");
        assert_eq!(many(&lab.client, WEB[family], 80), [0, 1]);
    }
    ours.kill();
    lab.run_proxy(&["--cleanup"]).expect("cleaned up");
    for family in [0, 1] {
        let saved = iptables.save(family);
        let foreign = ["KUBE-FIREWALL", "KUBE-KUBELET-CANARY", "KUBE-IPTABLES-HINT"];
        let left =
            saved.lines().filter(|line| line.contains("KUBE-") && !foreign.iter().any(|name| line.contains(name)));
        assert_eq!(left.collect::<Vec<_>>(), Vec::<&str>::new());
    }
}
