//! Job and CronJob.

use super::*;

fn template() -> Value {
    json!({"metadata": {"labels": {"app": "work"}},
        "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}})
}

fn job(more: Value) -> Value {
    let mut spec = json!({"template": template()});
    for (field, value) in more.as_object().unwrap() {
        spec[field] = value.clone();
    }
    json!({"metadata": {"name": "a", "uid": "u"}, "spec": spec})
}

#[test]
fn jobs() {
    refuses(
        "batch",
        "jobs",
        &job(json!({})),
        &[
            ("/spec/parallelism", json!(-1), "spec.parallelism", Invalid),
            ("/spec/backoffLimit", json!(-1), "spec.backoffLimit", Invalid),
            ("/spec/ttlSecondsAfterFinished", json!(-1), "spec.ttlSecondsAfterFinished", Invalid),
            ("/spec/backoffLimitPerIndex", json!(1), "spec.backoffLimitPerIndex", Invalid),
            ("/spec/completionMode", json!("Some"), "spec.completionMode", NotSupported),
            ("/spec/podReplacementPolicy", json!("Never"), "spec.podReplacementPolicy", NotSupported),
            ("/spec/managedBy", json!("me"), "spec.managedBy", Invalid),
            ("/spec/successPolicy", json!({"rules": [{"succeededCount": 1}]}), "spec.successPolicy", Invalid),
            ("/spec/template/spec/restartPolicy", json!("Always"), "spec.template.spec.restartPolicy", Required),
            ("/spec/template/spec/containers", json!([]), "spec.template.spec.containers", Required),
            (
                "/spec/template/metadata/labels/job-name",
                json!("other"),
                "spec.template.metadata.labels[job-name]",
                Invalid,
            ),
            ("/spec/manualSelector", json!(true), "spec.selector", Required),
        ],
    );
}

#[test]
fn policies_of_jobs() {
    let policy = |rule: Value| json!({"rules": [rule]});
    let good = job(json!({
        "completionMode": "Indexed", "completions": 4, "parallelism": 4, "backoffLimitPerIndex": 1, "maxFailedIndexes": 2,
        "podFailurePolicy": {"rules": [
            {"action": "FailIndex", "onExitCodes": {"containerName": "c", "operator": "In", "values": [1, 42]}},
            {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}]},
        "successPolicy": {"rules": [{"succeededIndexes": "0,2-3", "succeededCount": 2}]},
    }));
    let (codes, rule) = ("/spec/podFailurePolicy/rules/0/onExitCodes", "spec.podFailurePolicy.rules[0]");
    let at = |field: &str| format!("{rule}.{field}");
    let (values, operator, container) =
        (at("onExitCodes.values"), at("onExitCodes.operator"), at("onExitCodes.containerName"));
    let (values_at, first, second) = (format!("{codes}/values"), format!("{values}[0]"), format!("{values}[1]"));
    let (operator_at, container_at) = (format!("{codes}/operator"), format!("{codes}/containerName"));
    let action = at("action");
    let success = "/spec/successPolicy";
    refuses(
        "batch",
        "jobs",
        &good,
        &[
            (values_at.as_str(), json!([0, 1]), first.as_str(), Invalid),
            (values_at.as_str(), json!([1, 1]), second.as_str(), Duplicate),
            (values_at.as_str(), json!([2, 1]), values.as_str(), Invalid),
            (values_at.as_str(), json!([]), values.as_str(), Invalid),
            (operator_at.as_str(), json!("Near"), operator.as_str(), NotSupported),
            (container_at.as_str(), json!("d"), container.as_str(), Invalid),
            ("/spec/podFailurePolicy/rules/0/action", json!("Cry"), action.as_str(), NotSupported),
            ("/spec/podFailurePolicy", policy(json!({"action": "Count"})), rule, Invalid),
            ("/spec/template/spec/restartPolicy", json!("OnFailure"), "spec.template.spec.restartPolicy", Invalid),
            ("/spec/podReplacementPolicy", json!("TerminatingOrFailed"), "spec.podReplacementPolicy", NotSupported),
            ("/spec/maxFailedIndexes", json!(5), "spec.maxFailedIndexes", Invalid),
            (success, json!({"rules": []}), "spec.successPolicy.rules", Required),
            (success, policy(json!({})), "spec.successPolicy.rules[0]", Required),
            (success, policy(json!({"succeededCount": 5})), "spec.successPolicy.rules[0].succeededCount", Invalid),
            (
                success,
                policy(json!({"succeededIndexes": "0-9"})),
                "spec.successPolicy.rules[0].succeededIndexes",
                Invalid,
            ),
            (
                success,
                policy(json!({"succeededIndexes": "0,1", "succeededCount": 3})),
                "spec.successPolicy.rules[0].succeededCount",
                Invalid,
            ),
        ],
    );
    keeps(
        "batch",
        "jobs",
        &good,
        &[
            ("/spec/completions", json!(5), "spec.completions", Invalid),
            ("/spec/backoffLimitPerIndex", json!(2), "spec.backoffLimitPerIndex", Invalid),
            ("/spec/podFailurePolicy/rules/0/action", json!("FailJob"), "spec.podFailurePolicy", Invalid),
            ("/spec/template/spec/containers/0/image", json!("j"), "spec.template", Invalid),
            ("/spec/managedBy", json!("acme.io/x"), "spec.managedBy", Invalid),
        ],
    );
    let rules = resource("batch", "jobs");
    let (stored, _) = create(&rules, &good);
    let smaller = changed(&changed(&stored, "/spec/completions", &json!(4)), "/spec/parallelism", &json!(4));
    assert_eq!(update(&rules, &smaller, &stored), []);
}

#[test]
fn a_job_finds_its_pods_by_its_uid() {
    let rules = resource("batch", "jobs");
    let (stored, wrong) = create(&rules, &job(json!({})));
    assert_eq!(wrong, []);
    assert_eq!(stored.at("spec.selector"), &json!({"matchLabels": {"batch.kubernetes.io/controller-uid": "u"}}));
    let labels = json!({"app": "work", "controller-uid": "u", "batch.kubernetes.io/controller-uid": "u",
        "job-name": "a", "batch.kubernetes.io/job-name": "a"});
    assert_eq!(stored.at("spec.template.metadata.labels"), &labels);
    assert_eq!(stored.at("metadata.labels"), &json!({"app": "work"}));
    let numbers = ["completions", "parallelism", "backoffLimit"].map(|field| stored.at("spec").int_at(field).unwrap());
    assert_eq!(numbers, [1, 1, 6]);
    let (own, wrong) =
        create(&rules, &job(json!({"manualSelector": true, "selector": {"matchLabels": {"app": "work"}}})));
    assert_eq!((wrong, own.at("spec.template.metadata.labels")), (vec![], &json!({"app": "work"})));
}

#[test]
fn a_suspended_job_may_be_sent_elsewhere_before_it_runs() {
    let rules = resource("batch", "jobs");
    let (stored, _) = create(&rules, &job(json!({"suspend": true})));
    for (pointer, value, allowed) in [
        ("/spec/template/spec/nodeSelector", json!({"disk": "fast"}), true),
        ("/spec/template/spec/tolerations", json!([{"operator": "Exists"}]), true),
        ("/spec/template/metadata/annotations", json!({"a": "b"}), true),
        ("/spec/template/spec/containers/0/resources", json!({"requests": {"cpu": "1"}}), true),
        ("/spec/template/spec/containers/0/image", json!("j"), false),
    ] {
        let next = changed(&stored, pointer, &value);
        assert_eq!(update(&rules, &next, &stored).is_empty(), allowed, "{pointer}");
        let running = changed(&stored, "/status", &json!({"startTime": "2026-01-01T00:00:00Z", "active": 1}));
        assert_ne!(update(&rules, &next, &running), [], "{pointer} while it runs");
    }
}

#[test]
fn statuses_of_jobs_go_forward() {
    let rules = resource("batch", "jobs");
    let (mut stored, _) = create(&rules, &job(json!({"completions": 3})));
    let (start, end) = ("2026-01-01T00:00:00Z", "2026-01-01T00:01:00Z");
    let condition =
        |kind: &str| json!({"type": kind, "status": "True", "lastProbeTime": null, "lastTransitionTime": end});
    let running = json!({"startTime": start, "active": 1, "ready": 1, "succeeded": 1, "failed": 1});
    assert_eq!(update_status(&rules, running.clone(), &stored), []);
    stored.set("status", running);
    let done = json!({"startTime": start, "completionTime": end, "succeeded": 3, "failed": 1,
        "conditions": [condition("SuccessCriteriaMet"), condition("Complete")]});
    assert_eq!(update_status(&rules, done.clone(), &stored), []);
    for (pointer, value, field) in [
        ("/succeeded", json!(0), "status.succeeded"),
        ("/failed", json!(0), "status.failed"),
        ("/active", json!(1), "status.active"),
        ("/terminating", json!(1), "status.terminating"),
        ("/completionTime", json!(null), "status.completionTime"),
        ("/completionTime", json!("2025-01-01T00:00:00Z"), "status.completionTime"),
        ("/conditions", json!([condition("Complete")]), "status.conditions"),
        ("/startTime", json!("2026-01-01T00:00:01Z"), "status.startTime"),
        ("/completedIndexes", json!("0-1"), "status.completedIndexes"),
        ("/uncountedTerminatedPods", json!({"failed": ["x"]}), "status.uncountedTerminatedPods"),
    ] {
        let found = update_status(&rules, changed(&done, pointer, &value), &stored);
        assert!(found.iter().any(|(at, _)| at == field), "{pointer}: {found:?}");
    }
    stored.set("status", done.clone());
    let undone = changed(&done, "/conditions", &json!([condition("SuccessCriteriaMet")]));
    assert!(!update_status(&rules, undone, &stored).is_empty(), "what is complete stays so");
}

#[test]
fn cron_jobs() {
    let good = json!({"spec": {"schedule": "*/5 * * * *", "timeZone": "Europe/Berlin",
        "jobTemplate": {"spec": {"template": template()}}}});
    refuses(
        "batch",
        "cronjobs",
        &good,
        &[
            ("/spec/schedule", json!(""), "spec.schedule", Required),
            ("/spec/schedule", json!("every day"), "spec.schedule", Invalid),
            ("/spec/schedule", json!("TZ=UTC 0 0 * * *"), "spec.schedule", Invalid),
            ("/spec/timeZone", json!("Mars/Olympus"), "spec.timeZone", Invalid),
            ("/spec/timeZone", json!("Local"), "spec.timeZone", Invalid),
            ("/spec/concurrencyPolicy", json!("Maybe"), "spec.concurrencyPolicy", NotSupported),
            ("/spec/startingDeadlineSeconds", json!(-1), "spec.startingDeadlineSeconds", Invalid),
            ("/spec/failedJobsHistoryLimit", json!(-1), "spec.failedJobsHistoryLimit", Invalid),
            ("/spec/jobTemplate/spec/parallelism", json!(-1), "spec.jobTemplate.spec.parallelism", Invalid),
            (
                "/spec/jobTemplate/spec/manualSelector",
                json!(true),
                "spec.jobTemplate.spec.manualSelector",
                NotSupported,
            ),
            (
                "/spec/jobTemplate/spec/template/spec/restartPolicy",
                json!(null),
                "spec.jobTemplate.spec.template.spec.restartPolicy",
                Required,
            ),
            ("/metadata", json!({"name": "x".repeat(53)}), "metadata.name", Invalid),
        ],
    );
    let rules = resource("batch", "cronjobs");
    let (stored, _) = create(&rules, &good);
    assert_eq!(stored.at("spec.concurrencyPolicy"), "Allow");
    assert_eq!(stored.at("spec.jobTemplate.spec.completions"), &Value::Null, "a Job's defaults are its own");
    assert_eq!(update(&rules, &changed(&stored, "/spec/schedule", &json!("@daily")), &stored), []);
    let now = "2026-01-01T01:00:00Z".parse().unwrap();
    let shown =
        rules.rules.cells(&changed(&stored, "/status", &json!({"lastScheduleTime": "2026-01-01T00:58:00Z"})), now);
    assert_eq!(shown[1..6], [json!("*/5 * * * *"), json!("Europe/Berlin"), json!("False"), json!(0), json!("2m")]);
}
