//! Housekeeping against the real API server in the same process.

use crate::workloads::tests::in_process::{Lab, deployment, hollow};
use k8s_openapi::api::{
    apps::v1::{Deployment, ReplicaSet},
    core::v1::{ConfigMap, Namespace, Node, Pod, ServiceAccount},
    policy::v1::PodDisruptionBudget,
};
use kube::{
    ResourceExt,
    api::{DeleteParams, EvictParams, ListParams, Patch, PatchParams, PostParams},
};
use runtime::client::Api;
use serde_json::{from_value, json};
use std::time::Duration;

async fn gone<K>(lab: &Lab, api: &Api<K>, name: &str)
where
    K: Clone + objects::Decode + std::fmt::Debug + Send + Sync + 'static,
{
    lab.eventually(&format!("{name} is gone"), || {
        let (api, name) = (api.clone(), name.to_owned());
        Box::pin(async move { matches!(api.get_opt(&name).await, Ok(None)).then_some(()) })
    })
    .await;
}

fn ready_status(node: &Node) -> String {
    let conditions = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.into_iter().find(|one| one.type_ == "Ready").map(|one| one.status.clone()).unwrap_or_default()
}

fn map(name: &str, owners: &[&ConfigMap]) -> ConfigMap {
    let owners: Vec<_> = owners
        .iter()
        .map(|owner| json!({"apiVersion": "v1", "kind": "ConfigMap", "name": owner.name_any(), "uid": owner.uid(), "blockOwnerDeletion": true}))
        .collect();
    from_value(json!({"metadata": {"name": name, "ownerReferences": owners}})).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dependents_go_with_their_owner_or_stay_as_asked() {
    let lab = Lab::start("garbagecollector", hollow(0)).await;
    let maps = lab.api::<ConfigMap>();
    for (name, params) in [
        ("background", DeleteParams::background()),
        ("foreground", DeleteParams::foreground()),
        ("orphan", DeleteParams::orphan()),
    ] {
        let owner = maps.create(&PostParams::default(), &map(name, &[])).await.unwrap();
        let (child, grandchild) = (format!("{name}-child"), format!("{name}-grandchild"));
        let made = maps.create(&PostParams::default(), &map(&child, &[&owner])).await.unwrap();
        maps.create(&PostParams::default(), &map(&grandchild, &[&made])).await.unwrap();
        maps.delete(name, &params).await.unwrap();
        gone(&lab, &maps, name).await;
        if name == "orphan" {
            lab.until(&maps, &child, "let go", |map| map.owner_references().is_empty()).await;
            assert!(maps.get_opt(&grandchild).await.unwrap().is_some());
        } else {
            gone(&lab, &maps, &child).await;
            gone(&lab, &maps, &grandchild).await;
        }
    }
    // Made after its owner was deleted.
    let late = maps.create(&PostParams::default(), &map("late", &[])).await.unwrap();
    maps.delete("late", &DeleteParams::default()).await.unwrap();
    maps.create(&PostParams::default(), &map("late-child", &[&late])).await.unwrap();
    gone(&lab, &maps, "late-child").await;
    lab.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_namespace_has_what_all_have_and_goes_with_everything_in_it() {
    let mut options = hollow(1);
    options.housekeeping.root_ca = Some("a certificate".to_owned());
    let lab = Lab::start(
        "namespace,serviceaccount,root-ca-cert-publisher,deployment,replicaset,scheduler,hollow-node,nodelifecycle",
        options,
    )
    .await;
    let namespaces: Api<Namespace> = Api::all(lab.client.clone());
    namespaces
        .create(&PostParams::default(), &from_value(json!({"metadata": {"name": "team"}})).unwrap())
        .await
        .unwrap();
    let accounts: Api<ServiceAccount> = Api::namespaced(lab.client.clone(), "team");
    let maps: Api<ConfigMap> = Api::namespaced(lab.client.clone(), "team");
    lab.until(&accounts, "default", "the account", |_| true).await;
    let published = |map: &ConfigMap| map.data.as_ref().is_some_and(|data| data["ca.crt"] == "a certificate");
    lab.until(&maps, "kube-root-ca.crt", "the certificates", published).await;
    maps.delete("kube-root-ca.crt", &DeleteParams::default()).await.unwrap();
    lab.until(&maps, "kube-root-ca.crt", "the certificates again", published).await;

    let deployments: Api<Deployment> = Api::namespaced(lab.client.clone(), "team");
    deployments.create(&PostParams::default(), &deployment("web", 3, "one")).await.unwrap();
    let ready = |one: &Deployment| one.status.as_ref().is_some_and(|status| status.available_replicas == Some(3));
    lab.until(&deployments, "web", "three pods", ready).await;
    let keep = json!({"metadata": {"name": "kept", "finalizers": ["example.com/keep"]}});
    maps.create(&PostParams::default(), &from_value(keep).unwrap()).await.unwrap();
    namespaces.delete("team", &DeleteParams::default()).await.unwrap();
    let describes = |namespace: &Namespace| {
        let conditions = namespace.status.iter().flat_map(|status| status.conditions.iter().flatten());
        conditions.into_iter().any(|one| one.type_ == "NamespaceFinalizersRemaining" && one.status == "True")
    };
    lab.until(&namespaces, "team", "it says what keeps it", describes).await;
    assert!(matches!(deployments.get_opt("web").await, Ok(None)));
    maps.patch("kept", &PatchParams::default(), &Patch::Merge(json!({"metadata": {"finalizers": null}})))
        .await
        .unwrap();
    gone(&lab, &namespaces, "team").await;
    lab.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn evictions_stop_at_the_budget() {
    let lab = Lab::start("deployment,replicaset,scheduler,hollow-node,nodelifecycle,disruption", hollow(2)).await;
    let (deployments, pods) = (lab.api::<Deployment>(), lab.api::<Pod>());
    deployments.create(&PostParams::default(), &deployment("web", 3, "one")).await.unwrap();
    let budgets = lab.api::<PodDisruptionBudget>();
    let budget = json!({"metadata": {"name": "web"}, "spec": {"maxUnavailable": 1, "selector": {"matchLabels": {"app": "web"}}}});
    budgets.create(&PostParams::default(), &from_value(budget).unwrap()).await.unwrap();
    let spare = |budget: &PodDisruptionBudget| {
        budget
            .status
            .as_ref()
            .is_some_and(|status| status.disruptions_allowed == Some(1) && status.current_healthy == Some(3))
    };
    lab.until(&budgets, "web", "one to spare", spare).await;
    // The replacement never becomes ready, so the second eviction is refused.
    let broken = Patch::Merge(
        json!({"spec": {"template": {"metadata": {"annotations": {"hollow.twinstack.dev/fail": "ready"}}}, "paused": true}}),
    );
    deployments.patch("web", &PatchParams::default(), &broken).await.unwrap();
    let sets = lab.api::<ReplicaSet>();
    let set = sets.list(&ListParams::default()).await.unwrap().items.remove(0).name_any();
    let broken = Patch::Merge(
        json!({"spec": {"template": {"metadata": {"annotations": {"hollow.twinstack.dev/fail": "ready"}}}}}),
    );
    sets.patch(&set, &PatchParams::default(), &broken).await.unwrap();
    let names: Vec<String> =
        pods.list(&ListParams::default()).await.unwrap().items.iter().map(ResourceExt::name_any).collect();
    let evicting: kube::Api<Pod> = kube::Api::namespaced(lab.client.clone(), "default");
    evicting.evict(&names[0], &EvictParams::default()).await.unwrap();
    let spent = |budget: &PodDisruptionBudget| {
        budget
            .status
            .as_ref()
            .is_some_and(|status| status.current_healthy == Some(2) && status.disruptions_allowed == Some(0))
    };
    lab.until(&budgets, "web", "nothing to spare", spent).await;
    let refused = evicting.evict(&names[1], &EvictParams::default()).await.unwrap_err();
    assert!(matches!(refused, kube::Error::Api(status) if status.code == 429));
    lab.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_silent_node_is_left_and_comes_back() {
    let mut options = hollow(2);
    options.hollow.heartbeat = Duration::from_millis(50);
    options.housekeeping.node_monitor_grace_period = Duration::from_millis(1500);
    options.housekeeping.node_monitor_period = Duration::from_millis(100);
    let lab =
        Lab::start("deployment,replicaset,scheduler,hollow-node,nodelifecycle,taint-eviction-controller", options)
            .await;
    let (deployments, nodes) = (lab.api::<Deployment>(), Api::<Node>::all(lab.client.clone()));
    let mut web = deployment("web", 2, "one");
    web.spec.template.spec.as_mut().unwrap().tolerations =
        from_value(json!([{"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 0}])).unwrap();
    deployments.create(&PostParams::default(), &web).await.unwrap();
    let ready = |one: &Deployment| one.status.as_ref().is_some_and(|status| status.available_replicas == Some(2));
    lab.until(&deployments, "web", "two pods", ready).await;

    let silence = |yes: bool| {
        Patch::Merge(json!({"metadata": {"annotations": {"hollow.twinstack.dev/silent": yes.to_string()}}}))
    };
    nodes.patch("hollow-0", &PatchParams::default(), &silence(true)).await.unwrap();
    lab.until(&nodes, "hollow-0", "unknown", |node| ready_status(node) == "Unknown").await;
    let tainted =
        |node: &Node| node.spec.as_ref().and_then(|spec| spec.taints.as_ref()).is_some_and(|all| all.len() == 2);
    lab.until(&nodes, "hollow-0", "tainted", tainted).await;
    lab.until(&deployments, "web", "both pods on the other node", ready).await;
    nodes.patch("hollow-0", &PatchParams::default(), &silence(false)).await.unwrap();
    lab.until(&nodes, "hollow-0", "ready", |node| ready_status(node) == "True").await;
    let clean = |node: &Node| node.spec.as_ref().and_then(|spec| spec.taints.as_ref()).is_none_or(Vec::is_empty);
    lab.until(&nodes, "hollow-0", "clean", clean).await;
    let pods = lab.api::<Pod>();
    lab.eventually("the evicted pod has ended", || {
        let pods = pods.clone();
        Box::pin(async move {
            let all = pods.list(&ListParams::default()).await.ok()?.items;
            (all.len() == 2 && all.iter().all(|pod| pod.metadata.deletion_timestamp.is_none())).then_some(())
        })
    })
    .await;
    lab.stop().await;
}
