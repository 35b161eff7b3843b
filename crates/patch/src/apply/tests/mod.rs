//! Server-side apply and ownership: stories of managers that share an object, and mistakes. `lists` has those about lists and
//! maps, `entries` those about versions and subresources, `laws` what holds for arbitrary objects.

use super::*;
use api::{error::ApiError, object::Fields, schema::Shape};
use jiff::Timestamp;
use serde_json::{Value, json};

mod entries;
mod laws;
mod lists;

const CONFIG_MAP: Shape = Shape::Named("io.k8s.api.core.v1.ConfigMap");
const SERVICE: Shape = Shape::Named("io.k8s.api.core.v1.Service");
const POD: Shape = Shape::Named("io.k8s.api.core.v1.Pod");

/// One object that managers write to; every write is a second later than the one before.
struct Object {
    shape: Shape,
    kind: &'static str,
    /// The version and the subresource that it is written through now.
    api_version: &'static str,
    subresource: &'static str,
    versions: Vec<&'static str>,
    live: Option<Value>,
    second: i64,
}

impl Object {
    fn new(shape: Shape, kind: &'static str) -> Self {
        Self { shape, kind, api_version: "v1", subresource: "", versions: vec!["v1"], live: None, second: 0 }
    }

    fn reset(&self) -> FieldSet {
        FieldSet::of(&[if self.subresource == "status" { "spec" } else { "status" }])
    }

    fn now(&mut self) -> Timestamp {
        self.second += 1;
        Timestamp::from_second(self.second).unwrap()
    }

    fn body(&self, mut body: Value) -> Value {
        body["apiVersion"] = json!(self.api_version);
        body["kind"] = json!(self.kind);
        body.set_default("metadata.name", "o");
        body
    }

    fn apply(&mut self, manager: &str, force: Force, config: Value) -> Result<(), ApiError> {
        let now = self.now();
        let applied = apply(&Apply {
            shape: &self.shape,
            kind: self.kind,
            live: self.live.as_ref(),
            config: &self.body(config),
            manager,
            force,
            api_version: self.api_version,
            versions: &self.versions,
            subresource: self.subresource,
            reset: &self.reset(),
            now,
        });
        let mut applied = applied?;
        api::schema::decode(&self.shape, &mut applied);
        if let Some(live) = &self.live {
            settle_times(live, &mut applied);
        }
        self.live = Some(applied);
        Ok(())
    }

    fn update(&mut self, manager: &str, new: Value) {
        let mut new = self.body(new);
        let claim = Claim::of(&new);
        let now = self.now();
        api::schema::decode(&self.shape, &mut new);
        let update = Update {
            shape: &self.shape,
            live: self.live.as_ref(),
            claim,
            manager,
            api_version: self.api_version,
            versions: &self.versions,
            subresource: self.subresource,
            reset: &self.reset(),
            now,
        };
        track_update(&update, &mut new);
        if let Some(live) = &self.live {
            settle_times(live, &mut new);
        }
        self.live = Some(new);
    }

    /// The live object after a change by hand, written by `manager`.
    fn edit(&mut self, manager: &str, change: impl FnOnce(&mut Value)) {
        let mut new = self.live.clone().unwrap();
        change(&mut new);
        self.update(manager, new);
    }

    fn at(&self, path: &str) -> &Value {
        self.live.as_ref().unwrap().at(path)
    }

    /// The entries as `manager operation time: paths`.
    fn owners(&self) -> Vec<String> {
        let show = |entry: &Value| {
            let set = FieldSet::from_value(&entry["fieldsV1"]).unwrap();
            let paths: Vec<String> = set.paths().iter().map(ToString::to_string).collect();
            let time = entry.str_at("time").strip_prefix("1970-01-01T00:00:").unwrap_or("-").trim_end_matches('Z');
            format!("{} {} {time}: {}", entry.str_at("manager"), entry.str_at("operation"), paths.join(" "))
        };
        self.live.iter().flat_map(|live| live.list_at("metadata.managedFields")).map(show).collect()
    }

    fn data(&self) -> &Value {
        self.live.as_ref().unwrap().at("data")
    }
}

#[test]
fn managers_share_conflict_take_over_and_let_go() {
    let mut map = Object::new(CONFIG_MAP, "ConfigMap");
    map.apply("m1", Force::No, json!({"data": {"a": "1", "b": "1"}})).unwrap();
    map.apply("m2", Force::No, json!({"data": {"b": "1", "c": "1"}})).unwrap();
    assert_eq!(map.owners(), ["m1 Apply 01: .data.a .data.b", "m2 Apply 02: .data.b .data.c"]);

    let error = map.apply("m2", Force::No, json!({"data": {"a": "2", "b": "2"}})).unwrap_err();
    assert_eq!((error.code, error.reason), (409, "Conflict"));
    assert_eq!(error.message, "Apply failed with 2 conflicts: conflicts with \"m1\":\n- .data.a\n- .data.b");
    assert_eq!(
        error.details["causes"][0],
        json!({"reason": "FieldManagerConflict", "message": "conflict with \"m1\"", "field": ".data.a"})
    );

    map.apply("m2", Force::Yes, json!({"data": {"b": "2"}})).unwrap();
    assert_eq!(map.owners(), ["m1 Apply 01: .data.a", "m2 Apply 04: .data.b"]);
    assert_eq!(map.data(), &json!({"a": "1", "b": "2"}), "c was m2's alone and is gone");

    map.apply("m1", Force::No, json!({})).unwrap();
    assert_eq!(map.owners(), ["m2 Apply 04: .data.b"]);
    assert_eq!(map.data(), &json!({"b": "2"}));
}

#[test]
fn updates_take_ownership_and_are_named_in_conflicts() {
    let mut map = Object::new(CONFIG_MAP, "ConfigMap");
    map.update("u1", json!({"data": {"a": "1", "b": "1"}}));
    assert_eq!(map.owners(), ["u1 Update 01: .data .data.a .data.b"]);
    map.update("u2", json!({"data": {"a": "2"}}));
    assert_eq!(map.owners(), ["u1 Update 01: .data", "u2 Update 02: .data.a"], "b is gone, a changed hands");
    map.update("u3", json!({"data": {"a": "2"}}));
    assert_eq!(map.owners(), ["u1 Update 01: .data", "u2 Update 02: .data.a"], "u3 changed nothing");

    let error = map.apply("m", Force::No, json!({"data": {"a": "3"}})).unwrap_err();
    assert_eq!(error.message, "Apply failed with 1 conflict: conflict with \"u2\" using v1: .data.a");
    map.apply("m", Force::No, json!({"data": {"a": "2"}})).unwrap();
    assert_eq!(map.owners()[0], "m Apply -: .data.a", "agreeing changes nothing, so there is no time");
    map.apply("m", Force::No, json!({})).unwrap();
    assert_eq!(map.data(), &json!({"a": "2"}), "u2 still owns it");
}

#[test]
fn an_untracked_object_belongs_to_whoever_was_before_the_first_apply() {
    let mut map = Object::new(CONFIG_MAP, "ConfigMap");
    map.update("u", json!({"data": {"a": "1"}}));
    map.update("u", json!({"data": {"a": "1"}, "metadata": {"managedFields": []}}));
    assert!(map.owners().is_empty(), "an empty list forgets all");
    map.update("u", json!({"data": {"a": "2"}}));
    assert!(map.owners().is_empty(), "and nobody keeps account any more");
    map.apply("m", Force::No, json!({"data": {"b": "1"}})).unwrap();
    assert_eq!(map.owners(), ["m Apply 04: .data.b", "before-first-apply Update 04: .data .data.a"]);
}

#[test]
fn clients_may_set_entries_and_broken_ones_are_ignored() {
    let entry = json!({"manager": "x", "operation": "Apply", "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": {"f:data": {"f:a": {}}}});
    let broken = |key: &str, value: &str| {
        let mut entry = entry.clone();
        entry[key] = json!(value);
        entry
    };
    for (entries, expected) in [
        (json!([entry]), "x Apply -: .data.a"),
        (json!([{}]), ""),
        (json!([broken("operation", "Bogus")]), "u Update 01: .data .data.a"),
        (json!([broken("fieldsType", "FieldsV2")]), "u Update 01: .data .data.a"),
        (json!([broken("apiVersion", "")]), "u Update 01: .data .data.a"),
        (json!(null), "u Update 01: .data .data.a"),
    ] {
        let mut map = Object::new(CONFIG_MAP, "ConfigMap");
        map.update("u", json!({"data": {"a": "1"}}));
        map.update("u", json!({"data": {"a": "1"}, "metadata": {"managedFields": entries}}));
        assert_eq!(map.owners().join("; "), expected, "{entries}");
    }
}

#[test]
fn the_oldest_of_many_updaters_become_one() {
    let mut map = Object::new(CONFIG_MAP, "ConfigMap");
    let mut data = serde_json::Map::new();
    for number in 1..=12 {
        data.insert(format!("k{number}"), json!("1"));
        map.update(&format!("u{number}"), json!({ "data": data }));
    }
    let owners = map.owners();
    assert_eq!(owners.len(), 10);
    assert_eq!(owners[0], "ancient-changes Update 03: .data .data.k1 .data.k2 .data.k3");
    assert_eq!(owners[1], "u4 Update 04: .data.k4");
}

#[test]
fn a_repeated_apply_changes_nothing_not_even_the_time() {
    let mut map = Object::new(CONFIG_MAP, "ConfigMap");
    for _ in 0..2 {
        map.apply("m", Force::No, json!({"data": {"a": "1"}})).unwrap();
        assert_eq!(map.owners(), ["m Apply 01: .data.a"]);
    }
}

#[test]
fn mistaken_configurations_are_bad_requests_that_name_every_mistake() {
    let port = json!({"port": 80});
    for (body, parts) in [
        (json!({"metadata": {"managedFields": []}}), vec!["metadata.managedFields"]),
        (
            json!({"bogus": 1, "spec": {"type": 5}}),
            vec![".bogus: field not declared in schema", ".spec.type: must be a string, got 5"],
        ),
        (json!({"spec": {"ports": [port, port]}}), vec![".spec.ports[port=80,protocol=\"TCP\"]: stands twice"]),
        (json!({"spec": {"ports": {"port": 80}}}), vec![".spec.ports: must be a list"]),
        (json!({"spec": {"ports": [1]}}), vec![".spec.ports[0]: must be an object"]),
        (json!({"metadata": {"finalizers": ["a", "a"]}}), vec![".metadata.finalizers[=\"a\"]: stands twice"]),
        (json!({"spec": []}), vec![".spec: must be an object"]),
    ] {
        let error = Object::new(SERVICE, "Service").apply("m", Force::No, body).unwrap_err();
        assert_eq!(error.code, 400);
        for part in parts {
            assert!(error.message.contains(part), "{part:?} in {:?}", error.message);
        }
    }
    let mut other = Object::new(SERVICE, "Service");
    other.kind = "ConfigMap";
    assert_eq!(other.apply("m", Force::No, json!({"data": {}})).unwrap_err().code, 400, "a Service has no data");
}

#[test]
fn entries_of_versions_and_types_that_are_gone_are_brought_up_to_date() {
    let mut map = Object::new(CONFIG_MAP, "ConfigMap");
    let entry = |version: &str, fields: Value| json!({"manager": "x", "operation": "Update", "apiVersion": version, "fieldsType": "FieldsV1", "fieldsV1": fields});
    map.live = Some(map.body(json!({"metadata": {"uid": "u", "managedFields": [
        entry("v0", json!({"f:data": {"f:old": {}}})),
        entry("v1", json!({"f:metadata": {"f:ownerReferences": {"k:{\"uid\":\"u\"}": {"f:name": {}, "f:kind": {}}}}})),
    ]}})));
    map.update("u", json!({"data": {"a": "1"}, "metadata": {"uid": "u"}}));
    let owners = ["x Update -: .metadata.ownerReferences[uid=\"u\"]", "u Update 01: .data .data.a"];
    assert_eq!(map.owners(), owners, "an owner reference is owned as a whole");
}

#[test]
fn families_and_addresses_are_owned_as_their_types_say() {
    for (families, ips) in [
        (json!(["IPv4"]), ["10.0.0.1"].as_slice()),
        (json!(["IPv6"]), &["fd00::1"]),
        (json!(["IPv4", "IPv6"]), &["10.0.0.1", "fd00::1"]),
        (json!(["IPv6", "IPv4"]), &["fd00::1", "10.0.0.1"]),
    ] {
        let mut service = Object::new(SERVICE, "Service");
        service.apply("m", Force::No, json!({"spec": {"ipFamilies": families, "clusterIPs": ips}})).unwrap();
        assert_eq!(
            service.owners(),
            ["m Apply 01: .spec.clusterIPs .spec.ipFamilies"],
            "lists that are owned as a whole"
        );

        let fields: Value = ips.iter().map(|ip| json!({ "ip": ip })).collect();
        let object = json!({"status": {"podIPs": fields}});
        let expected: Vec<String> = ips.iter().map(|ip| format!(".status.podIPs[ip=\"{ip}\"]")).collect();
        let owned = typed::fields(&POD, &object).paths();
        let items: Vec<String> = owned.iter().filter(|path| path.0.len() == 3).map(ToString::to_string).collect();
        assert_eq!(items.len(), expected.len());
        assert!(expected.iter().all(|path| items.contains(path)), "{items:?}");
    }
}

#[test]
fn kubectl_takes_over_what_client_side_apply_set() {
    const ANNOTATION: &str = "kubectl.kubernetes.io/last-applied-configuration";
    let last =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "o"}, "data": {"a": "1", "b": "1"}});
    let start = || {
        let mut map = Object::new(CONFIG_MAP, "ConfigMap");
        map.update(
            "kubectl-client-side-apply",
            json!({"data": {"a": "1", "b": "2"}, "metadata": {"annotations": {ANNOTATION: last.to_string()}}}),
        );
        map
    };
    let config = json!({"data": {"a": "9"}});
    start().apply("other", Force::No, config.clone()).unwrap_err();

    let mut map = start();
    map.apply("kubectl", Force::No, config).unwrap();
    assert_eq!(map.data(), &json!({"a": "9", "b": "2"}));
    let expected =
        "{\"apiVersion\":\"v1\",\"data\":{\"a\":\"9\"},\"kind\":\"ConfigMap\",\"metadata\":{\"name\":\"o\"}}\n";
    assert_eq!(map.live.as_ref().unwrap()["metadata"]["annotations"][ANNOTATION], json!(expected));

    let error = start().apply("kubectl", Force::No, json!({"data": {"a": "9", "b": "9"}})).unwrap_err();
    let fields: Vec<&Value> = error.details.list_at("causes").iter().map(|cause| &cause["field"]).collect();
    assert_eq!(fields, [".data.b"], "b was changed since, so it is still in conflict");
}

#[test]
fn a_user_agent_names_a_manager() {
    for (agent, manager) in
        [("kubectl/v1.30 (linux)", "kubectl"), ("a\u{7}b", "ab"), ("", ""), (&"ü".repeat(99), &"ü".repeat(64))]
    {
        assert_eq!(manager_of(agent), manager);
    }
}
