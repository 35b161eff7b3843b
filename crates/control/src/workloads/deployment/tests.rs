use super::{
    plan::{Phase, Plan, Step, plan},
    revision::{DESIRED, HISTORY, MAXIMUM, REVISION},
    status::{News, look_again_in, status},
};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use serde_json::{Value, from_value, json};

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + second).unwrap()
}

fn template(image: &str) -> Value {
    json!({"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": image}]}})
}

fn deployment(replicas: i32, surge: &Value, unavailable: &Value, image: &str) -> Deployment {
    from_value(json!({
        "metadata": {"name": "web", "namespace": "default", "uid": "d", "generation": 1, "annotations": {
            "kubernetes.io/change-cause": "because", "kubectl.kubernetes.io/last-applied-configuration": "{}"}},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": "web"}}, "template": template(image),
            "revisionHistoryLimit": 10, "progressDeadlineSeconds": 600,
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}}},
    }))
    .unwrap()
}

/// A ReplicaSet of `size` pods, all available, made at `second`.
fn set(image: &str, size: i32, second: i64, annotations: Value) -> ReplicaSet {
    from_value(json!({
        "metadata": {"name": format!("web-{image}"), "uid": image, "creationTimestamp": at(second).to_string(), "annotations": annotations},
        "spec": {"replicas": size, "selector": {}, "template": template(image)},
        "status": {"replicas": size, "readyReplicas": size, "availableReplicas": size},
    }))
    .unwrap()
}

fn sizes(plan: &Plan<'_>) -> Vec<(String, i32)> {
    let scaled = plan.steps.iter().filter_map(|step| match step {
        Step::Scale(set, size) => Some((set.metadata.uid.clone().unwrap(), *size)),
        _ => None,
    });
    scaled.collect()
}

/// ReplicaSets that do what they are told: pods come, turn ready and go one at a time.
struct World {
    deployment: Deployment,
    sets: Vec<ReplicaSet>,
    clock: i64,
}

impl World {
    fn step(&mut self) -> bool {
        self.clock += 1;
        let references: Vec<&ReplicaSet> = self.sets.iter().collect();
        let old_left = false;
        let plan = plan(&self.deployment, &references, old_left);
        let news = match plan.steps.iter().find(|step| matches!(step, Step::Create(_))) {
            Some(Step::Create(set)) => News::Created(set.metadata.name.clone().unwrap()),
            _ => News::None,
        };
        let status = status(&self.deployment, &references, plan.new, plan.phase, &news, at(self.clock));
        let mut after = self.sets.clone();
        let find = |sets: &mut Vec<ReplicaSet>, set: &ReplicaSet| {
            sets.iter().position(|one| one.metadata.name == set.metadata.name).unwrap()
        };
        for step in &plan.steps {
            match step {
                Step::Annotate(set, annotations) => {
                    let index = find(&mut after, set);
                    after[index].metadata.annotations = Some(annotations.clone());
                }
                Step::Create(set) => {
                    let mut set = (**set).clone();
                    set.metadata.creation_timestamp =
                        Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(at(self.clock)));
                    after.push(set);
                }
                Step::Scale(set, size) => {
                    let index = find(&mut after, set);
                    after[index].spec.replicas = Some(*size);
                    after[index]
                        .metadata
                        .annotations
                        .get_or_insert_default()
                        .extend(super::revision::sizes(&self.deployment));
                }
                Step::Delete(set) => {
                    let index = find(&mut after, set);
                    after.remove(index);
                }
            }
        }
        let mut changed = !plan.steps.is_empty() || self.deployment.status.as_ref() != Some(&status);
        if let Some(revision) = plan.revision {
            self.deployment
                .metadata
                .annotations
                .get_or_insert_default()
                .insert(REVISION.to_owned(), revision.to_string());
        }
        self.deployment.status = Some(status);
        self.sets = after;
        for set in &mut self.sets {
            let wanted = set.spec.replicas.unwrap();
            let status = set.status.get_or_insert_default();
            // A pod that has just come is not ready yet; the others are.
            let next = status.replicas + (wanted - status.replicas).signum();
            let ready = Some(status.replicas.min(next)).filter(|ready| *ready > 0);
            changed |= status.replicas != next || status.available_replicas != ready;
            (status.replicas, status.ready_replicas, status.available_replicas) = (next, ready, ready);
        }
        changed
    }

    fn settle(&mut self, most: i32, fewest: i32) {
        for _ in 0..500 {
            let total: i32 = self.sets.iter().map(|set| set.status.as_ref().map_or(0, |status| status.replicas)).sum();
            let available: i32 = self.sets.iter().map(super::strategy::available).sum();
            assert!(total <= most, "{total} pods, {most} allowed");
            assert!(available >= fewest, "{available} available, {fewest} needed");
            if !self.step() {
                return;
            }
        }
        panic!("it never settles");
    }
}

#[test]
fn a_rolling_update_keeps_its_promises_and_arrives() {
    for (replicas, surge, unavailable, most, fewest) in [
        (10, json!("25%"), json!("25%"), 13, 8),
        (10, json!(0), json!(1), 10, 9),
        (10, json!(1), json!(0), 11, 10),
        (3, json!("100%"), json!(0), 6, 3),
        (1, json!("25%"), json!("25%"), 2, 1),
        (4, json!(0), json!("100%"), 4, 0),
        // Both zero cannot be asked for, but percentages may become that: one pod may then be missing.
        (1, json!(0), json!("10%"), 1, 0),
    ] {
        let mut world = World { deployment: deployment(replicas, &surge, &unavailable, "one"), sets: vec![], clock: 0 };
        world.settle(most, 0);
        for (image, revision) in [("two", "2"), ("one", "3"), ("two", "4")] {
            world.deployment.spec.template = from_value(template(image)).unwrap();
            world.deployment.metadata.generation =
                world.deployment.metadata.generation.map(|generation| generation + 1);
            world.settle(most, fewest);
            let status = world.deployment.status.clone().unwrap();
            assert_eq!(
                (status.updated_replicas, status.available_replicas),
                (Some(replicas), Some(replicas)),
                "{image}"
            );
            assert_eq!(status.unavailable_replicas, None);
            assert_eq!(world.deployment.metadata.annotations.as_ref().unwrap()[REVISION], revision);
            let progressing =
                status.conditions.as_ref().unwrap().iter().find(|one| one.type_.as_deref() == Some("Progressing"));
            assert_eq!(progressing.unwrap().reason.as_deref(), Some("NewReplicaSetAvailable"));
        }
        assert_eq!(world.sets.len(), 2, "rolled-back templates find their ReplicaSet again");
        let annotations = |image: &str| {
            let is_it =
                |set: &&ReplicaSet| serde_json::to_string(*set).unwrap().contains(&format!("\"image\":\"{image}\""));
            world.sets.iter().find(is_it).unwrap().metadata.annotations.clone().unwrap()
        };
        assert_eq!((annotations("two")[REVISION].as_str(), annotations("two")[HISTORY].as_str()), ("4", "2"));
        assert_eq!((annotations("one")[REVISION].as_str(), annotations("one")[HISTORY].as_str()), ("3", "1"));
        assert_eq!(annotations("two")["kubernetes.io/change-cause"], "because");
        assert!(!annotations("two").contains_key("kubectl.kubernetes.io/last-applied-configuration"));
    }
}

#[test]
fn the_first_replica_set_is_named_after_the_template() {
    let deployment = deployment(3, &json!(1), &json!(1), "one");
    let plan = plan(&deployment, &[], false);
    let [Step::Create(set)] = plan.steps.as_slice() else { panic!("{plan:?}") };
    let hash = set.metadata.labels.as_ref().unwrap()["pod-template-hash"].clone();
    assert_eq!(set.metadata.name, Some(format!("web-{hash}")));
    let spec = &set.spec;
    assert_eq!(spec.replicas, Some(3));
    assert_eq!(spec.selector.match_labels.as_ref().unwrap()["pod-template-hash"], hash);
    let annotations = set.metadata.annotations.as_ref().unwrap();
    assert_eq!(
        (annotations[REVISION].as_str(), annotations[DESIRED].as_str(), annotations[MAXIMUM].as_str()),
        ("1", "3", "4")
    );
    assert_eq!(set.metadata.owner_references.as_ref().unwrap()[0].uid, "d");
}

#[test]
fn recreate_waits_until_the_old_pods_are_gone() {
    let mut deployment = deployment(2, &json!(null), &json!(null), "two");
    deployment.spec.strategy = from_value(json!({"type": "Recreate"})).unwrap();
    let full = set("one", 2, 0, json!({}));
    assert_eq!(sizes(&plan(&deployment, &[&full], true)), [("one".to_owned(), 0)]);
    let mut ending = set("one", 0, 0, json!({}));
    ending.status.as_mut().unwrap().replicas = 1;
    assert_eq!(plan(&deployment, &[&ending], true).steps, []);
    let empty = set("one", 0, 0, json!({}));
    assert_eq!(plan(&deployment, &[&empty], true).steps, [], "a pod that is ending still runs");
    assert!(matches!(plan(&deployment, &[&empty], false).steps.as_slice(), [Step::Create(_)]));
}

/// Size before and after, sizes of old and new ReplicaSets before, sizes after: rows of upstream's scaling test.
#[test]
fn scaling_in_the_middle_of_a_rollout_is_proportional() {
    type Row = (&'static str, i32, i32, i32, &'static [i32], &'static [i32]);
    // Sets from the newest to the oldest.
    let rows: [Row; 12] = [
        ("up: 5 -> 10", 5, 10, 0, &[2, 3], &[4, 6]),
        ("up: 10 -> 20, leftover to the largest", 10, 20, 0, &[3, 7], &[6, 14]),
        ("up: newest of equals gets the leftover", 10, 11, 0, &[5, 5], &[6, 5]),
        ("up: by one", 10, 11, 0, &[4, 6], &[4, 7]),
        ("down: 10 -> 5", 10, 5, 0, &[5, 5], &[3, 2]),
        ("down: 10 -> 3", 10, 3, 0, &[4, 6], &[1, 2]),
        ("down to nothing", 10, 0, 0, &[4, 6], &[0, 0]),
        ("three sets up", 10, 20, 0, &[5, 3, 2], &[10, 6, 4]),
        ("with surge: 10 -> 20", 10, 20, 2, &[6, 6], &[11, 11]),
        ("with surge down: 10 -> 5", 10, 5, 3, &[5, 8], &[3, 5]),
        ("20 -> 21 with surge of 6", 20, 21, 6, &[5, 8, 13], &[5, 8, 14]),
        ("only one is active", 5, 8, 2, &[5, 0], &[8, 0]),
    ];
    for (name, before, after, surge, from, to) in rows {
        let deployment = deployment(after, &json!(surge), &json!(1), "set0");
        let annotations = json!({DESIRED: before.to_string(), MAXIMUM: (before + surge).to_string(), REVISION: "1"});
        let sets: Vec<ReplicaSet> = from
            .iter()
            .enumerate()
            .map(|(index, size)| set(&format!("set{index}"), *size, -(index as i64), annotations.clone()))
            .collect();
        let references: Vec<&ReplicaSet> = sets.iter().collect();
        let plan = plan(&deployment, &references, false);
        assert_eq!(plan.phase, Phase::Scaling, "{name}");
        let changes = sizes(&plan);
        let found: Vec<i32> = sets
            .iter()
            .zip(from)
            .map(|(set, size)| {
                let change = changes.iter().find(|(uid, _)| Some(uid) == set.metadata.uid.as_ref());
                change.map_or(*size, |(_, size)| *size)
            })
            .collect();
        assert_eq!(found, to, "{name}");
    }
}

#[test]
fn a_paused_deployment_scales_and_does_not_roll() {
    let mut deployment = deployment(5, &json!(1), &json!(1), "two");
    deployment.spec.paused = Some(true);
    let old = set("one", 3, 0, json!({DESIRED: "3", MAXIMUM: "4"}));
    let plan = plan(&deployment, &[&old], false);
    assert_eq!(sizes(&plan), [("one".to_owned(), 5)]);
    let status = status(&deployment, &[&old], None, plan.phase, &News::None, at(0));
    let reason = |kind: &str| {
        let found = status.conditions.iter().flatten().find(|condition| condition.type_.as_deref() == Some(kind));
        found.and_then(|condition| condition.reason.clone())
    };
    assert_eq!(reason("Progressing").as_deref(), Some("DeploymentPaused"));
}

#[test]
fn old_replica_sets_beyond_the_limit_are_deleted_when_all_is_done() {
    let mut deployment = deployment(1, &json!(1), &json!(0), "three");
    deployment.spec.revision_history_limit = Some(1);
    let annotations = |revision: &str| json!({REVISION: revision, DESIRED: "1", MAXIMUM: "2", "kubernetes.io/change-cause": "because"});
    let sets =
        [set("one", 0, 0, annotations("1")), set("two", 0, 1, annotations("2")), set("three", 1, 2, annotations("3"))];
    let references: Vec<&ReplicaSet> = sets.iter().collect();
    assert_eq!(plan(&deployment, &references, false).steps, [], "not before the status says so");
    deployment.status =
        from_value(json!({"replicas": 1, "updatedReplicas": 1, "availableReplicas": 1, "observedGeneration": 1}))
            .unwrap();
    assert_eq!(plan(&deployment, &references, false).steps, [Step::Delete(&sets[0])]);
}

#[test]
fn pods_that_serve_nobody_go_first() {
    let deployment = deployment(10, &json!(2), &json!(2), "new");
    let mut broken = set("broken", 4, 0, json!({}));
    broken.status.as_mut().unwrap().available_replicas = Some(1);
    let healthy = set("healthy", 4, 1, json!({}));
    let mut new = set("new", 4, 2, json!({REVISION: "9", "kubernetes.io/change-cause": "because"}));
    new.status.as_mut().unwrap().available_replicas = Some(3);
    // 12 pods, 8 needed, 1 of the new missing: 3 may go, and all 3 are broken ones. 8 serve, so no other goes.
    let plan = plan(&deployment, &[&broken, &healthy, &new], false);
    assert_eq!(sizes(&plan), [("broken".to_owned(), 1)]);
}

#[test]
fn a_rollout_that_stands_still_times_out() {
    let mut deployment = deployment(2, &json!(1), &json!(0), "two");
    let mut new = set("two", 1, 1, json!({}));
    new.status = from_value(json!({"replicas": 1})).unwrap();
    let old = set("one", 2, 0, json!({}));
    let sets = [&old, &new];
    let reason = |deployment: &Deployment| {
        let status = deployment.status.clone().unwrap();
        let found = status.conditions.into_iter().flatten().find(|one| one.type_.as_deref() == Some("Progressing"));
        found.and_then(|condition| condition.reason)
    };
    for (second, expected) in [
        (0, "ReplicaSetUpdated"),
        (1, "ReplicaSetUpdated"),
        (600, "ReplicaSetUpdated"),
        (601, "ProgressDeadlineExceeded"),
        (700, "ProgressDeadlineExceeded"),
    ] {
        let next = status(&deployment, &sets, Some(&new), Phase::Rollout, &News::None, at(second));
        deployment.status = Some(next);
        assert_eq!(reason(&deployment).as_deref(), Some(expected), "after {second} seconds");
    }
    let stuck = deployment.status.clone().unwrap();
    assert_eq!(look_again_in(&deployment, &stuck, at(700)), None);
    new.status = from_value(json!({"replicas": 1, "readyReplicas": 1, "availableReplicas": 1})).unwrap();
    let better = status(&deployment, &[&old, &new], Some(&new), Phase::Rollout, &News::None, at(800));
    deployment.status = Some(better.clone());
    assert_eq!(reason(&deployment).as_deref(), Some("ReplicaSetUpdated"));
    assert_eq!(look_again_in(&deployment, &better, at(900)), Some(SignedDuration::from_secs(501)));
}
