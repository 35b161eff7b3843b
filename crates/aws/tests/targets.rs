//! Nodes behind load balancers: which are registered, how many fit, how they are checked, and the addresses in front of them.
#![allow(clippy::unwrap_used, reason = "a test may end where it fails")]

mod world;

use aws::{
    account::{Account, Target},
    memory::{
        Example, Memory, State,
        testing::{annotated, service, settings},
    },
};
use k8s_openapi::api::core::v1::{Node, Service};
use runtime::cloud::{CloudError, LoadBalancers};
use serde_json::{Value, json};
use std::{collections::BTreeSet, sync::Arc};
use world::{Step, World, balancer, merged, nodes, ports, shapes, told};

fn web(changes: &[Value]) -> Service {
    service("web", &merged(changes))
}

fn step(service: &Service) -> Step {
    Step { name: "step".into(), service: Some(service.clone()), nodes: 3 }
}

/// Instances behind the only target group.
fn registered(state: &State) -> BTreeSet<String> {
    let group = state.target_groups.values().next().unwrap();
    group.targets.iter().map(|target| target.instance.clone()).collect()
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
async fn targets_follow_the_nodes() {
    for shape in shapes() {
        let service = web(&[shape]);
        let mut world = World::new(&settings());
        world.through(&step(&service)).await;
        for count in [3, 2, 3, 0, 6, 1] {
            world.aws.update_nodes(&service, &nodes(count)).await.unwrap();
            let expected: BTreeSet<String> = (0..count).map(|number| format!("i-{number:04x}")).collect();
            assert_eq!(registered(&world.memory.state()), expected);
            world.restart().await;
            world.attempt(&service, count).await.unwrap();
            assert_eq!(registered(&world.memory.state()), expected, "also for one who knows nothing");
        }
    }
}

#[tokio::test]
async fn a_target_on_its_way_out_counts_as_gone_and_may_come_back() {
    for shape in shapes() {
        let service = web(&[shape]);
        let mut world = World::new(&settings());
        world.through(&step(&service)).await;
        let (arn, port) = {
            let state = world.memory.state();
            let held = state.target_groups.values().next().unwrap();
            (held.group.arn.clone(), held.group.port)
        };
        let one = Target { instance: "i-0001".into(), port };
        world.memory.deregister_targets(&arn, &[one].into()).await.unwrap();
        assert_eq!(registered(&world.memory.state()).len(), 2);
        world.thorough();
        world.attempt(&service, 3).await.unwrap();
        assert_eq!(registered(&world.memory.state()).len(), 3, "it is wanted: registered again");
        world.aws.update_nodes(&service, &nodes(2)).await.unwrap();
        world.memory.take_calls();
        world.aws.update_nodes(&service, &nodes(2)).await.unwrap();
        let calls = world.memory.take_calls();
        assert!(calls.iter().all(|call| !call.write), "one that leaves is not taken out twice: {calls:?}");
    }
}

#[tokio::test]
async fn as_many_targets_as_fit_can_be_exchanged_and_one_more_is_told() {
    let (memory, nodes) = crowd(502);
    let memory = Arc::new(memory);
    memory.forget_history();
    for shape in shapes() {
        let service = web(&[shape]);
        let aws = aws::apply::Aws::new(memory.clone(), settings());
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
async fn another_check_changes_the_target_group_in_place() {
    let checks = [
        annotated(&[("healthcheck-protocol", "HTTP"), ("healthcheck-path", "/x"), ("healthcheck-interval", "10")]),
        annotated(&[("healthcheck-protocol", "HTTPS"), ("healthcheck-timeout", "5")]),
        annotated(&[("healthcheck-port", "9000"), ("healthcheck-unhealthy-threshold", "7")]),
        json!({"spec": {"externalTrafficPolicy": "Local", "healthCheckNodePort": 32000}}),
        json!({}),
    ];
    for shape in shapes() {
        let mut world = World::new(&settings());
        world.through(&step(&web(std::slice::from_ref(&shape)))).await;
        let ids = |state: &State| -> Vec<String> {
            state.target_groups.keys().chain(state.listeners.keys()).cloned().collect()
        };
        let before = (ids(&world.memory.state()), told(&world.memory.state()));
        for check in &checks {
            world.through(&step(&web(&[shape.clone(), check.clone()]))).await;
            assert_eq!(ids(&world.memory.state()), before.0, "{check}: the same listener and target group");
        }
        // What was left to AWS stays as it was set last: only the timeout can tell the way that was gone.
        let last = told(&world.memory.state());
        assert_eq!(last.replace("timeout: Some(5)", "timeout: Some(10)"), before.1);
    }
}

#[tokio::test]
async fn addresses_are_given_for_each_subnet_or_not_at_all() {
    let subnets = ("subnets", "subnet-public-b,subnet-public-a");
    for shape in shapes() {
        let mut world = World::new(&settings());
        let two = annotated(&[subnets, ("eip-allocations", " eipalloc-1 , eipalloc-2 ")]);
        world.through(&step(&web(&[shape.clone(), two]))).await;
        let state = world.memory.state();
        let arn = &balancer(&state).load_balancer.arn;
        let used = state.addresses.values().filter(|address| address.association.as_ref() == Some(arn)).count();
        assert_eq!(used, 2);
        let world = World::new(&settings());
        for (pairs, said) in [
            (annotated(&[subnets, ("eip-allocations", "eipalloc-1")]), "EIP AllocationIDs (1) and SubnetIDs (2)"),
            (annotated(&[("eip-allocations", "eipalloc-1")]), "EIP AllocationIDs (1) and SubnetIDs (3)"),
            (
                annotated(&[subnets, ("internal", "true"), ("private-ipv4-addresses", "10.0.0.4")]),
                "PrivateIPv4Addresses (1) and SubnetIDs (2); the subnets are subnet-public-a, subnet-public-b",
            ),
        ] {
            let why = world.refused(&web(&[shape.clone(), pairs])).await;
            assert!(why.contains(said), "{why}");
        }
        assert!(world.memory.state().load_balancers.is_empty());
        let private = annotated(&[subnets, ("internal", "true"), ("private-ipv4-addresses", "10.0.0.4,10.0.1.4")]);
        world.attempt(&web(&[shape, private]), 3).await.unwrap();
    }
}

#[tokio::test]
async fn the_last_resort_is_the_subnet_of_the_cloud_config() {
    for shape in shapes() {
        let fallback = aws::model::Settings { fallback_subnet: Some("subnet-private-a".into()), ..settings() };
        let world = World::new(&fallback);
        world.memory.change(|state| state.route_tables.retain(|table| table.main));
        world.attempt(&web(std::slice::from_ref(&shape)), 3).await.unwrap();
        let state = world.memory.state();
        assert_eq!(balancer(&state).load_balancer.subnets, ["subnet-private-a".to_owned()].into());
        let world = World::new(&settings());
        world.memory.change(|state| state.route_tables.retain(|table| table.main));
        let why = world.refused(&web(&[shape])).await;
        assert!(why.contains("could not find any suitable subnets for creating the ELB"), "{why}");
        assert!(
            why.contains("subnet-public-a is private: its route table has no route to an internet gateway"),
            "{why}"
        );
    }
}

#[tokio::test]
async fn a_node_in_a_new_subnet_is_let_through() {
    for shape in shapes() {
        let service = web(&[shape, ports(&[(80, 30080, "TCP")])]);
        let mut world = World::new(&settings());
        world.memory.change(|state| {
            // A subnet that nobody tagged, with the fourth node in it.
            let mut subnet = state.subnets[0].clone();
            subnet.id = "subnet-new".into();
            subnet.tags.clear();
            subnet.ipv4 = Some("10.0.200.0/24".parse().unwrap());
            subnet.ipv6 = vec!["2001:db8:0:c8::/64".parse().unwrap()];
            state.subnets.push(subnet);
            state.instances.get_mut("i-0003").unwrap().subnet = "subnet-new".into();
        });
        world.through(&step(&service)).await;
        let leads_to = |world: &World, cidr: &str| {
            let state = world.memory.state();
            let id = balancer(&state).load_balancer.security_groups.first().unwrap().clone();
            world::shown(&state.groups[&id].egress).contains(&format!("tcp 30080 {cidr}"))
        };
        for (count, there) in [(3, false), (4, true), (2, false)] {
            world.aws.update_nodes(&service, &nodes(count)).await.unwrap();
            for cidr in ["10.0.200.0/24", "2001:db8:0:c8::/64"] {
                assert_eq!(leads_to(&world, cidr), there, "{count} nodes, {cidr}");
            }
        }
    }
}
