//! Nodes behind load balancers: which are registered, how many fit, how they are checked, and the addresses in front of them.

use super::{
    emulated,
    world::{World, balancer, describe, nodes, ports, shapes, shown, step, web},
};
use aws::{
    account::Target,
    memory::{
        State,
        testing::{annotated, settings},
    },
};
use runtime::cloud::LoadBalancers;
use serde_json::json;
use std::collections::BTreeSet;

/// Instances behind the only target group.
pub(crate) fn registered(state: &State) -> BTreeSet<String> {
    let group = state.target_groups.values().next().unwrap();
    group.targets.iter().map(|target| target.instance.clone()).collect()
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
            assert_eq!(registered(&world.cloud.state()), expected);
            world.restart().await;
            world.attempt(&service, count).await.unwrap();
            assert_eq!(registered(&world.cloud.state()), expected, "also for one who knows nothing");
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
            let state = world.cloud.state();
            let held = state.target_groups.values().next().unwrap();
            (held.group.arn.clone(), held.group.port)
        };
        let one = Target { instance: "i-0001".into(), port };
        emulated::account(&world.cloud).network.deregister_targets(&arn, &[one].into()).await.unwrap();
        assert_eq!(registered(&world.cloud.state()).len(), 2);
        world.thorough();
        world.attempt(&service, 3).await.unwrap();
        assert_eq!(registered(&world.cloud.state()).len(), 3, "it is wanted: registered again");
        world.aws.update_nodes(&service, &nodes(2)).await.unwrap();
        world.cloud.take_calls();
        world.aws.update_nodes(&service, &nodes(2)).await.unwrap();
        let calls = world.cloud.take_calls();
        assert!(calls.iter().all(|call| !call.write), "one that leaves is not taken out twice: {calls:?}");
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
        let before = (ids(&world.cloud.state()), describe(&world.cloud.state()));
        for check in &checks {
            world.through(&step(&web(&[shape.clone(), check.clone()]))).await;
            assert_eq!(ids(&world.cloud.state()), before.0, "{check}: the same listener and target group");
        }
        assert_eq!(describe(&world.cloud.state()), before.1);
    }
}

#[tokio::test]
async fn addresses_are_given_for_each_subnet_or_not_at_all() {
    let subnets = ("subnets", "subnet-public-b,subnet-public-a");
    for shape in shapes() {
        let mut world = World::new(&settings());
        let two = annotated(&[subnets, ("eip-allocations", " eipalloc-1 , eipalloc-2 ")]);
        world.through(&step(&web(&[shape.clone(), two]))).await;
        let state = world.cloud.state();
        assert_eq!(state.addresses.values().filter(|address| address.association.is_some()).count(), 2);
        let world = World::new(&settings());
        for (pairs, message) in [
            (annotated(&[subnets, ("eip-allocations", "eipalloc-1")]), "EIP AllocationIDs (1) and SubnetIDs (2)"),
            (annotated(&[("eip-allocations", "eipalloc-1")]), "EIP AllocationIDs (1) and SubnetIDs (3)"),
            (
                annotated(&[subnets, ("internal", "true"), ("private-ipv4-addresses", "10.0.0.4")]),
                "PrivateIPv4Addresses (1) and SubnetIDs (2); the subnets are subnet-public-a, subnet-public-b",
            ),
        ] {
            let why = world.refused(&web(&[shape.clone(), pairs])).await;
            assert!(why.contains(message), "{why}");
        }
        assert!(world.cloud.state().load_balancers.is_empty());
        let private = annotated(&[subnets, ("internal", "true"), ("private-ipv4-addresses", "10.0.0.4,10.0.1.4")]);
        world.attempt(&web(&[shape, private]), 3).await.unwrap();
    }
}

#[tokio::test]
async fn the_last_resort_is_the_subnet_of_the_cloud_config() {
    for shape in shapes() {
        let fallback = aws::model::Settings { fallback_subnet: Some("subnet-private-a".into()), ..settings() };
        let world = World::new(&fallback);
        world.cloud.change(|state| state.route_tables.retain(|table| table.main));
        world.attempt(&web(std::slice::from_ref(&shape)), 3).await.unwrap();
        let state = world.cloud.state();
        assert_eq!(balancer(&state).load_balancer.subnets, ["subnet-private-a".to_owned()].into());
        let world = World::new(&settings());
        world.cloud.change(|state| state.route_tables.retain(|table| table.main));
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
        world.cloud.change(|state| {
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
            let state = world.cloud.state();
            let own = state.groups.values().find(|group| group.name.starts_with("k8s-ns-")).unwrap();
            shown(&own.egress).contains(&format!("tcp 30080 {cidr}"))
        };
        for (count, there) in [(3, false), (4, true), (2, false)] {
            world.aws.update_nodes(&service, &nodes(count)).await.unwrap();
            for cidr in ["10.0.200.0/24", "2001:db8:0:c8::/64"] {
                assert_eq!(leads_to(&world, cidr), there, "{count} nodes, {cidr}");
            }
        }
    }
}
