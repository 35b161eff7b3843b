//! Deployment, ReplicaSet and DaemonSet: workloads that stamp pods from a template. And ControllerRevision.
//!
//! Mirrors `pkg/registry/apps` and `pkg/apis/apps`. The three share the checks of selector and template.

use super::{
    check::{self, Errors},
    columns::{self, AGE, CONTAINERS, Def, IMAGES, NAME, SELECTOR},
    edit::fill,
    pod, selector,
};
use crate::{
    error::FieldError,
    object::Fields,
    path::Path,
    resource::{Column, Rules, carry_over_all_but_status, differs_beyond_status, take_over},
};
use serde_json::{Value, json};

/// Where a DaemonSet keeps the generation of its template, for clients of older versions.
const TEMPLATE_GENERATION: &str = "deprecated.daemonset.template.generation";

/// Rules of apps/v1 Deployment.
pub(super) struct Deployment;

impl Rules for Deployment {
    fn kept_by_status(&self) -> &'static [&'static str] {
        &["spec", "metadata.labels"]
    }

    fn default(&self, deployment: &mut Value) {
        template_defaults(deployment);
        deployment.set_default("spec.replicas", 1);
        let strategy = deployment.at_mut("spec.strategy");
        if !strategy.is_object() {
            *strategy = json!({});
        }
        fill(strategy, "type", "RollingUpdate");
        if strategy.str_at("type") == "RollingUpdate" {
            strategy.set_default("rollingUpdate.maxUnavailable", "25%");
            strategy.set_default("rollingUpdate.maxSurge", "25%");
        }
        deployment.set_default("spec.revisionHistoryLimit", 10);
        deployment.set_default("spec.progressDeadlineSeconds", 600);
    }

    fn prepare_create(&self, deployment: &mut Value) {
        deployment.set("status", json!({}));
    }

    fn prepare_update(&self, deployment: &mut Value, old: &Value) {
        deployment.set("status", old.at("status").clone());
    }

    fn prepare_status(&self, deployment: &mut Value, old: &Value) {
        carry_over_all_but_status(deployment, old);
        take_over(deployment, old, "metadata.labels");
    }

    fn validate(&self, deployment: &Value) -> Errors {
        let mut errors = Errors::new();
        let (path, spec) = (Path::new("spec"), deployment.at("spec"));
        check::not_negative(&mut errors, &path, spec, "replicas");
        replicated(&mut errors, spec);
        deployment_strategy(&mut errors, &path.child("strategy"), spec.at("strategy"));
        let numbers = ["minReadySeconds", "revisionHistoryLimit", "progressDeadlineSeconds"];
        check::none_negative(&mut errors, &path, spec, &numbers);
        let ready = spec.int_at("minReadySeconds").unwrap_or_default();
        if let Some(deadline) = spec.int_at("progressDeadlineSeconds").filter(|deadline| *deadline <= ready) {
            let text = format!("must be more than minReadySeconds, {ready}");
            errors.push(FieldError::invalid(&path.child("progressDeadlineSeconds"), deadline, text));
        }
        errors
    }

    fn validate_update(&self, deployment: &Value, old: &Value) -> Errors {
        let mut errors = self.validate(deployment);
        fixed_selector(&mut errors, deployment, old);
        errors
    }

    fn validate_status(&self, deployment: &Value, old: &Value) -> Errors {
        let mut errors = Errors::new();
        let numbers = [
            "observedGeneration",
            "replicas",
            "updatedReplicas",
            "readyReplicas",
            "availableReplicas",
            "unavailableReplicas",
            "terminatingReplicas",
            "collisionCount",
        ];
        check::none_negative(&mut errors, &Path::new("status"), deployment.at("status"), &numbers);
        no_more_than_all(&mut errors, deployment, &["updatedReplicas", "readyReplicas", "availableReplicas"]);
        collisions_only_grow(&mut errors, deployment, old);
        errors
    }

    fn warnings(&self, deployment: &Value, old: Option<&Value>) -> Vec<String> {
        template_advice(self, deployment, old, true)
    }

    fn has_generation(&self) -> bool {
        true
    }

    fn generation_changes(&self, deployment: &Value, old: &Value) -> bool {
        let annotations = "metadata.annotations";
        differs_beyond_status(deployment, old) || !check::same(deployment.at(annotations), old.at(annotations))
    }

    fn columns(&self) -> Vec<Column> {
        columns::columns(&[
            NAME,
            ("Ready", "string", 0, "Pods that are ready, of those wanted"),
            ("Up-to-date", "string", 0, "Pods of the current template"),
            ("Available", "string", 0, "Pods that have been ready long enough"),
            AGE,
            CONTAINERS,
            IMAGES,
            SELECTOR,
        ])
    }

    fn cells(&self, deployment: &Value, now: jiff::Timestamp) -> Vec<Value> {
        let number = |path: &str| columns::number(deployment, path);
        let [names, images] = columns::containers(deployment);
        vec![
            columns::name(deployment),
            format!("{}/{}", number("status.readyReplicas"), number("spec.replicas")).into(),
            number("status.updatedReplicas"),
            number("status.availableReplicas"),
            columns::age(deployment, now),
            names,
            images,
            selector::text(deployment.at("spec.selector")).into(),
        ]
    }
}

/// Rules of apps/v1 ReplicaSet.
pub(super) struct ReplicaSet;

impl Rules for ReplicaSet {
    fn default(&self, set: &mut Value) {
        template_defaults(set);
        set.set_default("spec.replicas", 1);
    }

    fn prepare_create(&self, set: &mut Value) {
        set.set("status", json!({"replicas": 0}));
    }

    fn prepare_update(&self, set: &mut Value, old: &Value) {
        set.set("status", old.at("status").clone());
    }

    fn validate(&self, set: &Value) -> Errors {
        let mut errors = Errors::new();
        check::none_negative(&mut errors, &Path::new("spec"), set.at("spec"), &["replicas", "minReadySeconds"]);
        replicated(&mut errors, set.at("spec"));
        errors
    }

    fn validate_update(&self, set: &Value, old: &Value) -> Errors {
        let mut errors = self.validate(set);
        fixed_selector(&mut errors, set, old);
        errors
    }

    fn validate_status(&self, set: &Value, _old: &Value) -> Errors {
        let mut errors = Errors::new();
        let numbers = [
            "replicas",
            "fullyLabeledReplicas",
            "readyReplicas",
            "availableReplicas",
            "observedGeneration",
            "terminatingReplicas",
        ];
        check::none_negative(&mut errors, &Path::new("status"), set.at("status"), &numbers);
        no_more_than_all(&mut errors, set, &["fullyLabeledReplicas", "readyReplicas", "availableReplicas"]);
        errors
    }

    fn warnings(&self, set: &Value, old: Option<&Value>) -> Vec<String> {
        template_advice(self, set, old, true)
    }

    fn has_generation(&self) -> bool {
        true
    }

    fn columns(&self) -> Vec<Column> {
        columns::columns(&[NAME, DESIRED, CURRENT, READY, AGE, CONTAINERS, IMAGES, SELECTOR])
    }

    fn cells(&self, set: &Value, now: jiff::Timestamp) -> Vec<Value> {
        let [names, images] = columns::containers(set);
        vec![
            columns::name(set),
            columns::number(set, "spec.replicas"),
            columns::number(set, "status.replicas"),
            columns::number(set, "status.readyReplicas"),
            columns::age(set, now),
            names,
            images,
            columns::or(selector::text(set.at("spec.selector")), "<none>").into(),
        ]
    }
}

/// Rules of apps/v1 DaemonSet.
pub(super) struct DaemonSet;

impl Rules for DaemonSet {
    fn default(&self, set: &mut Value) {
        template_defaults(set);
        let strategy = set.at_mut("spec.updateStrategy");
        if !strategy.is_object() {
            *strategy = json!({});
        }
        fill(strategy, "type", "RollingUpdate");
        if strategy.str_at("type") == "RollingUpdate" {
            strategy.set_default("rollingUpdate.maxUnavailable", 1);
            strategy.set_default("rollingUpdate.maxSurge", 0);
        }
        set.set_default("spec.revisionHistoryLimit", 10);
    }

    fn prepare_create(&self, set: &mut Value) {
        let nothing = json!({
            "currentNumberScheduled": 0, "numberMisscheduled": 0, "desiredNumberScheduled": 0, "numberReady": 0,
        });
        set.set("status", nothing);
        let generation = template_generation(set).max(1);
        set_template_generation(set, generation);
    }

    fn prepare_update(&self, set: &mut Value, old: &Value) {
        set.set("status", old.at("status").clone());
        let changed = !check::same(set.at("spec.template"), old.at("spec.template"));
        set_template_generation(set, template_generation(old) + i64::from(changed));
    }

    fn validate(&self, set: &Value) -> Errors {
        let mut errors = Errors::new();
        let (path, spec) = (Path::new("spec"), set.at("spec"));
        selector::validate(&mut errors, &path.child("selector"), spec.at("selector"));
        if !spec.at("selector").is_null() && selector::is_empty(spec.at("selector")) {
            errors.push(FieldError::invalid(&path.child("selector"), json!({}), "must not be empty"));
        }
        template(&mut errors, spec);
        check::none_negative(&mut errors, &path, spec, &["minReadySeconds", "revisionHistoryLimit"]);
        daemon_strategy(&mut errors, &path.child("updateStrategy"), spec.at("updateStrategy"));
        errors
    }

    fn validate_update(&self, set: &Value, old: &Value) -> Errors {
        let mut errors = self.validate(set);
        fixed_selector(&mut errors, set, old);
        errors
    }

    fn validate_status(&self, set: &Value, old: &Value) -> Errors {
        let mut errors = Errors::new();
        let numbers = [
            "currentNumberScheduled",
            "numberMisscheduled",
            "desiredNumberScheduled",
            "numberReady",
            "observedGeneration",
            "updatedNumberScheduled",
            "numberAvailable",
            "numberUnavailable",
            "collisionCount",
        ];
        check::none_negative(&mut errors, &Path::new("status"), set.at("status"), &numbers);
        collisions_only_grow(&mut errors, set, old);
        errors
    }

    fn warnings(&self, set: &Value, old: Option<&Value>) -> Vec<String> {
        template_advice(self, set, old, false)
    }

    fn has_generation(&self) -> bool {
        true
    }

    fn columns(&self) -> Vec<Column> {
        columns::columns(&[
            NAME,
            DESIRED,
            CURRENT,
            READY,
            ("Up-to-date", "integer", 0, "Pods of the current template"),
            ("Available", "integer", 0, "Pods that have been ready long enough"),
            ("Node Selector", "string", 0, "Labels of the nodes it runs on"),
            AGE,
            CONTAINERS,
            IMAGES,
            SELECTOR,
        ])
    }

    fn cells(&self, set: &Value, now: jiff::Timestamp) -> Vec<Value> {
        let [names, images] = columns::containers(set);
        let counts = [
            "desiredNumberScheduled",
            "currentNumberScheduled",
            "numberReady",
            "updatedNumberScheduled",
            "numberAvailable",
        ];
        let mut cells = vec![columns::name(set)];
        cells.extend(counts.map(|count| columns::number(set.at("status"), count)));
        cells.extend([
            columns::labels(set.at("spec.template.spec.nodeSelector")).into(),
            columns::age(set, now),
            names,
            images,
            columns::or(selector::text(set.at("spec.selector")), "<none>").into(),
        ]);
        cells
    }
}

/// Rules of apps/v1 ControllerRevision.
pub(super) struct ControllerRevision;

impl Rules for ControllerRevision {
    fn validate(&self, revision: &Value) -> Errors {
        let mut errors = Errors::new();
        check::not_negative(&mut errors, &Path::root(), revision, "revision");
        if !revision.at("data").is_object() {
            errors.push(FieldError::required(&Path::new("data"), "a JSON object"));
        }
        errors
    }

    fn validate_update(&self, revision: &Value, old: &Value) -> Errors {
        let mut errors = Errors::new();
        check::not_negative(&mut errors, &Path::root(), revision, "revision");
        check::immutable(&mut errors, &Path::new("data"), revision.at("data"), old.at("data"));
        errors
    }

    fn columns(&self) -> Vec<Column> {
        columns::columns(&[
            NAME,
            ("Controller", "string", 0, "The object it is a revision of"),
            ("Revision", "string", 0, "Number of the revision"),
            AGE,
        ])
    }

    fn cells(&self, revision: &Value, now: jiff::Timestamp) -> Vec<Value> {
        let owner = revision.list_at("metadata.ownerReferences").iter().find(|owner| owner.is_true("controller"));
        let controller = owner.map_or_else(
            || "<none>".to_owned(),
            |owner| {
                let group = owner.str_at("apiVersion").rsplit_once('/').map_or("", |(group, _)| group);
                let kind = crate::error::qualified(owner.str_at("kind"), group).to_lowercase();
                format!("{kind}/{}", owner.str_at("name"))
            },
        );
        let number = columns::number(revision, "revision");
        vec![columns::name(revision), controller.into(), number, columns::age(revision, now)]
    }
}

const DESIRED: Def = ("Desired", "integer", 0, "Pods that should be there");
const CURRENT: Def = ("Current", "integer", 0, "Pods that are there");
const READY: Def = ("Ready", "integer", 0, "Pods that are ready");

fn template_defaults(workload: &mut Value) {
    if workload.at("spec.template").is_object() {
        let spec = workload.at_mut("spec.template.spec");
        if !spec.is_object() {
            *spec = json!({});
        }
        pod::defaults::spec(spec);
    }
}

/// Selector and template of what keeps a number of pods. A selector that cannot be read leaves the template unread.
fn replicated(errors: &mut Errors, spec: &Value) {
    let path = Path::new("spec").child("selector");
    let wanted = spec.at("selector");
    if wanted.is_null() {
        errors.push(FieldError::required(&path, "labels of the pods that belong to it"));
    } else {
        selector::validate(errors, &path, wanted);
        if selector::is_empty(wanted) {
            errors.push(FieldError::invalid(&path, wanted.clone(), "must not be empty"));
        }
    }
    if selector::is_readable(wanted) {
        template(errors, spec);
    } else {
        errors.push(FieldError::invalid(&path, wanted.clone(), "has mistakes"));
    }
}

/// The template must make pods that the selector finds and that run for ever.
fn template(errors: &mut Errors, spec: &Value) {
    let path = Path::new("spec").child("template");
    let made = spec.at("template");
    let wanted = spec.at("selector");
    let everything = !wanted.is_null() && selector::is_empty(wanted);
    if !everything && selector::is_readable(wanted) && !selector::matches(wanted, made.at("metadata.labels")) {
        let at = path.child("metadata").child("labels");
        errors.push(FieldError::invalid(&at, made.at("metadata.labels").clone(), "must be selected by spec.selector"));
    }
    pod::template(errors, &path, made, None);
    let at = path.child("spec");
    if made.str_at("spec.restartPolicy") != "Always" {
        errors.push(FieldError::not_supported(
            &at.child("restartPolicy"),
            made.str_at("spec.restartPolicy"),
            &["Always"],
        ));
    }
    if !made.at("spec.activeDeadlineSeconds").is_null() {
        let text = "pods of this kind run for ever";
        errors.push(FieldError::forbidden(&at.child("activeDeadlineSeconds"), text));
    }
}

/// Advice on the template, when it may be news; `named` when pods get their host names from the workload's.
fn template_advice(rules: &impl Rules, workload: &Value, old: Option<&Value>, named: bool) -> Vec<String> {
    if old.is_some_and(|old| !rules.generation_changes(workload, old)) {
        return Vec::new();
    }
    let path = Path::new("spec").child("template").child("spec");
    let mut advice = pod::advice::spec(&path, workload.at("spec.template.spec"));
    advice.extend(pod::advice::host_name(workload).filter(|_| named && old.is_none()));
    advice
}

fn fixed_selector(errors: &mut Errors, workload: &Value, old: &Value) {
    let path = Path::new("spec").child("selector");
    check::immutable(errors, &path, workload.at("spec.selector"), old.at("spec.selector"));
}

fn deployment_strategy(errors: &mut Errors, path: &Path, strategy: &Value) {
    let rolling = strategy.at("rollingUpdate");
    let at = path.child("rollingUpdate");
    match strategy.str_at("type") {
        "Recreate" if !rolling.is_null() => {
            errors.push(FieldError::forbidden(&at, "only with type RollingUpdate"));
        }
        "Recreate" => {}
        "RollingUpdate" if rolling.is_null() => errors.push(FieldError::required(&at, "")),
        "RollingUpdate" => {
            let (unavailable, surge) = (rolling.at("maxUnavailable"), rolling.at("maxSurge"));
            check::int_or_percent(errors, &at.child("maxUnavailable"), unavailable);
            check::int_or_percent(errors, &at.child("maxSurge"), surge);
            if check::number_or_percent(unavailable) == 0 && check::number_or_percent(surge) == 0 {
                let text = "must not be 0 when maxSurge is 0: nothing could ever move";
                errors.push(FieldError::invalid(&at.child("maxUnavailable"), unavailable.clone(), text));
            }
            check::at_most_100_percent(errors, &at.child("maxUnavailable"), unavailable);
        }
        _ => errors.push(FieldError::not_supported(path, strategy.clone(), &["Recreate", "RollingUpdate"])),
    }
}

fn daemon_strategy(errors: &mut Errors, path: &Path, strategy: &Value) {
    let rolling = strategy.at("rollingUpdate");
    let at = path.child("rollingUpdate");
    match strategy.str_at("type") {
        "OnDelete" => {}
        "RollingUpdate" if rolling.is_null() => errors.push(FieldError::required(&at, "")),
        "RollingUpdate" => {
            for field in ["maxUnavailable", "maxSurge"] {
                check::int_or_percent(errors, &at.child(field), rolling.at(field));
                check::at_most_100_percent(errors, &at.child(field), rolling.at(field));
            }
            let given = |field: &str| check::number_or_percent(rolling.at(field)) != 0;
            match (given("maxUnavailable"), given("maxSurge")) {
                (true, true) => {
                    let text = "must be 0 when maxUnavailable is not";
                    errors.push(FieldError::invalid(&at.child("maxSurge"), rolling.at("maxSurge").clone(), text));
                }
                (false, false) => {
                    let text = "must not be 0 when maxSurge is 0: nothing could ever move";
                    errors.push(FieldError::required(&at.child("maxUnavailable"), text));
                }
                _ => {}
            }
        }
        _ => errors.push(FieldError::not_supported(path, strategy.clone(), &["RollingUpdate", "OnDelete"])),
    }
}

/// No part of the replicas is more than all of them, nor are more available than ready.
fn no_more_than_all(errors: &mut Errors, workload: &Value, parts: &[&str]) {
    let path = Path::new("status");
    let count = |field: &str| workload.at("status").int_at(field).unwrap_or_default();
    for part in parts.iter().filter(|part| count(part) > count("replicas")) {
        errors.push(FieldError::invalid(&path.child(part), count(part), "must not be more than status.replicas"));
    }
    let available = count("availableReplicas");
    if available > count("readyReplicas") {
        let text = "must not be more than readyReplicas";
        errors.push(FieldError::invalid(&path.child("availableReplicas"), available, text));
    }
}

fn collisions_only_grow(errors: &mut Errors, workload: &Value, old: &Value) {
    let count = |workload: &Value| workload.int_at("status.collisionCount").unwrap_or_default();
    if count(workload) < count(old) {
        let path = Path::new("status").child("collisionCount");
        errors.push(FieldError::invalid(&path, count(workload), "must not go back"));
    }
}

fn template_generation(set: &Value) -> i64 {
    let text = set.at("metadata.annotations").get(TEMPLATE_GENERATION).and_then(Value::as_str);
    text.and_then(|text| text.parse().ok()).unwrap_or_default()
}

fn set_template_generation(set: &mut Value, generation: i64) {
    let annotations = set.at_mut("metadata.annotations");
    if !annotations.is_object() {
        *annotations = json!({});
    }
    annotations[TEMPLATE_GENERATION] = generation.to_string().into();
}
