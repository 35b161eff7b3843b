//! Deletion and the sweep: everything of ours goes, nothing else does, and nobody waits for AWS.

use super::world::{World, classic, describe, merged, ports, shapes, step, unmanaged};
use aws::{
    account::Tags,
    apply::{Alive, Aws, Caution, Leftovers, Swept, owner},
    cloud_config::{GroupMode, SharedProbe},
    memory::{
        Example, State,
        testing::{AT_ONCE, annotated, service, settings},
    },
    model::Settings,
};
use k8s_openapi::api::core::v1::Service;
use runtime::cloud::{CloudError, LoadBalancers};
use std::time::{Duration, Instant};

async fn swept(world: &World, alive: &[&Service]) -> Swept {
    let alive = Alive::new(alive.iter().map(|service| owner(service)));
    world.aws.sweep(&alive, &AT_ONCE, Instant::now()).await.unwrap()
}

/// Sweeps until nothing is found; says how much was removed.
pub(crate) async fn sweep_all(world: &World, alive: &[&Service]) -> usize {
    let mut removed = 0;
    for _ in 0..12 {
        let found = swept(world, alive).await;
        removed += found.removed.len();
        let waiting = world.aws.remove_waiting().await.unwrap();
        if found == Swept::default() && waiting == 0 {
            return removed;
        }
    }
    panic!("leftovers do not go")
}

#[tokio::test]
async fn what_is_left_of_a_service_that_is_gone_is_found_by_its_tags() {
    for settings in [settings(), unmanaged()] {
        for change in shapes().into_iter().chain([classic()]) {
            let mut world = World::new(&settings);
            let empty = describe(&world.cloud.state());
            // Two of a kind: their names are shortened to the same eight letters.
            let (dead, living) = (
                service("web-frontend-one", &merged(&[change.clone(), ports(&[(80, 30001, "TCP")])])),
                service("web-frontend-two", &merged(&[change.clone(), ports(&[(80, 30002, "TCP")])])),
            );
            world.attempt(&living, 3).await.unwrap();
            let alone = describe(&world.cloud.state());
            world.attempt(&dead, 3).await.unwrap();
            // The process ends, and the Service is taken away by force.
            world.alive.insert(owner(&living).key(), (living.clone(), 3));
            world.restart().await;
            world.attempt(&living, 3).await.unwrap();
            assert!(sweep_all(&world, &[&living]).await > 0);
            assert_eq!(describe(&world.cloud.state()), alone);
            world.delete(&living).await.unwrap();
            sweep_all(&world, &[]).await;
            assert_eq!(describe(&world.cloud.state()), empty);
        }
    }
}

#[tokio::test]
async fn a_service_that_came_meanwhile_is_not_taken_for_a_leftover() {
    for change in shapes().into_iter().chain([classic()]) {
        let world = World::new(&settings());
        let new = service("web", &change);
        world.attempt(&new, 3).await.unwrap();
        let before = describe(&world.cloud.state());
        // The list of Services is older than the load balancer.
        let first = swept(&world, &[]).await;
        assert!(!first.suspected.is_empty() && first.removed.is_empty(), "{first:?}");
        assert_eq!(describe(&world.cloud.state()), before, "only suspected");
        assert_eq!(swept(&world, &[&new]).await, Swept::default());
        let again = swept(&world, &[]).await;
        assert!(again.removed.is_empty(), "suspicion does not last");
        assert_eq!(describe(&world.cloud.state()), before);
    }
}

#[tokio::test]
async fn a_service_of_the_same_name_keeps_its_own_and_loses_the_old_ones() {
    for change in shapes() {
        let mut world = World::new(&settings());
        let old = service("web", &change);
        world.attempt(&old, 3).await.unwrap();
        world.restart().await;
        let mut new = service("web", &change);
        new.metadata.uid = Some("new-0000-1111-2222-333344445555".into());
        sweep_all(&world, &[&new]).await;
        world.attempt(&new, 3).await.unwrap();
        sweep_all(&world, &[&new]).await;
        let state = world.cloud.state();
        let names: Vec<&str> = state.load_balancers.values().map(|held| held.load_balancer.name.as_str()).collect();
        assert_eq!(names, [owner(&new).load_balancer()]);
        let groups: Vec<&str> =
            state.groups.values().map(|group| group.name.as_str()).filter(|name| name.starts_with("k8s-ns-")).collect();
        assert_eq!(groups, [owner(&new).network_group("kubernetes")]);
        assert_eq!(state.target_groups.len(), 1);
    }
}

#[tokio::test]
async fn what_others_made_is_never_swept() {
    for change in shapes() {
        let world = World::new(&settings());
        world.attempt(&service("web", &change), 3).await.unwrap();
        let tags: [Tags; 4] = [
            Tags::new(),
            [("kubernetes.io/cluster/other".to_owned(), "owned".to_owned()), tag("ns/web")].into(),
            [("kubernetes.io/cluster/example".to_owned(), "shared".to_owned()), tag("ns/web")].into(),
            [("kubernetes.io/cluster/example".to_owned(), "owned".to_owned())].into(),
        ];
        for tags in tags {
            world.cloud.change(|state| retag(state, &tags));
            let before = describe(&world.cloud.state());
            let removed = sweep_all(&world, &[]).await;
            assert_eq!(describe(&world.cloud.state()), before, "{tags:?}: {removed}");
        }
    }
}

fn tag(service: &str) -> (String, String) {
    ("kubernetes.io/service-name".to_owned(), service.to_owned())
}

fn retag(state: &mut State, tags: &Tags) {
    state.load_balancers.values_mut().for_each(|held| held.tags.clone_from(tags));
    state.target_groups.values_mut().for_each(|held| held.tags.clone_from(tags));
    state
        .groups
        .values_mut()
        .filter(|group| group.name.starts_with("k8s-"))
        .for_each(|group| group.tags.clone_from(tags));
    // Rules on the nodes are known by what they say, and are looked at elsewhere.
    state.groups.get_mut(Example::NODE_GROUP).unwrap().ingress.clear();
}

/// So many Services that are gone, each with a port of its own.
async fn left_by(count: u16, settings: &Settings, change: &serde_json::Value) -> World {
    let world = World::new(settings);
    for number in 0..count {
        let ports = ports(&[(80, 30001 + number, "TCP")]);
        world.attempt(&service(&format!("s{number}"), &merged(&[change.clone(), ports])), 3).await.unwrap();
    }
    world
}

#[tokio::test]
async fn what_is_found_is_told_first_and_goes_when_it_is_old_enough() {
    let hour = Duration::from_secs(3600);
    let caution = Caution { age: hour, ..AT_ONCE };
    for change in shapes().into_iter().chain([classic()]) {
        let world = left_by(1, &settings(), &change).await;
        let (before, start) = (describe(&world.cloud.state()), Instant::now());
        let sweep = async |caution: &Caution, after: Duration| {
            world.aws.sweep(&Alive::default(), caution, start + after).await.unwrap()
        };
        let first = sweep(&caution, Duration::ZERO).await;
        assert!(!first.suspected.is_empty(), "it is told");
        for minutes in [10, 20, 59] {
            let swept = sweep(&caution, Duration::from_secs(60 * minutes)).await;
            assert_eq!((swept.suspected.len(), swept.waiting), (0, first.suspected.len()), "told once");
            assert!(swept.removed.is_empty(), "{minutes} minutes: {swept:?}");
        }
        assert_eq!(describe(&world.cloud.state()), before);
        let only_told = Caution { leftovers: Leftovers::Report, ..caution };
        assert!(sweep(&only_told, 2 * hour).await.removed.is_empty());
        assert_eq!(describe(&world.cloud.state()), before, "only told of");
        let swept = sweep(&caution, hour).await;
        assert_eq!((swept.removed, swept.waiting), (first.suspected, 0));
    }
}

#[tokio::test]
async fn one_sweep_removes_a_few_things_and_the_next_ones_the_rest() {
    for change in shapes() {
        let world = left_by(3, &settings(), &change).await;
        let living = service("living", &merged(&[change.clone(), ports(&[(80, 30100, "TCP")])]));
        world.attempt(&living, 3).await.unwrap();
        let alive = Alive::new([owner(&living)]);
        let few = Caution { most: 2, ..AT_ONCE };
        let found = world.aws.sweep(&alive, &few, Instant::now()).await.unwrap().suspected.len();
        assert!(found > 6, "{found}");
        let mut rounds = 0;
        while world.cloud.state().groups.values().filter(|group| group.name.starts_with("k8s-ns-")).count() > 1 {
            let swept = world.aws.sweep(&alive, &few, Instant::now()).await.unwrap();
            assert!(swept.removed.len() <= 2, "{swept:?}");
            world.aws.remove_waiting().await.unwrap();
            rounds += 1;
            assert!(rounds < 40, "they do not go");
        }
        assert!(rounds > 2, "{rounds}");
        assert_eq!(world.cloud.state().load_balancers.len(), 1);
    }
}

#[tokio::test]
async fn an_api_server_that_lost_its_services_costs_no_load_balancer() {
    for change in shapes().into_iter().chain([classic()]) {
        let world = left_by(3, &settings(), &change).await;
        let before = describe(&world.cloud.state());
        let few = Caution { most: 2, ..AT_ONCE };
        for _ in 0..3 {
            let swept = world.aws.sweep(&Alive::default(), &few, Instant::now()).await.unwrap();
            assert!(swept.refused.as_ref().is_some_and(|why| why.contains("3 load balancers")), "{swept:?}");
        }
        assert_eq!(describe(&world.cloud.state()), before);
        // One Service that is there shows that the API server knows of Services.
        let alive = Alive::new([owner(&service("other", &change))]);
        assert_eq!(world.aws.sweep(&alive, &few, Instant::now()).await.unwrap().refused, None);
    }
}

/// Settings of a cluster that has the same id, and nothing else in common.
fn twin(settings: &Settings, uid: Option<&str>) -> Settings {
    let mut twin = settings.clone();
    twin.cluster.uid = uid.map(str::to_owned);
    twin
}

#[tokio::test]
async fn two_clusters_with_one_id_never_touch_each_others_things() {
    let probe = Some(SharedProbe { port: 10256, path: "/healthz".into() });
    for settings in [settings(), unmanaged(), Settings { shared_probe: probe, ..unmanaged() }] {
        for change in shapes().into_iter().chain([classic()]) {
            let world = left_by(2, &settings, &change).await;
            let before = describe(&world.cloud.state());
            // The other one has no Service, or one of the same name; or it cannot say who it is.
            let same_name = service("s0", &merged(&[change.clone(), ports(&[(80, 30001, "TCP")])]));
            let renewed = |mut service: Service| {
                service.metadata.uid = Some("twin-0000-1111-2222-333344445555".into());
                service
            };
            for alive in [Alive::default(), Alive::new([owner(&renewed(same_name.clone()))])] {
                for uid in [Some("another-kube-system"), None] {
                    let account = super::emulated::account(&world.cloud);
                    let other = Aws::new(account, twin(&settings, uid));
                    for _ in 0..3 {
                        let swept = other.sweep(&alive, &AT_ONCE, Instant::now()).await.unwrap();
                        assert_eq!(swept.removed, [""; 0], "{uid:?}");
                        assert_eq!(swept.refused.is_some(), uid.is_none());
                    }
                    assert_eq!(describe(&world.cloud.state()), before, "{uid:?}");
                }
            }
            // Rules about addresses stand once for both; the one that wants them puts them back when it looks again.
            if settings.nlb_groups == GroupMode::Managed {
                let account = super::emulated::account(&world.cloud);
                let other = Aws::new(account, twin(&settings, Some("another-kube-system")));
                other.delete(&renewed(same_name)).await.unwrap();
                assert_eq!(describe(&world.cloud.state()), before, "deleting a Service of the same name");
            }
        }
    }
}

#[tokio::test]
async fn a_target_group_of_a_cluster_with_the_same_id_is_named_and_left_alone() {
    for change in shapes() {
        let world = left_by(1, &settings(), &change).await;
        let before = world.cloud.state().target_groups;
        let mut service = service("s0", &merged(&[change.clone(), ports(&[(80, 30001, "TCP")])]));
        service.metadata.uid = Some("twin-0000-1111-2222-333344445555".into());
        let other = World::on(world.cloud.clone(), &twin(&settings(), Some("another-kube-system")));
        let why = other.refused(&service).await;
        assert!(why.contains("twinstack.dev/cluster-uid") && why.contains("KubernetesClusterID"), "{why}");
        assert_eq!(world.cloud.state().target_groups, before);
    }
}

#[tokio::test]
async fn what_has_no_identity_yet_gets_it_and_is_not_swept_before() {
    for change in shapes().into_iter().chain([classic()]) {
        let old = twin(&settings(), None);
        let mut world = left_by(1, &old, &change).await;
        let service = service("s0", &merged(&[change.clone(), ports(&[(80, 30001, "TCP")])]));
        let before = describe(&world.cloud.state());
        world.set(&settings()).await;
        assert_eq!(sweep_all(&world, &[]).await, 0, "it may be another cluster's");
        assert_eq!(describe(&world.cloud.state()), before);
        world.attempt(&service, 3).await.unwrap();
        let state = world.cloud.state();
        let tag = |tags: &Tags| tags.get("twinstack.dev/cluster-uid") == settings().cluster.uid.as_ref();
        assert!(state.load_balancers.values().all(|held| tag(&held.tags)));
        assert!(state.target_groups.values().all(|held| tag(&held.tags)));
        assert!(state.classic.values().all(|held| tag(&held.tags)));
        assert!(state.groups.values().filter(|group| group.name.starts_with("k8s-ns-")).all(|group| tag(&group.tags)));
        assert!(sweep_all(&world, &[]).await > 0);
    }
}

#[tokio::test]
async fn deletion_goes_on_whichever_part_is_gone_already() {
    type Change = fn(&mut State);
    let gone: &[(&str, Change)] = &[
        ("the load balancer", |state| {
            state.load_balancers.clear();
            state.listeners.clear();
            state.classic.clear();
        }),
        ("the listeners", |state| state.listeners.clear()),
        ("the target groups", |state| {
            state.listeners.clear();
            state.target_groups.clear();
        }),
        ("rules of the nodes", |state| state.groups.get_mut(Example::NODE_GROUP).unwrap().ingress.clear()),
        ("everything but the group", |state| {
            state.load_balancers.clear();
            state.listeners.clear();
            state.classic.clear();
            state.target_groups.clear();
        }),
    ];
    for change in shapes().into_iter().chain([classic()]) {
        for (what, part) in gone {
            for restarted in [false, true] {
                let service = service("web", &change);
                let mut world = World::new(&settings());
                let empty = describe(&world.cloud.state());
                world.through(&step(&service)).await;
                world.cloud.change(part);
                if restarted {
                    world.restart().await;
                }
                world.delete(&service).await.unwrap();
                world.alive.clear();
                world.tidy().await;
                assert_eq!(describe(&world.cloud.state()), empty, "{what}, restarted: {restarted}");
            }
        }
    }
}

#[tokio::test]
async fn a_service_that_was_refused_leaves_nothing() {
    for change in shapes() {
        let world = World::new(&settings());
        let empty = describe(&world.cloud.state());
        // Everything up to the load balancer is made, then AWS says no for good.
        let service =
            service("web", &merged(&[change, annotated(&[("eip-allocations", "eipalloc-9,eipalloc-8,eipalloc-7")])]));
        assert!(world.attempt(&service, 3).await.is_err());
        assert_ne!(describe(&world.cloud.state()), empty, "the group was made");
        world.delete(&service).await.unwrap();
        world.tidy().await;
        assert_eq!(describe(&world.cloud.state()), empty);
    }
}

#[tokio::test]
async fn services_of_other_controllers_do_not_keep_rules_from_going() {
    let shared = Settings { shared_probe: Some(SharedProbe { port: 10256, path: "/healthz".into() }), ..unmanaged() };
    for change in shapes() {
        let world = World::new(&shared);
        let empty = describe(&world.cloud.state());
        for kind in ["external", "nlb-ip"] {
            world.aws.adopt(&service(kind, &annotated(&[("type", kind)])));
        }
        let class = serde_json::json!({"spec": {"loadBalancerClass": "service.k8s.aws/nlb"}});
        world.aws.adopt(&service("classy", &class));
        let ours = service("web", &change);
        world.aws.adopt(&ours);
        world.attempt(&ours, 3).await.unwrap();
        let Err(CloudError::Later { reason, .. }) =
            world.attempt(&service("other", &annotated(&[("type", "external")])), 3).await
        else {
            panic!("another controller's")
        };
        assert!(reason.contains("another controller's"), "{reason}");
        world.delete(&ours).await.unwrap();
        world.tidy().await;
        assert_eq!(describe(&world.cloud.state()), empty);
    }
}
