//! What the API is told, for Pods in every state.

use super::{Ended, Facts, status};
use crate::{
    pods::{
        failures::Failures,
        observe::{Observed, ObservedContainer, Sandbox, State},
    },
    probes::Verdict,
};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Pod, PodStatus};
use serde_json::{Value, json};
use std::{collections::BTreeMap, net::IpAddr};

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn pod(spec: Value) -> Pod {
    objects::from_value(
        &json!({"metadata": {"name": "p", "namespace": "ns", "uid": "u", "generation": 1}, "spec": spec}),
    )
    .unwrap()
}

fn one(policy: &str) -> Pod {
    pod(json!({"restartPolicy": policy, "containers": [{"name": "a", "image": "i"}]}))
}

fn container(name: &str, state: State, code: i32) -> ObservedContainer {
    ObservedContainer {
        id: format!("{name}-0"),
        sandbox: "s0".to_owned(),
        name: name.to_owned(),
        state,
        restarts: 0,
        created: 1,
        started: Some(at(10)),
        finished: (state == State::Exited).then(|| at(20)),
        exit_code: code,
        reason: String::new(),
        message: String::new(),
        image: "i".to_owned(),
        image_ref: "sha256:i".to_owned(),
        log: "/log".into(),
    }
}

fn told(pod: &Pod, containers: Vec<ObservedContainer>) -> PodStatus {
    told_with(pod, containers, &Failures::default(), None)
}

fn told_with(pod: &Pod, containers: Vec<ObservedContainer>, failures: &Failures, verdict: Option<&Ended>) -> PodStatus {
    let sandbox = Sandbox { id: "s0".to_owned(), ready: true, ..Sandbox::default() };
    let observed = Observed { sandboxes: vec![sandbox], containers };
    let host: Vec<IpAddr> = vec!["192.0.2.1".parse().unwrap(), "2001:db8::1".parse().unwrap()];
    let own: Vec<IpAddr> = vec!["10.0.0.2".parse().unwrap(), "fd00::2".parse().unwrap()];
    status(&Facts {
        pod,
        observed: &observed,
        failures,
        verdicts: &BTreeMap::from([("slow-0".to_owned(), Verdict { started: true, ready: false, failed: None })]),
        host_ips: &host,
        pod_ips: &own,
        verdict,
        ended: false,
        ending: verdict.is_some(),
        runtime: "containerd",
        now: at(25),
    })
}

fn condition(status: &PodStatus, kind: &str) -> (String, String) {
    let found = status.conditions.iter().flatten().find(|one| one.type_ == kind).unwrap();
    (found.status.clone(), found.message.clone().or_else(|| found.reason.clone()).unwrap_or_default())
}

#[test]
fn a_running_pod_is_ready_and_has_its_addresses_in_order() {
    let status = told(&one("Always"), vec![container("a", State::Running, 0)]);
    assert_eq!(status.phase.as_deref(), Some("Running"));
    assert_eq!((status.pod_ip.as_deref(), status.host_ip.as_deref()), (Some("10.0.0.2"), Some("192.0.2.1")));
    assert_eq!(status.pod_ips.iter().flatten().map(|one| one.ip.as_str()).collect::<Vec<_>>(), ["10.0.0.2", "fd00::2"]);
    for kind in ["PodReadyToStartContainers", "Initialized", "ContainersReady", "Ready", "PodScheduled"] {
        assert_eq!(condition(&status, kind).0, "True", "{kind}");
    }
    let first = &status.container_statuses.unwrap()[0];
    assert_eq!(
        (first.ready, first.started, first.container_id.as_deref()),
        (true, Some(true), Some("containerd://a-0"))
    );
}

#[test]
fn a_pod_that_waits_says_for_what() {
    let status = told(&one("Always"), vec![]);
    assert_eq!(status.phase.as_deref(), Some("Pending"));
    let state = status.container_statuses.clone().unwrap()[0].state.clone().unwrap();
    assert_eq!(state.waiting.unwrap().reason.as_deref(), Some("ContainerCreating"));
    assert_eq!(condition(&status, "Ready").1, "containers with unready status: [a]");
    let mut failures = Failures::default();
    failures.failed("a", "ErrImagePull", "no such image".to_owned(), at(20));
    let status = told_with(&one("Always"), vec![], &failures, None);
    let waiting = status.container_statuses.unwrap()[0].state.clone().unwrap().waiting.unwrap();
    assert_eq!((waiting.reason.as_deref(), waiting.message.as_deref()), (Some("ErrImagePull"), Some("no such image")));
}

#[test]
fn phases_are_upstreams() {
    for (policy, code, phase) in [
        ("Always", 0, "Running"),
        ("Always", 1, "Running"),
        ("OnFailure", 0, "Succeeded"),
        ("OnFailure", 1, "Running"),
        ("Never", 0, "Succeeded"),
        ("Never", 1, "Failed"),
    ] {
        let status = told(&one(policy), vec![container("a", State::Exited, code)]);
        assert_eq!(status.phase.as_deref(), Some(phase), "{policy} {code}");
    }
}

#[test]
fn a_container_in_back_off_shows_how_it_ended() {
    let mut failures = Failures::default();
    failures.restarted("a", at(15));
    let status = told_with(&one("Always"), vec![container("a", State::Exited, 3)], &failures, None);
    let first = status.container_statuses.unwrap().remove(0);
    let waiting = first.state.unwrap().waiting.unwrap();
    assert_eq!(waiting.reason.as_deref(), Some("CrashLoopBackOff"));
    assert_eq!(waiting.message.as_deref(), Some("back-off 10s restarting failed container=a pod=p_ns(u)"));
    assert_eq!(first.last_state.unwrap().terminated.unwrap().exit_code, 3);
}

#[test]
fn init_containers_hold_the_pod_back() {
    let pod =
        pod(json!({"initContainers": [{"name": "i", "image": "i"}], "containers": [{"name": "a", "image": "i"}]}));
    let status = told(&pod, vec![container("i", State::Running, 0)]);
    assert_eq!(status.phase.as_deref(), Some("Pending"));
    assert_eq!(
        condition(&status, "Initialized"),
        ("False".to_owned(), "containers with incomplete status: [i]".to_owned())
    );
    let waiting = status.container_statuses.unwrap()[0].state.clone().unwrap().waiting.unwrap();
    assert_eq!(waiting.reason.as_deref(), Some("PodInitializing"));
    let status = told(&pod, vec![container("i", State::Created, 0)]);
    let waiting = status.init_container_statuses.unwrap()[0].state.clone().unwrap().waiting.unwrap();
    assert_eq!(waiting.reason.as_deref(), Some("PodInitializing"), "made, and not started yet");
    let status = told(&pod, vec![container("i", State::Exited, 0), container("a", State::Running, 0)]);
    assert_eq!((status.phase.as_deref(), condition(&status, "Initialized").0.as_str()), (Some("Running"), "True"));
}

#[test]
fn readiness_is_the_probes_and_the_gates() {
    let probed = pod(json!({"containers": [{"name": "slow", "image": "i"}]}));
    let status = told(&probed, vec![container("slow", State::Running, 0)]);
    assert_eq!((status.phase.as_deref(), condition(&status, "ContainersReady").0.as_str()), (Some("Running"), "False"));
    let gated = pod(json!({"readinessGates": [{"conditionType": "lb"}], "containers": [{"name": "a", "image": "i"}]}));
    let status = told(&gated, vec![container("a", State::Running, 0)]);
    assert_eq!(condition(&status, "ContainersReady").0, "True");
    let (ready, why) = condition(&status, "Ready");
    assert_eq!(
        (ready.as_str(), why.as_str()),
        ("False", "corresponding condition of pod readiness gate \"lb\" does not exist.")
    );
}

#[test]
fn a_pod_that_was_ended_says_why() {
    let ended = Ended { reason: "DeadlineExceeded".to_owned(), message: "too late".to_owned() };
    let status = told_with(&one("Always"), vec![container("a", State::Running, 0)], &Failures::default(), Some(&ended));
    assert_eq!((status.phase.as_deref(), status.reason.as_deref()), (Some("Failed"), Some("DeadlineExceeded")));
}

#[test]
fn a_container_that_vanished_is_not_forgotten() {
    let mut pod = one("Never");
    pod.status = Some(told(&pod, vec![container("a", State::Running, 0)]));
    let status = told(&pod, vec![]);
    let state = status.container_statuses.unwrap()[0].state.clone().unwrap();
    assert_eq!(state.terminated.unwrap().reason.as_deref(), Some("ContainerStatusUnknown"));
    assert_eq!(status.phase.as_deref(), Some("Failed"));
}
