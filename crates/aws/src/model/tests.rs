//! Families, subnets, health checks and nodes, as tables.

use super::{
    annotations::Kind,
    health,
    nodes::instance_id,
    request::{Request, address_type},
    subnets::{Need, Offer, discover, lost_zones, named},
};
use crate::{
    account::{
        IpAddressType::{self, Dualstack, Ipv4},
        Scheme, Subnet,
    },
    cloud_config::SharedProbe,
    memory::{
        Example, State,
        testing::{annotated, service, settings},
    },
};
use net::Family::{self, V4, V6};
use serde_json::{Value, json};

#[test]
fn families_of_the_load_balancer_and_of_its_targets() {
    type Row = (Option<&'static str>, &'static [&'static str], Option<(IpAddressType, Family)>);
    let table: &[Row] = &[
        (None, &[], Some((Ipv4, V4))),
        (None, &["IPv4"], Some((Ipv4, V4))),
        (None, &["IPv6"], None),
        (Some("SingleStack"), &["IPv4"], Some((Ipv4, V4))),
        (Some("SingleStack"), &["IPv6"], None),
        (Some("SingleStack"), &["IPv4", "IPv6"], None),
        (Some("PreferDualStack"), &[], Some((Ipv4, V4))),
        (Some("PreferDualStack"), &["IPv4"], Some((Ipv4, V4))),
        (Some("PreferDualStack"), &["IPv6"], Some((Dualstack, V6))),
        (Some("PreferDualStack"), &["IPv4", "IPv6"], Some((Dualstack, V4))),
        (Some("PreferDualStack"), &["IPv6", "IPv4"], Some((Dualstack, V6))),
        (Some("RequireDualStack"), &[], None),
        (Some("RequireDualStack"), &["IPv4"], None),
        (Some("RequireDualStack"), &["IPv6"], None),
        (Some("RequireDualStack"), &["IPv4", "IPv6"], Some((Dualstack, V4))),
        (Some("RequireDualStack"), &["IPv6", "IPv4"], Some((Dualstack, V6))),
        (Some("RequireDualStack"), &["IPv6", "IPv6"], None),
        (Some("PreferDualStack"), &["IPv4", "IPv6", "IPv4"], None),
        (Some("SingleStack"), &["ipv4"], None),
    ];
    for (policy, families, expected) in table {
        let families: Vec<String> = families.iter().map(|one| (*one).to_owned()).collect();
        assert_eq!(address_type(Kind::Network, *policy, &families).ok(), *expected, "{policy:?} {families:?}");
    }
}

#[test]
fn a_classic_load_balancer_is_ipv4_where_that_will_do() {
    for policy in [None, Some("SingleStack"), Some("PreferDualStack"), Some("RequireDualStack")] {
        for families in [&[][..], &["IPv4"], &["IPv6"], &["IPv4", "IPv6"], &["IPv6", "IPv4"]] {
            let has_four = families.is_empty() || families.contains(&"IPv4");
            let expected = (has_four && policy != Some("RequireDualStack")).then_some((Ipv4, V4));
            let families: Vec<String> = families.iter().map(|one| (*one).to_owned()).collect();
            assert_eq!(address_type(Kind::Classic, policy, &families).ok(), expected, "{policy:?} {families:?}");
        }
    }
}

fn found(state: &State, scheme: Scheme, ipv6: bool) -> Vec<String> {
    let offer = Offer { subnets: &state.subnets, tables: &state.route_tables, zones: &state.zones };
    let (chosen, rejected) = discover(offer, &settings().cluster, Need { scheme, ipv6 });
    assert_eq!(chosen.len() + rejected.len(), state.subnets.len(), "each is chosen or rejected with a reason");
    chosen.into_iter().map(|subnet| subnet.id.trim_start_matches("subnet-").to_owned()).collect()
}

fn change(state: &mut State, id: &str, with: impl FnOnce(&mut Subnet)) {
    with(state.subnets.iter_mut().find(|subnet| subnet.id == format!("subnet-{id}")).unwrap());
}

#[test]
fn one_subnet_of_each_zone_the_best_one() {
    let plain = Example { nodes: 0 }.state();
    let internet = Scheme::InternetFacing;
    assert_eq!(found(&plain, internet, true), ["public-a", "public-b", "public-c"]);
    assert_eq!(found(&plain, Scheme::Internal, false), ["private-a", "private-b", "private-c"], "the smaller id");
    let mut roles = plain.clone();
    change(&mut roles, "public-b", |subnet| {
        subnet.tags.insert("kubernetes.io/role/internal-elb".into(), "1".into());
    });
    assert_eq!(found(&roles, Scheme::Internal, false), ["private-a", "public-b", "private-c"]);
    let mut untagged = plain.clone();
    change(&mut untagged, "private-a", |subnet| subnet.tags.clear());
    assert_eq!(found(&untagged, Scheme::Internal, false)[0], "public-a", "the tagged one");
    let mut other = plain.clone();
    change(&mut other, "public-a", |subnet| {
        subnet.tags = [("kubernetes.io/cluster/other".to_owned(), "owned".to_owned())].into();
    });
    assert_eq!(found(&other, internet, false), ["public-b", "public-c"]);
    let mut private = plain.clone();
    private.route_tables.retain(|table| table.main);
    assert!(found(&private, internet, false).is_empty());
    let mut local = plain.clone();
    local.zones[2].kind = "local-zone".into();
    assert_eq!(found(&local, internet, false), ["public-a", "public-b"]);
    local.zones[2].kind = "wavelength-zone".into();
    assert_eq!(found(&local, internet, true), ["public-a", "public-b"]);
    let mut none = plain.clone();
    none.subnets.clear();
    assert!(found(&none, internet, false).is_empty());
    let mut single = plain.clone();
    single.subnets.retain(|subnet| subnet.id == "subnet-public-b");
    assert_eq!(found(&single, internet, true), ["public-b"]);
    let mut nobodys = plain.clone();
    nobodys.subnets.iter_mut().for_each(|subnet| subnet.tags.clear());
    assert_eq!(found(&nobodys, internet, true), ["public-a", "public-b", "public-c"], "untagged ones will do");
    let mut ordered = plain.clone();
    let mut twin = ordered.subnets[0].clone();
    twin.id = "subnet-a-first".into();
    ordered.subnets.push(twin);
    ordered.route_tables[0].subnets.insert("subnet-a-first".into());
    assert_eq!(found(&ordered, internet, true)[0], "a-first", "the smaller id");
    change(&mut ordered, "public-a", |subnet| {
        subnet.tags.insert("kubernetes.io/role/elb".into(), String::new());
    });
    assert_eq!(found(&ordered, internet, true)[0], "public-a", "the role, whatever its value");
    let mut four = plain;
    change(&mut four, "public-c", |subnet| subnet.ipv6.clear());
    let offer = Offer { subnets: &four.subnets, tables: &four.route_tables, zones: &four.zones };
    let need = Need { scheme: internet, ipv6: true };
    let (chosen, rejected) = discover(offer, &settings().cluster, need);
    let note = lost_zones(&four.subnets, &chosen, &rejected).unwrap();
    assert!(note.message.starts_with("subnet-public-c in zone us-east-1c has no associated IPv6"), "{}", note.message);
    assert_eq!(lost_zones(&four.subnets, &four.subnets, &rejected), None);
    assert_eq!(found(&four, internet, true), ["public-a", "public-b"]);
    assert_eq!(found(&four, internet, false).len(), 3);
}

#[test]
fn subnets_are_named_by_id_or_name() {
    let mut state = Example { nodes: 0 }.state();
    change(&mut state, "public-b", |subnet| {
        subnet.tags.insert("Name".into(), "second".into());
    });
    let offer = Offer { subnets: &state.subnets, tables: &state.route_tables, zones: &state.zones };
    let need = Need { scheme: Scheme::InternetFacing, ipv6: true };
    let get = |words: &[&str]| {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        named(&words, offer, need).map(|list| list.into_iter().map(|subnet| subnet.id).collect::<Vec<_>>())
    };
    assert_eq!(get(&["second", "subnet-public-a"]).unwrap(), ["subnet-public-a", "subnet-public-b"]);
    assert!(
        get(&["nobody"]).unwrap_err().contains("expected to find 1 subnets, but found 0: nobody is not in the VPC")
    );
    assert!(get(&["subnet-public-a", "subnet-private-a"]).unwrap_err().contains("both in zone us-east-1a"));
}

fn request(change: &Value) -> Request {
    Request::read(&service("web", change)).unwrap().unwrap()
}

#[test]
fn targets_are_checked_as_asked() {
    let shared = SharedProbe { port: 10256, path: "/healthz".into() };
    let local = json!({"spec": {"externalTrafficPolicy": "Local", "healthCheckNodePort": 32000}});
    let http = annotated(&[("healthcheck-protocol", "Http")]);
    let check = |change: &Value, shared: Option<&SharedProbe>| {
        let check = health::network(&request(change), shared);
        let path = check.path.unwrap_or_default();
        format!("{} {}{path} {}s {}/{}", check.protocol, check.port, check.interval, check.healthy, check.unhealthy)
    };
    assert_eq!(check(&json!({}), None), "TCP traffic-port 30s 3/3");
    assert_eq!(check(&json!({}), Some(&shared)), "HTTP 10256/healthz 30s 3/3");
    assert_eq!(check(&local, Some(&shared)), "HTTP 32000/healthz 10s 2/2");
    assert_eq!(check(&http, None), "HTTP traffic-port/ 30s 3/3");
    let all = annotated(&[
        ("healthcheck-interval", "23"),
        ("healthcheck-healthy-threshold", "7"),
        ("healthcheck-unhealthy-threshold", "5"),
        ("healthcheck-port", "8080"),
    ]);
    assert_eq!(check(&all, Some(&shared)), "HTTP 8080/healthz 23s 7/5");
    let elsewhere = SharedProbe { port: 9999, path: "/alive".into() };
    assert_eq!(check(&json!({}), Some(&elsewhere)), "HTTP 9999/alive 30s 3/3");
    let mut plain = annotated(&[("healthcheck-protocol", "TCP"), ("healthcheck-port", "traffic-port")]);
    assert_eq!(check(&plain, Some(&shared)), "TCP traffic-port 30s 3/3");
    plain["spec"] = local["spec"].clone();
    assert_eq!(check(&plain, None), "TCP traffic-port 10s 2/2");
    let mut path = annotated(&[("healthcheck-path", "/ready"), ("healthcheck-protocol", "https")]);
    assert_eq!(check(&path, None), "HTTPS traffic-port/ready 30s 3/3");
    path["spec"] = local["spec"].clone();
    assert_eq!(check(&path, None), "HTTPS 32000/ready 10s 2/2");
    let timeout = health::network(&request(&annotated(&[("healthcheck-timeout", "4")])), None).timeout;
    assert_eq!(timeout, Some(4), "it is sent");
    let classic = |change: &Value, shared: Option<&SharedProbe>| health::classic(&request(change), shared).target;
    assert_eq!(classic(&json!({}), None), "TCP:30080");
    assert_eq!(classic(&json!({}), Some(&shared)), "HTTP:10256/healthz");
    assert_eq!(classic(&local, None), "HTTP:32000/healthz");
    assert_eq!(classic(&annotated(&[("backend-protocol", "ssl")]), None), "SSL:30080");
}

#[test]
fn provider_ids_have_three_forms() {
    for (text, id) in [
        ("aws:///us-east-1a/i-1", Some("i-1")),
        ("aws:////i-1", Some("i-1")),
        ("i-1", Some("i-1")),
        ("gce://x/i-1", None),
        ("aws:///us-east-1a/", None),
        ("i-", None),
    ] {
        assert_eq!(instance_id(text), id, "{text}");
    }
}
