//! `proxy` of Pods, Services and nodes.

use super::{
    lab::{Lab, deaf},
    standin::StandIn,
};
use apiserver::kubelet::reach::Reach;
use hyper_util::rt::TokioIo;
use net::Family;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

const DEFAULT: &str = "/api/v1/namespaces/default";

fn lines(seen: &Value) -> Vec<&str> {
    seen["headers"].as_array().unwrap().iter().map(|line| line.as_str().unwrap()).collect()
}

#[tokio::test]
async fn a_pod_sees_the_request_but_no_credentials() {
    for family in Family::BOTH {
        let lab = Lab::new(family).await;
        let pod = StandIn::new(family.loopback(), None);
        lab.pod("p", "n", &["c"], &[family.loopback()]).await;
        let path = format!("{DEFAULT}/pods/p:{}/proxy/a%20b/../c/?x=1&x=2&watch=true", pod.port);
        // More than the API itself reads of a body.
        let body = vec![7_u8; 4 * 1024 * 1024];
        let headers = [
            ("authorization", "Bearer secret"),
            ("x-remote-user", "forged"),
            ("x-forwarded-for", "192.0.2.9"),
            ("cookie", "a=b"),
            ("accept", "text/css"),
        ];
        let reply = lab.ask("PUT", &path, &headers, body.clone()).await;
        assert_eq!(reply.status, 200, "{}", reply.text());
        let seen = reply.json();
        assert_eq!((&seen["method"], &seen["uri"]), (&json!("PUT"), &json!("/c/?x=1&x=2&watch=true")));
        assert_eq!(seen["body"], body.len());
        let lines = lines(&seen);
        let client = format!("x-forwarded-for: 192.0.2.9, {}", family.loopback());
        let uri = format!("x-forwarded-uri: {DEFAULT}/pods/p:{}/proxy/c/", pod.port);
        for line in ["host: api.test", "cookie: a=b", "accept: text/css", "x-forwarded-proto: https", &client, &uri] {
            assert!(lines.contains(&line), "{line} in {lines:?}");
        }
        let leaked = lines.iter().find(|line| line.contains("secret") || line.contains("forged"));
        assert_eq!(leaked, None);
    }
}

#[tokio::test]
async fn a_client_that_speaks_http2_is_served_but_for_streams() {
    let lab = Lab::new(Family::V6).await;
    let kubelet = lab.kubelet(Family::V6.loopback());
    let pod = StandIn::new(Family::V6.loopback(), None);
    lab.node(&[Family::V6.loopback()], kubelet.port).await;
    lab.pod("p", "n", &["c"], &[Family::V6.loopback()]).await;
    let proxied = format!("{DEFAULT}/pods/p:{}/proxy/x", pod.port);
    let seen = lab.ask_by_http2("POST", &proxied, "body").await.json();
    assert_eq!((&seen["method"], &seen["uri"], &seen["body"]), (&json!("POST"), &json!("/x"), &json!(4)));
    let lines = lines(&seen);
    assert!(lines.contains(&"host: api.test") && lines.contains(&"x-forwarded-host: api.test"), "{lines:?}");
    assert_eq!(lab.ask_by_http2("GET", &format!("{DEFAULT}/pods/p/log"), "").await.status, 200);
    let stream = lab.ask_by_http2("POST", &format!("{DEFAULT}/pods/p/portforward"), "").await;
    assert_eq!(stream.refusal(), (400, "Upgrade request required".to_owned()));
}

#[tokio::test]
async fn redirects_are_handed_back_and_never_followed() {
    let lab = Lab::new(Family::V4).await;
    let pod = StandIn::new(Family::V4.loopback(), None);
    lab.pod("p", "n", &["c"], &[Family::V4.loopback()]).await;
    let prefix = format!("{DEFAULT}/pods/p:{}/proxy", pod.port);
    let moved = lab.get(&format!("{prefix}/moved")).await;
    assert_eq!((moved.status, moved.header("location")), (302, format!("{prefix}/elsewhere?a=b").as_str()));
    assert_eq!(moved.header("access-control-allow-origin"), "");
    let root = lab.get(&format!("{prefix}?a=b")).await;
    assert_eq!((root.status, root.header("location")), (301, format!("{prefix}/?a=b").as_str()));
    assert_eq!(lab.ask("DELETE", &prefix, &[], "").await.json()["uri"], "/");
    assert_eq!(lab.ask("HEAD", &format!("{prefix}/x"), &[], "").await.status, 200);
    assert_eq!(lab.ask("TRACE", &format!("{prefix}/x"), &[], "").await.refusal().0, 405);
}

#[tokio::test]
async fn a_websocket_to_a_pod_is_passed_through() {
    for family in Family::BOTH {
        let lab = Lab::new(family).await;
        let mut pod = StandIn::new(family.loopback(), None);
        lab.pod("p", "n", &["c"], &[family.other().loopback(), family.loopback()]).await;
        let path = format!("{DEFAULT}/pods/p:{}/proxy/socket?q=1", pod.port);
        let headers = [("connection", "upgrade"), ("upgrade", "websocket")];
        let mut response = lab.open("GET", &path, &headers, "".into()).await;
        assert_eq!(response.status(), 101);
        let mut stream = TokioIo::new(hyper::upgrade::on(&mut response).await.unwrap());
        let mut read = [0; "GET /socket?q=1\nping".len()];
        stream.write_all(b"ping").await.unwrap();
        stream.read_exact(&mut read).await.unwrap();
        assert_eq!(&read, b"GET /socket?q=1\nping");
        drop(stream);
        assert_eq!(pod.ended.recv().await, Some("stream"));
    }
}

#[tokio::test]
async fn a_service_leads_to_one_of_its_pods() {
    for family in Family::BOTH {
        let lab = Lab::new(family).await;
        let pod = StandIn::new(family.loopback(), None);
        lab.pod("p", "n", &["c"], &[family.loopback()]).await;
        let spec = json!({"ipFamilies": [family.to_string()], "ports": [{"name": "web", "port": 80}]});
        lab.put("services/specs/default/s", json!({"metadata": {"name": "s", "namespace": "default"}, "spec": spec}))
            .await;
        let none = lab.get(&format!("{DEFAULT}/services/s:80/proxy/x")).await;
        assert_eq!(none.refusal(), (503, "no endpoints available for service \"s\"".to_owned()));
        let target = json!({"kind": "Pod", "namespace": "default", "name": "p"});
        let address = family.loopback().to_string();
        let port = json!([{"name": "web", "port": pod.port}]);
        let endpoints = json!({
            "metadata": {"name": "s", "namespace": "default"},
            "subsets": [{"addresses": [{"ip": address, "targetRef": target}], "ports": port}],
        });
        lab.put("services/endpoints/default/s", endpoints).await;
        assert_eq!(lab.get(&format!("{DEFAULT}/services/s:80/proxy/x")).await.json()["uri"], "/x", "by Endpoints");
        let slice = json!({
            "metadata": {"name": "s-1", "namespace": "default", "labels": {"kubernetes.io/service-name": "s"}},
            "addressType": family.to_string(), "ports": port,
            "endpoints": [{"addresses": [address], "conditions": {"ready": true}, "targetRef": target}],
        });
        lab.put("endpointslices/default/s-1", slice.clone()).await;
        for id in ["s:80", "s:web", "http:s:web"] {
            let reply = lab.get(&format!("{DEFAULT}/services/{id}/proxy/y?a=b")).await;
            assert_eq!((reply.status, &reply.json()["uri"]), (200, &json!("/y?a=b")), "{id}");
        }
        let mut elsewhere = slice;
        elsewhere["endpoints"][0]["addresses"] = json!([if family == Family::V4 { "127.0.0.2" } else { "::2" }]);
        lab.put("endpointslices/default/s-1", elsewhere).await;
        for (id, code, message) in [
            ("s:80", 503, "no endpoints available for service \"s\""),
            ("s:81", 503, "no service port 81 found for service \"s\""),
            ("none:80", 404, "services \"none\" not found"),
            (
                "ftp:s:80",
                400,
                "invalid service request \"ftp:s:80\"; give NAME, NAME:PORT or SCHEME:NAME:PORT, where SCHEME is http or https",
            ),
        ] {
            let reply = lab.get(&format!("{DEFAULT}/services/{id}/proxy/x")).await;
            assert_eq!(reply.refusal(), (code, message.to_owned()));
        }
    }
}

#[tokio::test]
async fn a_node_leads_to_its_kubelet_and_only_that_sees_the_certificate() {
    for family in Family::BOTH {
        let lab = Lab::new(family).await;
        let kubelet = lab.kubelet(family.loopback());
        let other = lab.kubelet(family.loopback());
        lab.node(&[family.loopback()], kubelet.port).await;
        for (id, known) in
            [("n".to_owned(), true), (format!("n:{}", kubelet.port), true), (format!("https:n:{}", other.port), false)]
        {
            let seen = lab.get(&format!("/api/v1/nodes/{id}/proxy/stats/summary")).await.json();
            assert_eq!((&seen["uri"], &seen["known"]), (&json!("/stats/summary"), &json!(known)), "{id}");
        }
        assert_eq!(lab.get("/api/v1/nodes/none/proxy/x").await.refusal(), (404, "nodes \"none\" not found".to_owned()));
    }
}

#[tokio::test]
async fn this_machine_is_out_of_reach_unless_allowed() {
    for family in Family::BOTH {
        let lab = Lab::with(family, Reach::GlobalUnicast).await;
        let kubelet = lab.kubelet(family.loopback());
        lab.node(&[family.loopback()], kubelet.port).await;
        lab.pod("p", "n", &["c"], &[family.loopback()]).await;
        lab.put("minions/named", json!({"metadata": {"name": "named"}, "status": {"addresses": [{"type": "Hostname", "address": "localhost"}]}})).await;
        let port = kubelet.port;
        for asked in [
            format!("{DEFAULT}/pods/p:{port}/proxy/x"),
            "/api/v1/nodes/n/proxy/x".into(),
            format!("/api/v1/nodes/named:{port}/proxy/x"),
        ] {
            let (code, message) = lab.get(&asked).await.refusal();
            assert_eq!(code, 400);
            assert!(message.starts_with("address not allowed: "), "{message}");
        }
        let log = lab.get(&format!("{DEFAULT}/pods/p/log")).await;
        assert_eq!(log.status, 200, "a node's own kubelet may be anywhere");
    }
}

#[tokio::test]
async fn metadata_services_are_out_of_reach_by_every_way_to_write_them() {
    let lab = Lab::new(Family::V4).await;
    for (index, address) in
        ["169.254.169.254", "fd00:ec2::254", "168.63.129.16", "::ffff:169.254.169.254", "64:ff9b::a9fe:a9fe", "fe80::1"]
            .into_iter()
            .enumerate()
    {
        let (pod, node) = (format!("p{index}"), format!("n{index}"));
        let ip: std::net::IpAddr = address.parse().unwrap();
        lab.pod(&pod, &node, &["c"], &[ip]).await;
        lab.put(
            &format!("minions/{node}"),
            json!({"metadata": {"name": node}, "status": {"addresses": [{"type": "InternalIP", "address": address}]}}),
        )
        .await;
        for asked in [format!("{DEFAULT}/pods/{pod}:80/proxy/x"), format!("/api/v1/nodes/{node}:80/proxy/x")] {
            let (code, message) = lab.get(&asked).await.refusal();
            assert_eq!(code, 400, "{asked} {message}");
            assert!(message.starts_with("address not allowed: "), "{message}");
        }
        let (code, message) = lab.get(&format!("{DEFAULT}/pods/{pod}/log")).await.refusal();
        assert_eq!(code, 500, "a node says where its kubelet is, and may be wrong");
        assert!(message.contains("error dialing backend: ") && message.contains(" is a "), "{message}");
    }
}

#[tokio::test]
async fn what_does_not_answer_is_unavailable() {
    for family in Family::BOTH {
        let lab = Lab::new(family).await;
        let deaf = deaf(family, 0).unwrap();
        let free = deaf.local_addr().unwrap();
        lab.pod("p", "n", &["c"], &[family.loopback()]).await;
        lab.pod("new", "n", &["c"], &[]).await;
        let (code, message) = lab.get(&format!("{DEFAULT}/pods/p:{}/proxy/x", free.port())).await.refusal();
        assert_eq!(code, 503);
        assert!(message.starts_with(&format!("error trying to reach service: dial tcp {free}: ")), "{message}");
        let (code, message) = lab.get(&format!("{DEFAULT}/pods/new:80/proxy/x")).await.refusal();
        assert_eq!((code, message.as_str()), (400, "address not allowed: pod new has no address yet"));
    }
}
