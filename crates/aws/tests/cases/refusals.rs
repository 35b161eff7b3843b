//! What cannot be had is refused, and what was accepted last goes on: targets follow nodes, nodes let the load balancer in, listeners serve.

use super::{
    emulated::EVERY_COMBINATION,
    world::{World, classic, describe, merged, nodes, ports, shapes, step, unmanaged, web},
};
use aws::memory::{
    Example, State,
    testing::{annotated, settings},
};
use k8s_openapi::api::core::v1::{Node, Service};
use runtime::cloud::{CloudError, LoadBalancers};
use serde_json::{Value, json};
use std::{collections::BTreeSet, sync::Arc};

/// The last three of six nodes: none of those that were there before.
fn others() -> Vec<Arc<Node>> {
    nodes(6)[3..].to_vec()
}

/// The instances behind every listener, or behind the classic load balancer.
fn behind(state: &State) -> BTreeSet<String> {
    let target = |arn: &String| state.target_groups[arn].targets.iter().map(|target| target.instance.clone());
    let listeners = state.listeners.values().flat_map(|held| target(&held.listener.settings.target_group));
    listeners.chain(state.classic.values().flat_map(|held| held.load_balancer.instances.iter().cloned())).collect()
}

fn instances(of: &[&str]) -> BTreeSet<String> {
    of.iter().map(|id| (*id).to_owned()).collect()
}

/// All but the targets.
fn apart_from_targets(state: &State) -> String {
    let mut state = state.clone();
    state.target_groups.values_mut().for_each(|held| {
        held.targets.clear();
        held.draining.clear();
    });
    state.classic.values_mut().for_each(|held| held.load_balancer.instances.clear());
    describe(&state)
}

async fn fails(world: &World, service: &Service, nodes: &[Arc<Node>]) -> String {
    match world.aws.ensure(service, nodes).await {
        Err(error @ (CloudError::Refused(_) | CloudError::Failed(_))) => error.to_string(),
        other => panic!("{other:?}"),
    }
}

/// What a user can get wrong, and the words that tell.
fn mistakes() -> Vec<(Value, &'static str)> {
    vec![
        (annotated(&[("healthcheck-interval", "soon")]), "healthcheck-interval: \"soon\""),
        (annotated(&[("eip-allocations", "eipalloc-1"), ("internal", "true")]), "eip-allocations"),
        (annotated(&[("security-groups", "sg-none")]), "security-groups: sg-none is not there"),
        (annotated(&[("subnets", "subnet-none")]), "subnets"),
        (
            merged(&[classic(), json!({"spec": {"ipFamilyPolicy": "PreferDualStack"}})]),
            "cannot update Load Balancer Type annotation",
        ),
        (annotated(&[("ssl-cert", "arn:aws:acm:us-east-1:1:certificate/none")]), "ssl-cert: \"arn:aws:acm"),
        (json!({"spec": {"loadBalancerSourceRanges": ["192.0.2.0/33"]}}), "192.0.2.0/33"),
    ]
}

#[tokio::test]
async fn a_refusal_never_keeps_targets_from_following_nodes() {
    for (row, shape) in shapes().into_iter().enumerate() {
        let chosen = |column: usize| EVERY_COMBINATION || (row + column).is_multiple_of(3);
        for (_, (mistake, words)) in mistakes().into_iter().enumerate().filter(|(column, _)| chosen(*column)) {
            for restarted in [false, true] {
                let what = format!("{words}, {shape}, restarted: {restarted}");
                let mut world = World::new(&settings());
                let good = web(std::slice::from_ref(&shape));
                world.through(&step(&good)).await;
                let before = apart_from_targets(&world.cloud.state());
                if restarted {
                    world.restart().await;
                }
                let bad = web(&[shape.clone(), mistake.clone()]);
                let why = fails(&world, &bad, &nodes(3)).await;
                assert!(why.contains(words), "{what}: {why}");
                for round in 0..2 {
                    fails(&world, &bad, &others()).await;
                    let has = behind(&world.cloud.state());
                    assert_eq!(has, instances(&["i-0003", "i-0004", "i-0005"]), "{what}, {round}");
                    let _ = world.aws.update_nodes(&bad, &nodes(2)).await.unwrap_err();
                    assert_eq!(behind(&world.cloud.state()), instances(&["i-0000", "i-0001"]), "{what}, {round}");
                }
                assert_eq!(apart_from_targets(&world.cloud.state()), before, "{what}");
                // Put right, it is as if nothing had been.
                world.through(&step(&good)).await;
                assert_eq!(apart_from_targets(&world.cloud.state()), before, "{what}");
                assert_eq!(behind(&world.cloud.state()).len(), 3, "{what}");
            }
        }
    }
}

#[tokio::test]
async fn a_group_for_a_load_balancer_that_can_have_none_keeps_no_target_out() {
    for shape in shapes() {
        for restarted in [false, true] {
            let mut world = World::new(&unmanaged());
            world.through(&step(&web(std::slice::from_ref(&shape)))).await;
            world.set(&settings()).await;
            if !restarted {
                world.attempt(&web(std::slice::from_ref(&shape)), 3).await.unwrap();
            }
            let brought = web(&[shape.clone(), annotated(&[("security-groups", Example::BROUGHT_GROUP)])]);
            let why = fails(&world, &brought, &others()).await;
            assert!(why.contains("created without a security group"), "{why}");
            assert_eq!(behind(&world.cloud.state()), instances(&["i-0003", "i-0004", "i-0005"]), "{shape}");
        }
    }
}

#[tokio::test]
async fn a_classic_load_balancer_follows_nodes_while_a_change_is_refused() {
    for (mistake, words) in [
        (annotated(&[("proxy-protocol", "v2")]), "proxy-protocol: \"v2\""),
        (annotated(&[("type", "nlb")]), "cannot update Load Balancer Type annotation"),
        (annotated(&[("security-groups", "sg-none")]), "sg-none is not there"),
    ] {
        for restarted in [false, true] {
            let mut world = World::new(&settings());
            world.through(&step(&web(&[classic()]))).await;
            if restarted {
                world.restart().await;
            }
            let why = fails(&world, &web(&[classic(), mistake.clone()]), &others()).await;
            assert!(why.contains(words), "{why}");
            assert_eq!(
                behind(&world.cloud.state()),
                instances(&["i-0003", "i-0004", "i-0005"]),
                "{words}, {restarted}"
            );
        }
    }
}

#[tokio::test]
async fn nodes_of_another_group_let_a_load_balancer_in_whose_service_is_refused() {
    for settings in [settings(), unmanaged()] {
        for shape in shapes() {
            for restarted in [false, true] {
                let mut world = World::new(&settings);
                let good = web(std::slice::from_ref(&shape));
                world.through(&step(&good)).await;
                let needs = world.cloud.state().groups[Example::NODE_GROUP].ingress.clone();
                world.cloud.change(|state| {
                    let tags = &mut state.groups.get_mut(Example::OTHER_GROUP).unwrap().tags;
                    tags.insert("kubernetes.io/cluster/example".into(), "owned".into());
                    for id in ["i-0003", "i-0004", "i-0005"] {
                        let interface = &mut state.instances.get_mut(id).unwrap().interfaces[0];
                        interface.security_groups = [Example::OTHER_GROUP.to_owned()].into();
                    }
                });
                if restarted {
                    world.restart().await;
                }
                let bad = web(&[shape.clone(), annotated(&[("healthcheck-port", "no")])]);
                fails(&world, &bad, &nodes(6)).await;
                let state = world.cloud.state();
                assert_eq!(behind(&state).len(), 6, "{shape}");
                assert_eq!(state.groups[Example::OTHER_GROUP].ingress, needs, "{shape}, restarted: {restarted}");
                assert_eq!(state.groups[Example::NODE_GROUP].ingress, needs, "{shape}, restarted: {restarted}");
            }
        }
    }
}

#[tokio::test]
async fn a_wrong_certificate_leaves_the_old_listener_serving_and_keeps_nothing_else() {
    for shape in shapes() {
        let mut world = World::new(&settings());
        let both = ports(&[(80, 30080, "TCP"), (443, 30443, "TCP")]);
        world.through(&step(&web(&[shape.clone(), both]))).await;
        let listeners = |state: &State| -> Vec<(u16, String, u16)> {
            let mut all: Vec<(u16, String, u16)> = state
                .listeners
                .values()
                .map(|held| {
                    let settings = &held.listener.settings;
                    (settings.port, settings.protocol.clone(), state.target_groups[&settings.target_group].group.port)
                })
                .collect();
            all.sort();
            all
        };
        // 443 becomes TLS with a certificate that is not there, 80 goes, 8080 comes.
        let wanted = ports(&[(443, 30443, "TCP"), (8080, 30081, "TCP")]);
        let certificate = |arn: &str| annotated(&[("ssl-cert", arn), ("ssl-ports", "443")]);
        let wrong = web(&[shape.clone(), wanted.clone(), certificate("arn:aws:acm:us-east-1:1:certificate/none")]);
        for round in 0..2 {
            let why = fails(&world, &wrong, &others()).await;
            assert!(why.contains("ssl-cert: \"arn:aws:acm:us-east-1:1:certificate/none\""), "{why}");
            assert!(why.contains("give the ARN of a certificate"), "{why}");
            let state = world.cloud.state();
            let tcp = |port, node| (port, "TCP".to_owned(), node);
            assert_eq!(listeners(&state), [tcp(80, 30080), tcp(443, 30443), tcp(8080, 30081)], "{shape}, {round}");
            assert_eq!(behind(&state), instances(&["i-0003", "i-0004", "i-0005"]), "{shape}, {round}");
        }
        let state = world.cloud.state();
        let right = state.certificates.first().cloned().unwrap_or_else(|| Example::CERTIFICATE.to_owned());
        world.through(&step(&web(&[shape.clone(), wanted, certificate(&right)]))).await;
        let state = world.cloud.state();
        assert_eq!(listeners(&state), [(443, "TLS".to_owned(), 30443), (8080, "TCP".to_owned(), 30081)], "{shape}");
    }
}

#[tokio::test]
async fn what_is_accepted_last_is_kept_as_it_was_by_the_process_that_accepted_it() {
    for shape in shapes() {
        let mut world = World::new(&settings());
        let good = web(std::slice::from_ref(&shape));
        world.through(&step(&good)).await;
        let before = describe(&world.cloud.state());
        world.cloud.change(|state| state.listeners.clear());
        let bad = web(&[shape.clone(), annotated(&[("healthcheck-interval", "soon")])]);
        fails(&world, &bad, &nodes(3)).await;
        assert_eq!(describe(&world.cloud.state()), before, "{shape}: a listener that was deleted by hand is back");
    }
}
