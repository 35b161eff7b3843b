//! Everything that may be wrong with a DNS resource, with what is said about it.

use super::*;
use crate::wire::Name;
use api::config::OperatorDnsSpec;
use net::{Families, Family};
use serde_json::{Value, json};

fn domain() -> Name {
    Name::parse("cluster.local").unwrap()
}

fn read(templates: &Value) -> Vec<api::config::DnsTemplate> {
    serde_json::from_value(templates.clone()).unwrap()
}

/// Reason and text of every mistake.
fn mistakes(list: &Value, families: Families) -> Vec<String> {
    let found = templates(&read(list), &domain(), families).err().unwrap_or_default();
    found.iter().map(|mistake| format!("{} {mistake}", mistake.reason)).collect()
}

fn filter(name: &str, zones: Value) -> Value {
    json!({"name": name, "zones": zones, "queryType": "AAAA", "queryClass": "IN", "action": {"returnEmpty": {"rcode": "NOERROR"}}})
}

fn response(answer: &str) -> Value {
    json!({"name": "r", "zones": ["example.com"], "queryType": "AAAA", "queryClass": "IN",
        "action": {"generateResponse": {"answerTemplate": answer, "rcode": "NOERROR"}}})
}

#[test]
fn the_examples_of_the_proposal_are_valid() {
    let list = json!([
        filter("filter-aaaa", json!(["."])),
        {"name": "legacy-ipv6", "zones": ["legacy.corp.example.com"], "queryType": "AAAA", "queryClass": "IN",
            "action": {"generateResponse": {"answerTemplate": "{{ .Name }} 3600 IN AAAA 2001:db8::100", "rcode": "NOERROR"}}},
    ]);
    for families in [Families::one(Family::V4), Families::both(Family::V4), Families::both(Family::V6)] {
        assert_eq!(mistakes(&list, families), [""; 0]);
    }
}

#[test]
fn every_mistake_is_named_with_its_place() {
    let accepted = "accepted is a DNS name such as example.com, or \".\" for every name";
    let long = "a".repeat(64);
    for (list, expected) in [
        (
            filter("Bad_Name", json!(["a.test"])),
            "InvalidName template \"Bad_Name\": spec.templates[0].name: \"Bad_Name\" is no name; accepted are lower-case \
             letters, digits and, within, hyphens, 64 at most"
                .to_owned(),
        ),
        (filter("f", json!([])), "InvalidZone template \"f\": spec.templates[0].zones: \"\" is empty; give at least one zone".to_owned()),
        (
            filter("f", json!(["a.test", "not a zone"])),
            format!(
                "InvalidZone template \"f\": spec.templates[0].zones[1]: \"not a zone\" is no DNS name: letters, digits and, \
                 within a part, hyphens; {accepted}"
            ),
        ),
        (
            filter("f", json!(["a..test"])),
            format!("InvalidZone template \"f\": spec.templates[0].zones[0]: \"a..test\" has an empty part between dots; {accepted}"),
        ),
        (
            filter("f", json!([long])),
            format!(
                "InvalidZone template \"f\": spec.templates[0].zones[0]: \"{long}\" has a part of more than 63 characters; \
                 {accepted}"
            ),
        ),
        (
            filter("f", json!(["*.test"])),
            format!(
                "InvalidZone template \"f\": spec.templates[0].zones[0]: \"*.test\" has a wildcard: a zone stands for all \
                 names below it anyway; {accepted}"
            ),
        ),
        (
            filter("f", json!(["Cluster.Local."])),
            "ReservedZone template \"f\": spec.templates[0].zones[0]: \"Cluster.Local.\" is the cluster domain cluster.local, \
             whose names only the cluster answers"
                .to_owned(),
        ),
        (
            filter("f", json!(["svc.cluster.local"])),
            "ReservedZone template \"f\": spec.templates[0].zones[0]: \"svc.cluster.local\" is within the cluster domain \
             cluster.local, whose names only the cluster answers"
                .to_owned(),
        ),
        (
            filter("f", json!(["a.test", "A.Test."])),
            "DuplicateZone template \"f\": spec.templates[0].zones[1]: \"A.Test.\" has an AAAA template already, at \
             spec.templates[0].zones[0]"
                .to_owned(),
        ),
        (
            json!({"name": "f", "zones": ["a.test"], "queryType": "A", "action": {"returnEmpty": {}}}),
            "UnsupportedQuery template \"f\": spec.templates[0].queryType: \"A\" is not supported; accepted: AAAA".to_owned(),
        ),
        (
            json!({"name": "f", "zones": ["a.test"], "queryClass": "CH", "action": {"returnEmpty": {}}}),
            "UnsupportedQuery template \"f\": spec.templates[0].queryClass: \"CH\" is not supported; accepted: IN".to_owned(),
        ),
        (
            json!({"name": "f", "zones": ["a.test"], "action": {}}),
            "InvalidAction template \"f\": spec.templates[0].action: \"\" has no action; accepted is one of returnEmpty, \
             generateResponse"
                .to_owned(),
        ),
        (
            json!({"name": "f", "zones": ["a.test"], "action": {"returnEmpty": {"rcode": "NXDOMAIN"}}}),
            "InvalidAction template \"f\": spec.templates[0].action.returnEmpty.rcode: \"NXDOMAIN\" is not supported; \
             accepted: NOERROR"
                .to_owned(),
        ),
    ] {
        assert_eq!(mistakes(&json!([list]), Families::one(Family::V4)), [expected]);
    }
}

#[test]
fn all_mistakes_are_told_at_once_and_across_templates() {
    let list = json!([
        filter("f", json!(["a.test", "cluster.local"])),
        filter("f", json!(["A.TEST"])),
        {"name": "g", "zones": ["b.test"], "action": {"returnEmpty": {}, "generateResponse": {"answerTemplate": "x"}}},
    ]);
    let found = templates(&read(&list), &domain(), Families::one(Family::V4)).unwrap_err();
    let reasons: Vec<String> = found.iter().map(|mistake| mistake.reason.to_string()).collect();
    assert_eq!(reasons, ["ReservedZone", "DuplicateName", "DuplicateZone", "InvalidAction"]);
    let (reason, text) = summary(&found, "InvalidTemplates");
    assert_eq!(reason, "InvalidTemplates");
    assert_eq!(text.lines().count(), 4);
    assert_eq!(summary(&found[..1], "InvalidTemplates").0, "ReservedZone");
}

#[test]
fn there_may_be_twenty_templates_of_a_hundred_zones() {
    let many = |templates: usize, zones: usize| {
        let zones_of =
            |index: usize| (0..zones).map(|zone| json!(format!("z{zone}.t{index}.test"))).collect::<Vec<_>>();
        Value::Array((0..templates).map(|index| filter(&format!("t{index}"), json!(zones_of(index)))).collect())
    };
    let v4 = Families::one(Family::V4);
    assert_eq!(mistakes(&many(20, 100), v4), [""; 0]);
    assert_eq!(mistakes(&many(21, 1), v4), ["TooMany spec.templates: \"21\" templates are too many; accepted are 20"]);
    assert_eq!(
        mistakes(&many(1, 101), v4),
        ["TooMany template \"t0\": spec.templates[0].zones: \"101\" zones are too many; accepted are 100"]
    );
}

#[test]
fn an_answer_must_be_a_record_of_the_right_sort() {
    let v4 = Families::one(Family::V4);
    for answer in [
        "{{ .Name }} 3600 IN AAAA 2001:db8::1",
        "{{ .Name }} 60 {{ .Class }} {{ .Type }} ::1",
        "{{ .Name }} {{ if eq .Name \"example.com.\" }}1{{ else }}2{{ end }} IN AAAA 2001:db8::1",
    ] {
        assert_eq!(mistakes(&json!([response(answer)]), v4), [""; 0], "{answer}");
    }
    for (answer, part) in [
        ("", "is empty"),
        ("{{ .Name 3600 IN AAAA 2001:db8::1", "cannot be read"),
        ("{{ .Name }} 3600 IN AAAA", "fails for example.com."),
        ("{{ .Name }} 3600 IN AAAA 192.0.2.1", "fails for example.com."),
        ("{{ .Nam }} 3600 IN AAAA 2001:db8::1", "fails for example.com."),
        ("{{ .Name }} 3600 IN A 192.0.2.1", "gives a record of type A, and not AAAA"),
        ("{{ .Name }} 3600 IN CNAME other.test.", "gives a record of type CNAME, and not AAAA"),
        ("{{ .Name }} 3600 CH AAAA 2001:db8::1", "gives a record of class CH, and not IN"),
        ("other.test. 3600 IN AAAA 2001:db8::1", "gives a record for other.test. when example.com. is asked for"),
        ("{{ .Name }} 4000000000 IN AAAA 2001:db8::1", "gives a TTL of 4000000000"),
        ("{{ .Name }} 3600 IN AAAA 2001:db8::1\n}\nchaos", "has a line break or another control character"),
        ("{{ .Name }} 3600 IN AAAA 2001:db8::1\\", "has a backslash"),
        ("{{ .Name }} 3600 IN AAAA {$HOME}", "has {$ or {%"),
        ("{{ .Name }} 3600 IN AAAA {%HOME%}", "has {$ or {%"),
        ("\" {{ .Name }}", "fails for example.com."),
        (&"x".repeat(1025), "is longer than 1024 bytes"),
    ] {
        let found = mistakes(&json!([response(answer)]), v4);
        let path = "InvalidAnswerTemplate template \"r\": spec.templates[0].action.generateResponse.answerTemplate: ";
        assert_eq!(found.len(), 1, "{answer}: {found:?}");
        assert!(found[0].starts_with(path) && found[0].contains(part), "{answer}: {}", found[0]);
    }
}

#[test]
fn a_cluster_of_ipv6_alone_keeps_its_addresses() {
    let v6 = Families::one(Family::V6);
    let found = mistakes(&json!([filter("f", json!([".", "a.test"]))]), v6);
    assert_eq!(
        found,
        [
            "FilterWouldBlockAllAddresses template \"f\": spec.templates[0].action.returnEmpty: \"., a.test\" would leave no \
          address in these zones: this cluster has IPv6 alone; remove the template"
        ]
    );
    assert_eq!(mistakes(&json!([response("{{ .Name }} 1 IN AAAA ::1")]), v6), [""; 0]);
}

#[test]
fn servers_and_resolvers_are_checked_before_anything_is_written() {
    let server = |name: &str, zones: Value, upstreams: Value| json!({"servers": [{"name": name, "zones": zones, "forwardPlugin": {"upstreams": upstreams}}]});
    let tls = |tls: Value| json!({"transport": "TLS", "tls": tls});
    for (spec, path, part) in [
        (server("a\nchaos", json!(["a.test"]), json!(["192.0.2.1"])), "spec.servers[0].name", "is no service name"),
        (server("a", json!(["svc.cluster.local"]), json!(["192.0.2.1"])), "spec.servers[0].zones[0]", "cluster domain"),
        (server("a", json!(["."]), json!(["192.0.2.1"])), "spec.servers[0].zones[0]", "is every name"),
        (server("a", json!(["a.test", "A.test"]), json!(["::1"])), "spec.servers[0].zones[1]", "has a server already"),
        (server("a", json!([]), json!(["::1"])), "spec.servers[0].zones", "is empty"),
        (server("a", json!(["a.test"]), json!([])), "spec.servers[0].forwardPlugin.upstreams", "1 to 15"),
        (
            server("a", json!(["a.test"]), json!(["dns.test"])),
            "spec.servers[0].forwardPlugin.upstreams[0]",
            "is no address",
        ),
        (json!({"logLevel": "Loud"}), "spec.logLevel", "accepted: Normal, Debug, Trace"),
        (json!({"cache": {"positiveTTL": "soon"}}), "spec.cache.positiveTTL", "is no length of time"),
        (
            json!({"upstreamResolvers": {"upstreams": [{"type": "Network"}]}}),
            "spec.upstreamResolvers.upstreams[0].address",
            "needs an address",
        ),
        (
            json!({"upstreamResolvers": {"transportConfig": tls(json!({"serverName": "a.test"}))}}),
            "spec.upstreamResolvers.transportConfig.transport",
            "the node's resolvers are not asked over TLS",
        ),
        (
            json!({"upstreamResolvers": {"upstreams": [{"type": "Network", "address": "::1"}], "transportConfig": tls(json!(null))}}),
            "spec.upstreamResolvers.transportConfig.tls.serverName",
            "TLS needs the name",
        ),
    ] {
        let spec: OperatorDnsSpec = serde_json::from_value(spec).unwrap();
        let found = base(&spec, &domain()).unwrap_err();
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(found[0].path, path);
        assert!(found[0].problem.contains(part), "{}", found[0]);
    }
}
