//! Nothing is missing from a document, and nothing in it points nowhere.

use super::*;
use std::collections::BTreeSet;

/// Calls `visit` with every object inside a value.
fn objects<'a>(value: &'a Value, visit: &mut dyn FnMut(&'a serde_json::Map<String, Value>)) {
    match value {
        Value::Object(map) => {
            visit(map);
            map.values().for_each(|inner| objects(inner, visit));
        }
        Value::Array(list) => list.iter().for_each(|inner| objects(inner, visit)),
        _ => {}
    }
}

fn operations(document: &Value) -> Vec<(&str, &str, &Value)> {
    let paths = document["paths"].as_object().unwrap();
    paths
        .iter()
        .flat_map(|(path, item)| {
            item.as_object().unwrap().iter().map(move |(method, of)| (path.as_str(), method.as_str(), of))
        })
        .collect()
}

/// Both forms of everything, as one list.
fn every_document() -> Vec<(&'static str, &'static Value)> {
    let third = version_3().iter().map(|(key, document)| (key.as_str(), document));
    [("v2", version_2())].into_iter().chain(third).collect()
}

#[test]
fn every_reference_leads_to_a_type() {
    for (name, document) in every_document() {
        let mut seen = 0;
        objects(document, &mut |map| {
            if let Some(Value::String(reference)) = map.get("$ref") {
                let pointer = reference.strip_prefix('#').unwrap();
                assert!(document.pointer(pointer).is_some_and(Value::is_object), "{name}: {reference}");
                seen += 1;
            }
        });
        assert!(seen > 20, "{name}: {seen} references");
    }
}

#[test]
fn a_reference_of_version_3_has_nothing_beside_it() {
    for (name, document) in version_3() {
        objects(document, &mut |map| {
            // JSON schemas have a field of this name, which is an object.
            let reference = map.get("$ref").is_some_and(Value::is_string);
            assert!(!reference || map.len() == 1, "{name}: {map:?}");
        });
    }
}

#[test]
fn every_verb_of_every_resource_has_its_path_action_and_kind() {
    let document = version_2();
    let by_group = version_3();
    for resource in with_gateways().resources {
        let Resource { group, version, kind, plural, .. } = &*resource;
        let base = if group.is_empty() { format!("/api/{version}") } else { format!("/apis/{group}/{version}") };
        let collection = match resource.scope {
            Scope::Namespaced => format!("{base}/namespaces/{{namespace}}/{plural}"),
            Scope::Cluster => format!("{base}/{plural}"),
        };
        let one = format!("{collection}/{{name}}");
        let (_, of_group) = by_group.iter().find(|(key, _)| base.ends_with(key.as_str())).unwrap();
        let kind = json!({"group": group, "version": version, "kind": kind});
        for verb in resource.verbs.names() {
            let (path, method, action) = match *verb {
                "create" => (&collection, "post", "post"),
                "list" | "watch" => (&collection, "get", "list"),
                "deletecollection" => (&collection, "delete", "deletecollection"),
                "get" => (&one, "get", "get"),
                "update" => (&one, "put", "put"),
                "patch" => (&one, "patch", "patch"),
                "delete" => (&one, "delete", "delete"),
                other => panic!("{other}"),
            };
            for document in [document, of_group] {
                let operation = &document["paths"][path][method];
                assert_eq!(operation["x-kubernetes-action"], action, "{verb} {path}");
                assert_eq!(operation["x-kubernetes-group-version-kind"], kind, "{verb} {path}");
            }
        }
        for sub in &resource.subresources {
            for document in [document, of_group] {
                let item = &document["paths"][format!("{one}/{}", sub.name())];
                assert!(item.as_object().is_some_and(|methods| !methods.is_empty()), "{one}/{}", sub.name());
            }
        }
    }
}

#[test]
fn every_served_kind_is_a_type_of_exactly_one_name() {
    for (name, document) in every_document() {
        let types = if name == "v2" { &document["definitions"] } else { &document["components"]["schemas"] };
        for resource in with_gateways().resources {
            let Resource { group, version, kind, .. } = &*resource;
            if name != "v2" && v3::key(group, version) != name {
                continue;
            }
            let kind = json!({"group": group, "version": version, "kind": kind});
            let of_kind = |(_, schema): &(&String, &Value)| {
                schema["x-kubernetes-group-version-kind"].as_array().is_some_and(|kinds| kinds.contains(&kind))
            };
            let found: Vec<_> = types.as_object().unwrap().iter().filter(of_kind).collect();
            assert_eq!(found.len(), 1, "{name}: {kind} is {found:?}");
            assert!(found[0].1["properties"]["metadata"].is_object(), "{name}: {kind}");
            assert!(found[0].1["description"].is_string(), "{name}: {kind}");
        }
    }
}

#[test]
fn operations_have_names_of_their_own_and_declare_what_is_in_their_path() {
    for (name, document) in every_document() {
        let mut names = BTreeSet::new();
        for (path, method, operation) in operations(document) {
            let id = operation["operationId"].as_str().unwrap();
            assert!(names.insert(id), "{name}: {id} stands twice");
            let parameters = operation["parameters"].as_array().unwrap();
            let declared: BTreeSet<&str> =
                parameters.iter().filter(|one| one["in"] == "path").filter_map(|one| one["name"].as_str()).collect();
            let used: BTreeSet<&str> =
                path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}')).collect();
            assert_eq!(declared, used, "{name}: {method} {path}");
            assert!(
                operation["responses"].as_object().is_some_and(|all| all.contains_key("200")),
                "{name}: {method} {path}"
            );
        }
    }
}

#[test]
fn a_patch_can_be_validated_and_says_which_forms_it_takes() {
    // kubectl from 1.25 on leaves validation to the server only where it finds `fieldValidation`.
    for (name, document) in every_document() {
        for (path, _, operation) in operations(document).into_iter().filter(|(_, method, _)| *method == "patch") {
            if operation["x-kubernetes-action"] == "connect" {
                continue;
            }
            let parameters = operation["parameters"].as_array().unwrap();
            assert!(parameters.iter().any(|one| one["name"] == "fieldValidation"), "{name}: {path}");
            let types: Vec<&str> = match operation["consumes"].as_array() {
                Some(types) => types.iter().filter_map(Value::as_str).collect(),
                None => operation["requestBody"]["content"].as_object().unwrap().keys().map(String::as_str).collect(),
            };
            let strategic = types.contains(&"application/strategic-merge-patch+json");
            assert_eq!(strategic, !path.contains("example.com"), "{name}: {path}");
            assert!(types.contains(&"application/apply-patch+yaml"), "{name}: {path}");
        }
    }
}

#[test]
fn a_service_is_described_with_both_families_and_its_merge_keys() {
    let document = version_2();
    let properties = &document["definitions"]["io.k8s.api.core.v1.ServiceSpec"]["properties"];
    assert_eq!(
        properties["ports"],
        json!({
            "description": "The ports of the Service.",
            "type": "array",
            "items": {"$ref": "#/definitions/io.k8s.api.core.v1.ServicePort"},
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["port", "protocol"],
            "x-kubernetes-patch-strategy": "merge",
            "x-kubernetes-patch-merge-key": "port",
        })
    );
    for field in ["ipFamilies", "clusterIPs"] {
        assert_eq!(properties[field]["items"], json!({"type": "string"}), "{field}");
        assert_eq!(properties[field]["x-kubernetes-list-type"], "atomic", "{field}");
    }
    let schemas = |document: &Value| document["components"]["schemas"].clone();
    let core = version_3().iter().find(|(key, _)| key == "api/v1").map(|(_, document)| schemas(document)).unwrap();
    assert_eq!(
        core["io.k8s.api.core.v1.Service"]["properties"]["spec"],
        json!({
            "description": "What the object should be.",
            "default": {},
            "allOf": [{"$ref": "#/components/schemas/io.k8s.api.core.v1.ServiceSpec"}],
        })
    );
    assert_eq!(
        core["io.k8s.apimachinery.pkg.util.intstr.IntOrString"]["oneOf"],
        json!([{"type": "integer"}, {"type": "string"}])
    );
}

#[test]
fn documents_are_of_a_size_that_can_be_kept() {
    let made = with_gateways();
    let third: usize = made.all_v3().map(|(_, document)| document.bytes.len()).sum();
    let sizes =
        [("v2 JSON", made.v2().bytes.len()), ("v2 protobuf", made.v2_protobuf().bytes.len()), ("v3, all", third)];
    for (name, size) in sizes {
        println!("{name}: {} KiB", size / 1024);
        assert!(size < 4 << 20, "{name}: {size} bytes");
    }
}
