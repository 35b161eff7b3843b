//! Families, subnets, health checks and nodes, as tables.

mod request;

use super::{
    annotations::Kind,
    health,
    nodes::instance_id,
    request::{Request, address_type},
    subnets::{Need, Offer, discover, lost_zones},
};
use crate::{
    account::{IpAddressType::Ipv4, Scheme, Subnet},
    cloud_config::SharedProbe,
    memory::{
        Example, State,
        testing::{annotated, service, settings},
    },
};
use net::Family::V4;
use serde_json::{Value, json};

/// What comes of the others is in `tests/cases/tables.rs`.
#[test]
fn families_that_no_api_server_lets_through_are_refused() {
    for (policy, families) in [
        ("SingleStack", &["IPv4", "IPv6"][..]),
        ("RequireDualStack", &["IPv6", "IPv6"]),
        ("PreferDualStack", &["IPv4", "IPv6", "IPv4"]),
        ("SingleStack", &["ipv4"]),
    ] {
        let families: Vec<String> = families.iter().map(|one| (*one).to_owned()).collect();
        assert!(address_type(Kind::Network, Some(policy), &families).is_err(), "{policy:?} {families:?}");
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

/// The others are in `tests/cases/tables.rs`.
#[test]
fn subnets_of_zones_that_moto_does_not_have() {
    let plain = Example { nodes: 0 }.state();
    let internet = Scheme::InternetFacing;
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

fn request(change: &Value) -> Request {
    Request::read(&service("web", change)).unwrap().unwrap()
}

/// Checks of network load balancers are in `tests/cases/tables.rs`.
#[test]
fn instances_of_classic_load_balancers_are_checked_as_asked() {
    let shared = SharedProbe { port: 10256, path: "/healthz".into() };
    let local = json!({"spec": {"externalTrafficPolicy": "Local", "healthCheckNodePort": 32000}});
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
