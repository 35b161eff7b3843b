//! Rules of CronJob.

use super::{job::spec_advice, spec};
use crate::{
    cron::Schedule,
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

/// Rules of batch/v1 CronJob.
pub(in crate::kinds) struct CronJob;

/// Jobs are named after it, with 11 characters more.
const LONGEST_NAME: usize = 52;

impl Rules for CronJob {
    fn default(&self, cron: &mut Value) {
        if !cron.at("spec").is_object() {
            cron.set("spec", json!({}));
        }
        let given = cron.at_mut("spec");
        fill(given, "concurrencyPolicy", "Allow");
        given.set_default("suspend", false);
        given.set_default("successfulJobsHistoryLimit", 3);
        given.set_default("failedJobsHistoryLimit", 1);
        if let Some(job) = edit::existing(given, "jobTemplate.spec") {
            spec::template_defaults(job);
        }
    }

    fn prepare_create(&self, cron: &mut Value) {
        cron.remove("spec.jobTemplate.spec.scheduling");
        cron.set("status", json!({}));
    }

    fn prepare_update(&self, cron: &mut Value, old: &Value) {
        cron.set("status", old.at("status").clone());
        if cron.at("spec.jobTemplate.spec").is_object() {
            take_over(cron, old, "spec.jobTemplate.spec.scheduling");
        }
    }

    fn validate(&self, cron: &Value) -> Errors {
        let mut errors = validate(cron, None);
        let name = cron.str_at("metadata.name");
        if name.len() > LONGEST_NAME {
            let text = format!("must be no more than {LONGEST_NAME} characters: its Jobs have 11 more");
            errors.push(FieldError::invalid(&Path::new("metadata").child("name"), name, text));
        }
        errors
    }

    fn validate_update(&self, cron: &Value, old: &Value) -> Errors {
        validate(cron, Some(old))
    }

    fn warnings(&self, cron: &Value, old: Option<&Value>) -> Vec<String> {
        if old.is_some_and(|old| !self.generation_changes(cron, old)) {
            return Vec::new();
        }
        let mut advice: Vec<String> = pod::advice::host_name(cron).filter(|_| old.is_none()).into_iter().collect();
        let path = Path::new("spec").child("jobTemplate").child("spec");
        advice.extend(spec_advice(&path, cron.at("spec.jobTemplate.spec")));
        if old.is_some() && cron.str_at("spec.schedule").contains("TZ") {
            advice.push("spec.schedule: cannot have TZ or CRON_TZ in future; use spec.timeZone".to_owned());
        }
        advice
    }

    fn has_generation(&self) -> bool {
        true
    }

    fn columns(&self) -> Vec<Column> {
        columns::columns(&[
            NAME,
            ("Schedule", "string", 0, "When Jobs are made, as cron has it"),
            ("Timezone", "string", 0, "Where the clock hangs"),
            ("Suspend", "boolean", 0, "Whether no Jobs are made"),
            ("Active", "integer", 0, "Jobs that are under way"),
            ("Last Schedule", "string", 0, "Time since a Job was made last"),
            AGE,
            CONTAINERS,
            IMAGES,
            SELECTOR,
        ])
    }

    fn cells(&self, cron: &Value, now: jiff::Timestamp) -> Vec<Value> {
        let [names, images] = columns::containers(cron.at("spec.jobTemplate.spec.template"));
        let last = match cron.str_at("status.lastScheduleTime") {
            "" => "<none>".to_owned(),
            time => columns::since(time, now),
        };
        let suspend = match cron.at("spec.suspend").as_bool() {
            Some(true) => "True",
            Some(false) => "False",
            None => "<unset>",
        };
        vec![
            columns::name(cron),
            cron.str_at("spec.schedule").into(),
            columns::or(cron.str_at("spec.timeZone"), "<none>").into(),
            suspend.into(),
            cron.list_at("status.active").len().into(),
            last.into(),
            columns::age(cron, now),
            names,
            images,
            columns::or(selector::text(cron.at("spec.jobTemplate.spec.selector")), "<none>").into(),
        ]
    }
}

fn validate(cron: &Value, old: Option<&Value>) -> Errors {
    let mut errors = Errors::new();
    let (path, given) = (Path::new("spec"), cron.at("spec"));
    schedule(&mut errors, &path.child("schedule"), given, old.map(|old| old.at("spec")));
    let numbers = ["startingDeadlineSeconds", "successfulJobsHistoryLimit", "failedJobsHistoryLimit"];
    check::none_negative(&mut errors, &path, given, &numbers);
    let zone = given.at("timeZone");
    if old.is_none_or(|old| old.at("spec.timeZone") != zone)
        && let Some(name) = zone.as_str()
        && let Err(wrong) = crate::cron::zone(name)
    {
        errors.push(FieldError::invalid(&path.child("timeZone"), name, wrong));
    }
    let policies = ["Allow", "Forbid", "Replace"];
    check::required_one_of(&mut errors, &path.child("concurrencyPolicy"), given.str_at("concurrencyPolicy"), &policies);
    let (at, job) = (path.child("jobTemplate").child("spec"), given.at("jobTemplate.spec"));
    spec::validate(&mut errors, &at, job);
    if !job.at("selector").is_null() {
        let text = "each Job has its own, made by the server";
        errors.push(FieldError::invalid(&at.child("selector"), job.at("selector").clone(), text));
    }
    if job.is_true("manualSelector") {
        errors.push(FieldError::not_supported(&at.child("manualSelector"), true, &["nil", "false"]));
    }
    errors
}

fn schedule(errors: &mut Errors, path: &Path, given: &Value, old: Option<&Value>) {
    let text = given.str_at("schedule");
    if text.is_empty() {
        errors.push(FieldError::required(path, "five fields as cron has them, or a word such as @daily"));
        return;
    }
    if let Err(wrong) = Schedule::parse(text) {
        errors.push(FieldError::invalid(path, text, wrong));
    }
    let had_zone = old.is_some_and(|old| old.str_at("schedule").contains("TZ"));
    match (text.contains("TZ"), had_zone) {
        (true, true) if !given.at("timeZone").is_null() => {
            errors.push(FieldError::invalid(path, text, "cannot have TZ or CRON_TZ beside timeZone"));
        }
        (true, false) => errors.push(FieldError::invalid(path, text, "cannot have TZ or CRON_TZ; use timeZone")),
        _ => {}
    }
}
