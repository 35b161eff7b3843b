//! From one state of a Service to another: security groups (each row of the table), scheme, certificates, protocols, modes.

use super::{
    drift::managed_id,
    world::{
        World, balancer, classic, describe, gone, merged, notes, ports, ranges, shapes, shown, step, unmanaged, web,
    },
};
use aws::{
    account::{Peer, Protocol, Rule, Scheme},
    apply::owner,
    memory::{
        Example, Fault, State,
        testing::{annotated, settings},
    },
};
use net::Family;
use runtime::cloud::CloudError;
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// A port, its node port, its protocol.
type Port<'a> = (u16, u16, &'a str);

fn brought(ids: &str) -> Value {
    annotated(&[("security-groups", ids)])
}

fn attached(world: &World) -> BTreeSet<String> {
    let state = world.cloud.state();
    let names = balancer(&state).load_balancer.security_groups.iter().map(|id| state.groups[id].name.clone());
    let (shared, others): (BTreeSet<String>, BTreeSet<String>) =
        names.partition(|name| name.starts_with("k8s-backend-"));
    assert_eq!(shared.len(), usize::from(others.contains(&own_name())), "managed ones share another");
    others
}

fn set(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

fn own_name() -> String {
    owner(&web(&[])).network_group("kubernetes")
}

fn has_own(world: &World) -> bool {
    world.cloud.state().groups.values().any(|group| group.name == own_name())
}

fn node_rules(state: &State) -> &BTreeSet<Rule> {
    &state.groups[Example::NODE_GROUP].ingress
}

/// A rule of the administrator's on the nodes, about a group that is brought.
fn mine() -> Rule {
    Rule {
        protocol: Protocol::Tcp { from: 9100, to: 9100 },
        peer: Peer::Group(Example::BROUGHT_GROUP.to_owned()),
        description: "mine".to_owned(),
    }
}

#[tokio::test]
async fn every_row_of_the_table_of_security_groups() {
    let own = own_name();
    let (both, other) = ([Example::BROUGHT_GROUP, Example::OTHER_GROUP].join(","), Example::OTHER_GROUP);
    /// What the Service brings first and then, and what the load balancer has after each.
    type Row<'a> = (Option<&'a str>, &'a [&'a str], Option<&'a str>, &'a [&'a str]);
    let rows: &[Row<'_>] = &[
        (None, &[&own], None, &[&own]),
        (Some(Example::BROUGHT_GROUP), &["brought"], Some(Example::BROUGHT_GROUP), &["brought"]),
        (None, &[&own], Some(Example::BROUGHT_GROUP), &["brought"]),
        (Some(Example::BROUGHT_GROUP), &["brought"], None, &[&own]),
        (Some(Example::BROUGHT_GROUP), &["brought"], Some(other), &["other"]),
        (Some(Example::BROUGHT_GROUP), &["brought"], Some(&both), &["brought", "other"]),
        (Some(&both), &["brought", "other"], Some(other), &["other"]),
    ];
    for shape in shapes() {
        for (first, has_first, second, has_second) in rows {
            let mut world = World::new(&settings());
            world.cloud.change(|state| {
                state.groups.get_mut(Example::NODE_GROUP).unwrap().ingress.insert(mine());
            });
            let start = world.cloud.state();
            let change = |ids: &Option<&str>| ids.map(brought).unwrap_or_else(|| json!({}));
            world.through(&step(&web(&[shape.clone(), change(first)]))).await;
            assert_eq!(attached(&world), set(has_first), "{first:?}");
            world.through(&step(&web(&[shape.clone(), change(second)]))).await;
            assert_eq!(attached(&world), set(has_second), "{first:?} to {second:?}");
            assert_eq!(has_own(&world), second.is_none(), "{first:?} to {second:?}: the managed group");
            let shared = world.cloud.state().groups.values().any(|group| group.name.starts_with("k8s-backend-"));
            assert_eq!(shared, second.is_none(), "{first:?} to {second:?}: the group that load balancers share");
            let state = world.cloud.state();
            for id in [Example::BROUGHT_GROUP, Example::OTHER_GROUP] {
                assert_eq!(state.groups[id], start.groups[id], "what is brought is not touched");
            }
            assert!(node_rules(&state).contains(&mine()), "{first:?} to {second:?}: the administrator's rule stays");
            world.through(&gone()).await;
            assert_eq!(describe(&world.cloud.state()), describe(&start));
        }
    }
}

#[tokio::test]
async fn switching_the_mode_off_keeps_what_is_attached_and_deletion_still_takes_it() {
    for shape in shapes() {
        for ids in [None, Some(Example::BROUGHT_GROUP)] {
            let change = ids.map(brought).unwrap_or_else(|| json!({}));
            let mut world = World::new(&settings());
            let empty = describe(&world.cloud.state());
            world.through(&step(&web(&[shape.clone(), change.clone()]))).await;
            let (has, rules) = (attached(&world), world.cloud.state().groups.clone());
            world.set(&unmanaged()).await;
            let notes = notes(&world.aws);
            world.through(&step(&web(&[shape.clone(), change.clone()]))).await;
            assert_eq!(attached(&world), has, "kept");
            for (id, group) in rules.iter().filter(|(id, _)| *id != Example::NODE_GROUP) {
                assert_eq!(world.cloud.state().groups[id], *group, "its rules are left as they are");
            }
            let told_of = if ids.is_none() { "SecurityGroupsNotManaged" } else { "SecurityGroupsIgnored" };
            assert!(notes.lock().iter().any(|note| note.reason == told_of), "{:?}", notes.lock());
            world.set(&settings()).await;
            world.through(&step(&web(&[shape.clone(), change]))).await;
            assert_eq!(attached(&world), has, "and looked after again");
            world.set(&unmanaged()).await;
            world.through(&gone()).await;
            assert_eq!(describe(&world.cloud.state()), empty);
        }
    }
}

#[tokio::test]
async fn groups_that_cannot_be_had_are_refused_before_anything_is_made() {
    let world = World::new(&settings());
    world.cloud.change(|state| state.groups.get_mut(Example::OTHER_GROUP).unwrap().vpc = "vpc-2".into());
    let before = describe(&world.cloud.state());
    for shape in shapes() {
        let why = world.refused(&web(&[shape.clone(), brought(Example::OTHER_GROUP)])).await;
        assert!(why.contains("sg-other is in vpc-2, and the load balancer in vpc-1"), "{why}");
        let Err(CloudError::Failed(why)) = world.attempt(&web(&[shape.clone(), brought("sg-none")]), 3).await else {
            panic!("a group may have been made a moment ago: tried again")
        };
        assert!(why.to_string().contains("sg-none is not there"), "{why}");
        let why = world.refused(&web(&[shape.clone(), brought("sg-1,sg-2,sg-3,sg-4,sg-5,sg-6")])).await;
        assert!(why.contains("6 groups; a load balancer takes up to 5"), "{why}");
        let why = world.refused(&web(&[shape, brought("brought")])).await;
        assert!(why.contains("\"brought\" is no security group id"), "{why}");
    }
    assert_eq!(describe(&world.cloud.state()), before);
}

#[tokio::test]
async fn who_writes_rules_for_groups_that_are_brought() {
    let by_group = format!("tcp 30080 {}", Example::BROUGHT_GROUP);
    for shape in shapes() {
        let primary = if shape["spec"]["ipFamilies"][0] == "IPv6" { Family::V6 } else { Family::V4 };
        let (open, too_big) = match primary {
            Family::V4 => ("tcp 30080 0.0.0.0/0", "icmp 3/4"),
            Family::V6 => ("tcp 30080 ::/0", "icmpv6 2/0"),
        };
        for (value, has_group, has_range, any) in
            [(None, false, true, true), (Some("true"), true, false, true), (Some("false"), false, false, false)]
        {
            let mut change = brought(Example::BROUGHT_GROUP);
            if let Some(value) = value {
                let manage = annotated(&[("manage-backend-security-group-rules", value)]);
                change = merged(&[change, manage]);
            }
            let mut world = World::new(&settings());
            world.through(&step(&web(&[shape.clone(), change]))).await;
            let rules = shown(node_rules(&world.cloud.state()));
            assert_eq!(rules.contains(&by_group), has_group, "{value:?} {rules:?}");
            assert_eq!(rules.iter().any(|rule| rule == open), has_range, "{value:?} {rules:?}");
            assert_eq!(rules.iter().any(|rule| rule.starts_with(too_big)), any, "{value:?} {rules:?}");
            assert_eq!(!rules.is_empty(), any);
        }
    }
}

#[tokio::test]
async fn ports_come_and_go_in_the_group_and_on_the_nodes() {
    let web_ports: &[&[Port<'_>]] = &[
        &[(80, 30080, "TCP")],
        &[(80, 30080, "TCP"), (443, 30443, "TCP")],
        &[(53, 30053, "UDP")],
        &[(53, 30053, "TCP"), (53, 30053, "UDP"), (80, 30080, "TCP")],
        &[(443, 30443, "TCP")],
    ];
    for shape in shapes() {
        let mut world = World::new(&settings());
        for list in web_ports {
            world.through(&step(&web(&[shape.clone(), ports(list)]))).await;
            let state = world.cloud.state();
            let group = state.groups.values().find(|group| group.name == own_name()).unwrap();
            let families: &[&str] = if shape == json!({}) { &["0.0.0.0/0"] } else { &["0.0.0.0/0", "::/0"] };
            let mut expected: BTreeSet<String> = BTreeSet::new();
            for range in families {
                expected.insert(format!("{} {range}", if *range == "::/0" { "icmpv6 2/0" } else { "icmp 3/4" }));
                expected.extend(list.iter().map(|(port, _, kind)| format!("{} {port} {range}", kind.to_lowercase())));
            }
            assert_eq!(shown(&group.ingress).into_iter().collect::<BTreeSet<_>>(), expected);
            // Nodes let in what load balancers share, whatever the ports are.
            let shared = state.groups.values().find(|group| group.name.starts_with("k8s-backend-")).unwrap();
            let protocols = ["tcp 0-65535", "udp 0-65535", "icmp 3/4", "icmpv6 2/0"];
            let on_nodes: BTreeSet<String> = protocols.map(|protocol| format!("{protocol} {}", shared.id)).into();
            assert_eq!(shown(node_rules(&state)).into_iter().collect::<BTreeSet<_>>(), on_nodes);
        }
    }
}

#[tokio::test]
async fn tls_opens_tcp() {
    let tls = annotated(&[("ssl-cert", Example::CERTIFICATE), ("ssl-ports", "p443tcp")]);
    for shape in shapes() {
        let mut world = World::new(&settings());
        world.through(&step(&web(&[shape, ports(&[(80, 30080, "TCP"), (443, 30443, "TCP")]), tls.clone()]))).await;
        let state = world.cloud.state();
        let group = state.groups.values().find(|group| group.name == own_name()).unwrap();
        assert!(shown(&group.ingress).contains(&"tcp 443 0.0.0.0/0".to_owned()));
        let protocols: Vec<&str> =
            state.listeners.values().map(|held| held.listener.settings.protocol.as_str()).collect();
        assert_eq!(protocols.iter().collect::<BTreeSet<_>>(), [&"TCP", &"TLS"].into());
    }
}

#[tokio::test]
async fn tcp_and_udp_of_one_port_share_a_listener() {
    /// Ports, and the listeners for them.
    type Stage<'a> = (&'a [Port<'a>], &'a [(u16, &'a str)]);
    let stages: &[Stage<'_>] = &[
        (&[(53, 30053, "TCP")], &[(53, "TCP")]),
        (&[(53, 30053, "TCP"), (53, 30053, "UDP")], &[(53, "TCP_UDP")]),
        (&[(53, 30053, "UDP")], &[(53, "UDP")]),
        (&[(53, 30053, "UDP"), (80, 30080, "TCP")], &[(53, "UDP"), (80, "TCP")]),
        (&[(53, 30053, "UDP"), (53, 30053, "TCP"), (80, 30080, "TCP")], &[(53, "TCP_UDP"), (80, "TCP")]),
    ];
    for settings in [settings(), unmanaged()] {
        for shape in shapes() {
            let mut world = World::new(&settings);
            let empty = describe(&world.cloud.state());
            for (list, listeners) in stages {
                world.through(&step(&web(&[shape.clone(), ports(list)]))).await;
                let state = world.cloud.state();
                let has: BTreeSet<(u16, &str)> = state
                    .listeners
                    .values()
                    .map(|held| (held.listener.settings.port, held.listener.settings.protocol.as_str()))
                    .collect();
                assert_eq!(has, listeners.iter().copied().collect());
                assert_eq!(state.target_groups.len(), listeners.len(), "no target group is left");
                assert!(state.target_groups.values().all(|held| held.targets.len() == 3));
            }
            world.through(&gone()).await;
            assert_eq!(describe(&world.cloud.state()), empty);
        }
    }
    let world = World::new(&settings());
    let apart = ports(&[(53, 30053, "TCP"), (53, 30054, "UDP")]);
    assert!(world.refused(&web(&[apart])).await.contains("node port 30053 with TCP and 30054 with UDP"));
    let tls = annotated(&[("ssl-cert", Example::CERTIFICATE)]);
    let both = ports(&[(443, 30443, "TCP"), (443, 30443, "UDP")]);
    assert!(world.refused(&web(&[both.clone(), tls])).await.contains("port 443 is TLS and UDP"));
    let hidden = annotated(&[("target-group-attributes", "preserve_client_ip.enabled=false")]);
    assert!(world.refused(&web(&[both, hidden])).await.contains("cannot be false for a UDP port"));
}

#[tokio::test]
async fn a_tls_listener_has_several_certificates() {
    let (one, two) = (Example::CERTIFICATE, Example::OTHER_CERTIFICATE);
    let list = |arns: &[&str]| annotated(&[("ssl-cert", &arns.join(" , "))]);
    for shape in shapes() {
        let mut world = World::new(&settings());
        for (arns, own, more) in [
            (&[one][..], one, vec![]),
            (&[one, two], one, vec![two]),
            (&[two, one], two, vec![one]),
            (&[two, two], two, vec![]),
            (&[one], one, vec![]),
        ] {
            world.through(&step(&web(&[shape.clone(), list(arns)]))).await;
            let state = world.cloud.state();
            let held = state.listeners.values().next().unwrap();
            assert_eq!(held.listener.settings.certificate.as_deref(), Some(own), "{arns:?}");
            // AWS shows one that became the listener's own also among the others.
            let shown: Vec<&str> = held.certificates.iter().map(String::as_str).filter(|arn| *arn != own).collect();
            assert_eq!(shown, more, "{arns:?}");
        }
        let Err(CloudError::Failed(why)) = world.attempt(&web(&[shape, list(&[one, "arn:none"])]), 3).await else {
            panic!("AWS does not know it")
        };
        assert!(why.to_string().contains("arn:none"), "{why}");
    }
    let classic = classic();
    let why = World::new(&settings()).refused(&web(&[list(&[one, two]), classic])).await;
    assert!(why.contains("2 certificates; up to 1"), "{why}");
}

#[tokio::test]
async fn the_scheme_of_a_load_balancer_stays_and_that_is_told() {
    let classic = classic();
    let internal = annotated(&[("internal", "true")]);
    let open = annotated(&[("internal", "false")]);
    let kinds = shapes().into_iter().chain([classic]);
    for shape in kinds {
        for (first, second, scheme) in
            [(&open, &internal, Scheme::InternetFacing), (&internal, &open, Scheme::Internal)]
        {
            let mut world = World::new(&settings());
            world.through(&step(&web(&[shape.clone(), first.clone()]))).await;
            let before = describe(&world.cloud.state());
            world.restart().await;
            let notes = notes(&world.aws);
            let changed = web(&[shape.clone(), second.clone()]);
            world.attempt(&changed, 3).await.unwrap();
            assert_eq!(describe(&world.cloud.state()), before);
            let state = world.cloud.state();
            let network = state.load_balancers.values().map(|held| held.load_balancer.scheme);
            let classic = state.classic.values().map(|held| held.load_balancer.scheme);
            assert!(network.chain(classic).all(|has| has == scheme));
            let told_once = |notes: &[aws::model::request::Note]| {
                notes.iter().filter(|note| note.reason == "SchemeNotChanged").count()
            };
            assert_eq!(told_once(&notes.lock()), 1);
            world.attempt(&changed, 3).await.unwrap();
            assert_eq!(told_once(&notes.lock()), 1, "once, not at every look");
            // Ports still follow.
            let more = ports(&[(80, 30080, "TCP"), (81, 30081, "TCP")]);
            world.attempt(&web(&[shape.clone(), second.clone(), more]), 3).await.unwrap();
            assert_ne!(describe(&world.cloud.state()), before);
        }
    }
}

#[tokio::test]
async fn an_internal_load_balancer_lets_in_what_it_is_told() {
    let internal = annotated(&[("internal", "0.0.0.0/0")]);
    for shape in shapes() {
        let dual = shape != json!({});
        let sources = if dual { ranges(&["10.0.0.0/16", "2001:db8::/56"]) } else { ranges(&["10.0.0.0/16"]) };
        let mut world = World::new(&settings());
        world.through(&step(&web(&[shape, internal.clone(), sources]))).await;
        let state = world.cloud.state();
        let group = state.groups.values().find(|group| group.name == own_name()).unwrap();
        let mut expected = vec!["icmp 3/4 10.0.0.0/16", "tcp 80 10.0.0.0/16"];
        if dual {
            expected.extend(["icmpv6 2/0 2001:db8::/56", "tcp 80 2001:db8::/56"]);
            expected.sort_unstable();
        }
        assert_eq!(shown(&group.ingress), expected);
        assert_eq!(balancer(&state).load_balancer.scheme, Scheme::Internal);
    }
}

#[tokio::test]
async fn a_full_group_of_the_nodes_loses_first_what_is_not_wanted() {
    for shape in shapes().map(|shape| merged(&[shape, brought(Example::BROUGHT_GROUP)])) {
        let mut world = World::new(&settings());
        world.through(&step(&web(std::slice::from_ref(&shape)))).await;
        // As full as it can be with rules of the administrator's.
        world.cloud.change(|state| {
            let nodes = state.groups.get_mut(Example::NODE_GROUP).unwrap();
            for number in 0..(60 - u16::try_from(nodes.ingress.len()).unwrap()) {
                let (protocol, peer) =
                    (Protocol::Tcp { from: number, to: number }, Peer::Group(Example::OTHER_GROUP.to_owned()));
                nodes.ingress.insert(Rule { protocol, peer, description: "mine".into() });
            }
        });
        let moved = web(&[shape.clone(), ports(&[(80, 30081, "TCP")])]);
        world.through(&step(&moved)).await;
        assert_eq!(node_rules(&world.cloud.state()).len(), 60);
        // One more than there is room for is told with the group and what to do.
        let Err(CloudError::Failed(why)) =
            world.attempt(&web(&[shape, ports(&[(80, 30081, "TCP"), (81, 30082, "TCP")])]), 3).await
        else {
            panic!("the group is full")
        };
        let why = why.to_string();
        assert!(why.contains(Example::NODE_GROUP) && why.contains("quota"), "{why}");
        world.through(&step(&moved)).await;
        assert_eq!(node_rules(&world.cloud.state()).len(), 60);
    }
}

#[tokio::test]
async fn many_rules_go_in_batches_and_in_an_order_that_never_opens_a_gap() {
    // 58 ranges of each family and two kinds of rule are more than fit; 30 of each are exactly as many.
    let list = |from: u16| -> Vec<String> {
        let four = (0..30).map(|number| format!("10.{}.0.0/16", number + from));
        let six = (0..30).map(|number| format!("2001:db8:{:x}::/48", number + from));
        four.chain(six).collect()
    };
    for shape in &shapes()[1..] {
        let mut world = World::new(&settings());
        let with = |list: &[String]| web(&[shape.clone(), json!({"spec": {"loadBalancerSourceRanges": list}})]);
        world.through(&step(&with(&list(0)))).await;
        world.cloud.take_calls();
        world.through(&step(&with(&list(100)))).await;
        let order: Vec<&str> = world
            .cloud
            .take_calls()
            .iter()
            .map(|call| call.action)
            .filter(|action| action.ends_with("SecurityGroupIngress"))
            .collect();
        let (revoke, authorize) = ("ec2:RevokeSecurityGroupIngress", "ec2:AuthorizeSecurityGroupIngress");
        assert_eq!(order, [revoke, revoke, revoke, authorize, authorize, authorize], "full: revoked first, in batches");
        world.through(&step(&with(&list(100)[..4]))).await;
        world.cloud.take_calls();
        world.through(&step(&with(&list(110)[..4]))).await;
        let order: Vec<&str> = world
            .cloud
            .take_calls()
            .iter()
            .map(|call| call.action)
            .filter(|action| action.ends_with("SecurityGroupIngress"))
            .collect();
        assert_eq!(order, [authorize, revoke], "room enough: authorized first");
    }
}

#[tokio::test]
async fn a_users_rule_that_refers_to_the_managed_group_delays_its_end_and_stays() {
    for shape in shapes() {
        let mut world = World::new(&settings());
        let empty = describe(&world.cloud.state());
        world.through(&step(&web(&[shape]))).await;
        let id = managed_id(&world.cloud.state());
        let rule = Rule { peer: Peer::Group(id.clone()), ..mine() };
        world.cloud.change(|state| {
            state.groups.get_mut(Example::OTHER_GROUP).unwrap().ingress.insert(rule.clone());
        });
        world.delete(&web(&[])).await.unwrap();
        world.alive.clear();
        // AWS lets go of the group that load balancers share after a while, of this one never.
        let mut waiting = 2;
        for _ in 0..20 {
            waiting = world.aws.remove_waiting().await.unwrap();
        }
        assert_eq!(waiting, 1, "it waits, and nobody waits for it");
        assert!(world.cloud.state().groups.contains_key(&id));
        assert!(world.cloud.state().groups[Example::OTHER_GROUP].ingress.contains(&rule), "not ours to take");
        world.cloud.change(|state| {
            state.groups.get_mut(Example::OTHER_GROUP).unwrap().ingress.remove(&rule);
        });
        world.tidy().await;
        assert_eq!(describe(&world.cloud.state()), empty);
    }
}

#[tokio::test]
async fn all_that_the_account_cannot_give_is_told_at_once() {
    let world = World::new(&settings());
    let many: Vec<String> = (0..31).map(|number| format!("10.{number}.0.0/16")).collect();
    let change = merged(&[
        annotated(&[("subnets", "subnet-none"), ("eip-allocations", "eipalloc-1")]),
        json!({"spec": {"loadBalancerSourceRanges": many}}),
    ]);
    world.cloud.change(|state| {
        let instance = state.instances.get_mut("i-0001").unwrap();
        instance.interfaces[0].security_groups.extend([Example::OTHER_GROUP.to_owned(), "sg-third".to_owned()]);
        state.groups.get_mut(Example::NODE_GROUP).unwrap().tags.clear();
    });
    let why = world.refused(&web(&[change])).await;
    for part in ["subnet-none is not in the VPC", "62 rules of one family", "Multiple untagged security groups"] {
        assert!(why.contains(part), "{part} in {why}");
    }
    assert!(world.cloud.state().load_balancers.is_empty());
}

#[tokio::test]
async fn a_missing_permission_names_the_action() {
    let quiet = World::new(&settings());
    quiet.attempt(&web(&[]), 3).await.unwrap();
    let calls = quiet.cloud.take_calls();
    for (nth, call) in calls.iter().enumerate() {
        let world = World::new(&settings());
        world.cloud.inject(nth, Fault::Deny);
        let Err(CloudError::Failed(why)) = world.attempt(&web(&[]), 3).await else { panic!("{}", call.action) };
        assert!(why.to_string().contains(&format!("needs {}", call.action)), "{why}");
    }
}
