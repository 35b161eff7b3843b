//! Replays the writes that a real kube-apiserver answered (`testdata/api`): patches, applies and their managedFields.
//!
//! There is no engine here: the recorded answer before a write is the live object, and what defaulting adds is taken from
//! the recorded answer after it (`is_default`). Everything else must be as recorded.

use super::{Apply, Claim, FieldSet, Force, Scale, Update, apply, manager_of, settle_times, track_update};
use crate::{self as patch, Format};
use api::{
    error::ApiError,
    object::Fields,
    schema::{Shape, decode, of_kind},
};
use jiff::Timestamp;
use serde_json::{Value, json};
use std::{collections::BTreeMap, io::Read};

/// Whether a field that a patched object lacks may be in the answer: defaulting adds it.
fn is_default(field: &str, value: &Value) -> bool {
    let default = match field {
        "dnsPolicy" => json!("ClusterFirst"),
        "externalTrafficPolicy" | "internalTrafficPolicy" => json!("Cluster"),
        "imagePullPolicy" if value == "Always" => return true,
        "imagePullPolicy" => json!("IfNotPresent"),
        "defaultMode" => json!(420),
        "progressDeadlineSeconds" => json!(600),
        "protocol" => json!("TCP"),
        "replicas" => json!(1),
        "restartPolicy" => json!("Always"),
        "revisionHistoryLimit" => json!(10),
        "rollingUpdate" => json!({"maxSurge": "25%", "maxUnavailable": "25%"}),
        "schedulerName" => json!("default-scheduler"),
        "securityContext" => json!({}),
        "sessionAffinity" => json!("None"),
        "sessionAffinityConfig" => json!({"clientIP": {"timeoutSeconds": 10800}}),
        "targetPort" => return value.is_number(),
        "terminationGracePeriodSeconds" => json!(30),
        "terminationMessagePath" => json!("/dev/termination-log"),
        "terminationMessagePolicy" => json!("File"),
        "type" => return ["", "ClusterIP", "RollingUpdate"].iter().any(|default| value == default),
        _ => return false,
    };
    *value == default
}

#[test]
fn recorded_patches_and_applies_have_the_recorded_results() {
    let mut replay = Replay::default();
    for file in ["fixed", "random"] {
        for line in scripts(file).lines() {
            replay.script(&serde_json::from_str(line).unwrap());
        }
    }
    let Replay { differences, compared, refused, .. } = replay;
    for (what, count) in &refused {
        println!("{count:5} {what}");
    }
    println!("{compared} compared, {} differences", differences.len());
    assert!(
        differences.is_empty(),
        "{} differences:\n{}",
        differences.len(),
        differences[..differences.len().min(30)].join("\n")
    );
}

fn scripts(name: &str) -> String {
    let path = format!("{}/../../testdata/api/{name}.jsonl.gz", env!("CARGO_MANIFEST_DIR"));
    let mut text = String::new();
    flate2::read::GzDecoder::new(std::fs::File::open(&path).expect(&path)).read_to_string(&mut text).unwrap();
    text
}

#[derive(Default)]
struct Replay {
    /// Objects by path, as the server would hold them now.
    objects: BTreeMap<String, Value>,
    /// Where in which script we are.
    place: String,
    differences: Vec<String>,
    compared: usize,
    refused: BTreeMap<String, usize>,
}

struct Request<'a> {
    resource: &'a str,
    subresource: &'a str,
    query: BTreeMap<&'a str, &'a str>,
}

fn request(path: &str) -> Request<'_> {
    let (path, query) = path.split_once('?').unwrap_or((path, ""));
    let query = query.split('&').filter_map(|pair| pair.split_once('=')).collect();
    for subresource in ["status", "scale"] {
        if let Some(resource) = path.strip_suffix(subresource).and_then(|path| path.strip_suffix('/')) {
            return Request { resource, subresource, query };
        }
    }
    Request { resource: path, subresource: "", query }
}

fn shape_of(object: &Value) -> Option<Shape> {
    let (group, version) =
        object.str_at("apiVersion").split_once('/').unwrap_or_else(|| ("", object.str_at("apiVersion")));
    Some(Shape::Named(&of_kind(group, version, object.str_at("kind"))?.name))
}

/// A recorded object without what was allocated after ownership was settled.
fn unmask(recorded: &Value) -> Value {
    let mut object = recorded.clone();
    if object["kind"] == "Service" {
        object.remove("spec.ipFamilies");
        object.remove("spec.ipFamilyPolicy");
        if let Value::Array(ports) = object.at_mut("spec.ports") {
            ports.iter_mut().for_each(|port| drop(port.remove("nodePort")));
        }
    }
    if let Some(shape) = shape_of(&object) {
        decode(&shape, &mut object);
    }
    object
}

fn timeless(object: &Value) -> Vec<Value> {
    let mut entries = object.list_at("metadata.managedFields").to_vec();
    entries.iter_mut().for_each(|entry| drop(entry.remove("time")));
    entries
}

/// What the entries of `these` own beyond those of `others`.
fn only(these: &[Value], others: &[Value]) -> String {
    let show = |entry: &Value| {
        let name = format!("{} {} {}", entry["manager"], entry["operation"], entry["subresource"]);
        let same =
            |other: &&Value| ["manager", "operation", "subresource"].iter().all(|key| entry[*key] == other[*key]);
        let set = |entry: &Value| FieldSet::from_value(&entry["fieldsV1"]).unwrap();
        let before = others.iter().find(same).map(set).unwrap_or_default();
        let paths: Vec<String> = set(entry).difference(&before).paths().iter().map(ToString::to_string).collect();
        format!("{name}: {}", paths.join(" "))
    };
    these.iter().map(show).collect::<Vec<_>>().join("; ")
}

impl Replay {
    fn script(&mut self, script: &Value) {
        self.objects.clear();
        for (index, (step, got)) in script.list_at("steps").iter().zip(script.list_at("got")).enumerate() {
            self.place = format!("{} step {index}", script.str_at("name"));
            self.step(step, got);
            if got.int_at("status") == Some(500) {
                return;
            }
        }
    }

    fn step(&mut self, step: &Value, got: &Value) {
        let request = request(step.str_at("path"));
        if request.query.contains_key("dryRun") {
            return;
        }
        let fine = got.int_at("status").is_some_and(|status| status < 300);
        let recorded = Some(got.at("object")).filter(|object| fine && object.is_object()).map(unmask);
        match step.str_at("method") {
            "POST" if fine => {
                let resource = format!("{}/{}", request.resource, step.str_at("body.metadata.name"));
                let mut sent = step.at("body").clone();
                if let Some(shape) = shape_of(&sent) {
                    let claim = Claim::of(&sent);
                    decode(&shape, &mut sent);
                    self.written(&resource, &request, None, claim, sent, recorded);
                }
            }
            "PUT" if fine && recorded.is_some() => {
                let live = self.objects.get(request.resource).cloned();
                let claim = Claim::of(step.at("body"));
                self.written(request.resource, &request, live.as_ref(), claim, step.at("body").clone(), recorded);
            }
            "GET" => {
                if let Some(recorded) = recorded.filter(|_| self.objects.contains_key(request.resource)) {
                    self.adopt(request.resource, recorded);
                }
            }
            "PATCH" => self.patch(&request, step, got, recorded),
            "DELETE" if fine => drop(self.objects.remove(request.resource)),
            _ => {}
        }
    }

    fn differ(&mut self, what: impl std::fmt::Display) {
        self.differences.push(format!("{}: {what}", self.place));
    }

    /// Keeps account of a plain write and compares the entries with the recorded ones. `sent` is the object of the request;
    /// it stands in for an answer that was not recorded.
    fn written(
        &mut self,
        resource: &str,
        request: &Request<'_>,
        live: Option<&Value>,
        claim: Claim,
        sent: Value,
        recorded: Option<Value>,
    ) {
        let new = recorded.as_ref().unwrap_or(&sent);
        let Some(shape) = shape_of(new) else { return };
        let mut tracked = new.clone();
        // The entries are the request's own.
        tracked.remove("metadata.managedFields");
        if !sent.at("metadata.managedFields").is_null() {
            tracked.set("metadata.managedFields", sent.at("metadata.managedFields").clone());
        }
        let api_version = new.str_at("apiVersion");
        let user_agent = manager_of("oracle");
        let update = Update {
            shape: &shape,
            live,
            claim,
            manager: request.query.get("fieldManager").copied().unwrap_or(&user_agent),
            api_version,
            versions: &[api_version],
            subresource: request.subresource,
            reset: &reset(request.subresource),
            now: Timestamp::from_second(1_700_000_000).unwrap(),
        };
        track_update(&update, &mut tracked);
        if let Some(live) = live {
            settle_times(live, &mut tracked);
        }
        self.objects.insert(resource.to_owned(), tracked);
        if let Some(recorded) = recorded {
            self.adopt(resource, recorded);
        }
    }

    /// Compares our entries with recorded ones and goes on with the recorded object.
    fn adopt(&mut self, resource: &str, recorded: Value) {
        let ours = self.objects.remove(resource).unwrap_or_default();
        self.compared += 1;
        let (expected, got) = (timeless(&recorded), timeless(&ours));
        if expected != got {
            self.differ(format_args!(
                "managedFields\n  recorded {}\n  ours     {}",
                only(&expected, &got),
                only(&got, &expected)
            ));
        }
        let mut object = recorded;
        object.remove("metadata.managedFields");
        if !ours.at("metadata.managedFields").is_null() {
            object.set("metadata.managedFields", ours.at("metadata.managedFields").clone());
        }
        self.objects.insert(resource.to_owned(), object);
    }

    fn patch(&mut self, request: &Request<'_>, step: &Value, got: &Value, recorded: Option<Value>) {
        let Ok(format) = Format::from_content_type(step.str_at("type"), &Format::ALL) else { return };
        let live = self.objects.get(request.resource).cloned();
        if request.subresource == "scale" {
            return self.scale(request, step);
        }
        let result = match (&live, format) {
            (_, Format::Apply) => applied(request, live.as_ref(), step.at("body")),
            (None, _) => return,
            (Some(live), _) => patched(format, live, step.at("body")),
        };
        match result {
            Err(error) if got.int_at("status") == Some(500) => {
                self.compared += 1;
                if !(400..500).contains(&error.code) {
                    self.differ(&error);
                }
            }
            Err(error) => {
                let causes: Vec<Value> = error
                    .details
                    .list_at("causes")
                    .iter()
                    .map(|cause| json!([cause["field"], cause["reason"]]))
                    .collect();
                let mut ours = json!({"status": error.code, "reason": error.reason, "causes": causes});
                ours["causes"].as_array_mut().unwrap().sort_by_key(ToString::to_string);
                let expected =
                    json!({"status": got["status"], "reason": got["reason"], "causes": got.list_at("causes")});
                self.compared += 1;
                if ours != expected {
                    self.differ(format_args!("refused\n  recorded {expected}\n  ours     {ours} {}", error.message));
                }
            }
            Ok(_) if got.int_at("status") != Some(200) && got.int_at("status") != Some(201) => {
                let what = format!("refused later: {} {}", got["status"], got["causes"]);
                *self.refused.entry(what).or_default() += 1;
            }
            Ok(new) => self.accepted(request, format, live.as_ref(), new, recorded),
        }
    }

    /// A patch went through: its result must be the recorded one but for defaults.
    fn accepted(
        &mut self,
        request: &Request<'_>,
        format: Format,
        live: Option<&Value>,
        new: Value,
        recorded: Option<Value>,
    ) {
        let shape = shape_of(&new).unwrap();
        let claim = Claim::of(&new);
        let mut object = new;
        decode(&shape, &mut object);
        if request.subresource == "status" {
            let live = live.unwrap();
            object.set("spec", live.at("spec").clone());
        }
        for difference in recorded.iter().flat_map(|recorded| differences("", &object, recorded)) {
            self.differ(difference);
        }
        if format == Format::Apply {
            if let Some(live) = live {
                settle_times(live, &mut object);
            }
            self.objects.insert(request.resource.to_owned(), object);
            if let Some(recorded) = recorded {
                self.adopt(request.resource, recorded);
            }
        } else {
            self.written(request.resource, request, live, claim, object, recorded);
        }
    }

    fn scale(&mut self, request: &Request<'_>, step: &Value) {
        let mut parent = self.objects.get(request.resource).cloned().unwrap();
        let rule = Scale { api_version: "apps/v1", versions: &["apps/v1"], replicas: "spec.replicas" };
        let replicas = parent.at("spec.replicas").clone();
        let mut scale = json!({"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "d"}, "spec": {"replicas": replicas}});
        rule.show(&parent, &mut scale);
        let mut changed = patched(Format::Merge, &scale, step.at("body")).unwrap();
        let update = Update {
            shape: &shape_of(&scale).unwrap(),
            live: Some(&scale),
            claim: Claim::default(),
            manager: "oracle",
            api_version: "autoscaling/v1",
            versions: &["autoscaling/v1"],
            subresource: "scale",
            reset: &FieldSet::default(),
            now: Timestamp::from_second(1_700_000_000).unwrap(),
        };
        track_update(&update, &mut changed);
        parent.set("spec.replicas", changed.at("spec.replicas").clone());
        rule.settle(&changed, &mut parent);
        self.objects.insert(request.resource.to_owned(), parent);
    }
}

fn reset(subresource: &str) -> FieldSet {
    if subresource == "status" { FieldSet::of(&["spec", "metadata.labels"]) } else { FieldSet::of(&["status"]) }
}

fn patched(format: Format, live: &Value, body: &Value) -> Result<Value, ApiError> {
    let shape = shape_of(live).unwrap();
    let body = body.clone();
    let patched = match format {
        Format::Json => patch::json::apply(live.clone(), &body),
        Format::Merge => patch::merge::apply(live.clone(), body),
        _ => patch::strategic::apply(&shape, live.clone(), body),
    }?;
    let name = patched.str_at("metadata.name").to_owned();
    if name != live.str_at("metadata.name") {
        return Err(ApiError::bad_request(format!("the name {name:?} is not that of the request")));
    }
    let mut decoded = patched.clone();
    let mistakes = decode(&shape, &mut decoded).errors;
    if let Some(mistake) = mistakes.first() {
        return Err(patch::not_an_object(&patched, &mistake.to_string()));
    }
    if patched.at("kind") != live.at("kind") {
        return Err(patch::not_an_object(&patched, "the kind is not that of the request"));
    }
    Ok(patched)
}

fn applied(request: &Request<'_>, live: Option<&Value>, config: &Value) -> Result<Value, ApiError> {
    let Some(manager) = request.query.get("fieldManager") else {
        let error = api::error::FieldError::required(&api::path::Path::new("fieldManager"), "");
        return Err(ApiError::invalid("PatchOptions", "meta.k8s.io", "", &[error]));
    };
    let shape = shape_of(config).unwrap();
    let api_version = config.str_at("apiVersion");
    let object = apply(&Apply {
        shape: &shape,
        kind: config.str_at("kind"),
        live,
        config,
        manager,
        force: if request.query.get("force") == Some(&"true") { Force::Yes } else { Force::No },
        api_version,
        versions: &[api_version],
        subresource: request.subresource,
        reset: &reset(request.subresource),
        now: Timestamp::from_second(1_700_000_000).unwrap(),
    })?;
    if Some(object.str_at("metadata.name")) != request.resource.rsplit('/').next() {
        return Err(ApiError::bad_request("the name is not that of the request"));
    }
    Ok(object)
}

/// Where two objects differ, but for what may be added to the first.
fn differences(path: &str, ours: &Value, recorded: &Value) -> Vec<String> {
    if ["metadata.managedFields", "metadata.generation", "status"].contains(&path) || ours == recorded {
        return Vec::new();
    }
    let name = path.rsplit('.').next().unwrap_or_default();
    match (ours, recorded) {
        _ if (ours.is_null() || ours == 0) && is_default(name, recorded) => Vec::new(),
        (Value::Object(one), Value::Object(other)) => {
            let mut keys: Vec<&String> = one.keys().chain(other.keys()).collect();
            keys.sort();
            keys.dedup();
            let below = |key: &String| if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
            keys.into_iter()
                .flat_map(|key| differences(&below(key), &ours[key.as_str()], &recorded[key.as_str()]))
                .collect()
        }
        (Value::Array(one), Value::Array(other)) if one.len() == other.len() => {
            one.iter().zip(other).flat_map(|(one, other)| differences(path, one, other)).collect()
        }
        _ => vec![format!("{path}: recorded {recorded}, ours {ours}")],
    }
}
