//! `runtime::operator` on a whole API server: definitions that are brought up to date, and objects that are written where they differ.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use apiserver::{
    ApiServer,
    client::{InProcess, myself},
    testing::{self, Breaking},
};
use k8s_openapi::api::{core::v1::ConfigMap, rbac::v1::ClusterRoleBinding};
use kube::{
    Client,
    api::{Api, ApiResource, DynamicObject, GroupVersionKind, Patch, PatchParams, PostParams},
};
use runtime::{
    controller::{Scope, Store},
    operator::{Children, Discovery, definitions},
};
use serde_json::{Value, json};
use std::{sync::Arc, sync::atomic::Ordering, time::Duration};

const ME: &str = "kit-test";

fn client(server: &Arc<ApiServer>) -> Client {
    Client::new(InProcess::new(Arc::clone(server), myself()), "default")
}

fn api(client: &Client, group: &str, version: &str, kind: &str) -> Api<DynamicObject> {
    Api::all_with(client.clone(), &ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind)))
}

fn definition_api(client: &Client) -> Api<DynamicObject> {
    api(client, "apiextensions.k8s.io", "v1", "CustomResourceDefinition")
}

fn maps(client: &Client) -> Api<ConfigMap> {
    Api::namespaced(client.clone(), "default")
}

fn definition(fields: &[&str]) -> Value {
    let properties: Value = fields
        .iter()
        .map(|field| ((*field).to_owned(), json!({"type": "string"})))
        .collect::<serde_json::Map<_, _>>()
        .into();
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "gadgets.example.com"},
        "spec": {"group": "example.com", "scope": "Cluster", "names": {"plural": "gadgets", "kind": "Gadget"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
                "type": "object", "properties": {"spec": {"type": "object", "properties": properties}}}}}]}})
}

/// What of `a` and `b` a Gadget of this name keeps; nothing while Gadgets are not served.
async fn kept(client: &Client, name: &str) -> Value {
    let gadgets = api(client, "example.com", "v1", "Gadget");
    let gadget = json!({"apiVersion": "example.com/v1", "kind": "Gadget", "metadata": {"name": name}, "spec": {"a": "1", "b": "2"}});
    let gadget = serde_json::from_value(gadget).unwrap();
    gadgets.create(&PostParams::default(), &gadget).await.map(|made| made.data["spec"].clone()).unwrap_or_default()
}

/// Waits until Gadgets keep this.
async fn becomes(client: &Client, name: &str, wanted: Value) {
    let mut last = Value::Null;
    for attempt in 0..3000 {
        last = kept(client, &format!("{name}-{attempt}")).await;
        if last == wanted {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("{name}: {last}, not {wanted}");
}

async fn as_made_by(client: &Client, manager: &str, definition: Value) {
    let parameters = PostParams { field_manager: Some(manager.to_owned()), ..PostParams::default() };
    definition_api(client).create(&parameters, &serde_json::from_value(definition).unwrap()).await.unwrap();
}

#[tokio::test]
async fn an_older_definition_is_brought_up_to_date_and_what_others_put_there_stays() {
    let client = client(&testing::server().await);
    // As the release before the first that marked definitions left it.
    as_made_by(&client, "dns-operator", definition(&["a"])).await;
    let theirs = json!({"metadata": {"labels": {"theirs": "1"}}});
    let (all, patch) = (definition_api(&client), Patch::Merge(&theirs));
    all.patch("gadgets.example.com", &PatchParams::default(), &patch).await.unwrap();
    becomes(&client, "before", json!({"a": "1"})).await;

    definitions::install(&client, &[definition(&["a", "b"])]).await.unwrap();
    becomes(&client, "after", json!({"a": "1", "b": "2"})).await;
    let live = all.get("gadgets.example.com").await.unwrap();
    assert_eq!(live.data["status"]["storedVersions"], json!(["v1"]));
    assert_eq!(live.metadata.labels.as_ref().unwrap()["theirs"], "1");
    // Again, nothing; and less, when less is wanted.
    definitions::install(&client, &[definition(&["a", "b"])]).await.unwrap();
    assert_eq!(all.get("gadgets.example.com").await.unwrap().metadata.resource_version, live.metadata.resource_version);
    definitions::install(&client, &[definition(&["a"])]).await.unwrap();
    becomes(&client, "last", json!({"a": "1"})).await;
}

#[tokio::test]
async fn a_definition_of_somebody_else_or_of_a_newer_release_stays() {
    let client = client(&testing::server().await);
    as_made_by(&client, "cluster-version-operator", definition(&["a"])).await;
    definitions::install(&client, &[definition(&["a", "b"])]).await.unwrap();
    becomes(&client, "foreign", json!({"a": "1"})).await;
    let newer = json!({"metadata": {"annotations": {definitions::RELEASE: "999.0.0"}}});
    let all = definition_api(&client);
    all.patch("gadgets.example.com", &PatchParams::default(), &Patch::Merge(&newer)).await.unwrap();
    definitions::install(&client, &[definition(&["a", "b"])]).await.unwrap();
    becomes(&client, "newer", json!({"a": "1"})).await;
    // A version that this release needs and that one does not serve.
    let mut other = definition(&["a"]);
    other["spec"]["versions"][0]["name"] = json!("v2");
    let error = definitions::install(&client, &[other]).await.unwrap_err().to_string();
    assert!(
        error.starts_with("the definition gadgets.example.com is of release 999.0.0 and no longer serves version v2"),
        "{error}"
    );
}

#[tokio::test]
async fn a_kind_that_comes_later_is_found() {
    const GADGET: &[(&str, &str)] = &[("example.com/v1", "Gadget")];
    let client = client(&testing::server().await);
    let discovery = Discovery::new(client.clone(), GADGET).await.unwrap();
    assert!(!discovery.served().has(GADGET[0]));
    definitions::install(&client, &[definition(&["a"])]).await.unwrap();
    let (told, hears) = tokio::sync::mpsc::unbounded_channel();
    let mut hears = hears;
    tokio::select! {
        () = discovery.follow(|| told.send(()).unwrap()) => unreachable!("it ends by being dropped"),
        heard = tokio::time::timeout(Duration::from_secs(60), hears.recv()) => assert!(heard.unwrap().is_some()),
    }
    assert!(discovery.served().has(GADGET[0]));
}

fn map(data: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "child", "namespace": "default"}, "data": data})
}

async fn data(client: &Client) -> Value {
    json!(maps(client).get("child").await.unwrap().data)
}

async fn change(client: &Client, patch: Value) {
    maps(client).patch("child", &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
}

#[tokio::test]
async fn only_what_differs_is_written_and_what_others_own_stays() {
    let client = client(&testing::server().await);
    let children = Children::new(client.clone(), ME);
    assert!(children.ensure(map(json!({"a": "1", "b": "1"}))).await.unwrap());
    assert!(!children.ensure(map(json!({"a": "1", "b": "1"}))).await.unwrap(), "it is so already");
    change(&client, json!({"data": {"b": "theirs", "c": "theirs"}})).await;
    assert!(children.ensure(map(json!({"a": "1", "b": "1"}))).await.unwrap(), "b is put right");
    assert!(children.ensure(map(json!({"a": "1"}))).await.unwrap(), "b is wanted no more");
    assert_eq!(data(&client).await, json!({"a": "1", "c": "theirs"}));
    // Another one of the same operator, started later, has nothing to do.
    assert!(!Children::new(client.clone(), ME).ensure(map(json!({"a": "1"}))).await.unwrap());
    assert!(children.delete::<ConfigMap>(Some("default"), "child").await.unwrap());
    assert!(children.delete::<ConfigMap>(Some("default"), "child").await.unwrap(), "gone is gone");
    let make = || Ok(map(json!({"made": "once"})));
    for _ in 0..2 {
        children.create_once::<ConfigMap>(Some("default"), "child", make).await.unwrap();
    }
    assert_eq!(data(&client).await, json!({"made": "once"}));
}

#[tokio::test]
async fn a_watched_object_is_compared_with_what_the_store_has() {
    let client = client(&testing::server().await);
    let (children, store) = (Children::new(client.clone(), ME), Store::<ConfigMap>::default());
    let scope = Scope::namespace("default").name("child");
    tokio::select! {
        () = scope.follow(client.clone(), &store) => unreachable!("it ends by being dropped"),
        () = async {
            store.synced().await;
            assert!(children.keep(&store, map(json!({"a": "1"}))).await.unwrap());
            assert!(!children.keep(&store, map(json!({"a": "1"}))).await.unwrap(), "the store knows what was written");
            change(&client, json!({"data": {"a": "2"}})).await;
            while !children.keep(&store, map(json!({"a": "1"}))).await.unwrap() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            assert_eq!(data(&client).await, json!({"a": "1"}));
        } => {}
    }
}

#[tokio::test]
async fn what_cannot_be_changed_is_made_anew() {
    let client = client(&testing::server().await);
    let children = Children::new(client.clone(), ME);
    children.ensure(map(json!({"a": "1"}))).await.unwrap();
    change(&client, json!({"immutable": true})).await;
    let before = maps(&client).get("child").await.unwrap().metadata.uid;
    assert!(children.ensure(map(json!({"a": "2"}))).await.unwrap());
    let after = maps(&client).get("child").await.unwrap();
    assert_eq!((json!(after.data), after.immutable), (json!({"a": "2"}), None));
    assert_ne!(after.metadata.uid, before);
    let binding = |role: &str| {
        json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "kit"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role}, "subjects": []})
    };
    children.ensure(binding("view")).await.unwrap();
    children.ensure(binding("edit")).await.unwrap();
    let bindings: Api<ClusterRoleBinding> = Api::all(client.clone());
    assert_eq!(bindings.get("kit").await.unwrap().role_ref.name, "edit");
    // A Service's address is not worth a new Service: that stays an error.
    let service = |ip: &str| {
        json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "kit", "namespace": "default"},
            "spec": {"clusterIP": ip, "ports": [{"port": 1}]}})
    };
    children.ensure(service("None")).await.unwrap();
    assert!(children.ensure(service("10.96.0.77")).await.is_err());
}

/// An object of a release that replaced objects whole, with the mark it left.
#[tokio::test]
async fn what_an_earlier_release_wrote_is_taken_over() {
    let client = client(&testing::server().await);
    let mut old = map(json!({"a": "1", "stale": "1"}));
    old["metadata"]["annotations"] = json!({"twinstack.dev/written-from": "0123456789abcdef"});
    let parameters =
        PostParams { field_manager: Some("twinstack-ingress-operator".to_owned()), ..PostParams::default() };
    maps(&client).create(&parameters, &serde_json::from_value(old).unwrap()).await.unwrap();
    change(&client, json!({"data": {"theirs": "1"}})).await;
    let children = Children::new(client.clone(), ME);
    assert!(children.ensure(map(json!({"a": "2"}))).await.unwrap());
    assert_eq!(data(&client).await, json!({"a": "2", "theirs": "1"}));
    let marks = maps(&client).get("child").await.unwrap().metadata.annotations.unwrap();
    assert!(!marks.contains_key("twinstack.dev/written-from"), "{marks:?}");
    assert!(!children.ensure(map(json!({"a": "2"}))).await.unwrap());
}

/// Made, changed, made anew because it cannot be changed, brought up to date: each cut off after each of its writes, then run again.
#[tokio::test]
async fn a_pass_that_is_cut_off_is_made_good_by_the_next() {
    let run = async |client: Client| -> Result<(), runtime::controller::Error> {
        definitions::install(&client, &[definition(&["a", "b"])]).await?;
        let children = Children::new(client.clone(), ME);
        children.ensure(map(json!({"a": "2"}))).await?;
        children.delete::<ConfigMap>(Some("default"), "unwanted").await?;
        Ok(())
    };
    for writes in 1.. {
        let server = testing::server().await;
        let whole = client(&server);
        as_made_by(&whole, "twinstack-init", definition(&["a"])).await;
        let mut frozen = map(json!({"a": "1"}));
        frozen["immutable"] = json!(true);
        maps(&whole).create(&PostParams::default(), &serde_json::from_value(frozen).unwrap()).await.unwrap();
        let mut unwanted = map(json!({}));
        unwanted["metadata"]["name"] = json!("unwanted");
        maps(&whole).create(&PostParams::default(), &serde_json::from_value(unwanted).unwrap()).await.unwrap();

        let (wire, left) = Breaking::new(&server, writes);
        let cut = run(Client::new(wire, "default")).await.is_err();
        assert_eq!(cut, left.load(Ordering::SeqCst) <= 0, "{writes}");
        run(whole.clone()).await.unwrap();
        assert_eq!(data(&whole).await, json!({"a": "2"}), "{writes}");
        assert!(maps(&whole).get_opt("unwanted").await.unwrap().is_none(), "{writes}");
        let live = definition_api(&whole).get("gadgets.example.com").await.unwrap();
        let schema = &live.data["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
        assert!(schema["properties"]["spec"]["properties"]["b"].is_object(), "{writes}");
        if !cut {
            assert!(writes > 5, "there is more to write than {writes}");
            break;
        }
    }
}
