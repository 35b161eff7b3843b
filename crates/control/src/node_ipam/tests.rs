//! Who gets which CIDR, in every shape of cluster.

use super::allocations::{Allocations, Decision};
use k8s_openapi::api::core::v1::Node;
use net::{Cidr, DualStack, NodeMaskFlags, flags::one_or_pair, node_blocks};
use serde_json::json;

fn allocations(clusters: &str, masks: (u8, u8)) -> Allocations {
    let clusters: DualStack<Cidr> = one_or_pair("cluster-cidr", clusters).unwrap();
    let family = |family, mask| clusters.get(family).map(|_| mask);
    let flags =
        NodeMaskFlags { plain: None, ipv4: family(net::Family::V4, masks.0), ipv6: family(net::Family::V6, masks.1) };
    Allocations::new(node_blocks(&clusters, flags).unwrap(), &[])
}

fn node(name: &str, cidrs: &[&str]) -> Node {
    serde_json::from_value(json!({"metadata": {"name": name}, "spec": {"podCIDR": cidrs.first(), "podCIDRs": cidrs}}))
        .unwrap()
}

fn assigned(allocations: &mut Allocations, name: &str) -> Vec<String> {
    match allocations.decide(name) {
        Decision::Assign(cidrs) => cidrs.iter().map(ToString::to_string).collect(),
        other => panic!("{name}: {other:?}"),
    }
}

#[test]
fn each_family_of_the_flag_gets_a_cidr_in_the_flags_order() {
    for (clusters, first, second) in [
        ("10.244.0.0/16", vec!["10.244.0.0/24"], vec!["10.244.1.0/24"]),
        ("fd00:244::/48", vec!["fd00:244::/64"], vec!["fd00:244:0:1::/64"]),
        (
            "10.244.0.0/16,fd00:244::/48",
            vec!["10.244.0.0/24", "fd00:244::/64"],
            vec!["10.244.1.0/24", "fd00:244:0:1::/64"],
        ),
        (
            "fd00:244::/48,10.244.0.0/16",
            vec!["fd00:244::/64", "10.244.0.0/24"],
            vec!["fd00:244:0:1::/64", "10.244.1.0/24"],
        ),
    ] {
        let mut pools = allocations(clusters, (24, 64));
        pools.observe(&node("a", &[]));
        pools.observe(&node("b", &[]));
        assert_eq!(assigned(&mut pools, "a"), first, "{clusters}");
        assert_eq!(assigned(&mut pools, "b"), second, "{clusters}");
        // The answer was lost: the same again. It came: nothing more.
        assert_eq!(assigned(&mut pools, "a"), first);
        let texts: Vec<&str> = first.clone();
        pools.observe(&node("a", &texts));
        assert_eq!(pools.decide("a"), Decision::Keep);
    }
}

#[test]
fn a_restart_takes_nothing_twice() {
    let mut pools = allocations("10.244.0.0/16,fd00:244::/48", (24, 64));
    assert!(pools.observe(&node("old", &["10.244.0.0/24", "fd00:244::/64"])).is_empty());
    pools.observe(&node("new", &[]));
    assert_eq!(assigned(&mut pools, "new"), ["10.244.1.0/24", "fd00:244:0:1::/64"]);
    assert_eq!(pools.decide("old"), Decision::Keep);
    // Of another size than we would give: all that it overlaps is taken.
    pools.observe(&node("wide", &["10.244.2.0/23", "fd00:244:0:2::/64"]));
    pools.observe(&node("next", &[]));
    assert_eq!(assigned(&mut pools, "next"), ["10.244.4.0/24", "fd00:244:0:3::/64"]);
}

#[test]
fn a_second_family_is_appended_behind_the_first() {
    for (clusters, has, gets) in [
        ("10.244.0.0/16,fd00:244::/48", "10.244.7.0/24", "fd00:244::/64"),
        ("fd00:244::/48,10.244.0.0/16", "10.244.7.0/24", "fd00:244::/64"),
        ("10.244.0.0/16,fd00:244::/48", "fd00:244:0:7::/64", "10.244.0.0/24"),
    ] {
        let mut pools = allocations(clusters, (24, 64));
        pools.observe(&node("a", &[has]));
        assert_eq!(assigned(&mut pools, "a"), [has, gets]);
        pools.refuse("a");
        assert_eq!(pools.decide("a"), Decision::Keep, "asked once");
        assert_eq!(pools.usage().iter().map(|(_, used)| used).sum::<u64>(), 1, "what was refused is free again");
    }
}

#[test]
fn a_full_range_says_so_and_takes_nothing_of_the_other_family() {
    let mut pools = allocations("10.244.0.0/23,fd00:244::/48", (24, 64));
    for name in ["a", "b", "c"] {
        pools.observe(&node(name, &[]));
    }
    assigned(&mut pools, "a");
    assigned(&mut pools, "b");
    assert_eq!(pools.decide("c"), Decision::Exhausted("10.244.0.0/23".parse().unwrap()));
    assert_eq!(pools.usage()[1].1, 2);
    assert!(pools.forget("a"));
    assert_eq!(assigned(&mut pools, "c")[0], "10.244.0.0/24");
}

#[test]
fn a_cidr_from_elsewhere_is_reported_and_left_alone() {
    let mut pools = allocations("10.244.0.0/16", (24, 64));
    let foreign = pools.observe(&node("a", &["192.168.0.0/24"]));
    assert_eq!(foreign, ["192.168.0.0/24".parse::<Cidr>().unwrap()]);
    assert_eq!(pools.observe(&node("a", &["192.168.0.0/24"])), foreign, "each time");
    assert_eq!(pools.decide("a"), Decision::Keep);
    // Two nodes with one CIDR: it is free when both are gone.
    pools.observe(&node("b", &["10.244.0.0/24"]));
    pools.observe(&node("c", &["10.244.0.0/24"]));
    pools.forget("b");
    assert_eq!(pools.usage()[0].1, 1);
    pools.forget("c");
    assert_eq!(pools.usage()[0].1, 0);
}

#[test]
fn ranges_of_services_are_not_handed_out() {
    let clusters = one_or_pair("cluster-cidr", "10.0.0.0/16,fd00::/48").unwrap();
    let blocks = node_blocks(&clusters, NodeMaskFlags::default()).unwrap();
    let withheld = ["10.0.0.0/23".parse().unwrap(), "fd00::/112".parse().unwrap()];
    let mut pools = Allocations::new(blocks, &withheld);
    pools.observe(&node("a", &[]));
    assert_eq!(assigned(&mut pools, "a"), ["10.0.2.0/24", "fd00:0:0:1::/64"]);
}
