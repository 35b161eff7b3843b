//! Rules of Job.

use super::{spec, status};
use crate::{
    error::FieldError,
    kinds::{
        check::{self, Errors},
        columns::{self, AGE, CONTAINERS, IMAGES, NAME, SELECTOR},
        edit::{self, fill},
        pod, selector,
    },
    object::Fields,
    path::Path,
    resource::{Column, Rules, take_over},
};
use serde_json::{Value, json};

/// Rules of batch/v1 Job.
pub(in crate::kinds) struct Job;

/// Labels that pods of a Job have: its uid and its name, each under its old and its new key.
const UID_LABELS: [&str; 2] = ["batch.kubernetes.io/controller-uid", "controller-uid"];
const NAME_LABELS: [&str; 2] = ["batch.kubernetes.io/job-name", "job-name"];

impl Rules for Job {
    fn default(&self, job: &mut Value) {
        if !job.at("spec").is_object() {
            job.set("spec", json!({}));
        }
        let given = job.at_mut("spec");
        spec::template_defaults(given);
        if given.at("completions").is_null() && given.at("parallelism").is_null() {
            given.set("completions", 1);
        }
        given.set_default("parallelism", 1);
        let limit = if given.at("backoffLimitPerIndex").is_null() { 6 } else { i32::MAX };
        given.set_default("backoffLimit", limit);
        fill(given, "completionMode", "NonIndexed");
        given.set_default("suspend", false);
        let replacement = if given.at("podFailurePolicy").is_null() { "TerminatingOrFailed" } else { "Failed" };
        fill(given, "podReplacementPolicy", replacement);
        given.set_default("manualSelector", false);
        labels_of_template(job);
    }

    fn prepare_create(&self, job: &mut Value) {
        if !job.is_true("spec.manualSelector") {
            generate_selector(job);
        }
        labels_of_template(job);
        // Belongs to a feature that is off.
        job.remove("spec.scheduling");
        job.set("status", json!({}));
    }

    fn prepare_update(&self, job: &mut Value, old: &Value) {
        job.set("status", old.at("status").clone());
        take_over(job, old, "spec.scheduling");
    }

    fn validate(&self, job: &Value) -> Errors {
        let mut errors = Errors::new();
        generated_selector(&mut errors, job);
        whole_spec(&mut errors, job);
        spec::name_allows_completions(&mut errors, job);
        errors
    }

    fn validate_update(&self, job: &Value, old: &Value) -> Errors {
        let mut errors = Errors::new();
        whole_spec(&mut errors, job);
        let (path, new, old_spec) = (Path::new("spec"), job.at("spec"), old.at("spec"));
        completions(&mut errors, &path.child("completions"), new, old_spec);
        check::immutable(&mut errors, &path.child("selector"), new.at("selector"), old_spec.at("selector"));
        template_update(&mut errors, &path.child("template"), job, old);
        for field in ["completionMode", "podFailurePolicy", "backoffLimitPerIndex", "managedBy", "successPolicy"] {
            check::immutable(&mut errors, &path.child(field), new.at(field), old_spec.at(field));
        }
        spec::name_allows_completions(&mut errors, job);
        errors
    }

    fn validate_status(&self, job: &Value, old: &Value) -> Errors {
        status::validate(job, old)
    }

    fn warnings(&self, job: &Value, old: Option<&Value>) -> Vec<String> {
        if old.is_some_and(|old| !self.generation_changes(job, old)) {
            return Vec::new();
        }
        let mut advice: Vec<String> = pod::advice::host_name(job).filter(|_| old.is_none()).into_iter().collect();
        advice.extend(spec_advice(&Path::new("spec"), job.at("spec")));
        advice
    }

    fn has_generation(&self) -> bool {
        true
    }

    fn orphans_by_default(&self) -> bool {
        true
    }

    fn selected(&self, job: &Value, path: &str) -> String {
        job.int_at(path).unwrap_or_default().to_string()
    }

    fn columns(&self) -> Vec<Column> {
        columns::columns(&[
            NAME,
            ("Status", "string", 0, "How far the job is"),
            ("Completions", "string", 0, "Pods that succeeded, of those wanted"),
            ("Duration", "string", 0, "Time from start to completion, or until now"),
            AGE,
            CONTAINERS,
            IMAGES,
            SELECTOR,
        ])
    }

    fn cells(&self, job: &Value, now: jiff::Timestamp) -> Vec<Value> {
        let succeeded = job.int_at("status.succeeded").unwrap_or_default();
        let completions = match (job.int_at("spec.completions"), job.int_at("spec.parallelism").unwrap_or_default()) {
            (Some(completions), _) => format!("{succeeded}/{completions}"),
            (None, parallelism) if parallelism > 1 => format!("{succeeded}/1 of {parallelism}"),
            (None, _) => format!("{succeeded}/1"),
        };
        let time = |path: &str| job.str_at(path).parse::<jiff::Timestamp>().ok();
        let duration = time("status.startTime").map(|start| {
            let end = time("status.completionTime").unwrap_or(now);
            columns::human_duration(end.as_second() - start.as_second())
        });
        let [names, images] = columns::containers(job.at("spec.template"));
        vec![
            columns::name(job),
            stage(job).into(),
            completions.into(),
            duration.unwrap_or_default().into(),
            columns::age(job, now),
            names,
            images,
            columns::or(selector::text(job.at("spec.selector")), "<none>").into(),
        ]
    }
}

/// Advice on a Job's spec at `path`.
pub(super) fn spec_advice(path: &Path, given: &Value) -> Vec<String> {
    let more_than = |field: &str, most: i64| given.int_at(field).is_some_and(|number| number > most);
    let mut advice = Vec::new();
    if spec::is_indexed(given) && more_than("completions", 100_000) && more_than("parallelism", 10_000) {
        let text = "with more than 100000 completions and a parallelism of more than 10000 the status may not have room for \
                    all completed indexes";
        advice.push(format!("{path}: {text}"));
    }
    advice.extend(pod::advice::spec(&path.child("template").child("spec"), given.at("template.spec")));
    advice
}

/// One word for the column.
fn stage(job: &Value) -> &'static str {
    let ending = !job.at("metadata.deletionTimestamp").is_null();
    let known = [
        ("Complete", "Complete"),
        ("Failed", "Failed"),
        ("", "Terminating"),
        ("Suspended", "Suspended"),
        ("FailureTarget", "FailureTarget"),
        ("SuccessCriteriaMet", "SuccessCriteriaMet"),
    ];
    let holds = |kind: &str| if kind.is_empty() { ending } else { status::is_true(job, kind) };
    known.into_iter().find(|(kind, _)| holds(kind)).map_or("Running", |(_, shown)| shown)
}

/// A Job without labels has those of its pods.
fn labels_of_template(job: &mut Value) {
    let labels = job.at("spec.template.metadata.labels");
    if labels.is_object() && job.map_at("metadata.labels").is_none_or(serde_json::Map::is_empty) {
        let labels = labels.clone();
        job.set("metadata.labels", labels);
    }
}

/// Pods of this Job are told from all others by its uid.
fn generate_selector(job: &mut Value) {
    let (uid, name) = (job.at("metadata.uid").clone(), job.at("metadata.name").clone());
    let set = |map: &mut Value, key: &str, value: &Value| {
        if !map.is_object() {
            *map = json!({});
        }
        if map[key].is_null() {
            map[key] = value.clone();
        }
    };
    for (keys, value) in [(UID_LABELS, &uid), (NAME_LABELS, &name)] {
        for key in keys {
            set(job.at_mut("spec.template.metadata.labels"), key, value);
        }
    }
    set(job.at_mut("spec.selector.matchLabels"), UID_LABELS[0], &uid);
}

fn generated_selector(errors: &mut Errors, job: &Value) {
    if job.is_true("spec.manualSelector") || job.at("spec.selector").is_null() {
        return;
    }
    if job.str_at("metadata.uid").is_empty() {
        errors.push(FieldError::required(&Path::new("metadata").child("uid"), ""));
    }
    let at = Path::new("spec").child("template").child("metadata").child("labels");
    let labels = job.at("spec.template.metadata.labels");
    let mut expected = json!({});
    for (keys, path) in [(UID_LABELS, "metadata.uid"), (NAME_LABELS, "metadata.name")] {
        let value = job.str_at(path);
        for key in keys {
            expected[key] = value.into();
            match labels.get(key).and_then(Value::as_str) {
                None => errors.push(FieldError::required(&at.key(key), format!("must be '{value}'"))),
                Some(found) if found != value => {
                    errors.push(FieldError::invalid(&at.key(key), found, format!("must be '{value}'")));
                }
                Some(_) => {}
            }
        }
    }
    let wanted = job.at("spec.selector");
    if selector::is_readable(wanted) && !selector::matches(wanted, &expected) {
        let text = "is made by the server unless manualSelector is true";
        errors.push(FieldError::invalid(&Path::new("spec").child("selector"), wanted.clone(), text));
    }
}

/// Spec and selector.
fn whole_spec(errors: &mut Errors, job: &Value) {
    let (path, given) = (Path::new("spec"), job.at("spec"));
    spec::validate(errors, &path, given);
    let wanted = given.at("selector");
    if wanted.is_null() {
        errors.push(FieldError::required(&path.child("selector"), "labels of the pods that belong to it"));
        return;
    }
    selector::validate(errors, &path.child("selector"), wanted);
    let labels = given.at("template.metadata.labels");
    if selector::is_readable(wanted) && !selector::matches(wanted, labels) {
        let at = path.child("template").child("metadata").child("labels");
        errors.push(FieldError::invalid(&at, labels.clone(), "must be selected by spec.selector"));
    }
}

/// Fixed, but for Jobs that count by index: there it may change together with the parallelism.
fn completions(errors: &mut Errors, path: &Path, new: &Value, old: &Value) {
    let (now, before) = (new.at("completions"), old.at("completions"));
    if !spec::is_indexed(new) {
        check::immutable(errors, path, now, before);
    } else if now != before && !now.is_null() && now != new.at("parallelism") {
        errors.push(FieldError::invalid(path, now.clone(), "changes only together with spec.parallelism, to the same"));
    }
}

/// The template is fixed. While nothing runs because the Job is suspended, where pods go and what they need may change.
fn template_update(errors: &mut Errors, path: &Path, job: &Value, old: &Value) {
    let (new, before) = (job.at("spec.template"), old.at("spec.template"));
    let unstarted = old.at("status.startTime").is_null() || status::is_true(old, "Suspended");
    let idle = old.int_at("status.active").unwrap_or_default() == 0;
    if !(old.is_true("spec.suspend") && unstarted && idle) {
        check::immutable(errors, path, new, before);
        return;
    }
    let mut allowed = before.at("spec").clone();
    let wanted = new.at("spec");
    for field in ["nodeSelector", "tolerations", "schedulingGates", "affinity.nodeAffinity"] {
        take_over(&mut allowed, wanted, field);
    }
    for list in ["containers", "initContainers"] {
        let sent = wanted.list_at(list);
        if sent.len() == allowed.list_at(list).len() {
            for (container, sent) in edit::items(&mut allowed, list).zip(sent) {
                if container.str_at("name") == sent.str_at("name") {
                    take_over(container, sent, "resources");
                }
            }
        }
    }
    check::immutable(errors, &path.child("spec"), wanted, &allowed);
}
