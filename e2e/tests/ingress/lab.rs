//! Ingress from end to end in network namespaces: the operator runs the router as a process with a real HAProxy, `twinstack proxy` makes the
//! NodePort and the load balancer of the lab lead to it, and a Route that kubectl made answers a client over both families. `twinstack dns` tells
//! the client where the wildcard leads, from the DNSRecord that the operator made. With `KUBE_APISERVER` all of that on a real API server.

use e2e::{
    INGRESS_LISTS, Process,
    proxy_lab::{self, Lab, NODE, PATIENCE, PODS, http, ip},
    twinstack, wait_for,
};
use kernel::netns::Namespace;
use serde_json::{Value, json};
use std::{
    io::{Read, Write},
    net::{IpAddr, SocketAddr, TcpListener, UdpSocket},
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    thread,
    time::Duration,
};

const CONTROLLERS: &str = "/apis/operator.openshift.io/v1/namespaces/openshift-ingress-operator/ingresscontrollers";
const BACKEND: u16 = 8088;

/// Ends what still runs on the node: a router that was left behind, its HAProxy.
struct Cleanup<'a>(&'a Namespace);

impl Drop for Cleanup<'_> {
    fn drop(&mut self) {
        let output = Command::new("ip").args(["netns", "pids", self.0.name()]).output();
        let pids = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
        for pid in pids.split_whitespace() {
            let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
            if name.trim() == "haproxy" || name.trim() == "twinstack" {
                let _ = Command::new("kill").args(["-9", pid]).status();
            }
        }
    }
}

/// A pod that answers HTTP over both families with what it was asked for.
fn backend(pod: &Arc<Namespace>, number: usize) {
    for address in PODS[number] {
        let at = SocketAddr::new(ip(address), BACKEND);
        let listener = pod.within(|| TcpListener::bind(at)).expect("entered").expect("a socket");
        thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                // One that sends nothing keeps nobody waiting.
                thread::spawn(move || {
                    let mut request = [0; 4096];
                    let length = stream.read(&mut request).unwrap_or(0);
                    let body = String::from_utf8_lossy(&request[..length]).into_owned();
                    let length = body.len();
                    let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n");
                    // A client that has gone is no concern of the pod.
                    let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body.as_bytes()));
                });
            }
        });
    }
}

fn kubectl(lab: &Lab, words: &[&str], input: &str) -> Result<String, String> {
    let config = lab.admin_kubeconfig();
    let home = format!("HOME={}", lab.folder().display());
    let path = std::env::var("PATH").unwrap_or_default();
    let tools = std::env::var("TWINSTACK_TOOLS").unwrap_or_default();
    let path = format!("PATH={path}:{tools}");
    let mut all = vec![home.as_str(), &path, "kubectl", &config];
    all.extend(words);
    lab.node.run("env", &all, input).map(|printed| printed.stdout).map_err(|error| error.to_string())
}

fn put(lab: &Lab, object: &Value) {
    kubectl(lab, &["apply", "--validate=false", "-f", "-"], &object.to_string()).expect("kubectl is content");
}

const A: u16 = 1;
const AAAA: u16 = 28;

/// Addresses that a DNS server gives the client for a name, over UDP; none as well when there is no answer.
fn resolve(lab: &Lab, server: &str, name: &str, sort: u16) -> Vec<IpAddr> {
    let mut question = vec![0x12, 0x34, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    for label in name.split('.') {
        question.push(u8::try_from(label.len()).expect("a short label"));
        question.extend(label.bytes());
    }
    question.push(0);
    question.extend(sort.to_be_bytes());
    question.extend([0, 1]);
    let asked = lab.client.within(|| {
        let any = if ip(server).is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
        let socket = UdpSocket::bind(any)?;
        socket.set_read_timeout(Some(Duration::from_secs(10)))?;
        socket.connect((ip(server), 53))?;
        socket.send(&question)?;
        let mut answer = [0; 1500];
        let length = socket.recv(&mut answer)?;
        Ok::<_, std::io::Error>(answer[..length].to_vec())
    });
    let Ok(Ok(answer)) = asked else { return Vec::new() };
    addresses(&answer, question.len(), sort)
}

/// The addresses in the answer section, which begins at `at`.
fn addresses(answer: &[u8], mut at: usize, sort: u16) -> Vec<IpAddr> {
    let number = |at: usize| u16::from_be_bytes([answer[at], answer[at + 1]]);
    let mut found = Vec::new();
    for _ in 0..number(6) {
        // A name: labels up to an empty one, or a pointer.
        while answer[at] != 0 && answer[at] < 0xc0 {
            at += 1 + usize::from(answer[at]);
        }
        at += if answer[at] == 0 { 1 } else { 2 };
        let (kind, length) = (number(at), usize::from(number(at + 8)));
        let data = &answer[at + 10..at + 10 + length];
        match (kind == sort, <[u8; 4]>::try_from(data), <[u8; 16]>::try_from(data)) {
            (true, Ok(four), _) => found.push(IpAddr::from(four)),
            (true, _, Ok(sixteen)) => found.push(IpAddr::from(sixteen)),
            _ => {}
        }
        at += 10 + length;
    }
    found
}

/// A DNS server on the node's addresses that answers from DNSRecords.
fn dns(lab: &Lab) -> Process {
    let kubeconfig = lab.admin_kubeconfig().replace("--kubeconfig=", "");
    let corefile = lab.folder().join("Corefile");
    let text =
        format!("apps.lab.test {{\n bind {}\n dnsrecords {{\n  kubeconfig {kubeconfig}\n }}\n}}\n", NODE.join(" "));
    std::fs::write(&corefile, text).expect("a file can be written");
    let process =
        lab.start(&[&twinstack().display().to_string(), "dns", "--conf", &corefile.display().to_string()], "dns.log");
    let ready = wait_for(PATIENCE, || process.output().contains("DNS server is ready").then_some(()));
    assert!(ready.is_some(), "{}", process.output());
    process
}

fn ask(lab: &Lab, to: SocketAddr, host: &str) -> String {
    let asked = lab.client.within(|| {
        let mut stream = std::net::TcpStream::connect_timeout(&to, Duration::from_secs(5))?;
        stream.set_read_timeout(Some(Duration::from_secs(30)))?;
        stream.write_all(format!("GET /where HTTP/1.0\r\nHost: {host}\r\n\r\n").as_bytes())?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok::<_, std::io::Error>(answer)
    });
    asked.and_then(|answer| answer).unwrap_or_else(|error| error.to_string())
}

/// Waits until the Route answers there with the client's own path.
fn answers(lab: &Lab, operator: &Process, to: SocketAddr, host: &str) -> String {
    let mut last = String::new();
    let good = wait_for(PATIENCE, || {
        last = ask(lab, to, host);
        (last.contains("200 OK") && last.contains("GET /where")).then(|| last.clone())
    });
    let conditions = || {
        kubectl(lab, &["-n", "openshift-ingress-operator", "get", "ingresscontrollers,dnsrecords", "-o", "yaml"], "")
    };
    good.unwrap_or_else(|| {
        panic!("{to} gives {last:?}\n{}\n{conditions:?}", operator.output(), conditions = conditions())
    })
}

fn controller(strategy: Value) -> Value {
    json!({"apiVersion": "operator.openshift.io/v1", "kind": "IngressController",
        "metadata": {"name": "default", "namespace": "openshift-ingress-operator"},
        "spec": {"domain": "apps.lab.test", "replicas": 1, "endpointPublishingStrategy": strategy}})
}

fn condition(lab: &Lab, kind: &str) -> String {
    let path = format!(r#"jsonpath={{.status.conditions[?(@.type=="{kind}")].status}}"#);
    kubectl(lab, &["-n", "openshift-ingress-operator", "get", "ingresscontroller", "default", "-o", &path], "")
        .unwrap_or_default()
}

fn settles(lab: &Lab, operator: &Process, kind: &str) {
    let done = wait_for(PATIENCE, || (condition(lab, kind) == "True").then_some(()));
    assert!(done.is_some(), "{kind} is {:?}\n{}", condition(lab, kind), operator.output());
}

/// The router and its HAProxy: number and command line of each process that works in its folder.
fn routers(lab: &Lab) -> Vec<(String, String)> {
    let folder = lab.folder().join("ingress/default/haproxy").display().to_string();
    let output = Command::new("ip").args(["netns", "pids", lab.node.name()]).output().expect("ip runs");
    let pids = String::from_utf8_lossy(&output.stdout).into_owned();
    let words = |pid: &str| std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let all = pids.split_whitespace().map(|pid| (pid.to_owned(), String::from_utf8_lossy(&words(pid)).into_owned()));
    all.filter(|(_, words)| words.contains(&folder)).collect()
}

/// Waits until each client has been answered some more times.
type More<'a> = &'a dyn Fn(u32) -> Option<()>;

/// Clients of both families ask without pause while steps are taken, and none is ever without an answer.
fn no_client_notices(lab: &Lab, port: u16, steps: impl FnOnce(More<'_>) -> Vec<Option<()>>) {
    let (done, good) = (AtomicBool::new(false), [AtomicU32::new(0), AtomicU32::new(0)]);
    let more = |than: u32| {
        let count = || good.iter().map(|good| good.load(Ordering::Relaxed)).min();
        let from = count().unwrap_or(0);
        wait_for(PATIENCE, || (count() > Some(from + than)).then_some(()))
    };
    let failed = thread::scope(|scope| {
        let clients: Vec<_> = NODE
            .into_iter()
            .zip(&good)
            .map(|(node, good)| {
                let done = &done;
                scope.spawn(move || {
                    let mut failed = Vec::new();
                    while !done.load(Ordering::Relaxed) {
                        let answer = ask(lab, SocketAddr::new(ip(node), port), "web.apps.lab.test");
                        match answer.contains("200 OK") {
                            true => drop(good.fetch_add(1, Ordering::Relaxed)),
                            false => failed.push(answer),
                        }
                    }
                    failed
                })
            })
            .collect();
        let taken = steps(&more);
        done.store(true, Ordering::Relaxed);
        let failed: Vec<String> = clients.into_iter().flat_map(|client| client.join().expect("it ends")).collect();
        assert!(taken.iter().all(Option::is_some), "{taken:?} {failed:?}");
        failed
    });
    assert_eq!(failed, [] as [String; 0], "of {good:?}");
}

/// A router and its HAProxy, when there are no others.
fn settled_routers(lab: &Lab) -> Vec<(String, String)> {
    let settled = wait_for(PATIENCE, || Some(routers(lab)).filter(|found| found.len() == 2));
    settled.unwrap_or_else(|| panic!("a router and its HAProxy, not {:?}", routers(lab)))
}

/// What it left behind serves on, and the next operator goes on with the same processes: no client notices.
fn a_killed_operator_is_followed_without_a_gap(
    lab: &Lab,
    operator: &mut Process,
    start: &dyn Fn(&str) -> Process,
    port: u16,
) {
    let before = settled_routers(lab);
    no_client_notices(lab, port, |more| {
        let mut steps = vec![more(10)];
        operator.kill();
        steps.push(more(10));
        *operator = start("operator-again.log");
        steps.push(wait_for(PATIENCE, || operator.output().contains("runs already is taken over").then_some(())));
        steps.push(more(20));
        steps
    });
    settles(lab, operator, "Available");
    assert_eq!(routers(lab), before, "the same processes\n{}", operator.output());
}

/// A setting that only a new router takes: it takes HAProxy over, though a client holds a connection to the old one.
fn a_changed_setting_is_handed_over_without_a_gap(lab: &Lab, operator: &Process, port: u16) {
    let before = settled_routers(lab);
    let router = |found: &[(String, String)]| {
        found.iter().find(|(_, words)| words.contains("router")).map(|(pid, _)| pid.clone())
    };
    let idle: Vec<_> = NODE
        .iter()
        .map(|node| lab.client.within(|| std::net::TcpStream::connect((ip(node), port))).expect("entered"))
        .collect();
    no_client_notices(lab, port, |more| {
        let mut steps = vec![more(10)];
        let patch = r#"{"spec":{"tuningOptions":{"clientTimeout":"47s"}}}"#;
        let words =
            ["-n", "openshift-ingress-operator", "patch", "ingresscontroller", "default", "--type=merge", "-p", patch];
        steps.push(kubectl(lab, &words, "").ok().map(drop));
        let replaced = || router(&routers(lab)).filter(|pid| Some(pid) != router(&before).as_ref());
        steps.push(wait_for(PATIENCE, || replaced().map(drop)));
        let config = lab.folder().join("ingress/default/haproxy");
        let serves_it = || {
            let folders = std::fs::read_dir(&config).ok()?.flatten().map(|entry| entry.path().join("haproxy.cfg"));
            folders
                .filter_map(|file| std::fs::read_to_string(file).ok())
                .find(|text| text.contains("timeout client 47s"))
        };
        steps.push(wait_for(PATIENCE, || serves_it().map(drop)));
        steps.push(more(20));
        steps
    });
    settles(lab, operator, "Available");
    assert!(idle.iter().all(Result::is_ok), "{idle:?}");
}

#[test]
fn a_route_answers_over_both_families_through_a_node_port_and_a_load_balancer() {
    if let Some(how) = proxy_lab::missing() {
        e2e::skip("ingress in namespaces", how);
        return;
    }
    if !["/usr/sbin/haproxy", "/usr/bin/haproxy", "/usr/local/sbin/haproxy"]
        .iter()
        .any(|path| std::path::Path::new(path).is_file())
    {
        e2e::skip("ingress in namespaces", "apt-get install haproxy");
        return;
    }
    let lab = Lab::new();
    let _cleanup = Cleanup(&lab.node);
    for number in [0, 1] {
        backend(&lab.pods[number], number);
    }
    let program = twinstack().display().to_string();
    let config = lab.admin_kubeconfig();
    let _proxy = lab.proxy("nftables", "proxy.log");
    let _manager = lab.start(
        &[
            &program,
            "controller-manager",
            &config,
            "--controllers=service-lb-controller",
            "--load-balancer-ip-range=198.51.100.0/24,2001:db8::/120",
            "--leader-elect=false",
            "--secure-port=0",
        ],
        "manager.log",
    );
    let (address, data) = (
        format!("--operand-address={}", NODE.join(",")),
        format!("--operand-data-dir={}", lab.folder().join("ingress").display()),
    );
    let start_operator = |log: &str| {
        let words = [
            &program,
            "ingress-operator",
            &config,
            "--operand=process",
            &address,
            &data,
            "--operand-node=n1",
            "--dns-provider=lab",
            "--load-balancer-class=twinstack.dev/lab",
            "--leader-elect=false",
            "--secure-port=0",
        ];
        lab.start(&words, log)
    };
    let mut operator = start_operator("operator.log");
    let served =
        || INGRESS_LISTS.iter().all(|list| kubectl(&lab, &["get", "--raw", &format!("/apis/{list}")], "").is_ok());
    assert!(wait_for(PATIENCE, || served().then_some(())).is_some(), "{}", operator.output());
    let networks = json!({"clusterNetwork": [{"cidr": "10.244.0.0/16"}, {"cidr": "fd44::/16"}]});
    put(
        &lab,
        &json!({"apiVersion": "config.openshift.io/v1", "kind": "Network", "metadata": {"name": "cluster"}, "spec": networks, "status": networks}),
    );
    put(
        &lab,
        &json!({"apiVersion": "config.openshift.io/v1", "kind": "Infrastructure", "metadata": {"name": "cluster"}, "spec": {"platformSpec": {"type": "None"}}}),
    );
    let one = "SingleReplica";
    lab.set_status("/apis/config.openshift.io/v1/infrastructures/cluster", &json!({"platform": "None", "platformStatus": {"type": "None"},
        "controlPlaneTopology": one, "infrastructureTopology": one, "infrastructureName": "lab", "apiServerURL": "", "apiServerInternalURI": ""}));
    put(&lab, &json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "openshift-ingress-operator"}}));

    // What is published: a Service of both families with two pods, and a Route that kubectl makes.
    put(
        &lab,
        &json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web", "namespace": "default"},
        "spec": {"ipFamilyPolicy": "RequireDualStack", "ports": [{"name": "http", "port": 80, "targetPort": BACKEND}]}}),
    );
    for (at, family) in ["IPv4", "IPv6"].into_iter().enumerate() {
        let endpoints: Vec<Value> = (0..2)
            .map(|pod| {
                json!({"addresses": [PODS[pod][at]], "conditions": {"ready": true},
            "targetRef": {"kind": "Pod", "namespace": "default", "name": format!("p{pod}")}})
            })
            .collect();
        put(
            &lab,
            &json!({"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": family,
            "metadata": {"name": format!("web-{}", family.to_lowercase()), "namespace": "default", "labels": {"kubernetes.io/service-name": "web"}},
            "endpoints": endpoints, "ports": [{"name": "http", "port": BACKEND, "protocol": "TCP"}]}),
        );
    }
    let route = json!({"apiVersion": "route.openshift.io/v1", "kind": "Route", "metadata": {"name": "web"},
        "spec": {"host": "web.apps.lab.test", "to": {"kind": "Service", "name": "web"}}});
    kubectl(&lab, &["create", "-f", "-"], &route.to_string()).expect("a Route");

    // Nobody has published a wildcard yet.
    let dns = dns(&lab);
    for server in NODE {
        assert_eq!(resolve(&lab, server, "web.apps.lab.test", A), [] as [IpAddr; 0], "{}", dns.output());
    }

    // Through a NodePort.
    put(&lab, &controller(json!({"type": "NodePortService"})));
    settles(&lab, &operator, "Available");
    let port = kubectl(
        &lab,
        &[
            "-n",
            "openshift-ingress",
            "get",
            "service",
            "router-nodeport-default",
            "-o",
            r#"jsonpath={.spec.ports[?(@.name=="http")].nodePort}"#,
        ],
        "",
    );
    let port: u16 = port.expect("a Service").trim().parse().expect("a port");
    for node in NODE {
        answers(&lab, &operator, SocketAddr::new(ip(node), port), "web.apps.lab.test");
    }
    let unknown = ask(&lab, SocketAddr::new(ip(NODE[0]), port), "nobody.apps.lab.test");
    assert!(unknown.contains("503"), "{unknown}");
    // Health is told on a port of its own, over both families.
    for loopback in ["127.0.0.1", "::1"] {
        let health = http(&lab.node, SocketAddr::new(ip(loopback), 11936), "/healthz/ready");
        assert!(health.contains("200"), "{health}");
    }
    a_killed_operator_is_followed_without_a_gap(&lab, &mut operator, &start_operator, port);
    a_changed_setting_is_handed_over_without_a_gap(&lab, &operator, port);
    lab.delete(&format!("{CONTROLLERS}/default"));
    let ended = wait_for(PATIENCE, || routers(&lab).is_empty().then_some(()));
    assert!(ended.is_some(), "{:?} still run\n{}", routers(&lab), operator.output());
    let gone =
        || kubectl(&lab, &["-n", "openshift-ingress-operator", "get", "ingresscontroller", "default"], "").is_err();
    assert!(wait_for(PATIENCE, || gone().then_some(())).is_some(), "{}", operator.output());

    // Through a load balancer of the lab, whose addresses are published under the wildcard.
    put(
        &lab,
        &controller(
            json!({"type": "LoadBalancerService", "loadBalancer": {"scope": "External", "dnsManagementPolicy": "Managed"}}),
        ),
    );
    settles(&lab, &operator, "Available");
    let targets = kubectl(
        &lab,
        &[
            "-n",
            "openshift-ingress-operator",
            "get",
            "dnsrecord",
            "default-wildcard",
            "-o",
            "jsonpath={.spec.dnsName} {.spec.targets[*]}",
        ],
        "",
    );
    let targets = targets.expect("a record");
    let words: Vec<&str> = targets.split_whitespace().collect();
    assert_eq!(words[0], "*.apps.lab.test.");
    assert_eq!(words.len(), 3, "an address of each family: {targets}");
    // The client learns them by DNS, over either family, and goes there.
    let published: Vec<IpAddr> = words[1..].iter().map(|address| ip(address)).collect();
    for (sort, is_v6) in [(A, false), (AAAA, true)] {
        let expected: Vec<IpAddr> = published.iter().copied().filter(|address| address.is_ipv6() == is_v6).collect();
        assert_eq!(expected.len(), 1, "{published:?}");
        for server in NODE {
            let mut last = Vec::new();
            let known = wait_for(PATIENCE, || {
                last = resolve(&lab, server, "web.apps.lab.test", sort);
                (last == expected).then_some(())
            });
            assert!(known.is_some(), "{server} says {last:?} and not {expected:?}\n{}", dns.output());
        }
        answers(&lab, &operator, SocketAddr::new(expected[0], 80), "web.apps.lab.test");
    }
    // With the IngressController the name goes.
    lab.delete(&format!("{CONTROLLERS}/default"));
    for (server, sort) in NODE.into_iter().flat_map(|server| [(server, A), (server, AAAA)]) {
        let gone = wait_for(PATIENCE, || resolve(&lab, server, "web.apps.lab.test", sort).is_empty().then_some(()));
        assert!(gone.is_some(), "{server}\n{}", dns.output());
    }
    assert!(wait_for(PATIENCE, || gone().then_some(())).is_some(), "{}", operator.output());
    let ended = operator.terminate(PATIENCE);
    assert!(ended.is_some_and(|status| status.success()), "{}", operator.output());
}
