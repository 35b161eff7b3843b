//! Corefiles for every sort of cluster, and what they answer.

mod cluster;
mod forwards;
mod recorded;

use super::*;
use crate::{operator::check, testing::Asked};
use api::config::OperatorDnsSpec;
use net::Family;
use serde_json::{Value, json};

const V4: Families = Families::one(Family::V4);
const V6: Families = Families::one(Family::V6);
const BOTH: Families = Families::both(Family::V4);

fn domain() -> Name {
    Name::parse("cluster.local").unwrap()
}

fn render(spec: &Value, families: Families) -> String {
    let spec: OperatorDnsSpec = serde_json::from_value(spec.clone()).unwrap();
    let base = check::base(&spec, &domain()).unwrap();
    let templates = check::templates(&spec.templates, &domain(), families).unwrap();
    let bundles = BTreeMap::from([("corp".to_owned(), "/etc/pki/dns.example.com-ca-corp-7/ca-bundle.crt".to_owned())]);
    Parts { base: &base, templates: &templates, domain: &domain(), families, bundles: &bundles }.text()
}

fn filter(name: &str, zones: &[&str]) -> Value {
    json!({"name": name, "zones": zones, "queryType": "AAAA", "queryClass": "IN",
        "action": {"returnEmpty": {"rcode": "NOERROR"}}})
}

fn response(name: &str, zones: &[&str], answer: &str) -> Value {
    json!({"name": name, "zones": zones, "queryType": "AAAA", "queryClass": "IN",
        "action": {"generateResponse": {"answerTemplate": answer, "rcode": "NOERROR"}}})
}

/// A server of its own, resolvers of both families, and these templates.
fn usual(templates: Vec<Value>) -> Value {
    json!({
        "servers": [{"name": "corp-dns", "zones": ["corp.example.com", "Lab.Example.com."],
            "forwardPlugin": {"upstreams": ["192.0.2.1", "[2001:db8::1]:5300", "192.0.2.1"], "policy": "Random"}}],
        "upstreamResolvers": {"upstreams": [
            {"type": "Network", "address": "192.0.2.53", "port": 53}, {"type": "Network", "address": "2001:DB8::53"}]},
        "templates": templates,
    })
}

fn legacy() -> Value {
    response("legacy-ipv6", &["legacy.corp.example.com"], "{{ .Name }} 3600 IN AAAA 2001:db8::100")
}

fn everything() -> Value {
    let tls = json!({"transport": "TLS", "tls": {"serverName": "dns.example.com", "caBundle": {"name": "corp"}}});
    json!({
        "servers": [{"name": "tls", "zones": ["secure.example.com"], "forwardPlugin": {
            "upstreams": ["192.0.2.1", "[2001:db8::1]:853"], "policy": "RoundRobin", "transportConfig": tls,
            "protocolStrategy": "TCP"}}],
        "upstreamResolvers": {"policy": "Random", "upstreams": [
            {"type": "Network", "address": "192.0.2.53"}, {"type": "SystemResolvConf"}, {"type": ""}]},
        "logLevel": "Trace",
        "cache": {"positiveTTL": "1h", "negativeTTL": "44.6s"},
        "templates": [
            response("wide", &["local"], "{{ .Name }} 60 IN AAAA 2001:db8::3"),
            filter("filter", &["example.org", "c.d.example.com", "A.B.example.com."]),
            response("quoted", &["x.y.example.com"],
                "{{ .Name }} {{ if eq .Type \"AAAA\" }}60{{ else }}1{{ end }} {{ .Class }} AAAA 2001:db8::2"),
        ],
    })
}

#[test]
fn every_sort_of_cluster_has_its_corefile() {
    let both = || vec![filter("filter-aaaa", &["."]), legacy()];
    for (name, golden, spec, families) in [
        ("plain", include_str!("../../goldens/plain.corefile"), json!({}), BOTH),
        ("ipv4", include_str!("../../goldens/ipv4.corefile"), usual(both()), V4),
        ("dual-stack", include_str!("../../goldens/dual-stack.corefile"), usual(both()), BOTH),
        (
            "dual-stack, IPv6 first",
            include_str!("../../goldens/dual-stack.corefile"),
            usual(both()),
            Families::both(Family::V6),
        ),
        ("ipv6", include_str!("../../goldens/ipv6.corefile"), usual(vec![legacy()]), V6),
        ("everything", include_str!("../../goldens/everything.corefile"), everything(), V4),
    ] {
        assert_eq!(render(&spec, families), golden, "{name}");
        assert!(hashes(golden).is_ok(), "{name}: {:?}", hashes(golden));
    }
}

#[test]
fn the_order_of_the_resource_does_not_matter() {
    let (a, b) = (filter("b", &["x.example.com", "example.com"]), filter("a", &["y.example.com", "."]));
    let text = render(&json!({"templates": [a, b]}), V4);
    assert_eq!(text, render(&json!({"templates": [b, a]}), V4));
    let order: Vec<&str> = text.lines().filter_map(|line| line.trim().strip_prefix("template IN AAAA ")).collect();
    assert_eq!(order, ["y.example.com {", "x.example.com {", "example.com {", ". {"]);
}

#[test]
fn log_levels_and_lengths_of_time_are_as_upstream_reads_them() {
    for (level, class) in [("Normal", "error"), ("Debug", "denial error"), ("Trace", "all")] {
        assert!(render(&json!({"logLevel": level}), V4).contains(&format!("        class {class}\n")), "{level}");
    }
    for (text, seconds) in [
        ("", 900),
        ("0", 900),
        ("1s", 1),
        ("1m", 60),
        ("1h", 3600),
        ("1h10m5s", 4205),
        ("999ms", 1),
        ("1.1s", 1),
        ("5.9s", 6),
        ("2.009s", 2),
        ("444ms", 900),
    ] {
        let rendered = render(&json!({"cache": {"positiveTTL": text}}), V4);
        assert!(rendered.contains(&format!("    cache {seconds} {{\n")), "{text}: {rendered}");
        let negative = if seconds == 900 { 30 } else { seconds };
        let rendered = render(&json!({"cache": {"negativeTTL": text}}), V4);
        assert!(rendered.contains(&format!("        denial 9984 {negative}\n")), "{text}: {rendered}");
    }
}

/// What the templates of a Corefile answer, with `hosts` in the place of the cluster and of everybody else.
fn asked(spec: &Value, families: Families) -> Asked {
    let text = render(spec, families);
    let templates: Vec<&str> = {
        let block = text.rsplit_once("    ready\n").unwrap().1;
        block.split("    kubernetes ").next().unwrap().lines().collect()
    };
    Asked::new(&format!(
        ".:53 {{\n{}\n    hosts {{\n        2001:db8::a svc.ns.svc.cluster.local www.example.com www.local\n        \
         192.0.2.1 svc.ns.svc.cluster.local www.example.com\n    }}\n}}\n",
        templates.join("\n")
    ))
}

#[test]
fn a_filter_leaves_the_cluster_alone_where_there_is_ipv6() {
    let soa = |zone: &str| {
        format!("NOERROR aa | | {zone} 30 IN SOA ns.dns.cluster.local. hostmaster.cluster.local. 1 7200 1800 86400 30")
    };
    let (inside, outside) = ("svc.ns.svc.cluster.local", "www.example.com");
    let broad = json!({"templates": [filter("f", &["."])]});
    for (families, cluster) in [(BOTH, format!("NOERROR aa | {inside}. 3600 IN AAAA 2001:db8::a")), (V4, soa("."))] {
        let asked = asked(&broad, families);
        assert_eq!(asked.ask(inside, "AAAA"), cluster);
        assert_eq!(asked.ask(outside, "AAAA"), soa("."));
        for name in [inside, outside] {
            assert_eq!(asked.ask(name, "A"), format!("NOERROR aa | {name}. 3600 IN A 192.0.2.1"));
        }
    }
    // Not only the root contains the cluster domain.
    let local = asked(&json!({"templates": [filter("f", &["local", "example.com"])]}), BOTH);
    assert_eq!(local.ask(inside, "AAAA"), format!("NOERROR aa | {inside}. 3600 IN AAAA 2001:db8::a"));
    assert_eq!(local.ask("www.local", "AAAA"), soa("local."));
    assert_eq!(local.ask(outside, "AAAA"), soa("example.com."));
}

#[test]
fn the_most_specific_template_answers() {
    let spec = json!({"templates": [filter("f", &["."]), legacy(), filter("g", &["a.legacy.corp.example.com"])]});
    for families in [V4, BOTH] {
        let asked = asked(&spec, families);
        for (name, answer) in [
            ("x.legacy.corp.example.com", "NOERROR aa | x.legacy.corp.example.com. 3600 IN AAAA 2001:db8::100"),
            ("Legacy.corp.example.com", "NOERROR aa | Legacy.corp.example.com. 3600 IN AAAA 2001:db8::100"),
            (
                "b.a.legacy.corp.example.com",
                "NOERROR aa | | a.legacy.corp.example.com. 30 IN SOA ns.dns.cluster.local. hostmaster.cluster.local. 1 7200 \
                 1800 86400 30",
            ),
        ] {
            assert_eq!(asked.ask(name, "AAAA"), answer, "{name}");
        }
    }
}

/// A stock CoreDNS reads every golden and knows it by the hash that is expected of it. Runs where `COREDNS` names one.
#[test]
fn a_stock_server_takes_the_goldens() {
    let Some(program) = std::env::var_os("COREDNS") else { return };
    for golden in [
        include_str!("../../goldens/plain.corefile"),
        include_str!("../../goldens/ipv4.corefile"),
        include_str!("../../goldens/dual-stack.corefile"),
        include_str!("../../goldens/ipv6.corefile"),
    ] {
        // Without a cluster, and on ports of its own; the lines stay where they are.
        let cluster = "    kubernetes cluster.local in-addr.arpa ip6.arpa {\n        pods insecure\n        fallthrough \
                       in-addr.arpa ip6.arpa\n    }\n";
        let free = || std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let (dns, metrics) = (free(), free());
        let text = golden
            .replace(cluster, "    whoami\n\n\n\n")
            .replace(":5353", &format!(":{dns}"))
            .replace("prometheus :9153", &format!("prometheus 127.0.0.1:{metrics}"))
            .replace("    health {\n        lameduck 20s\n    }\n    ready\n", "\n\n\n\n");
        let folder = tempfile::tempdir().unwrap();
        let conf = folder.path().join("Corefile");
        std::fs::write(&conf, &text).unwrap();
        let mut server = std::process::Command::new(&program);
        let mut server = server.arg("-conf").arg(&conf).stdout(std::process::Stdio::piped()).spawn().unwrap();
        // It says so when it has started; when it cannot, it ends, and so does its output.
        let lines = io::BufRead::lines(io::BufReader::new(server.stdout.take().unwrap()));
        let mut hashes =
            lines.map_while(Result::ok).filter_map(|line| Some(line.split_once("SHA512 = ")?.1.to_owned()));
        let shown = hashes.next();
        server.kill().unwrap();
        server.wait().unwrap();
        let file = corefile::parse("Corefile", &text, &NoFiles).unwrap();
        assert_eq!(shown, Some(sha512(&stock::json(&file))), "{text}");
    }
}
