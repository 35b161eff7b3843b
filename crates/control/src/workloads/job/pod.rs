//! The pods of a Job: which index one has, what it has come to, and the pod that is made next.

use super::super::{owned, pods, template};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::{
    batch::v1::Job,
    core::v1::{ContainerStatus, EnvVar, EnvVarSource, ObjectFieldSelector, Pod},
};
use kube::ResourceExt;

/// Keeps a pod until it is counted.
pub const FINALIZER: &str = "batch.kubernetes.io/job-tracking";
/// Annotation and label with a pod's index.
pub const INDEX: &str = "batch.kubernetes.io/job-completion-index";
/// Annotation: failures of this index before this pod, those that count and those that a policy ignores.
const FAILURES: &str = "batch.kubernetes.io/job-index-failure-count";
const IGNORED_FAILURES: &str = "batch.kubernetes.io/job-index-ignored-failure-count";
const INDEX_VARIABLE: &str = "JOB_COMPLETION_INDEX";
/// The longest start of a generated name.
const LONGEST_START: usize = 58;

/// The index of a pod, if it has one.
pub fn index(pod: &Pod) -> Option<u32> {
    pod.annotations().get(INDEX)?.parse().ok()
}

pub(super) fn is_tracked(pod: &Pod) -> bool {
    pod.finalizers().iter().any(|name| name == FINALIZER)
}

pub(super) fn succeeded(pod: &Pod) -> bool {
    pods::phase(pod) == "Succeeded"
}

/// Whether it counts as failed. One that is being deleted does, unless the Job waits for its end.
pub(super) fn failed(pod: &Pod, job: &Job) -> bool {
    let replaced_late = replaces_only_failed(job);
    pods::phase(pod) == "Failed" || !replaced_late && pod.metadata.deletion_timestamp.is_some() && !succeeded(pod)
}

pub(super) fn replaces_only_failed(job: &Job) -> bool {
    job.spec.as_ref().and_then(|spec| spec.pod_replacement_policy.as_deref()) == Some("Failed")
}

/// How often this index has failed before this pod: what counts, and what was ignored.
pub(super) fn failures_before(pod: &Pod) -> (i32, i32) {
    let number = |name: &str| pod.annotations().get(name).and_then(|text| text.parse().ok()).filter(|n| *n >= 0);
    (number(FAILURES).unwrap_or_default(), number(IGNORED_FAILURES).unwrap_or_default())
}

/// When it ended: by its containers, its condition, its deletion, or, for want of all these, its creation.
pub(super) fn finished_at(pod: &Pod) -> Timestamp {
    let status = pod.status.clone().unwrap_or_default();
    let ended =
        |status: &ContainerStatus| status.state.as_ref()?.terminated.as_ref()?.finished_at.as_ref().map(|time| time.0);
    let sidecars: Vec<&str> = pod
        .spec
        .iter()
        .flat_map(|spec| spec.init_containers.iter().flatten())
        .filter(|container| container.restart_policy.as_deref() == Some("Always"))
        .map(|container| container.name.as_str())
        .collect();
    let init = status.init_container_statuses.iter().flatten().filter(|one| sidecars.contains(&one.name.as_str()));
    let containers: Vec<&ContainerStatus> = status.container_statuses.iter().flatten().chain(init).collect();
    let times: Option<Vec<Timestamp>> = containers.iter().map(|one| ended(one)).collect();
    let by_containers = times.and_then(|times| times.into_iter().max());
    let by_condition = || {
        let condition = pods::condition(pod, "Ready").filter(|condition| condition.status == "False")?;
        condition.last_transition_time.as_ref().map(|time| time.0)
    };
    let by_deletion = || {
        let due = pod.metadata.deletion_timestamp.as_ref()?.0;
        let grace = SignedDuration::from_secs(pod.metadata.deletion_grace_period_seconds.unwrap_or_default());
        due.checked_sub(grace).ok()
    };
    let by_creation = || pod.metadata.creation_timestamp.as_ref().map(|time| time.0);
    by_containers.or_else(by_condition).or_else(by_deletion).or_else(by_creation).unwrap_or_default()
}

/// A pod to be made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NewPod {
    /// Its index, in Jobs that count by index.
    pub index: Option<u32>,
    /// Failures of this index so far, where they are counted by index.
    pub failures: Option<(i32, i32)>,
}

/// The pod itself.
pub(super) fn create(job: &Job, new: NewPod) -> Pod {
    let spec = job.spec.clone().unwrap_or_default();
    let mut pod = template::pod(&spec.template, &owned::reference(job));
    let finalizers = pod.metadata.finalizers.get_or_insert_default();
    if finalizers.iter().all(|name| name != FINALIZER) {
        finalizers.push(FINALIZER.to_owned());
    }
    let Some(index) = new.index else { return pod };
    let (name, text) = (job.name_any(), index.to_string());
    let end = format!("-{text}-");
    let start = name.get(..LONGEST_START.saturating_sub(end.len())).unwrap_or(&name);
    pod.metadata.generate_name = Some(format!("{start}{end}"));
    let annotations = pod.metadata.annotations.get_or_insert_default();
    annotations.insert(INDEX.to_owned(), text.clone());
    if let Some((counted, ignored)) = new.failures {
        annotations.insert(FAILURES.to_owned(), counted.to_string());
        if ignored > 0 {
            annotations.insert(IGNORED_FAILURES.to_owned(), ignored.to_string());
        }
    }
    pod.metadata.labels.get_or_insert_default().insert(INDEX.to_owned(), text);
    let pod_spec = pod.spec.get_or_insert_default();
    pod_spec.hostname = Some(format!("{name}-{index}"));
    for container in pod_spec.init_containers.iter_mut().flatten().chain(&mut pod_spec.containers) {
        let variables = container.env.get_or_insert_default();
        if variables.iter().all(|one| one.name != INDEX_VARIABLE) {
            let field = ObjectFieldSelector { field_path: format!("metadata.labels['{INDEX}']"), api_version: None };
            let source = EnvVarSource { field_ref: Some(field), ..EnvVarSource::default() };
            variables.push(EnvVar { name: INDEX_VARIABLE.to_owned(), value: None, value_from: Some(source) });
        }
    }
    pod
}
