//! Templates in front of a cluster: the whole rendered file, with the names of a cluster behind it.

use super::*;
use crate::plugin::kubernetes::tests::{content, index, lasting};

const STANZA: &str =
    "kubernetes cluster.local in-addr.arpa ip6.arpa {\n pods insecure\n fallthrough in-addr.arpa ip6.arpa\n }";

/// Names of the cluster, with what they have for IPv6.
const NAMES: &[(&str, &str)] = &[
    ("dual.dn", "NOERROR aa | dual.dn@ 5 IN AAAA fd00:96::101"),
    ("dual64.dn", "NOERROR aa | dual64.dn@ 5 IN AAAA fd00:96::102"),
    ("v6.dn", "NOERROR aa | v6.dn@ 5 IN AAAA fd00:96::104"),
    ("web-0.head.dn", "NOERROR aa | web-0.head.dn@ 5 IN AAAA fd00:1::1"),
    ("fd00-1--1.dual.dn", "NOERROR aa | fd00-1--1.dual.dn@ 5 IN AAAA fd00:1::1"),
    ("extin.dn", "NOERROR aa | extin.dn@ 5 IN CNAME dual.dn@, dual.dn@ 5 IN AAAA fd00:96::101"),
    ("v4.dn", "NOERROR aa | | SOA"),
    ("none.dn", "NXDOMAIN aa | | SOA"),
];

/// A server of its own and resolvers that nobody needs to ask.
fn spec(templates: &[Value]) -> Value {
    json!({
        "servers": [{"name": "corp", "zones": ["corp.example.com"], "forwardPlugin": {"upstreams": ["192.0.2.1"]}}],
        "upstreamResolvers": {"upstreams": [{"type": "Network", "address": "192.0.2.53"}]},
        "templates": templates,
    })
}

#[test]
fn names_of_the_cluster_keep_their_addresses_behind_a_filter() {
    let (_index, records) = index(&content(), 5);
    let (lasting, _cluster) = lasting(STANZA, &records);
    for families in [BOTH, Families::both(Family::V6)] {
        for zones in [&["."][..], &["local", "corp.example.com"]] {
            let asked = Asked::with(&render(&spec(&[filter("f", zones)]), families), &lasting);
            for (name, expected) in NAMES {
                let got = asked.ask(&format!("{name}.svc.cluster.local."), "AAAA").replace(".svc.cluster.local.", "@");
                let got = got.replace(
                    "cluster.local. 5 IN SOA ns.dns.cluster.local. hostmaster.cluster.local. 7 7200 1800 86400 5",
                    "SOA",
                );
                assert_eq!(got, *expected, "{name}");
            }
            let head = asked.ask("head.dn.svc.cluster.local.", "AAAA");
            assert!(head.contains("head.dn.svc.cluster.local. 5 IN AAAA fd00:1::1"), "{head}");
            assert_eq!(
                asked.ask("dual.dn.svc.cluster.local.", "A"),
                "NOERROR aa | dual.dn.svc.cluster.local. 5 IN A 10.96.1.1"
            );
            // In the block of its own server as well.
            assert!(asked.ask("www.corp.example.com", "AAAA").starts_with("NOERROR aa | | "));
        }
    }
}

#[test]
fn a_filter_of_the_parent_of_the_cluster_domain_leaves_it_out() {
    let text = render(&spec(&[filter("f", &["local"])]), BOTH);
    let template = r#"    template IN AAAA local {
        # every name but those of cluster.local
        match "(^|\.)([^.]{1,4}|[^.]{6,}|[^.l][^.]{4}|l[^.o][^.]{3}|lo[^.c][^.]{2}|loc[^.a][^.]{1}|loca[^.l])\.$"
        match "(^|\.)([^.]{1,6}|[^.]{8,}|[^.c][^.]{6}|c[^.l][^.]{5}|cl[^.u][^.]{4}|clu[^.s][^.]{3}|clus[^.t][^.]{2}|clust[^.e][^.]{1}|cluste[^.r])\.local\.$"
        match "^(\.|local\.)$"
        authority "local. 30 IN SOA ns.dns.cluster.local. hostmaster.cluster.local. 1 7200 1800 86400 30"
        rcode NOERROR
        fallthrough
    }
"#;
    assert_eq!(text.matches(template).count(), 2, "in both blocks that answer: {text}");
}

#[test]
fn the_warning_follows_the_families_of_the_cluster() {
    let templates = [filter("broad", &[".", "local"]), filter("narrow", &["example.com"]), legacy()];
    let given: OperatorDnsSpec = serde_json::from_value(spec(&templates)).unwrap();
    let base = check::base(&given, &domain()).unwrap();
    let exclusions = |families: Families| {
        let templates = check::templates(&given.templates, &domain(), families).unwrap();
        let parts =
            Parts { base: &base, templates: &templates, domain: &domain(), families, bundles: &BTreeMap::new() };
        parts.exclusions()
    };
    let both = [("broad".to_owned(), "local".to_owned()), ("broad".to_owned(), ".".to_owned())];
    // From one family to both, and back.
    for (families, expected) in [(V4, &both[..0]), (BOTH, &both), (Families::both(Family::V6), &both), (V4, &both[..0])]
    {
        assert_eq!(exclusions(families), expected, "{families}");
    }
}

#[test]
fn zones_of_the_cluster_cannot_be_taken_however_they_are_written() {
    for zone in ["cluster.local", "cluster.local.", "CLUSTER.local", "svc.cluster.local", "a.b.Svc.Cluster.Local."] {
        let given: OperatorDnsSpec = serde_json::from_value(spec(&[filter("f", &[zone])])).unwrap();
        let mistakes = check::templates(&given.templates, &domain(), V4).unwrap_err();
        assert_eq!(mistakes[0].reason.to_string(), "ReservedZone", "{zone}");
    }
}
