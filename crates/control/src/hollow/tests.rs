use super::{
    HollowOptions, behaviour,
    status::{Step, View},
};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Pod, PodStatus};
use serde_json::{Value, from_value, json};
use std::{net::IpAddr, time::Duration};

fn pod(annotations: Value, spec: Value) -> Pod {
    let mut value = json!({
        "metadata": {"name": "p", "uid": "u", "annotations": annotations},
        "spec": {"nodeName": "hollow-0", "containers": [{"name": "c", "image": "i"}]},
        "status": {"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}]},
    });
    for (field, given) in spec.as_object().unwrap() {
        value["spec"][field] = given.clone();
    }
    from_value(value).unwrap()
}

fn step(pod: &Pod, waited: u64, addresses: &[&str]) -> Step {
    let parse = |list: &[&str]| list.iter().map(|ip| ip.parse().unwrap()).collect::<Vec<IpAddr>>();
    let (host, addresses) = (parse(&["198.18.0.1", "2001:db8:0:1::1"]), parse(addresses));
    let now: Timestamp = "2026-01-01T00:01:00Z".parse().unwrap();
    let behaviour = behaviour::of(pod, &HollowOptions::default());
    View { pod, host: &host, addresses: &addresses, behaviour, waited: Duration::from_secs(waited), now }.step()
}

fn written(step: Step) -> PodStatus {
    match step {
        Step::Write(status, _) => *status,
        other => panic!("{other:?}"),
    }
}

fn condition(status: &PodStatus, kind: &str) -> String {
    status.conditions.iter().flatten().find(|one| one.type_ == kind).map(|one| one.status.clone()).unwrap_or_default()
}

#[test]
fn a_pod_runs_with_the_addresses_it_is_given() {
    for addresses in [vec!["10.0.0.2"], vec!["fd00::2"], vec!["10.0.0.2", "fd00::2"], vec!["fd00::2", "10.0.0.2"]] {
        let mut pod = pod(json!({}), json!({}));
        let status = written(step(&pod, 0, &addresses));
        assert_eq!(status.phase.as_deref(), Some("Running"));
        assert_eq!(status.pod_ip.as_deref(), addresses.first().copied());
        let ips: Vec<&str> = status.pod_ips.iter().flatten().map(|ip| ip.ip.as_str()).collect();
        assert_eq!(ips, addresses);
        assert_eq!((condition(&status, "Ready"), condition(&status, "PodScheduled")), ("True".into(), "True".into()));
        pod.status = Some(status);
        assert_eq!(step(&pod, 9, &addresses), Step::Nothing, "written once");
    }
}

#[test]
fn a_pod_waits_for_its_addresses_and_its_time() {
    assert_eq!(step(&pod(json!({}), json!({})), 5, &[]), Step::Nothing);
    let slow = pod(json!({"hollow.twinstack.dev/start-delay": "8s"}), json!({}));
    assert_eq!(step(&slow, 5, &["10.0.0.2"]), Step::Wait(Duration::from_secs(3)));
    assert!(matches!(step(&slow, 8, &["10.0.0.2"]), Step::Write(..)));
}

#[test]
fn a_deleted_pod_ends_within_its_grace() {
    let mut pod = pod(json!({"hollow.twinstack.dev/stop-delay": "60s"}), json!({}));
    pod.metadata.deletion_timestamp = from_value(json!("2026-01-01T00:01:00Z")).unwrap();
    pod.metadata.deletion_grace_period_seconds = Some(30);
    assert_eq!(step(&pod, 10, &["10.0.0.2"]), Step::Wait(Duration::from_secs(20)));
    assert_eq!(step(&pod, 30, &["10.0.0.2"]), Step::Remove);
}

#[test]
fn a_pod_that_sleeps_before_it_stops_is_waited_for() {
    let sleeps = json!([{"name": "c", "image": "i", "lifecycle": {"preStop": {"sleep": {"seconds": 20}}}}]);
    let mut pod = pod(json!({}), json!({"containers": sleeps}));
    pod.metadata.deletion_timestamp = from_value(json!("2026-01-01T00:01:00Z")).unwrap();
    for (grace, left) in [(30, 19), (5, 4)] {
        pod.metadata.deletion_grace_period_seconds = Some(grace);
        assert_eq!(step(&pod, 1, &["10.0.0.2"]), Step::Wait(Duration::from_secs(left)));
    }
}

#[test]
fn pods_fail_as_they_are_asked_to() {
    for (failure, policy, phase, ready, reason) in [
        ("pull", "Always", "Pending", "False", "ImagePullBackOff"),
        ("ready", "Always", "Running", "False", ""),
        ("crash", "Always", "Running", "False", "CrashLoopBackOff"),
        ("crash", "Never", "Failed", "False", ""),
    ] {
        let pod = pod(json!({"hollow.twinstack.dev/fail": failure}), json!({"restartPolicy": policy}));
        let status = written(step(&pod, 0, &["10.0.0.2"]));
        assert_eq!((status.phase.as_deref(), condition(&status, "Ready").as_str()), (Some(phase), ready), "{failure}");
        let state = status.container_statuses.clone().unwrap().remove(0).state.unwrap();
        assert_eq!(state.waiting.and_then(|waiting| waiting.reason).unwrap_or_default(), reason, "{failure}");
    }
}

#[test]
fn what_crashes_is_started_again_later_each_time() {
    let mut pod = pod(json!({"hollow.twinstack.dev/fail": "crash"}), json!({"restartPolicy": "Always"}));
    for (started, restarts, next, message) in [
        ("2026-01-01T00:01:00Z", 1, 10, "back-off 10s restarting failed container=c pod=p_(u)"),
        ("2026-01-01T00:00:50Z", 2, 20, "back-off 20s restarting failed container=c pod=p_(u)"),
        ("2026-01-01T00:00:25Z", 3, 35, "back-off 40s restarting failed container=c pod=p_(u)"),
        ("2025-12-31T23:01:00Z", 16, 10, "back-off 5m0s restarting failed container=c pod=p_(u)"),
    ] {
        pod.status.as_mut().unwrap().start_time = from_value(json!(started)).unwrap();
        let Step::Write(status, left) = step(&pod, 0, &["10.0.0.2"]) else { panic!() };
        let container = status.container_statuses.unwrap().remove(0);
        let waiting = container.state.unwrap().waiting.unwrap();
        assert_eq!(waiting.message.as_deref(), Some(message), "{started}");
        assert_eq!((container.restart_count, left), (restarts, Some(Duration::from_secs(next))), "{started}");
        assert_eq!(container.last_state.unwrap().terminated.unwrap().exit_code, 1);
    }
}

#[test]
fn a_node_without_a_pod_cidr_is_not_ready() {
    let now: Timestamp = "2026-01-01T00:01:00Z".parse().unwrap();
    for (spec, expected) in
        [(json!({}), ("False", "KubeletNotReady")), (json!({"podCIDRs": ["fd00::/64"]}), ("True", "KubeletReady"))]
    {
        let node: k8s_openapi::api::core::v1::Node = from_value(
            json!({"metadata": {"name": "hollow-0"}, "spec": spec, "status": {"capacity": {"example.com/x": "3"}}}),
        )
        .unwrap();
        let status = super::node::status(&node, 0, &HollowOptions::default(), now);
        let ready = status.conditions.unwrap().into_iter().find(|one| one.type_ == "Ready").unwrap();
        assert_eq!((ready.status.as_str(), ready.reason.as_deref().unwrap()), expected);
        assert_eq!(status.allocatable.unwrap()["example.com/x"].0, "3", "what others say that it has");
    }
}

#[test]
fn a_pod_may_end_by_itself() {
    let mut pod = pod(json!({"hollow.twinstack.dev/run-for": "10s"}), json!({"restartPolicy": "Never"}));
    let Step::Write(status, left) = step(&pod, 4, &["10.0.0.2"]) else { panic!() };
    assert_eq!((status.phase.as_deref(), left), (Some("Running"), Some(Duration::from_secs(6))));
    pod.status = Some(*status);
    let ended = written(step(&pod, 10, &["10.0.0.2"]));
    assert_eq!(ended.phase.as_deref(), Some("Succeeded"));
    pod.status = Some(ended);
    assert_eq!(step(&pod, 11, &["10.0.0.2"]), Step::Nothing);
}

#[test]
fn a_pod_may_end_with_an_error() {
    for (policy, phase, code) in [("Never", "Failed", Some(42)), ("OnFailure", "Running", None)] {
        let given = json!({"hollow.twinstack.dev/run-for": "1s", "hollow.twinstack.dev/exit-code": "42"});
        let status = written(step(&pod(given, json!({"restartPolicy": policy})), 1, &["10.0.0.2"]));
        let state = status.container_statuses.clone().unwrap().remove(0).state.unwrap();
        assert_eq!(status.phase.as_deref(), Some(phase));
        assert_eq!(state.terminated.map(|end| end.exit_code), code);
    }
}

#[test]
fn a_deleted_pod_that_somebody_waits_for_says_how_it_ended() {
    let mut pod = pod(json!({}), json!({"restartPolicy": "Never"}));
    pod.metadata.deletion_timestamp = from_value(json!("2026-01-01T00:01:00Z")).unwrap();
    pod.metadata.finalizers = Some(vec!["example.com/count".to_owned()]);
    let status = written(step(&pod, 0, &["10.0.0.2"]));
    assert_eq!(status.phase.as_deref(), Some("Failed"));
    pod.status = Some(status);
    assert_eq!(step(&pod, 0, &["10.0.0.2"]), Step::Remove);
}

#[test]
fn readiness_gates_are_waited_for() {
    let mut pod = pod(json!({}), json!({"readinessGates": [{"conditionType": "lb"}]}));
    let status = written(step(&pod, 0, &["10.0.0.2"]));
    assert_eq!((condition(&status, "ContainersReady"), condition(&status, "Ready")), ("True".into(), "False".into()));
    pod.status = Some(status);
    let open = from_value(json!({"type": "lb", "status": "True"})).unwrap();
    pod.status.as_mut().unwrap().conditions.as_mut().unwrap().push(open);
    assert_eq!(condition(&written(step(&pod, 1, &["10.0.0.2"])), "Ready"), "True");
}
