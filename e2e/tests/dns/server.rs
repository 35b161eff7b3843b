//! `twinstack dns` on loopback, asked over UDP and TCP in both families; the cluster behind it is `twinstack apiserver`.

use e2e::{
    Process, Server,
    dns::{self, A, AAAA, PTR, SRV},
    free_port, run, twinstack, wait_for,
};
use k8s_openapi::api::{core::v1::Service, discovery::v1::EndpointSlice};
use kube::{
    Api, Client, Config,
    api::{DeleteParams, PostParams},
    config::{KubeConfigOptions, Kubeconfig},
};
use serde_json::json;
use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpStream, UdpSocket},
    path::Path,
    process::Command,
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};
use tempfile::TempDir;

const PATIENCE: Duration = Duration::from_secs(60);
/// For one answer: nothing is lost on loopback, but a busy machine may take a while.
const ANSWER: Duration = Duration::from_secs(20);

/// A running server with its Corefile.
struct Dns {
    process: Process,
    folder: TempDir,
    addresses: Vec<SocketAddr>,
}

impl Dns {
    /// Starts it; `{BIND}` in the Corefile becomes both loopback addresses.
    fn start(corefile: &str) -> Self {
        let folder = tempfile::tempdir().expect("a folder can be made");
        let conf = folder.path().join("Corefile");
        write(&conf, corefile);
        let words = ["dns", "--conf", conf.to_str().expect("a path")];
        let process = Process::start(twinstack(), &words, &folder.path().join("dns.log"));
        let ready = wait_for(PATIENCE, || process.output().contains("DNS server is ready").then_some(()));
        assert!(ready.is_some(), "the server did not start:\n{}", process.output());
        let output = process.output();
        let found =
            output.split("listening address=").skip(1).filter_map(|rest| rest.split_whitespace().next()?.parse().ok());
        let addresses = found.collect();
        Self { process, folder, addresses }
    }

    fn change(&self, corefile: &str) {
        write(&self.folder.path().join("Corefile"), corefile);
        let reported = Command::new("kill").args(["-USR1", &self.process.id().to_string()]).status();
        assert!(reported.expect("kill runs").success());
    }

    /// The address of a family.
    fn at(&self, v6: bool) -> SocketAddr {
        *self.addresses.iter().find(|address| address.is_ipv6() == v6).expect("both families are served")
    }

    /// The same answer from both families and both transports.
    fn ask(&self, name: &str, rtype: u16) -> Answer {
        let first = udp(self.at(false), name, rtype).expect("an answer");
        assert_eq!(udp(self.at(true), name, rtype).as_ref(), Some(&first), "UDP over IPv6 {name}");
        for v6 in [false, true] {
            assert_eq!(tcp(self.at(v6), name, rtype).as_ref(), Some(&first), "TCP {v6} {name}");
        }
        first
    }

    /// Waits until the answer is this one.
    fn becomes(&self, name: &str, rtype: u16, rcode: u8, records: &[&str]) {
        let wanted = Answer { rcode, records: records.iter().map(|text| (*text).to_owned()).collect() };
        let address = self.at(true);
        let seen = wait_for(PATIENCE, || udp(address, name, rtype).filter(|answer| *answer == wanted));
        let last = udp(address, name, rtype);
        assert!(seen.is_some(), "{name} is {last:?} and not {wanted:?}\n{}", self.process.output());
        assert_eq!(self.ask(name, rtype), wanted);
    }

    /// Waits until everything that came from this socket has been looked at: the thread that has to do it serves the socket still, and has come
    /// through once it answers something else. What its buffer has no room for until then is asked again, as resolvers do.
    fn comes_through(&self, socket: &UdpSocket) {
        socket.set_read_timeout(Some(Duration::from_millis(100))).expect("a socket");
        let last = question("last.example.org.", AAAA);
        let mut buffer = [0; 4096];
        let through = wait_for(PATIENCE, || {
            socket.send(&last).expect("sent");
            let packets = std::iter::from_fn(|| socket.recv(&mut buffer).ok().map(|length| buffer[..length].to_vec()));
            // Answers to what came before may be anything; this has the same question.
            let asked = 12..last.len() - 11;
            let mut answers = packets.filter(|packet| packet.get(asked.clone()) == last.get(asked.clone()));
            answers.find(|packet| Answer::from(dns::parse(packet)) == answer(0, &["AAAA 2001:db8::7"]))
        });
        assert!(through.is_some(), "{}", self.process.output());
    }
}

fn write(path: &Path, corefile: &str) {
    std::fs::write(path, corefile.replace("{BIND}", "bind 127.0.0.1 ::1")).expect("the Corefile can be written");
}

/// Tells a thread to end, also when the test fails.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Code and records of the answer section, sorted.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Answer {
    rcode: u8,
    records: Vec<String>,
}

impl From<dns::Answer> for Answer {
    fn from(full: dns::Answer) -> Self {
        let mut records: Vec<String> = full.sections[0].iter().map(shown).collect();
        records.sort();
        Self { rcode: full.rcode, records }
    }
}

/// Type and data; of SRV the port and the target.
fn shown(record: &dns::Record) -> String {
    let data = &record.data;
    match record.rtype {
        A => format!("A {data}"),
        AAAA => format!("AAAA {data}"),
        SRV => format!("SRV {}", data.splitn(3, ' ').nth(2).unwrap_or_default()),
        PTR => format!("PTR {data}"),
        5 => format!("CNAME {data}"),
        other => format!("TYPE{other}"),
    }
}

fn question(name: &str, rtype: u16) -> Vec<u8> {
    dns::question(name, rtype, true)
}

fn udp(server: SocketAddr, name: &str, rtype: u16) -> Option<Answer> {
    dns::udp(server, &question(name, rtype), ANSWER).map(Answer::from)
}

fn tcp(server: SocketAddr, name: &str, rtype: u16) -> Option<Answer> {
    dns::tcp(server, &question(name, rtype), ANSWER).map(Answer::from)
}

fn answer(rcode: u8, records: &[&str]) -> Answer {
    Answer { rcode, records: records.iter().map(|text| (*text).to_owned()).collect() }
}

const STATIC: &str = r#".:0 {
    {BIND}
    errors
    template IN AAAA example.org {
        answer "{{ .Name }} 60 IN AAAA 2001:db8::7"
    }
    hosts {
        192.0.2.1 host.test
        2001:db8::1 host.test
    }
}
"#;

#[test]
fn both_families_and_transports_give_the_same_answers() {
    let mut dns = Dns::start(STATIC);
    assert_eq!(dns.addresses.len(), 2);
    assert_eq!(dns.ask("host.test.", A), answer(0, &["A 192.0.2.1"]));
    assert_eq!(dns.ask("HOST.test.", AAAA), answer(0, &["AAAA 2001:db8::1"]));
    assert_eq!(dns.ask("www.example.org.", AAAA), answer(0, &["AAAA 2001:db8::7"]));
    assert_eq!(dns.ask("none.test.", A), answer(2, &[]));
    let ended = dns.process.terminate(PATIENCE).expect("it ends");
    assert!(ended.success(), "{}", dns.process.output());
}

#[test]
fn a_corefile_that_is_not_understood_is_refused_with_the_place() {
    let folder = tempfile::tempdir().expect("a folder can be made");
    let conf = folder.path().join("Corefile");
    std::fs::write(&conf, ".:0 {\n    bind 127.0.0.1\n    forwrad . 192.0.2.1\n}\n").expect("written");
    let output = run(&["dns", "--conf", conf.to_str().expect("a path")]);
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success());
    assert!(text.contains("Corefile:3:5: \"forwrad\": unknown plugin; did you mean forward?; known: "), "{text}");
}

#[test]
fn a_reload_loses_no_query_and_a_broken_file_changes_nothing() {
    let dns = Dns::start(STATIC);
    let address = dns.at(false);
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let ends = Ends(&over);
        let asking = scope.spawn(|| {
            let mut asked = 0;
            while !over.load(Ordering::Relaxed) {
                assert!(udp(address, "host.test.", A).is_some_and(|answer| answer.rcode == 0), "after {asked} queries");
                asked += 1;
            }
            asked
        });
        dns.change(&STATIC.replace("2001:db8::7", "2001:db8::8"));
        dns.becomes("www.example.org.", AAAA, 0, &["AAAA 2001:db8::8"]);
        dns.change(".:0 {\n    nonsense\n}\n");
        let reported =
            wait_for(PATIENCE, || dns.process.output().contains("cannot be used; the old one goes on").then_some(()));
        assert!(reported.is_some(), "{}", dns.process.output());
        assert_eq!(dns.ask("www.example.org.", AAAA), answer(0, &["AAAA 2001:db8::8"]));
        drop(ends);
        assert!(asking.join().expect("every query was answered") > 0);
    });
}

#[test]
fn bad_packets_are_refused_or_ignored_and_harm_nobody() {
    let dns = Dns::start(STATIC);
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    socket.connect(dns.at(false)).expect("connected");
    let good = question("host.test.", A);
    let mut state = 1u32;
    for _ in 0..2000 {
        let mut packet = good.clone();
        for _ in 0..3 {
            // A fixed sequence: the same packets every time.
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let at = (state >> 16) as usize % packet.len();
            packet[at] = (state >> 8) as u8;
        }
        packet.truncate(1 + (state >> 20) as usize % packet.len());
        socket.send(&packet).expect("sent");
    }
    dns.comes_through(&socket);
    assert_eq!(dns.ask("host.test.", A), answer(0, &["A 192.0.2.1"]));
    // Half a message on a connection keeps nobody from being served.
    let mut half = TcpStream::connect(dns.at(true)).expect("connected");
    half.write_all(&[0, 40, 1]).expect("written");
    assert_eq!(dns.ask("host.test.", AAAA), answer(0, &["AAAA 2001:db8::1"]));
}

#[test]
fn a_flood_over_udp_leaves_connections_and_health_alone() {
    let port = free_port();
    let dns = Dns::start(&STATIC.replace("    errors\n", &format!("    errors\n    health 127.0.0.1:{port}\n")));
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    socket.connect(dns.at(false)).expect("connected");
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let ends = Ends(&over);
        scope.spawn(|| {
            let packet = question("host.test.", A);
            while !over.load(Ordering::Relaxed) {
                // Answers are not read: their buffer runs over, and that is nobody else's trouble.
                let _ = socket.send(&packet);
            }
        });
        for _ in 0..20 {
            for v6 in [false, true] {
                assert_eq!(tcp(dns.at(v6), "host.test.", AAAA), Some(answer(0, &["AAAA 2001:db8::1"])));
            }
            assert!(get(port, "/health").ends_with("\r\n\r\nOK"));
        }
        drop(ends);
    });
    dns.comes_through(&socket);
    assert_eq!(dns.ask("host.test.", A), answer(0, &["A 192.0.2.1"]));
}

fn get(port: u16, path: &str) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("connected");
    write!(stream, "GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").expect("written");
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("an answer");
    text
}

#[test]
fn one_server_forwards_to_another_keeps_the_answers_and_counts_them() {
    let first = Dns::start(&STATIC.replace("host.test\n    }", "host.test\n        fallthrough\n    }"));
    let port = free_port();
    let second = Dns::start(&format!(
        ".:0 {{\n {{BIND}}\n health 127.0.0.1:{port}\n ready 127.0.0.1:{port}\n prometheus 127.0.0.1:{port}\n cache 30\n \
         forward . {} {} {{\n  policy round_robin\n }}\n}}\n",
        first.at(false),
        first.at(true)
    ));
    for _ in 0..3 {
        assert_eq!(second.ask("host.test.", A), answer(0, &["A 192.0.2.1"]));
        assert_eq!(second.ask("host.test.", AAAA), answer(0, &["AAAA 2001:db8::1"]));
    }
    assert!(get(port, "/health").ends_with("\r\n\r\nOK"));
    assert!(get(port, "/ready").ends_with("\r\n\r\nOK"));
    assert!(get(port, "/ready?verbose").contains("running configuration: sha512 "));
    let metrics = get(port, "/metrics");
    // Twice three questions over each of four ways; the first of each type went upstream.
    for line in [
        r#"coredns_dns_requests_total{server="dns://:0",zone=".",view="",proto="tcp",family="2",type="AAAA"} 3"#,
        r#"coredns_cache_hits_total{server="dns://:0",zone=".",view="",type="success"} 22"#,
        r#"coredns_cache_misses_total{server="dns://:0",zone=".",view=""} 2"#,
    ] {
        assert!(metrics.contains(line), "{line}\n{metrics}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn services_of_a_cluster_are_answered_while_they_last() {
    runtime::tls::install_provider();
    let mut server = Server::start(&["--service-cluster-ip-range=10.96.0.0/16,fd00:96::/112"]);
    let kubeconfig = Kubeconfig::read_from(server.kubeconfig()).expect("a kubeconfig");
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.expect("a config");
    let client = Client::try_from(config).expect("a client");
    let services: Api<Service> = Api::default_namespaced(client.clone());
    let slices: Api<EndpointSlice> = Api::default_namespaced(client);
    let make = PostParams::default();
    let web = json!({
        "metadata": {"name": "web"},
        "spec": {"ipFamilyPolicy": "RequireDualStack", "clusterIP": "10.96.1.1", "clusterIPs": ["10.96.1.1", "fd00:96::101"],
                 "ports": [{"name": "http", "port": 80}]},
    });
    services.create(&make, &serde_json::from_value(web).expect("a Service")).await.expect("created");
    let corefile = format!(
        ".:0 {{\n {{BIND}}\n errors\n ready 127.0.0.1:0\n kubernetes cluster.local in-addr.arpa ip6.arpa {{\n  kubeconfig {} twinstack-ipv6\n }}\n}}\n",
        server.kubeconfig().display()
    );
    let dns = Dns::start(&corefile);

    // Known when it says that it is ready: nothing to wait for.
    assert_eq!(dns.ask("web.default.svc.cluster.local.", A), answer(0, &["A 10.96.1.1"]));
    assert_eq!(dns.ask("web.default.svc.cluster.local.", AAAA), answer(0, &["AAAA fd00:96::101"]));
    let srv = dns.ask("_http._tcp.web.default.svc.cluster.local.", SRV);
    assert_eq!(srv, answer(0, &["SRV 80 web.default.svc.cluster.local."]));
    assert_eq!(dns.ask("1.1.96.10.in-addr.arpa.", PTR), answer(0, &["PTR web.default.svc.cluster.local."]));
    let reverse = "1.0.1.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.6.9.0.0.0.0.d.f.ip6.arpa.";
    assert_eq!(dns.ask(reverse, PTR), answer(0, &["PTR web.default.svc.cluster.local."]));
    assert_eq!(dns.ask("none.default.svc.cluster.local.", A), answer(3, &[]));

    let headless = json!({
        "metadata": {"name": "head"},
        "spec": {"clusterIP": "None", "ipFamilyPolicy": "RequireDualStack", "ports": [{"name": "http", "port": 80}]},
    });
    services.create(&make, &serde_json::from_value(headless).expect("a Service")).await.expect("created");
    for (family, address) in [("IPv4", "192.0.2.7"), ("IPv6", "2001:db8::7")] {
        let slice = json!({
            "metadata": {"name": format!("head-{}", family.to_lowercase()), "labels": {"kubernetes.io/service-name": "head"}},
            "addressType": family, "ports": [{"name": "http", "port": 8080}],
            "endpoints": [{"addresses": [address], "hostname": "pod-0", "conditions": {"ready": true}}],
        });
        slices.create(&make, &serde_json::from_value(slice).expect("a slice")).await.expect("created");
    }
    dns.becomes("head.default.svc.cluster.local.", A, 0, &["A 192.0.2.7"]);
    dns.becomes("head.default.svc.cluster.local.", AAAA, 0, &["AAAA 2001:db8::7"]);
    dns.becomes("pod-0.head.default.svc.cluster.local.", AAAA, 0, &["AAAA 2001:db8::7"]);
    services.delete("head", &DeleteParams::default()).await.expect("deleted");
    dns.becomes("head.default.svc.cluster.local.", A, 3, &[]);

    // The API is gone: what was known stays.
    server.process().kill();
    assert_eq!(dns.ask("web.default.svc.cluster.local.", AAAA), answer(0, &["AAAA fd00:96::101"]));
}
