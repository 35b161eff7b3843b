//! `twinstack up` with its DNS operator and server: the DNS resource, its templates, and what clients are answered, over UDP
//! and TCP on both families. Each of the nine tests of the proposal for `spec.templates` is here, labelled
//! `[OCPFeatureGate:DNSTemplatePlugin]`.

use e2e::dns::{self, A, AAAA};
use e2e::proxy_lab::{Pair, cable};
use e2e::{Kubectl, Process, Server, account, twinstack, wait_for};
use kernel::netns::Namespace;
use serde_json::{Value, json};
use std::{
    io::{Read, Write},
    net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream, UdpSocket},
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    time::Duration,
};
use tempfile::TempDir;

const PATIENCE: Duration = Duration::from_secs(90);
/// For one answer: what is lost never comes, but a busy machine may take a while.
const ANSWER: Duration = Duration::from_secs(10);
const V4: [&str; 2] = ["--service-cluster-ip-range=10.96.0.0/16", "--cluster-cidr=10.244.0.0/16"];
const BOTH: [&str; 2] =
    ["--service-cluster-ip-range=10.96.0.0/16,fd00:10:96::/112", "--cluster-cidr=10.244.0.0/16,fd00:10:244::/56"];
const V6: [&str; 2] = ["--service-cluster-ip-range=fd00:10:96::/112", "--cluster-cidr=fd00:10:244::/56"];
const DNS: &str = "dnses.operator.openshift.io";

/// The node of the cluster and a client of its DNS server, which see each other only through a cable.
const NODE: Pair = ["192.168.78.1", "fd78::1"];
const CLIENT: Pair = ["192.168.78.2", "fd78::2"];

/// A cluster with an upstream resolver in a namespace, and a client in another; it stops and everything goes with the handle.
struct Cluster {
    process: Process,
    client: Namespace,
    _node: Namespace,
    words: Vec<String>,
    folder: TempDir,
    kubectl: Kubectl,
    upstream: Upstream,
}

impl Cluster {
    /// With these ranges, the gate open, and names outside resolved by a server of this test.
    fn up(ranges: [&str; 2]) -> Option<Self> {
        let cluster = Self::without_gate(ranges)?;
        cluster.open_gate();
        Some(cluster)
    }

    fn without_gate(ranges: [&str; 2]) -> Option<Self> {
        let (Ok(node), Ok(client)) = (Namespace::new("dns-node"), Namespace::new("dns-client")) else {
            e2e::skip("the DNS operator", "run as root on a machine with namespaces and ip (apt-get install iproute2)");
            return None;
        };
        cable(&node, &client, "client", NODE, CLIENT);
        // From here on everything that this test starts is on the node.
        node.enter().expect("the namespace can be entered");
        let folder = tempfile::tempdir().expect("a folder can be made");
        let data = folder.path().join("data").display().to_string();
        let mut words: Vec<String> =
            ["up", "--bind-address=127.0.0.1,::1", "--secure-port=0", "--hollow-nodes=2"].map(str::to_owned).into();
        words.extend([format!("--data-dir={data}"), "--dns-port=53".to_owned()]);
        words.push(format!("--dns-bind-address={}", NODE.join(",")));
        words.extend(ranges.map(str::to_owned));
        let process = launch(&folder, &words);
        let kubectl = Kubectl::all(&folder.path().join("data/admin.kubeconfig"), folder.path()).pop()?;
        let cluster = Self { process, client, _node: node, words, folder, kubectl, upstream: Upstream::start() };
        let upstream =
            json!({"upstreams": [{"type": "Network", "address": "127.0.0.1", "port": cluster.upstream.port}]});
        cluster.patch(&json!({"upstreamResolvers": upstream}));
        // Until the default resolvers are out of use.
        let port = cluster.upstream.port.to_string();
        cluster.until("the server runs the resolvers of this test", || {
            let conf = std::fs::read_to_string(cluster.folder.path().join("data/dns/Corefile")).unwrap_or_default();
            conf.contains(&port).then_some(())
        });
        cluster.condition("Progressing", "False", "AsExpected");
        Some(cluster)
    }

    fn open_gate(&self) {
        let gate = json!({"apiVersion": "config.openshift.io/v1", "kind": "FeatureGate", "metadata": {"name": "cluster"},
            "spec": {"featureSet": "CustomNoUpgrade", "customNoUpgrade": {"enabled": ["DNSTemplatePlugin"]}}});
        self.kubectl.ok_with(&["apply", "-f", "-"], &gate.to_string());
        self.condition("TemplateConfigurationValid", "True", "NoTemplates");
    }

    fn restart(&mut self) {
        self.process.kill();
        self.process = launch(&self.folder, &self.words);
        let own = self.folder.path().join("data/admin.kubeconfig");
        self.kubectl = Kubectl::all(&own, self.folder.path()).pop().expect("kubectl was there before");
    }

    fn until<T>(&self, what: &str, ask: impl FnMut() -> Option<T>) -> T {
        let found = wait_for(PATIENCE, ask);
        found.unwrap_or_else(|| panic!("not within the time: {what}\n{}", self.state()))
    }

    fn state(&self) -> String {
        let dns = self.kubectl.run(&["get", DNS, "default", "-o", "yaml"]).stdout;
        let log = self.process.output();
        let lines: Vec<&str> = log.lines().collect();
        format!("{dns}\n{}\n{}", self.corefile(), lines[lines.len().saturating_sub(30)..].join("\n"))
    }

    fn corefile(&self) -> String {
        self.kubectl
            .run(&["get", "configmap", "dns-default", "-n", "openshift-dns", "-o", "jsonpath={.data.Corefile}"])
            .stdout
    }

    fn patch(&self, spec: &Value) {
        let patch = json!({"spec": spec}).to_string();
        self.until("the DNS resource can be changed", || {
            self.kubectl.run(&["patch", DNS, "default", "--type=merge", "-p", &patch]).success.then_some(())
        });
    }

    fn dns(&self) -> Value {
        serde_json::from_str(&self.kubectl.run(&["get", DNS, "default", "-o", "json"]).stdout).unwrap_or_default()
    }

    /// Waits for a condition; gives its message.
    fn condition(&self, kind: &str, status: &str, reason: &str) -> String {
        self.until(&format!("{kind}={status} ({reason})"), || {
            let dns = self.dns();
            let conditions = dns["status"]["conditions"].as_array()?;
            let one = conditions.iter().find(|one| one["type"] == kind)?;
            let reached = one["status"] == status && one["reason"] == reason;
            reached.then(|| one["message"].as_str().unwrap_or_default().to_owned())
        })
    }

    /// Sets the templates and waits until the server runs them.
    fn templates(&self, templates: &Value) {
        self.patch(&json!({"templates": templates}));
        let generation = self.dns()["metadata"]["generation"].clone();
        let names: Vec<&str> =
            templates.as_array().into_iter().flatten().filter_map(|one| one["name"].as_str()).collect();
        let reason = if names.is_empty() { "NoTemplates" } else { "AsExpected" };
        self.condition("TemplateConfigurationValid", "True", reason);
        let wanted = names.len();
        let all =
            templates.as_array().into_iter().flatten().flat_map(|one| one["zones"].as_array().into_iter().flatten());
        let mut wanted_zones: Vec<String> = all.filter_map(|zone| zone.as_str().map(str::to_owned)).collect();
        wanted_zones.sort();
        self.until("the templates are applied", || {
            let dns = self.dns();
            let one = dns["status"]["conditions"]
                .as_array()?
                .iter()
                .find(|one| one["type"] == "TemplateConfigurationApplied")?;
            let message = one["message"].as_str()?;
            let is_reported = one["status"] == "True" && message.starts_with(&format!("{wanted} templates"));
            // What is applied is what the server of this machine reads.
            let here = std::fs::read_to_string(self.folder.path().join("data/dns/Corefile")).ok()?;
            let zones = |text: &str| {
                let lines =
                    text.lines().filter_map(|line| line.trim().strip_prefix("template IN AAAA ")?.strip_suffix(" {"));
                let mut zones: Vec<String> = lines.flat_map(str::split_whitespace).map(str::to_owned).collect();
                zones.sort();
                // Every block has them.
                zones.dedup();
                zones
            };
            (is_reported && dns["metadata"]["generation"] == generation && zones(&here) == wanted_zones).then_some(())
        });
    }

    /// Where the server answers, by family.
    fn at(&self, v6: bool) -> SocketAddr {
        SocketAddr::new(NODE[usize::from(v6)].parse().expect("an address"), 53)
    }

    /// The same answer for the client over both transports of both families.
    fn ask(&self, name: &str, rtype: u16) -> Answer {
        let mut answers = [false, true].into_iter().flat_map(|v6| {
            let address = self.at(v6);
            // Asked again once, as resolvers do; whether a question is ever lost is the matter of `template_updates`.
            [udp, tcp].map(|ask| {
                let ask = || ask(address, name, rtype).or_else(|| ask(address, name, rtype));
                self.client.within(ask).expect("the namespace can be entered")
            })
        });
        let first = answers.next().flatten().unwrap_or_else(|| panic!("no answer for {name}\n{}", self.state()));
        for other in answers {
            assert_eq!(other.as_ref(), Some(&first), "{name}\n{}", self.state());
        }
        first
    }

    /// Waits until the answer has these records.
    fn becomes(&self, name: &str, rtype: u16, records: &[&str]) {
        let address = self.at(true);
        let mut last = None;
        let seen = wait_for(PATIENCE, || {
            last = udp(address, name, rtype);
            last.as_ref().filter(|answer| answer.records == records).map(|_| ())
        });
        assert!(seen.is_some(), "{name} is {last:?} and not {records:?}\n{}", self.state());
        assert_eq!(self.ask(name, rtype).records, records);
    }

    /// NOERROR without records, and with an SOA by which it can be kept.
    fn is_filtered(&self, name: &str) {
        let answer = self.ask(name, AAAA);
        assert_eq!((answer.rcode, answer.records.len(), answer.authority), (0, 0, 1), "{name}\n{}", self.state());
    }

    fn is_resolved(&self, name: &str, rtype: u16) {
        let expected = if rtype == A { Upstream::A } else { Upstream::AAAA };
        assert_eq!(self.ask(name, rtype).records, [expected], "{name}\n{}", self.state());
    }

    fn service(&self, name: &str, spec: &Value) -> Vec<String> {
        let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": spec});
        self.kubectl.ok_with(&["apply", "-f", "-"], &service.to_string());
        let addresses = self.kubectl.ok(&["get", "service", name, "-o", "jsonpath={.spec.clusterIPs[*]}"]);
        addresses.split_whitespace().map(str::to_owned).collect()
    }
}

fn launch(folder: &TempDir, words: &[String]) -> Process {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let process = Process::start(twinstack(), &words, &folder.path().join("up.log"));
    let kubeconfig: PathBuf = folder.path().join("data/admin.kubeconfig");
    let ready = wait_for(PATIENCE, || {
        process.output().contains("Twinstack is up").then_some(()).filter(|()| kubeconfig.exists())
    });
    assert!(ready.is_some(), "it did not come up:\n{}", process.output());
    process
}

/// A resolver that has the same two addresses for every name, and counts.
struct Upstream {
    port: u16,
    asked: Arc<AtomicU32>,
    ends: Arc<AtomicBool>,
}

impl Upstream {
    const A: &str = "192.0.2.99";
    const AAAA: &str = "2001:db8::99";

    fn start() -> Self {
        let (asked, ends): (Arc<AtomicU32>, Arc<AtomicBool>) = Default::default();
        let (datagrams, connections) = (0..50)
            .find_map(|_| {
                let datagrams = UdpSocket::bind("127.0.0.1:0").ok()?;
                let connections = TcpListener::bind(datagrams.local_addr().ok()?).ok()?;
                Some((datagrams, connections))
            })
            .expect("a port that is free for both");
        let port = datagrams.local_addr().expect("an address").port();
        datagrams.set_read_timeout(Some(Duration::from_millis(100))).expect("a timeout");
        let (count, end) = (Arc::clone(&asked), Arc::clone(&ends));
        std::thread::spawn(move || {
            let mut buffer = [0; 1500];
            while !end.load(Ordering::Relaxed) {
                if let Ok((length, source)) = datagrams.recv_from(&mut buffer) {
                    let _ = datagrams.send_to(&Self::answer(&buffer[..length], &count), source);
                }
            }
        });
        let (count, end) = (Arc::clone(&asked), Arc::clone(&ends));
        std::thread::spawn(move || {
            for stream in connections.incoming() {
                if end.load(Ordering::Relaxed) {
                    return;
                }
                let count = Arc::clone(&count);
                std::thread::spawn(move || {
                    let mut stream = stream.ok()?;
                    loop {
                        let mut length = [0; 2];
                        stream.read_exact(&mut length).ok()?;
                        let mut packet = vec![0; usize::from(u16::from_be_bytes(length))];
                        stream.read_exact(&mut packet).ok()?;
                        let answer = Self::answer(&packet, &count);
                        stream.write_all(&(answer.len() as u16).to_be_bytes()).ok()?;
                        stream.write_all(&answer).ok()?;
                    }
                    #[allow(unreachable_code)]
                    Some(())
                });
            }
        });
        Self { port, asked, ends }
    }

    /// Questions for AAAA records so far.
    fn asked(&self) -> u32 {
        self.asked.load(Ordering::Relaxed)
    }

    fn answer(packet: &[u8], count: &AtomicU32) -> Vec<u8> {
        let (_, end) = dns::name_at(packet, 12);
        let rtype = u16::from_be_bytes([packet[end], packet[end + 1]]);
        let data = match rtype {
            A => Self::A.parse::<Ipv4Addr>().expect("an address").octets().to_vec(),
            AAAA => {
                count.fetch_add(1, Ordering::Relaxed);
                Self::AAAA.parse::<Ipv6Addr>().expect("an address").octets().to_vec()
            }
            _ => Vec::new(),
        };
        let answers = u8::from(!data.is_empty());
        let mut reply = packet[..2].to_vec();
        reply.extend([0x81, 0x80, 0, 1, 0, answers, 0, 0, 0, 0]);
        reply.extend(&packet[12..end + 4]);
        if answers == 1 {
            reply.extend([0xc0, 12]);
            reply.extend(rtype.to_be_bytes());
            reply.extend([0, 1, 0, 0, 0, 1]);
            reply.extend((data.len() as u16).to_be_bytes());
            reply.extend(data);
        }
        reply
    }
}

impl Drop for Upstream {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        // Wakes the thread that waits for a connection.
        let _ = TcpStream::connect(("127.0.0.1", self.port));
    }
}

/// Code, addresses of the answer section, sorted, with their TTL aside, and how many records are in the authority section.
#[derive(Clone, Debug)]
struct Answer {
    rcode: u8,
    records: Vec<String>,
    ttl: u32,
    authority: usize,
}

/// A TTL runs down while one transport after another is asked.
impl PartialEq for Answer {
    fn eq(&self, other: &Self) -> bool {
        (self.rcode, &self.records, self.authority) == (other.rcode, &other.records, other.authority)
    }
}

impl From<dns::Answer> for Answer {
    fn from(full: dns::Answer) -> Self {
        let [answer, authority, _] = &full.sections;
        Self {
            rcode: full.rcode,
            records: full.data().into_iter().map(str::to_owned).collect(),
            ttl: answer.last().map_or(0, |record| record.ttl),
            authority: authority.len(),
        }
    }
}

fn udp(server: SocketAddr, name: &str, rtype: u16) -> Option<Answer> {
    udp_within(ANSWER, server, name, rtype)
}

fn udp_within(patience: Duration, server: SocketAddr, name: &str, rtype: u16) -> Option<Answer> {
    dns::udp(server, &dns::question(name, rtype, true), patience).map(Answer::from)
}

fn tcp(server: SocketAddr, name: &str, rtype: u16) -> Option<Answer> {
    dns::tcp(server, &dns::question(name, rtype, true), ANSWER).map(Answer::from)
}

fn filter(name: &str, zones: &[&str]) -> Value {
    json!({"name": name, "zones": zones, "queryType": "AAAA", "queryClass": "IN", "action": {"returnEmpty": {"rcode": "NOERROR"}}})
}

fn response(name: &str, zones: &[&str], address: &str, ttl: u32) -> Value {
    let answer = format!("{{{{ .Name }}}} {ttl} IN AAAA {address}");
    json!({"name": name, "zones": zones, "queryType": "AAAA", "queryClass": "IN",
        "action": {"generateResponse": {"answerTemplate": answer, "rcode": "NOERROR"}}})
}

/// The metric of this name, summed over its labels that contain `label`.
fn metric(cluster: &Cluster, name: &str, label: &str) -> f64 {
    let text = cluster.kubectl.ok(&["get", "--raw", "/metrics"]);
    let lines = text.lines().filter(|line| line.starts_with(name) && line.contains(label));
    lines.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum()
}

#[test]
fn services_of_every_family_have_their_records() {
    let Some(cluster) = Cluster::without_gate(BOTH) else { return };
    let ports = json!([{"port": 80}]);
    let dual = cluster.service("dual", &json!({"ipFamilyPolicy": "RequireDualStack", "ports": ports}));
    let v4 = cluster.service("v4", &json!({"ipFamilyPolicy": "SingleStack", "ipFamilies": ["IPv4"], "ports": ports}));
    let v6 = cluster.service("v6", &json!({"ipFamilyPolicy": "SingleStack", "ipFamilies": ["IPv6"], "ports": ports}));
    let none: [&str; 0] = [];
    for (name, rtype, records) in [
        ("dual", A, vec![dual[0].as_str()]),
        ("dual", AAAA, vec![dual[1].as_str()]),
        ("v4", A, vec![v4[0].as_str()]),
        ("v4", AAAA, none.to_vec()),
        ("v6", A, none.to_vec()),
        ("v6", AAAA, vec![v6[0].as_str()]),
    ] {
        cluster.becomes(&format!("{name}.default.svc.cluster.local"), rtype, &records);
    }
    // Headless: the addresses of the pods, of each family.
    cluster.kubectl.ok(&["create", "deployment", "web", "--image=example.com/web:1", "--replicas=2"]);
    let selector = json!({"app": "web"});
    cluster.service(
        "headless",
        &json!({"clusterIP": "None", "ipFamilyPolicy": "RequireDualStack", "selector": selector, "ports": ports}),
    );
    let pods = cluster.until("two pods with two addresses each", || {
        let template = "jsonpath={.items[*].status.podIPs[*].ip}";
        let text = cluster.kubectl.run(&["get", "pods", "-l", "app=web", "-o", template]).stdout;
        let mut addresses: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
        addresses.sort();
        (addresses.len() == 4).then_some(addresses)
    });
    for (rtype, v6) in [(A, false), (AAAA, true)] {
        let records: Vec<&str> = pods.iter().map(String::as_str).filter(|one| one.contains(':') == v6).collect();
        cluster.becomes("headless.default.svc.cluster.local", rtype, &records);
    }
    // The Service of DNS itself has an address of each family, and the resource says the first.
    let dns = cluster.kubectl.ok(&[
        "get",
        "service",
        "-n",
        "openshift-dns",
        "dns-default",
        "-o",
        "jsonpath={.spec.clusterIPs[*]}",
    ]);
    assert!(dns.starts_with("10.96.0.10 fd00:10:96::"), "{dns}");
    assert_eq!(cluster.dns()["status"]["clusterIP"], "10.96.0.10");
    cluster.condition("Available", "True", "AsExpected");
    cluster.condition("Degraded", "False", "AsExpected");
}

/// [OCPFeatureGate:DNSTemplatePlugin] 1: empty NOERROR for AAAA, A as before, the cluster works, less is asked upstream.
#[test]
fn aaaa_filtering_basic_and_specific_zones() {
    let Some(cluster) = Cluster::up(V4) else { return };
    let web = cluster.service("web", &json!({"ports": [{"port": 80}]}));
    cluster.is_resolved("before.example.com", AAAA);
    cluster.templates(&json!([filter("filter-aaaa", &["example.com"])]));
    let asked = cluster.upstream.asked();
    cluster.is_filtered("www.example.com");
    assert_eq!(cluster.upstream.asked(), asked, "a filtered question goes nowhere");
    cluster.is_resolved("www.example.com", A);
    cluster.is_resolved("www.example.org", AAAA);
    // The example of the proposal, as written.
    let example = "spec:\n  templates:\n    - name: filter-aaaa\n      zones: [\".\"]\n      queryType: AAAA\n      \
                   queryClass: IN\n      action:\n        returnEmpty:\n          rcode: NOERROR\n";
    cluster.kubectl.ok(&["patch", DNS, "default", "--type=merge", "-p", example]);
    cluster.until("the filter is for every name", || {
        let answer = udp(cluster.at(false), "again.example.org", AAAA)?;
        answer.records.is_empty().then_some(())
    });
    let asked = cluster.upstream.asked();
    for name in ["www.example.org", "x.test"] {
        cluster.is_filtered(name);
        cluster.is_resolved(name, A);
    }
    assert_eq!(cluster.upstream.asked(), asked);
    cluster.becomes("web.default.svc.cluster.local", A, &[&web[0]]);
    assert!(metric(&cluster, "coredns_template_matches_total", "type=\"AAAA\"") >= 3.0);
    cluster.condition("AAAAFilterDualStackWarning", "False", "AsExpected");
}

/// [OCPFeatureGate:DNSTemplatePlugin] 2: the address that the template says, with its TTL.
#[test]
fn custom_responses() {
    for ranges in [V4, BOTH, V6] {
        let Some(cluster) = Cluster::up(ranges) else { return };
        // The example of the proposal, as written.
        let example = "spec:\n  templates:\n    - name: legacy-ipv6\n      zones: [\"legacy.corp.example.com\"]\n      \
                       queryType: AAAA\n      queryClass: IN\n      action:\n        generateResponse:\n          \
                       answerTemplate: \"{{ .Name }} 3600 IN AAAA 2001:db8::100\"\n          rcode: NOERROR\n";
        cluster.kubectl.ok(&["patch", DNS, "default", "--type=merge", "-p", example]);
        cluster.becomes("app.legacy.corp.example.com", AAAA, &["2001:db8::100"]);
        let ttl = cluster.ask("new.legacy.corp.example.com", AAAA).ttl;
        assert!((1..=3600).contains(&ttl) && ttl > 900 - 90, "{ttl}");
        cluster.is_resolved("app.legacy.corp.example.com", A);
        cluster.is_resolved("app.corp.example.com", AAAA);
    }
}

/// [OCPFeatureGate:DNSTemplatePlugin] 3: the most specific zone decides, each template by itself.
#[test]
fn multiple_templates() {
    let Some(cluster) = Cluster::up(V4) else { return };
    cluster.templates(&json!([
        filter("all", &["."]),
        response("corp", &["corp.example.com"], "2001:db8::1", 60),
        response("app", &["app.corp.example.com"], "2001:db8::2", 60),
        filter("quiet", &["quiet.app.corp.example.com"]),
    ]));
    cluster.is_filtered("www.example.com");
    assert_eq!(cluster.ask("x.corp.example.com", AAAA).records, ["2001:db8::1"]);
    assert_eq!(cluster.ask("x.app.corp.example.com", AAAA).records, ["2001:db8::2"]);
    cluster.is_filtered("x.quiet.app.corp.example.com");
}

/// [OCPFeatureGate:DNSTemplatePlugin] 4: the cluster's own AAAA records stay, the warning is set, names outside are filtered.
#[test]
fn dual_stack_protection() {
    let Some(cluster) = Cluster::up(BOTH) else { return };
    let dual = cluster.service("dual", &json!({"ipFamilyPolicy": "RequireDualStack", "ports": [{"port": 80}]}));
    cluster.templates(&json!([filter("filter-aaaa", &["."])]));
    let message = cluster.condition("AAAAFilterDualStackWarning", "True", "ClusterDomainExcluded");
    assert!(message.contains("template \"filter-aaaa\" for zone \".\""), "{message}");
    cluster.becomes("dual.default.svc.cluster.local", AAAA, &[&dual[1]]);
    cluster.becomes("dual.default.svc.cluster.local", A, &[&dual[0]]);
    assert_eq!(cluster.ask("nobody.default.svc.cluster.local", AAAA).rcode, 3, "a name that is not there is not there");
    cluster.is_filtered("www.example.com");
    cluster.is_resolved("www.example.com", A);
    // The same with another zone that contains the cluster's.
    cluster.templates(&json!([filter("filter-local", &["local"])]));
    assert_eq!(cluster.ask("dual.default.svc.cluster.local", AAAA).records, [dual[1].as_str()]);
    cluster.is_filtered("printer.local");
    // Specific zones need no warning.
    cluster.templates(&json!([filter("filter-zone", &["example.com"])]));
    cluster.condition("AAAAFilterDualStackWarning", "False", "AsExpected");
}

/// [OCPFeatureGate:DNSTemplatePlugin] 5: templates are in the blocks of `spec.servers` too.
#[test]
fn template_application_to_custom_servers() {
    let Some(cluster) = Cluster::up(BOTH) else { return };
    let other = Upstream::start();
    let upstream = format!("127.0.0.1:{}", other.port);
    cluster.patch(&json!({"servers": [{"name": "corp", "zones": ["corp.example.com"],
        "forwardPlugin": {"upstreams": [upstream], "policy": "Random"}}]}));
    cluster.until("the server of its own is asked", || {
        udp(cluster.at(true), "new.corp.example.com", AAAA)?;
        (other.asked() > 0).then_some(())
    });
    cluster.templates(&json!([filter("filter-aaaa", &["."])]));
    let corefile = cluster.corefile();
    assert_eq!(corefile.matches("template IN AAAA . {").count(), 2, "{corefile}");
    let asked = other.asked();
    cluster.is_filtered("www.corp.example.com");
    cluster.is_filtered("www.example.com");
    assert_eq!(other.asked(), asked);
    cluster.is_resolved("www.corp.example.com", A);
}

/// [OCPFeatureGate:DNSTemplatePlugin] 6: what is added, changed and removed is seen by clients, and none goes without an answer.
#[test]
fn template_updates() {
    let Some(cluster) = Cluster::up(BOTH) else { return };
    let name = "app.example.com";
    let (ends, names) = (AtomicBool::new(false), AtomicU32::new(0));
    let address = cluster.at(false);
    std::thread::scope(|scope| {
        let lost = scope.spawn(|| {
            let mut lost = 0;
            while !ends.load(Ordering::Relaxed) {
                let answer = udp_within(PATIENCE, address, "kubernetes.default.svc.cluster.local", A);
                lost += u32::from(answer.is_none());
            }
            lost
        });
        let steps = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            cluster.templates(&json!([response("t", &["example.com"], "2001:db8::1", 1)]));
            cluster.becomes(name, AAAA, &["2001:db8::1"]);
            cluster.templates(&json!([response("t", &["example.com"], "2001:db8::2", 1)]));
            cluster.becomes(name, AAAA, &["2001:db8::2"]);
            cluster.templates(&json!([filter("t", &["example.com"])]));
            cluster.becomes(name, AAAA, &[]);
            let remove = "[{\"op\": \"remove\", \"path\": \"/spec/templates\"}]";
            cluster.kubectl.ok(&["patch", DNS, "default", "--type=json", "-p", remove]);
            cluster.condition("TemplateConfigurationValid", "True", "NoTemplates");
            cluster.until("the filter is gone", || {
                // A new name each time: answers are kept for a while.
                let name = format!("n{}.example.com", names.fetch_add(1, Ordering::Relaxed));
                (udp(address, &name, AAAA)?.records == [Upstream::AAAA]).then_some(())
            });
        }));
        ends.store(true, Ordering::Relaxed);
        assert_eq!(lost.join().expect("the thread ends"), 0, "questions without an answer");
        if let Err(panic) = steps {
            std::panic::resume_unwind(panic);
        }
    });
}

/// [OCPFeatureGate:DNSTemplatePlugin] 7: what is wrong is refused by name, and the last valid configuration stays.
#[test]
fn error_cases() {
    let Some(cluster) = Cluster::up(V4) else { return };
    cluster.templates(&json!([response("good", &["good.example.com"], "2001:db8::1", 60)]));
    let good = cluster.corefile();
    let bad_answer = json!({"name": "bad", "zones": ["a.test"], "queryType": "AAAA", "queryClass": "IN",
        "action": {"generateResponse": {"answerTemplate": "{{ .Name }} 60 IN A 192.0.2.1", "rcode": "NOERROR"}}});
    for (templates, reason, part) in [
        (
            json!([filter("bad", &["not a zone"])]),
            "InvalidZone",
            "template \"bad\": spec.templates[0].zones[0]: \"not a zone\"",
        ),
        (json!([filter("bad", &["cluster.local"])]), "ReservedZone", "\"cluster.local\" is the cluster domain"),
        (json!([filter("bad", &["svc.Cluster.Local."])]), "ReservedZone", "is within the cluster domain"),
        (
            json!([filter("one", &["a.test"]), filter("two", &["A.test."])]),
            "DuplicateZone",
            "template \"two\": spec.templates[1].zones[0]: \"A.test.\" has an AAAA template already",
        ),
        (json!([bad_answer]), "InvalidAnswerTemplate", "gives a record of type A, and not AAAA"),
    ] {
        cluster.patch(&json!({"templates": templates}));
        let message = cluster.condition("TemplateConfigurationValid", "False", reason);
        assert!(message.contains(part), "{message}");
        cluster.condition("TemplateConfigurationApplied", "False", "InvalidConfiguration");
        assert_eq!(cluster.corefile(), good);
        assert_eq!(cluster.ask("x.good.example.com", AAAA).records, ["2001:db8::1"]);
    }
    // What the schema knows never gets so far.
    for (templates, part) in [
        (
            json!([{"name": "a", "zones": ["a.test"], "queryType": "MX", "action": {"returnEmpty": {"rcode": "NOERROR"}}}]),
            "queryType",
        ),
        (json!([{"name": "a", "zones": ["a.test"], "action": {"returnEmpty": {"rcode": "NXDOMAIN"}}}]), "rcode"),
        (json!([{"name": "a", "zones": ["a.test"], "action": {}}]), "exactly one action"),
        (json!([{"name": "a", "zones": [], "action": {"returnEmpty": {"rcode": "NOERROR"}}}]), "zones"),
        (json!([{"name": "A b", "zones": ["a.test"], "action": {"returnEmpty": {"rcode": "NOERROR"}}}]), "name"),
    ] {
        let patch = json!({"spec": {"templates": templates}}).to_string();
        let message = cluster.kubectl.fails(&["patch", DNS, "default", "--type=merge", "-p", &patch], "");
        assert!(message.contains(part), "{message}");
    }
    // A cluster of IPv6 alone would have nothing left.
    let Some(v6) = Cluster::up(V6) else { return };
    v6.patch(&json!({"templates": [filter("filter-aaaa", &["."])]}));
    let message = v6.condition("TemplateConfigurationValid", "False", "FilterWouldBlockAllAddresses");
    assert!(message.contains("template \"filter-aaaa\""), "{message}");
    v6.is_resolved("www.example.com", AAAA);
}

/// [OCPFeatureGate:DNSTemplatePlugin] 8: while the gate is closed, templates mean nothing, and no condition speaks of them.
#[test]
fn feature_gate() {
    let Some(cluster) = Cluster::without_gate(V4) else { return };
    cluster.patch(&json!({"templates": [filter("filter-aaaa", &["."])]}));
    cluster.until("it is said that templates are ignored", || {
        let events = cluster.kubectl.run(&["get", "events", "-A", "-o", "jsonpath={.items[*].reason}"]).stdout;
        events.contains("TemplatesIgnored").then_some(())
    });
    assert!(!cluster.corefile().contains("template"));
    cluster.is_resolved("www.example.com", AAAA);
    let dns = cluster.dns();
    let kinds: Vec<&str> =
        dns["status"]["conditions"].as_array().into_iter().flatten().filter_map(|one| one["type"].as_str()).collect();
    assert_eq!(kinds, ["Available", "Degraded", "Progressing", "Upgradeable"]);
    let gate = json!({"apiVersion": "config.openshift.io/v1", "kind": "FeatureGate", "metadata": {"name": "cluster"},
        "spec": {"featureSet": "TechPreviewNoUpgrade"}});
    cluster.kubectl.ok_with(&["apply", "-f", "-"], &gate.to_string());
    cluster.condition("TemplateConfigurationApplied", "True", "AsExpected");
    cluster
        .until("the filter works", || udp(cluster.at(true), "x.example.org", AAAA)?.records.is_empty().then_some(()));
    cluster.is_filtered("www.example.org");
}

/// [OCPFeatureGate:DNSTemplatePlugin] 9: templates outlive a crash and a new start, and go when the gate is closed again.
#[test]
fn upgrade_downgrade() {
    let Some(mut cluster) = Cluster::up(V4) else { return };
    cluster.templates(&json!([response("kept", &["kept.example.com"], "2001:db8::1", 60)]));
    let before = cluster.corefile();
    cluster.restart();
    cluster.condition("TemplateConfigurationApplied", "True", "AsExpected");
    assert_eq!(cluster.corefile(), before);
    assert_eq!(cluster.ask("x.kept.example.com", AAAA).records, ["2001:db8::1"]);
    // An older release: its gates do not list this one.
    cluster.kubectl.ok(&["delete", "featuregates.config.openshift.io", "cluster"]);
    cluster.until("the templates are out of the Corefile", || (!cluster.corefile().contains("template")).then_some(()));
    cluster.until("the upstream is asked again", || {
        (udp(cluster.at(true), "later.kept.example.com", AAAA)?.records == [Upstream::AAAA]).then_some(())
    });
    assert_eq!(cluster.dns()["spec"]["templates"][0]["name"], "kept", "what was written is kept");
    cluster.open_gate_again();
}

impl Cluster {
    fn open_gate_again(&self) {
        let gate = json!({"apiVersion": "config.openshift.io/v1", "kind": "FeatureGate", "metadata": {"name": "cluster"},
            "spec": {"featureSet": "DevPreviewNoUpgrade"}});
        self.kubectl.ok_with(&["apply", "-f", "-"], &gate.to_string());
        self.condition("TemplateConfigurationApplied", "True", "AsExpected");
        self.until("the template answers again", || {
            (udp(self.at(true), "again.kept.example.com", AAAA)?.records == ["2001:db8::1"]).then_some(())
        });
    }
}

/// What somebody changes by hand is put right; what the operator is told to leave alone stays.
#[test]
fn hand_made_changes_are_put_right_unless_unmanaged() {
    let Some(cluster) = Cluster::without_gate(BOTH) else { return };
    let good = cluster.corefile();
    let broken = json!({"data": {"Corefile": ".:5353 {\n    whoops\n}\n"}}).to_string();
    let change = ["patch", "configmap", "dns-default", "-n", "openshift-dns", "--type=merge", "-p", &broken];
    cluster.kubectl.ok(&change);
    cluster.until("the Corefile is put right", || (cluster.corefile() == good).then_some(()));
    cluster.patch(&json!({"managementState": "Unmanaged"}));
    cluster.condition("Upgradeable", "False", "OperatorUnmanaged");
    cluster.kubectl.ok(&change);
    let message = cluster.condition("Degraded", "True", "ConfigurationRefused");
    assert!(message.contains("unknown plugin"), "{message}");
    cluster.is_resolved("www.example.com", A);
    cluster.patch(&json!({"managementState": "Managed"}));
    cluster.until("the Corefile is put right", || (cluster.corefile() == good).then_some(()));
    cluster.condition("Degraded", "False", "AsExpected");
    // Without the resource there is a new one.
    cluster.kubectl.ok(&["delete", DNS, "default"]);
    cluster.until("there is a new resource", || (!cluster.dns()["status"]["conditions"].is_null()).then_some(()));
}

/// The other operand: everything is made as it should be, once, and nothing claims that it runs.
#[test]
fn a_workload_is_made_once_and_not_taken_for_running() {
    let server = Server::start(&[BOTH[0]]);
    let Some(kubectl) = server.kubectls().pop() else { return };
    // With the rights that its manifests give it, and no others.
    let kubeconfig = account::limited("dns-operator", &kubectl, &server.kubeconfig());
    let kubeconfig = format!("--kubeconfig={}", kubeconfig.display());
    let lease = "--leader-elect-resource-namespace=openshift-dns-operator";
    let words = ["dns-operator", &kubeconfig, lease, "--secure-port=0", "--image=example.com/twinstack:1"];
    let operator = Process::start(twinstack(), &words, &server.folder().join("operator.log"));
    let get = |words: &[&str]| kubectl.run(&[&["get"], words].concat()).stdout;
    let reached = wait_for(PATIENCE, || {
        let reasons = get(&[DNS, "default", "-o", "jsonpath={.status.conditions[*].reason}"]);
        (reasons == "NoDaemonSetPods AsExpected Reconciling AsExpected").then_some(())
    });
    assert!(reached.is_some(), "{}", operator.output());
    let kinds = "configmap,daemonset,service,serviceaccount,clusterrole,clusterrolebinding";
    let list =
        || get(&[kinds, "-n", "openshift-dns", "-l", "dns.operator.openshift.io/owning-dns=default", "-o", "name"]);
    let expected = [
        "configmap/dns-default",
        "daemonset.apps/dns-default",
        "service/dns-default",
        "service/dns-default-metrics",
        "serviceaccount/dns",
        "clusterrole.rbac.authorization.k8s.io/openshift-dns",
        "clusterrolebinding.rbac.authorization.k8s.io/openshift-dns",
    ];
    assert_eq!(list().lines().collect::<Vec<_>>(), expected);
    let versions = || {
        get(&[
            "configmap,daemonset,service",
            "-n",
            "openshift-dns",
            "-o",
            "jsonpath={.items[*].metadata.resourceVersion}",
        ])
    };
    let before = versions();
    // A change that concerns the DaemonSet alone.
    let patch = json!({"spec": {"nodePlacement": {"nodeSelector": {"dns": "yes"}}}}).to_string();
    kubectl.ok(&["patch", DNS, "default", "--type=merge", "-p", &patch]);
    let selector = "jsonpath={.spec.template.spec.nodeSelector}";
    let changed = wait_for(PATIENCE, || {
        (get(&["daemonset", "dns-default", "-n", "openshift-dns", "-o", selector]) == "{\"dns\":\"yes\"}").then_some(())
    });
    assert!(changed.is_some(), "{}", operator.output());
    let (before, after): (Vec<String>, Vec<String>) =
        (before.split(' ').map(str::to_owned).collect(), versions().split(' ').map(str::to_owned).collect());
    let same = before.iter().zip(&after).filter(|(before, after)| before == after).count();
    assert_eq!((after.len(), same), (before.len(), before.len() - 1), "only the DaemonSet is written");
    // What somebody changes by hand is put right.
    let image = "jsonpath={.spec.template.spec.containers[0].image}";
    kubectl.ok(&["set", "image", "daemonset/dns-default", "-n", "openshift-dns", "dns=example.com/other:1"]);
    let mended = wait_for(PATIENCE, || {
        let found = get(&["daemonset", "dns-default", "-n", "openshift-dns", "-o", image]);
        (found == "example.com/twinstack:1").then_some(())
    });
    assert!(mended.is_some(), "{}", operator.output());
    account::nothing_was_forbidden(&operator.output());
}
