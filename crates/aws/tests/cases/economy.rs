//! How many calls things take, of each kind, and what AWS's limits make of that.

use super::world::{World, describe, merged, nodes, ports, shapes, shown, unmanaged};
use aws::{
    account::limit,
    apply::{Alive, owner},
    cloud_config::SharedProbe,
    memory::{
        Example, Made,
        testing::{AT_ONCE, service, settings},
    },
    model::Settings,
};
use k8s_openapi::api::core::v1::Service;
use runtime::cloud::LoadBalancers;
use serde_json::Value;
use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

/// Calls by what they are.
fn counted(calls: &[Made]) -> BTreeMap<&'static str, usize> {
    let mut counts = BTreeMap::new();
    calls.iter().for_each(|call| *counts.entry(call.action).or_default() += 1);
    counts
}

/// Seconds that calls take at least, by the bucket that is slowest.
fn slowest(calls: &[Made]) -> f64 {
    let mut buckets = BTreeMap::new();
    for call in calls {
        let (name, limit) = limit(call.action);
        buckets.entry(name).or_insert((limit, 0_usize)).1 += 1;
    }
    buckets.values().map(|(limit, count)| limit.seconds(*count)).fold(0.0, f64::max)
}

/// So many Services of a shape, each with a port of its own, in front of three nodes. Rules on the nodes are left to the administrator: sixty
/// are all that a group holds.
async fn many(count: u16, settings: Settings, shape: &Value) -> (World, Vec<Service>) {
    let world = World::new(&Settings { disable_node_rules: true, ..settings });
    world.cloud.forget_history();
    let services: Vec<Service> = (0..count)
        .map(|number| {
            service(&format!("s{number:03}"), &merged(&[shape.clone(), ports(&[(80, 30000 + number, "TCP")])]))
        })
        .collect();
    for service in &services {
        world.attempt(service, 3).await.unwrap();
    }
    world.cloud.take_calls();
    (world, services)
}

/// Nodes come and go: two calls for each Service, and one look at the instances for all.
async fn change_nodes(world: &World, services: &[Service]) -> f64 {
    let each = services.len();
    let mut seconds: f64 = 0.0;
    for (count, change) in [(4, "RegisterTargets"), (3, "DeregisterTargets")] {
        for service in services {
            world.aws.update_nodes(service, &nodes(count)).await.unwrap();
        }
        let calls = world.cloud.take_calls();
        let counts = counted(&calls);
        assert_eq!(counts.get("elasticloadbalancing:DescribeTargetHealth"), Some(&each), "{counts:?}");
        assert_eq!(counts.get(format!("elasticloadbalancing:{change}").as_str()), Some(&each), "{counts:?}");
        let shared = counts.get("ec2:DescribeInstances").copied().unwrap_or_default();
        assert!(shared <= 1, "one look at the instances for all Services: {counts:?}");
        assert!(calls.len() <= 2 * each + 2, "{counts:?}");
        seconds = seconds.max(slowest(&calls));
    }
    seconds
}

#[tokio::test]
async fn a_change_of_nodes_takes_two_calls_for_a_service_and_one_look_at_the_instances_for_all() {
    for shape in shapes() {
        for settings in [settings(), unmanaged()] {
            let (world, services) = many(20, settings, &shape).await;
            change_nodes(&world, &services).await;
        }
    }
}

/// What load balancers share towards the nodes is the same for all: a nodes' group with the default quota serves any number of Services.
#[tokio::test]
async fn rules_on_the_nodes_do_not_grow_with_services() {
    let probe = Some(SharedProbe { port: 10256, path: "/healthz".into() });
    for (count, shape) in [(150, shapes()[1].clone()), (70, shapes()[0].clone()), (70, shapes()[2].clone())] {
        let world = World::new(&Settings { shared_probe: probe.clone(), ..settings() });
        let empty = describe(&world.cloud.state());
        world.cloud.forget_history();
        let of = |number: u16| merged(&[shape.clone(), ports(&[(80, 30000 + number, "TCP")])]);
        let services: Vec<Service> = (0..count).map(|number| service(&format!("s{number:03}"), &of(number))).collect();
        for service in &services {
            world.attempt(service, 3).await.unwrap();
        }
        let state = world.cloud.state();
        let mut rules = shown(&state.groups[Example::NODE_GROUP].ingress);
        let shared = state.groups.values().find(|group| group.name.starts_with("k8s-backend-")).unwrap();
        rules.iter_mut().for_each(|rule| *rule = rule.replace(&shared.id, "shared"));
        assert_eq!(rules, ["icmp 3/4 shared", "icmpv6 2/0 shared", "tcp 0-65535 shared", "udp 0-65535 shared"]);
        assert!(state.load_balancers.values().all(|held| held.load_balancer.security_groups.contains(&shared.id)));
        if count > 100 {
            continue;
        }
        // They go with the last one, and not before.
        for (nth, service) in services.iter().enumerate() {
            assert_eq!(world.cloud.state().groups[Example::NODE_GROUP].ingress.len(), 4, "before deletion {nth}");
            world.delete(service).await.unwrap();
        }
        while world.aws.remove_waiting().await.unwrap() > 0 {}
        assert_eq!(describe(&world.cloud.state()), empty);
    }
}

#[tokio::test]
async fn five_hundred_services_stay_within_the_limits() {
    let (world, services) = many(500, unmanaged(), &shapes()[1]).await;
    // Registrations are what AWS limits most: at their rate a change of nodes is done in two minutes, and nothing else holds it up.
    let seconds = change_nodes(&world, &services).await;
    let (_, registrations) = limit("elasticloadbalancing:RegisterTargets");
    assert!((seconds - registrations.seconds(services.len())).abs() < 0.001 && seconds <= 125.0, "{seconds}");
    // Looking at all of them from time to time takes a small part of what AWS grants.
    for service in &services {
        world.attempt(service, 3).await.unwrap();
    }
    let glance = world.cloud.take_calls();
    assert!(glance.iter().all(|call| !call.write));
    assert!(glance.len() <= 4 * services.len(), "{:?}", counted(&glance));
    let every = world.aws.look_again().unwrap_or(Duration::MAX).as_secs_f64();
    let mut buckets: BTreeMap<&str, (f64, usize)> = BTreeMap::new();
    for call in &glance {
        let (name, limit) = limit(call.action);
        buckets.entry(name).or_insert((limit.per_second, 0)).1 += 1;
    }
    for (name, (per_second, count)) in buckets {
        let share = count as f64 / every / per_second;
        assert!(share < 0.25, "{name}: {share} of what AWS takes");
    }
    // A sweep asks for lists, and not for each; the client makes pieces of twenty of the tags.
    let alive = Alive::new(services.iter().map(owner));
    world.aws.sweep(&alive, &AT_ONCE, Instant::now()).await.unwrap();
    let calls = world.cloud.take_calls();
    assert!(calls.len() <= 8 && calls.iter().all(|call| !call.write), "{:?}", counted(&calls));
}
