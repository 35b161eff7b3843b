//! By HTTP, and by HTTPS with a certificate that nobody knows: paths as upstream's test image has them, and who asks whom as JSON; health by gRPC.

use super::{dial::Dial, health, hostname};
use crate::server::pairs;
use http::{HeaderValue, Request, Response, StatusCode, header};
use hyper::body::Incoming;
use runtime::http::{Body, Limits, Peer, Server, full, text};
use rustls::ServerConfig;
use serde_json::json;
use std::{convert::Infallible, io, net::TcpListener, sync::Arc};
use tokio_util::sync::CancellationToken;

pub(super) async fn serve(
    listeners: Vec<TcpListener>,
    tls: Option<Arc<ServerConfig>>,
    stop: CancellationToken,
) -> io::Result<()> {
    let service =
        tower::service_fn(|request: Request<Incoming>| async move { Ok::<_, Infallible>(answer(request).await) });
    Server { listeners, tls, limits: Limits::default() }.run(service, stop).await.map(drop)
}

async fn answer(request: Request<Incoming>) -> Response<Body> {
    let Some(peer) = request.extensions().get::<Peer>() else {
        return text(StatusCode::INTERNAL_SERVER_ERROR, "nobody asked");
    };
    let pairs = pairs(request.uri().query().unwrap_or_default());
    let given =
        |key: &str| pairs.iter().find(|(known, _)| known == key).map(|(_, value)| value.clone()).unwrap_or_default();
    match request.uri().path() {
        "/healthz" if !health::is_serving() => text(StatusCode::SERVICE_UNAVAILABLE, "not serving"),
        "/" | "/healthz" => text(StatusCode::OK, "ok"),
        "/make-serving" => text(StatusCode::OK, health::set(true)),
        "/make-not-serving" => text(StatusCode::OK, health::set(false)),
        health::PATH => health::check(),
        "/hostname" | "/hostName" => text(StatusCode::OK, hostname()),
        "/clientip" => text(StatusCode::OK, peer.address.to_string()),
        "/local" => text(StatusCode::OK, peer.local.to_string()),
        "/echo" => text(StatusCode::OK, given("msg")),
        "/header" => {
            let value = request.headers().get(given("key")).and_then(|value| value.to_str().ok()).unwrap_or_default();
            text(StatusCode::OK, value.to_owned())
        }
        "/who" => {
            let who =
                json!({"hostname": hostname(), "peer": peer.address.to_string(), "local": peer.local.to_string()});
            in_json(&who.to_string())
        }
        "/dial" => match Dial::read(&pairs) {
            Ok(dial) => in_json(&dial.ask_all().await.to_string()),
            Err(why) => text(StatusCode::BAD_REQUEST, why),
        },
        _ => text(StatusCode::NOT_FOUND, "404 page not found\n"),
    }
}

fn in_json(value: &str) -> Response<Body> {
    let mut response = Response::new(full(value.to_owned()));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}
