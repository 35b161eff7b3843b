//! `twinstack dns` and CoreDNS with the same Corefile and the same API (`twinstack apiserver`), asked the same: random
//! names and types, over UDP. Runs when `COREDNS` names one; a comparison, not a test that CI needs.

use e2e::{Process, Server, dns, free_port, twinstack, wait_for};
use serde_json::{Value, json};
use std::{collections::BTreeMap, ffi::OsString, net::SocketAddr, path::Path, time::Duration};

const QUERIES: u32 = 4000;
const PATIENCE: Duration = Duration::from_secs(60);

const COREFILE: &str = r#".:{PORT} {
    bind 127.0.0.1
    bufsize 1232
    any
    rewrite name exact alias.test host.test
    rewrite name suffix .outer.test .dn.svc.cluster.local answer auto
    rewrite ttl exact host.test 60-120
    template IN AAAA legacy.corp.example.com {
        answer "{{ .Name }} 3600 IN AAAA 2001:db8::100"
    }
    template IN AAAA corp.example.com {
        rcode NOERROR
    }
    template IN A example.org {
        match "^www\\.(?P<d>.*)$"
        answer "{{ .Name }} 60 IN CNAME {{ .Group.d }}"
        fallthrough
    }
    template IN TXT example.org {
        answer "{{ .Name }} 5 {{ .Class }} TXT \"{{ .Type }} {{ index .Match 0 }} {{ .Zone }}\""
        authority "example.org. 60 IN NS ns.example.org."
        additional "ns.example.org. 60 IN A 192.0.2.53"
    }
    template IN MX . {
        match "^nomatch$"
        fallthrough
    }
    hosts {
        192.0.2.1 host.test example.org
        2001:db8::1 host.test
        fallthrough
    }
    kubernetes cluster.local in-addr.arpa ip6.arpa {
        kubeconfig {KUBECONFIG}
        pods insecure
        fallthrough in-addr.arpa ip6.arpa
    }
    acl refused.test {
        block
    }
    acl empty.test {
        filter type AAAA
    }
}
"#;

/// Differences that are meant, with the reason; each says for which questions it holds.
const INTENDED: &[(&str, Holds)] = &[(
    "the name servers of a zone have the addresses of the machine, also when the block is bound to loopback",
    |asked| {
        let name = asked.name.to_lowercase();
        let zones = ["cluster.local.", "in-addr.arpa.", "ip6.arpa."];
        (asked.rtype == NS && zones.contains(&name.as_str())) || name == "ns.dns.cluster.local."
    },
)];

type Holds = fn(&Asked) -> bool;

const NS: u16 = 2;

struct Asked {
    name: String,
    rtype: u16,
    edns: bool,
}

/// What must be the same. Records without regard to order and case.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Answer {
    rcode: u8,
    authoritative: bool,
    truncated: bool,
    recursion: bool,
    sections: [Vec<String>; 3],
}

/// The same numbers every time.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % bound as u64) as usize
    }

    fn one<'a>(&mut self, of: &[&'a str]) -> &'a str {
        of[self.below(of.len())]
    }
}

/// Names that exist, nearly exist, and do not.
fn name(random: &mut Random) -> String {
    let services = ["dual", "dual64", "v4", "v6", "ext", "extin", "head", "head4", "empty", "noport", "none", "Dual"];
    let namespaces = ["dn", "dn", "dn", "default", "none", "DN"];
    let before =
        ["", "", "", "_http._tcp.", "_dns._udp.", "_none._tcp.", "*._tcp.", "10-1-0-1.", "p0.", "a.b.c.", "fd00-1--1."];
    let other = [
        "cluster.local.",
        "svc.cluster.local.",
        "pod.cluster.local.",
        "dn.svc.cluster.local.",
        "none.svc.cluster.local.",
        "dns-version.cluster.local.",
        "ns.dns.cluster.local.",
        "x.y.cluster.local.",
        "Cluster.Local.",
        "host.test.",
        "alias.test.",
        "HOST.test.",
        "none.test.",
        "example.org.",
        "www.example.org.",
        "www.host.test.",
        "a.www.example.org.",
        "legacy.corp.example.com.",
        "x.corp.example.com.",
        "corp.example.com.",
        "a.refused.test.",
        "a.empty.test.",
        "v4.outer.test.",
        "dual.outer.test.",
        "none.outer.test.",
        "1.1.96.10.in-addr.arpa.",
        "2.0.1.10.in-addr.arpa.",
        "9.9.9.9.in-addr.arpa.",
        "96.10.in-addr.arpa.",
        "1.2.0.192.in-addr.arpa.",
        "1.0.1.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.6.9.0.0.0.0.d.f.ip6.arpa.",
        "0.0.d.f.ip6.arpa.",
        "in-addr.arpa.",
        ".",
        "test.",
        "local.",
        "a.b.c.d.e.f.g.h.cluster.local.",
    ];
    match random.below(10) {
        0..6 => {
            let (before, service, namespace) = (random.one(&before), random.one(&services), random.one(&namespaces));
            format!("{before}{service}.{namespace}.svc.cluster.local.")
        }
        6 => {
            let address = random.one(&["10-1-0-1", "fd00-1--1", "1-2-3", "10.1.0.1", "300-1-1-1", "--1", "p0"]);
            format!("{address}.{}.pod.cluster.local.", random.one(&namespaces))
        }
        _ => random.one(&other).to_owned(),
    }
}

/// Lost once in a while; asked three times.
fn ask(server: SocketAddr, asked: &Asked) -> Option<Answer> {
    let packet = dns::question(&asked.name, asked.rtype, asked.edns);
    let full = (0..3).find_map(|_| dns::udp(server, &packet, Duration::from_secs(2)))?;
    let shown = |record: &dns::Record| {
        let dns::Record { owner, rtype, data, ttl } = record;
        format!("{owner} {ttl} {rtype} {data}").to_lowercase()
    };
    let sections = full.sections.each_ref().map(|section| {
        let mut section: Vec<String> = section.iter().map(shown).collect();
        section.sort();
        section
    });
    let dns::Answer { rcode, authoritative, truncated, recursion, .. } = full;
    Some(Answer { rcode, authoritative, truncated, recursion, sections })
}

/// The recorded cluster, in this API server.
fn fill(server: &Server) {
    let kubectl = server.kubectls().pop().expect("kubectl is there");
    kubectl.ok(&["create", "namespace", "dn"]);
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../testdata/dns/content.json");
    let content: Vec<Value> = serde_json::from_str(&std::fs::read_to_string(path).expect("read")).expect("JSON");
    let objects = content.into_iter().filter(|entry| entry["object"]["kind"] != "Pod").map(|mut entry| {
        entry["object"]["metadata"]["namespace"] = "dn".into();
        entry["object"].take()
    });
    let list = json!({"apiVersion": "v1", "kind": "List", "items": objects.collect::<Vec<_>>()});
    kubectl.ok_with(&["create", "--validate=false", "-f", "-"], &list.to_string());
}

fn start(program: OsString, words: &[&str], folder: &Path, name: &str, port: u16) -> (Process, SocketAddr) {
    let process = Process::start(program, words, &folder.join(format!("{name}.log")));
    let address = SocketAddr::from(([127, 0, 0, 1], port));
    let known = Asked { name: "dual.dn.svc.cluster.local.".to_owned(), rtype: 1, edns: false };
    let ready = wait_for(PATIENCE, || ask(address, &known).filter(|answer| answer.sections[0].len() == 1));
    assert!(ready.is_some(), "{name} does not answer:\n{}", process.output());
    (process, address)
}

/// Asks both programs the same with the same Corefile, so often; what differs and is not meant.
fn compared(server: &Server, program: OsString, corefile: &str, queries: u32) -> Vec<String> {
    let folder = tempfile::tempdir().expect("a folder can be made");
    let conf = |name: &str, port: u16| {
        let path = folder.path().join(name);
        let text = corefile.replace("{PORT}", &port.to_string());
        let kubeconfig = server.kubeconfig().display().to_string();
        std::fs::write(&path, text.replace("{KUBECONFIG}", &kubeconfig)).expect("written");
        path.display().to_string()
    };
    let (first, second) = (free_port(), free_port());
    let (own, other) = (conf("own", first), conf("other", second));
    let (_ours, ours) = start(twinstack().into(), &["dns", "-conf", &own], folder.path(), "twinstack", first);
    let (_theirs, theirs) = start(program, &["-conf", &other], folder.path(), "coredns", second);

    let mut random = Random(0x2545_f491_4f6c_dd1d);
    let (mut unexplained, mut explained) = (Vec::new(), BTreeMap::<&str, u32>::new());
    for _ in 0..queries {
        let types = [1, 1, 1, 28, 28, 28, 33, 33, 12, 16, 5, 2, 6, 15, 65, 255, 13];
        let asked =
            Asked { name: name(&mut random), rtype: types[random.below(types.len())], edns: random.below(2) == 0 };
        let (mine, peer) = (ask(ours, &asked), ask(theirs, &asked));
        if mine == peer {
            continue;
        }
        let (Some(mine), Some(peer)) = (mine, peer) else {
            unexplained.push(format!("{} {}: only one answers", asked.name, asked.rtype));
            continue;
        };
        match INTENDED.iter().find(|(_, holds)| holds(&asked)) {
            Some((reason, _)) => *explained.entry(reason).or_default() += 1,
            None => unexplained.push(format!("{} {}\n  ours   {mine:?}\n  theirs {peer:?}", asked.name, asked.rtype)),
        }
    }
    eprintln!("{queries} queries; intended differences: {explained:#?}");
    unexplained.sort();
    unexplained.dedup();
    unexplained
}

#[test]
fn twinstack_and_coredns_answer_the_same() {
    let Some(program) = std::env::var_os("COREDNS") else { return };
    let server = Server::start(&["--service-cluster-ip-range=10.96.0.0/16,fd00:96::/112"]);
    fill(&server);
    let unexplained = compared(&server, program, COREFILE, QUERIES);
    assert!(unexplained.is_empty(), "{} unexplained differences\n{}", unexplained.len(), unexplained.join("\n"));
}

/// A Corefile of the operator as it can run here, beside others: without fixed ports, without a cache that would hide what
/// is answered, and without upstreams.
fn of_operator(text: &str) -> String {
    let mut lines = Vec::new();
    let mut skipped = 0;
    for line in text.lines() {
        let word = line.split_whitespace().next().unwrap_or_default();
        if skipped > 0 {
            skipped -= u32::from(line == "    }");
            continue;
        }
        match word {
            "prometheus" | "ready" | "reload" => {}
            "health" | "cache" | "log" | "forward" => skipped = 1,
            "kubernetes" => lines.push(format!("{line}\n        kubeconfig {{KUBECONFIG}}")),
            _ if line.ends_with(":5353 {") => {
                lines.push(format!("{}\n    bind 127.0.0.1", line.replace(":5353", ":{PORT}")));
            }
            _ => lines.push(line.to_owned()),
        }
    }
    lines.join("\n") + "\n"
}

#[test]
fn corefiles_of_the_operator_mean_the_same_to_both() {
    let Some(program) = std::env::var_os("COREDNS") else { return };
    let server = Server::start(&["--service-cluster-ip-range=10.96.0.0/16,fd00:96::/112"]);
    fill(&server);
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../testdata/dns/operator");
    let files = std::fs::read_dir(folder).expect("there is a folder").flatten().map(|entry| entry.path());
    let mut files: Vec<_> = files.filter(|path| path.extension().is_some_and(|end| end == "Corefile")).collect();
    files.sort();
    assert_eq!(files.len(), 20);
    for file in files {
        let corefile = of_operator(&std::fs::read_to_string(&file).expect("read"));
        let unexplained = compared(&server, program.clone(), &corefile, QUERIES / 10);
        assert!(unexplained.is_empty(), "{}: {}", file.display(), unexplained.join("\n"));
    }
}
