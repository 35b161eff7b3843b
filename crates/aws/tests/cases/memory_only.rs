//! What only an account in memory can show: it answers at once, holds hundreds of instances, and has no client in front that tries again.

use super::{
    leftovers::sweep_all,
    targets::registered,
    world::{World, classic, describe, merged, nodes, ports, shapes, step, unmanaged, web},
};
use aws::{
    account::{Peer, Rule},
    apply::{Alive, Aws},
    cloud_config::SharedProbe,
    memory::{
        Example, Fault, Memory,
        testing::{AT_ONCE, annotated, service, settings},
    },
    model::Settings,
};
use futures::FutureExt;
use k8s_openapi::api::core::v1::{Node, Service};
use runtime::cloud::{CloudError, LoadBalancers};
use serde_json::json;
use std::{sync::Arc, time::Instant};

/// An account in memory answers at once, so that whatever is not ready at once waits for something else.
#[test]
fn nothing_waits_in_a_worker() {
    for change in shapes().into_iter().chain([classic()]) {
        let service = service("web", &change);
        let world = World::new(&settings());
        // AWS keeps groups and target groups in use for longer than anybody would look.
        world.cloud.linger(1000);
        let now = |what: &str, outcome: Option<Result<(), CloudError>>| match outcome {
            None => panic!("{what} waits"),
            Some(outcome) => outcome,
        };
        for count in [3, 2, 0, 5] {
            let ensured = world.aws.ensure(&service, &nodes(count)).now_or_never();
            now("ensure", ensured.map(|outcome| outcome.map(|_| ()))).unwrap();
            now("a change of nodes", world.aws.update_nodes(&service, &nodes(count + 1)).now_or_never()).unwrap();
        }
        let brought = annotated(&[("security-groups", Example::BROUGHT_GROUP)]);
        let brought = merged(&[change.clone(), brought]);
        let other = web(&[brought]);
        let ensured = world.aws.ensure(&other, &nodes(3)).now_or_never();
        now("another group", ensured.map(|outcome| outcome.map(|_| ()))).unwrap();
        let outcome = now("deletion", world.aws.delete(&service).now_or_never());
        assert!(matches!(outcome, Ok(()) | Err(CloudError::Later { .. })), "{outcome:?}");
        assert!(world.aws.exists(&service).now_or_never().is_some(), "a look");
        let alive = Alive::default();
        for _ in 0..2 {
            assert!(
                world.aws.sweep(&alive, &AT_ONCE, Instant::now()).now_or_never().is_some_and(|outcome| outcome.is_ok()),
                "a sweep"
            );
        }
        assert!(world.aws.remove_waiting().now_or_never().is_some_and(|outcome| outcome.is_ok()), "a removal");
    }
}

#[tokio::test]
async fn a_sweep_that_fails_goes_on_the_next_time() {
    for change in shapes() {
        let mut quiet = World::new(&settings());
        let empty = describe(&quiet.cloud.state());
        quiet.attempt(&service("web", &change), 3).await.unwrap();
        quiet.restart().await;
        let start = quiet.cloud.state();
        quiet.cloud.take_calls();
        sweep_all(&quiet, &[]).await;
        let calls = quiet.cloud.take_calls().len();
        assert_eq!(describe(&quiet.cloud.state()), empty);
        for nth in 0..calls {
            for fault in [Fault::Fail, Fault::Lose, Fault::Throttle] {
                let memory = Arc::new(Memory::new(start.clone()));
                memory.linger(2);
                let aws = Aws::new(memory.clone(), settings());
                memory.inject(nth, fault);
                for _ in 0..16 {
                    let _ = aws.sweep(&Alive::default(), &AT_ONCE, Instant::now()).await;
                    let _ = aws.remove_waiting().await;
                }
                memory.mend();
                assert_eq!(describe(&memory.state()), empty, "{fault:?} at call {nth}");
            }
        }
    }
}

/// An account with so many instances, and their nodes.
fn crowd(count: u16) -> (Memory, Vec<Arc<Node>>) {
    let mut state = Example { nodes: 1 }.state();
    let first = state.instances["i-0000"].clone();
    let mut nodes = Vec::new();
    for number in 0..count {
        let id = format!("i-{number:04x}");
        let mut instance = first.clone();
        instance.id.clone_from(&id);
        state.instances.insert(id.clone(), instance);
        let node = json!({"metadata": {"name": id}, "spec": {"providerID": format!("aws:///us-east-1a/{id}")}});
        nodes.push(Arc::new(serde_json::from_value(node).unwrap()));
    }
    (Memory::new(state), nodes)
}

#[tokio::test]
async fn as_many_targets_as_fit_can_be_exchanged_and_one_more_is_told() {
    let (memory, nodes) = crowd(502);
    let memory = Arc::new(memory);
    memory.forget_history();
    for shape in shapes() {
        let service = web(&[shape]);
        let aws = Aws::new(memory.clone(), settings());
        aws.ensure(&service, &nodes[..500]).await.unwrap();
        assert_eq!(registered(&memory.state()).len(), 500);
        memory.take_calls();
        aws.update_nodes(&service, &nodes[1..501]).await.unwrap();
        let has = registered(&memory.state());
        assert!(has.len() == 500 && !has.contains("i-0000"), "what leaves goes first");
        let writes: Vec<&str> = memory.take_calls().iter().filter(|call| call.write).map(|call| call.action).collect();
        assert_eq!(writes, ["elasticloadbalancing:DeregisterTargets", "elasticloadbalancing:RegisterTargets"]);
        let Err(CloudError::Failed(why)) = aws.update_nodes(&service, &nodes[1..]).await else { panic!("501 fit") };
        assert!(why.to_string().contains("an AWS limit is reached"), "{why}");
        while !matches!(aws.delete(&service).await, Ok(())) {}
        while aws.remove_waiting().await.unwrap() > 0 {}
    }
}

#[tokio::test]
async fn a_node_change_that_was_throttled_goes_the_short_way_again() {
    for shape in shapes() {
        let service = web(&[shape]);
        let mut world = World::new(&settings());
        world.through(&step(&service)).await;
        world.cloud.inject(0, Fault::Throttle);
        let outcome = world.aws.update_nodes(&service, &nodes(4)).await;
        assert!(matches!(outcome, Err(CloudError::Later { .. })), "{outcome:?}");
        world.cloud.mend();
        world.cloud.take_calls();
        world.aws.update_nodes(&service, &nodes(4)).await.unwrap();
        let calls = world.cloud.take_calls();
        assert!(calls.iter().all(|call| !call.action.ends_with("DescribeListeners")), "{calls:?}");
        assert_eq!(world.cloud.state().target_groups.values().next().unwrap().targets.len(), 4);
    }
}

#[tokio::test]
async fn only_the_first_interface_of_a_node_counts() {
    for shape in shapes() {
        let mut world = World::new(&settings());
        world.cloud.change(|state| {
            for instance in state.instances.values_mut() {
                let mut second = instance.interfaces[0].clone();
                second.device_index = 1;
                second.security_groups = [Example::BROUGHT_GROUP.to_owned(), Example::OTHER_GROUP.to_owned()].into();
                // AWS lists them in no order.
                instance.interfaces.insert(0, second);
            }
            state.groups.get_mut(Example::NODE_GROUP).unwrap().tags.clear();
        });
        world.through(&step(&web(&[shape]))).await;
        let state = world.cloud.state();
        assert!(!state.groups[Example::NODE_GROUP].ingress.is_empty());
        assert!(state.groups[Example::OTHER_GROUP].ingress.is_empty());
    }
}

#[tokio::test]
async fn a_node_that_stopped_a_moment_ago_does_not_keep_the_others_out() {
    for (shape, family_lost) in shapes().into_iter().zip([false, false, true]) {
        let mut world = World::new(&settings());
        world.through(&step(&web(std::slice::from_ref(&shape)))).await;
        world.cloud.change(|state| {
            let instance = state.instances.get_mut("i-0001").unwrap();
            if family_lost {
                instance.interfaces[0].primary_ipv6 = false;
            } else {
                instance.state = "stopped".into();
            }
        });
        world.attempt(&web(&[shape.clone(), ports(&[(80, 30081, "TCP")])]), 3).await.unwrap();
        assert_eq!(registered(&world.cloud.state()).len(), 2);
        // And the short way, with one that was known to run.
        for count in [4, 3] {
            world.aws.update_nodes(&web(&[shape.clone(), ports(&[(80, 30081, "TCP")])]), &nodes(count)).await.unwrap();
        }
        world.cloud.change(|state| state.instances.get_mut("i-0003").unwrap().state = "stopped".into());
        world.aws.update_nodes(&web(&[shape, ports(&[(80, 30081, "TCP")])]), &nodes(5)).await.unwrap();
        assert_eq!(registered(&world.cloud.state()).len(), 3);
    }
}

/// Upstream's policy has neither permission: the group stays as AWS makes it, which is told, and everything works.
#[tokio::test]
async fn a_role_that_may_not_change_egress_leaves_it_as_it_is_and_tells() {
    let egress = ["ec2:AuthorizeSecurityGroupEgress", "ec2:RevokeSecurityGroupEgress"];
    for denied in [&egress[..], &egress[..1], &egress[1..]] {
        for shape in shapes() {
            let mut world = World::new(&settings());
            let told = super::world::notes(&world.aws);
            world.cloud.deny(denied);
            world.through(&step(&web(std::slice::from_ref(&shape)))).await;
            world.through(&step(&web(&[shape.clone(), ports(&[(80, 30081, "TCP"), (443, 30443, "TCP")])]))).await;
            let reasons: Vec<&str> = told.lock().iter().map(|note| note.reason).collect();
            assert_eq!(reasons, ["EgressNotRestricted"], "{denied:?}, {shape}");
            let state = world.cloud.state();
            let own = state.groups.values().find(|group| group.name.starts_with("k8s-ns-")).unwrap();
            assert!(own.egress.iter().any(|rule| rule.to_string().contains("0.0.0.0/0")), "{:?}", own.egress);
            assert_eq!(state.listeners.len(), 2);
            // With the permission a process that starts restricts it.
            world.cloud.deny(&[]);
            world.restart().await;
            world.attempt(&web(std::slice::from_ref(&shape)), 3).await.unwrap();
            let state = world.cloud.state();
            let own = state.groups.values().find(|group| group.name.starts_with("k8s-ns-")).unwrap();
            assert!(!own.egress.iter().any(|rule| rule.to_string().contains("0.0.0.0/0")), "{:?}", own.egress);
        }
    }
}

/// Services that come and go at the same time share a rule on the nodes: whoever is left has it, in whatever order calls are made.
#[tokio::test]
async fn nothing_is_revoked_that_another_begins_to_want_however_many_are_at_work() {
    let probe = Some(SharedProbe { port: 10256, path: "/healthz".into() });
    let both = [unmanaged(), settings()].map(|settings| Settings { shared_probe: probe.clone(), ..settings });
    for settings in both {
        for shape in shapes() {
            for order in 1..12_u64 {
                let memory = Arc::new(Memory::new(Example { nodes: 3 }.state()));
                let aws = Aws::new(memory.clone(), settings.clone());
                let all = Example { nodes: 3 }.nodes();
                let number =
                    |name: &str, node: u16| service(name, &merged(&[shape.clone(), ports(&[(80, node, "TCP")])]));
                let (going, changing) = (number("going", 30001), number("changing", 30002));
                // Another port is checked: what it shared with the others is not wanted by it any more.
                let changed = service(
                    "changing",
                    &merged(&[
                        shape.clone(),
                        ports(&[(80, 30002, "TCP")]),
                        annotated(&[("healthcheck-port", "traffic-port"), ("healthcheck-protocol", "tcp")]),
                    ]),
                );
                aws.ensure(&going, &all).await.unwrap();
                aws.ensure(&changing, &all).await.unwrap();
                memory.interleave(order.wrapping_mul(0x9E37_79B9_7F4A_7C15));
                let coming: Vec<Service> = (0..3).map(|n| number(&format!("coming{n}"), 30010 + n)).collect();
                let (deleted, one, two, three, other) = tokio::join!(
                    aws.delete(&going),
                    aws.ensure(&coming[0], &all),
                    aws.ensure(&coming[1], &all),
                    aws.ensure(&coming[2], &all),
                    aws.ensure(&changed, &all),
                );
                let _ = deleted;
                for outcome in [one, two, three, other] {
                    outcome.unwrap();
                }
                memory.interleave(0);
                let has = memory.state().groups[Example::NODE_GROUP].ingress.clone();
                // What each of them needs, seen on an account of its own.
                for one in coming.iter().chain([&changed]) {
                    let alone = Arc::new(Memory::new(Example { nodes: 3 }.state()));
                    Aws::new(alone.clone(), settings.clone()).ensure(one, &all).await.unwrap();
                    let needs = alone.state().groups[Example::NODE_GROUP].ingress.clone();
                    let by_range = |rule: &&Rule| matches!(rule.peer, Peer::Cidr(_));
                    let lost: Vec<String> = needs
                        .iter()
                        .filter(by_range)
                        .filter(|rule| !has.contains(rule))
                        .map(ToString::to_string)
                        .collect();
                    assert!(lost.is_empty(), "order {order}, {shape}: {:?} lost {lost:?}", one.metadata.name);
                }
            }
        }
    }
}
