//! What a Job does next and how it counts, as tables.

use super::{
    backoff::Failures,
    plan::{Plan, View},
    pod::{self, NewPod},
    policy::{self, Verdict},
    track::{self, Done, Tracked},
};
use api::kinds::batch::indexes::Indexes;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::{
    batch::v1::{Job, JobStatus},
    core::v1::Pod,
};
use kube::ResourceExt;
use serde_json::{Value, from_value, json};
use std::collections::HashSet;

fn now() -> Timestamp {
    "2026-01-01T12:00:00Z".parse().unwrap()
}

fn job(more: Value, status: Value) -> Job {
    let mut spec = json!({"completions": 1, "parallelism": 1, "backoffLimit": 6, "completionMode": "NonIndexed",
        "podReplacementPolicy": "TerminatingOrFailed", "suspend": false,
        "template": {"metadata": {"labels": {"app": "work"}}, "spec": {"restartPolicy": "Never",
            "containers": [{"name": "c", "image": "i"}]}}});
    for (field, value) in more.as_object().unwrap() {
        spec[field] = value.clone();
    }
    from_value(
        json!({"metadata": {"name": "work", "namespace": "default", "uid": "job"}, "spec": spec, "status": status}),
    )
    .unwrap()
}

/// `a Running`, `b Failed 3`, `c Succeeded 0`: name, state, index. `ending` runs and is being deleted, `counted` has no finalizer.
fn pods(text: &str) -> Vec<Pod> {
    let one = |words: &str| {
        let words: Vec<&str> = words.split_whitespace().collect();
        let (name, state) = (words[0], words[1]);
        let phase = match state {
            "ending" => "Running",
            "counted" => "Failed",
            phase => phase,
        };
        let mut annotations = json!({});
        if let Some(index) = words.get(2) {
            annotations["batch.kubernetes.io/job-completion-index"] = json!(index);
        }
        if let Some(count) = words.get(3) {
            annotations["batch.kubernetes.io/job-index-failure-count"] = json!(count);
        }
        let finalizers = if state == "counted" { json!([]) } else { json!([pod::FINALIZER]) };
        let deleted = if state == "ending" { json!("2026-01-01T11:59:00Z") } else { Value::Null };
        let code = if phase == "Failed" { 1 } else { 0 };
        let container = match phase {
            "Failed" | "Succeeded" => json!({"terminated": {"exitCode": code, "finishedAt": "2026-01-01T11:00:00Z"}}),
            _ => json!({"running": {}}),
        };
        from_value(json!({
            "metadata": {"name": name, "namespace": "default", "uid": name, "annotations": annotations, "finalizers": finalizers,
                "deletionTimestamp": deleted, "creationTimestamp": "2026-01-01T10:00:00Z"},
            "spec": {"nodeName": "n", "containers": []},
            "status": {"phase": phase, "containerStatuses": [
                {"name": "c", "image": "i", "imageID": "", "ready": false, "restartCount": 0, "state": container}]},
        }))
        .unwrap()
    };
    text.split(',').map(str::trim).filter(|words| !words.is_empty()).map(one).collect()
}

/// What is planned, as text: `+` for a new pod, `+3` with index 3, `-a` for one that goes, then the condition if it is over.
fn planned(job: &Job, there: &str) -> String {
    let pods = pods(there);
    let pods: Vec<&Pod> = pods.iter().collect();
    let Plan { over, delete, create, .. } = View { job, pods: &pods, failures: Failures::default(), now: now() }.plan();
    let made = create.iter().map(|new| match (new.index, new.failures) {
        (None, _) => "+".to_owned(),
        (Some(index), None | Some((0, 0))) => format!("+{index}"),
        (Some(index), Some((counted, _))) => format!("+{index}after{counted}"),
    });
    let gone = delete.iter().map(|pod| format!("-{}", pod.name_any()));
    let over = over.map(|one| format!("{}:{}", one.type_, one.reason.unwrap_or_default()));
    made.chain(gone).chain(over).collect::<Vec<_>>().join(" ")
}

#[test]
fn as_many_pods_as_are_needed() {
    let size = |completions: Value, parallelism: i32| json!({"completions": completions, "parallelism": parallelism});
    for (spec, succeeded, there, expected) in [
        (size(json!(1), 1), 0, "", "+"),
        (size(json!(5), 2), 0, "", "+ +"),
        (size(json!(5), 2), 0, "a Running", "+"),
        (size(json!(5), 2), 4, "", "+"),
        (size(json!(5), 2), 4, "a Succeeded", ""),
        (size(json!(5), 2), 3, "a Succeeded, b Running", ""),
        (size(json!(5), 3), 0, "a Running, b Running, c Running", ""),
        (size(json!(5), 0), 0, "", ""),
        (size(json!(2), 3), 1, "a Running, b Pending", "-b"),
        (size(Value::Null, 3), 0, "", "+ + +"),
        (size(Value::Null, 3), 0, "a Succeeded, b Running", ""),
        (size(json!(2), 2), 0, "a ending", "+ +"),
    ] {
        let job = job(spec.clone(), json!({"succeeded": succeeded, "startTime": "2026-01-01T11:00:00Z"}));
        assert_eq!(planned(&job, there), expected, "{spec} {succeeded} {there}");
    }
    let patient = job(json!({"completions": 2, "parallelism": 2, "podReplacementPolicy": "Failed"}), json!({}));
    assert_eq!(planned(&patient, "a ending, b Running"), "", "its successor waits for its end");
    assert_eq!(planned(&job(json!({"suspend": true}), json!({})), "a Running"), "-a");
    assert_eq!(planned(&job(json!({"suspend": true}), json!({})), ""), "");
}

#[test]
fn a_job_is_over_for_a_reason() {
    let started = |seconds: i64| {
        let start = now() - SignedDuration::from_secs(seconds);
        json!({"startTime": start.to_string()})
    };
    let exit_one = json!({"rules": [{"action": "FailJob", "onExitCodes": {"operator": "In", "values": [1]}}]});
    let ignored = json!({"rules": [{"action": "Ignore", "onExitCodes": {"operator": "In", "values": [1]}}]});
    let target = json!([{"type": "FailureTarget", "status": "True", "reason": "Because", "message": "m"}]);
    for (spec, status, there, expected) in [
        (json!({"backoffLimit": 0}), json!({}), "a Failed", "FailureTarget:BackoffLimitExceeded"),
        (
            json!({"backoffLimit": 1}),
            json!({"failed": 1}),
            "a Failed, b Running",
            "-b FailureTarget:BackoffLimitExceeded",
        ),
        (json!({"backoffLimit": 1}), json!({"failed": 1}), "a counted", "+"),
        (json!({"backoffLimit": 1}), json!({"uncountedTerminatedPods": {"failed": ["a"]}}), "a Failed", "+"),
        (json!({"activeDeadlineSeconds": 60}), started(59), "a Running", ""),
        (json!({"activeDeadlineSeconds": 60}), started(60), "a Running", "-a FailureTarget:DeadlineExceeded"),
        (json!({"podFailurePolicy": exit_one}), json!({}), "a Failed", "FailureTarget:PodFailurePolicy"),
        (json!({"podFailurePolicy": ignored, "backoffLimit": 0}), json!({}), "a Failed", "+"),
        (json!({}), json!({"conditions": target}), "a Running", "-a Failed:Because"),
    ] {
        assert_eq!(planned(&job(spec.clone(), status), there), expected, "{spec} {there}");
    }
}

#[test]
fn indexes_are_each_worked_on_once() {
    let indexed = |completions: i32, parallelism: i32, more: Value| {
        let mut spec = json!({"completionMode": "Indexed", "completions": completions, "parallelism": parallelism});
        for (field, value) in more.as_object().unwrap() {
            spec[field] = value.clone();
        }
        spec
    };
    let per_index = json!({"backoffLimitPerIndex": 1, "backoffLimit": 100});
    let quorum = json!({"successPolicy": {"rules": [{"succeededIndexes": "0,2-3", "succeededCount": 2}]}});
    for (spec, status, there, expected) in [
        (indexed(3, 2, json!({})), json!({}), "", "+0 +1"),
        (indexed(3, 2, json!({})), json!({"completedIndexes": "0"}), "b Running 1", "+2"),
        (indexed(3, 3, json!({})), json!({}), "a Succeeded 0, b Running 1, c Running 2", ""),
        (indexed(3, 3, json!({})), json!({}), "a Running 0, b Running 0, c Running 2", "-a"),
        (indexed(2, 3, json!({})), json!({}), "a Running 0, b Running 1, c Running 5", "-c"),
        (indexed(2, 2, json!({})), json!({}), "a Running 0, b Running", "-b"),
        (indexed(2, 2, per_index.clone()), json!({}), "a Failed 0 0, b Running 1", "+0after1"),
        (indexed(2, 2, per_index.clone()), json!({}), "a Failed 0 1, b Running 1", ""),
        (
            indexed(2, 2, per_index.clone()),
            json!({"failedIndexes": "0"}),
            "b Succeeded 1",
            "FailureTarget:FailedIndexes",
        ),
        (indexed(4, 4, quorum.clone()), json!({"completedIndexes": "1"}), "a Succeeded 2, b Running 0", "+3"),
        (
            indexed(4, 4, quorum),
            json!({"completedIndexes": "1-2"}),
            "a Succeeded 3, b Running 0",
            "-b SuccessCriteriaMet:SuccessPolicy",
        ),
    ] {
        assert_eq!(planned(&job(spec.clone(), status.clone()), there), expected, "{spec} {status} {there}");
    }
    let many =
        job(indexed(5, 5, json!({"backoffLimitPerIndex": 0, "maxFailedIndexes": 1})), json!({"failedIndexes": "0"}));
    assert_eq!(planned(&many, "a Failed 1"), "FailureTarget:MaxFailedIndexesExceeded");
}

#[test]
fn failures_are_waited_for_twice_as_long_each_time() {
    let job = job(json!({}), json!({}));
    let there = pods("a Failed");
    let there: Vec<&Pod> = there.iter().collect();
    let at = |text: &str| text.parse::<Timestamp>().unwrap();
    for (before, moment, wait) in [
        (0, "2026-01-01T11:00:04Z", Some(6)),
        (0, "2026-01-01T11:00:11Z", None),
        (1, "2026-01-01T11:00:11Z", Some(9)),
        (2, "2026-01-01T11:00:11Z", Some(29)),
        (20, "2026-01-01T11:00:11Z", Some(589)),
    ] {
        let failures = Failures { count: before, last: None };
        let plan = View { job: &job, pods: &there, failures, now: at(moment) }.plan();
        assert_eq!(plan.wait.map(|wait| wait.as_secs()), wait, "{before} {moment}");
        assert_eq!(plan.create.len(), usize::from(wait.is_none()));
    }
    let success = pods("b Succeeded");
    let fresh = Failures { count: 5, last: Some(now()) }.after(&[&success[0]], &[]);
    assert_eq!(fresh, Failures::default(), "a success ends the row");
}

fn tracked(job: &Job, there: &[Pod], done: &Done) -> (Value, Vec<String>, Option<String>) {
    let pods: Vec<&Pod> = there.iter().collect();
    let view = View { job, pods: &pods, failures: Failures::default(), now: now() };
    let Tracked { status, release, finish, .. } = view.track(&view.plan(), done);
    let release = release.iter().map(|pod| pod.name_any()).collect();
    (serde_json::to_value(status).unwrap(), release, finish.map(|one| one.type_))
}

fn all_done(created: usize, deleted: usize) -> Done {
    Done { created, deleted, deleted_ready: 0, complete: true }
}

#[test]
fn ended_pods_are_named_before_they_are_let_go() {
    let job =
        job(json!({"completions": 3, "parallelism": 2}), json!({"succeeded": 1, "startTime": "2026-01-01T11:00:00Z"}));
    let (status, release, finish) = tracked(&job, &pods("a Succeeded, b Failed, c Running"), &all_done(0, 0));
    assert_eq!(status["uncountedTerminatedPods"], json!({"succeeded": ["a"], "failed": ["b"]}));
    assert_eq!(
        (status["succeeded"].clone(), status["active"].clone(), status["failed"].clone()),
        (json!(1), json!(1), Value::Null)
    );
    assert_eq!((release, finish), (vec!["a".to_owned(), "b".to_owned()], None));

    let mut next: JobStatus = from_value(status).unwrap();
    track::settle(&mut next, &HashSet::from(["b".to_owned()]));
    assert_eq!((next.succeeded, next.failed), (Some(2), None), "one has lost its finalizer");
    track::settle(&mut next, &HashSet::new());
    track::settle(&mut next, &HashSet::new());
    assert_eq!((next.succeeded, next.failed), (Some(2), Some(1)), "each is counted once");
}

#[test]
fn a_crash_between_the_steps_counts_nobody_twice() {
    // The status names a pod, and its finalizer is still there; or is gone already.
    let named = json!({"startTime": "2026-01-01T11:00:00Z", "uncountedTerminatedPods": {"succeeded": ["a"]}});
    let job = job(json!({"completions": 2, "parallelism": 1}), named);
    let (status, release, _) = tracked(&job, &pods("a Succeeded, b Running"), &all_done(0, 0));
    assert_eq!(status["uncountedTerminatedPods"], json!({"succeeded": ["a"]}));
    assert_eq!(release, ["a"]);
    let (status, release, _) = tracked(&job, &pods("b Running"), &all_done(0, 0));
    assert_eq!((status["succeeded"].clone(), status["uncountedTerminatedPods"].clone()), (json!(1), json!({})));
    assert!(release.is_empty());
}

#[test]
fn the_end_comes_when_all_is_counted_and_nothing_is_ending() {
    let start = json!({"startTime": "2026-01-01T11:00:00Z"});
    let (status, release, finish) = tracked(&job(json!({}), start.clone()), &pods("a Succeeded"), &all_done(0, 0));
    assert_eq!((release, finish.as_deref()), (vec!["a".to_owned()], Some("Complete")));
    assert_eq!(status["conditions"][0]["type"], "SuccessCriteriaMet");
    assert_eq!(status["conditions"].as_array().unwrap().len(), 1, "Complete comes when the pods are counted");

    let mut last: JobStatus = from_value(status).unwrap();
    let complete = View { job: &job(json!({}), json!({})), pods: &[], failures: Failures::default(), now: now() }
        .condition("Complete", "CompletionsReached", "m");
    track::finish(&mut last, Some(&complete), now());
    assert!(last.completion_time.is_none(), "one is named and not counted");
    track::settle(&mut last, &HashSet::new());
    last.terminating = Some(1);
    track::finish(&mut last, Some(&complete), now());
    assert!(last.completion_time.is_none(), "one is ending");
    last.terminating = Some(0);
    track::finish(&mut last, Some(&complete), now());
    assert!(last.completion_time.is_some());

    let failing = job(json!({"backoffLimit": 0, "parallelism": 2, "completions": 2}), start);
    let (status, release, finish) = tracked(&failing, &pods("a Failed, b Running"), &all_done(0, 1));
    assert_eq!(finish.as_deref(), Some("Failed"));
    assert_eq!(status["uncountedTerminatedPods"]["failed"], json!(["a", "b"]), "what ran has failed with it");
    assert_eq!((release.len(), status["terminating"].clone()), (2, json!(1)));
    let (_, _, finish) = tracked(&failing, &pods("a Failed, b Running"), &Done::default());
    assert_eq!(finish, None, "not before all pods are on their way out");
}

#[test]
fn indexes_are_counted_by_themselves() {
    let spec = json!({"completionMode": "Indexed", "completions": 4, "parallelism": 4, "backoffLimitPerIndex": 0, "backoffLimit": 9});
    let job = job(spec, json!({"completedIndexes": "0", "succeeded": 1, "startTime": "2026-01-01T11:00:00Z"}));
    let (status, release, _) =
        tracked(&job, &pods("a Succeeded 0, b Succeeded 1, c Failed 2 0, d Running 3"), &all_done(0, 0));
    assert_eq!((status["completedIndexes"].clone(), status["succeeded"].clone()), (json!("0,1"), json!(2)));
    assert_eq!(
        (status["failedIndexes"].clone(), status["uncountedTerminatedPods"].clone()),
        (json!("2"), json!({"failed": ["c"]}))
    );
    assert_eq!(release, ["a", "b", "c"]);
}

#[test]
fn a_rest_is_told() {
    let suspended = job(json!({"suspend": true}), json!({"startTime": "2026-01-01T11:00:00Z"}));
    let (status, _, _) = tracked(&suspended, &pods("a Running"), &all_done(0, 1));
    let condition = &status["conditions"][0];
    assert_eq!((condition["type"].clone(), condition["status"].clone()), (json!("Suspended"), json!("True")));
    assert_eq!((status["startTime"].clone(), status["active"].clone()), (Value::Null, Value::Null));
    let resting = json!({"conditions": [{"type": "Suspended", "status": "True"}]});
    let (status, _, _) = tracked(&job(json!({}), resting), &[], &all_done(1, 0));
    assert_eq!(status["conditions"][0]["status"], "False");
    assert_eq!((status["startTime"].clone(), status["active"].clone()), (json!("2026-01-01T12:00:00Z"), json!(1)));
}

#[test]
fn rules_about_failed_pods() {
    let rule = |action: &str, more: Value| {
        let mut rule = json!({"action": action});
        rule.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json!({"podFailurePolicy": {"rules": [rule]}})
    };
    let codes = |operator: &str, values: Value| json!({"onExitCodes": {"operator": operator, "values": values}});
    let message = "Container c for pod default/a failed with exit code 1 matching FailJob rule at index 0";
    for (spec, expected) in [
        (rule("FailJob", codes("In", json!([1]))), Verdict::FailJob(message.to_owned())),
        (rule("FailJob", codes("In", json!([2]))), Verdict::Count),
        (rule("Ignore", codes("NotIn", json!([2]))), Verdict::Ignore),
        (rule("FailIndex", codes("NotIn", json!([1]))), Verdict::Count),
        (
            rule("FailIndex", json!({"onExitCodes": {"containerName": "d", "operator": "In", "values": [1]}})),
            Verdict::Count,
        ),
        (rule("Ignore", json!({"onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]})), Verdict::Ignore),
        (rule("Ignore", json!({"onPodConditions": [{"type": "DisruptionTarget", "status": "False"}]})), Verdict::Count),
    ] {
        let mut failed = pods("a Failed").remove(0);
        let disrupted = from_value(json!([{"type": "DisruptionTarget", "status": "True"}])).unwrap();
        failed.status.as_mut().unwrap().conditions = Some(disrupted);
        assert_eq!(policy::verdict(&job(spec.clone(), json!({})), &failed), expected, "{spec}");
    }
}

#[test]
fn the_success_policy_is_met_by_a_rule() {
    let policy = |rules: Value| from_value(json!({"rules": rules})).unwrap();
    let done = |text: &str| Indexes::read(text, 10);
    for (rules, succeeded, expected) in [
        (json!([{"succeededCount": 2}]), "0", None),
        (json!([{"succeededCount": 2}]), "0,7", Some("Matched rules at index 0")),
        (json!([{"succeededIndexes": "0-2"}]), "0,1,5", None),
        (json!([{"succeededIndexes": "0-2"}, {"succeededIndexes": "5"}]), "0,1,5", Some("Matched rules at index 1")),
        (json!([{"succeededIndexes": "0-2", "succeededCount": 2}]), "0,1", Some("Matched rules at index 0")),
    ] {
        assert_eq!(policy::success(Some(&policy(rules.clone())), 10, &done(succeeded)).as_deref(), expected, "{rules}");
    }
    assert_eq!(policy::success(None, 10, &done("0-9")), None);
}

#[test]
fn a_pod_of_an_index_knows_it() {
    let made = pod::create(
        &job(json!({"completionMode": "Indexed"}), json!({})),
        NewPod { index: Some(3), failures: Some((2, 1)) },
    );
    assert_eq!(made.metadata.generate_name.as_deref(), Some("work-3-"));
    assert_eq!(made.finalizers(), [pod::FINALIZER]);
    assert_eq!((pod::index(&made), pod::failures_before(&made)), (Some(3), (2, 1)));
    let spec = made.spec.clone().unwrap();
    assert_eq!(spec.hostname.as_deref(), Some("work-3"));
    let variable = spec.containers[0].env.clone().unwrap().remove(0);
    assert_eq!(variable.name, "JOB_COMPLETION_INDEX");
    assert_eq!(made.labels()["batch.kubernetes.io/job-completion-index"], "3");
}
