//! A stand-in kubelet: speaks the kubelet's API over TLS, and plain HTTP as a Pod would. What it does depends on the path.

use bytes::Bytes;
use futures::StreamExt;
use http::{HeaderValue, Request, Response, StatusCode, header};
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use runtime::{
    http::{Body, BoxError, Limits, Peer, Server, empty, full},
    pki::{Authority, Bundle, Purpose, Rotating},
    tls,
};
use serde_json::json;
use std::{
    convert::Infallible,
    net::{IpAddr, TcpListener},
    time::SystemTime,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

pub struct StandIn {
    pub port: u16,
    /// One word whenever a lasting connection to it ends.
    pub ended: UnboundedReceiver<&'static str>,
    _running: tokio_util::sync::DropGuard,
}

/// Whom its certificate is signed by and whose clients it asks for; without, it speaks plain HTTP.
pub struct Trust<'a> {
    pub authority: &'a Authority,
    pub clients: &'a Bundle,
}

impl StandIn {
    pub fn new(address: IpAddr, trust: Option<Trust<'_>>) -> Self {
        let listener = TcpListener::bind((address, 0)).unwrap();
        listener.set_nonblocking(true).unwrap();
        let port = listener.local_addr().unwrap().port();
        let tls = trust.map(|trust| {
            let purpose = Purpose::Serving { names: vec!["node".into()], addresses: vec![address] };
            let identity = trust.authority.issue(&purpose, SystemTime::now()).unwrap();
            tls::server_config(Rotating::new(&identity).unwrap(), Some(trust.clients)).unwrap()
        });
        let (end, ended) = unbounded_channel();
        let tunnels = TaskTracker::new();
        let serve = tower::service_fn(move |request| answer(request, end.clone(), tunnels.clone()));
        let stop = CancellationToken::new();
        let server = Server { listeners: vec![listener], tls, limits: Limits::default() }.run(serve, stop.clone());
        TaskTracker::new().spawn(server);
        Self { port, ended, _running: stop.drop_guard() }
    }
}

async fn answer(
    request: Request<Incoming>,
    end: UnboundedSender<&'static str>,
    tunnels: TaskTracker,
) -> Result<Response<Body>, Infallible> {
    let path = request.uri().path().to_owned();
    let segments: Vec<&str> = path.split('/').skip(1).collect();
    let respond = |status: u16, body: Bytes| {
        let mut response = Response::new(full(body));
        *response.status_mut() = StatusCode::from_u16(status).unwrap();
        response
    };
    Ok(match segments.as_slice() {
        [.., "angry"] => respond(500, vec![b'x'; 60_000].into()),
        [.., "bad"] => respond(400, "bad line count".into()),
        [.., "gone"] => respond(404, "container not found (\"gone\")".into()),
        [.., "idle"] => respond(200, "nothing to upgrade".into()),
        [.., "moved"] => {
            let mut response = respond(302, Bytes::new());
            response.headers_mut().insert(header::LOCATION, HeaderValue::from_static("/elsewhere?a=b"));
            response.headers_mut().insert("access-control-allow-origin", HeaderValue::from_static("*"));
            response
        }
        ["containerLogs", ..] if request.uri().query().is_some_and(|query| query.contains("follow=true")) => {
            endless(end)
        }
        ["exec" | "attach" | "portForward", ..] | ["socket"] => upgraded(request, end, &tunnels),
        _ => respond(200, mirror(request).await),
    })
}

/// What was asked, and by whom.
async fn mirror(request: Request<Incoming>) -> Bytes {
    let (parts, body) = request.into_parts();
    let headers: Vec<String> =
        parts.headers.iter().map(|(name, value)| format!("{name}: {}", value.to_str().unwrap())).collect();
    let known = parts.extensions.get::<Peer>().is_some_and(|peer| !peer.certificates.is_empty());
    let length = body.collect().await.unwrap().to_bytes().len();
    json!({"method": parts.method.as_str(), "uri": parts.uri.to_string(), "headers": headers, "body": length, "known": known})
        .to_string()
        .into()
}

/// Tells when it is dropped, which is when the connection under it ends.
struct NotifyOnDrop(UnboundedSender<&'static str>, &'static str);

impl Drop for NotifyOnDrop {
    fn drop(&mut self) {
        let _ = self.0.send(self.1);
    }
}

/// A line, and then silence.
fn endless(end: UnboundedSender<&'static str>) -> Response<Body> {
    let guard = NotifyOnDrop(end, "log");
    let line = futures::stream::iter([Ok::<_, BoxError>(Frame::data(Bytes::from("first line\n")))]);
    let silence = futures::stream::pending();
    let frames = line.chain(silence).inspect(move |_| {
        let _kept_as_long_as_the_stream = &guard;
    });
    Response::new(StreamBody::new(frames).boxed_unsync())
}

/// Agrees to anything and returns every byte; `quit` ends it from this side. The request's path goes first.
fn upgraded(
    mut request: Request<Incoming>,
    end: UnboundedSender<&'static str>,
    tunnels: &TaskTracker,
) -> Response<Body> {
    let Some(protocol) = request.headers().get(header::UPGRADE).cloned() else {
        return Response::new(full("no upgrade was asked for"));
    };
    let mut response = Response::new(empty());
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    let headers = response.headers_mut();
    headers.insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
    headers.insert(header::UPGRADE, protocol);
    for name in ["x-stream-protocol-version", "sec-websocket-protocol"] {
        if let Some(value) = request.headers().get(name) {
            headers.insert(name, value.clone());
        }
    }
    let greeting = format!("{} {}\n", request.method(), request.uri());
    let connection = hyper::upgrade::on(&mut request);
    tunnels.spawn(async move {
        let _guard = NotifyOnDrop(end, "stream");
        let mut stream = TokioIo::new(connection.await.unwrap());
        stream.write_all(greeting.as_bytes()).await.unwrap();
        let mut buffer = [0; 1024];
        while let Ok(length @ 1..) = stream.read(&mut buffer).await {
            let bytes = &buffer[..length];
            if bytes == b"quit" || stream.write_all(bytes).await.is_err() {
                break;
            }
        }
        let _ = stream.shutdown().await;
    });
    response
}
