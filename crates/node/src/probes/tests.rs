//! Tables of thresholds and targets, and probes against servers of the test on each family's loopback.

use super::{
    state::{Answer, Count, Kind, Known},
    *,
};
use k8s_openapi::api::core::v1::{HTTPGetAction, Probe, TCPSocketAction};
use serde_json::{Value, json};
use std::time::Duration;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
};

fn pod(annotations: Value) -> Pod {
    let metadata = json!({"name": "p", "namespace": "n", "uid": "u", "annotations": annotations});
    let status = json!({"containerStatuses": [{"name": "c", "image": "i", "imageID": "", "restartCount": 0,
        "containerID": "containerd://id-1", "ready": true, "started": true}]});
    objects::from_value(&json!({"metadata": metadata, "spec": {"containers": []}, "status": status})).unwrap()
}

fn container(value: Value) -> Container {
    let mut whole = json!({"name": "c"});
    for (key, value) in value.as_object().into_iter().flatten() {
        whole[key] = value.clone();
    }
    let pod: Pod = objects::from_value(&json!({"spec": {"containers": [whole]}})).unwrap();
    pod.spec.unwrap().containers.remove(0)
}

#[test]
fn answers_count_in_a_row() {
    let probe = |success, failure| Probe {
        success_threshold: Some(success),
        failure_threshold: Some(failure),
        ..Probe::default()
    };
    for (success, failure, answers, want) in [
        (1, 3, "++", "++"),
        (1, 3, "---", "..-"),
        (1, 3, "--+---", "..+..-"),
        (2, 1, "+-++", ".-.+"),
        (0, 0, "---+", "..-+"),
    ] {
        let mut count = Count::new(&probe(success, failure));
        let shown: String = answers
            .chars()
            .map(|answer| match count.add(answer == '+') {
                Some(true) => '+',
                Some(false) => '-',
                None => '.',
            })
            .collect();
        assert_eq!(shown, want, "{success} {failure} {answers}");
    }
}

#[test]
fn nothing_is_asked_before_the_start_nor_after_a_failure() {
    let probe = json!({"tcpSocket": {"port": 80}});
    let all = container(json!({"startupProbe": probe, "livenessProbe": probe, "readinessProbe": probe}));
    let mut known = Known::new(&pod(json!({})), &all, "id-1", false);
    assert_eq!(known.verdict(), Verdict { started: false, ready: false, failed: None });
    assert_eq!(Kind::ALL.map(|kind| known.asks(kind)), [true, false, false]);
    assert!(known.decide(Kind::Startup, true, "", None));
    assert_eq!(Kind::ALL.map(|kind| known.asks(kind)), [false, true, true]);
    assert!(known.decide(Kind::Readiness, true, "", None));
    assert!(!known.decide(Kind::Readiness, true, "", None));
    assert_eq!(known.verdict(), Verdict { started: true, ready: true, failed: None });
    assert!(known.decide(Kind::Liveness, false, "refused", Some(5)));
    let failed = Some(ProbeFailure { probe: "liveness", message: "refused".into(), grace: Some(5) });
    assert_eq!(known.verdict(), Verdict { started: true, ready: true, failed });
    assert_eq!(Kind::ALL.map(|kind| known.asks(kind)), [false, false, false]);
}

#[test]
fn what_was_known_of_a_container_outlives_a_kubelet() {
    let probe = json!({"tcpSocket": {"port": 80}});
    let all = container(json!({"startupProbe": probe, "readinessProbe": probe}));
    for (id, older, want) in [("id-1", true, true), ("id-1", false, false), ("id-2", true, false)] {
        let verdict = Known::new(&pod(json!({})), &all, id, older).verdict();
        assert_eq!((verdict.started, verdict.ready), (want, want), "{id} {older}");
    }
    let none = Known::new(&pod(json!({})), &container(json!({})), "id-2", false).verdict();
    assert_eq!(none, Verdict { started: true, ready: true, failed: None });
}

#[test]
fn the_family_is_the_nodes_first_or_the_one_that_is_asked_for() {
    let both: [IpAddr; 2] = ["10.1.0.2".parse().unwrap(), "fd00::2".parse().unwrap()];
    let reversed = [both[1], both[0]];
    let own = container(json!({"ports": [{"name": "web", "containerPort": 8080}]}));
    for (annotations, ips, want) in [
        (json!({}), &both[..], Ok("10.1.0.2")),
        (json!({}), &reversed[..], Ok("fd00::2")),
        (json!({"twinstack.dev/probe-ip-family": "IPv6"}), &both[..], Ok("fd00::2")),
        (json!({"twinstack.dev/probe-ip-family": "IPv4"}), &reversed[..], Ok("10.1.0.2")),
        (
            json!({"twinstack.dev/probe-ip-family": "IPv6"}),
            &both[..1],
            Err("annotation twinstack.dev/probe-ip-family: the Pod has no IPv6 address"),
        ),
        (
            json!({"twinstack.dev/probe-ip-family": "any"}),
            &both[..],
            Err("annotation twinstack.dev/probe-ip-family: \"any\" is not accepted; give IPv4 or IPv6"),
        ),
        (json!({}), &[][..], Err("the Pod has no address yet")),
    ] {
        let pod = pod(annotations);
        let target = Target { pod: &pod, container: &own, container_id: "x", pod_ips: ips };
        let found = target.address().map(|address| address.to_string());
        assert_eq!(found, want.map(str::to_owned).map_err(str::to_owned));
    }
}

#[test]
fn ports_have_names_and_addresses_brackets() {
    let own = container(json!({"ports": [{"name": "web", "containerPort": 8080}]}));
    let (pod, ips) = (pod(json!({})), ["fd00::2".parse().unwrap()]);
    let target = Target { pod: &pod, container: &own, container_id: "x", pod_ips: &ips };
    for (action, want) in [
        (json!({"port": 80}), Ok("http://[fd00::2]:80/")),
        (json!({"port": "web", "path": "healthz?a=b", "scheme": "HTTPS"}), Ok("https://[fd00::2]:8080/healthz?a=b")),
        (json!({"port": 1, "host": "127.0.0.1"}), Ok("http://127.0.0.1:1/")),
        (json!({"port": "none"}), Err("couldn't find port: \"none\" in the container's ports")),
        (json!({"port": 70000}), Err("invalid port number: 70000")),
    ] {
        let action: HTTPGetAction = serde_json::from_value(action).unwrap();
        let url = http::Question::new(&action, &target, http::Asker::Probe).map(|question| question.url());
        assert_eq!(url, want.map(str::to_owned).map_err(str::to_owned));
    }
}

/// Answers each connection with the next of these texts.
async fn server(address: &str, answers: Vec<&'static str>) -> Option<u16> {
    let listener = TcpListener::bind((address, 0)).await.ok()?;
    let port = listener.local_addr().ok()?.port();
    runtime::task::beside("test", async move {
        for answer in answers {
            let Ok((mut stream, _)) = listener.accept().await else { return };
            let mut heard = [0; 1024];
            let _ = stream.read(&mut heard).await;
            let _ = stream.write_all(answer.as_bytes()).await;
        }
    });
    Some(port)
}

#[tokio::test]
async fn servers_of_both_families_are_asked() {
    let (pod, own) = (pod(json!({})), container(json!({})));
    for address in ["127.0.0.1", "::1"] {
        let answers = vec![
            "HTTP/1.1 204 No Content\r\n\r\n",
            "HTTP/1.1 503 Unavailable\r\ncontent-length: 0\r\n\r\n",
            "HTTP/1.1 302 Found\r\nlocation: /next\r\ncontent-length: 0\r\n\r\n",
            "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n",
            "HTTP/1.1 302 Found\r\nlocation: http://elsewhere.test/\r\ncontent-length: 4\r\n\r\ngone",
        ];
        let Some(port) = server(address, answers).await else { continue };
        let ips = [address.parse().unwrap()];
        let target = Target { pod: &pod, container: &own, container_id: "x", pod_ips: &ips };
        let action: HTTPGetAction = serde_json::from_value(json!({"port": port})).unwrap();
        for want in [
            Answer::Healthy,
            Answer::Unhealthy("HTTP probe failed with statuscode: 503".to_owned()),
            Answer::Healthy,
            Answer::Warning("Probe terminated redirects, Response body: gone".to_owned()),
        ] {
            assert_eq!(http::probe(&action, &target, Duration::from_secs(20)).await, want, "{address}");
        }
        // Nobody listens any more.
        let shown = target::host_port(address, port);
        let refused = format!("dial tcp {shown}: connect: connection refused");
        let action: TCPSocketAction = serde_json::from_value(json!({"port": port})).unwrap();
        while tcp::probe(&action, &target, Duration::from_secs(20)).await == Answer::Healthy {
            tokio::task::yield_now().await;
        }
        assert_eq!(tcp::probe(&action, &target, Duration::from_secs(20)).await, Answer::Unhealthy(refused));
    }
}
