//! Every single call of every change fails, loses its answer, is throttled, reads what is old, or is the last before the process ends. The
//! controller goes on afterwards, and the end is the same as if nothing had happened; after deletion nothing of ours is left.

use super::{
    emulated::Emulated,
    world::{Step, World, classic, describe, families, gone, merged, ports, ranges, shapes, unmanaged},
};
use aws::{
    cloud_config::SharedProbe,
    memory::{
        Example, Fault, Made, State,
        testing::{annotated, service, settings},
    },
    model::Settings,
};
use k8s_openapi::api::core::v1::Service;
use serde_json::{Value, json};
use std::{collections::BTreeMap, sync::Arc};

fn step(name: &str, nodes: u8, changes: &[Value]) -> Step {
    Step { name: name.to_owned(), service: Some(service("web", &merged(changes))), nodes }
}

fn shared() -> Settings {
    Settings { shared_probe: Some(SharedProbe { port: 10256, path: "/healthz".into() }), ..settings() }
}

/// What can go wrong with a call. A read has no effect: losing its answer is the same as its failing; a change cannot be old.
fn faults(call: &Made) -> &'static [Fault] {
    if call.write { &[Fault::Fail, Fault::Lose, Fault::Kill] } else { &[Fault::Fail, Fault::Kill, Fault::Stale] }
}

/// A process that has just looked at everything there is.
async fn resume(settings: &Settings, state: State, alive: &BTreeMap<String, (Service, u8)>) -> World {
    let mut world = World::on(Arc::new(Emulated::new(state)), settings);
    world.alive.clone_from(alive);
    for (service, nodes) in alive.values() {
        world.attempt(service, *nodes).await.unwrap();
    }
    world
}

/// Runs a story undisturbed, and then once for each call of each step and each fault.
async fn cut_everywhere(settings: &Settings, story: &[Step]) -> usize {
    cut(settings, story, faults).await
}

async fn cut(settings: &Settings, story: &[Step], faults: fn(&Made) -> &'static [Fault]) -> usize {
    let mut quiet = World::new(settings);
    let empty = describe(&quiet.cloud.state());
    let mut cases = 0;
    for step in story {
        let (start, alive) = (quiet.cloud.state(), quiet.alive.clone());
        quiet = resume(settings, start.clone(), &alive).await;
        quiet.cloud.take_calls();
        quiet.through(step).await;
        let calls = quiet.cloud.take_calls();
        let expected = describe(&quiet.cloud.state());
        if step.service.is_none() {
            assert_eq!(expected, empty, "{} leaves something", step.name);
        }
        for (nth, call) in calls.iter().enumerate() {
            for fault in faults(call).iter().copied() {
                let what = format!("{}: {fault:?} at call {nth}, {}", step.name, call.action);
                let mut world = resume(settings, start.clone(), &alive).await;
                world.cloud.take_calls();
                world.cloud.inject(nth, fault);
                world.through(step).await;
                let found = describe(&world.cloud.state());
                assert!(found == expected, "{what}\nexpected:\n{expected}\nfound:\n{found}");
                world.through(&gone()).await;
                let left = describe(&world.cloud.state());
                assert!(left == empty, "{what}: after deletion there is left:\n{left}");
                cases += 1;
            }
        }
    }
    cases
}

#[tokio::test]
async fn a_single_stack_load_balancer_and_its_ports() {
    let tls = annotated(&[("ssl-cert", Example::CERTIFICATE), ("ssl-ports", "443")]);
    let both = ports(&[(80, 30080, "TCP"), (443, 30443, "TCP")]);
    let story = [
        step("created", 3, &[]),
        step("second port", 3, std::slice::from_ref(&both)),
        step("TLS on it", 3, &[both, tls]),
        step("one port again, other node port", 3, &[ports(&[(80, 30081, "TCP")])]),
        step(
            "checked otherwise",
            3,
            &[
                ports(&[(80, 30081, "TCP")]),
                annotated(&[
                    ("healthcheck-protocol", "HTTP"),
                    ("healthcheck-interval", "10"),
                    ("healthcheck-unhealthy-threshold", "5"),
                    ("target-group-attributes", "proxy_protocol_v2.enabled=true,preserve_client_ip.enabled=false"),
                    ("cross-zone-load-balancing-enabled", "true"),
                    ("additional-resource-tags", "team=a=b,x"),
                ]),
            ],
        ),
        step("ranges", 3, &[ranges(&["192.0.2.0/24", "198.51.100.0/24"])]),
        gone(),
    ];
    let cases = cut_everywhere(&settings(), &story).await;
    assert!(cases > 300, "{cases}");
}

#[tokio::test]
async fn dual_stack_comes_and_goes() {
    let dual = families("RequireDualStack", &["IPv4", "IPv6"]);
    let story = [
        step("created", 3, &[]),
        step("dual-stack", 3, std::slice::from_ref(&dual)),
        step("dual-stack with ranges", 3, &[dual, ranges(&["192.0.2.0/24", "2001:db8:1::/48"])]),
        step("single-stack again", 3, &[]),
        gone(),
    ];
    cut_everywhere(&settings(), &story).await;
    cut_everywhere(&unmanaged(), &story).await;
}

#[tokio::test]
async fn dual_stack_with_each_primary() {
    for (list, policy) in [(["IPv4", "IPv6"], "PreferDualStack"), (["IPv6", "IPv4"], "RequireDualStack")] {
        let dual = families(policy, &list);
        let story = [
            step("created", 3, std::slice::from_ref(&dual)),
            step("fewer nodes", 2, std::slice::from_ref(&dual)),
            step("more nodes", 5, &[dual]),
            gone(),
        ];
        cut_everywhere(&shared(), &story).await;
    }
}

#[tokio::test]
async fn udp_on_both_families() {
    let udp = ports(&[(53, 30053, "UDP")]);
    let dual = families("RequireDualStack", &["IPv4", "IPv6"]);
    let story = [step("created", 3, std::slice::from_ref(&udp)), step("dual-stack", 3, &[udp, dual]), gone()];
    cut_everywhere(&settings(), &story).await;
}

#[tokio::test]
async fn groups_are_brought_and_taken_back() {
    let brought = annotated(&[("security-groups", Example::BROUGHT_GROUP)]);
    let referring =
        annotated(&[("security-groups", Example::BROUGHT_GROUP), ("manage-backend-security-group-rules", "true")]);
    let story = [
        step("managed", 3, &[]),
        step("brought", 3, &[brought]),
        step("brought, nodes refer to it", 3, &[referring]),
        step("managed again", 3, &[]),
        gone(),
    ];
    cut_everywhere(&settings(), &story).await;
}

#[tokio::test]
async fn without_groups_rules_stand_on_the_nodes() {
    let story = [
        step("created", 3, &[]),
        step("ranges", 3, &[ranges(&["192.0.2.0/24"])]),
        step(
            "clients not preserved",
            3,
            &[ranges(&["192.0.2.0/24"]), annotated(&[("target-group-attributes", "preserve_client_ip.enabled=false")])],
        ),
        gone(),
    ];
    cut_everywhere(&unmanaged(), &story).await;
}

#[tokio::test]
async fn a_classic_load_balancer() {
    let classic = classic();
    let proxy = annotated(&[
        ("proxy-protocol", "*"),
        ("ssl-cert", Example::CERTIFICATE),
        ("ssl-ports", "443"),
        ("ssl-negotiation-policy", "ELBSecurityPolicy-TLS-1-2-2017-01"),
    ]);
    let two = ports(&[(80, 30080, "TCP"), (443, 30443, "TCP")]);
    let story = [
        step("created", 3, std::slice::from_ref(&classic)),
        step("PROXY protocol and TLS", 3, &[classic.clone(), two, proxy]),
        step("plain again, fewer nodes", 2, &[classic.clone(), annotated(&[("connection-idle-timeout", "120")])]),
        step("groups brought", 2, &[classic.clone(), annotated(&[("security-groups", Example::BROUGHT_GROUP)])]),
        step("own group again", 4, &[classic, annotated(&[("internal", "false")])]),
        gone(),
    ];
    cut_everywhere(&settings(), &story).await;
}

#[tokio::test]
async fn addresses_and_subnets_are_given() {
    let two =
        annotated(&[("subnets", "subnet-public-a,subnet-public-b"), ("eip-allocations", "eipalloc-1,eipalloc-2")]);
    let three = annotated(&[("subnets", "subnet-public-a,subnet-public-b,subnet-public-c")]);
    let story = [step("two zones", 3, &[two]), step("three zones", 3, &[three]), gone()];
    cut_everywhere(&settings(), &story).await;
}

#[tokio::test]
async fn every_call_is_throttled_once() {
    let dual = families("RequireDualStack", &["IPv6", "IPv4"]);
    let story = [
        step("created", 3, std::slice::from_ref(&dual)),
        step("other ports", 2, &[dual, ports(&[(443, 30443, "TCP")])]),
        gone(),
    ];
    cut(&settings(), &story, |_| &[Fault::Throttle]).await;
}

#[tokio::test]
async fn tcp_and_udp_share_a_port_and_part_again() {
    let (tcp, both, udp) = (
        ports(&[(53, 30053, "TCP")]),
        ports(&[(53, 30053, "TCP"), (53, 30053, "UDP")]),
        ports(&[(53, 30053, "UDP"), (80, 30080, "TCP")]),
    );
    for shape in shapes() {
        let story = [
            step("TCP", 3, &[shape.clone(), tcp.clone()]),
            step("both", 3, &[shape.clone(), both.clone()]),
            step("UDP, and TCP elsewhere", 3, &[shape, udp.clone()]),
            gone(),
        ];
        cut_everywhere(&settings(), &story).await;
    }
}

/// Kubernetes never changes the first family of a Service; the plan could follow all the same.
#[tokio::test]
async fn udp_takes_the_place_of_ipv6_targets() {
    let six = families("RequireDualStack", &["IPv6", "IPv4"]);
    let story = [
        step("IPv6 targets", 3, std::slice::from_ref(&six)),
        step("IPv4 alone, UDP", 3, &[ports(&[(80, 30080, "UDP"), (81, 30081, "TCP")])]),
        step("IPv6 targets again, both", 3, &[six, ports(&[(80, 30080, "UDP"), (80, 30080, "TCP")])]),
        step("IPv4 alone", 3, &[]),
        gone(),
    ];
    cut_everywhere(&settings(), &story).await;
}

#[tokio::test]
async fn certificates_are_exchanged() {
    let (one, two) = (Example::CERTIFICATE, Example::OTHER_CERTIFICATE);
    let list = |arns: &[&str]| annotated(&[("ssl-cert", &arns.join(","))]);
    let [four, _, six] = shapes();
    for shape in [four, six] {
        let story = [
            step("two", 3, &[shape.clone(), list(&[one, two])]),
            step("the other one first", 3, &[shape.clone(), list(&[two, one])]),
            step("the other one alone", 3, &[shape.clone(), list(&[two])]),
            step("none", 3, &[shape]),
            gone(),
        ];
        cut_everywhere(&settings(), &story).await;
    }
}

#[tokio::test]
async fn one_group_that_is_brought_is_exchanged_for_another() {
    let (first, second) = (Example::BROUGHT_GROUP, Example::OTHER_GROUP);
    let brought = |ids: &[&str], manage: &str| {
        annotated(&[("security-groups", &ids.join(",")), ("manage-backend-security-group-rules", manage)])
    };
    for shape in shapes() {
        let story = [
            step("the first", 3, &[shape.clone(), brought(&[first], "true")]),
            step("both", 3, &[shape.clone(), brought(&[first, second], "true")]),
            step("the second", 3, &[shape.clone(), brought(&[second], "false")]),
            step("managed", 3, &[shape]),
            gone(),
        ];
        cut_everywhere(&settings(), &story).await;
    }
}

#[tokio::test]
async fn a_full_group_is_exchanged_rule_by_rule() {
    let list = |from: u16| -> Vec<String> {
        let four = (0..30).map(|number| format!("10.{}.0.0/16", number + from));
        let six = (0..30).map(|number| format!("2001:db8:{:x}::/48", number + from));
        four.chain(six).collect()
    };
    let sources = |from: u16| json!({"spec": {"loadBalancerSourceRanges": list(from)}});
    // Reads are cut elsewhere; here it is the batches that count.
    let writes = |call: &Made| -> &'static [Fault] { if call.write { &[Fault::Fail, Fault::Lose] } else { &[] } };
    let dual = families("RequireDualStack", &["IPv6", "IPv4"]);
    let story =
        [step("full", 3, &[dual.clone(), sources(0)]), step("full of others", 3, &[dual, sources(100)]), gone()];
    cut(&settings(), &story, writes).await;
}

#[tokio::test]
async fn the_check_follows_the_traffic_policy() {
    let local = json!({"spec": {"externalTrafficPolicy": "Local", "healthCheckNodePort": 32000}});
    let logged = annotated(&[("access-log-enabled", "true"), ("access-log-s3-bucket-name", "logs")]);
    for (shape, settings) in shapes().into_iter().zip([settings(), unmanaged(), shared()]) {
        let story = [
            step("cluster", 3, std::slice::from_ref(&shape)),
            step("local", 3, &[shape.clone(), local.clone()]),
            step("cluster again, with a log", 2, &[shape.clone(), logged.clone()]),
            gone(),
        ];
        cut_everywhere(&settings, &story).await;
    }
}
