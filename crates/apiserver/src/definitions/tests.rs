//! Every step by itself, and servers that are cut off between any two of them.

use super::{
    Keeper,
    instances::Instances,
    plan::{self, Step},
};
use crate::{ApiServer, client, testing::Lab};
use api::object::Fields;
use http::Method;
use jiff::Timestamp;
use schema::definition::status;
use serde_json::{Value, json};
use std::sync::Arc;
use store::{Retention, Store};

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const NAME: &str = "widgets.example.com";
const FINALIZER: &str = "customresourcecleanup.apiextensions.k8s.io";

fn now() -> Timestamp {
    "2024-01-01T00:00:00Z".parse().unwrap()
}

fn definition() -> Value {
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": NAME},
        "spec": {"group": "example.com", "scope": "Cluster", "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [{"name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}]}})
}

/// A server that does nothing by itself.
async fn idle(store: &Store) -> Arc<ApiServer> {
    let server = Arc::from(Lab::on(store.clone()).server);
    super::prime(&server).await.unwrap();
    server
}

async fn get(server: &Arc<ApiServer>, path: &str) -> Option<Value> {
    client::ask(server, Method::GET, path, None).await.ok()
}

fn word(step: &Step) -> &'static str {
    match step {
        Step::Rest => "rest",
        Step::Wait => "wait",
        Step::Hold(_) => "hold",
        Step::Status(_) => "status",
        Step::Empty => "empty",
        Step::LetGo(_) => "let go",
    }
}

/// Takes steps, each on a server that was just started and is then lost, until there is nothing to do.
async fn steps(store: &Store) -> Vec<&'static str> {
    let mut taken = Vec::new();
    loop {
        let server = idle(store).await;
        let mut keeper = Keeper::load(&server).await.unwrap();
        let next = word(&keeper.next(NAME).await.unwrap());
        if matches!(next, "rest" | "wait") {
            return taken;
        }
        keeper.step(NAME).await.unwrap();
        taken.push(next);
        assert!(taken.len() < 20, "{taken:?}");
    }
}

#[tokio::test]
async fn a_server_that_is_lost_after_any_step_leaves_the_rest_to_the_next() {
    let store = Store::memory(Retention::default());
    client::ask(&idle(&store).await, Method::POST, DEFINITIONS, Some(&definition())).await.unwrap();
    assert_eq!(steps(&store).await, ["status", "status"]);

    let server = idle(&store).await;
    for (name, finalizers) in [("a", json!([])), ("b", json!(["example.com/hold"]))] {
        let object = json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": name, "finalizers": finalizers}});
        client::ask(&server, Method::POST, "/apis/example.com/v1/widgets", Some(&object)).await.unwrap();
    }
    client::ask(&server, Method::DELETE, &format!("{DEFINITIONS}/{NAME}"), None).await.unwrap();
    assert_eq!(steps(&store).await, ["status", "empty"]);
    let server = idle(&store).await;
    assert_eq!(get(&server, "/apis/example.com/v1/widgets/a").await, None);
    let mut held = get(&server, "/apis/example.com/v1/widgets/b").await.unwrap();
    assert!(!held.at("metadata.deletionTimestamp").is_null());

    held.remove("metadata.finalizers");
    client::ask(&server, Method::PUT, "/apis/example.com/v1/widgets/b", Some(&held)).await.unwrap();
    assert_eq!(steps(&store).await, ["let go"]);
    assert_eq!(get(&server, &format!("{DEFINITIONS}/{NAME}")).await, None);
    assert_eq!(idle(&store).await.registry().get("example.com", "v1", "widgets").map(|found| &found.kind), None);
}

#[tokio::test]
async fn routes_are_open_before_established_is_said() {
    let store = Store::memory(Retention::default());
    let server = idle(&store).await;
    client::ask(&server, Method::POST, DEFINITIONS, Some(&definition())).await.unwrap();
    let mut keeper = Keeper::load(&server).await.unwrap();
    let served = |server: &ApiServer| server.registry().get("example.com", "v1", "widgets").is_some();
    assert!(!served(&server));
    keeper.step(NAME).await.unwrap();
    let stored = get(&server, &format!("{DEFINITIONS}/{NAME}")).await.unwrap();
    assert!(!status::is_true(&stored, "Established") && served(&server));
    keeper.step(NAME).await.unwrap();
    assert!(status::is_true(&get(&server, &format!("{DEFINITIONS}/{NAME}")).await.unwrap(), "Established"));
}

#[tokio::test]
async fn of_two_servers_with_the_same_step_one_writes_and_both_go_on() {
    let store = Store::memory(Retention::default());
    let (one, two) = (idle(&store).await, idle(&store).await);
    client::ask(&one, Method::POST, DEFINITIONS, Some(&definition())).await.unwrap();
    let (mut first, mut second) = (Keeper::load(&one).await.unwrap(), Keeper::load(&two).await.unwrap());
    first.step(NAME).await.unwrap();
    // What this one read is old by now: its write is refused, which is no error.
    second.step(NAME).await.unwrap();
    let revision = store.known_revision();
    for server in [&one, &two] {
        let mut fresh = Keeper::load(server).await.unwrap();
        fresh.step(NAME).await.unwrap();
        assert_eq!(store.known_revision(), revision + 1);
    }
    assert_eq!(steps(&store).await, Vec::<&str>::new());
}

#[tokio::test]
async fn a_definition_that_cannot_be_read_or_served_hurts_no_other() {
    let store = Store::memory(Retention::default());
    let server = idle(&store).await;
    client::ask(&server, Method::POST, DEFINITIONS, Some(&definition())).await.unwrap();
    steps(&store).await;
    let prefix = "apiextensions.k8s.io/customresourcedefinitions/";
    let mut odd = definition();
    odd.set("metadata.name", "odds.example.com");
    odd.set("spec.versions", json!([]));
    odd.set("status", json!({"conditions": [{"type": "Established", "status": "True"}]}));
    for (name, bytes) in [("broken.example.com", "{".to_owned()), ("odds.example.com", odd.to_string())] {
        store.txn(store::Txn::of([store::Op::Put(format!("{prefix}{name}").into(), bytes.into())])).await.unwrap();
    }
    let registry = idle(&store).await.registry();
    assert_eq!(registry.group("example.com").map(|found| found.plural.as_str()).collect::<Vec<_>>(), ["widgets"]);
}

#[test]
fn each_state_has_its_next_step() {
    let held = |conditions: &[(&str, &str)], dying: bool| {
        let mut object = definition();
        object.set("metadata.finalizers", json!([FINALIZER, "example.com/other"]));
        if dying {
            object.set("metadata.deletionTimestamp", "2024-01-01T00:00:00Z");
        }
        let conditions: Vec<_> =
            conditions.iter().map(|(kind, status)| json!({"type": kind, "status": status})).collect();
        object.set("status", json!({"conditions": conditions}));
        object
    };
    let served = [("NamesAccepted", "True"), ("Established", "True")];
    let ending = [served[0], served[1], ("Terminating", "True")];
    for (conditions, found, expected, reason) in [
        (&served[..0], Instances::None, "let go", "NeverEstablished"),
        (&served[..], Instances::BuiltIn, "let go", "OverlappingBuiltInResource"),
        (&served[..1], Instances::None, "status", "InstanceDeletionInProgress"),
        (&served[..], Instances::Some, "status", "InstanceDeletionInProgress"),
        (&ending[..], Instances::Some, "empty", ""),
        (&ending[..], Instances::Deleting, "wait", ""),
        (&ending[..], Instances::None, "let go", "InstanceDeletionCompleted"),
    ] {
        let step = plan::dying(&held(conditions, true), found, now());
        assert_eq!(word(&step), expected, "{conditions:?} {found:?}");
        if let Step::Status(object) | Step::LetGo(object) = &step {
            let condition =
                object.list_at("status.conditions").iter().find(|one| one.str_at("type") == "Terminating").unwrap();
            assert_eq!(condition.str_at("reason"), reason);
            let holds = object.list_at("metadata.finalizers").iter().any(|one| one == FINALIZER);
            assert_eq!(holds, expected == "status", "{step:?}");
            assert!(object.list_at("metadata.finalizers").iter().any(|one| one == "example.com/other"));
        }
    }
    // Whoever took the finalizer off wants nothing more of this.
    let mut free = held(&served, true);
    free.set("metadata.finalizers", json!(["example.com/other"]));
    assert_eq!(plan::dying(&free, Instances::Some, now()), Step::Rest);
    // One that came without it, from another server, gets it.
    assert_eq!(word(&plan::living(&definition(), &[], now())), "hold");
}
