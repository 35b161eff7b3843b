//! Other servers behind APIServices: a server of its own with TLS, reached over both families, away and back.

#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used)]

mod support;

use access::authn::User;
use apiserver::{
    ApiServer,
    aggregation::{Aggregation, FrontProxy},
    handle::Insider,
    kubelet::{Kubelets, Settings, reach::Reach},
    testing::Lab,
};
use base64::{Engine, engine::general_purpose::STANDARD};
use bytes::Bytes;
use futures::StreamExt;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::Incoming;
use parking_lot::Mutex;
use runtime::{
    http::{Body, Limits, Peer, Server, full},
    pki::{Authority, Purpose, Rotating},
    tls,
};
use serde_json::{Value, json};
use std::{
    convert::Infallible,
    net::{IpAddr, TcpListener},
    sync::Arc,
    time::{Duration, SystemTime},
};
use support::{Reply, ask, make, send};
use tokio_util::{
    sync::{CancellationToken, DropGuard},
    task::TaskTracker,
};

const SERVICES: &str = "/apis/apiregistration.k8s.io/v1/apiservices";
const OWN: &str = "/apis/metrics.example.com/v1beta1";

/// A server that answers for `metrics.example.com/v1beta1`.
struct StandIn {
    port: u16,
    bundle: String,
    asked: Arc<Mutex<Vec<String>>>,
    _running: DropGuard,
}

impl StandIn {
    /// One that believes front proxies signed by this authority.
    fn new(address: IpAddr, port: u16, proxies: &Authority) -> Self {
        let authority = Authority::create("backend", SystemTime::now()).unwrap();
        let purpose = Purpose::Serving { names: vec!["metrics.default.svc".into()], addresses: vec![] };
        let identity = authority.issue(&purpose, SystemTime::now()).unwrap();
        let listener = TcpListener::bind((address, port)).unwrap();
        listener.set_nonblocking(true).unwrap();
        let port = listener.local_addr().unwrap().port();
        let tls = tls::server_config(Rotating::new(&identity).unwrap(), Some(proxies.bundle())).unwrap();
        let asked: Arc<Mutex<Vec<String>>> = Arc::default();
        let heard = Arc::clone(&asked);
        let serve = tower::service_fn(move |request| answer(request, Arc::clone(&heard)));
        let stop = CancellationToken::new();
        let server = Server { listeners: vec![listener], tls: Some(tls), limits: Limits::default() };
        TaskTracker::new().spawn(server.run(serve, stop.clone()));
        let bundle = STANDARD.encode(authority.certificate_pem());
        Self { port, bundle, asked, _running: stop.drop_guard() }
    }
}

async fn answer(request: Request<Incoming>, asked: Arc<Mutex<Vec<String>>>) -> Result<Response<Body>, Infallible> {
    let trusted = request.extensions().get::<Peer>().is_some_and(|peer| !peer.certificates.is_empty());
    let header = |name: &str| -> Vec<String> {
        request.headers().get_all(name).iter().map(|value| value.to_str().unwrap().to_owned()).collect()
    };
    let user = format!("{trusted} {} {}", header("x-remote-user").join(","), header("x-remote-group").join(","));
    let path = request.uri().path().to_owned();
    if !user.contains("system:kube-aggregator") {
        assert_eq!(header("host"), ["metrics.default.svc:443"], "one, and not the client's");
        let secrets = header("authorization").len() + header("impersonate-user").len();
        asked.lock().push(format!("{} {} {user} {secrets}", request.method(), request.uri()));
    }
    let json = |value: Value| {
        let mut response = Response::new(full(Bytes::from(value.to_string())));
        response.headers_mut().insert("content-type", "application/json".parse().unwrap());
        response
    };
    let things =
        json!({"name": "things", "singularName": "thing", "namespaced": true, "kind": "Thing", "verbs": ["get"]});
    Ok(match path.as_str() {
        OWN => json(
            json!({"kind": "APIResourceList", "groupVersion": "metrics.example.com/v1beta1", "resources": [things]}),
        ),
        "/openapi/v2" => json(json!({
            "paths": {format!("{OWN}/things"): {"get": {"schema": {"$ref": "#/definitions/Thing"}}}, "/api/v1/pods": {"get": "forged"}},
            "definitions": {"Thing": {"type": "object"}},
        })),
        "/openapi/v3" => json(
            json!({"paths": {"apis/metrics.example.com/v1beta1": {"serverRelativeURL": format!("/openapi/v3{OWN}?hash=1")}}}),
        ),
        path if path == format!("/openapi/v3{OWN}") => json(json!({"openapi": "3.0.0"})),
        path if path.ends_with("/redirect") => {
            let mut response = json(json!({}));
            *response.status_mut() = StatusCode::FOUND;
            response
        }
        path if path.ends_with("/watched") => {
            let events = futures::stream::iter(0..3).then(|number| async move {
                tokio::time::sleep(Duration::from_millis(1)).await;
                Ok(http_body::Frame::data(Bytes::from(format!("{{\"type\":\"ADDED\",\"object\":{number}}}\n"))))
            });
            Response::new(StreamBody::new(events).boxed_unsync())
        }
        path if path.starts_with(OWN) => {
            let body = request.into_body().collect().await.unwrap().to_bytes();
            json(json!({"kind": "Thing", "said": String::from_utf8_lossy(&body)}))
        }
        _ => {
            let mut response = json(json!({}));
            *response.status_mut() = StatusCode::NOT_FOUND;
            response
        }
    })
}

struct Scene {
    server: Arc<ApiServer>,
    proxies: Authority,
}

impl Scene {
    async fn new() -> Self {
        let now = SystemTime::now();
        let proxies = Authority::create("front-proxy-ca", now).unwrap();
        let purpose = Purpose::Client { user: "front-proxy-client".into(), groups: vec![] };
        let mut lab = Lab::new();
        lab.server.kubelets = Kubelets::new(Settings { reach: Reach::AlsoLoopback, ..Settings::default() }).unwrap();
        lab.server.aggregation = Aggregation::new(FrontProxy {
            identity: Some(proxies.issue(&purpose, now).unwrap()),
            authority_pem: Some(proxies.certificate_pem().to_owned()),
            ..FrontProxy::default()
        });
        Self { server: lab.start().await, proxies }
    }

    /// A Service with one endpoint. Loopback addresses are put past validation.
    async fn lead_to(&self, address: IpAddr, port: u16) {
        let family = if address.is_ipv4() { "IPv4" } else { "IPv6" };
        let service = json!({
            "apiVersion": "v1", "kind": "Service", "metadata": {"name": "metrics", "namespace": "default"},
            "spec": {"type": "ClusterIP", "ipFamilies": [family], "ports": [{"name": "https", "port": 443}]},
        });
        let slice = json!({
            "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": family,
            "metadata": {"name": "metrics-1", "namespace": "default", "labels": {"kubernetes.io/service-name": "metrics"}},
            "endpoints": [{"addresses": [address]}], "ports": [{"name": "https", "port": port}],
        });
        for (key, object) in [("services/specs/default/metrics", service), ("endpointslices/default/metrics-1", slice)]
        {
            let bytes = apiserver::stored::encode(&object).unwrap();
            self.server.store.txn(store::Txn::of([store::Op::Put(key.into(), bytes)])).await.unwrap();
        }
    }

    async fn register(&self, bundle: &str) {
        make(&self.server, SERVICES, api_service(bundle)).await;
    }

    /// Waits for what the condition says.
    async fn until(&self, reason: &str) -> Value {
        let mut last = Value::Null;
        for _ in 0..2000 {
            last = self.get(&format!("{SERVICES}/v1beta1.metrics.example.com")).await.json();
            if last["status"]["conditions"][0]["reason"] == reason {
                return last["status"]["conditions"][0].clone();
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("{last}");
    }

    /// Waits for an answer: requests are sent on a moment after the condition says so.
    async fn until_status(&self, path: &str, want: u16) {
        let mut last = 0;
        for _ in 0..2000 {
            last = self.get(path).await.status;
            if last == want {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        assert_eq!(last, want, "{path}");
    }

    async fn get(&self, path: &str) -> Reply {
        ask(&self.server, "GET", path, &[], "").await
    }
}

fn api_service(bundle: &str) -> Value {
    json!({
        "metadata": {"name": "v1beta1.metrics.example.com"},
        "spec": {
            "group": "metrics.example.com", "version": "v1beta1", "groupPriorityMinimum": 100, "versionPriority": 100,
            "service": {"namespace": "default", "name": "metrics"}, "caBundle": bundle,
        },
    })
}

fn families() -> [IpAddr; 2] {
    ["127.0.0.1".parse().unwrap(), "::1".parse().unwrap()]
}

#[tokio::test]
async fn a_request_reaches_the_other_server_in_the_name_of_its_sender() {
    for address in families() {
        let scene = Scene::new().await;
        let standin = StandIn::new(address, 0, &scene.proxies);
        scene.lead_to(address, standin.port).await;
        scene.register(&standin.bundle).await;
        assert_eq!(scene.until("Passed").await["status"], "True");
        scene.until_status(OWN, 200).await;
        standin.asked.lock().clear();
        let path = format!("{OWN}/namespaces/a/things/x?pretty=true");
        let jane = User::new("jane", ["dev", "system:masters"]);
        let request = Request::post(&path)
            .header("host", "api.example.com")
            .header("x-remote-user", "forged")
            .header("x-remote-group", "forged")
            .extension(Insider(jane))
            .body(Full::new(Bytes::from("hello")))
            .unwrap();
        let reply = send(&scene.server, request).await;
        assert_eq!((reply.status, &reply.json()["said"]), (200, &json!("hello")));
        assert_eq!(
            standin.asked.lock().drain(..).collect::<Vec<_>>(),
            [format!("POST {path} true jane dev,system:masters 0")]
        );
        let watched = scene.get(&format!("{OWN}/watched?watch=true")).await;
        assert_eq!(watched.bytes.iter().filter(|byte| **byte == b'\n').count(), 3);
        let moved = scene.get(&format!("{OWN}/redirect")).await;
        assert_eq!(moved.status, 502, "redirects are not passed on");
        assert!(String::from_utf8_lossy(&moved.bytes).contains("not permitted"));
    }
}

#[tokio::test]
async fn who_may_not_is_refused_here() {
    let scene = Scene::new().await;
    let address = families()[1];
    let standin = StandIn::new(address, 0, &scene.proxies);
    scene.lead_to(address, standin.port).await;
    scene.register(&standin.bundle).await;
    scene.until("Passed").await;
    scene.until_status(OWN, 200).await;
    standin.asked.lock().clear();
    let request = Request::get(format!("{OWN}/namespaces/a/things"))
        .extension(Insider(User::new("nobody", ["system:authenticated"])))
        .body(Full::new(Bytes::new()))
        .unwrap();
    let reply = send(&scene.server, request).await;
    assert_eq!(reply.status, 403);
    assert_eq!(*standin.asked.lock(), [] as [String; 0]);
}

#[tokio::test]
async fn discovery_and_openapi_have_what_the_other_server_says() {
    let scene = Scene::new().await;
    let address = families()[0];
    let standin = StandIn::new(address, 0, &scene.proxies);
    scene.lead_to(address, standin.port).await;
    scene.register(&standin.bundle).await;
    scene.until("Passed").await;
    scene.until_status(OWN, 200).await;
    let names = |list: &Value| -> Vec<String> {
        list["groups"].as_array().unwrap().iter().map(|group| group["name"].as_str().unwrap().to_owned()).collect()
    };
    let groups = names(&scene.get("/apis").await.json());
    assert_eq!(groups.first().map(String::as_str), Some("apiregistration.k8s.io"));
    assert_eq!(groups.last().map(String::as_str), Some("metrics.example.com"));
    assert_eq!(scene.get("/apis/metrics.example.com").await.json()["preferredVersion"]["version"], "v1beta1");
    assert_eq!(scene.get(OWN).await.json()["resources"][0]["name"], "things");
    let accept = [("accept", "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList")];
    let listed = ask(&scene.server, "GET", "/apis", &accept, "").await.json();
    let last = listed["items"].as_array().unwrap().last().unwrap().clone();
    assert_eq!(last["metadata"]["name"], "metrics.example.com");
    assert_eq!(last["versions"][0]["freshness"], "Current");
    assert_eq!(last["versions"][0]["resources"][0]["responseKind"]["kind"], "Thing");
    let swagger = scene.get("/openapi/v2").await.json();
    assert_eq!(swagger["paths"][format!("{OWN}/things")]["get"]["schema"]["$ref"], "#/definitions/Thing");
    assert_ne!(swagger["paths"]["/api/v1/pods"]["get"], "forged", "it speaks for its own group alone");
    let index = scene.get("/openapi/v3").await.json();
    let url = index["paths"]["apis/metrics.example.com/v1beta1"]["serverRelativeURL"].as_str().unwrap().to_owned();
    assert_eq!(scene.get(&url).await.json()["openapi"], "3.0.0");
}

#[tokio::test]
async fn a_server_that_is_away_answers_nothing_and_nobody_answers_for_it() {
    for address in families() {
        let scene = Scene::new().await;
        scene.register("").await;
        scene.until("ServiceNotFound").await;
        let reply = scene.get(&format!("{OWN}/things")).await;
        assert_eq!((reply.status, &reply.bytes[..]), (503, &b"service unavailable\n"[..]));
        let standin = StandIn::new(address, 0, &scene.proxies);
        scene.lead_to(address, standin.port).await;
        let untrusted = scene.until("FailedDiscoveryCheck").await;
        assert!(untrusted["message"].as_str().unwrap().contains("UnknownIssuer"), "{untrusted}");
        scene.until_status(OWN, 503).await;
        let patch = json!({"spec": {"caBundle": standin.bundle}}).to_string();
        let path = format!("{SERVICES}/v1beta1.metrics.example.com");
        let header = [("content-type", "application/merge-patch+json")];
        assert_eq!(ask(&scene.server, "PATCH", &path, &header, patch).await.status, 200);
        scene.until("Passed").await;
        scene.until_status(OWN, 200).await;
        let port = standin.port;
        drop(standin);
        assert_eq!(
            ask(
                &scene.server,
                "DELETE",
                "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/metrics-1",
                &[],
                ""
            )
            .await
            .status,
            200
        );
        scene.until("EndpointsNotFound").await;
        scene.until_status(OWN, 503).await;
        let accept = [("accept", "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList")];
        let listed = ask(&scene.server, "GET", "/apis", &accept, "").await.json();
        let last = listed["items"].as_array().unwrap().last().unwrap()["versions"][0].clone();
        assert_eq!((&last["freshness"], &last["resources"]), (&json!("Stale"), &json!([])));
        assert_eq!(scene.get("/openapi/v2").await.json()["paths"][format!("{OWN}/things")], Value::Null);
        assert_eq!(scene.get("/api/v1/namespaces/default").await.status, 200, "others are served as before");
        // Back on the same port, with another authority: its new bundle makes it trusted again.
        let again = StandIn::new(address, port, &scene.proxies);
        let patch = json!({"spec": {"caBundle": again.bundle}}).to_string();
        assert_eq!(ask(&scene.server, "PATCH", &path, &header, patch).await.status, 200);
        scene.lead_to(address, port).await;
        scene.until("Passed").await;
        scene.until_status(OWN, 200).await;
        assert_eq!(ask(&scene.server, "DELETE", &path, &[], "").await.status, 200);
        // Nobody is there any more.
        scene.until_status(OWN, 404).await;
    }
}

#[tokio::test]
async fn what_is_served_here_has_apiservices_of_its_own() {
    let scene = Scene::new().await;
    for (name, priorities) in
        [("v1.", (18000, 1)), ("v1.apps", (17800, 15)), ("v1.rbac.authorization.k8s.io", (17000, 15))]
    {
        let mut found = Value::Null;
        for _ in 0..500 {
            found = scene.get(&format!("{SERVICES}/{name}")).await.json();
            if found["kind"] == "APIService" {
                break;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        assert_eq!(found["status"]["conditions"][0]["reason"], "Local", "{found}");
        assert_eq!(
            (&found["spec"]["groupPriorityMinimum"], &found["spec"]["versionPriority"]),
            (&json!(priorities.0), &json!(priorities.1))
        );
        assert_eq!(found["metadata"]["labels"]["kube-aggregator.kubernetes.io/automanaged"], "onstart");
    }
    let definition = support::definition("Gadget", "gadgets", "Cluster", &json!({}));
    make(&scene.server, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition).await;
    let path = format!("{SERVICES}/v1.example.com");
    let mut status = 0;
    for _ in 0..500 {
        status = scene.get(&path).await.status;
        if status == 200 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(status, 200);
    let gone = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/gadgets.example.com";
    assert_eq!(ask(&scene.server, "DELETE", gone, &[], "").await.status, 200);
    for _ in 0..1000 {
        status = scene.get(&path).await.status;
        if status == 404 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(status, 404, "it goes with the definition");
}

#[tokio::test]
async fn other_servers_learn_whom_to_believe() {
    let scene = Scene::new().await;
    let path = "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication";
    let mut map = Value::Null;
    for _ in 0..500 {
        map = scene.get(path).await.json();
        if map["kind"] == "ConfigMap" {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(map["data"]["requestheader-username-headers"], r#"["X-Remote-User"]"#);
    assert_eq!(map["data"]["requestheader-extra-headers-prefix"], r#"["X-Remote-Extra-"]"#);
    assert_eq!(map["data"]["requestheader-client-ca-file"], scene.proxies.certificate_pem());
}
