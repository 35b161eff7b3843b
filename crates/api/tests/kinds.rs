//! Every built-in kind against what kube-apiserver 1.37 answered (`testdata/kinds`): the object a create makes, updates
//! through the object and through status, the causes of refusals, the number of warnings, table rows.

#![allow(clippy::unwrap_used, reason = "a recording that cannot be read is a failed test")]

use api::{
    error::FieldError,
    kinds::{edit, meta, table},
    object::Fields,
    resource::{Resource, Scope},
    schema,
};
use serde_json::{Value, json};
use std::{io::Read, sync::Arc};

fn rows(file: &str) -> Vec<Value> {
    let path = format!("{}/../../testdata/kinds/{file}.jsonl.gz", env!("CARGO_MANIFEST_DIR"));
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
    sorted(&json!(errors.iter().map(|error| json!([error.field, error.reason.cause()])).collect::<Vec<_>>()))
}

/// The set of causes: whether a field has one mistake or two of the same sort is a matter of words.
fn sorted(causes: &Value) -> Value {
    let mut causes = causes.as_array().cloned().unwrap_or_default();
    causes.sort_by_key(Value::to_string);
    causes.dedup();
    json!(causes)
}

/// One write as the engine does it: the object as it would be stored, and the mistakes.
fn write(
    resource: &Resource,
    sent: &Value,
    sub: &str,
    old: Option<&Value>,
    decided: &Value,
) -> (Value, Vec<FieldError>) {
    let rules = &resource.rules;
    let mut object = sent.clone();
    schema::decode(&resource.shape, &mut object);
    if resource.rules.has_generation() && old.is_none() {
        object.remove("metadata.generation");
    }
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
    match old.at("metadata.generation") {
        Value::Null => drop(object.remove("metadata.generation")),
        generation => object.set("metadata.generation", generation.clone()),
    }
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
    let mut theirs = got.at("object").clone();
    [&mut object, &mut theirs].into_iter().for_each(without_words);
    for (field, ours, theirs) in changed(&object, &theirs, "") {
        wrong.push(format!("{field}: ours {ours} theirs {theirs}"));
    }
    let unknown = schema::decode(&resource.shape, &mut sent.clone()).unknown.len();
    let mut warnings = resource.rules.warnings(&object, old);
    warnings.extend(resource.rules.deprecation().map(str::to_owned));
    if sub.is_empty() && got["warnings"] != warnings.len() + unknown {
        wrong.push(format!("warnings: ours {warnings:?} theirs {}", got["warnings"]));
    }
    wrong
}

/// Takes out what is said in our own words, and when.
fn without_words(object: &mut Value) {
    for condition in edit::items(object, "status.conditions") {
        for field in ["message", "lastTransitionTime"] {
            condition.remove(field);
        }
    }
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

/// Where we answer otherwise on purpose: kind (any, if empty), how the write begins, why.
const OTHERWISE: [(&str, &str, &str); 13] = [
    ("services", "o337 create", SETTLED),
    ("services", "o370 create", SETTLED),
    ("services", "o381  {", SETTLED),
    ("nodes", "o397  {", "a node may get a pod CIDR of its other family"),
    ("pods", "o305 create", "the recorded server refused privileged containers; ours, as clusters are run, does not"),
    ("pods", "status status.podIPs = [", "an address that stands twice in podIPs is dropped, not refused"),
    ("pods", "status2 status.podIPs = [", "an address that stands twice in podIPs is dropped, not refused"),
    ("nodes", "spec.podCIDRs.1 = 10.9.0.1/16", UNREADABLE),
    ("networking.k8s.io/v1/servicecidrs", "spec.cidrs.1 = 10.9.0.1/16", UNREADABLE),
    ("networking.k8s.io/v1/ipaddresses", "update spec", "a parent that may not change is not looked into"),
    ("nodes", "status status.allocatable", "an empty map is an absent one, and allocatable then follows capacity"),
    ("nodes", "status2 status.allocatable", "an empty map is an absent one, and allocatable then follows capacity"),
    (
        "",
        "update metadata {\"generateName\"",
        "a prefix has done its work when the object exists; kinds differ for no reason",
    ),
];
const SETTLED: &str = "families and addresses are settled by the server before it validates";
const UNREADABLE: &str = "a list with an unreadable entry is not also measured by family";

/// Collects differences, but for those that are meant.
#[derive(Default)]
struct Report {
    writes: usize,
    wrong: Vec<String>,
}

impl Report {
    fn note(&mut self, kind: &str, what: &str, found: Vec<String>) {
        self.writes += 1;
        if !OTHERWISE.iter().any(|(of, part, _)| (of.is_empty() || *of == kind) && what.starts_with(part)) {
            self.wrong.extend(found.into_iter().map(|text| format!("{kind} {what}: {text}")));
        }
    }

    fn finish(self) {
        let Self { writes, wrong } = self;
        assert_eq!(wrong.len(), 0, "{} differences in {writes} writes\n{}", wrong.len(), wrong.join("\n"));
    }
}

#[test]
fn every_kind_answers_as_recorded() {
    let table = table();
    let mut report = Report::default();
    for row in rows("answers") {
        let resource = resource_of(&row, &table);
        let (kind, name) = (row.str_at("kind"), row.str_at("object.metadata.name"));
        let found = differences(&resource, row.at("object"), "", None, row.at("got"));
        report.note(kind, &format!("{name} create"), found);
        let mut old = row.at("got.object").clone();
        for step in row.list_at("steps") {
            let sub = step.str_at("sub");
            let found = differences(&resource, step.at("object"), sub, Some(&old), step.at("got"));
            report.note(kind, &format!("{name} {sub} {}", step.at("patch")), found);
            if step.at("got")["status"] == 200 {
                old = step.at("got.object").clone();
            }
        }
    }
    report.finish();
}

#[test]
fn a_rich_object_broken_field_by_field_is_refused_as_recorded() {
    let table = table();
    let mut report = Report::default();
    for row in rows("fields") {
        let resource = resource_of(&row, &table);
        let old = Some(row.at("old")).filter(|old| !old.is_null());
        let found = differences(&resource, row.at("object"), row.str_at("sub"), old, row.at("got"));
        report.note(row.str_at("kind"), row.str_at("what"), found);
    }
    report.finish();
}

#[test]
fn tables_show_what_was_recorded() {
    let table = table();
    let now: jiff::Timestamp = "2026-11-15T12:00:00Z".parse().unwrap();
    let mut shown = 0;
    for row in rows("answers").iter().filter(|row| row.get("cells").is_some()) {
        let resource = resource_of(row, &table);
        let mut object = row.at("final").clone();
        object.set("metadata.creationTimestamp", now.to_string());
        let columns = resource.rules.columns();
        // An IPAddress shows its age upstream too, though no column says so.
        let untold = usize::from(resource.plural == "ipaddresses");
        let defined = columns.iter().take(columns.len() - untold);
        let defined: Vec<Value> = defined.map(|c| json!([c.name, c.kind, c.format, c.priority])).collect();
        assert_eq!(json!(defined), row["columns"], "{}", row["kind"]);
        for ((column, cell), wanted) in columns.iter().zip(resource.rules.cells(&object, now)).zip(row.list_at("cells"))
        {
            // When the recording was made is not recorded.
            let timed = matches!(column.name.as_str(), "Age" | "Created At" | "Last Seen" | "First Seen");
            assert!(
                timed || cell == *wanted,
                "{} {} {}: {cell} {wanted}",
                row["kind"],
                row["final"]["metadata"],
                column.name
            );
        }
        shown += 1;
    }
    assert_ne!(shown, 0);
}
