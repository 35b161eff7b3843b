//! kube-rs unchanged: typed and dynamic clients, watchers, a reflector and a controller, over TLS and inside the process.

use e2e::Server;
use futures::StreamExt;
use k8s_openapi::api::core::v1::{ConfigMap, Service};
use kube::{
    Api, Client, Config, ResourceExt,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
    config::{KubeConfigOptions, Kubeconfig},
    runtime::{Controller, WatchStreamExt, controller::Action, reflector, watcher},
};
use serde_json::json;
use std::{sync::Arc, time::Duration};
use tokio::task::JoinSet;

/// A client as any program outside makes one.
async fn over_tls(server: &Server, context: &str) -> Client {
    let kubeconfig = Kubeconfig::read_from(server.kubeconfig()).expect("a kubeconfig");
    let options = KubeConfigOptions { context: Some(context.to_owned()), ..KubeConfigOptions::default() };
    Client::try_from(Config::from_custom_kubeconfig(kubeconfig, &options).await.expect("a config")).expect("a client")
}

async fn within<F: Future>(work: F) -> F::Output {
    tokio::time::timeout(Duration::from_secs(60), work).await.expect("done in time")
}

async fn typed_objects_go_in_and_come_out(client: Client) {
    let maps: Api<ConfigMap> = Api::default_namespaced(client.clone());
    let map = ConfigMap { data: Some([("a".to_owned(), "1".to_owned())].into()), ..ConfigMap::default() };
    let mut map = map;
    map.metadata.name = Some("typed".to_owned());
    let made = maps.create(&PostParams::default(), &map).await.expect("created");
    assert!(made.uid().is_some());
    let patch = Patch::Apply(json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"b": "2"}}));
    let applied = maps.patch("typed", &PatchParams::apply("e2e"), &patch).await.expect("applied");
    assert_eq!(applied.data.map(|data| data.len()), Some(2));
    let stale = maps.replace("typed", &PostParams::default(), &made).await.expect_err("stale");
    assert!(matches!(stale, kube::Error::Api(status) if status.code == 409 && status.reason == "Conflict"));
    let page = maps.list(&ListParams::default().limit(1)).await.expect("a page");
    assert_eq!(page.items.len(), 1);
    maps.delete("typed", &DeleteParams::default()).await.expect("deleted");

    let services: Api<Service> = Api::default_namespaced(client);
    let service = serde_json::from_value(json!({
        "metadata": {"name": "typed"}, "spec": {"ipFamilyPolicy": "PreferDualStack", "ports": [{"port": 80}]},
    }));
    let made = services.create(&PostParams::default(), &service.expect("a service")).await.expect("created");
    assert_eq!(made.spec.and_then(|spec| spec.cluster_ips).map(|ips| ips.len()), Some(2));
    services.delete("typed", &DeleteParams::default()).await.expect("deleted");
}

async fn a_reflector_follows(client: Client, config: watcher::Config) {
    let maps: Api<ConfigMap> = Api::default_namespaced(client);
    let (store, writer) = reflector::store();
    let follow =
        reflector(writer, watcher(maps.clone(), config.labels("followed=yes"))).default_backoff().touched_objects();
    let mut following = JoinSet::new();
    following.spawn(follow.for_each(|_| async {}));
    store.wait_until_ready().await.expect("the first list arrives");
    for index in 0..20 {
        let map = json!({"metadata": {"name": format!("f{index}"), "labels": {"followed": "yes"}}});
        maps.create(&PostParams::default(), &serde_json::from_value(map).expect("a map")).await.expect("created");
    }
    maps.delete("f0", &DeleteParams::default()).await.expect("deleted");
    while store.len() != 19 || store.find(|map| map.name_any() == "f0").is_some() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    following.shutdown().await;
    maps.delete_collection(&DeleteParams::default(), &ListParams::default().labels("followed=yes"))
        .await
        .expect("deleted");
}

async fn a_controller_makes_what_is_wanted(client: Client) {
    let maps: Api<ConfigMap> = Api::default_namespaced(client.clone());
    let services: Api<Service> = Api::default_namespaced(client);
    let wanted = watcher::Config::default().labels("wants=service");
    let controller = Controller::new(maps.clone(), wanted).owns(services.clone(), watcher::Config::default());
    let mut running = JoinSet::new();
    running.spawn(
        controller
            .run(
                reconcile,
                |_, _: &kube::Error, _| Action::requeue(Duration::from_millis(100)),
                Arc::new(services.clone()),
            )
            .for_each(|_| async {}),
    );
    let map = json!({"metadata": {"name": "owner", "labels": {"wants": "service"}}});
    maps.create(&PostParams::default(), &serde_json::from_value(map).expect("a map")).await.expect("created");
    let there = || async { services.get_opt("owner").await.expect("an answer") };
    while there().await.is_none() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    services.delete("owner", &DeleteParams::default()).await.expect("deleted");
    while there().await.is_none() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    running.shutdown().await;
    maps.delete("owner", &DeleteParams::default()).await.expect("deleted");
    services.delete("owner", &DeleteParams::default()).await.expect("deleted");
}

async fn reconcile(map: Arc<ConfigMap>, services: Arc<Api<Service>>) -> Result<Action, kube::Error> {
    use kube::Resource;
    let owner = map.controller_owner_ref(&()).expect("it is stored");
    let service = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": map.name_any(), "ownerReferences": [owner]},
        "spec": {"ports": [{"port": 80, "protocol": "TCP"}]},
    });
    services.patch(&map.name_any(), &PatchParams::apply("e2e"), &Patch::Apply(service)).await?;
    Ok(Action::await_change())
}

async fn everything(client: Client) {
    typed_objects_go_in_and_come_out(client.clone()).await;
    a_reflector_follows(client.clone(), watcher::Config::default()).await;
    a_reflector_follows(client.clone(), watcher::Config::default().streaming_lists()).await;
    a_controller_makes_what_is_wanted(client).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn over_tls_in_both_families() {
    runtime::tls::install_provider();
    let server = Server::start(&[]);
    for context in ["twinstack", "twinstack-ipv6"] {
        within(everything(over_tls(&server, context).await)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn inside_the_process_without_sockets() {
    let server = apiserver::testing::server().await;
    let me = apiserver::client::InProcess::new(server, apiserver::client::myself());
    within(everything(Client::new(me, "default"))).await;
}
