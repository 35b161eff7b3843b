//! `exec`, `attach` and `portforward`: SPDY and WebSocket, passed through byte by byte.

use super::lab::{Lab, deaf, whole};
use hyper_util::rt::TokioIo;
use net::Family;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

const POD: &str = "/api/v1/namespaces/default/pods/p";
const SPDY: [(&str, &str); 3] =
    [("connection", "Upgrade"), ("upgrade", "SPDY/3.1"), ("x-stream-protocol-version", "v4.channel.k8s.io")];

fn websocket(protocol: &str) -> [(&str, &str); 5] {
    [
        ("connection", "keep-alive, Upgrade"),
        ("upgrade", "websocket"),
        ("sec-websocket-protocol", protocol),
        ("sec-websocket-version", "13"),
        ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="),
    ]
}

async fn lab(family: Family) -> (Lab, super::standin::StandIn) {
    let lab = Lab::new(family).await;
    let kubelet = lab.kubelet(family.loopback());
    lab.node(&[family.loopback()], kubelet.port).await;
    lab.pod("p", "n", &["c"], &[]).await;
    lab.pod("odd", "n", &["gone", "idle", "moved"], &[]).await;
    lab.pod("waiting", "", &["c"], &[]).await;
    (lab, kubelet)
}

#[tokio::test]
async fn streams_are_passed_through_whatever_they_speak() {
    let v5 = websocket("v5.channel.k8s.io");
    let v4 = websocket("v4.channel.k8s.io");
    let tunnel = websocket("SPDY/3.1+portforward.k8s.io");
    for family in Family::BOTH {
        let (lab, mut kubelet) = lab(family).await;
        for (method, asked, headers, protocol, greeting) in [
            (
                "POST",
                "exec?command=ls&command=-l&stdout=true&stdin=true",
                &SPDY[..],
                ("x-stream-protocol-version", "v4.channel.k8s.io"),
                "POST /exec/default/p/c?command=ls&command=-l&input=1&output=1\n",
            ),
            (
                "GET",
                "exec?command=ls&stdout=true",
                &v5[..],
                ("sec-websocket-protocol", "v5.channel.k8s.io"),
                "GET /exec/default/p/c?command=ls&output=1\n",
            ),
            (
                "GET",
                "attach?stdout=true&container=c",
                &v4[..],
                ("sec-websocket-protocol", "v4.channel.k8s.io"),
                "GET /attach/default/p/c?output=1\n",
            ),
            (
                "POST",
                "portforward",
                &SPDY[..],
                ("x-stream-protocol-version", "v4.channel.k8s.io"),
                "POST /portForward/default/p\n",
            ),
            (
                "GET",
                "portforward?ports=80",
                &tunnel[..],
                ("sec-websocket-protocol", "SPDY/3.1+portforward.k8s.io"),
                "GET /portForward/default/p?port=80\n",
            ),
        ] {
            for last_word in ["client", "kubelet"] {
                let mut response = lab.open(method, &format!("{POD}/{asked}"), headers, "".into()).await;
                assert_eq!(response.status(), 101, "{asked}");
                assert_eq!(response.headers()["upgrade"], headers[1].1);
                assert_eq!(response.headers()[protocol.0], protocol.1);
                let mut stream = TokioIo::new(hyper::upgrade::on(&mut response).await.unwrap());
                let mut read = vec![0; greeting.len()];
                stream.read_exact(&mut read).await.unwrap();
                assert_eq!(String::from_utf8(read).unwrap(), greeting);
                for bytes in [&b"ping"[..], &[0, 255, 128, 13, 10]] {
                    stream.write_all(bytes).await.unwrap();
                    let mut read = vec![0; bytes.len()];
                    stream.read_exact(&mut read).await.unwrap();
                    assert_eq!(read, bytes);
                }
                match last_word {
                    "client" => drop(stream),
                    _ => {
                        stream.write_all(b"quit").await.unwrap();
                        assert_eq!(stream.read(&mut [0; 8]).await.unwrap(), 0, "{asked}: the end comes through");
                    }
                }
                assert_eq!(kubelet.ended.recv().await, Some("stream"), "{asked} ended by the {last_word}");
            }
        }
    }
}

#[tokio::test]
async fn a_stopping_server_ends_its_streams() {
    let (lab, mut kubelet) = lab(Family::V6).await;
    let mut response = lab.open("POST", &format!("{POD}/portforward"), &SPDY, "".into()).await;
    let mut stream = TokioIo::new(hyper::upgrade::on(&mut response).await.unwrap());
    lab.server.stop.cancel();
    let mut rest = Vec::new();
    let _ = stream.read_to_end(&mut rest).await;
    assert_eq!(kubelet.ended.recv().await, Some("stream"));
}

#[tokio::test]
async fn what_cannot_become_a_stream_is_told() {
    let (lab, _kubelet) = lab(Family::V4).await;
    for (asked, headers, code, message) in [
        ("p/exec?command=ls&stdout=1", &[][..], 400, "Upgrade request required"),
        ("p/exec?stdout=1", &SPDY[..], 400, "you must specify a command: give the parameter \"command\" once per word"),
        ("p/attach?stdout=1&container=x", &SPDY[..], 400, "container x is not valid for pod p"),
        ("p/portforward?dryRun=All", &SPDY[..], 400, "dryRun is not supported"),
        ("none/portforward", &SPDY[..], 404, "pods \"none\" not found"),
        ("waiting/portforward", &SPDY[..], 400, "pod waiting does not have a host assigned"),
        ("odd/attach?stdout=1&container=idle", &SPDY[..], 500, "invalid upgrade response: status code 200"),
        ("odd/attach?stdout=1&container=moved", &SPDY[..], 500, "invalid upgrade response: status code 302"),
    ] {
        let reply = lab.ask("POST", &format!("/api/v1/namespaces/default/pods/{asked}"), headers, "").await;
        assert_eq!(reply.refusal(), (code, message.to_owned()), "{asked}");
    }
    let path = "/api/v1/namespaces/default/pods/odd/attach?stdout=1&container=gone";
    let refused = lab.ask("POST", path, &SPDY, "").await;
    assert_eq!((refused.status, refused.text()), (404, "container not found (\"gone\")"), "the kubelet's own words");
    let wrong = lab.ask("DELETE", &format!("{POD}/portforward"), &SPDY, "").await;
    assert_eq!(wrong.refusal().0, 405);
}

#[tokio::test]
async fn a_node_that_is_gone_is_told() {
    for family in Family::BOTH {
        let lab = Lab::new(family).await;
        lab.pod("p", "n", &["c"], &[]).await;
        let reply = lab.ask("POST", &format!("{POD}/portforward"), &SPDY, "").await;
        assert_eq!(reply.refusal(), (404, "nodes \"n\" not found".to_owned()));
        let deaf = deaf(family, 0).unwrap();
        let free = deaf.local_addr().unwrap();
        lab.node(&[family.loopback()], free.port()).await;
        let (code, message) = lab.ask("POST", &format!("{POD}/portforward"), &SPDY, "").await.refusal();
        assert_eq!(code, 500);
        assert!(message.starts_with(&format!("error dialing backend: dial tcp {free}: ")), "{message}");
    }
}

#[tokio::test]
async fn who_opens_a_stream_by_get_needs_to_be_allowed_to_create_one() {
    let (lab, _kubelet) = lab(Family::V4).await;
    for (name, verbs) in [("reader", json!(["get"])), ("runner", json!(["get", "create"]))] {
        let rules = json!([{"apiGroups": [""], "resources": ["pods/portforward"], "verbs": verbs}]);
        let role = json!({"metadata": {"name": name}, "rules": rules});
        let subjects = json!([{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": name}]);
        let reference = json!({"kind": "ClusterRole", "apiGroup": "rbac.authorization.k8s.io", "name": name});
        let binding = json!({"metadata": {"name": name}, "subjects": subjects, "roleRef": reference});
        let group = "/apis/rbac.authorization.k8s.io/v1";
        for (plural, object) in [("clusterroles", role), ("clusterrolebindings", binding)] {
            let made = lab.ask("POST", &format!("{group}/{plural}"), &[], object.to_string()).await;
            assert_eq!(made.status, 201, "{}", made.text());
        }
    }
    let headers = websocket("v5.channel.k8s.io");
    for (user, status) in [("reader", 403), ("runner", 101)] {
        // The authorizer follows the store, a moment later.
        let mut seen = 0;
        for _ in 0..3000 {
            let request = lab.request("GET", &format!("{POD}/portforward"), &headers, "".into());
            let response = lab.send((user, "people"), request).await;
            seen = response.status().as_u16();
            if seen == 101 {
                break;
            }
            let message = whole(response).await.refusal().1;
            if user == "reader" && message.contains("cannot create resource") {
                break;
            }
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
        assert_eq!(seen, status, "{user}");
    }
}
