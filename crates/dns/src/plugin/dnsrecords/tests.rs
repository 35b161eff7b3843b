//! Objects of both families, wildcards and host names, asked through a block.

use super::*;
use crate::testing;
use ::api::config::DnsRecordSpec;
use serde_json::json;

fn specs_of(list: serde_json::Value) -> Vec<DnsRecordSpec> {
    serde_json::from_value(list).unwrap()
}

fn ask(zones: &[&str], specs: &[DnsRecordSpec], name: &str, rtype: &str) -> String {
    let watched = Arc::new(Watched::new());
    watched.set(Table::new(specs.iter()));
    let zones = zones.iter().map(|zone| Name::parse(zone).unwrap()).collect();
    let plugin = DnsRecords { zones, watched };
    let mut query = testing::query(name, rtype::number(rtype).unwrap());
    let mut reply = Reply::new();
    reply.reset(&query.request.name, query.request.rtype, query.request.class);
    match plugin.before(&mut query, &mut reply) {
        Step::Next => "next".to_owned(),
        Step::Later => "later ".to_owned() + &testing::shown(&reply),
        Step::Done => testing::shown(&reply),
    }
}

#[test]
fn objects_are_answered_in_the_family_that_was_asked_for() {
    let specs = specs_of(json!([
        {"dnsName": "*.apps.example.", "targets": ["192.0.2.1", "2001:db8::1"], "recordType": "A", "recordTTL": 60},
        {"dnsName": "*.apps.example.", "targets": ["2001:db8::2"], "recordType": "AAAA", "recordTTL": 30},
        {"dnsName": "V4.apps.example", "targets": ["192.0.2.4"], "recordType": "A", "recordTTL": 0},
        {"dnsName": "lb.example.", "targets": ["lb-1.cloud.example"], "recordType": "CNAME", "recordTTL": 5},
        {"dnsName": "mine.example.", "targets": ["192.0.2.9"], "recordType": "A", "dnsManagementPolicy": "Unmanaged"},
        {"dnsName": "bad..example.", "targets": ["192.0.2.9"], "recordType": "A"},
        {"dnsName": "none.example.", "targets": ["not a name..", ""], "recordType": "CNAME"},
    ]));
    for (name, rtype, expected) in [
        ("Web.apps.example.", "A", "NOERROR aa | Web.apps.example. 30 IN A 192.0.2.1"),
        (
            "a.b.apps.example.",
            "AAAA",
            "NOERROR aa | a.b.apps.example. 30 IN AAAA 2001:db8::1, a.b.apps.example. 30 IN AAAA 2001:db8::2",
        ),
        ("web.apps.example.", "TXT", "NOERROR aa"),
        // Its own object hides the wildcard, for it and below it.
        ("v4.apps.example.", "A", "NOERROR aa | v4.apps.example. 30 IN A 192.0.2.4"),
        ("v4.apps.example.", "AAAA", "NOERROR aa"),
        ("x.v4.apps.example.", "A", "next"),
        ("apps.example.", "A", "next"),
        ("lb.example.", "A", "later NOERROR aa | lb.example. 5 IN CNAME lb-1.cloud.example."),
        ("lb.example.", "AAAA", "later NOERROR aa | lb.example. 5 IN CNAME lb-1.cloud.example."),
        ("lb.example.", "CNAME", "NOERROR aa | lb.example. 5 IN CNAME lb-1.cloud.example."),
        ("mine.example.", "A", "next"),
        ("none.example.", "A", "NOERROR aa"),
        ("elsewhere.test.", "A", "next"),
    ] {
        assert_eq!(ask(&["example"], &specs, name, rtype), expected, "{name} {rtype}");
    }
    // A wildcard of the whole world is one, where its zone allows.
    let world = specs_of(json!([{"dnsName": "*.", "targets": ["192.0.2.8"], "recordType": "A"}]));
    assert_eq!(ask(&["."], &world, "any.test.", "A"), "NOERROR aa | any.test. 30 IN A 192.0.2.8");
    assert_eq!(ask(&["example"], &world, "any.test.", "A"), "next");
}

#[test]
fn a_host_name_is_followed_by_what_this_server_knows() {
    let text = "cloud.example {\n hosts {\n  192.0.2.7 lb.cloud.example\n  2001:db8::7 lb.cloud.example\n }\n}";
    let instance = testing::build(text).unwrap();
    let hosts = instance.routes.values().next().unwrap().chains().next().unwrap();
    let specs = specs_of(
        json!([{"dnsName": "*.apps.example.", "targets": ["lb.cloud.example"], "recordType": "CNAME", "recordTTL": 5}]),
    );
    let watched = Arc::new(Watched::new());
    watched.set(Table::new(specs.iter()));
    let plugin = Box::new(DnsRecords { zones: vec![Name::ROOT], watched });
    let lasting = crate::compile::Lasting::default();
    let observers = crate::observe::Observers::new(&lasting, &[Name::ROOT], &[53]);
    let own = Arc::new(crate::chain::Chain {
        plugins: [plugin as Box<dyn Plugin>].into(),
        observers,
        nsid: None,
        reads_options: false,
    });
    let mut routes = crate::routes::Routes::default();
    routes.add(&Name::parse("example").unwrap(), &own);
    routes.add(&Name::parse("cloud.example").unwrap(), hosts);
    let asked = testing::Asked::over(routes);
    for (rtype, address) in [("A", "A 192.0.2.7"), ("AAAA", "AAAA 2001:db8::7")] {
        assert_eq!(
            asked.ask("x.apps.example.", rtype),
            format!("NOERROR aa | x.apps.example. 5 IN CNAME lb.cloud.example., lb.cloud.example. 3600 IN {address}")
        );
    }
}

#[test]
fn it_is_not_ready_before_the_objects_were_listed() {
    let instance = testing::build("apps.example {\n dnsrecords {\n kubeconfig none\n }\n}").unwrap();
    assert_eq!(
        instance.checks.iter().map(|(name, check)| (*name, check())).collect::<Vec<_>>(),
        [("dnsrecords", false)]
    );
    assert!(instance.jobs.iter().any(|job| job.name == "dns-dnsrecords"));
    for (line, expected) in [
        ("dnsrecords {\n kubconfig x\n }", "unknown property; did you mean kubeconfig?"),
        ("dnsrecords a..b", "\"a..b\": plugin dnsrecords: "),
        ("dnsrecords\n dnsrecords", "may stand only once in a server block"),
    ] {
        let problem = testing::refused(&format!(". {{\n {line}\n}}"));
        assert!(problem.contains(expected), "{problem}");
    }
}
