use super::{
    super::discovery::Kind,
    graph::{Graph, Item, Propagation, Verdict},
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{ApiResource, GroupVersionKind};
use serde_json::{Value, from_value, json};
use std::{collections::BTreeSet, sync::Arc};

fn kind(name: &str, namespaced: bool) -> Arc<Kind> {
    Arc::new(Kind::new(ApiResource::from_gvk(&GroupVersionKind::gvk("", "v1", name)), namespaced))
}

/// An object of namespace `ns` with these owners; its uid is its name.
fn item(name: &str, owners: &[&str], more: Value) -> Item {
    let owners: Vec<Value> = owners
        .iter()
        .map(|owner| json!({"apiVersion": "v1", "kind": "Thing", "name": owner, "uid": owner, "blockOwnerDeletion": true}))
        .collect();
    let mut meta =
        json!({"name": name, "uid": name, "namespace": "ns", "resourceVersion": "1", "ownerReferences": owners});
    for (field, given) in more.as_object().unwrap() {
        meta[field] = given.clone();
    }
    let meta: ObjectMeta = from_value(meta).unwrap();
    Item::new(&kind("Thing", true), &meta).unwrap()
}

fn deleting(finalizer: &str) -> Value {
    json!({"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": [finalizer], "resourceVersion": "2"})
}

fn graph(items: impl IntoIterator<Item = Item>) -> Graph {
    let mut graph = Graph::default();
    for item in items {
        graph.put(item);
    }
    graph
}

#[test]
fn an_object_goes_with_its_last_owner() {
    let mut graph =
        graph([item("a", &[], json!({})), item("b", &[], json!({})), item("child", &["a", "b"], json!({}))]);
    assert_eq!(graph.decide("child"), Verdict::Keep);
    assert_eq!(graph.remove("a"), ["child"]);
    assert_eq!(graph.decide("child"), Verdict::Disown(BTreeSet::from(["a".to_owned()])));
    graph.remove("b");
    assert_eq!(graph.decide("child"), Verdict::Delete(Propagation::Background));
    assert_eq!(graph.decide("a"), Verdict::Keep, "it is not there");
}

#[test]
fn unknown_owners_are_asked_for_first() {
    let mut graph = graph([item("child", &["nobody"], json!({}))]);
    let Verdict::Ask(owners) = graph.decide("child") else { panic!() };
    assert_eq!(owners[0].uid, "nobody");
    graph.note_absent("nobody");
    assert_eq!(graph.decide("child"), Verdict::Delete(Propagation::Background));
}

#[test]
fn foreground_owners_wait_for_dependents_that_block() {
    let mut graph = graph([
        item("owner", &[], json!({})),
        item("child", &["owner"], json!({})),
        item("grandchild", &["child"], json!({})),
    ]);
    let concerned = graph.put(item("owner", &[], deleting("foregroundDeletion")));
    assert_eq!(concerned, ["child", "owner"]);
    assert_eq!(graph.decide("owner"), Verdict::Keep);
    assert_eq!(graph.decide("child"), Verdict::Delete(Propagation::Foreground), "it has dependents of its own");
    let concerned = graph.put(item("child", &["owner"], deleting("foregroundDeletion")));
    assert!(concerned.contains(&"grandchild".to_owned()));
    assert_eq!(graph.decide("grandchild"), Verdict::Delete(Propagation::Background));
    assert_eq!(graph.remove("grandchild"), ["child"]);
    assert_eq!(graph.decide("child"), Verdict::Finish);
    assert_eq!(graph.remove("child"), ["owner"]);
    assert_eq!(graph.decide("owner"), Verdict::Finish);
}

#[test]
fn a_circle_of_owners_that_wait_for_each_other_is_broken_by_whoever_is_looked_at_first() {
    let circle = [("one", "three"), ("two", "one"), ("three", "two")];
    let mut graph = graph(circle.map(|(name, owner)| item(name, &[owner], json!({}))));
    graph.put(item("leaf", &["two"], json!({})));
    for (name, owner) in circle {
        graph.put(item(name, &[owner], deleting("foregroundDeletion")));
        let closed = name == "three";
        assert_eq!(graph.decide("one"), if closed { Verdict::Finish } else { Verdict::Keep }, "{name}");
    }
    assert_eq!(graph.decide("two"), Verdict::Keep, "what is outside of the circle still goes before its owner");
    assert!(graph.remove("leaf").contains(&"two".to_owned()));
    assert_eq!(graph.decide("two"), Verdict::Finish);
    assert_eq!(graph.remove("two"), ["one", "three"]);
    assert_eq!(graph.decide("one"), Verdict::Finish);
    assert_eq!(graph.decide("three"), Verdict::Keep, "its dependent is still there, and waits for nobody");
    assert_eq!(graph.remove("one"), ["three"]);
    assert_eq!(graph.decide("three"), Verdict::Finish);
}

#[test]
fn a_dependent_with_another_owner_survives_a_foreground_deletion() {
    let mut graph =
        graph([item("a", &[], json!({})), item("b", &[], json!({})), item("child", &["a", "b"], json!({}))]);
    graph.put(item("a", &[], deleting("foregroundDeletion")));
    assert_eq!(graph.decide("child"), Verdict::Disown(BTreeSet::from(["a".to_owned()])));
    let concerned = graph.put(item("child", &["b"], json!({"resourceVersion": "3"})));
    assert!(concerned.contains(&"a".to_owned()), "the owner that waits is looked at again");
    assert_eq!(graph.decide("a"), Verdict::Finish);
}

#[test]
fn orphans_lose_their_owner_and_stay() {
    let mut graph =
        graph([item("owner", &[], json!({})), item("one", &["owner"], json!({})), item("two", &["owner"], json!({}))]);
    graph.put(item("owner", &[], deleting("orphan")));
    assert_eq!(graph.decide("owner"), Verdict::Orphan(vec!["one".to_owned(), "two".to_owned()]));
    assert_eq!(graph.decide("one"), Verdict::Keep, "its owner is still there");
}

#[test]
fn owners_are_in_the_same_namespace_or_in_none() {
    let cluster: ObjectMeta = from_value(json!({"name": "c", "uid": "c"})).unwrap();
    let mut all = graph([
        item("other", &[], json!({"namespace": "elsewhere"})),
        item("child", &["other"], json!({})),
        item("fine", &["c"], json!({})),
    ]);
    all.put(Item::new(&kind("Wide", false), &cluster).unwrap());
    assert_eq!(all.decide("child"), Verdict::Delete(Propagation::Background));
    assert_eq!(all.decide("fine"), Verdict::Keep);
}
