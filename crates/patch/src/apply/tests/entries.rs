//! Entries by version and by subresource, and what clients may do to them.

use super::*;

/// A custom kind whose schema says nothing of its fields.
fn custom() -> Object {
    Object { api_version: "x.io/v1", versions: vec!["x.io/v1", "x.io/v2"], ..Object::new(Shape::Any, "Fleet") }
}

#[test]
fn an_applier_is_one_through_all_versions_and_an_updater_is_not() {
    let mut fleet = custom();
    fleet.apply("m", Force::No, json!({"spec": {"a": 1, "b": 1}})).unwrap();
    fleet.edit("u", |fleet| fleet.set("spec.c", 1));
    fleet.api_version = "x.io/v2";
    fleet.apply("m", Force::No, json!({"spec": {"a": 1}})).unwrap();
    fleet.edit("u", |fleet| fleet.set("spec.d", 1));
    assert_eq!(fleet.at("spec"), &json!({"a": 1, "c": 1, "d": 1}), "b was let go in another version");
    assert_eq!(fleet.owners(), ["m Apply 03: .spec .spec.a", "u Update 02: .spec.c", "u Update 04: .spec.d"]);
    let versions: Vec<&str> = fleet
        .live
        .as_ref()
        .unwrap()
        .list_at("metadata.managedFields")
        .iter()
        .map(|entry| entry.str_at("apiVersion"))
        .collect();
    assert_eq!(versions, ["x.io/v2", "x.io/v1", "x.io/v2"]);

    let error = fleet.apply("n", Force::No, json!({"spec": {"c": 2}})).unwrap_err();
    assert_eq!(error.message, "Apply failed with 1 conflict: conflict with \"u\" using x.io/v1: .spec.c");

    fleet.versions = vec!["x.io/v2"];
    fleet.edit("u", |fleet| fleet.set("spec.d", 2));
    assert_eq!(
        fleet.owners(),
        ["m Apply 03: .spec .spec.a", "u Update 06: .spec.d"],
        "nobody owns in a version that is gone"
    );
    fleet.versions = vec!["x.io/v3"];
    fleet.api_version = "x.io/v3";
    fleet.edit("nobody", |_| {});
    assert!(fleet.owners().is_empty(), "not even by a write without change");
}

#[test]
fn writes_through_status_have_entries_of_their_own() {
    let mut service = Object::new(SERVICE, "Service");
    service.update(
        "u",
        json!({"spec": {"type": "ClusterIP"}, "status": {"conditions": [{"type": "A", "status": "True"}]}}),
    );
    assert!(!service.owners()[0].contains(".status"), "the main resource does not set status");
    service.subresource = "status";
    let conditions = |status: &str| json!({"status": {"conditions": [{"type": "A", "status": status}]}});
    service.edit("u", |service| {
        service.set("status", json!({"conditions": [{"type": "A", "status": "False"}]}));
        service.set("spec.type", "NodePort");
    });
    let entries = service.live.as_ref().unwrap().list_at("metadata.managedFields");
    let subresources: Vec<&str> = entries.iter().map(|entry| entry.str_at("subresource")).collect();
    assert_eq!(subresources, ["", "status"]);
    assert!(!service.owners()[1].contains(".spec"), "status does not set the spec");

    let error = service.apply("m", Force::No, conditions("Unknown")).unwrap_err();
    let path = ".status.conditions[type=\"A\"].status";
    let expected =
        format!("Apply failed with 1 conflict: conflict with \"u\" with subresource \"status\" using v1: {path}");
    assert_eq!(error.message, expected);
    service.apply("m", Force::Yes, conditions("Unknown")).unwrap();
    service.subresource = "";
    service.apply("m", Force::No, json!({"spec": {"sessionAffinity": "None"}})).unwrap();
    let appliers: Vec<String> = service.owners().into_iter().filter(|owner| owner.starts_with("m Apply")).collect();
    assert_eq!(appliers.len(), 2, "{appliers:?}");
    assert_eq!(
        service.at("status.conditions")[0]["status"],
        "Unknown",
        "applying the spec does not take the status back"
    );
}

#[test]
fn entries_sent_through_a_subresource_are_ignored() {
    let mut service = Object::new(SERVICE, "Service");
    service.update("u", json!({"spec": {"type": "ClusterIP"}}));
    let before = service.owners();
    service.subresource = "status";
    for entries in [
        json!([]),
        json!([{}]),
        json!([{"manager": "x", "operation": "Apply", "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": {"f:spec": {}}}]),
    ] {
        service.edit("u", |service| service.set("metadata.managedFields", entries));
        assert_eq!(service.owners(), before);
    }
}

#[test]
fn entries_of_a_client_are_put_into_our_words() {
    let mut service = Object::new(SERVICE, "Service");
    service.update("u", json!({"spec": {"ports": [{"port": 80, "protocol": "TCP"}]}}));
    let fields = json!({"f:spec": {"f:ports": {"k:{\"protocol\": \"TCP\", \"port\": 80}": {".": {}}}}, "q:later": {}});
    let entry = json!({"manager": "x", "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": fields});
    service.edit("u", |service| service.set("metadata.managedFields", json!([entry])));
    let written = &service.at("metadata.managedFields")[0]["fieldsV1"];
    assert_eq!(written, &json!({"f:spec": {"f:ports": {"k:{\"port\":80,\"protocol\":\"TCP\"}": {}}}}));
}

#[test]
fn a_list_that_says_nothing_forgets_all_managers() {
    for entries in [json!([]), json!([{}]), json!([{"manager": "", "time": null}])] {
        let mut map = Object::new(CONFIG_MAP, "ConfigMap");
        map.update("u", json!({"data": {"a": "1"}}));
        map.update("u", json!({"data": {"a": "2"}, "metadata": {"managedFields": entries}}));
        assert!(map.owners().is_empty(), "{entries}");
    }
}

#[test]
fn an_object_that_does_not_fit_its_type_keeps_its_entries() {
    let mut map = Object::new(CONFIG_MAP, "ConfigMap");
    map.update("u", json!({"data": {"a": "1"}}));
    let before = map.owners();
    let mut broken = map.live.clone().unwrap();
    broken.set("data", 5);
    let update = Update {
        shape: &CONFIG_MAP,
        live: map.live.as_ref(),
        claim: Claim::default(),
        manager: "v",
        api_version: "v1",
        versions: &["v1"],
        subresource: "",
        reset: &FieldSet::default(),
        now: Timestamp::from_second(9).unwrap(),
    };
    track_update(&update, &mut broken);
    map.live = Some(broken);
    assert_eq!(map.owners(), before);
}

#[test]
fn a_write_that_only_moves_times_is_none() {
    let entry = |time: &str| json!({"manager": "m", "operation": "Apply", "time": time});
    let object = |times: &[&str], data: &str| -> Value {
        let entries: Vec<Value> = times.iter().map(|time| entry(time)).collect();
        json!({"metadata": {"managedFields": entries}, "data": data})
    };
    let stored = object(&["1", "2"], "a");
    for (new, expected) in [
        (object(&["1", "3"], "a"), object(&["1", "2"], "a")),
        (object(&["1", "3"], "b"), object(&["1", "3"], "b")),
        (object(&["3"], "a"), object(&["3"], "a")),
        (object(&["1", "2"], "b"), object(&["1", "2"], "b")),
    ] {
        let mut settled = new.clone();
        settle_times(&stored, &mut settled);
        assert_eq!(settled, expected, "{new}");
    }
}
