//! When CronJobs make Jobs, as tables.

use super::plan::{self, Clock, Due, Missed};
use jiff::Timestamp;
use k8s_openapi::{
    api::batch::v1::{CronJob, CronJobStatus, Job},
    apimachinery::pkg::apis::meta::v1::OwnerReference,
};
use kube::ResourceExt;
use serde_json::{Value, from_value, json};
use std::sync::Arc;

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

fn cron(schedule: &str, more: Value) -> CronJob {
    let mut spec = json!({"schedule": schedule, "timeZone": "UTC", "concurrencyPolicy": "Allow",
        "successfulJobsHistoryLimit": 1, "failedJobsHistoryLimit": 1,
        "jobTemplate": {"metadata": {"labels": {"app": "tick"}}, "spec": {"template": {}}}});
    for (field, value) in more.as_object().unwrap() {
        spec[field] = value.clone();
    }
    let meta =
        json!({"name": "tick", "namespace": "default", "uid": "cron", "creationTimestamp": "2026-01-01T00:00:30Z"});
    from_value(json!({"metadata": meta, "spec": spec})).unwrap()
}

#[test]
fn the_last_moment_that_passed_is_due() {
    for (schedule, more, last, now, latest, many) in [
        ("*/5 * * * *", json!({}), None, "2026-01-01T00:04:59Z", None, false),
        ("*/5 * * * *", json!({}), None, "2026-01-01T00:05:00Z", Some("2026-01-01T00:05:00Z"), false),
        ("*/5 * * * *", json!({}), Some("2026-01-01T00:05:00Z"), "2026-01-01T00:09:00Z", None, false),
        (
            "*/5 * * * *",
            json!({}),
            Some("2026-01-01T00:05:00Z"),
            "2026-01-01T00:21:00Z",
            Some("2026-01-01T00:20:00Z"),
            false,
        ),
        ("* * * * *", json!({}), None, "2026-01-03T00:00:10Z", Some("2026-01-03T00:00:00Z"), true),
        ("* * * * *", json!({}), None, "2027-01-03T00:00:10Z", Some("2027-01-03T00:00:00Z"), true),
        ("0 * * * *", json!({"startingDeadlineSeconds": 60}), None, "2026-01-01T01:30:00Z", None, false),
        (
            "0 * * * *",
            json!({"startingDeadlineSeconds": 3600}),
            None,
            "2026-01-01T05:30:00Z",
            Some("2026-01-01T05:00:00Z"),
            false,
        ),
        (
            "0 9 * * *",
            json!({"timeZone": "Asia/Tokyo"}),
            None,
            "2026-01-02T00:00:00Z",
            Some("2026-01-02T00:00:00Z"),
            false,
        ),
        ("0 0 30 2 *", json!({}), None, "2026-06-01T00:00:00Z", None, false),
    ] {
        let missed = Clock::new(&cron(schedule, more.clone())).unwrap().missed(last.map(at), at(now));
        assert_eq!(missed, Missed { latest: latest.map(at), many }, "{schedule} {more} {last:?} {now}");
    }
    let wrong = |schedule: &str, zone: &str| Clock::new(&cron(schedule, json!({"timeZone": zone}))).unwrap_err().0;
    assert_eq!(wrong("x", "UTC"), "UnparseableSchedule");
    assert_eq!(wrong("* * * * *", "Mars/Olympus"), "UnknownTimeZone");
}

#[test]
fn what_runs_may_stand_in_the_way() {
    let moment = at("2026-01-01T00:05:00Z");
    let running = json!([{"name": "tick-1", "uid": "one"}]);
    let status = |active: Value, last: Value| -> CronJobStatus {
        from_value(json!({"active": active, "lastScheduleTime": last})).unwrap()
    };
    let start = |replace: Value| Due::Start { at: moment, replace: from_value(replace).unwrap() };
    for (more, status, now, expected) in [
        (json!({}), status(running.clone(), Value::Null), "2026-01-01T00:05:01Z", start(json!([]))),
        (
            json!({"concurrencyPolicy": "Forbid"}),
            status(running.clone(), Value::Null),
            "2026-01-01T00:05:01Z",
            Due::Forbidden,
        ),
        (
            json!({"concurrencyPolicy": "Forbid"}),
            status(json!([]), Value::Null),
            "2026-01-01T00:05:01Z",
            start(json!([])),
        ),
        (
            json!({"concurrencyPolicy": "Replace"}),
            status(running.clone(), Value::Null),
            "2026-01-01T00:05:01Z",
            start(running.clone()),
        ),
        (
            json!({"startingDeadlineSeconds": 10}),
            status(json!([]), Value::Null),
            "2026-01-01T00:05:11Z",
            Due::TooLate(moment),
        ),
        (json!({}), status(json!([]), json!("2026-01-01T00:05:00Z")), "2026-01-01T00:05:01Z", Due::Nothing),
        (
            json!({}),
            status(json!([{"name": "tick-29453765", "uid": "x"}]), Value::Null),
            "2026-01-01T00:05:01Z",
            Due::Nothing,
        ),
    ] {
        assert_eq!(plan::due(&cron("*/5 * * * *", more.clone()), &status, Some(moment), at(now)), expected, "{more}");
    }
    assert_eq!(plan::due(&cron("*/5 * * * *", json!({})), &CronJobStatus::default(), None, moment), Due::Nothing);
}

#[test]
fn a_job_is_named_after_its_moment() {
    for (zone, shown) in [("UTC", "2026-01-01T00:05:00Z"), ("Asia/Tokyo", "2026-01-01T09:05:00+09:00")] {
        let cron = cron("*/5 * * * *", json!({"timeZone": zone}));
        let clock = Clock::new(&cron).unwrap();
        let job = plan::job(&cron, &clock, at("2026-01-01T00:05:00Z"), OwnerReference::default());
        assert_eq!(job.name_any(), "tick-29453765");
        assert_eq!(job.annotations()["batch.kubernetes.io/cronjob-scheduled-timestamp"], shown);
        assert_eq!(job.labels()["app"], "tick");
    }
}

fn job(name: &str, start: &str, end: &str) -> Arc<Job> {
    let finished = |kind: &str| json!([{"type": kind, "status": "True"}]);
    let status = match end {
        "" => json!({"startTime": start}),
        "Failed" => json!({"startTime": start, "conditions": finished("Failed")}),
        time => json!({"startTime": start, "completionTime": time, "conditions": finished("Complete")}),
    };
    Arc::new(
        from_value(json!({"metadata": {"name": name, "uid": name}, "spec": {"template": {}}, "status": status}))
            .unwrap(),
    )
}

#[test]
fn the_status_follows_the_jobs() {
    let (start, end) = ("2026-01-01T00:00:00Z", "2026-01-01T00:01:00Z");
    let jobs = [job("done", start, end), job("lost", start, "Failed"), job("runs", start, ""), job("new", start, "")];
    let mut status: CronJobStatus = from_value(json!({"active": [
        {"name": "done", "uid": "done"}, {"name": "runs", "uid": "runs"}, {"name": "gone", "uid": "gone"}]}))
    .unwrap();
    let events: Vec<&str> = plan::take_note(&jobs, &mut status).into_iter().map(|(reason, _)| reason).collect();
    assert_eq!(events, ["SawCompletedJob", "UnexpectedJob", "MissingJob"]);
    let active: Vec<String> = status.active.unwrap().into_iter().filter_map(|one| one.name).collect();
    assert_eq!(active, ["runs"]);
    assert_eq!(status.last_successful_time.unwrap().0, at(end));
}

#[test]
fn old_jobs_go_beyond_the_limits() {
    let end = "2026-01-01T05:00:00Z";
    let jobs = [
        job("b", "2026-01-01T02:00:00Z", end),
        job("a", "2026-01-01T01:00:00Z", end),
        job("c", "2026-01-01T03:00:00Z", end),
        job("x", "2026-01-01T01:00:00Z", "Failed"),
        job("runs", "2026-01-01T00:00:00Z", ""),
    ];
    let names = |cron: &CronJob| plan::surplus(cron, &jobs).iter().map(|job| job.name_any()).collect::<Vec<_>>();
    assert_eq!(names(&cron("@daily", json!({}))), ["a", "b"]);
    assert_eq!(names(&cron("@daily", json!({"successfulJobsHistoryLimit": 5, "failedJobsHistoryLimit": 0}))), ["x"]);
}
