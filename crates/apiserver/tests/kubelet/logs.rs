//! `pods/NAME/log`.

use super::{
    lab::{Lab, deaf, whole},
    standin::{StandIn, Trust},
};
use http_body_util::BodyExt;
use net::Family;
use runtime::pki::Authority;
use std::time::SystemTime;
use tokio::io::AsyncReadExt;

const LOG: &str = "/api/v1/namespaces/default/pods/p/log";

#[tokio::test]
async fn a_log_comes_from_the_kubelet_of_the_pods_node() {
    for family in Family::BOTH {
        let lab = Lab::new(family).await;
        let kubelet = lab.kubelet(family.loopback());
        lab.node(&[family.loopback()], kubelet.port).await;
        lab.pod("p", "n", &["c"], &[]).await;
        let query = "tailLines=5&timestamps=true&sinceSeconds=60&limitBytes=100";
        let reply = lab.ask("GET", &format!("{LOG}?{query}"), &[("accept", "text/plain"), ("cookie", "a=b")], "").await;
        assert_eq!((reply.status, reply.header("content-type")), (200, "text/plain"), "{}", reply.text());
        let seen = reply.json();
        assert_eq!(
            seen["uri"],
            "/containerLogs/default/p/c?timestamps=true&sinceSeconds=60&tailLines=5&limitBytes=100"
        );
        assert_eq!(seen["known"], true, "the server shows its certificate");
        assert!(!seen["headers"].to_string().contains("cookie"), "nothing of the client's is passed on: {seen}");
    }
}

#[tokio::test]
async fn a_log_comes_as_messages_of_a_websocket_too() {
    for family in Family::BOTH {
        let lab = Lab::new(family).await;
        let kubelet = lab.kubelet(family.loopback());
        lab.node(&[family.loopback()], kubelet.port).await;
        lab.pod("p", "n", &["c"], &[]).await;
        let plain = lab.get(LOG).await.text().to_owned();
        for (protocol, first) in [("binary.k8s.io", 0x82), ("base64.binary.k8s.io", 0x81)] {
            let headers = [
                ("connection", "Upgrade"),
                ("upgrade", "websocket"),
                ("sec-websocket-protocol", protocol),
                ("sec-websocket-version", "13"),
                ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="),
            ];
            let mut response = lab.open("GET", LOG, &headers, "".into()).await;
            assert_eq!(response.status(), 101);
            assert_eq!(response.headers()["sec-websocket-protocol"], protocol);
            assert_eq!(response.headers()["sec-websocket-accept"], "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
            let mut sent = Vec::new();
            let stream = hyper::upgrade::on(&mut response).await.unwrap();
            hyper_util::rt::TokioIo::new(stream).read_to_end(&mut sent).await.unwrap();
            assert_eq!(sent[0], first, "{protocol}");
            assert!(sent.ends_with(&[0x88, 2, 0x03, 0xe8]), "it is said that this is the end");
            if protocol == "binary.k8s.io" {
                let text = String::from_utf8_lossy(&sent);
                assert!(text.contains(&plain[plain.len() - 20..]), "{text}");
            }
        }
        let headers = [("connection", "Upgrade"), ("upgrade", "websocket"), ("sec-websocket-version", "8")];
        assert_eq!(whole(lab.open("GET", LOG, &headers, "".into()).await).await.status, 400);
    }
}

#[tokio::test]
async fn the_other_family_is_tried_when_the_first_does_not_answer() {
    let lab = Lab::new(Family::V4).await;
    for family in Family::BOTH {
        let (kubelet, _deaf) = std::iter::repeat_with(|| lab.kubelet(family.loopback()))
            .find_map(|kubelet| deaf(family.other(), kubelet.port).ok().map(|deaf| (kubelet, deaf)))
            .unwrap();
        lab.node(&[family.other().loopback(), family.loopback()], kubelet.port).await;
        lab.pod("p", "n", &["c"], &[]).await;
        assert_eq!(lab.get(LOG).await.status, 200, "{family}");
    }
}

#[tokio::test]
async fn what_cannot_be_read_is_told() {
    let lab = Lab::new(Family::V4).await;
    let kubelet = lab.kubelet(Family::V4.loopback());
    lab.node(&[Family::V4.loopback()], kubelet.port).await;
    lab.pod("p", "n", &["c"], &[]).await;
    lab.pod("two", "n", &["a", "b"], &[]).await;
    lab.pod("odd", "n", &["bad", "gone", "angry", "moved"], &[]).await;
    lab.pod("lost", "missing", &["c"], &[]).await;
    lab.pod("bare", "bare", &["c"], &[]).await;
    lab.put("minions/bare", serde_json::json!({"metadata": {"name": "bare"}})).await;
    lab.pod("waiting", "", &["c"], &[]).await;
    for (asked, code, message) in [
        ("none/log", 404, "pods \"none\" not found"),
        ("two/log", 400, "a container name must be specified for pod two, choose one of: [a b]"),
        ("two/log?container=c", 400, "container c is not valid for pod two"),
        (
            "p/log?tailLines=-1",
            422,
            "PodLogOptions \"p\" is invalid: tailLines: Invalid value: -1: must be greater than or equal to 0",
        ),
        ("lost/log", 404, "nodes \"missing\" not found"),
        (
            "bare/log",
            500,
            "Internal error occurred: no preferred addresses found for node bare; known addresses: []; wanted: Hostname,InternalDNS,InternalIP,ExternalDNS,ExternalIP",
        ),
        ("odd/log?container=bad", 400, "bad line count"),
        ("odd/log?container=gone", 404, "the server could not find the requested resource ( pods/log odd)"),
        ("odd/log?container=moved", 500, "Get \"/containerLogs/default/odd/moved\": redirects forbidden"),
        ("p/log/deeper", 404, "the server could not find the requested resource"),
    ] {
        let reply = lab.get(&format!("/api/v1/namespaces/default/pods/{asked}")).await;
        assert_eq!(reply.refusal(), (code, message.to_owned()), "{asked}");
    }
    let angry = lab.get("/api/v1/namespaces/default/pods/odd/log?container=angry").await.refusal();
    let length = angry.1.strip_prefix("Internal error occurred: ").map(str::len);
    assert_eq!((angry.0, length), (500, Some(50_000)), "of a long complaint the beginning");
    let waiting = lab.get("/api/v1/namespaces/default/pods/waiting/log").await;
    assert_eq!((waiting.status, waiting.bytes.len()), (204, 0));
    assert_eq!(lab.ask("POST", LOG, &[], "{}").await.refusal().0, 405);
}

#[tokio::test]
async fn a_kubelet_that_is_down_is_named() {
    for family in Family::BOTH {
        let lab = Lab::new(family).await;
        let deaf = deaf(family, 0).unwrap();
        let address = deaf.local_addr().unwrap();
        lab.node(&[family.loopback()], address.port()).await;
        lab.pod("p", "n", &["c"], &[]).await;
        let (code, message) = lab.get(LOG).await.refusal();
        assert_eq!(code, 500);
        assert!(message.starts_with(&format!("error dialing backend: dial tcp {address}: ")), "{message}");
    }
}

#[tokio::test]
async fn a_kubelet_of_another_authority_is_believed_only_on_request() {
    let lab = Lab::new(Family::V6).await;
    let stranger = Authority::create("stranger", SystemTime::now()).unwrap();
    let trust = Trust { authority: &stranger, clients: lab.authority.bundle() };
    let kubelet = StandIn::new(Family::V6.loopback(), Some(trust));
    lab.node(&[Family::V6.loopback()], kubelet.port).await;
    lab.pod("p", "n", &["c"], &[]).await;
    let (code, message) = lab.get(LOG).await.refusal();
    assert_eq!(code, 500);
    assert!(message.contains("TLS: ") && message.contains("certificate"), "{message}");
    let reply = lab.get(&format!("{LOG}?insecureSkipTLSVerifyBackend=true")).await;
    assert_eq!((reply.status, &reply.json()["known"]), (200, &serde_json::json!(true)));
}

#[tokio::test]
async fn a_followed_log_comes_line_by_line_and_ends_with_its_reader() {
    let lab = Lab::new(Family::V4).await;
    let mut kubelet = lab.kubelet(Family::V4.loopback());
    lab.node(&[Family::V4.loopback()], kubelet.port).await;
    lab.pod("p", "n", &["c"], &[]).await;
    let mut response = lab.open("GET", &format!("{LOG}?follow=true"), &[], "".into()).await;
    let frame = response.body_mut().frame().await.unwrap().unwrap();
    assert_eq!(frame.into_data().unwrap(), "first line\n");
    drop(response);
    assert_eq!(kubelet.ended.recv().await, Some("log"), "the kubelet is told that nobody reads");
    let mut response = lab.open("GET", &format!("{LOG}?follow=true"), &[], "".into()).await;
    response.body_mut().frame().await.unwrap().unwrap();
    lab.server.stop.cancel();
    assert!(response.body_mut().frame().await.is_none(), "a stopping server ends it");
    assert_eq!(kubelet.ended.recv().await, Some("log"));
}
