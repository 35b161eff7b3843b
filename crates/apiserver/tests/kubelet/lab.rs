//! An API server that listens with TLS, a client for it, and objects put straight into its store.

use super::standin::{StandIn, Trust};
use api::object::Fields;
use apiserver::{
    ApiServer, handle,
    kubelet::{Kubelets, Settings, reach::Reach},
    stored, testing,
};
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::{
    body::Incoming,
    client::conn::{http1, http2},
};
use hyper_util::rt::{TokioExecutor, TokioIo};
use net::Family;
use runtime::{
    http::{Limits, Server},
    pki::{Authority, Purpose, Rotating},
    tls,
};
use rustls::{ClientConfig, pki_types::ServerName};
use serde_json::{Value, json};
use std::{
    net::{IpAddr, SocketAddr, TcpListener},
    sync::Arc,
    time::SystemTime,
};
use store::{Op, Txn};
use tokio::net::{TcpSocket, TcpStream};
use tokio_rustls::TlsConnector;
use tokio_util::task::TaskTracker;

pub struct Lab {
    pub server: Arc<ApiServer>,
    pub authority: Authority,
    address: SocketAddr,
}

pub struct Reply {
    pub status: u16,
    pub headers: http::HeaderMap,
    pub bytes: Bytes,
}

impl Reply {
    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.bytes).unwrap()
    }
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.bytes).unwrap_or_else(|_| panic!("{} {}", self.status, self.text()))
    }
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }
    /// Code and message of a Status.
    pub fn refusal(&self) -> (u64, String) {
        let status = self.json();
        assert_eq!((status["kind"].as_str(), status["code"].as_u64()), (Some("Status"), Some(self.status.into())));
        (self.status.into(), status["message"].as_str().unwrap().to_owned())
    }
}

impl Lab {
    /// On the loopback address of a family; nodes and Pods on loopback may be reached.
    pub async fn new(family: Family) -> Self {
        Self::with(family, Reach::AlsoLoopback).await
    }

    pub async fn with(family: Family, reach: Reach) -> Self {
        let authority = Authority::create("lab", SystemTime::now()).unwrap();
        let issue = |purpose: &Purpose| authority.issue(purpose, SystemTime::now()).unwrap();
        let identity = issue(&Purpose::Client { user: "kube-apiserver".into(), groups: vec![] });
        let serving = issue(&Purpose::Serving { names: vec![], addresses: vec![family.loopback()] });
        let settings = Settings {
            authorities: Some(authority.bundle().clone()),
            identity: Some(identity),
            reach,
            ..Settings::default()
        };
        let mut lab = testing::Lab::new();
        lab.server.kubelets = Kubelets::new(settings).unwrap();
        let server = Box::pin(lab.start()).await;
        let listener = TcpListener::bind((family.loopback(), 0)).unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        let tls = tls::server_config(Rotating::new(&serving).unwrap(), Some(authority.bundle())).unwrap();
        let handler = Arc::clone(&server);
        let serve = tower::service_fn(move |request| handle::handle(Arc::clone(&handler), request));
        let listening = Server { listeners: vec![listener], tls: Some(tls), limits: Limits::default() };
        TaskTracker::new().spawn(listening.run(serve, server.stop.clone()));
        Self { server, authority, address }
    }

    /// A kubelet that this server trusts, and that asks for its certificate.
    pub fn kubelet(&self, address: IpAddr) -> StandIn {
        StandIn::new(address, Some(Trust { authority: &self.authority, clients: self.authority.bundle() }))
    }

    fn client(&self, user: &str, group: &str) -> Arc<ClientConfig> {
        let purpose = Purpose::Client { user: user.into(), groups: vec![group.into()] };
        let identity = self.authority.issue(&purpose, SystemTime::now()).unwrap();
        let mut config = Arc::unwrap_or_clone(tls::client_config(self.authority.bundle(), Some(&identity)).unwrap());
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Arc::new(config)
    }

    /// A request as a user; the response may be streamed or upgraded.
    pub async fn send(&self, user: (&str, &str), request: Request<Full<Bytes>>) -> Response<Incoming> {
        let stream = TcpStream::connect(self.address).await.unwrap();
        let name = ServerName::IpAddress(self.address.ip().into());
        let stream = TlsConnector::from(self.client(user.0, user.1)).connect(name, stream).await.unwrap();
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
        TaskTracker::new().spawn(connection.with_upgrades());
        sender.send_request(request).await.unwrap()
    }

    /// A request as an administrator over HTTP/2, which most clients prefer.
    pub async fn ask_by_http2(&self, method: &str, path: &str, body: impl Into<Bytes>) -> Reply {
        let stream = TcpStream::connect(self.address).await.unwrap();
        let name = ServerName::IpAddress(self.address.ip().into());
        let mut config = Arc::unwrap_or_clone(self.client("admin", "system:masters"));
        config.alpn_protocols = vec![b"h2".to_vec()];
        let stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await.unwrap();
        let (mut sender, connection) = http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
        TaskTracker::new().spawn(connection);
        let request = Request::builder().method(method).uri(format!("https://api.test{path}"));
        whole(sender.send_request(request.body(Full::new(body.into())).unwrap()).await.unwrap()).await
    }

    /// A request as an administrator.
    pub async fn open(&self, method: &str, path: &str, headers: &[(&str, &str)], body: Bytes) -> Response<Incoming> {
        self.send(("admin", "system:masters"), self.request(method, path, headers, body)).await
    }

    pub fn request(&self, method: &str, path: &str, headers: &[(&str, &str)], body: Bytes) -> Request<Full<Bytes>> {
        let mut request = Request::builder().method(method).uri(path).header("host", "api.test");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        request.body(Full::new(body)).unwrap()
    }

    pub async fn ask(&self, method: &str, path: &str, headers: &[(&str, &str)], body: impl Into<Bytes>) -> Reply {
        whole(self.open(method, path, headers, body.into()).await).await
    }

    pub async fn get(&self, path: &str) -> Reply {
        self.ask("GET", path, &[], "").await
    }

    /// Stores an object as it is.
    pub async fn put(&self, key: &str, mut object: Value) {
        object.set_default("apiVersion", "v1");
        object.set_default("kind", "Stored");
        self.server.store.txn(Txn::of([Op::Put(key.into(), stored::encode(&object).unwrap())])).await.unwrap();
    }

    /// A node `n` with these addresses, whose kubelet listens on `port`.
    pub async fn node(&self, addresses: &[IpAddr], port: u16) {
        let addresses: Vec<Value> =
            addresses.iter().map(|address| json!({"type": "InternalIP", "address": address.to_string()})).collect();
        let endpoint = json!({"kubeletEndpoint": {"Port": port}});
        let node = json!({"metadata": {"name": "n"}, "status": {"addresses": addresses, "daemonEndpoints": endpoint}});
        self.put("minions/n", node).await;
    }

    /// A Pod in `default`.
    pub async fn pod(&self, name: &str, node: &str, containers: &[&str], addresses: &[IpAddr]) {
        let containers: Vec<Value> = containers.iter().map(|name| json!({"name": name})).collect();
        let ips: Vec<Value> = addresses.iter().map(|address| json!({"ip": address.to_string()})).collect();
        let metadata = json!({"name": name, "namespace": "default"});
        let spec = json!({"nodeName": node, "containers": containers});
        self.put(
            &format!("pods/default/{name}"),
            json!({"metadata": metadata, "spec": spec, "status": {"podIPs": ips}}),
        )
        .await;
    }
}

/// A port where nobody listens, and nobody can while this is there; 0 is any.
pub fn deaf(family: Family, port: u16) -> std::io::Result<TcpSocket> {
    let socket = match family {
        Family::V4 => TcpSocket::new_v4(),
        Family::V6 => TcpSocket::new_v6(),
    }?;
    socket.bind((family.loopback(), port).into())?;
    Ok(socket)
}

pub async fn whole(response: Response<Incoming>) -> Reply {
    let (parts, body) = response.into_parts();
    let bytes = body.collect().await.unwrap().to_bytes();
    Reply { status: parts.status.as_u16(), headers: parts.headers, bytes }
}
