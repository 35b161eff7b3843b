//! What CoreDNS 1.15 answered for the Corefiles of twenty clusters as the operator writes them (`testdata/dns/operator`),
//! asked again: above all that names of the cluster keep their addresses behind every filter.

use super::*;
use crate::{
    plugin::kubernetes::tests::{content, data, index, lasting, lines, section},
    testing,
    wire::{
        Section,
        code::{rcode, rtype},
    },
};
use std::net::UdpSocket;

const STANZA: &str =
    "kubernetes cluster.local in-addr.arpa ip6.arpa {\n pods insecure\n fallthrough in-addr.arpa ip6.arpa\n }";
/// The longest time that the Corefiles' caches leave to an answer. Ours leave local answers alone (docs/guide/dns.md).
const LONGEST: u32 = 900;

/// Name, families and the rest of the resource of every cluster.
fn clusters() -> Vec<(String, Families, Value)> {
    let shapes = [
        ("v4", Families::one(Family::V4)),
        ("v6", Families::one(Family::V6)),
        ("v4v6", Families::both(Family::V4)),
        ("v6v4", Families::both(Family::V6)),
    ];
    let mut clusters = Vec::new();
    for (shape, families) in shapes {
        // A filter would leave a cluster of IPv6 alone without any address: there an answer stands in its place.
        let hides = |name: &str, zones: &[&str]| match shape {
            "v6" => answer(name, zones),
            _ => filter(name, zones),
        };
        let sets = [
            ("everything", vec![hides("all", &["."])]),
            ("parent", vec![hides("local", &["local"])]),
            ("corp", vec![hides("corp", &["corp.example.com"]), answer("legacy", &["legacy.corp.example.com"])]),
            ("several", vec![answer("one", &["example.com", "a.local"]), hides("all", &[".", "local"])]),
            ("answers", vec![answer("all", &["."]), hides("corp", &["corp.example.com", "foo.test"])]),
        ];
        for (name, templates) in sets {
            clusters.push((format!("{shape}-{name}"), families, spec(&templates)));
        }
    }
    clusters
}

fn spec(templates: &[Value]) -> Value {
    json!({
        "servers": [{"name": "corp", "zones": ["corp.example.com", "foo.test"], "forwardPlugin": {"upstreams": ["192.0.2.1"]}}],
        "upstreamResolvers": {"upstreams": [{"type": "Network", "address": "192.0.2.53"}]},
        "templates": templates,
    })
}

fn answer(name: &str, zones: &[&str]) -> Value {
    response(name, zones, "{{ .Name }} 60 IN AAAA 2001:db8::100")
}

/// The upstream of the recording: every name has one address of each family, and nothing else.
fn upstream() -> std::net::SocketAddr {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap();
    socket.set_read_timeout(Some(std::time::Duration::from_secs(60))).unwrap();
    std::thread::spawn(move || {
        let mut buffer = [0; 1500];
        while let Ok((length, client)) = socket.recv_from(&mut buffer) {
            let request = crate::wire::Request::parse(&buffer[..length]).unwrap();
            let mut reply = crate::wire::Reply::new();
            reply.reset(&request.name, request.rtype, request.class);
            reply.ra = true;
            let owner = request.name;
            match rtype::text(request.rtype).as_str() {
                "A" => reply.add_address(Section::Answer, &owner, 60, "192.0.2.7".parse().unwrap()),
                "AAAA" => reply.add_address(Section::Answer, &owner, 60, "2001:db8::7".parse().unwrap()),
                _ => reply.add(Section::Authority, &". 60 IN SOA ns.test. h.test. 1 2 3 4 60".parse().unwrap()),
            }
            let limits = crate::wire::Limits { size: 1232, nsid: None, cookie: None };
            socket.send_to(reply.finish(&request, &limits), client).unwrap();
        }
    });
    address
}

#[test]
fn corefiles_of_twenty_clusters_are_answered_as_coredns_does() {
    let (_index, records) = index(&content(), 5);
    let (lasting, _cluster) = lasting(STANZA, &records);
    let upstream = upstream().to_string();
    let mut rows = lines("operator/answers.jsonl.gz");
    for (name, families, spec) in clusters() {
        let text = render(&spec, families);
        let recorded = std::fs::read_to_string(data(&format!("operator/{name}.Corefile"))).unwrap();
        assert_eq!(text, recorded, "{name}: what was recorded is not what the operator writes");
        let here = text.replace("forward . 192.0.2.53 ", &format!("forward . {upstream} "));
        let asked = Asked::with(&here.replace("forward . 192.0.2.1 ", &format!("forward . {upstream} ")), &lasting);
        let (own, rest): (Vec<Value>, Vec<Value>) = rows.into_iter().partition(|row| row["corefile"] == name.as_str());
        rows = rest;
        assert!(own.len() > 150, "{name}: {} rows", own.len());
        let mut wrong = Vec::new();
        for row in own {
            let (asked_name, sort) = (row["name"].as_str().unwrap(), row["type"].as_str().unwrap());
            let reply = asked.answer(testing::query(asked_name, rtype::number(sort).unwrap()));
            let message = reply.message().unwrap();
            let least =
                message.sections.iter().flatten().map(|record| record.ttl).min().unwrap_or(LONGEST).min(LONGEST);
            let ours = json!({
                "rcode": rcode::text(reply.rcode), "aa": reply.aa, "tc": reply.tc, "ra": reply.ra,
                "answer": bounded(section(message.answer()), least), "authority": bounded(section(message.authority()), least),
                "additional": bounded(section(message.additional()), least),
            });
            let mut got = row["got"].clone();
            for part in ["answer", "authority", "additional"] {
                got[part].as_array_mut().unwrap().sort_by_key(Value::to_string);
            }
            if ours != got {
                wrong.push(format!("{asked_name} {sort}\n  ours     {ours}\n  recorded {got}"));
            }
        }
        assert!(wrong.is_empty(), "{name}: {} differences\n{}", wrong.len(), wrong.join("\n"));
    }
    assert!(rows.is_empty(), "rows of clusters that are not there: {}", rows.len());
}

/// CoreDNS's cache gives all records of an answer the least of their times.
fn bounded(mut records: Vec<Value>, least: u32) -> Vec<Value> {
    records.iter_mut().for_each(|record| record[1] = least.into());
    records.sort_by_key(Value::to_string);
    records
}
