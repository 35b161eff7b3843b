//! `twinstack up` with its DNS operator and server: the DNS resource, its templates, and what clients are answered, over UDP
//! and TCP on both families. Each of the nine tests of the proposal for `spec.templates` is here, labelled
//! `[OCPFeatureGate:DNSTemplatePlugin]`.

mod lifecycle;
mod templates;

use e2e::{
    Kubectl, Process, Server, account,
    dns::{self, A, AAAA},
    proxy_lab::{Pair, cable},
    twinstack, wait_for,
};
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
