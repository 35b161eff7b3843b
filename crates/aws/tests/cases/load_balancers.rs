//! What Services get in the end, against an account that refuses what AWS refuses: one test for each promise.

use super::{
    emulated,
    world::{
        Step, World, classic, describe, families, gone, merged, nodes, notes, shapes, shown, step, unmanaged, web,
    },
};
use aws::{
    account::{IpAddressType, Peer, Protocol, Rule, SecurityGroup},
    apply::{Aws, owner},
    cloud_config::SharedProbe,
    memory::{
        Example, State,
        testing::{annotated, service, settings},
    },
    model::Settings,
};
use k8s_openapi::api::core::v1::Service;
use net::{Cidr, Family};
use runtime::cloud::{CloudError, LoadBalancers};
use serde_json::{Value, json};
use std::collections::BTreeSet;

fn dual(first: &str, second: &str) -> Value {
    families("RequireDualStack", &[first, second])
}

fn group<'a>(state: &'a State, name: &str) -> Option<&'a SecurityGroup> {
    state.groups.values().find(|group| group.name == name)
}

fn managed(state: &State) -> &SecurityGroup {
    group(state, &owner(&web(&[])).network_group("kubernetes")).expect("the managed group is there")
}

fn node_rules(state: &State) -> &BTreeSet<Rule> {
    &state.groups[Example::NODE_GROUP].ingress
}

#[tokio::test]
async fn nothing_to_do_takes_four_reads_for_each_kind_of_service() {
    let classic = classic();
    let brought = annotated(&[("security-groups", Example::BROUGHT_GROUP)]);
    let tls = annotated(&[("ssl-cert", Example::CERTIFICATE)]);
    let local = json!({"spec": {"externalTrafficPolicy": "Local", "healthCheckNodePort": 32000}});
    let kinds = shapes()
        .into_iter()
        .flat_map(|shape| {
            [json!({}), brought.clone(), tls.clone(), local.clone()].map(|more| merged(&[shape.clone(), more]))
        })
        .chain([classic]);
    for change in kinds {
        for settings in [settings(), unmanaged()] {
            let mut world = World::new(&settings);
            let service = service("web", &change);
            world.through(&Step { name: "made".into(), service: Some(service.clone()), nodes: 3 }).await;
            world.attempt(&service, 3).await.unwrap();
            world.cloud.take_calls();
            world.attempt(&service, 3).await.unwrap();
            let calls = world.cloud.take_calls();
            assert!(calls.len() <= 4 && calls.iter().all(|call| !call.write), "{change}: {calls:?}");
            world.aws.update_nodes(&service, &nodes(3)).await.unwrap();
            let calls = world.cloud.take_calls();
            assert!(calls.len() <= 4 && calls.iter().all(|call| !call.write), "{change}: {calls:?}");
        }
    }
}

#[tokio::test]
async fn a_restarted_controller_changes_nothing() {
    for change in [json!({}), dual("IPv4", "IPv6"), dual("IPv6", "IPv4")] {
        let mut world = World::new(&settings());
        world.through(&step(&service("web", &change))).await;
        let before = describe(&world.cloud.state());
        world.restart().await;
        world.cloud.take_calls();
        world.attempt(&service("web", &change), 3).await.unwrap();
        let writes: Vec<_> = world.cloud.take_calls().into_iter().filter(|call| call.write).collect();
        assert_eq!(writes, []);
        assert_eq!(describe(&world.cloud.state()), before);
    }
}

#[tokio::test]
async fn changed_nodes_touch_targets_alone() {
    for change in [json!({}), dual("IPv6", "IPv4")] {
        let mut world = World::new(&settings());
        world.through(&step(&service("web", &change))).await;
        for count in [2_u8, 3, 5] {
            world.cloud.take_calls();
            world.aws.update_nodes(&service("web", &change), &nodes(count)).await.unwrap();
            let calls = world.cloud.take_calls();
            let targets = |action: &str| action.contains("Target") || action.starts_with("ec2:Describe");
            assert!(calls.iter().all(|call| targets(call.action)), "{calls:?}");
            let state = world.cloud.state();
            let group = state.target_groups.values().next().unwrap();
            assert_eq!(group.targets.len(), usize::from(count));
        }
    }
}

#[tokio::test]
async fn a_managed_group_has_exactly_its_rules_of_each_family() {
    let mut world = World::new(&settings());
    world.through(&step(&web(&[]))).await;
    let four = ["tcp 80 0.0.0.0/0", "icmp 3/4 0.0.0.0/0"];
    let six = ["tcp 80 ::/0", "icmpv6 2/0 ::/0"];
    let sorted = |list: &[&str]| list.iter().map(|text| (*text).to_owned()).collect::<BTreeSet<String>>();
    let has = |world: &World| shown(&managed(&world.cloud.state()).ingress).into_iter().collect::<BTreeSet<String>>();
    assert_eq!(has(&world), sorted(&four));
    world.through(&step(&web(&[dual("IPv4", "IPv6")]))).await;
    assert_eq!(has(&world), sorted(&[four, six].concat()));
    // Ranges of one family leave the other closed.
    let mut restricted = dual("IPv4", "IPv6");
    restricted["spec"]["loadBalancerSourceRanges"] = json!(["10.1.2.3/8"]);
    world.restart().await;
    let notes = notes(&world.aws);
    world.through(&step(&service("web", &restricted))).await;
    assert_eq!(has(&world), sorted(&["tcp 80 10.0.0.0/8", "icmp 3/4 10.0.0.0/8"]));
    assert!(notes.lock().iter().any(|note| note.reason == "FamilyClosed" && note.message.contains("IPv6")));
    world.through(&step(&web(&[]))).await;
    assert_eq!(has(&world), sorted(&four));
    let state = world.cloud.state();
    // Out: only to the node port, in the cluster's subnets of both families.
    let egress = &managed(&state).egress;
    assert!(egress.iter().all(|rule| rule.protocol == Protocol::Tcp { from: 30080, to: 30080 }), "{egress:?}");
    for family in Family::BOTH {
        let of = |rule: &&Rule| matches!(rule.peer, Peer::Cidr(cidr) if net::HasFamily::family(&cidr) == family);
        assert_eq!(egress.iter().filter(of).count(), 6, "{family}");
    }
    // Nodes let in the group that load balancers share, and no address.
    let shared = state.groups.values().find(|group| group.name.starts_with("k8s-backend-")).unwrap();
    assert!(shared.ingress.is_empty() && shared.egress.is_empty(), "{shared:?}");
    assert!(node_rules(&state).iter().all(|rule| rule.peer == Peer::Group(shared.id.clone())));
    assert_eq!(state.load_balancers.values().next().unwrap().load_balancer.ip_address_type, IpAddressType::Ipv4);
}

#[tokio::test]
async fn manual_changes_of_a_managed_group_are_undone() {
    let mut world = World::new(&settings());
    world.through(&step(&web(&[]))).await;
    let before = describe(&world.cloud.state());
    let id = managed(&world.cloud.state()).id.clone();
    for cidr in ["203.0.113.0/24", "2001:db8:f::/48"] {
        world.cloud.change(|state| {
            let rule = Rule {
                protocol: Protocol::Tcp { from: 22, to: 22 },
                peer: Peer::Cidr(cidr.parse::<Cidr>().unwrap()),
                description: String::new(),
            };
            state.groups.get_mut(&id).unwrap().ingress.insert(rule);
        });
        world.attempt(&web(&[]), 3).await.unwrap();
        assert_eq!(describe(&world.cloud.state()), before);
    }
}

#[tokio::test]
async fn a_load_balancer_without_group_never_gets_one() {
    let mut world = World::new(&unmanaged());
    world.through(&step(&web(&[]))).await;
    let managed = Aws::new(emulated::account(&world.cloud), settings());
    let notes = notes(&managed);
    let before = describe(&world.cloud.state());
    managed.ensure(&web(&[]), &nodes(3)).await.unwrap();
    assert_eq!(describe(&world.cloud.state()), before);
    assert_eq!(notes.lock()[0].reason, "SecurityGroupNotSupported");
    let brought = web(&[annotated(&[("security-groups", Example::BROUGHT_GROUP)])]);
    let Err(CloudError::Refused(why)) = managed.ensure(&brought, &nodes(3)).await else { panic!() };
    assert!(why.contains("created without a security group"), "{why}");
    assert_eq!(describe(&world.cloud.state()), before);
}

#[tokio::test]
async fn brought_groups_are_used_and_never_touched() {
    let mut world = World::new(&settings());
    // Even one that an administrator tagged as the cluster's own.
    world.cloud.change(|state| {
        let tags = &mut state.groups.get_mut(Example::BROUGHT_GROUP).unwrap().tags;
        tags.insert("kubernetes.io/cluster/example".into(), "owned".into());
    });
    let untouched = world.cloud.state().groups[Example::BROUGHT_GROUP].clone();
    let attached = |world: &World| {
        let state = world.cloud.state();
        state.load_balancers.values().next().unwrap().load_balancer.security_groups.clone()
    };
    let brought = web(&[annotated(&[("security-groups", " sg-brought , ")])]);
    world.through(&step(&web(&[]))).await;
    let own = managed(&world.cloud.state()).name.clone();
    world.through(&step(&brought)).await;
    assert_eq!(attached(&world), [Example::BROUGHT_GROUP.to_owned()].into());
    assert_eq!(group(&world.cloud.state(), &own), None, "the managed group is gone");
    world.through(&step(&web(&[]))).await;
    assert!(!attached(&world).contains(Example::BROUGHT_GROUP));
    world.through(&step(&brought)).await;
    world.through(&gone()).await;
    assert_eq!(world.cloud.state().groups[Example::BROUGHT_GROUP], untouched);
}

#[tokio::test]
async fn brought_groups_have_no_effect_unless_managed() {
    let world = World::new(&unmanaged());
    let notes = notes(&world.aws);
    world.attempt(&web(&[annotated(&[("security-groups", Example::BROUGHT_GROUP)])]), 3).await.unwrap();
    assert!(world.cloud.state().load_balancers.values().next().unwrap().load_balancer.security_groups.is_empty());
    assert_eq!(notes.lock()[0].reason, "SecurityGroupsIgnored");
}

#[tokio::test]
async fn a_rule_that_two_services_need_goes_with_the_last() {
    for (settings, change) in [
        (
            Settings { shared_probe: Some(SharedProbe { port: 10256, path: "/healthz".into() }), ..unmanaged() },
            json!({}),
        ),
        (
            Settings { shared_probe: Some(SharedProbe { port: 10256, path: "/healthz".into() }), ..settings() },
            annotated(&[("security-groups", Example::BROUGHT_GROUP), ("manage-backend-security-group-rules", "true")]),
        ),
    ]
    .into_iter()
    .flat_map(|(settings, change)| shapes().map(|shape| (settings.clone(), merged(&[shape, change.clone()]))))
    {
        let world = World::new(&settings);
        let empty = describe(&world.cloud.state());
        let two: Vec<Service> = [("one", 30001), ("two", 30002)]
            .into_iter()
            .map(|(name, port)| {
                let mut change = change.clone();
                change["spec"]["ports"] = json!([{"port": 80, "nodePort": port, "protocol": "TCP"}]);
                service(name, &change)
            })
            .collect();
        for one in &two {
            world.attempt(one, 3).await.unwrap();
        }
        let probe = |world: &World| {
            let rules = node_rules(&world.cloud.state()).clone();
            rules.into_iter().filter(|rule| rule.protocol == Protocol::Tcp { from: 10256, to: 10256 }).count()
        };
        let count = probe(&world);
        assert!(count > 0);
        world.delete(&two[0]).await.unwrap();
        assert_eq!(probe(&world), count, "the other still needs them");
        assert!(
            node_rules(&world.cloud.state())
                .iter()
                .all(|rule| rule.protocol != Protocol::Tcp { from: 30001, to: 30001 })
        );
        world.delete(&two[1]).await.unwrap();
        world.tidy().await;
        assert_eq!(describe(&world.cloud.state()), empty);
    }
}

#[tokio::test]
async fn until_all_have_spoken_nothing_shared_is_taken_away() {
    let shared = Settings { shared_probe: Some(SharedProbe { port: 10256, path: "/healthz".into() }), ..unmanaged() };
    let mut world = World::new(&shared);
    let one = service("one", &json!({"spec": {"ports": [{"port": 80, "nodePort": 30001}]}}));
    let two = service("two", &json!({"spec": {"ports": [{"port": 80, "nodePort": 30002}]}}));
    for service in [&one, &two] {
        world.attempt(service, 3).await.unwrap();
        world.alive.insert(owner(service).key(), (service.clone(), 3));
    }
    world.restart().await;
    let before = node_rules(&world.cloud.state()).clone();
    world.delete(&one).await.unwrap();
    world.alive.remove("ns/one");
    let own = |rule: &Rule| rule.protocol == Protocol::Tcp { from: 30001, to: 30001 };
    let shared: BTreeSet<Rule> = before.iter().filter(|rule| !own(rule)).cloned().collect();
    assert_eq!(
        *node_rules(&world.cloud.state()),
        shared,
        "two has not said what it needs, but no other has this node port"
    );
    world.attempt(&two, 3).await.unwrap();
    world.tidy().await;
    let after = node_rules(&world.cloud.state()).clone();
    assert_eq!(after, shared, "it needs them");
}

#[tokio::test]
async fn deletion_works_when_the_load_balancer_is_gone() {
    for change in [json!({}), dual("IPv4", "IPv6"), dual("IPv6", "IPv4")] {
        let mut world = World::new(&settings());
        let empty = describe(&world.cloud.state());
        world.through(&step(&service("web", &change))).await;
        world.cloud.change(|state| {
            state.load_balancers.clear();
            state.listeners.clear();
        });
        world.through(&gone()).await;
        assert_eq!(describe(&world.cloud.state()), empty);
    }
}

#[tokio::test]
async fn deletion_does_not_depend_on_the_annotations() {
    let mut world = World::new(&settings());
    let empty = describe(&world.cloud.state());
    world.through(&step(&web(&[]))).await;
    let bare = web(&[json!({"metadata": {"annotations": null}, "spec": {"type": "ClusterIP"}})]);
    world.delete(&bare).await.unwrap();
    world.alive.clear();
    world.tidy().await;
    assert_eq!(describe(&world.cloud.state()), empty);
}

#[tokio::test]
async fn what_is_not_ours_is_left_alone() {
    let mut world = World::new(&settings());
    world.through(&step(&web(&[]))).await;
    world.cloud.change(|state| {
        for held in state.load_balancers.values_mut() {
            held.tags.insert("kubernetes.io/service-name".into(), "other/service".into());
        }
    });
    world.restart().await;
    let why = world.refused(&web(&[])).await;
    assert!(why.contains("left alone"), "{why}");
    world.delete(&web(&[])).await.unwrap();
    assert_eq!(world.cloud.state().load_balancers.len(), 1);
}

#[tokio::test]
async fn a_group_of_upstreams_is_adopted_and_one_of_another_is_not() {
    let name = owner(&web(&[])).network_group("kubernetes");
    for (value, adopted) in [("owned", true), ("shared", false)] {
        let mut world = World::new(&settings());
        world.cloud.change(|state| {
            let mut group = state.groups[Example::BROUGHT_GROUP].clone();
            group.id = "sg-old".into();
            group.name.clone_from(&name);
            group.tags.insert("kubernetes.io/cluster/example".into(), value.into());
            state.groups.insert(group.id.clone(), group);
        });
        if adopted {
            world.through(&step(&web(&[]))).await;
            let state = world.cloud.state();
            assert_eq!(state.groups["sg-old"].tags["kubernetes.io/service-name"], "ns/web");
            world.through(&gone()).await;
            assert!(!world.cloud.state().groups.contains_key("sg-old"));
        } else {
            let why = world.refused(&web(&[])).await;
            assert!(why.contains("sg-old"), "{why}");
        }
    }
}

#[tokio::test]
async fn the_kind_of_a_load_balancer_does_not_change() {
    let classic = classic();
    for (first, second) in [(json!({}), classic.clone()), (classic, json!({}))] {
        let mut world = World::new(&settings());
        world.through(&step(&service("web", &first))).await;
        let before = describe(&world.cloud.state());
        let why = world.refused(&service("web", &second)).await;
        assert!(why.contains("cannot update Load Balancer Type annotation"), "{why}");
        assert_eq!(describe(&world.cloud.state()), before);
    }
}

#[tokio::test]
async fn families_that_cannot_be_had_are_refused_before_anything_is_made() {
    let world = World::new(&settings());
    let before = describe(&world.cloud.state());
    let classic = classic();
    let single = json!({"spec": {"ipFamilyPolicy": "SingleStack", "ipFamilies": ["IPv6"]}});
    let one = json!({"spec": {"ipFamilyPolicy": "RequireDualStack", "ipFamilies": ["IPv4"]}});
    for (change, message) in [(single.clone(), "single stack IPv6 is not supported"), (one, "requires 2 entries")] {
        assert!(world.refused(&service("web", &change)).await.contains(message));
    }
    for mut change in [single, dual("IPv4", "IPv6")] {
        change["metadata"] = classic["metadata"].clone();
        assert!(world.refused(&service("web", &change)).await.contains("does not support IPv6"));
    }
    assert_eq!(describe(&world.cloud.state()), before);
}

#[tokio::test]
async fn subnets_without_ipv6_are_skipped_or_named() {
    let mut world = World::new(&settings());
    world.cloud.change(|state| {
        state.subnets.iter_mut().filter(|one| one.id == "subnet-public-b").for_each(|one| one.ipv6.clear());
    });
    world.through(&step(&web(&[dual("IPv4", "IPv6")]))).await;
    let state = world.cloud.state();
    let subnets = &state.load_balancers.values().next().unwrap().load_balancer.subnets;
    assert_eq!(*subnets, ["subnet-public-a".to_owned(), "subnet-public-c".to_owned()].into());
    let mut explicit = dual("IPv4", "IPv6");
    explicit["metadata"] = annotated(&[("subnets", "subnet-public-a,subnet-public-b")])["metadata"].clone();
    let why = world.refused(&service("other", &explicit)).await;
    assert!(why.contains("subnet-public-b have no associated IPv6 CIDR block"), "{why}");
}

#[tokio::test]
async fn a_node_without_primary_ipv6_does_not_spoil_the_others() {
    let world = World::new(&settings());
    world.cloud.change(|state| {
        state.instances.get_mut("i-0001").unwrap().interfaces[0].primary_ipv6 = false;
    });
    let notes = notes(&world.aws);
    world.attempt(&web(&[dual("IPv6", "IPv4")]), 3).await.unwrap();
    let state = world.cloud.state();
    let group = state.target_groups.values().next().unwrap();
    assert_eq!(group.targets.len(), 2);
    assert!(notes.lock().iter().any(|note| note.message.contains("i-0001")));
}

#[tokio::test]
async fn more_rules_than_a_group_holds_are_refused_with_the_number() {
    let world = World::new(&settings());
    let ranges: Vec<String> = (0..31).map(|number| format!("10.{number}.0.0/16")).collect();
    let why = world.refused(&web(&[json!({"spec": {"loadBalancerSourceRanges": ranges}})])).await;
    assert!(why.contains("62 rules") && why.contains("60"), "{why}");
    assert!(world.cloud.state().load_balancers.is_empty());
    // Thirty ranges fit, and so does exchanging all of them: revoked first.
    let mut world = World::new(&settings());
    for second in [0, 100] {
        let ranges: Vec<String> = (0..30).map(|number| format!("10.{}.0.0/16", number + second)).collect();
        world.through(&step(&web(&[json!({"spec": {"loadBalancerSourceRanges": ranges}})]))).await;
        assert_eq!(managed(&world.cloud.state()).ingress.len(), 60);
    }
}

#[tokio::test]
async fn all_mistakes_are_told_in_one_go() {
    let world = World::new(&settings());
    let mut change = annotated(&[
        ("extra-security-groups", "sg-1"),
        ("healthcheck-port", "abc"),
        ("healthcheck-interval", "1"),
        ("target-group-attributes", "foo=bar"),
        ("access-log-enabled", "perhaps"),
    ]);
    change["spec"] = json!({"sessionAffinity": "ClientIP", "loadBalancerIP": "192.0.2.1",
        "ports": [{"port": 80, "nodePort": 30080, "protocol": "TCP"}, {"port": 80, "nodePort": 30053, "protocol": "UDP"},
            {"port": 132, "nodePort": 30132, "protocol": "SCTP"}]});
    let why = world.refused(&service("web", &change)).await;
    for part in [
        "BYO extra security group annotation",
        "Invalid health check port 'abc'",
        "from 5 to 300",
        "\"foo\" is not known",
        "access-log-enabled",
        "unsupported load balancer affinity: ClientIP",
        "LoadBalancerIP cannot be specified for AWS ELB",
        "Protocol SCTP not supported",
        "give both the same nodePort",
    ] {
        assert!(why.contains(part), "{part} in {why}");
    }
}

#[tokio::test]
async fn without_groups_nodes_are_opened_for_clients_and_checks_of_the_targets_family() {
    let ranged = |list: &[&str]| json!({"spec": {"loadBalancerSourceRanges": list}});
    let world = World::new(&unmanaged());
    world.attempt(&web(&[ranged(&["192.0.2.0/24"])]), 3).await.unwrap();
    let rules = shown(node_rules(&world.cloud.state()));
    assert!(rules.contains(&"tcp 30080 192.0.2.0/24".to_owned()), "{rules:?}");
    assert!(rules.contains(&"tcp 30080 10.0.0.0/24".to_owned()), "health checks: {rules:?}");
    assert!(!rules.iter().any(|rule| rule.contains("::")), "{rules:?}");
    let world = World::new(&unmanaged());
    world.attempt(&web(&[dual("IPv6", "IPv4")]), 3).await.unwrap();
    let rules = shown(node_rules(&world.cloud.state()));
    assert!(rules.contains(&"tcp 30080 ::/0".to_owned()) && rules.contains(&"icmpv6 2/0 ::/0".to_owned()), "{rules:?}");
    assert!(!rules.iter().any(|rule| rule.contains("0.0.0.0/0")), "{rules:?}");
}
