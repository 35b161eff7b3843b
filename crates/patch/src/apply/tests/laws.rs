//! What holds for arbitrary objects and any order of writes.

use super::*;
use crate::apply::{ownership, path::Step};
use proptest::prelude::*;
use std::collections::BTreeSet;

/// Arbitrary configurations of a pod: few names and values, so that they meet. Lists and maps hold `least` entries or more.
fn pod(least: usize) -> impl Strategy<Value = Value> {
    let labels = prop::option::of(prop::collection::btree_map("[a-c]", "[x-y]", least..3));
    let port = (prop::option::of("[p-q]"), prop::option::of(Just(8)));
    let ports = prop::collection::btree_map((prop_oneof![Just(53), Just(80)], "(TCP|UDP)"), port, least..3);
    let args = prop::option::of(prop::collection::vec("[a-b]", least..2));
    let container = (prop::option::of("[i-j]"), prop::option::of(ports), args);
    let containers = prop::collection::vec(("[a-d]", container), least..4);
    let finalizers = prop::option::of(prop::collection::btree_set("[f-h]", least..3));
    (labels, containers, finalizers).prop_map(|(labels, containers, finalizers)| {
        let mut seen = BTreeSet::new();
        let containers: Vec<Value> = containers
            .into_iter()
            .filter(|(name, _)| seen.insert(name.clone()))
            .map(|(name, (image, ports, args))| {
                let ports = ports.map(|ports| {
                    let port = |((port, protocol), (name, host))| {
                        // TCP is the default, so leaving it out must not matter.
                        let protocol = Some(protocol).filter(|protocol| protocol != "TCP" || host == Some(8));
                        without_nulls(
                            json!({"containerPort": port, "protocol": protocol, "name": name, "hostPort": host}),
                        )
                    };
                    ports.into_iter().map(port).collect::<Vec<_>>()
                });
                without_nulls(json!({"name": name, "image": image, "ports": ports, "args": args}))
            })
            .collect();
        let metadata = without_nulls(json!({"name": "o", "labels": labels, "finalizers": finalizers}));
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": containers}})
    })
}

fn without_nulls(mut value: Value) -> Value {
    if let Value::Object(map) = &mut value {
        map.retain(|_, value| !value.is_null());
    }
    value
}

proptest! {
    #[test]
    fn applying_twice_is_applying_once(before in pod(0), config in pod(0), other in pod(0)) {
        let mut object = Object::new(POD, "Pod");
        object.update("u", before);
        object.apply("other", Force::Yes, other).unwrap();
        object.apply("m", Force::Yes, config.clone()).unwrap();
        let once = object.live.clone();
        object.apply("m", Force::No, config).unwrap();
        prop_assert_eq!(object.live, once);
    }

    #[test]
    fn what_was_applied_is_there_and_owned(before in pod(0), config in pod(1)) {
        let mut object = Object::new(POD, "Pod");
        object.update("u", before);
        object.apply("m", Force::Yes, config.clone()).unwrap();
        let live = object.live.unwrap();
        let wanted = typed::fields(&POD, &config);
        prop_assert!(wanted.difference(&typed::fields(&POD, &live)).is_empty());
        let again = typed::compare(&POD, &live, &typed::merge(&POD, &live, &config));
        prop_assert!(again.modified.union(again.added).is_empty());
        let mine = &live.list_at("metadata.managedFields")[0];
        let unowned = wanted.difference(&FieldSet::from_value(&mine["fieldsV1"]).unwrap()).paths();
        let unowned: Vec<String> = unowned.iter().map(ToString::to_string).collect();
        prop_assert_eq!(unowned, [".apiVersion", ".kind", ".metadata.name"]);
    }

    #[test]
    fn an_apply_that_is_taken_back_leaves_what_was_there(before in pod(0), config in pod(0)) {
        let mut object = Object::new(POD, "Pod");
        object.update("u", before);
        let start = object.live.clone().unwrap();
        if object.apply("m", Force::No, config).is_ok() {
            object.apply("m", Force::No, json!({"metadata": {"name": "o"}})).unwrap();
            let change = typed::compare(&POD, &start, &object.live.unwrap());
            prop_assert!(change.modified.difference(&FieldSet::of(&["metadata.managedFields"])).is_empty());
            prop_assert!(change.removed.is_empty(), "{:?}", change.removed.paths());
        }
    }

    #[test]
    fn only_the_writer_gains_by_an_update(first in pod(0), second in pod(0)) {
        let mut object = Object::new(POD, "Pod");
        object.update("u1", first);
        let before = object.owners();
        object.update("u2", second);
        let after = object.owners();
        prop_assert!(after.iter().filter(|owner| !owner.starts_with("u2")).count() <= before.len());
    }

    #[test]
    fn an_apply_wins_back_what_an_update_changed(first in pod(1), second in pod(1), config in pod(1)) {
        let mut object = Object::new(POD, "Pod");
        object.update("u", first);
        object.apply("m", Force::Yes, config.clone()).unwrap();
        object.update("u", second);
        object.apply("m", Force::Yes, config.clone()).unwrap();
        let live = object.live.clone().unwrap();
        let again = typed::compare(&POD, &live, &typed::merge(&POD, &live, &config));
        prop_assert!(again.modified.union(again.added).is_empty());
        object.apply("m", Force::No, config).unwrap();
        prop_assert_eq!(object.live.unwrap(), live, "there is nothing left to win");
    }

    #[test]
    fn nobody_owns_by_updates_what_is_not_there(writes in prop::collection::vec(pod(1), 1..5)) {
        let mut object = Object::new(POD, "Pod");
        for (number, pod) in writes.into_iter().enumerate() {
            object.update(&format!("u{number}"), pod);
        }
        let live = object.live.unwrap();
        let there = typed::with_named(&typed::fields(&POD, &live), &POD);
        for entry in live.list_at("metadata.managedFields") {
            let nowhere = FieldSet::from_value(&entry["fieldsV1"]).unwrap().difference(&there).paths();
            prop_assert!(nowhere.is_empty(), "{}: {:?}", entry["manager"], nowhere);
        }
    }

    #[test]
    fn sending_entries_back_is_leaving_them_out(first in pod(0), second in pod(0), third in pod(0)) {
        let mut object = Object::new(POD, "Pod");
        object.update("u", first);
        object.apply("m", Force::Yes, second).unwrap();
        let mut twin = Object { live: object.live.clone(), second: object.second, ..Object::new(POD, "Pod") };
        let entries = object.at("metadata.managedFields").clone();
        let mut sent = third.clone();
        sent.set("metadata.managedFields", entries.clone());
        object.update("v", sent);
        twin.update("v", third);
        prop_assert_eq!(&object.live, &twin.live);

        let before = object.live.clone();
        object.edit("nobody", |_| {});
        prop_assert_eq!(object.live, before, "a write without change");
    }

    #[test]
    fn the_short_way_says_what_the_long_way_says(first in pod(0), second in pod(0), config in pod(0), third in pod(0), writer in "[uvm]") {
        let mut object = Object::new(POD, "Pod");
        object.update("u", first);
        object.update("v", second);
        object.apply("m", Force::Yes, config).unwrap();
        let live = object.live.clone().unwrap();
        object.update(&writer, third);
        let mut expected = object.live.clone().unwrap();
        expected.remove("metadata.managedFields");
        // An object without managers stays one.
        prop_assume!(!live.list_at("metadata.managedFields").is_empty());
        let touched = ownership::Touched::between(&POD, &live, &expected, &object.reset());
        let mut managed = managed::Managed::of(&live);
        managed.reword();
        let writer = managed::Manager::new(&writer, managed::Operation::Update, "v1", "");
        ownership::update(touched, &mut managed, (writer, "v1", "1970-01-01T00:00:04Z"));
        managed.write(&mut expected, Vec::new());
        settle_times(&live, &mut expected);
        prop_assert_eq!(object.live.unwrap(), expected);
    }

    #[test]
    fn whoever_applies_no_less_takes_nothing_back(live in pod(0), config in pod(0), other in pod(0)) {
        let mut object = Object::new(POD, "Pod");
        object.update("u", live);
        object.apply("other", Force::Yes, other).unwrap();
        let live = object.live.unwrap();
        let merged = typed::merge(&POD, &live, &config);
        let applied = typed::fields(&POD, &config);
        let others = managed::Managed::of(&live);
        let mut last = applied.clone();
        last.subtract(&FieldSet::of(&["metadata.name", "kind"]));
        let pruned = ownership::prune(&POD, &merged, &last, &applied, &others);
        prop_assert!(typed::compare(&POD, &merged, &pruned).removed.is_empty());
        prop_assert_eq!(pruned, merged);
    }

    #[test]
    fn entries_of_any_kind_are_read_or_ignored(fields in set::tests::any_set(), pod in pod(0)) {
        let mut object = Object::new(POD, "Pod");
        object.update("u", pod.clone());
        let mut sent = pod;
        sent.set("metadata.managedFields", json!([
            {"manager": "x", "operation": "Apply", "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": fields.to_value()},
        ]));
        object.update("u", sent);
        object.apply("x", Force::Yes, json!({"metadata": {"labels": {"a": "1"}}})).unwrap();
        let mine = FieldSet::from_value(&object.at("metadata.managedFields")[0]["fieldsV1"]).unwrap();
        prop_assert!(mine.has(&["metadata", "labels", "a"].map(Step::field)));
    }

    #[test]
    fn nothing_makes_it_panic(live in crate::json::tests::document(), config in crate::json::tests::document()) {
        for shape in [POD, CONFIG_MAP, Shape::Any] {
            let mut object = Object::new(shape, "Pod");
            object.live = Some(live.clone());
            let _ = object.apply("m", Force::Yes, json!({"spec": config, "data": config, "metadata": {}}));
            object.update("u", json!({"spec": live, "data": config, "metadata": {"managedFields": [config]}}));
        }
    }
}
