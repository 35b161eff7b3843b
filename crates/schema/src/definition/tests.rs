//! Definitions: what is refused and where, how names are given out, what an update may change.

use super::{Definition, DefinitionRules, status};
use api::{
    object::Fields,
    resource::{Rules, Scope},
};
use jiff::Timestamp;
use serde_json::{Value, json};

fn now() -> Timestamp {
    "2024-01-01T00:00:00Z".parse().unwrap()
}

fn definition() -> Value {
    let mut object = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {"group": "example.com", "scope": "Namespaced", "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object",
                "properties": {"spec": {"type": "object", "properties": {"size": {"type": "integer"}, "name": {"type": "string"},
                    "list": {"type": "array", "items": {"type": "string"}}}}}}}}]}});
    DefinitionRules.default(&mut object);
    DefinitionRules.prepare_create(&mut object);
    object
}

/// The definition with a change, as a dotted path and a value.
fn changed(path: &str, value: Value) -> Value {
    let mut object = definition();
    match path.strip_prefix("version.") {
        Some(path) => object["spec"]["versions"][0].set(path, value),
        None => object.set(path, value),
    }
    object
}

fn mistakes(object: &Value) -> Vec<String> {
    DefinitionRules.validate(object).iter().map(ToString::to_string).collect()
}

#[test]
fn a_new_definition_gets_names_a_finalizer_and_its_stored_version() {
    let object = definition();
    assert_eq!(mistakes(&object), Vec::<String>::new());
    assert_eq!(
        object["spec"]["names"],
        json!({"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"})
    );
    assert_eq!(object["spec"]["conversion"], json!({"strategy": "None"}));
    assert_eq!(object["status"], json!({"storedVersions": ["v1"]}));
    assert_eq!(object["metadata"]["finalizers"], json!(["customresourcecleanup.apiextensions.k8s.io"]));
    let read = Definition::read(&object).unwrap();
    assert_eq!((read.scope, read.served, read.names.list_kind.as_str()), (Scope::Namespaced, false, "WidgetList"));
}

#[test]
fn every_mistake_is_told_at_its_field() {
    let deep =
        (0..80).fold(json!({"type": "string"}), |inner, _| json!({"type": "object", "properties": {"a": inner}}));
    let rule = |rule: &str| json!({"type": "object", "x-kubernetes-validations": [{"rule": rule}]});
    for (path, value, expected) in [
        ("metadata.name", json!("widget.example.com"), "metadata.name: Invalid value: \"widget.example.com\""),
        ("spec.group", json!("example"), "metadata.name: Invalid value"),
        (
            "spec.scope",
            json!("World"),
            "spec.scope: Unsupported value: \"World\": supported values: \"Cluster\", \"Namespaced\"",
        ),
        ("spec.scope", Value::Null, "spec.scope: Required value"),
        ("spec.names.kind", json!("Wid_get"), "spec.names.kind: Invalid value: \"Wid_get\""),
        (
            "spec.names.listKind",
            json!("Widget"),
            "spec.names.listKind: Invalid value: \"Widget\": must differ from kind",
        ),
        ("spec.names.singular", json!("Widget"), "spec.names.singular: Invalid value: \"Widget\""),
        ("spec.names.shortNames", json!(["ok", "No"]), "spec.names.shortNames[1]: Invalid value: \"No\""),
        ("spec.names.categories", json!(["a b"]), "spec.names.categories[0]: Invalid value: \"a b\""),
        ("spec.preserveUnknownFields", json!(true), "spec.preserveUnknownFields: Invalid value: true"),
        (
            "spec.conversion",
            json!({"strategy": "Webhook"}),
            "spec.conversion.webhookClientConfig: Required value: required when strategy is set to Webhook",
        ),
        (
            "spec.conversion",
            json!({"strategy": "Webhook", "webhook": {"clientConfig": {"url": "https://a", "service": {"name": "s", "namespace": "n"}}, "conversionReviewVersions": ["v1"]}}),
            "spec.conversion.webhookClientConfig: Required value: exactly one of url or service is required",
        ),
        (
            "spec.conversion",
            json!({"strategy": "Webhook", "webhook": {"clientConfig": {"url": "https://a.example.com"}}}),
            "spec.conversion.conversionReviewVersions: Required value",
        ),
        (
            "spec.conversion",
            json!({"strategy": "Webhook", "webhook": {"clientConfig": {"url": "https://a.example.com"}, "conversionReviewVersions": ["v7"]}}),
            "spec.conversion.conversionReviewVersions: Invalid value: [\"v7\"]: must include at least one of v1, v1beta1",
        ),
        ("spec.conversion", json!({"strategy": "Magic"}), "spec.conversion.strategy: Unsupported value: \"Magic\""),
        (
            "spec.conversion",
            json!({"strategy": "None", "webhook": {"clientConfig": {"url": "https://a.example.com"}}}),
            "spec.conversion.webhookClientConfig: Forbidden",
        ),
        (
            "spec.versions",
            json!([]),
            "spec.versions: Invalid value: []: must have exactly one version with storage: true",
        ),
        ("version.name", json!("V1"), "spec.versions[0].name: Invalid value: \"V1\""),
        (
            "version.storage",
            json!(false),
            "spec.versions: Invalid value: []: must have exactly one version with storage: true",
        ),
        ("version.schema", Value::Null, "spec.versions[0].schema.openAPIV3Schema: Required value"),
        (
            "version.schema.openAPIV3Schema",
            json!({"type": "string"}),
            "spec.versions[0].schema.openAPIV3Schema.type: Invalid value: \"string\": must be object at the root",
        ),
        (
            "version.schema.openAPIV3Schema",
            json!({"type": "object", "properties": {"a": {}}}),
            "spec.versions[0].schema.openAPIV3Schema.properties[a].type: Required value",
        ),
        (
            "version.schema.openAPIV3Schema",
            json!({"type": "object", "$ref": "x"}),
            "spec.versions[0].schema.openAPIV3Schema.$ref: Forbidden",
        ),
        (
            "version.schema.openAPIV3Schema",
            json!({"type": "object", "properties": {"a": {"type": "integer", "default": "x"}}}),
            "spec.versions[0].schema.openAPIV3Schema.properties[a].default: Invalid value",
        ),
        (
            "version.schema.openAPIV3Schema",
            json!({"type": "object", "properties": {"a": {"type": "string", "pattern": "("}}}),
            "spec.versions[0].schema.openAPIV3Schema.properties[a].pattern: Invalid value: \"(\"",
        ),
        (
            "version.schema.openAPIV3Schema",
            json!({"type": "object", "properties": {"metadata": {"type": "object", "properties": {"labels": {"type": "object"}}}}}),
            "spec.versions[0].schema.openAPIV3Schema.properties[metadata]: Forbidden",
        ),
        (
            "version.schema.openAPIV3Schema",
            json!({"type": "object", "properties": {"l": {"type": "array", "x-kubernetes-list-type": "map", "items": {"type": "object"}}}}),
            "spec.versions[0].schema.openAPIV3Schema.properties[l].x-kubernetes-list-map-keys: Required value",
        ),
        ("version.schema.openAPIV3Schema", deep, "spec.versions[0].schema.openAPIV3Schema.properties[a]"),
        (
            "version.schema.openAPIV3Schema",
            rule("self.x == 1"),
            "spec.versions[0].schema.openAPIV3Schema.x-kubernetes-validations[0].rule: Invalid value: {\"Rule\":\"self.x == 1\"",
        ),
        (
            "version.schema.openAPIV3Schema",
            rule("1 + 1"),
            "spec.versions[0].schema.openAPIV3Schema.x-kubernetes-validations[0].rule: Invalid value: {\"Rule\":\"1 + 1\"",
        ),
        (
            "version.deprecationWarning",
            json!("old"),
            "spec.versions[0].deprecationWarning: Invalid value: \"old\": can only be set for deprecated versions",
        ),
        (
            "version.subresources",
            json!({"scale": {"specReplicasPath": ".spec.size"}}),
            "spec.versions[0].subresources.scale.statusReplicasPath: Required value",
        ),
        (
            "version.subresources",
            json!({"scale": {"specReplicasPath": "spec.size", "statusReplicasPath": ".status.size"}}),
            "spec.versions[0].subresources.scale.specReplicasPath: Invalid value: \"spec.size\"",
        ),
        (
            "version.additionalPrinterColumns",
            json!([{"name": "A", "type": "text", "jsonPath": ".a"}]),
            "spec.versions[0].additionalPrinterColumns[0].type: Unsupported value: \"text\"",
        ),
        (
            "version.additionalPrinterColumns",
            json!([{"name": "A", "type": "string", "jsonPath": ".a["}]),
            "spec.versions[0].additionalPrinterColumns[0].jsonPath: Invalid value: \".a[\"",
        ),
        (
            "version.selectableFields",
            json!([{"jsonPath": ".spec.list"}]),
            "spec.versions[0].selectableFields[0].jsonPath: Invalid value: \".spec.list\"",
        ),
        (
            "version.selectableFields",
            json!([{"jsonPath": ".spec.none"}]),
            "spec.versions[0].selectableFields[0].jsonPath: Invalid value: \".spec.none\"",
        ),
        (
            "version.selectableFields",
            json!([{"jsonPath": ".spec.size"}, {"jsonPath": ".spec.size"}]),
            "spec.versions[0].selectableFields[1].jsonPath: Duplicate value",
        ),
    ] {
        let found = mistakes(&changed(path, value.clone()));
        assert!(found.first().is_some_and(|first| first.starts_with(expected)), "{path} = {value}: {found:?}");
    }
}

#[test]
fn mistakes_are_told_all_at_once() {
    let mut object = changed("spec.scope", json!("World"));
    object.set("spec.names.shortNames", json!(["No"]));
    object["spec"]["versions"][0].set("name", "V1");
    let fields: Vec<String> = DefinitionRules.validate(&object).into_iter().map(|error| error.field).collect();
    assert_eq!(
        fields,
        [
            "spec.scope",
            "spec.versions[0].name",
            "spec.names.shortNames[0]",
            "status.storedVersions",
            "status.storedVersions[0]"
        ]
    );
}

#[test]
fn groups_of_the_community_need_approval() {
    let of = |group: &str, approval: Option<&str>| {
        let mut object = changed("spec.group", json!(group));
        object.set("metadata.name", format!("widgets.{group}"));
        if let Some(approval) = approval {
            object.set("metadata.annotations", json!({"api-approved.kubernetes.io": approval}));
        }
        object
    };
    for (group, approval, refused, reported) in [
        ("example.com", None, "", None),
        ("notk8s.io", None, "", None),
        (
            "a.k8s.io",
            None,
            "metadata.annotations[api-approved.kubernetes.io]: Required value",
            Some(("False", "MissingAnnotation")),
        ),
        (
            "k8s.io",
            Some("maybe"),
            "metadata.annotations[api-approved.kubernetes.io]: Invalid value: \"maybe\"",
            Some(("False", "InvalidAnnotation")),
        ),
        ("a.kubernetes.io", Some("unapproved, a test"), "", Some(("False", "UnapprovedAnnotation"))),
        ("a.k8s.io", Some("https://example.com/1"), "", Some(("True", "ApprovedAnnotation"))),
    ] {
        let object = of(group, approval);
        let found = mistakes(&object);
        match refused {
            "" => assert_eq!(found, Vec::<String>::new(), "{group} {approval:?}"),
            refused => assert!(found.len() == 1 && found[0].starts_with(refused), "{group} {approval:?}: {found:?}"),
        }
        let status = status::settle(&object, &[], now()).unwrap();
        let condition = status
            .list_at("conditions")
            .iter()
            .find(|one| one.str_at("type") == "KubernetesAPIApprovalPolicyConformant");
        assert_eq!(condition.map(|one| (one.str_at("status"), one.str_at("reason"))), reported, "{group} {approval:?}");
    }
}

#[test]
fn an_update_keeps_what_clients_rely_on() {
    let mut old = definition();
    old.set("status.conditions", json!([{"type": "Established", "status": "True"}]));
    for (path, value, expected) in [
        ("spec.names.shortNames", json!(["wd"]), ""),
        ("spec.scope", json!("Cluster"), "spec.scope: Invalid value: \"Cluster\": field is immutable"),
        ("spec.names.kind", json!("Gadget"), "spec.names.kind: Invalid value: \"Gadget\": field is immutable"),
    ] {
        let mut new = old.clone();
        new.set(path, value);
        DefinitionRules.prepare_update(&mut new, &old);
        let found: Vec<String> = DefinitionRules.validate_update(&new, &old).iter().map(ToString::to_string).collect();
        let expected: Vec<&str> = Some(expected).filter(|text| !text.is_empty()).into_iter().collect();
        assert_eq!(found, expected, "{path}");
    }
}

#[test]
fn a_stored_version_stays_until_it_is_taken_off_the_status() {
    let old = definition();
    let mut new = old.clone();
    let mut second = old["spec"]["versions"][0].clone();
    second.set("name", "v2");
    new["spec"]["versions"][0].set("storage", false);
    new["spec"]["versions"].as_array_mut().unwrap().push(second);
    DefinitionRules.prepare_update(&mut new, &old);
    assert_eq!(new["status"]["storedVersions"], json!(["v1", "v2"]));
    assert!(DefinitionRules.validate_update(&new, &old).is_empty());

    let mut without = new.clone();
    without["spec"]["versions"].as_array_mut().unwrap().remove(0);
    let found = DefinitionRules.validate_update(&without, &new);
    assert_eq!(found.iter().map(|error| error.field.as_str()).collect::<Vec<_>>(), ["status.storedVersions[0]"]);
    without.set("status.storedVersions", json!(["v2"]));
    assert!(DefinitionRules.validate_update(&without, &new).is_empty());
}

#[test]
fn an_update_cannot_lose_the_finalizer_but_a_deletion_can() {
    let old = definition();
    let mut new = old.clone();
    new.remove("metadata.finalizers");
    DefinitionRules.prepare_update(&mut new, &old);
    assert_eq!(new["metadata"]["finalizers"], old["metadata"]["finalizers"]);
    let mut dying = old.clone();
    dying.set("metadata.deletionTimestamp", "2024-01-01T00:00:00Z");
    new.remove("metadata.finalizers");
    DefinitionRules.prepare_update(&mut new, &dying);
    assert!(new.at("metadata.finalizers").is_null());
}

#[test]
fn names_come_first_and_established_second() {
    let mut object = definition();
    let mut reported = Vec::new();
    while let Some(status) = status::settle(&object, &[], now()) {
        let conditions = status.list_at("conditions").iter();
        reported.push(
            conditions
                .map(|one| format!("{}={} {}", one.str_at("type"), one.str_at("status"), one.str_at("reason")))
                .collect::<Vec<_>>(),
        );
        object.set("status", status);
    }
    assert_eq!(
        reported,
        [
            ["NamesAccepted=True NoConflicts", "Established=False Installing"],
            ["NamesAccepted=True NoConflicts", "Established=True InitialNamesAccepted"]
        ]
    );
    assert_eq!(object["status"]["acceptedNames"], object["spec"]["names"]);
}

#[test]
fn a_name_belongs_to_whoever_had_it_first() {
    let mut first = definition();
    first.set("spec.names.shortNames", json!(["wd", "wi"]));
    while let Some(status) = status::settle(&first, &[], now()) {
        first.set("status", status);
    }
    let second = |names: Value| {
        let mut object = definition();
        object.set("metadata.name", "gadgets.example.com");
        object.set("spec.names", names);
        object
    };
    let plain = json!({"plural": "gadgets", "singular": "gadget", "kind": "Gadget", "listKind": "GadgetList"});
    for (path, value, reason, message) in [
        ("kind", json!("Widget"), "KindConflict", "\"Widget\" is already in use"),
        ("listKind", json!("WidgetList"), "ListKindConflict", "\"WidgetList\" is already in use"),
        ("singular", json!("widget"), "SingularConflict", "\"widget\" is already in use"),
        ("singular", json!("wd"), "SingularConflict", "\"wd\" is already in use"),
        ("shortNames", json!(["g", "wd"]), "ShortNamesConflict", "\"wd\" is already in use"),
        (
            "shortNames",
            json!(["wi", "widgets"]),
            "ShortNamesConflict",
            "[\"wi\" is already in use, \"widgets\" is already in use]",
        ),
        ("shortNames", json!(["g"]), "NoConflicts", "no conflicts found"),
    ] {
        let mut names = plain.clone();
        names.set(path, value.clone());
        let object = second(names);
        let status = status::settle(&object, &[&first, &object], now()).unwrap();
        let condition = &status["conditions"][0];
        assert_eq!((condition.str_at("reason"), condition.str_at("message")), (reason, message), "{path} {value}");
        let accepted = reason == "NoConflicts";
        assert_eq!(condition.str_at("status"), if accepted { "True" } else { "False" });
        assert_eq!(status["conditions"][1].str_at("reason"), if accepted { "Installing" } else { "NotAccepted" });
        assert_eq!(status["acceptedNames"].at(path) == &value, accepted, "{path} {value}");
        // Another group is another world.
        let mut elsewhere = object;
        elsewhere.set("spec.group", "example.org");
        assert_eq!(status::settle(&elsewhere, &[&first], now()).unwrap()["conditions"][0].str_at("status"), "True");
    }
}

#[test]
fn an_established_definition_keeps_what_it_has_when_it_asks_for_more_than_there_is() {
    let (mut first, mut second) = (definition(), definition());
    first.set("spec.names.shortNames", json!(["wd"]));
    second.set("metadata.name", "gadgets.example.com");
    second.set("spec.names", json!({"plural": "gadgets", "singular": "gadget", "kind": "Gadget", "listKind": "GadgetList", "shortNames": ["gd"]}));
    for object in [&mut first, &mut second] {
        while let Some(status) = status::settle(object, &[], now()) {
            object.set("status", status);
        }
    }
    second.set("spec.names.shortNames", json!(["gd", "wd"]));
    let status = status::settle(&second, &[&first], now()).unwrap();
    assert_eq!(status["acceptedNames"]["shortNames"], json!(["gd"]));
    second.set("status", status);
    assert!(
        status::is_served(&second)
            && status::is_true(&second, "Established")
            && !status::is_true(&second, "NamesAccepted")
    );
}

#[test]
fn formats_that_nobody_enforces_are_warned_about_once() {
    let mut new = definition();
    new["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["name"]["format"] =
        json!("shiny");
    assert_eq!(DefinitionRules.warnings(&new, None), ["unrecognized format \"shiny\""]);
    assert_eq!(DefinitionRules.warnings(&new, Some(&new)), Vec::<String>::new());
}

#[test]
fn of_two_that_got_the_same_name_at_the_same_time_the_later_gives_way() {
    let accepted = |name: &str, kind: &str, revision: u32, established: &str| {
        let mut object = definition();
        object.set("metadata.name", format!("{name}.example.com"));
        object.set("metadata.resourceVersion", revision.to_string());
        object.set("spec.names", json!({"plural": name, "singular": name, "kind": kind, "listKind": format!("{kind}List"), "shortNames": ["x"]}));
        let names = object.at("spec.names").clone();
        let conditions =
            json!([{"type": "NamesAccepted", "status": "True"}, {"type": "Established", "status": established}]);
        object.set("status", json!({"acceptedNames": names, "conditions": conditions, "storedVersions": ["v1"]}));
        object
    };
    let reported = |object: &Value, other: &Value| {
        let status = status::settle(object, &[object, other], now());
        status.map(|status| {
            (status["conditions"][0].str_at("reason").to_owned(), status["conditions"][1].str_at("reason").to_owned())
        })
    };
    let (early, late) = (accepted("as", "A", 10, "False"), accepted("bs", "B", 11, "False"));
    assert_eq!(reported(&early, &late), Some(("NoConflicts".into(), "InitialNamesAccepted".into())));
    assert_eq!(reported(&late, &early), Some(("ShortNamesConflict".into(), "NotAccepted".into())));
    let status = status::settle(&late, &[&early], now()).unwrap();
    assert_eq!(status["acceptedNames"], json!({"plural": "bs", "singular": "bs", "kind": "B", "listKind": "BList"}));
    // Established by then, the early one has a newer revision; it still has the name.
    let firm = accepted("as", "A", 12, "True");
    assert_eq!(reported(&late, &firm), Some(("ShortNamesConflict".into(), "NotAccepted".into())));
    // Of two that are established neither loses what its users rely on.
    assert_eq!(
        status::settle(&accepted("bs", "B", 13, "True"), &[&firm], now())
            .map(|status| status["acceptedNames"]["shortNames"].clone()),
        Some(json!(["x"]))
    );
}
