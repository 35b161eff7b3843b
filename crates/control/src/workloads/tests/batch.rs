//! Jobs and CronJobs on a whole API server in memory, also cut off after any write.

use super::in_process::{Lab, hollow};
use apiserver::{
    client::{InProcess, myself},
    testing::Breaking,
};
use k8s_openapi::api::{
    batch::v1::{CronJob, Job},
    core::v1::Pod,
};
use kube::{
    Client, ResourceExt,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
};
use runtime::client::Api;
use serde_json::{Value, from_value, json};
use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

const BATCH: &str = "job,cronjob,ttl-after-finished,garbagecollector,scheduler,hollow-node,nodelifecycle";

/// A Job whose pods end after `run_for` with this code.
fn job(name: &str, run_for: &str, code: i32, more: Value) -> Job {
    let annotations =
        json!({"hollow.twinstack.dev/run-for": run_for, "hollow.twinstack.dev/exit-code": code.to_string()});
    let mut spec = json!({"template": {"metadata": {"labels": {"app": name}, "annotations": annotations},
        "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}});
    for (field, value) in more.as_object().unwrap() {
        spec[field] = value.clone();
    }
    from_value(json!({"metadata": {"name": name}, "spec": spec})).unwrap()
}

fn ended(job: &Job, kind: &str) -> bool {
    let conditions = job.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.into_iter().any(|one| one.type_ == kind && one.status == "True")
}

fn complete(job: &Job) -> bool {
    ended(job, "Complete")
}

fn failed(job: &Job) -> bool {
    ended(job, "Failed")
}

fn numbers(job: &Job) -> [i32; 4] {
    let status = job.status.clone().unwrap_or_default();
    [status.succeeded, status.failed, status.active, status.terminating].map(Option::unwrap_or_default)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn jobs_complete_and_fail() {
    let lab = Lab::start(BATCH, hollow(2)).await;
    let jobs = lab.api::<Job>();
    let create = async |job: Job| drop(jobs.create(&PostParams::default(), &job).await.unwrap());
    create(job("plain", "50ms", 0, json!({"completions": 5, "parallelism": 2}))).await;
    let done = lab.until(&jobs, "plain", "complete", complete).await;
    assert_eq!(numbers(&done), [5, 0, 0, 0]);
    let pods = lab.pods("plain", 5).await;
    assert!(pods.iter().all(|pod| pod.finalizers().is_empty()), "all are counted");

    create(job("indexed", "50ms", 0, json!({"completions": 3, "parallelism": 3, "completionMode": "Indexed"}))).await;
    let done = lab.until(&jobs, "indexed", "complete", complete).await;
    assert_eq!(done.status.unwrap().completed_indexes.as_deref(), Some("0-2"));

    create(job("hopeless", "50ms", 3, json!({"backoffLimit": 0}))).await;
    let lost = lab.until(&jobs, "hopeless", "failed", failed).await;
    assert_eq!(numbers(&lost), [0, 1, 0, 0]);

    let policy = json!({"rules": [{"action": "FailJob", "onExitCodes": {"operator": "In", "values": [42]}}]});
    create(job("fatal", "50ms", 42, json!({"podFailurePolicy": policy, "completions": 3, "parallelism": 1}))).await;
    let lost = lab.until(&jobs, "fatal", "failed", failed).await;
    let reasons: Vec<String> =
        lost.status.unwrap().conditions.unwrap().into_iter().filter_map(|one| one.reason).collect();
    assert_eq!(reasons, ["PodFailurePolicy", "PodFailurePolicy"]);

    let quorum = json!({"completions": 4, "parallelism": 4, "completionMode": "Indexed", "backoffLimitPerIndex": 0,
        "successPolicy": {"rules": [{"succeededCount": 1}]}});
    create(job("quorum", "50ms", 0, quorum)).await;
    lab.until(&jobs, "quorum", "complete", complete).await;

    create(job("slow", "1h", 0, json!({"activeDeadlineSeconds": 1}))).await;
    let late = lab.until(&jobs, "slow", "failed", failed).await;
    assert_eq!(numbers(&late), [0, 1, 0, 0]);
    lab.pods("slow", 0).await;
    lab.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn jobs_rest_go_and_are_forgotten() {
    let lab = Lab::start(BATCH, hollow(1)).await;
    let (jobs, pods) = (lab.api::<Job>(), lab.api::<Pod>());
    jobs.create(&PostParams::default(), &job("rests", "1h", 0, json!({"suspend": true}))).await.unwrap();
    lab.until(&jobs, "rests", "suspended", |job| ended(job, "Suspended")).await;
    lab.pods("rests", 0).await;
    let suspend = |word: bool| Patch::Merge(json!({"spec": {"suspend": word}}));
    jobs.patch("rests", &PatchParams::default(), &suspend(false)).await.unwrap();
    lab.pods("rests", 1).await;
    jobs.patch("rests", &PatchParams::default(), &suspend(true)).await.unwrap();
    lab.pods("rests", 0).await;
    let resting =
        lab.until(&jobs, "rests", "nobody is active", |job| numbers(job) == [0; 4] && ended(job, "Suspended")).await;
    assert_eq!(numbers(&resting), [0; 4], "a rest is no failure");
    jobs.patch("rests", &PatchParams::default(), &suspend(false)).await.unwrap();
    lab.pods("rests", 1).await;
    jobs.delete("rests", &DeleteParams::background()).await.unwrap();
    lab.pods("rests", 0).await;

    jobs.create(&PostParams::default(), &job("left", "1h", 0, json!({}))).await.unwrap();
    let name = lab.pods("left", 1).await[0].name_any();
    // Jobs let their pods go unless they are told otherwise.
    jobs.delete("left", &DeleteParams::default()).await.unwrap();
    lab.until(&pods, &name, "nobody's, without the finalizer", |pod| {
        pod.owner_references().is_empty() && pod.finalizers().is_empty()
    })
    .await;

    jobs.create(&PostParams::default(), &job("brief", "50ms", 0, json!({"ttlSecondsAfterFinished": 0}))).await.unwrap();
    lab.eventually("forgotten with its pods", || {
        let (jobs, pods) = (jobs.clone(), pods.clone());
        Box::pin(async move {
            let gone = jobs.get_opt("brief").await.ok()?.is_none();
            let left = pods.list(&ListParams::default().labels("app=brief")).await.ok()?.items;
            (gone && left.is_empty()).then_some(())
        })
    })
    .await;
    lab.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cron_job_makes_jobs_and_forgets_old_ones() {
    let lab = Lab::start(BATCH, hollow(1)).await;
    let crons = lab.api::<CronJob>();
    let template = job("tick", "10ms", 0, json!({}));
    let cron: CronJob = from_value(json!({"metadata": {"name": "tick"}, "spec": {"schedule": "@every 1s",
        "successfulJobsHistoryLimit": 1, "jobTemplate": {"spec": {"template": template.spec.unwrap().template}}}}))
    .unwrap();
    crons.create(&PostParams::default(), &cron).await.unwrap();
    let done = lab
        .until(&crons, "tick", "one has succeeded", |cron| {
            cron.status.as_ref().is_some_and(|status| status.last_successful_time.is_some())
        })
        .await;
    assert!(done.status.unwrap().last_schedule_time.is_some());
    crons.patch("tick", &PatchParams::default(), &Patch::Merge(json!({"spec": {"suspend": true}}))).await.unwrap();
    lab.eventually("one Job is kept", || {
        let jobs = lab.api::<Job>();
        Box::pin(async move {
            let all = jobs.list(&ListParams::default()).await.ok()?.items;
            (all.len() == 1 && all.iter().all(complete)).then_some(())
        })
    })
    .await;
    crons.delete("tick", &DeleteParams::default()).await.unwrap();
    lab.pods("tick", 0).await;
    lab.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_cut_off_after_any_write_counts_every_pod_once() {
    const WORK: &str = "job,scheduler,hollow-node,nodelifecycle";
    for writes in (0..45).step_by(3) {
        let server = apiserver::testing::server().await;
        let user = Client::new(InProcess::new(Arc::clone(&server), myself()), "default");
        let jobs = Api::<Job>::namespaced(user.clone(), "default");
        let work = job("work", "5ms", 0, json!({"completions": 4, "parallelism": 2}));
        jobs.create(&PostParams::default(), &work).await.unwrap();
        let (wire, left) = Breaking::new(&server, writes);
        let mut options = hollow(1);
        options.hollow.heartbeat = Duration::from_millis(20);
        let first = Lab::over(Client::new(wire, "default"), WORK, options);
        first
            .eventually("it is cut off, or done", || {
                let (left, jobs) = (Arc::clone(&left), jobs.clone());
                Box::pin(async move {
                    let done = jobs.get("work").await.is_ok_and(|one| complete(&one));
                    (done || left.load(Ordering::SeqCst) < 0).then_some(())
                })
            })
            .await;
        first.stop().await;
        let lab = Lab::over(user, WORK, hollow(1));
        lab.give_all_cidrs(1).await;
        let done = lab.until(&jobs, "work", "complete", complete).await;
        assert_eq!(numbers(&done), [4, 0, 0, 0], "cut off after {writes} writes");
        lab.pods("work", 4).await;
        lab.stop().await;
    }
}
