//! What somebody changed by hand: the next look puts right what is ours, and leaves alone what is not.

use super::world::{World, classic, describe, gone, merged, nodes, ports, shapes, step, web};
use aws::{
    account::{IpAddressType, Peer, Protocol, Rule, Tags},
    memory::{
        Example, State,
        testing::{annotated, service, settings},
    },
    model::Settings,
};
use runtime::cloud::LoadBalancers;
use serde_json::Value;
use std::time::Duration;

const SERVICE_TAG: &str = "kubernetes.io/service-name";

/// Two ports, one of them TLS with two certificates, tags and attributes of the user's.
fn everything() -> Value {
    let certificates = [Example::CERTIFICATE, Example::OTHER_CERTIFICATE].join(",");
    merged(&[
        ports(&[(80, 30080, "TCP"), (443, 30443, "TCP")]),
        annotated(&[
            ("ssl-cert", &certificates),
            ("ssl-ports", "443"),
            ("cross-zone-load-balancing-enabled", "true"),
            ("target-group-attributes", "proxy_protocol_v2.enabled=true"),
            ("additional-resource-tags", "team=a"),
        ]),
    ])
}

fn rule(cidr: &str) -> Rule {
    let peer = Peer::Cidr(cidr.parse().unwrap());
    Rule { protocol: Protocol::Tcp { from: 22, to: 22 }, peer, description: String::new() }
}

fn group_id(state: &State, prefix: &str) -> String {
    state.groups.values().find(|group| group.name.starts_with(prefix)).unwrap().id.clone()
}

pub(crate) fn managed_id(state: &State) -> String {
    group_id(state, "k8s-ns-")
}

/// Of the one that load balancers share.
fn shared_id(state: &State) -> String {
    group_id(state, "k8s-backend-")
}

type Change = fn(&mut State);

/// What a glance sees: listeners, health checks, families, subnets, groups and their rules.
const SEEN_AT_A_GLANCE: &[(&str, Change)] = &[
    ("a listener is gone", |state| {
        state.listeners.pop_first();
    }),
    ("a listener is added", |state| {
        let mut held = state.listeners.values().next().unwrap().clone();
        held.listener.arn.push_str("/by-hand");
        held.listener.settings.port = 8080;
        held.certificates.clear();
        state.listeners.insert(held.listener.arn.clone(), held);
    }),
    ("a listener leads elsewhere", |state| {
        let groups: Vec<String> = state.target_groups.keys().cloned().collect();
        for held in state.listeners.values_mut() {
            let other = groups.iter().find(|arn| **arn != held.listener.settings.target_group);
            held.listener.settings.target_group = other.unwrap().clone();
        }
    }),
    ("a listener leads to somebody else's target group", |state| {
        let mut foreign = state.target_groups.values().next().unwrap().clone();
        foreign.group.arn.push_str("/foreign");
        foreign.group.name = "foreign".into();
        foreign.tags = Tags::from([("team".to_owned(), "b".to_owned())]);
        let old = foreign.group.arn.trim_end_matches("/foreign").to_owned();
        for held in state.listeners.values_mut().filter(|held| held.listener.settings.target_group == old) {
            held.listener.settings.target_group.clone_from(&foreign.group.arn);
        }
        state.target_groups.insert(foreign.group.arn.clone(), foreign);
    }),
    ("a health check is changed", |state| {
        for held in state.target_groups.values_mut() {
            held.group.health_check.interval = 300;
            held.group.health_check.port = "1".into();
        }
    }),
    ("the certificate is changed", |state| {
        for held in state.listeners.values_mut().filter(|held| held.listener.settings.protocol == "TLS") {
            held.listener.settings.certificate = Some(Example::OTHER_CERTIFICATE.to_owned());
        }
    }),
    ("groups are exchanged", |state| {
        for held in state.load_balancers.values_mut() {
            held.load_balancer.security_groups = [Example::OTHER_GROUP.to_owned()].into();
        }
    }),
    ("rules are added to the managed group", |state| {
        let id = managed_id(state);
        let group = state.groups.get_mut(&id).unwrap();
        for cidr in ["203.0.113.0/24", "2001:db8:f::/48"] {
            group.ingress.insert(rule(cidr));
            group.egress.insert(rule(cidr));
        }
    }),
    ("rules are added to the shared group", |state| {
        let id = shared_id(state);
        let group = state.groups.get_mut(&id).unwrap();
        for cidr in ["203.0.113.0/24", "2001:db8:f::/48"] {
            group.ingress.insert(rule(cidr));
            group.egress.insert(rule(cidr));
        }
    }),
    ("the shared group is taken off", |state| {
        let id = shared_id(state);
        state.load_balancers.values_mut().for_each(|held| held.load_balancer.security_groups.retain(|one| *one != id));
    }),
    ("the shared group is gone", |state| {
        let id = shared_id(state);
        state.groups.remove(&id);
        state.load_balancers.values_mut().for_each(|held| held.load_balancer.security_groups.retain(|one| *one != id));
        state.groups.get_mut(Example::NODE_GROUP).unwrap().ingress.clear();
    }),
    ("rules of the managed group are gone", |state| {
        let id = managed_id(state);
        let group = state.groups.get_mut(&id).unwrap();
        group.ingress.clear();
        group.egress.clear();
    }),
    ("the managed group lost its tags", |state| {
        let id = managed_id(state);
        state.groups.get_mut(&id).unwrap().tags.clear();
    }),
    ("rules of the nodes are gone", |state| {
        state.groups.get_mut(Example::NODE_GROUP).unwrap().ingress.clear();
    }),
    ("the load balancer is gone", |state| {
        state.load_balancers.clear();
        state.listeners.clear();
    }),
    ("the target groups are gone", |state| {
        state.listeners.clear();
        state.target_groups.clear();
    }),
];

/// What only a thorough look sees: attributes, tags, targets, further certificates.
const SEEN_BY_A_CLOSE_LOOK: &[(&str, Change)] = &[
    ("attributes of the load balancer", |state| {
        for held in state.load_balancers.values_mut() {
            held.attributes.insert("load_balancing.cross_zone.enabled".into(), "false".into());
        }
    }),
    ("attributes of the target groups", |state| {
        for held in state.target_groups.values_mut() {
            held.attributes.insert("proxy_protocol_v2.enabled".into(), "false".into());
        }
    }),
    ("targets are gone", |state| {
        for held in state.target_groups.values_mut() {
            held.targets.pop_first();
        }
    }),
    ("targets are added", |state| {
        for held in state.target_groups.values_mut() {
            let mut target = held.targets.first().unwrap().clone();
            target.instance = "i-0005".into();
            held.targets.insert(target);
        }
    }),
    ("the user's tags are gone", |state| {
        state.load_balancers.values_mut().for_each(|held| drop(held.tags.remove("team")));
        state.listeners.values_mut().for_each(|held| drop(held.tags.remove("team")));
        state.target_groups.values_mut().for_each(|held| drop(held.tags.remove("team")));
        let id = managed_id(state);
        state.groups.get_mut(&id).unwrap().tags.remove("team");
    }),
    ("our tags are gone", |state| {
        state.load_balancers.values_mut().for_each(|held| held.tags.clear());
        state.listeners.values_mut().for_each(|held| held.tags.clear());
        state.target_groups.values_mut().for_each(|held| held.tags.clear());
    }),
    ("a tag has another value", |state| {
        state.load_balancers.values_mut().for_each(|held| drop(held.tags.insert("team".into(), "b".into())));
    }),
    ("the second certificate is gone", |state| {
        state.listeners.values_mut().for_each(|held| held.certificates.clear());
    }),
    ("a certificate is added", |state| {
        let third = "arn:aws:acm:us-east-1:1:certificate/3";
        state.certificates.insert(third.to_owned());
        for held in state.listeners.values_mut().filter(|held| held.listener.settings.protocol == "TLS") {
            held.certificates.insert(third.to_owned());
        }
    }),
];

fn foreign_removed(state: &mut State) {
    state.target_groups.retain(|_, held| held.group.name != "foreign");
}

#[tokio::test]
async fn what_was_changed_by_hand_is_put_right() {
    for shape in shapes() {
        for (close, cases) in [(false, SEEN_AT_A_GLANCE), (true, SEEN_BY_A_CLOSE_LOOK)] {
            for (what, change) in cases {
                let service = service("web", &merged(&[shape.clone(), everything()]));
                let mut world = World::new(&settings());
                let empty = describe(&world.cloud.state());
                world.through(&step(&service)).await;
                let before = describe(&world.cloud.state());
                if close {
                    world.thorough();
                    world.attempt(&service, 3).await.unwrap();
                }
                world.cloud.change(change);
                assert_ne!(describe(&world.cloud.state()), before, "{what}: a change that can be seen");
                world.attempt(&service, 3).await.unwrap();
                world.tidy().await;
                world.cloud.change(foreign_removed);
                assert_eq!(describe(&world.cloud.state()), before, "{what}");
                world.through(&gone()).await;
                assert_eq!(describe(&world.cloud.state()), empty, "{what}: after deletion");
            }
        }
    }
}

#[tokio::test]
async fn a_glance_does_not_look_closely_and_a_close_look_comes_again() {
    let service = service("web", &everything());
    let mut world = World::new(&settings());
    world.through(&step(&service)).await;
    world.attempt(&service, 3).await.unwrap();
    let before = describe(&world.cloud.state());
    let (_, change) = SEEN_BY_A_CLOSE_LOOK[0];
    world.cloud.change(change);
    world.attempt(&service, 3).await.unwrap();
    assert_ne!(describe(&world.cloud.state()), before, "not seen at a glance");
    world.thorough();
    world.attempt(&service, 3).await.unwrap();
    assert_eq!(describe(&world.cloud.state()), before);
    world.cloud.take_calls();
    world.attempt(&service, 3).await.unwrap();
    let calls = world.cloud.take_calls();
    assert!(calls.iter().all(|call| !call.write), "{calls:?}");
    let looks = calls.iter().filter(|call| call.action.ends_with(":DescribeLoadBalancers")).count();
    assert_eq!(looks, 1, "a close look that finds nothing is not made twice: {calls:?}");
    assert!(world.aws.look_again().is_some_and(|every| every > Duration::ZERO));
}

#[tokio::test]
async fn what_is_not_ours_stays_as_it_was_left() {
    for shape in shapes() {
        let service = service("web", &merged(&[shape, everything()]));
        let mut world = World::new(&settings());
        world.through(&step(&service)).await;
        world.thorough();
        world.cloud.change(|state| {
            let nodes = state.groups.get_mut(Example::NODE_GROUP).unwrap();
            nodes.ingress.extend(["203.0.113.0/24", "2001:db8:f::/48"].map(rule));
            nodes.tags.insert("mine".into(), "yes".into());
            state.groups.get_mut(Example::OTHER_GROUP).unwrap().ingress.insert(rule("198.51.100.0/24"));
            for held in state.load_balancers.values_mut() {
                held.tags.insert("cost-center".into(), "42".into());
                held.attributes.insert("deletion_protection.enabled".into(), "true".into());
            }
            for held in state.target_groups.values_mut() {
                held.tags.insert("cost-center".into(), "42".into());
                held.attributes.insert("deregistration_delay.timeout_seconds".into(), "10".into());
            }
        });
        let before = describe(&world.cloud.state());
        world.attempt(&service, 3).await.unwrap();
        world.aws.update_nodes(&service, &nodes(3)).await.unwrap();
        assert_eq!(describe(&world.cloud.state()), before);
    }
}

#[tokio::test]
async fn somebody_elses_target_group_is_neither_tagged_nor_deleted() {
    for shape in shapes() {
        for other in ["other/web", "ns/other"] {
            let service = service("web", &shape);
            let mut world = World::new(&settings());
            world.through(&step(&service)).await;
            world.cloud.change(|state| {
                let (_, lead) = SEEN_AT_A_GLANCE[3];
                lead(state);
                let foreign = state.target_groups.values_mut().find(|held| held.group.name == "foreign").unwrap();
                foreign.tags.insert(SERVICE_TAG.into(), other.to_owned());
                foreign.tags.insert("kubernetes.io/cluster/example".into(), "owned".into());
            });
            let foreign = |world: &World| {
                let state = world.cloud.state();
                state.target_groups.into_values().find(|held| held.group.name == "foreign")
            };
            let before = foreign(&world);
            world.attempt(&service, 3).await.unwrap();
            assert_eq!(foreign(&world), before);
            world.delete(&service).await.unwrap();
            assert_eq!(foreign(&world), before);
        }
    }
}

#[tokio::test]
async fn a_load_balancer_that_lost_its_family_or_a_zone_gets_it_back() {
    // One with IPv6 targets cannot lose a family: AWS refuses it.
    let dual = web(&[shapes()[1].clone()]);
    let mut world = World::new(&settings());
    world.through(&step(&dual)).await;
    let before = describe(&world.cloud.state());
    world.cloud.change(|state| {
        for held in state.load_balancers.values_mut() {
            held.load_balancer.ip_address_type = IpAddressType::Ipv4;
        }
    });
    world.attempt(&dual, 3).await.unwrap();
    assert_eq!(describe(&world.cloud.state()), before);
    let zones = annotated(&[("subnets", "subnet-public-a,subnet-public-b")]);
    let service = service("web", &zones);
    let mut world = World::new(&settings());
    world.through(&step(&service)).await;
    let before = describe(&world.cloud.state());
    world.cloud.change(|state| {
        for held in state.load_balancers.values_mut() {
            held.load_balancer.subnets.pop_first();
        }
    });
    world.attempt(&service, 3).await.unwrap();
    assert_eq!(describe(&world.cloud.state()), before);
}

#[tokio::test]
async fn a_classic_load_balancer_is_put_right_too() {
    let change = merged(&[
        classic(),
        ports(&[(80, 30080, "TCP"), (443, 30443, "TCP")]),
        annotated(&[
            ("proxy-protocol", "*"),
            ("connection-idle-timeout", "90"),
            ("additional-resource-tags", "team=a"),
        ]),
    ]);
    let cases: &[(&str, Change)] = &[
        ("a listener is gone", |state| {
            state.classic.values_mut().for_each(|held| drop(held.load_balancer.listeners.remove(&80)));
        }),
        ("the health check", |state| {
            state.classic.values_mut().for_each(|held| held.load_balancer.health_check = None);
        }),
        ("the PROXY policy", |state| {
            state.classic.values_mut().for_each(|held| held.load_balancer.backend_policies.clear());
        }),
        ("attributes", |state| {
            state.classic.values_mut().for_each(|held| held.attributes.idle_timeout = 60);
        }),
        ("tags", |state| {
            state.classic.values_mut().for_each(|held| drop(held.tags.remove("team")));
        }),
        ("instances", |state| {
            state.classic.values_mut().for_each(|held| drop(held.load_balancer.instances.pop_first()));
        }),
        ("rules of the group", |state| {
            for group in state.groups.values_mut().filter(|group| group.name.starts_with("k8s-elb-")) {
                group.ingress.clear();
            }
        }),
    ];
    let settings = Settings { ..settings() };
    for (what, by_hand) in cases {
        let service = service("web", &change);
        let mut world = World::new(&settings);
        world.through(&step(&service)).await;
        let before = describe(&world.cloud.state());
        world.thorough();
        world.cloud.change(by_hand);
        assert_ne!(describe(&world.cloud.state()), before, "{what}: a change that can be seen");
        world.attempt(&service, 3).await.unwrap();
        assert_eq!(describe(&world.cloud.state()), before, "{what}");
    }
}
