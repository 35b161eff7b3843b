//! Who else is in the account: other clusters, other controllers, other Services, and what administrators made themselves. Nobody gets in the
//! way of anybody.

use super::{
    emulated,
    leftovers::sweep_all,
    world::{
        World, balancer, classic, describe, gone, merged, nodes, notes, ports, ranges, shapes, shown, step, unmanaged,
        web,
    },
};
use aws::{
    account::{Peer, Protocol, Rule, Tags},
    apply::{Alive, Aws, owner},
    cloud_config::SharedProbe,
    memory::{
        Example, State,
        testing::{AT_ONCE, annotated, service, settings},
    },
    model::{Settings, names::Cluster},
};
use runtime::cloud::LoadBalancers;
use serde_json::Value;
use std::collections::BTreeSet;
use std::time::Instant;

fn node_rules(world: &World) -> Vec<String> {
    shown(&world.cloud.state().groups[Example::NODE_GROUP].ingress)
}

fn probed(settings: Settings) -> Settings {
    Settings { shared_probe: Some(SharedProbe { port: 10256, path: "/healthz".into() }), ..settings }
}

#[tokio::test]
async fn a_service_with_mistakes_keeps_no_door_of_others_open() {
    for shape in shapes() {
        let mut world = World::new(&probed(unmanaged()));
        let (open, narrow) =
            (web(std::slice::from_ref(&shape)), web(&[shape.clone(), ranges(&["192.0.2.0/24", "2001:db8:9::/48"])]));
        world.attempt(&open, 3).await.unwrap();
        let broken = service("broken", &annotated(&[("healthcheck-port", "abc")]));
        for one in [&open, &broken] {
            world.alive.insert(owner(one).key(), (one.clone(), 3));
        }
        // A process that knows nothing yet of the one with mistakes, and will not for as long as they are there.
        world.restart().await;
        world.refused(&broken).await;
        world.attempt(&narrow, 3).await.unwrap();
        let wide =
            |rule: &String| rule.starts_with("tcp 30080 ") && (rule.ends_with(" 0.0.0.0/0") || rule.ends_with(" ::/0"));
        assert!(!node_rules(&world).iter().any(wide), "{:?}", node_rules(&world));
        world.delete(&narrow).await.unwrap();
        assert!(!node_rules(&world).iter().any(|rule| rule.starts_with("tcp 30080 ")), "{:?}", node_rules(&world));
    }
}

#[tokio::test]
async fn rules_on_nodes_whose_group_has_no_tag_go_too() {
    let brought =
        annotated(&[("security-groups", Example::BROUGHT_GROUP), ("manage-backend-security-group-rules", "true")]);
    let elb = Settings { elb_group: Some(Example::OTHER_GROUP.to_owned()), ..settings() };
    let legacy = Tags::from([("KubernetesCluster".to_owned(), Example::CLUSTER.to_owned())]);
    for tags in [Tags::new(), legacy] {
        for shape in shapes() {
            let kinds = [
                (unmanaged(), shape.clone()),
                (settings(), merged(&[shape.clone(), brought.clone()])),
                (settings(), shape),
            ];
            for (settings, change) in kinds.into_iter().chain([(elb.clone(), classic()), (settings(), classic())]) {
                let mut world = World::new(&settings);
                world.cloud.change(|state| state.groups.get_mut(Example::NODE_GROUP).unwrap().tags.clone_from(&tags));
                let empty = describe(&world.cloud.state());
                world.through(&step(&service("web", &change))).await;
                assert!(!node_rules(&world).is_empty());
                world.restart().await;
                world.through(&gone()).await;
                assert_eq!(describe(&world.cloud.state()), empty, "{change}");
            }
        }
    }
}

#[tokio::test]
async fn tags_of_another_cluster_among_the_users_own_do_no_harm() {
    let tags = "kubernetes.io/cluster/other=owned,KubernetesCluster=other,team=a";
    for change in shapes().into_iter().chain([classic()]) {
        let service = web(&[change, annotated(&[("additional-resource-tags", tags)])]);
        let mut world = World::new(&settings());
        let empty = describe(&world.cloud.state());
        world.through(&step(&service)).await;
        world.restart().await;
        world.attempt(&service, 3).await.unwrap();
        let before = describe(&world.cloud.state());
        // The other cluster looks for its leftovers in the same account.
        let cluster = Cluster { id: "other".into(), ..settings().cluster };
        let other = Aws::new(emulated::account(&world.cloud), Settings { cluster, ..settings() });
        for _ in 0..3 {
            other.sweep(&Alive::default(), &AT_ONCE, Instant::now()).await.unwrap();
        }
        assert_eq!(describe(&world.cloud.state()), before);
        world.through(&gone()).await;
        assert_eq!(describe(&world.cloud.state()), empty);
    }
}

#[tokio::test]
async fn a_brought_group_with_all_of_our_tags_is_still_not_ours() {
    for shape in shapes() {
        let brought =
            annotated(&[("security-groups", Example::BROUGHT_GROUP), ("manage-backend-security-group-rules", "true")]);
        let service = web(&[shape, brought]);
        let mut world = World::new(&settings());
        world.cloud.change(|state| {
            let tags = &mut state.groups.get_mut(Example::BROUGHT_GROUP).unwrap().tags;
            tags.insert("kubernetes.io/cluster/example".into(), "owned".into());
            tags.insert("kubernetes.io/service-name".into(), "ns/web".into());
        });
        let empty = describe(&world.cloud.state());
        world.through(&step(&service)).await;
        let before = describe(&world.cloud.state());
        sweep_all(&world, &[&service]).await;
        assert_eq!(describe(&world.cloud.state()), before, "a sweep while it is in use");
        world.through(&gone()).await;
        sweep_all(&world, &[]).await;
        assert_eq!(describe(&world.cloud.state()), empty, "and when it is not");
    }
}

#[tokio::test]
async fn rules_of_another_cluster_on_nodes_that_two_clusters_share_stay() {
    let theirs = |cidr: &str, protocol: Protocol, description: &str| Rule {
        protocol,
        peer: Peer::Cidr(cidr.parse().unwrap()),
        description: description.to_owned(),
    };
    let rules: BTreeSet<Rule> = [
        theirs("198.51.100.0/24", Protocol::Tcp { from: 31000, to: 31000 }, "kubernetes.io/rule/nlb/client=atheirs"),
        theirs("198.51.100.0/24", Protocol::Icmp { kind: 3, code: 4 }, "kubernetes.io/rule/nlb/mtu"),
        theirs("2001:db8:f::/48", Protocol::Icmpv6 { kind: 2, code: 0 }, "kubernetes.io/rule/nlb/mtu"),
        theirs("10.0.0.0/24", Protocol::Tcp { from: 31001, to: 31001 }, "kubernetes.io/rule/nlb/health=atheirs"),
    ]
    .into();
    for settings in [settings(), unmanaged()] {
        for shape in shapes() {
            let mut world = World::new(&settings);
            world.cloud.change(|state| {
                let group = state.groups.get_mut(Example::NODE_GROUP).unwrap();
                group.tags =
                    ["example", "other"].map(|id| (format!("kubernetes.io/cluster/{id}"), "shared".into())).into();
                group.ingress.clone_from(&rules);
            });
            world.through(&step(&web(std::slice::from_ref(&shape)))).await;
            world.through(&step(&web(&[shape.clone(), ports(&[(80, 30081, "TCP")])]))).await;
            world.through(&gone()).await;
            let left = world.cloud.state().groups[Example::NODE_GROUP].ingress.clone();
            assert!(rules.is_subset(&left), "{:?}", shown(&left));
            let ours = |rule: &Rule| matches!(rule.protocol, Protocol::Tcp { from: 30080 | 30081, .. });
            assert!(!left.iter().any(ours), "{:?}", shown(&left));
        }
    }
}

#[tokio::test]
async fn a_managed_group_cannot_be_brought() {
    for shape in shapes() {
        let mut world = World::new(&settings());
        world.through(&step(&web(std::slice::from_ref(&shape)))).await;
        let before = describe(&world.cloud.state());
        let ids = balancer(&world.cloud.state()).load_balancer.security_groups.clone();
        assert_eq!(ids.len(), 2, "its own, and the one that load balancers share");
        for id in ids {
            let bring = annotated(&[("security-groups", &id)]);
            for name in ["web", "other"] {
                let why = world.refused(&service(name, &merged(&[shape.clone(), bring.clone()]))).await;
                assert!(why.contains(&id) && (why.contains("ns/web") || why.contains("share")), "{why}");
                assert_eq!(describe(&world.cloud.state()), before);
            }
        }
    }
}

#[tokio::test]
async fn a_load_balancer_of_an_older_service_of_the_same_name_does_not_hold_up_the_new_one() {
    for shape in shapes() {
        let mut world = World::new(&settings());
        world.attempt(&web(std::slice::from_ref(&shape)), 3).await.unwrap();
        // Its finalizer is taken away by force, and another Service comes with its name.
        world.restart().await;
        let mut new = web(&[shape, ports(&[(80, 30081, "TCP")])]);
        new.metadata.uid = Some("new-0000-1111-2222-333344445555".into());
        world.attempt(&new, 3).await.unwrap();
        let serves = |state: &State| {
            state.load_balancers.values().any(|held| held.load_balancer.name == owner(&new).load_balancer())
        };
        assert!(serves(&world.cloud.state()));
        sweep_all(&world, &[&new]).await;
        let state = world.cloud.state();
        assert!(serves(&state) && state.load_balancers.len() == 1, "the old one goes");
        world.thorough();
        world.through(&step(&new)).await;
        assert_eq!(world.cloud.state().target_groups.len(), 1, "with its target group");
    }
}

#[tokio::test]
async fn one_leftover_that_cannot_go_does_not_keep_the_others() {
    for change in shapes() {
        let world = World::new(&settings());
        let with = |port: u16| merged(&[change.clone(), ports(&[(80, port, "TCP")])]);
        let (stuck, free) = (service("a-stuck", &with(30001)), service("b-free", &with(30002)));
        for one in [&stuck, &free] {
            world.attempt(one, 3).await.unwrap();
        }
        world.cloud.change(|state| {
            let name = owner(&stuck).load_balancer();
            for held in state.load_balancers.values_mut().filter(|held| held.load_balancer.name == name) {
                held.attributes.insert("deletion_protection.enabled".into(), "true".into());
            }
        });
        let mut told_of = false;
        for _ in 0..8 {
            told_of |= world.aws.sweep(&Alive::default(), &AT_ONCE, Instant::now()).await.is_err();
            let _ = world.aws.remove_waiting().await;
        }
        assert!(told_of, "somebody learns of it");
        let state = world.cloud.state();
        assert_eq!(balancer(&state).load_balancer.name, owner(&stuck).load_balancer());
        assert_eq!(state.target_groups.len(), 1);
        assert!(!state.groups.values().any(|group| group.name == owner(&free).network_group("kubernetes")));
    }
}

#[tokio::test]
async fn the_group_of_all_classic_load_balancers_is_not_edited_even_if_nodes_have_it() {
    let elb = Settings { elb_group: Some(Example::NODE_GROUP.to_owned()), ..settings() };
    let mut world = World::new(&elb);
    let before = world.cloud.state().groups[Example::NODE_GROUP].clone();
    world.through(&step(&web(&[classic()]))).await;
    assert_eq!(world.cloud.state().groups[Example::NODE_GROUP], before);
    world.through(&gone()).await;
    assert_eq!(world.cloud.state().groups[Example::NODE_GROUP], before);
}

#[tokio::test]
async fn it_is_told_when_there_is_no_node_and_when_ranges_do_not_hold() {
    for shape in shapes() {
        let world = World::new(&settings());
        let notes = notes(&world.aws);
        let service = web(&[shape]);
        world.attempt(&service, 0).await.unwrap();
        let count = || notes.lock().iter().filter(|note| note.reason == "UnAvailableLoadBalancer").count();
        assert_eq!(count(), 1);
        world.aws.update_nodes(&service, &nodes(2)).await.unwrap();
        assert_eq!(count(), 1);
        world.aws.update_nodes(&service, &[]).await.unwrap();
        assert_eq!(count(), 2, "again, when it is so again");
    }
    // Without a group, clients of the family that no range names come through the load balancer's own addresses.
    let [_, four, six] = shapes();
    for (shape, range) in [(four, "0.0.0.0/0"), (six, "::/0")] {
        let world = World::new(&unmanaged());
        let notes = notes(&world.aws);
        world.attempt(&web(&[shape, ranges(&[range])]), 3).await.unwrap();
        assert!(notes.lock().iter().any(|note| note.reason == "SourceRangesNotEnforced"), "{:?}", notes.lock());
    }
}

/// Changes of a Service that leave nothing behind, not even until the next sweep.
#[tokio::test]
async fn packets_that_are_too_big_are_announced_only_by_those_who_may_connect() {
    for shape in shapes() {
        let world = World::new(&unmanaged());
        let sources = |four: &str, six: &str| web(&[shape.clone(), ranges(&[four, six])]);
        world.attempt(&sources("192.0.2.0/24", "2001:db8:1::/48"), 3).await.unwrap();
        world.attempt(&sources("198.51.100.0/24", "2001:db8:2::/48"), 3).await.unwrap();
        let old = |rule: &String| rule.contains("192.0.2.0/24") || rule.contains("2001:db8:1::/48");
        assert!(!node_rules(&world).iter().any(old), "{:?}", node_rules(&world));
    }
}

#[tokio::test]
async fn what_leads_to_the_old_node_port_closes_after_the_listener_has_moved() {
    for shape in shapes() {
        let mut world = World::new(&settings());
        world.through(&step(&web(std::slice::from_ref(&shape)))).await;
        world.cloud.take_calls();
        world.attempt(&web(&[shape.clone(), ports(&[(80, 30081, "TCP")])]), 3).await.unwrap();
        let calls: Vec<&str> = world.cloud.take_calls().iter().map(|call| call.action).collect();
        let at = |name: &str| calls.iter().position(|call| call.ends_with(name)).unwrap();
        let (open, moved, close) =
            (at(":AuthorizeSecurityGroupEgress"), at(":ModifyListener"), at(":RevokeSecurityGroupEgress"));
        assert!(open < moved && moved < close, "{calls:?}");
        // Who may connect is another matter: that closes first.
        world.attempt(&web(&[shape.clone(), ports(&[(81, 30081, "TCP")])]), 3).await.unwrap();
        let calls: Vec<&str> = world.cloud.take_calls().iter().map(|call| call.action).collect();
        let at = |name: &str| calls.iter().position(|call| call.ends_with(name)).unwrap();
        assert!(at(":RevokeSecurityGroupIngress") < at(":DeleteListener"), "{calls:?}");
    }
}

#[tokio::test]
async fn many_ports_lead_to_the_subnets_of_nodes_where_there_is_no_room_for_all() {
    let list: Vec<(u16, u16, &str)> = (0..18).map(|number| (8000 + number, 30000 + number, "TCP")).collect();
    for shape in shapes() {
        let off = Settings { disable_node_rules: true, ..settings() };
        let mut world = World::new(&off);
        world.through(&step(&web(&[shape, ports(&list)]))).await;
        let state = world.cloud.state();
        let id = balancer(&state).load_balancer.security_groups.first().unwrap().clone();
        let egress = shown(&state.groups[&id].egress);
        assert_eq!(egress.len(), 18 * 3 * 2);
        assert!(egress.iter().any(|rule| rule == "tcp 30000 10.0.100.0/24"), "{egress:?}");
        assert!(!egress.iter().any(|rule| rule == "tcp 30000 10.0.0.0/24"), "{egress:?}");
    }
}

fn subnets(list: &str) -> Value {
    annotated(&[("subnets", list)])
}

#[tokio::test]
async fn a_classic_load_balancer_moves_to_another_subnet_of_the_same_zone() {
    let world = World::new(&settings());
    for list in
        ["subnet-public-a,subnet-public-b", "subnet-private-a,subnet-public-b", "subnet-private-b", "subnet-public-c"]
    {
        world.attempt(&web(&[classic(), subnets(list)]), 3).await.unwrap();
        let has = world.cloud.state().classic.values().next().unwrap().load_balancer.subnets.clone();
        assert_eq!(has, list.split(',').map(str::to_owned).collect());
    }
}

#[tokio::test]
async fn a_check_never_waits_longer_than_until_the_next_one() {
    let steps: &[(&[(&str, &str)], i32)] = &[
        (&[], 10),
        (&[("healthcheck-interval", "5")], 5),
        (&[("healthcheck-timeout", "40"), ("healthcheck-interval", "40")], 40),
        (&[("healthcheck-protocol", "HTTP"), ("healthcheck-interval", "8")], 6),
        (&[("healthcheck-protocol", "HTTPS")], 10),
        (&[], 10),
    ];
    for shape in shapes() {
        let mut world = World::new(&settings());
        for (pairs, timeout) in steps {
            world.through(&step(&web(&[shape.clone(), annotated(pairs)]))).await;
            let state = world.cloud.state();
            let check = &state.target_groups.values().next().unwrap().group.health_check;
            assert_eq!(check.timeout, Some(*timeout), "{pairs:?}");
        }
        let long = annotated(&[("healthcheck-timeout", "31")]);
        let why = world.refused(&web(&[shape, long])).await;
        assert!(why.contains("healthcheck-timeout: 31 seconds are more than the 30 between two checks"), "{why}");
    }
    let mut world = World::new(&settings());
    world.through(&step(&web(&[classic(), annotated(&[("healthcheck-interval", "5")])]))).await;
    let check = world.cloud.state().classic.values().next().unwrap().load_balancer.health_check.clone().unwrap();
    assert_eq!((check.interval, check.timeout), (5, 4));
    let why = world.refused(&web(&[classic(), annotated(&[("healthcheck-timeout", "10")])])).await;
    assert!(why.contains("healthcheck-timeout: 10 seconds"), "{why}");
}

#[tokio::test]
async fn a_managed_load_balancer_that_goes_takes_nothing_from_another() {
    for shape in shapes() {
        let world = World::new(&settings());
        let with = |port: u16| merged(&[shape.clone(), ports(&[(80, port, "TCP")])]);
        let (one, two) = (service("one", &with(30001)), service("two", &with(30002)));
        world.attempt(&one, 3).await.unwrap();
        let alone = describe(&world.cloud.state());
        world.attempt(&two, 3).await.unwrap();
        world.attempt(&service("two", &with(30003)), 3).await.unwrap();
        world.delete(&two).await.unwrap();
        while world.aws.remove_waiting().await.unwrap() > 0 {}
        assert_eq!(describe(&world.cloud.state()), alone);
    }
}
