//! What kube-apiserver answered, against what decoding, defaults, preparation, validation and columns make of the same
//! objects. Families and allocation are the API server's: their fields are taken from the recording where they matter.

#![allow(clippy::unwrap_used, reason = "a recording that cannot be read is a failed test")]

use api::{
    error::FieldError,
    kinds::{meta, table},
    object::Fields,
    resource::Resource,
    schema,
};
use serde_json::{Value, json};
use std::{io::Read, sync::Arc};

fn path(name: &str) -> String {
    format!("{}/../../testdata/{name}", env!("CARGO_MANIFEST_DIR"))
}

fn lines(name: &str) -> Vec<Value> {
    let file = std::fs::File::open(path(name)).unwrap();
    let mut text = String::new();
    flate2::read::GzDecoder::new(file).read_to_string(&mut text).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The resource that a collection path names.
fn resource_of(path: &str, table: &[Arc<Resource>]) -> Option<Arc<Resource>> {
    let path = path.split('?').next().unwrap_or_default();
    let (group_version, rest) = match path.strip_prefix("/api/v1/") {
        Some(rest) => ("v1".to_owned(), rest),
        None => {
            let mut parts = path.strip_prefix("/apis/")?.splitn(3, '/');
            (format!("{}/{}", parts.next()?, parts.next()?), parts.next()?)
        }
    };
    let plural = rest.strip_prefix("namespaces/{ns}/").unwrap_or(rest);
    table.iter().find(|r| r.api_version() == group_version && r.plural == plural).cloned()
}

/// A create up to validation, as the engine does it.
fn create(resource: &Resource, object: &Value) -> (Value, Vec<FieldError>) {
    let mut object = object.clone();
    schema::decode(&resource.shape, &mut object);
    if object.at("metadata.namespace").is_null() && resource.scope == api::resource::Scope::Namespaced {
        object.set("metadata.namespace", "tables");
    }
    let prefix = object.str_at("metadata.generateName").to_owned();
    if object.str_at("metadata.name").is_empty() && !prefix.is_empty() {
        object.set("metadata.name", format!("{prefix}bcdfg"));
    }
    resource.rules.default(&mut object);
    resource.rules.prepare_create(&mut object);
    let mut errors = meta::validate(&object, resource);
    errors.extend(resource.rules.validate(&object));
    (object, errors)
}

fn causes(errors: &[FieldError]) -> Vec<Value> {
    let mut causes: Vec<_> = errors.iter().map(|error| json!([error.field, error.reason.cause()])).collect();
    causes.sort_by_key(Value::to_string);
    causes
}

/// What a Service answer shows that only the server can know.
fn without_allocation(object: &mut Value) {
    for field in ["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
        object.remove(&format!("spec.{field}"));
    }
    for port in object.at_mut("spec.ports").as_array_mut().into_iter().flatten() {
        port.remove("nodePort");
    }
}

#[test]
fn created_objects_become_what_was_recorded() {
    let table = table();
    let mut compared = 0;
    for file in ["api/fixed.jsonl.gz", "api/random.jsonl.gz"] {
        for script in lines(file) {
            for (step, got) in script.list_at("steps").iter().zip(script.list_at("got")) {
                let posted = step.str_at("method") == "POST" && got["status"] == 201 && step.at("body").is_object();
                let Some(resource) = posted.then(|| resource_of(step.str_at("path"), &table)).flatten() else {
                    continue;
                };
                let (mut object, errors) = create(&resource, step.at("body"));
                assert_eq!(causes(&errors), Vec::<Value>::new(), "{}", script["name"]);
                let mut wanted = got.at("object").clone();
                if wanted.is_null() {
                    continue;
                }
                for side in [&mut object, &mut wanted] {
                    for field in ["metadata", "status", "apiVersion", "kind"] {
                        side.remove(field);
                    }
                    if resource.plural == "services" {
                        without_allocation(side);
                    }
                }
                assert_eq!(object, wanted, "{}", script["name"]);
                compared += 1;
            }
        }
    }
    // Every 201 with a JSON body and an object in the answer: 60 ConfigMaps, 396 Deployments, 13 Services.
    assert_eq!(compared, 469);
}

#[test]
fn refused_objects_are_refused_for_the_same_causes() {
    let table = table();
    let mut compared = 0;
    for script in lines("api/fixed.jsonl.gz") {
        for (step, got) in script.list_at("steps").iter().zip(script.list_at("got")) {
            let query = step.str_at("path").contains('?');
            let refused =
                step.str_at("method") == "POST" && got["status"] == 422 && !query && step.at("body").is_object();
            let Some(resource) = refused.then(|| resource_of(step.str_at("path"), &table)).flatten() else { continue };
            let mut body = step.at("body").clone();
            // A node port that is taken, or out of range, is the allocator's to refuse.
            if script.str_at("name") == "write/nodeport-ports-10" {
                continue;
            }
            if resource.plural == "services" && body.str_at("spec.type") == "NodePort" {
                allocate_node_ports(&mut body);
            }
            let (_, errors) = create(&resource, &body);
            assert_eq!(json!(causes(&errors)), got["causes"], "{}: {errors:?}", script["name"]);
            compared += 1;
        }
    }
    // 14 ConfigMaps, 2 Deployments, 7 Pods, 21 Services.
    assert_eq!(compared, 44);
}

/// Equal ports get equal node ports, as upstream's allocator gives them.
fn allocate_node_ports(service: &mut Value) {
    for port in service.at_mut("spec.ports").as_array_mut().into_iter().flatten() {
        let number = port.int_at("port").unwrap_or_default() % 1000;
        if !port.at("port").is_null() {
            port.set_default("nodePort", 30000 + number);
        }
    }
}

#[test]
fn tables_show_what_was_recorded() {
    let table = table();
    let recorded: Vec<Value> =
        serde_json::from_str(&std::fs::read_to_string(path("api/tables.json")).unwrap()).unwrap();
    let now: jiff::Timestamp = "2026-11-15T12:00:00Z".parse().unwrap();
    let mut rows = 0;
    for entry in &recorded {
        let collection = entry.str_at("path");
        let resource = resource_of(collection, &table).unwrap_or_else(|| panic!("{collection}"));
        let columns: Vec<Value> = resource
            .rules
            .columns()
            .iter()
            .map(|c| json!({"name": c.name, "type": c.kind, "format": c.format, "priority": c.priority}))
            .collect();
        assert_eq!(json!(columns), entry["columns"], "{collection}");
        for posted in entry.list_at("objects") {
            let mut sent = posted.at("object").clone();
            if let Some(ip) = sent.at("spec.clusterIP").as_str().map(str::to_owned) {
                sent.set_default("spec.clusterIPs", vec![Value::from(ip)]);
            }
            if resource.plural == "jobs" {
                // The server's, by which the Job finds its pods.
                sent.set("metadata.uid", "62c17816-fcd4-42b5-b621-54bf54fa0dab");
            }
            let (mut object, errors) = create(&resource, &sent);
            assert_eq!(causes(&errors), Vec::<Value>::new(), "{collection}");
            object.set("metadata.creationTimestamp", "2026-11-15T11:59:00Z");
            if let Some(status) = posted.map_at("status") {
                for (field, value) in status {
                    object.at_mut("status")[field] = value.clone();
                }
                resource.rules.default(&mut object);
            }
            let name = object.str_at("metadata.name").to_owned();
            let wanted = &entry["cells"][&name];
            let cells = masked(&resource, resource.rules.cells(&object, now), wanted);
            assert_eq!(json!(cells), *wanted, "{collection} {name}");
            rows += 1;
        }
    }
    assert_eq!(rows, 37);
}

/// Ages as the recording shows them.
fn masked(resource: &Resource, cells: Vec<Value>, wanted: &Value) -> Vec<Value> {
    let columns = resource.rules.columns();
    assert_eq!(cells.len(), columns.len());
    let pairs = cells.into_iter().zip(wanted.as_array().cloned().unwrap_or_default());
    pairs
        .map(|(cell, wanted)| match (wanted.as_str(), cell.as_str()) {
            (Some("AGE"), Some(text)) if text.ends_with(['s', 'y', 'd']) => "AGE".into(),
            (Some(shown), Some(text)) if shown.ends_with("(AGO)") && text.ends_with("ago)") => {
                format!("{} (AGO)", text.split(' ').next().unwrap_or_default()).into()
            }
            _ => cell,
        })
        .collect()
}

const SHAPES: [&str; 4] = ["v4", "v6", "v4v6", "v6v4"];

/// The Service of a recorded answer: what was sent, with what the server decided laid over it.
fn resolved(sent: &Value, got: &Value) -> Value {
    let mut service = json!({"metadata": {"name": "s", "namespace": "default"}, "spec": sent});
    let decided = got.at("spec");
    for (field, value) in decided.as_object().into_iter().flatten().filter(|(field, _)| *field != "nodePorts") {
        let address = |value: &Value| match value.as_str() {
            Some("v4") => json!("10.96.1.1"),
            Some("v6") => json!("fd00:96::1:1"),
            Some("set") => json!(30999),
            _ => value.clone(),
        };
        let value = match value {
            Value::Array(list) => list.iter().map(address).collect(),
            other => address(other),
        };
        match value {
            Value::Null => drop(service["spec"].remove(field)),
            value => service["spec"][field] = value,
        }
    }
    for (i, node_port) in decided.list_at("nodePorts").iter().enumerate() {
        let number = if node_port == "set" { json!(30100 + i) } else { node_port.clone() };
        match service["spec"]["ports"].get_mut(i) {
            Some(port) if number.is_null() => drop(port.remove("nodePort")),
            Some(port) => port.set("nodePort", number),
            None => {}
        }
    }
    service
}

fn merge(target: &mut Value, patch: &Value) {
    let Some(fields) = patch.as_object() else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = json!({});
    }
    for (field, value) in fields {
        if value.is_null() {
            target.remove(field);
        } else {
            merge(target.at_mut(field), value);
        }
    }
}

#[test]
fn every_service_that_was_accepted_passes_validation() {
    let table = table();
    let services = table.iter().find(|r| r.plural == "services").unwrap();
    let mut checked = 0;
    for shape in SHAPES {
        for kind in ["create", "update"] {
            for row in lines(&format!("service-rules/{kind}-{shape}.jsonl.gz")) {
                let mut sent = row.at("create").clone();
                let mut got = row.at("got.create");
                if got["status"] != 201 {
                    continue;
                }
                let mut service = resolved(&sent, got);
                services.rules.default(&mut service);
                assert_eq!(causes(&services.rules.validate(&service)), Vec::<Value>::new(), "{shape} {row}");
                compare_static(&service, got, &row);
                checked += 1;
                for (i, step) in row.list_at("steps").iter().enumerate() {
                    got = row.at("got").at(&format!("step{i}"));
                    if got["status"] != 200 {
                        break;
                    }
                    merge(&mut sent, step);
                    let mut next = resolved(&sent, got);
                    services.rules.default(&mut next);
                    services.rules.prepare_update(&mut next, &service);
                    let errors = services.rules.validate_update(&next, &service);
                    assert_eq!(causes(&errors), Vec::<Value>::new(), "{shape} step {i} {row}");
                    service = next;
                    checked += 1;
                }
            }
        }
    }
    assert_eq!(checked, 9308);
}

/// The fields that defaults alone decide.
fn compare_static(service: &Value, got: &Value, row: &Value) {
    for field in
        ["internalTrafficPolicy", "externalTrafficPolicy", "allocateLoadBalancerNodePorts", "sessionAffinity", "type"]
    {
        assert_eq!(service.at("spec").at(field), got.at("spec").at(field), "{field} {row}");
    }
}
