//! `twinstack proxy` with a real kernel: a client, a node and two pods in network namespaces, both families at once.

use std::{
    collections::BTreeMap,
    io::{Read, Write},
    net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket},
    path::{Path, PathBuf},
    sync::Arc,
    sync::atomic::{AtomicBool, AtomicU32, Ordering},
    thread,
    time::Duration,
};

use e2e::{Process, twinstack, wait_for};
use kernel::netns::Namespace;
use serde_json::{Value, json};

/// Addresses of both families that mean the same thing.
type Pair = [&'static str; 2];

const NODE: Pair = ["192.168.77.1", "fd77::1"];
const CLIENT: Pair = ["192.168.77.2", "fd77::2"];
const PODS: [Pair; 2] = [["10.244.1.2", "fd44:1::2"], ["10.244.2.2", "fd44:2::2"]];
/// The node's side of the pods' cables.
const GATES: [Pair; 2] = [["10.244.1.1", "fd44:1::1"], ["10.244.2.1", "fd44:2::1"]];
const BALANCER: Pair = ["198.51.100.7", "2001:db8::7"];
const CLUSTER: Pair = ["10.96.0.50", "fd00:10:96::50"];
const NEAR: Pair = ["10.96.0.53", "fd00:10:96::53"];
const NAMES: Pair = ["10.96.0.52", "fd00:10:96::52"];
const LIMITED: Pair = ["10.96.0.51", "fd00:10:96::51"];
const PATIENCE: Duration = Duration::from_secs(20);

/// Four namespaces and what runs in them.
struct World {
    client: Namespace,
    node: Arc<Namespace>,
    pods: Vec<Namespace>,
    folder: tempfile::TempDir,
    kubectl: PathBuf,
    _api: Process,
}

fn ip(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

/// What is missing to run this at all.
fn missing() -> Option<&'static str> {
    if !Namespace::new(&format!("twinstack-probe-{}", std::process::id()))
        .is_ok_and(|space| space.run("nft", &["list", "ruleset"], "").is_ok())
    {
        return Some(
            "run as root on a machine with network namespaces, ip and nft (apt-get install iproute2 nftables)",
        );
    }
    if kubectl().is_none() { Some("scripts/need test, or put kubectl on the PATH") } else { None }
}

fn kubectl() -> Option<PathBuf> {
    let folders = std::env::var_os("PATH").unwrap_or_default();
    let tools = std::env::var_os("TWINSTACK_TOOLS").map(PathBuf::from);
    std::env::split_paths(&folders).chain(tools).map(|folder| folder.join("kubectl")).find(|path| path.is_file())
}

/// A cable between the node and another namespace; the other end routes everything to the node.
fn cable(node: &Namespace, other: &Namespace, name: &str, near: Pair, far: Pair) {
    let ip = |space: &Namespace, words: &str| {
        let words: Vec<&str> = words.split(' ').collect();
        space.run("ip", &words, "").expect("ip does it");
    };
    ip(node, &format!("link add {name} type veth peer name eth0 netns {}", other.name()));
    ip(node, &format!("link set {name} up"));
    ip(other, "link set eth0 up");
    for (bits, near, far) in [(24, near[0], far[0]), (64, near[1], far[1])] {
        let nodad = if bits == 64 { " nodad" } else { "" };
        ip(node, &format!("addr add {near}/{bits} dev {name}{nodad}"));
        ip(other, &format!("addr add {far}/{bits} dev eth0{nodad}"));
        ip(other, &format!("route add default via {near}"));
    }
}

impl World {
    fn new() -> Self {
        let made = |part: &str| Namespace::new(&format!("twinstack-e2e-{part}-{}", std::process::id()));
        let made = |part| made(part).expect("a namespace");
        let (client, node, pods) = (made("client"), made("node"), vec![made("pod1"), made("pod2")]);
        cable(&node, &client, "client", NODE, CLIENT);
        for (at, pod) in pods.iter().enumerate() {
            cable(&node, pod, &format!("pod{at}"), GATES[at], PODS[at]);
        }
        node.run(
            "sh",
            &["-c", "echo 1 > /proc/sys/net/ipv4/ip_forward; echo 1 > /proc/sys/net/ipv6/conf/all/forwarding"],
            "",
        )
        .expect("forwarding can be switched on");
        // Packets to addresses that only rules know must get as far as the rules.
        for range in ["10.96.0.0/16", "fd00:10:96::/112", "198.51.100.0/24", "2001:db8::/64"] {
            node.run("ip", &["route", "add", range, "dev", "pod0"], "").expect("a route");
        }
        let folder = tempfile::tempdir().expect("a folder");
        let data = folder.path().join("data");
        let flags = ["--bind-address=127.0.0.1,::1", "--secure-port=6443", &format!("--data-dir={}", data.display())];
        let api = start(&node, "apiserver", &flags, &folder.path().join("apiserver.log"));
        let ready = wait_for(PATIENCE, || api.output().contains("API server is ready").then_some(()));
        assert!(ready.is_some(), "{}", api.output());
        Self { client, node: Arc::new(node), pods, folder, kubectl: kubectl().expect("checked"), _api: api }
    }

    fn kubeconfig(&self) -> String {
        self.folder.path().join("data/admin.kubeconfig").display().to_string()
    }

    fn proxy(&self, log: &str) -> Process {
        let flags = [
            &format!("--kubeconfig={}", self.kubeconfig()),
            "--hostname-override=n1",
            "--cluster-cidr=10.244.0.0/16,fd44::/16",
            "--iptables-sync-period=1s",
            "--log-level=debug,hyper=warn,kube=info,rustls=warn,tower=warn",
        ];
        start(&self.node, "proxy", &flags, &self.folder.path().join(log))
    }

    fn kubectl(&self, words: &[&str], input: &str) -> String {
        let config = format!("--kubeconfig={}", self.kubeconfig());
        let mut all = vec!["env", "HOME=/nonexistent"];
        let program = self.kubectl.display().to_string();
        all.extend([program.as_str(), &config]);
        all.extend(words);
        let (first, rest) = all.split_first().expect("words");
        self.node.run(first, rest, input).expect("kubectl is content").stdout
    }

    fn apply(&self, object: &Value) {
        self.kubectl(&["apply", "--validate=false", "-f", "-"], &object.to_string());
    }

    /// The rules of one family, with all elements.
    fn table(&self, family: &str) -> String {
        self.node.run("nft", &["list", "table", family, "twinstack-proxy"], "").map(|p| p.stdout).unwrap_or_default()
    }
}

/// Starts a command of the binary in a namespace.
fn start(space: &Namespace, command: &str, flags: &[&str], log: &Path) -> Process {
    let program = twinstack().display().to_string();
    let mut words = vec!["netns", "exec", space.name(), &program, command];
    words.extend(flags);
    Process::start("ip", &words, log)
}

/// Answers each connection with the pod's number and the address it came from.
fn serve(pod: &Namespace, number: usize, stop: &Arc<AtomicBool>) {
    let listener = pod.within(|| TcpListener::bind("[::]:8080")).expect("entered").expect("a socket");
    listener.set_nonblocking(true).expect("it can wait");
    let stop = Arc::clone(stop);
    thread::spawn(move || {
        while !stop.load(Ordering::Relaxed) {
            let accepted = wait_for(Duration::from_millis(100), || listener.accept().ok());
            let Some((mut stream, peer)) = accepted else { continue };
            // A client that is gone already is its own business.
            let _ = write!(stream, "{number} {}", peer.ip().to_canonical());
        }
    });
}

/// Answers each datagram with the pod's number.
fn serve_datagrams(pod: &Namespace, number: usize, stop: &Arc<AtomicBool>) {
    let socket = pod.within(|| UdpSocket::bind("[::]:8053")).expect("entered").expect("a socket");
    socket.set_read_timeout(Some(Duration::from_millis(100))).expect("a timeout");
    let stop = Arc::clone(stop);
    thread::spawn(move || {
        while !stop.load(Ordering::Relaxed) {
            if let Ok((_, peer)) = socket.recv_from(&mut [0; 16]) {
                // A client that is gone already is its own business.
                let _ = socket.send_to(number.to_string().as_bytes(), peer);
            }
        }
    });
}

/// Which pod answers, and which client address it saw; or why there is no answer.
fn ask(from: &Namespace, to: SocketAddr) -> Result<(String, IpAddr), std::io::ErrorKind> {
    let connected = from.within(|| TcpStream::connect_timeout(&to, Duration::from_millis(700))).expect("entered");
    let mut answer = String::new();
    let mut stream = connected.map_err(|error| error.kind())?;
    stream.set_read_timeout(Some(Duration::from_secs(5))).expect("a timeout");
    stream.read_to_string(&mut answer).map_err(|error| error.kind())?;
    let (number, seen) = answer.split_once(' ').ok_or(std::io::ErrorKind::UnexpectedEof)?;
    Ok((number.to_owned(), ip(seen)))
}

/// The whole answer to a GET.
fn http(from: &Namespace, at: SocketAddr, path: &str) -> String {
    let asked = from.within(|| {
        let mut stream = TcpStream::connect_timeout(&at, Duration::from_secs(2))?;
        write!(stream, "GET {path} HTTP/1.1\r\nhost: n1\r\nconnection: close\r\n\r\n")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok::<_, std::io::Error>(answer)
    });
    asked.expect("entered").unwrap_or_else(|error| error.to_string())
}

/// Asks both families until `good`.
#[track_caller]
fn until(
    world: &World,
    from: &Namespace,
    to: Pair,
    port: u16,
    good: impl Fn(&Result<(String, IpAddr), std::io::ErrorKind>) -> bool,
) {
    for text in to {
        let mut last = None;
        let found = wait_for(PATIENCE, || {
            let answer = ask(from, SocketAddr::new(ip(text), port));
            let good = good(&answer);
            last = Some(answer);
            good.then_some(())
        });
        assert!(found.is_some(), "{text}:{port} last gave {last:?}\n{}\n{}", world.table("ip"), world.table("ip6"));
    }
}

/// Whom each pod saw in many connections, by pod.
fn many(from: &Namespace, to: &str, port: u16) -> BTreeMap<String, IpAddr> {
    (0..40).map(|_| ask(from, SocketAddr::new(ip(to), port)).expect("an answer")).collect()
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
    if let Some(how) = missing() {
        e2e::skip("the proxy with a real kernel", how);
        return;
    }
    let world = World::new();
    let stop = Arc::new(AtomicBool::new(false));
    for (number, pod) in world.pods.iter().enumerate() {
        serve(pod, number, &stop);
        serve_datagrams(pod, number, &stop);
    }
    let foreign = "table inet foreign {\n\tchain untouched {\n\t\tcounter accept\n\t}\n}\n";
    world.node.run("nft", &["-f", "-"], foreign).expect("a table of somebody else");
    world.apply(&json!({
        "apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"},
        "status": {"addresses": [{"type": "InternalIP", "address": NODE[0]}, {"type": "InternalIP", "address": NODE[1]}]},
    }));
    world.apply(&service(
        "web",
        CLUSTER,
        &json!({"type": "NodePort", "ports": [
        {"name": "http", "port": 80, "protocol": "TCP", "nodePort": 30080}]}),
    ));
    for family in [0, 1] {
        world.apply(&slice("web", family, &[0, 1]));
    }
    let mut proxy = world.proxy("proxy.log");
    traffic_flows(&world, &proxy);
    changes_follow(&world);
    a_family_without_a_rule_is_closed(&world);
    the_policy_local_keeps_the_clients_address(&world);
    flows_of_datagrams_move(&world);
    affinity_holds(&world);
    a_restart_leaves_no_gap(&world, &mut proxy);
    deletion_leaves_nothing(&world, &mut proxy);
    stop.store(true, Ordering::Relaxed);
}

fn traffic_flows(world: &World, proxy: &Process) {
    until(world, &world.client, CLUSTER, 80, Result::is_ok);
    for family in [0, 1] {
        // Both pods, by cluster IP and by node port; a client from outside is masqueraded.
        for (to, port) in [(CLUSTER[family], 80), (NODE[family], 30080)] {
            let seen = many(&world.client, to, port);
            assert_eq!(seen.len(), 2, "both pods answer: {seen:?}\n{}", proxy.output());
            for (pod, client) in &seen {
                let pod: usize = pod.parse().expect("a number");
                assert_eq!(*client, ip(GATES[pod][family]), "the answer must come back through the node");
            }
        }
        // A pod keeps its address, but not towards itself.
        let seen = many(&world.pods[0], CLUSTER[family], 80);
        assert_eq!(seen["1"], ip(PODS[0][family]));
        assert_eq!(seen["0"], ip(GATES[0][family]), "a pod that is sent to itself sees the node");
        // The node's own programs.
        assert_eq!(many(&world.node, CLUSTER[family], 80).len(), 2);
        // A port that the Service does not have is refused at once.
        let refused = ask(&world.client, SocketAddr::new(ip(CLUSTER[family]), 81));
        assert_eq!(refused, Err(std::io::ErrorKind::ConnectionRefused));
    }
    let health = http(&world.node, "[::1]:10256".parse().expect("an address"), "/healthz");
    assert!(health.starts_with("HTTP/1.1 200 OK") && health.contains("\"nodeEligible\":true"), "{health}");
    let second = world.proxy("second.log");
    let refused = wait_for(PATIENCE, || second.output().contains("another twinstack proxy runs").then_some(()));
    assert!(refused.is_some(), "two proxies would undo each other's work: {}", second.output());
}

fn changes_follow(world: &World) {
    let only = |number: &'static str| move |answer: &Result<(String, IpAddr), _>| matches!(answer, Ok((pod, _)) if pod == number);
    for (pods, number) in [([0], "0"), ([1], "1")] {
        for family in [0, 1] {
            world.apply(&slice("web", family, &pods));
        }
        until(world, &world.client, CLUSTER, 80, only(number));
        until(world, &world.client, NODE, 30080, only(number));
        for to in CLUSTER {
            assert_eq!(many(&world.client, to, 80).len(), 1);
        }
    }
    for family in [0, 1] {
        world.apply(&slice("web", family, &[]));
    }
    let refused = |answer: &Result<(String, IpAddr), _>| *answer == Err(std::io::ErrorKind::ConnectionRefused);
    for from in [&world.client, &world.node, &world.pods[0]] {
        until(world, from, CLUSTER, 80, refused);
    }
    until(world, &world.client, NODE, 30080, refused);
    for family in [0, 1] {
        world.apply(&slice("web", family, &[0, 1]));
    }
    until(world, &world.client, CLUSTER, 80, Result::is_ok);
}

/// Source ranges that name one family leave the other closed.
fn a_family_without_a_rule_is_closed(world: &World) {
    for family in [0, 1] {
        world.apply(&slice("limited", family, &[0]));
    }
    let ingress: Vec<Value> = BALANCER.iter().map(|ip| json!({"ip": ip})).collect();
    let status = json!({"loadBalancer": {"ingress": ingress}});
    let ranges = |list: &[&str]| {
        let mut object =
            service("limited", LIMITED, &json!({"type": "LoadBalancer", "loadBalancerSourceRanges": list}));
        world.apply(&object);
        let path = "/api/v1/namespaces/default/services/limited";
        object = serde_json::from_str(&world.kubectl(&["get", "--raw", path], "")).expect("an object");
        object["status"] = status.clone();
        world.kubectl(&["replace", "--raw", &format!("{path}/status"), "-f", "-"], &object.to_string());
    };
    let open = |family: usize| ask(&world.client, SocketAddr::new(ip(BALANCER[family]), 80)).is_ok();
    let closed = |family: usize| {
        ask(&world.client, SocketAddr::new(ip(BALANCER[family]), 80)) == Err(std::io::ErrorKind::TimedOut)
    };
    for (list, which) in [(&["192.168.77.0/24"][..], 0), (&["fd77::/64"], 1), (&["0.0.0.0/0"], 0)] {
        ranges(list);
        let settled = wait_for(PATIENCE, || (open(which) && closed(1 - which)).then_some(()));
        assert!(settled.is_some(), "{list:?}\n{}\n{}", world.table("ip"), world.table("ip6"));
    }
    ranges(&["203.0.113.0/24", "2001:db8:5::/48"]);
    assert!(wait_for(PATIENCE, || (closed(0) && closed(1)).then_some(())).is_some());
    ranges(&["192.168.77.2/32", "192.168.77.0/24", "fd77::2/128"]);
    assert!(wait_for(PATIENCE, || (open(0) && open(1)).then_some(())).is_some(), "{}", world.table("ip"));
    world.kubectl(&["delete", "service", "limited"], "");
}

/// Others see only endpoints here and come with their own address; the node and its pods see all. Where there is none
/// here, others get no answer. A family that the Service does not have stays closed.
fn the_policy_local_keeps_the_clients_address(world: &World) {
    let slices = |nodes: [&str; 2]| {
        for family in [0, 1] {
            let mut slice = slice("near", family, &[0, 1]);
            for (pod, node) in nodes.iter().enumerate() {
                slice["endpoints"][pod]["nodeName"] = json!(node);
            }
            world.apply(&slice);
        }
    };
    let balancer_sees = |status: &str, count: &str| {
        for node in NODE {
            let answer = || http(&world.client, SocketAddr::new(ip(node), 30990), "/");
            let good = wait_for(PATIENCE, || {
                let answer = answer();
                (answer.starts_with(status) && answer.contains(count)).then_some(())
            });
            assert!(good.is_some(), "{node}: {}", answer());
        }
    };
    let ports = json!([{"name": "http", "port": 80, "protocol": "TCP", "nodePort": 30081}]);
    world.apply(&service(
        "near",
        NEAR,
        &json!({"type": "LoadBalancer", "externalTrafficPolicy": "Local",
        "healthCheckNodePort": 30990, "ports": ports}),
    ));
    slices(["n1", "elsewhere"]);
    balancer_sees("HTTP/1.1 200 OK", "\"localEndpoints\":1,");
    until(world, &world.client, NODE, 30081, Result::is_ok);
    for family in [0, 1] {
        let seen = many(&world.client, NODE[family], 30081);
        assert_eq!(seen, [("0".to_owned(), ip(CLIENT[family]))].into());
        assert_eq!(many(&world.node, NODE[family], 30081).len(), 2);
        assert_eq!(many(&world.pods[1], NODE[family], 30081)["0"], ip(PODS[1][family]));
        assert_eq!(many(&world.client, NEAR[family], 80).len(), 2, "the cluster IP has a policy of its own");
    }
    slices(["elsewhere", "elsewhere"]);
    balancer_sees("HTTP/1.1 503", "\"localEndpoints\":0,");
    until(world, &world.client, NODE, 30081, |answer| *answer == Err(std::io::ErrorKind::TimedOut));
    until(world, &world.node, NODE, 30081, Result::is_ok);

    world.kubectl(&["delete", "service", "near"], "");
    let single = json!({"type": "NodePort", "ports": ports, "clusterIPs": [NEAR[0]], "ipFamilyPolicy": "SingleStack",
        "ipFamilies": ["IPv4"]});
    world.apply(&service("near", NEAR, &single));
    until(world, &world.client, [NODE[0], NODE[0]], 30081, Result::is_ok);
    let closed = ask(&world.client, SocketAddr::new(ip(NODE[1]), 30081));
    assert_eq!(closed, Err(std::io::ErrorKind::ConnectionRefused), "nothing listens there");
    world.kubectl(&["delete", "service", "near"], "");
}

/// A client that goes on sending from one port is taken to the endpoint that there is, not to the one that there was.
fn flows_of_datagrams_move(world: &World) {
    let slice = |family: usize, pod: usize| {
        let mut slice = slice("names", family, &[pod]);
        slice["ports"] = json!([{"name": "dns", "port": 8053, "protocol": "UDP"}]);
        slice
    };
    world.apply(&service("names", NAMES, &json!({"ports": [{"name": "dns", "port": 53, "protocol": "UDP"}]})));
    let sockets = ["0.0.0.0:5353", "[::]:5354"].map(|at| {
        let socket = world.client.within(|| UdpSocket::bind(at)).expect("entered").expect("a socket");
        socket.set_read_timeout(Some(Duration::from_millis(300))).expect("a timeout");
        socket
    });
    for pod in [0, 1, 0] {
        for (family, socket) in sockets.iter().enumerate() {
            world.apply(&slice(family, pod));
            let moved = wait_for(PATIENCE, || {
                let mut answer = [0; 16];
                socket.send_to(b"?", (NAMES[family], 53)).ok()?;
                let length = socket.recv(&mut answer).ok()?;
                (answer[..length] == *pod.to_string().as_bytes()).then_some(())
            });
            assert!(moved.is_some(), "{} does not lead to pod {pod}", NAMES[family]);
        }
    }
    world.kubectl(&["delete", "service", "names"], "");
}

fn affinity_holds(world: &World) {
    world.apply(&service(
        "web",
        CLUSTER,
        &json!({"type": "NodePort", "sessionAffinity": "ClientIP", "ports": [
        {"name": "http", "port": 80, "protocol": "TCP", "nodePort": 30080}]}),
    ));
    let settled = wait_for(PATIENCE, || world.table("ip6").contains("chain sticky-").then_some(()));
    assert!(settled.is_some(), "{}", world.table("ip6"));
    for family in [0, 1] {
        let first = many(&world.client, CLUSTER[family], 80);
        assert_eq!(first.len(), 1, "a client stays where it is: {first:?}");
        assert_eq!(
            many(&world.client, NODE[family], 30080).keys().collect::<Vec<_>>(),
            first.keys().collect::<Vec<_>>()
        );
    }
}

/// Connections go on while the proxy is dead, while it starts again, and after somebody flushed everything.
fn a_restart_leaves_no_gap(world: &World, proxy: &mut Process) {
    let before: Vec<BTreeMap<String, IpAddr>> = CLUSTER.iter().map(|to| many(&world.client, to, 80)).collect();
    proxy.kill();
    CLUSTER.iter().for_each(|to| drop(many(&world.client, to, 80)));
    let done = AtomicBool::new(false);
    let (good, bad) = (AtomicU32::new(0), AtomicU32::new(0));
    thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                for to in CLUSTER {
                    let count = if ask(&world.client, SocketAddr::new(ip(to), 80)).is_ok() { &good } else { &bad };
                    count.fetch_add(1, Ordering::Relaxed);
                }
            }
        });
        *proxy = world.proxy("proxy.log");
        let adopted = wait_for(PATIENCE, || proxy.output().contains("rules are in place").then_some(()));
        let start = good.load(Ordering::Relaxed);
        let more = wait_for(PATIENCE, || (good.load(Ordering::Relaxed) > start + 20).then_some(()));
        done.store(true, Ordering::Relaxed);
        assert!(adopted.is_some() && more.is_some(), "{}", proxy.output());
    });
    assert_eq!(bad.load(Ordering::Relaxed), 0, "of {} connections", good.load(Ordering::Relaxed));
    assert!(!proxy.output().contains("making it anew"), "{}", proxy.output());
    let after: Vec<BTreeMap<String, IpAddr>> = CLUSTER.iter().map(|to| many(&world.client, to, 80)).collect();
    assert_eq!(before, after, "clients stay with their pods");

    for family in ["ip", "ip6"] {
        world.node.run("nft", &["delete", "table", family, "twinstack-proxy"], "").expect("deleted");
    }
    until(world, &world.client, CLUSTER, 80, Result::is_ok);
    for family in ["ip", "ip6"] {
        world.node.run("nft", &["flush", "table", family, "twinstack-proxy"], "").expect("flushed");
    }
    until(world, &world.client, CLUSTER, 80, Result::is_ok);
}

fn deletion_leaves_nothing(world: &World, proxy: &mut Process) {
    world.kubectl(&["delete", "service", "web"], "");
    for (family, ips) in [("ip", [CLUSTER[0], PODS[0][0]]), ("ip6", [CLUSTER[1], PODS[0][1]])] {
        let gone = wait_for(PATIENCE, || {
            let table = world.table(family);
            (!table.is_empty() && !ips.iter().any(|ip| table.contains(ip)) && !table.contains("sticky")).then_some(())
        });
        assert!(gone.is_some(), "{}", world.table(family));
    }
    proxy.kill();
    let program = twinstack().display().to_string();
    world.node.run(&program, &["proxy", "--cleanup"], "").expect("cleaned up");
    let left = world.node.run("nft", &["list", "tables"], "").expect("a list").stdout;
    assert_eq!(left.trim(), "table inet foreign");
}
