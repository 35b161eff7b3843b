//! Jobs and CronJobs with every kubectl there is, and through a kill of the controller manager in the middle of a Job.

use crate::{
    stateful::manager,
    workloads::{Cluster, becomes},
};
use e2e::{Kubectl, Server, wait_for};
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(120);

/// A Job whose pods run for a while and end with this code.
fn job(name: &str, run_for: &str, code: u32, more: &str) -> String {
    format!(
        r#"{{"apiVersion": "batch/v1", "kind": "Job", "metadata": {{"name": "{name}"}}, "spec": {{{more}
            "template": {{"metadata": {{"annotations": {{
                "hollow.twinstack.dev/run-for": "{run_for}", "hollow.twinstack.dev/exit-code": "{code}"}}}},
                "spec": {{"restartPolicy": "Never", "containers": [{{"name": "c", "image": "any"}}]}}}}}}}}"#
    )
}

fn jobs_end(kubectl: &Kubectl) {
    kubectl.ok_with(&["apply", "-f", "-"], &job("work", "100ms", 0, r#""completions": 4, "parallelism": 2,"#));
    kubectl.ok(&["wait", "--for=condition=Complete", "job/work", "--timeout=120s"]);
    let shown = kubectl.ok(&["get", "job", "work", "--no-headers"]);
    assert!(shown.contains("4/4"), "{shown}");
    let described = kubectl.ok(&["describe", "job", "work"]);
    assert!(described.contains("Completed"), "{described}");
    kubectl.ok_with(&["apply", "-f", "-"], &job("hopeless", "100ms", 3, r#""backoffLimit": 0,"#));
    kubectl.ok(&["wait", "--for=condition=Failed", "job/hopeless", "--timeout=120s"]);
    becomes(kubectl, &["get", "job", "hopeless", "-o", "jsonpath={.status.failed}"], "1");
    kubectl.ok(&["delete", "job", "work", "hopeless"]);
    becomes(kubectl, &["get", "pods", "-l", "job-name in (work, hopeless)", "-o", "name"], "");
}

fn a_cron_job_makes_jobs(kubectl: &Kubectl) {
    kubectl.ok_with(
        &["apply", "-f", "-"],
        r#"{"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "tick"}, "spec": {"schedule": "@every 2s",
            "timeZone": "Europe/Berlin", "jobTemplate": {"spec": {"template": {
                "metadata": {"annotations": {"hollow.twinstack.dev/run-for": "50ms"}},
                "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "any"}]}}}}}}"#,
    );
    let succeeded = wait_for(PATIENCE, || {
        let time =
            kubectl.run(&["get", "cronjobs.v1.batch", "tick", "-o", "jsonpath={.status.lastSuccessfulTime}"]).stdout;
        (!time.trim().is_empty()).then_some(())
    });
    assert!(succeeded.is_some(), "{}", kubectl.run(&["get", "events"]).stdout);
    kubectl.ok(&["patch", "cronjobs.v1.batch", "tick", "--type=merge", "-p", r#"{"spec": {"suspend": true}}"#]);
    let made = kubectl.run(&["create", "job", "now", "--from=cronjob/tick"]);
    // Versions before 1.21 only know the version of CronJob that is gone.
    if made.success {
        kubectl.ok(&["wait", "--for=condition=Complete", "job/now", "--timeout=120s"]);
    } else {
        assert!(kubectl.version.as_str() < "1.21", "{}", made.stderr);
    }
    kubectl.ok(&["delete", "cronjobs.v1.batch", "tick"]);
    becomes(kubectl, &["get", "jobs", "-o", "name"], "");
}

#[test]
fn jobs_on_hollow_nodes() {
    let cluster = Cluster::up();
    for kubectl in cluster.kubectls() {
        jobs_end(&kubectl);
        a_cron_job_makes_jobs(&kubectl);
    }
}

#[test]
fn a_manager_killed_in_a_job_counts_every_pod_once() {
    let server = Server::start(&[]);
    let Some(kubectl) = server.kubectls().pop() else { return };
    let mut manager_process = manager(&server, "first");
    kubectl.ok_with(&["apply", "-f", "-"], &job("work", "200ms", 0, r#""completions": 12, "parallelism": 3,"#));
    for round in 1..4 {
        let wanted = round * 3;
        let some = wait_for(PATIENCE, || {
            let count = kubectl.run(&["get", "job", "work", "-o", "jsonpath={.status.succeeded}"]).stdout;
            count.trim().parse::<u32>().is_ok_and(|count| count >= wanted).then_some(())
        });
        assert!(some.is_some(), "{}", manager_process.output());
        manager_process.kill();
        manager_process = manager(&server, &format!("round-{round}"));
    }
    kubectl.ok(&["wait", "--for=condition=Complete", "job/work", "--timeout=120s"]);
    becomes(&kubectl, &["get", "job", "work", "-o", "jsonpath={.status.succeeded} {.status.failed}"], "12");
    let pods = kubectl.ok(&["get", "pods", "-l", "job-name=work", "-o", "name"]);
    assert_eq!(pods.lines().count(), 12, "{pods}");
}
