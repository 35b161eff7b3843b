//! StatefulSets and ReplicationControllers on a whole API server in memory, also cut off after any write.

use super::in_process::{Lab, hollow, pod_template};
use apiserver::{
    client::{InProcess, myself},
    testing::Breaking,
};
use k8s_openapi::api::{
    apps::v1::{ControllerRevision, StatefulSet},
    core::v1::{Pod, ReplicationController},
    policy::v1::PodDisruptionBudget,
};
use kube::{
    Client, ResourceExt,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
};
use runtime::client::Api;
use serde_json::{Value, from_value, json};
use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

const STATEFUL: &str = "statefulset,scheduler,hollow-node,nodelifecycle";

fn set(replicas: i32, image: &str, more: Value) -> StatefulSet {
    let mut spec = json!({"replicas": replicas, "serviceName": "db", "selector": {"matchLabels": {"app": "db"}},
        "template": pod_template("db", image)});
    for (field, value) in more.as_object().unwrap() {
        spec[field] = value.clone();
    }
    from_value(json!({"metadata": {"name": "db"}, "spec": spec})).unwrap()
}

/// What `kubectl rollout status` waits for.
fn is_rolled_out(set: &StatefulSet) -> bool {
    let status = set.status.clone().unwrap_or_default();
    let wanted = set.spec.replicas.unwrap_or(1);
    status.observed_generation == set.metadata.generation
        && status.replicas == wanted
        && status.ready_replicas.unwrap_or_default() == wanted
        && status.updated_replicas.unwrap_or_default() == wanted
        && status.current_revision == status.update_revision
}

fn images(pods: &[Pod]) -> Vec<String> {
    let mut all: Vec<String> = pods
        .iter()
        .map(|pod| format!("{} {}", pod.name_any(), pod.spec.as_ref().unwrap().containers[0].image.clone().unwrap()))
        .collect();
    all.sort();
    all
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stateful_set_grows_rolls_goes_back_and_shrinks() {
    let lab = Lab::start(STATEFUL, hollow(2)).await;
    let sets = lab.api::<StatefulSet>();
    sets.create(&PostParams::default(), &set(3, "one", json!({}))).await.unwrap();
    lab.until(&sets, "db", "rolled out", is_rolled_out).await;
    let pods = lab.pods("db", 3).await;
    assert_eq!(images(&pods), ["db-0 one", "db-1 one", "db-2 one"]);
    let first = pods.iter().find(|pod| pod.name_any() == "db-0").unwrap();
    assert_eq!(first.labels()["apps.kubernetes.io/pod-index"], "0");
    assert_eq!(first.spec.as_ref().unwrap().hostname.as_deref(), Some("db-0"));
    let made = |name: &str| pods.iter().find(|pod| pod.name_any() == name).unwrap().metadata.resource_version.clone();
    assert!(made("db-0").is_some());

    for (image, revision) in [("two", 2), ("one", 3)] {
        let patch = json!({"spec": {"template": pod_template("db", image)}});
        sets.patch("db", &PatchParams::default(), &Patch::Strategic(patch)).await.unwrap();
        lab.until(&sets, "db", "rolled out", is_rolled_out).await;
        let wanted: Vec<String> = (0..3).map(|number| format!("db-{number} {image}")).collect();
        assert_eq!(images(&lab.pods("db", 3).await), wanted);
        let revisions = lab.api::<ControllerRevision>().list(&ListParams::default()).await.unwrap().items;
        assert_eq!(revisions.iter().filter_map(|one| one.revision).max(), Some(revision));
        assert_eq!(revisions.len(), 2, "the first template's revision is used again");
    }
    let patch = json!({"spec": {"updateStrategy": {"rollingUpdate": {"partition": 2}}, "template": pod_template("db", "three")}});
    sets.patch("db", &PatchParams::default(), &Patch::Strategic(patch)).await.unwrap();
    let canary = |set: &StatefulSet| {
        let status = set.status.clone().unwrap_or_default();
        status.updated_replicas == Some(1) && status.ready_replicas == Some(3)
    };
    lab.until(&sets, "db", "one of three", canary).await;
    assert_eq!(images(&lab.pods("db", 3).await), ["db-0 one", "db-1 one", "db-2 three"]);
    lab.api::<Pod>().delete("db-0", &DeleteParams::default()).await.unwrap();
    lab.until(&sets, "db", "whole again", canary).await;
    lab.eventually("made anew below the partition", || {
        let pods = lab.api::<Pod>();
        Box::pin(async move {
            let all = pods.list(&ListParams::default()).await.ok()?.items;
            (images(&all) == ["db-0 one", "db-1 one", "db-2 three"]).then_some(())
        })
    })
    .await;
    sets.patch("db", &PatchParams::default(), &Patch::Merge(json!({"spec": {"replicas": 1}}))).await.unwrap();
    let left = lab.pods("db", 1).await;
    assert_eq!(left[0].name_any(), "db-0");
    lab.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_orphan_of_the_right_name_is_adopted_and_a_replication_controller_lives() {
    let lab =
        Lab::start("statefulset,replicationcontroller,disruption,scheduler,hollow-node,nodelifecycle", hollow(1)).await;
    let (sets, pods) = (lab.api::<StatefulSet>(), lab.api::<Pod>());
    for name in ["db-0", "stranger"] {
        let orphan: Pod = from_value(json!({"metadata": {"name": name, "labels": {"app": "db"}},
            "spec": {"containers": [{"name": "c", "image": "i"}]}}))
        .unwrap();
        pods.create(&PostParams::default(), &orphan).await.unwrap();
    }
    sets.create(&PostParams::default(), &set(2, "one", json!({"podManagementPolicy": "Parallel"}))).await.unwrap();
    lab.until(&pods, "db-0", "adopted, with its labels", |pod| {
        pod.owner_references().len() == 1 && pod.labels().contains_key("statefulset.kubernetes.io/pod-name")
    })
    .await;
    lab.until(&pods, "db-1", "made", |_| true).await;
    assert!(pods.get("stranger").await.unwrap().owner_references().is_empty());

    let controllers = lab.api::<ReplicationController>();
    let controller: ReplicationController =
        from_value(json!({"metadata": {"name": "rc"}, "spec": {"replicas": 2, "template": pod_template("rc", "i")}}))
            .unwrap();
    controllers.create(&PostParams::default(), &controller).await.unwrap();
    let available =
        |one: &ReplicationController| one.status.as_ref().is_some_and(|status| status.available_replicas == Some(2));
    lab.until(&controllers, "rc", "two are available", available).await;
    let budget: PodDisruptionBudget = from_value(json!({"metadata": {"name": "rc"},
        "spec": {"maxUnavailable": "50%", "selector": {"matchLabels": {"app": "rc"}}}}))
    .unwrap();
    let budgets = lab.api::<PodDisruptionBudget>();
    budgets.create(&PostParams::default(), &budget).await.unwrap();
    lab.until(&budgets, "rc", "one may go", |budget| {
        budget
            .status
            .as_ref()
            .is_some_and(|status| status.expected_pods == Some(2) && status.disruptions_allowed == Some(1))
    })
    .await;
    let scale = json!({"spec": {"replicas": 1}});
    controllers.patch("rc", &PatchParams::default(), &Patch::Merge(scale)).await.unwrap();
    lab.pods("rc", 1).await;
    lab.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rollout_cut_off_after_any_write_goes_on() {
    for writes in (0..24).step_by(3) {
        let server = apiserver::testing::server().await;
        let user = Client::new(InProcess::new(Arc::clone(&server), myself()), "default");
        let sets = Api::<StatefulSet>::namespaced(user.clone(), "default");
        sets.create(&PostParams::default(), &set(2, "one", json!({}))).await.unwrap();
        let (wire, left) = Breaking::new(&server, writes);
        let mut options = hollow(2);
        options.hollow.heartbeat = Duration::from_millis(20);
        let first = Lab::over(Client::new(wire, "default"), STATEFUL, options);
        first
            .eventually("it is cut off, or done", || {
                let (left, sets) = (Arc::clone(&left), sets.clone());
                Box::pin(async move {
                    let done = sets.get("db").await.is_ok_and(|one| is_rolled_out(&one));
                    (done || left.load(Ordering::SeqCst) < 0).then_some(())
                })
            })
            .await;
        first.stop().await;
        let patch = json!({"spec": {"template": pod_template("db", "two")}});
        sets.patch("db", &PatchParams::default(), &Patch::Strategic(patch)).await.unwrap();
        let lab = Lab::over(user, STATEFUL, hollow(2));
        lab.give_all_cidrs(2).await;
        lab.until(&sets, "db", "rolled out", is_rolled_out).await;
        assert_eq!(images(&lab.pods("db", 2).await), ["db-0 two", "db-1 two"], "cut off after {writes} writes");
        let revisions = lab.api::<ControllerRevision>().list(&ListParams::default()).await.unwrap().items;
        assert!(revisions.len() <= 2, "cut off after {writes} writes: {} revisions", revisions.len());
        lab.stop().await;
    }
}
