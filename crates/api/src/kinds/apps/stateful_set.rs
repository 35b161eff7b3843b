//! Rules of StatefulSet.

use super::{collisions_only_grow, fixed_selector, no_more_than_all, replicated, template_advice, template_defaults};
use crate::{
    error::FieldError,
    kinds::{
        check::{self, Errors},
        columns::{self, AGE, CONTAINERS, IMAGES, NAME},
        edit::{self, fill},
        names,
    },
    object::Fields,
    path::Path,
    resource::{Column, Rules},
};
use serde_json::{Value, json};

/// Rules of apps/v1 StatefulSet.
pub(in crate::kinds) struct StatefulSet;

const CLAIM_POLICY: &str = "spec.persistentVolumeClaimRetentionPolicy";

impl Rules for StatefulSet {
    fn default(&self, set: &mut Value) {
        template_defaults(set);
        if !set.at("spec").is_object() {
            set.set("spec", json!({}));
        }
        fill(set.at_mut("spec"), "podManagementPolicy", "OrderedReady");
        let strategy = set.at_mut("spec.updateStrategy");
        if !strategy.is_object() {
            *strategy = json!({});
        }
        if strategy.str_at("type").is_empty() {
            strategy.set("type", "RollingUpdate");
            strategy.set_default("rollingUpdate", json!({}));
        }
        if strategy.str_at("type") == "RollingUpdate" && strategy.at("rollingUpdate").is_object() {
            strategy.set_default("rollingUpdate.partition", 0);
            strategy.set_default("rollingUpdate.maxUnavailable", 1);
        }
        if !set.at(CLAIM_POLICY).is_object() {
            set.set(CLAIM_POLICY, json!({}));
        }
        fill(set.at_mut(CLAIM_POLICY), "whenDeleted", "Retain");
        fill(set.at_mut(CLAIM_POLICY), "whenScaled", "Retain");
        set.set_default("spec.replicas", 1);
        set.set_default("spec.revisionHistoryLimit", 10);
        for claim in edit::items(set, "spec.volumeClaimTemplates").filter(|claim| claim.is_object()) {
            claim.set("apiVersion", "v1");
            claim.set("kind", "PersistentVolumeClaim");
            claim.set_default("spec.volumeMode", "Filesystem");
            claim.set_default("status.phase", "Pending");
        }
    }

    fn prepare_create(&self, set: &mut Value) {
        set.set("status", json!({"replicas": 0, "availableReplicas": 0}));
    }

    fn prepare_update(&self, set: &mut Value, old: &Value) {
        set.set("status", old.at("status").clone());
    }

    fn validate(&self, set: &Value) -> Errors {
        let mut errors = spec(set);
        let path = Path::new("spec");
        let service = set.str_at("spec.serviceName");
        if !service.is_empty() {
            check::dns_label(&mut errors, &path.child("serviceName"), service);
        }
        claims(&mut errors, &path.child("volumeClaimTemplates"), set.list_at("spec.volumeClaimTemplates"));
        errors
    }

    fn validate_update(&self, set: &Value, old: &Value) -> Errors {
        let mut errors = spec(set);
        fixed_selector(&mut errors, set, old);
        for field in ["volumeClaimTemplates", "serviceName", "podManagementPolicy"] {
            let at = |set: &Value| match set.at("spec").at(field) {
                Value::String(text) if text.is_empty() => Value::Null,
                value => value.clone(),
            };
            check::immutable(&mut errors, &Path::new("spec").child(field), &at(set), &at(old));
        }
        errors
    }

    fn validate_status(&self, set: &Value, old: &Value) -> Errors {
        let mut errors = Errors::new();
        let counts = ["readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas"];
        let numbers = ["replicas", "observedGeneration", "collisionCount"];
        check::none_negative(&mut errors, &Path::new("status"), set.at("status"), &counts);
        check::none_negative(&mut errors, &Path::new("status"), set.at("status"), &numbers);
        no_more_than_all(&mut errors, set, &counts);
        collisions_only_grow(&mut errors, set, old);
        errors
    }

    fn warnings(&self, set: &Value, old: Option<&Value>) -> Vec<String> {
        let mut advice = template_advice(self, set, old, false);
        if set.int_at("spec.revisionHistoryLimit").is_some_and(|limit| limit < 0) {
            advice
                .push("spec.revisionHistoryLimit: keeps all revisions when it is negative; 0 or more is better".into());
        }
        advice
    }

    /// Pods are named after it, and their hosts.
    fn name_mistakes(&self, name: &str, prefix: bool) -> Vec<String> {
        names::dns_label(name, prefix)
    }

    fn has_generation(&self) -> bool {
        true
    }

    fn columns(&self) -> Vec<Column> {
        columns::columns(&[
            NAME,
            ("Ready", "string", 0, "Pods that are ready, of those wanted"),
            AGE,
            CONTAINERS,
            IMAGES,
        ])
    }

    fn cells(&self, set: &Value, now: jiff::Timestamp) -> Vec<Value> {
        let number = |path: &str| columns::number(set, path);
        let [names, images] = columns::containers(set.at("spec.template"));
        vec![
            columns::name(set),
            format!("{}/{}", number("status.readyReplicas"), number("spec.replicas")).into(),
            columns::age(set, now),
            names,
            images,
        ]
    }
}

fn spec(set: &Value) -> Errors {
    let mut errors = Errors::new();
    let (path, spec) = (Path::new("spec"), set.at("spec"));
    match spec.str_at("podManagementPolicy") {
        "OrderedReady" | "Parallel" => {}
        "" => errors.push(FieldError::required(&path.child("podManagementPolicy"), "OrderedReady or Parallel")),
        other => {
            let text = "must be 'OrderedReady' or 'Parallel'";
            errors.push(FieldError::invalid(&path.child("podManagementPolicy"), other, text));
        }
    }
    strategy(&mut errors, &path.child("updateStrategy"), spec.at("updateStrategy"));
    let kept = path.child("persistentVolumeClaimRetentionPolicy");
    for field in ["whenDeleted", "whenScaled"] {
        check::one_of(&mut errors, &kept.child(field), set.at(CLAIM_POLICY).str_at(field), &["Retain", "Delete"]);
    }
    check::none_negative(&mut errors, &path, spec, &["replicas", "minReadySeconds", "ordinals.start"]);
    replicated(&mut errors, &as_made(spec));
    errors
}

/// The spec with the template as its pods will have it: host names are given, claims are volumes.
fn as_made(spec: &Value) -> Value {
    let mut spec = spec.clone();
    let claims: Vec<String> =
        spec.list_at("volumeClaimTemplates").iter().map(|claim| claim.str_at("metadata.name").to_owned()).collect();
    if let Some(made) = edit::existing(&mut spec, "template.spec") {
        made.remove("hostname");
        made.remove("subdomain");
        if !claims.is_empty() {
            let mut volumes: Vec<Value> =
                claims.iter().map(|name| json!({"name": name, "persistentVolumeClaim": {"claimName": name}})).collect();
            let own = made.list_at("volumes").iter().filter(|one| claims.iter().all(|name| one.str_at("name") != name));
            volumes.extend(own.cloned());
            made.set("volumes", volumes);
        }
    }
    spec
}

fn strategy(errors: &mut Errors, path: &Path, strategy: &Value) {
    let (rolling, at) = (strategy.at("rollingUpdate"), path.child("rollingUpdate"));
    match strategy.str_at("type") {
        "" => errors.push(FieldError::required(path, "RollingUpdate or OnDelete")),
        "OnDelete" if !rolling.is_null() => {
            errors.push(FieldError::invalid(&at, rolling.clone(), "only with type RollingUpdate"));
        }
        "OnDelete" => {}
        "RollingUpdate" => {
            check::not_negative(errors, &at, rolling, "partition");
            let most = rolling.at("maxUnavailable");
            if !most.is_null() {
                let at = at.child("maxUnavailable");
                check::int_or_percent(errors, &at, most);
                if check::number_or_percent(most) == 0 {
                    errors.push(FieldError::invalid(&at, most.clone(), "must not be 0: nothing could ever move"));
                }
                check::at_most_100_percent(errors, &at, most);
            }
        }
        _ => errors.push(FieldError::invalid(path, strategy.clone(), "must be 'RollingUpdate' or 'OnDelete'")),
    }
}

/// Claims that pods will ask for: what every PersistentVolumeClaim must say.
fn claims(errors: &mut Errors, path: &Path, claims: &[Value]) {
    const MODES: [&str; 4] = ["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];
    for (i, claim) in claims.iter().enumerate() {
        let (at, spec) = (path.index(i).child("spec"), claim.at("spec"));
        let modes = check::texts(spec, "accessModes");
        if modes.is_empty() {
            errors.push(FieldError::required(&at.child("accessModes"), "at least 1 access mode is required"));
        }
        for mode in modes.iter().filter(|mode| !MODES.contains(mode)) {
            errors.push(FieldError::not_supported(&at.child("accessModes"), *mode, &MODES));
        }
        if spec.at("resources.requests.storage").is_null() {
            errors.push(FieldError::required(&at.child("resources").key("storage"), ""));
        }
    }
}
