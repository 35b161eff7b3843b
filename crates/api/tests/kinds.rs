//! Every built-in kind against what kube-apiserver 1.37 answered (`testdata/kinds`): the object a create makes, updates
//! through the object and through status, the causes of refusals, the number of warnings, table rows.

use api::{
    error::FieldError,
    kinds::{meta, table},
    object::Fields,
    resource::{Resource, Scope},
    schema,
};
use serde_json::{Value, json};
use std::{io::Read, sync::Arc};

fn rows() -> Vec<Value> {
    let path = format!("{}/../../testdata/kinds/answers.jsonl.gz", env!("CARGO_MANIFEST_DIR"));
    let mut text = String::new();
    flate2::read::GzDecoder::new(std::fs::File::open(path).unwrap()).read_to_string(&mut text).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn resource_of(row: &Value, table: &[Arc<Resource>]) -> Arc<Resource> {
    let kind = row.str_at("kind");
    let (group_version, plural) = kind.rsplit_once('/').unwrap_or(("v1", kind));
    table.iter().find(|r| r.api_version() == group_version && r.plural == plural).unwrap().clone()
}

/// The fields of a Service that only the cluster's ranges decide, taken from the answer or from the object before.
fn allocate(object: &mut Value, from: &Value) {
    if object.at("kind") != "Service" || from.at("spec").is_null() || object.str_at("spec.type") == "ExternalName" {
        return;
    }
    for field in ["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy", "healthCheckNodePort"] {
        let path = format!("spec.{field}");
        if object.at(&path).is_null() && !from.at(&path).is_null() {
            object.set(&path, from.at(&path).clone());
        }
    }
    let ports = from.list_at("spec.ports").to_vec();
    for (port, known) in object.at_mut("spec.ports").as_array_mut().into_iter().flatten().zip(ports) {
        if port.at("nodePort").is_null() && !known.at("nodePort").is_null() {
            port.set("nodePort", known.at("nodePort").clone());
        }
    }
    if object.at("spec.ports").is_null() {
        object.remove("spec.ports");
    }
}

fn causes(errors: &[FieldError]) -> Value {
    let mut causes: Vec<_> = errors.iter().map(|error| json!([error.field, error.reason.cause()])).collect();
    causes.sort_by_key(Value::to_string);
    json!(causes)
}

fn sorted(causes: &Value) -> Value {
    let mut causes = causes.as_array().cloned().unwrap_or_default();
    causes.sort_by_key(Value::to_string);
    json!(causes)
}

/// One write as the engine does it: the object as it would be stored, and the mistakes.
fn write(resource: &Resource, sent: &Value, sub: &str, old: Option<&Value>, decided: &Value) -> (Value, Vec<FieldError>) {
    let rules = &resource.rules;
    let mut object = sent.clone();
    schema::decode(&resource.shape, &mut object);
    if resource.scope == Scope::Namespaced {
        object.set_default("metadata.namespace", "k");
    }
    rules.default(&mut object);
    allocate(&mut object, decided);
    let Some(old) = old else {
        rules.prepare_create(&mut object);
        if rules.has_generation() {
            object.set("metadata.generation", 1);
        }
        let mut errors = meta::validate(&object, resource);
        errors.extend(rules.validate(&object));
        return (object, errors);
    };
    let mut errors;
    if sub == "status" {
        rules.prepare_status(&mut object, old);
        errors = meta::validate_update(&object, old, resource);
        errors.extend(rules.validate_status(&object, old));
    } else {
        rules.prepare_update(&mut object, old);
        if rules.has_generation() && rules.generation_changes(&object, old) {
            object.set("metadata.generation", old.int_at("metadata.generation").unwrap_or_default() + 1);
        }
        errors = meta::validate_update(&object, old, resource);
        errors.extend(rules.validate_update(&object, old));
    }
    (object, errors)
}

/// What differs between an answer and ours, in words; empty when nothing does.
fn differences(resource: &Resource, sent: &Value, sub: &str, old: Option<&Value>, got: &Value) -> Vec<String> {
    let mut wrong = Vec::new();
    let decided = if got.at("object").is_null() { old.unwrap_or(&Value::Null) } else { got.at("object") };
    let (mut object, errors) = write(resource, sent, sub, old, decided);
    if got["status"] == 422 {
        if causes(&errors) != sorted(got.at("causes")) {
            wrong.push(format!("causes\n   ours  {}\n   theirs {}", causes(&errors), sorted(got.at("causes"))));
        }
        return wrong;
    }
    if !errors.is_empty() {
        wrong.push(format!("refused, though they accept: {}", causes(&errors)));
    }
    schema::decode(&resource.shape, &mut object);
    for (field, ours, theirs) in changed(&object, got.at("object"), "") {
        wrong.push(format!("{field}: ours {ours} theirs {theirs}"));
    }
    let warnings = resource.rules.warnings(&object, old).len();
    if sub.is_empty() && got["warnings"] != warnings {
        wrong.push(format!("warnings: ours {:?} theirs {}", resource.rules.warnings(&object, old), got["warnings"]));
    }
    wrong
}

/// Leaves that differ.
fn changed(ours: &Value, theirs: &Value, path: &str) -> Vec<(String, Value, Value)> {
    match (ours, theirs) {
        (Value::Object(a), Value::Object(b)) => {
            let mut keys: Vec<_> = a.keys().chain(b.keys()).collect();
            keys.sort_unstable();
            keys.dedup();
            let side = |map: &serde_json::Map<String, Value>, key: &str| map.get(key).cloned().unwrap_or_default();
            keys.into_iter().flat_map(|key| changed(&side(a, key), &side(b, key), &format!("{path}.{key}"))).collect()
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            a.iter().zip(b).enumerate().flat_map(|(i, (a, b))| changed(a, b, &format!("{path}[{i}]"))).collect()
        }
        _ if ours == theirs => Vec::new(),
        _ => vec![(path.to_owned(), ours.clone(), theirs.clone())],
    }
}

#[test]
fn every_kind_answers_as_recorded() {
    let table = table();
    let mut wrong = Vec::new();
    let mut writes = 0;
    for row in rows() {
        let resource = resource_of(&row, &table);
        let mut note = |what: &str, sent: &Value, found: Vec<String>| {
            let name = sent.str_at("metadata.name");
            wrong.extend(found.into_iter().map(|text| format!("{} {name} {what}: {text}", row.str_at("kind"))));
        };
        writes += 1;
        note("create", row.at("object"), differences(&resource, row.at("object"), "", None, row.at("got")));
        let mut old = row.at("got.object").clone();
        for step in row.list_at("steps") {
            writes += 1;
            let sub = step.str_at("sub");
            let found = differences(&resource, step.at("object"), sub, Some(&old), step.at("got"));
            note(&format!("{sub} {}", step.at("patch")), row.at("object"), found);
            if step.at("got")["status"] == 200 {
                old = step.at("got.object").clone();
            }
        }
    }
    assert_eq!(wrong.len(), 0, "{} differences in {writes} writes\n{}", wrong.len(), wrong.join("\n"));
}
