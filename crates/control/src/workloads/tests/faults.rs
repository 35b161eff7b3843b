//! Cut off after any write and started again, the workloads arrive where they should.

use super::in_process::{Lab, deployment, hollow, is_rolled_out};
use apiserver::{
    client::{InProcess, myself},
    testing::Breaking,
};
use k8s_openapi::api::{
    apps::v1::{DaemonSet, Deployment, ReplicaSet},
    core::v1::Pod,
};
use kube::{
    Client, ResourceExt,
    api::{ListParams, Patch, PatchParams, PostParams},
};
use runtime::client::Api;
use serde_json::{from_value, json};
use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

const WORKLOADS: &str = "deployment,replicaset,daemonset,scheduler,hollow-node,nodelifecycle";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cut_off_after_any_write_and_started_again() {
    for writes in (0..12).chain((12..40).step_by(4)) {
        let server = apiserver::testing::server().await;
        let user = Client::new(InProcess::new(Arc::clone(&server), myself()), "default");
        let template =
            json!({"metadata": {"labels": {"app": "agent"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
        let agent: DaemonSet = from_value(json!({"metadata": {"name": "agent"}, "spec": {
            "selector": {"matchLabels": {"app": "agent"}}, "template": template}}))
        .unwrap();
        Api::<DaemonSet>::namespaced(user.clone(), "default").create(&PostParams::default(), &agent).await.unwrap();
        let deployments = Api::<Deployment>::namespaced(user.clone(), "default");
        deployments.create(&PostParams::default(), &deployment("web", 4, "one")).await.unwrap();

        let (wire, left) = Breaking::new(&server, writes);
        let cut = Client::new(wire, "default");
        // Heartbeats keep it writing when there is nothing else to do.
        let mut options = hollow(2);
        options.hollow.heartbeat = Duration::from_millis(20);
        let first = Lab::over(cut, WORKLOADS, options);
        first
            .eventually("it is cut off, or done", || {
                let (left, deployments) = (Arc::clone(&left), deployments.clone());
                Box::pin(async move {
                    let done = deployments.get("web").await.is_ok_and(|one| is_rolled_out(&one));
                    (done || left.load(Ordering::SeqCst) < 0).then_some(())
                })
            })
            .await;
        first.stop().await;

        let image = json!({"spec": {"template": {"spec": {"containers": [{"name": "c", "image": "two"}]}}}});
        deployments.patch("web", &PatchParams::default(), &Patch::Strategic(image)).await.unwrap();
        let lab = Lab::over(user, WORKLOADS, hollow(2));
        lab.give_all_cidrs(2).await;
        lab.until(&deployments, "web", "rolled out", is_rolled_out).await;
        let daemons = lab.api::<DaemonSet>();
        lab.until(&daemons, "agent", "on both nodes", |set| {
            set.status
                .as_ref()
                .is_some_and(|status| status.number_available == Some(2) && status.updated_number_scheduled == Some(2))
        })
        .await;
        let pods = lab.api::<Pod>();
        lab.eventually("no pod too many", || {
            let pods = pods.clone();
            Box::pin(async move {
                let all = pods.list(&ListParams::default()).await.ok()?.items;
                let count = |app: &str| {
                    all.iter().filter(|pod| pod.labels().get("app").is_some_and(|label| label == app)).count()
                };
                (count("web") == 4 && count("agent") == 2).then_some(())
            })
        })
        .await;
        let sets = lab.api::<ReplicaSet>().list(&ListParams::default()).await.unwrap().items;
        assert!(sets.len() <= 2, "cut off after {writes} writes: {} ReplicaSets", sets.len());
        lab.stop().await;
    }
}
