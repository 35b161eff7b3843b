//! Between any two calls of a change nobody is let in who is not let in before or after, and nobody is shut out who is let in before and after:
//! by rules, and by listeners and targets, as AWS goes through them.

use super::{
    emulated::Emulated,
    reach::reached,
    world::{World, classic, describe, families, merged, ports, ranges, shown, unmanaged, web},
};
use aws::{
    account::{Peer, Protocol, Rule},
    cloud_config::SharedProbe,
    memory::{
        Example, Fault, State,
        testing::{annotated, service, settings},
    },
    model::Settings,
};
use k8s_openapi::api::core::v1::Service;
use serde_json::{Value, json};
use std::{collections::BTreeSet, sync::Arc};

const BOTH_CERTIFICATES: &str = "arn:aws:acm:us-east-1:1:certificate/2,arn:aws:acm:us-east-1:1:certificate/1";

/// Services from each of which one can come to each other.
fn network() -> Vec<(&'static str, Value)> {
    let dual = |first: &str, second: &str| families("RequireDualStack", &[first, second]);
    let local = json!({"spec": {"externalTrafficPolicy": "Local", "healthCheckNodePort": 32000}});
    vec![
        ("plain", json!({})),
        ("dual-stack", dual("IPv4", "IPv6")),
        ("dual-stack, one range", merged(&[dual("IPv4", "IPv6"), ranges(&["192.0.2.0/24"])])),
        ("IPv6 first, local", merged(&[dual("IPv6", "IPv4"), local.clone()])),
        ("other node port and range", merged(&[ports(&[(80, 30081, "TCP")]), ranges(&["198.51.100.0/24"])])),
        ("TCP and UDP", ports(&[(80, 30080, "TCP"), (80, 30080, "UDP"), (443, 30443, "TCP")])),
        (
            "IPv6 first, TCP and UDP",
            merged(&[dual("IPv6", "IPv4"), ports(&[(80, 30080, "TCP"), (80, 30080, "UDP"), (443, 30443, "TCP")])]),
        ),
        ("UDP alone", ports(&[(80, 30080, "UDP")])),
        (
            "TLS beside TCP",
            merged(&[
                ports(&[(80, 30080, "TCP"), (443, 30443, "TCP")]),
                annotated(&[("ssl-cert", BOTH_CERTIFICATES), ("ssl-ports", "443")]),
            ]),
        ),
        ("TLS, local", merged(&[local, annotated(&[("ssl-cert", Example::CERTIFICATE)])])),
        ("brought", annotated(&[("security-groups", Example::BROUGHT_GROUP), ("healthcheck-port", "9000")])),
        (
            "brought, nodes refer to it",
            annotated(&[("security-groups", Example::OTHER_GROUP), ("manage-backend-security-group-rules", "true")]),
        ),
    ]
}

fn classics() -> Vec<(&'static str, Value)> {
    let with = |change: Value| merged(&[classic(), change]);
    vec![
        ("plain", classic()),
        ("range, other port", with(merged(&[ranges(&["192.0.2.0/24"]), ports(&[(81, 30081, "TCP")])]))),
        ("brought", with(annotated(&[("security-groups", Example::BROUGHT_GROUP)]))),
        ("extra", with(annotated(&[("extra-security-groups", Example::OTHER_GROUP), ("proxy-protocol", "*")]))),
    ]
}

/// Rules that decide who reaches what, with their group: of nodes, and of the load balancer's own group.
fn rules(state: &State) -> BTreeSet<(String, bool, Rule)> {
    let mut all = BTreeSet::new();
    for group in state.groups.values() {
        all.extend(group.ingress.iter().map(|rule| (group.id.clone(), true, rule.clone())));
        all.extend(group.egress.iter().map(|rule| (group.id.clone(), false, rule.clone())));
    }
    all
}

fn attached(state: &State) -> BTreeSet<String> {
    let network = state.load_balancers.values().flat_map(|held| held.load_balancer.security_groups.clone());
    network.chain(state.classic.values().flat_map(|held| held.load_balancer.security_groups.clone())).collect()
}

async fn at(settings: &Settings, state: &State, service: &Service) -> World {
    let world = World::on(Arc::new(Emulated::new(state.clone())), settings);
    world.attempt(service, 3).await.unwrap();
    world.cloud.take_calls();
    world
}

/// Only those of groups that the load balancer has, or that nodes have: an old group with nobody in it lets nobody in.
fn effective(state: &State) -> BTreeSet<(String, bool, Rule)> {
    let mut counts = attached(state);
    counts.insert(Example::NODE_GROUP.to_owned());
    rules(state).into_iter().filter(|(group, _, _)| counts.contains(group)).collect()
}

async fn every_moment(settings: &Settings, services: &[(&'static str, Value)]) {
    for (first, from) in services {
        let before = web(std::slice::from_ref(from));
        let start = World::new(settings);
        let empty = describe(&start.cloud.state());
        start.attempt(&before, 3).await.unwrap();
        let start = start.cloud.state();
        for (second, to) in services.iter().filter(|(second, _)| second != first) {
            let what = format!("{first} to {second}");
            let after = web(std::slice::from_ref(to));
            let world = at(settings, &start, &before).await;
            world.attempt(&after, 3).await.unwrap_or_else(|error| panic!("{what}: {error}"));
            let calls = world.cloud.take_calls().len();
            let end = world.cloud.state();
            world.attempt(&after, 3).await.unwrap();
            assert_eq!(describe(&world.cloud.state()), describe(&end), "{what}: nothing is left to do");
            let (had, gets) = (effective(&start), effective(&end));
            let open: BTreeSet<_> = reached(&start).intersection(&reached(&end)).cloned().collect();
            assert!(!reached(&end).is_empty(), "{what}: nobody reaches anything");
            for nth in 0..calls {
                let world = at(settings, &start, &before).await;
                world.cloud.inject(nth, Fault::Kill);
                let _ = world.attempt(&after, 3).await;
                let now = world.cloud.state();
                let has = effective(&now);
                for rule in &has {
                    assert!(had.contains(rule) || gets.contains(rule), "{what}, after call {nth}: {rule:?} is open");
                }
                for rule in had.intersection(&gets) {
                    assert!(has.contains(rule), "{what}, after call {nth}: {rule:?} is closed");
                }
                let shut: Vec<_> = open.difference(&reached(&now)).cloned().collect();
                assert!(shut.is_empty(), "{what}, after call {nth}: shut are {shut:?}\n{}", describe(&now));
                let groups = attached(&now);
                let worn: BTreeSet<String> = attached(&start).union(&attached(&end)).cloned().collect();
                let some = !groups.is_empty() || attached(&start).is_empty() || attached(&end).is_empty();
                assert!(some && groups.is_subset(&worn), "{what}, after call {nth}: {groups:?}");
            }
            // Deleting leaves nothing, and does not need the sweep for it.
            world.delete(&after).await.unwrap();
            while world.aws.remove_waiting().await.unwrap() > 0 {}
            let left = world.cloud.state();
            assert_eq!(describe(&left), empty, "{what}: {:?}", shown(&left.groups[Example::NODE_GROUP].ingress));
        }
    }
}

#[tokio::test]
async fn of_a_network_load_balancer() {
    every_moment(&settings(), &network()).await;
}

#[tokio::test]
async fn of_a_network_load_balancer_without_groups() {
    let probe = Some(SharedProbe { port: 10256, path: "/healthz".into() });
    every_moment(&Settings { shared_probe: probe, ..unmanaged() }, &network()[..10]).await;
}

#[tokio::test]
async fn of_a_classic_load_balancer() {
    every_moment(&settings(), &classics()).await;
}

/// Load balancers that were made when each had rules of its own on the nodes come to share them, and at no call does anybody lose a node.
#[tokio::test]
async fn of_coming_to_share_a_group_towards_the_nodes() {
    for shape in
        [json!({}), families("RequireDualStack", &["IPv4", "IPv6"]), families("RequireDualStack", &["IPv6", "IPv4"])]
    {
        let service = web(std::slice::from_ref(&shape));
        let world = World::new(&settings());
        world.attempt(&service, 3).await.unwrap();
        let end = describe(&world.cloud.state());
        world.cloud.change(apart);
        let start = world.cloud.state();
        let open = reached(&start);
        assert!(!open.is_empty());
        let migrate = || World::on(Arc::new(Emulated::new(start.clone())), &settings());
        let whole = migrate();
        whole.attempt(&service, 3).await.unwrap();
        assert_eq!(describe(&whole.cloud.state()), end);
        for nth in 0..whole.cloud.take_calls().len() {
            let world = migrate();
            world.cloud.inject(nth, Fault::Kill);
            let _ = world.attempt(&service, 3).await;
            let now = world.cloud.state();
            assert_eq!(reached(&now), open, "after call {nth}\n{}", describe(&now));
        }
    }
}

/// As it was before: no shared group, and the nodes let in the load balancer's own one.
fn apart(state: &mut State) {
    let find = |state: &State, prefix: &str| {
        state.groups.values().find(|group| group.name.starts_with(prefix)).map(|group| group.id.clone()).unwrap()
    };
    let (shared, own) = (find(state, "k8s-backend-"), find(state, "k8s-ns-"));
    state.groups.remove(&shared);
    state.load_balancers.values_mut().for_each(|held| held.load_balancer.security_groups = [own.clone()].into());
    let name = state.load_balancers.values().next().unwrap().load_balancer.name.clone();
    let rule = |protocol, description: String| Rule { protocol, peer: Peer::Group(own.clone()), description };
    state.groups.get_mut(Example::NODE_GROUP).unwrap().ingress = [
        rule(Protocol::Tcp { from: 30080, to: 30080 }, format!("kubernetes.io/rule/nlb/client={name}")),
        rule(Protocol::Icmp { kind: 3, code: 4 }, "kubernetes.io/rule/nlb/mtu".to_owned()),
        rule(Protocol::Icmpv6 { kind: 2, code: 0 }, "kubernetes.io/rule/nlb/mtu".to_owned()),
    ]
    .into();
}

/// What a Service needs on the nodes stays whatever another one does, also when the controller has just started and knows of neither.
#[tokio::test]
async fn of_another_service() {
    let probe = || Some(SharedProbe { port: 10256, path: "/healthz".into() });
    let ported =
        |name: &str, change: &Value, node: u16| service(name, &merged(&[change.clone(), ports(&[(80, node, "TCP")])]));
    for settings in [
        settings(),
        Settings { shared_probe: probe(), ..settings() },
        Settings { shared_probe: probe(), ..unmanaged() },
    ] {
        let changes = network();
        for (stays, kept) in &changes {
            for restarted in [false, true] {
                let mut world = World::new(&settings);
                let two = ported("two", kept, 30002);
                world.attempt(&two, 3).await.unwrap();
                world.alive.insert("ns/two".into(), (two.clone(), 3));
                let alone = describe(&world.cloud.state());
                let needs = world.cloud.state().groups[Example::NODE_GROUP].ingress.clone();
                for (other, change) in &changes {
                    let what = format!("{stays} beside {other}, restarted: {restarted}");
                    let one = ported("one", change, 30001);
                    world.alive.insert("ns/one".into(), (one.clone(), 3));
                    if restarted {
                        world.restart().await;
                    }
                    world.attempt(&one, 3).await.unwrap();
                    let has = world.cloud.state().groups[Example::NODE_GROUP].ingress.clone();
                    assert!(needs.is_subset(&has), "{what}: {:?} of {:?}", shown(&has), shown(&needs));
                }
                if restarted {
                    world.restart().await;
                }
                let one = world.alive.remove("ns/one").unwrap().0;
                world.delete(&one).await.unwrap();
                let has = world.cloud.state().groups[Example::NODE_GROUP].ingress.clone();
                assert!(needs.is_subset(&has), "{stays}: {:?} of {:?}", shown(&has), shown(&needs));
                world.attempt(&two, 3).await.unwrap();
                world.tidy().await;
                assert_eq!(describe(&world.cloud.state()), alone, "{stays}, restarted: {restarted}");
            }
        }
    }
}
