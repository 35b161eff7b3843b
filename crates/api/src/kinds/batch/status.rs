//! What a Job's status may become. Others than our controller may write it (`managedBy`), so that what is promised is checked.

use super::{indexes::Indexes, spec};
use crate::{
    error::FieldError,
    kinds::check::{self, Errors},
    object::Fields,
    path::Path,
};
use serde_json::Value;

/// Whether a condition holds.
pub(super) fn is_true(job: &Value, kind: &str) -> bool {
    has(job, kind, "True")
}

fn has(job: &Value, kind: &str, status: &str) -> bool {
    job.list_at("status.conditions").iter().any(|one| one.str_at("type") == kind && one.str_at("status") == status)
}

fn is_finished(job: &Value) -> bool {
    is_true(job, "Complete") || is_true(job, "Failed")
}

/// Mistakes in a changed status. A rule counts only where one of the fields that it is about has changed.
pub(super) fn validate(job: &Value, old: &Value) -> Errors {
    let mut errors = Errors::new();
    let (path, status) = (Path::new("status"), job.at("status"));
    check::none_negative(&mut errors, &path, status, &["active", "succeeded", "failed", "ready", "terminating"]);
    uncounted(&mut errors, &path.child("uncountedTerminatedPods"), status.at("uncountedTerminatedPods"));
    conditions(&mut errors, &path.child("conditions"), job, old);
    times(&mut errors, &path, job, old);
    counters(&mut errors, &path, job, old);
    indexes(&mut errors, &path, job, old);
    errors
}

fn changed(job: &Value, old: &Value, field: &str) -> bool {
    !check::same(job.at("status").at(field), old.at("status").at(field))
}

fn turned(job: &Value, old: &Value, kinds: &[&str]) -> bool {
    kinds.iter().any(|kind| is_true(job, kind) != is_true(old, kind))
}

const FINISHED: [&str; 2] = ["Complete", "Failed"];

fn uncounted(errors: &mut Errors, path: &Path, pods: &Value) {
    let mut seen: Vec<&str> = Vec::new();
    for list in ["succeeded", "failed"] {
        for (i, uid) in pods.list_at(list).iter().map(|uid| uid.as_str().unwrap_or_default()).enumerate() {
            let at = path.child(list).index(i);
            if uid.is_empty() {
                errors.push(FieldError::invalid(&at, uid, "must not be empty"));
            } else if seen.contains(&uid) {
                errors.push(FieldError::duplicate(&at, uid));
            } else {
                seen.push(uid);
            }
        }
    }
}

fn conditions(errors: &mut Errors, path: &Path, job: &Value, old: &Value) {
    let mut wrong = |text: String| errors.push(FieldError::invalid(path, Value::Null, text));
    for kind in ["Failed", "Complete", "FailureTarget", "SuccessCriteriaMet"] {
        if is_true(old, kind) && !is_true(job, kind) {
            wrong(format!("{kind} stays true once it is"));
        }
    }
    for (one, other, counts) in [
        ("Complete", "Failed", turned(job, old, &FINISHED)),
        ("Complete", "FailureTarget", turned(job, old, &["Complete", "FailureTarget"])),
        ("SuccessCriteriaMet", "Failed", true),
        ("SuccessCriteriaMet", "FailureTarget", true),
    ] {
        if counts && is_true(job, one) && is_true(job, other) {
            wrong(format!("{one} and {other} cannot both be true"));
        }
    }
    let late = turned(job, old, &["Failed"]) || changed(job, old, "failedIndexes");
    if late && is_true(job, "Failed") && !is_true(job, "FailureTarget") {
        wrong("Failed needs FailureTarget".to_owned());
    }
    let by_policy = !job.at("spec.successPolicy").is_null();
    let counts = by_policy || turned(job, old, &["Complete", "SuccessCriteriaMet"]);
    if counts && is_true(job, "Complete") && !is_true(job, "SuccessCriteriaMet") {
        wrong("Complete needs SuccessCriteriaMet".to_owned());
    }
    if is_true(old, "Complete") && !is_true(old, "SuccessCriteriaMet") && is_true(job, "SuccessCriteriaMet") {
        wrong("SuccessCriteriaMet comes before Complete".to_owned());
    }
}

fn times(errors: &mut Errors, path: &Path, job: &Value, old: &Value) {
    let (start, end) = (job.at("status.startTime"), job.at("status.completionTime"));
    let [start_at, end_at] = ["startTime", "completionTime"].map(|field| path.child(field));
    let (new_start, new_end) = (changed(job, old, "startTime"), changed(job, old, "completionTime"));
    if turned(job, old, &["Complete"]) || new_end {
        match (end.is_null(), is_true(job, "Complete")) {
            (false, false) => {
                errors.push(FieldError::invalid(&end_at, end.clone(), "only with the condition Complete"))
            }
            (true, true) => errors.push(FieldError::required(&end_at, "with the condition Complete")),
            _ => {}
        }
    }
    if new_end && !end.is_null() && !old.at("status.completionTime").is_null() {
        errors.push(FieldError::invalid(&end_at, end.clone(), "is fixed once it is set"));
    }
    let time = |value: &Value| value.as_str().and_then(|text| text.parse::<jiff::Timestamp>().ok());
    if (new_start || new_end)
        && let (Some(started), Some(ended)) = (time(start), time(end))
        && ended < started
    {
        errors.push(FieldError::invalid(&end_at, end.clone(), "must not be before startTime"));
    }
    let never_ran = job.is_true("spec.suspend") && job.int_at("spec.completions") == Some(0);
    if (turned(job, old, &FINISHED) || new_start) && is_finished(job) && start.is_null() && !never_ran {
        errors.push(FieldError::required(&start_at, "for a job that has finished"));
    }
    let resuming = is_true(old, "Suspended") && has(job, "Suspended", "False");
    if new_start && !old.at("status.startTime").is_null() && !job.is_true("spec.suspend") && !resuming {
        errors.push(FieldError::invalid(
            &start_at,
            start.clone(),
            "is fixed once it is set, unless the job is suspended",
        ));
    }
}

fn counters(errors: &mut Errors, path: &Path, job: &Value, old: &Value) {
    let count = |job: &Value, field: &str| job.at("status").int_at(field).unwrap_or_default();
    let scales = spec::is_indexed(job.at("spec")) && job.at("spec.completions") == job.at("spec.parallelism");
    for (field, grows) in [("failed", true), ("succeeded", !scales)] {
        if grows && count(job, field) < count(old, field) {
            errors.push(FieldError::invalid(&path.child(field), count(job, field), "must not go back"));
        }
    }
    let ends = turned(job, old, &FINISHED);
    for field in ["active", "terminating"] {
        if (ends || changed(job, old, field)) && is_finished(job) && count(job, field) > 0 {
            errors.push(FieldError::invalid(
                &path.child(field),
                count(job, field),
                "must be 0 for a job that has finished",
            ));
        }
    }
    let pods = job.at("status.uncountedTerminatedPods");
    let some = ["succeeded", "failed"].iter().any(|list| !pods.list_at(list).is_empty());
    if (ends || changed(job, old, "uncountedTerminatedPods")) && is_finished(job) && some {
        let text = "must be empty for a job that has finished";
        errors.push(FieldError::invalid(&path.child("uncountedTerminatedPods"), pods.clone(), text));
    }
    let moved = changed(job, old, "ready") || changed(job, old, "active");
    if moved && count(job, "ready") > count(job, "active") {
        errors.push(FieldError::invalid(&path.child("ready"), count(job, "ready"), "must not be more than active"));
    }
}

fn indexes(errors: &mut Errors, path: &Path, job: &Value, old: &Value) {
    let status = job.at("status");
    let below = job.int_at("spec.completions").and_then(|count| u32::try_from(count).ok());
    let read = |field: &str| Indexes::parse(status.str_at(field), below.unwrap_or(u32::MAX));
    let (completed, failed) = (changed(job, old, "completedIndexes"), changed(job, old, "failedIndexes"));
    let per_index = !job.at("spec.backoffLimitPerIndex").is_null();
    for (field, counts) in [("completedIndexes", completed), ("failedIndexes", failed && per_index)] {
        if let (true, Err(wrong)) = (counts && below.is_some(), read(field)) {
            errors.push(FieldError::invalid(&path.child(field), status.str_at(field), wrong));
        }
    }
    if completed && !status.str_at("completedIndexes").is_empty() && !spec::is_indexed(job.at("spec")) {
        let text = "only with completionMode Indexed";
        errors.push(FieldError::invalid(&path.child("completedIndexes"), status.at("completedIndexes").clone(), text));
    }
    if failed && !per_index && !status.at("failedIndexes").is_null() {
        let text = "only with backoffLimitPerIndex";
        errors.push(FieldError::invalid(&path.child("failedIndexes"), status.at("failedIndexes").clone(), text));
    }
    if let (true, Ok(done), Ok(lost)) = (completed || failed, read("completedIndexes"), read("failedIndexes"))
        && done.common(&lost) > 0
    {
        let text = "has indexes that are in completedIndexes";
        errors.push(FieldError::invalid(&path.child("failedIndexes"), status.at("failedIndexes").clone(), text));
    }
}
