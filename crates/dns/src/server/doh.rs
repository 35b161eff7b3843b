//! DNS over HTTPS (RFC 8484): a question is a request, an answer its body.

use super::answer;
use crate::{
    chain::refresh_beside,
    query::{Query, Transport},
    routes::Routes,
    wire::{Message, Reply, Request as Question},
};
use ::http::{HeaderValue, Method, Request, Response, StatusCode, header};
use arc_swap::ArcSwap;
use base64::prelude::{BASE64_URL_SAFE_NO_PAD, Engine};
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use runtime::http::{Body, Limits, Peer, Server, full, text};
use std::{convert::Infallible, net::SocketAddr, sync::Arc};
use tokio_util::sync::CancellationToken;

/// What bodies are, of questions and answers.
pub(crate) const MEDIA: &str = "application/dns-message";
pub(crate) const PATH: &str = "/dns-query";
/// The longest question; no message is longer.
const LONGEST: usize = 65_535;

/// Serves a socket until told to stop.
pub(super) async fn serve(listener: std::net::TcpListener, routes: Arc<ArcSwap<Routes>>, stop: CancellationToken) {
    let Some(tls) = routes.load().tls.as_ref().map(|tls| Arc::clone(&tls.https)) else { return };
    let service = tower::service_fn(move |request: Request<Incoming>| {
        let routes = routes.load_full();
        async move { Ok::<_, Infallible>(handle(request, &routes).await) }
    });
    let limits = Limits { drain: std::time::Duration::from_secs(5), ..Limits::default() };
    if let Err(error) = (Server { listeners: vec![listener], tls: Some(tls), limits }).run(service, stop).await {
        tracing::error!(%error, "DNS over HTTPS ended");
    }
}

async fn handle(request: Request<Incoming>, routes: &Arc<Routes>) -> Response<Body> {
    let Some(peer) = request.extensions().get::<Peer>() else {
        return text(StatusCode::BAD_REQUEST, "nobody asks\n");
    };
    let source = peer.address;
    if routes.tls.as_ref().is_some_and(|tls| tls.required) && peer.certificates.is_empty() {
        return text(StatusCode::FORBIDDEN, "a client certificate is needed\n");
    }
    match question(request).await {
        Ok(packet) => answered(&packet, source, routes).await,
        Err((status, problem)) => text(status, problem),
    }
}

/// The message that a request brings.
async fn question(request: Request<Incoming>) -> Result<Vec<u8>, (StatusCode, &'static str)> {
    if request.uri().path() != PATH {
        return Err((StatusCode::NOT_FOUND, "the path is /dns-query\n"));
    }
    match *request.method() {
        Method::GET => {
            let query = request.uri().query().unwrap_or_default();
            let text = query.split('&').find_map(|pair| pair.strip_prefix("dns="));
            let text = text.ok_or((StatusCode::BAD_REQUEST, "the parameter dns is missing\n"))?;
            let decoded = BASE64_URL_SAFE_NO_PAD.decode(text.trim_end_matches('='));
            decoded.map_err(|_| (StatusCode::BAD_REQUEST, "the parameter dns is not base64url\n"))
        }
        Method::POST => {
            let media = request.headers().get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
            if media != Some(MEDIA) {
                return Err((StatusCode::UNSUPPORTED_MEDIA_TYPE, "the content type is application/dns-message\n"));
            }
            let body = Limited::new(request.into_body(), LONGEST).collect().await;
            let body = body.map_err(|_| (StatusCode::BAD_REQUEST, "the body cannot be read\n"))?;
            Ok(body.to_bytes().to_vec())
        }
        _ => Err((StatusCode::METHOD_NOT_ALLOWED, "accepted: GET, POST\n")),
    }
}

async fn answered(packet: &[u8], source: SocketAddr, routes: &Arc<Routes>) -> Response<Body> {
    let request = match Question::parse(packet) {
        Ok(request) => request,
        Err(reject) => {
            return match answer::rejected(routes, (Transport::Tcp, source), packet, reject) {
                Some(header) => message(header.to_vec(), None),
                None => text(StatusCode::BAD_REQUEST, "this is no question\n"),
            };
        }
    };
    let mut query = Query::new(request, source, Transport::Tcp, packet.len());
    let mut reply = Reply::new();
    reply.reset(&query.request.name, query.request.rtype, query.request.class);
    let chain = answer::resolve(routes, packet, &mut query, &mut reply).await;
    let Some(bytes) = answer::finish(routes, chain.as_deref(), &query, &mut reply).map(<[u8]>::to_vec) else {
        return text(StatusCode::SERVICE_UNAVAILABLE, "no answer\n");
    };
    if let Some(chain) = chain.filter(|_| answer::wants_refresh(&query)) {
        refresh_beside(routes, chain, query);
    }
    // RFC 8484, section 5.1: an answer is fresh for as long as its shortest record.
    let whole = Message::parse(&bytes).ok();
    let fresh = whole.and_then(|whole| whole.sections.iter().flatten().map(|record| record.ttl).min());
    message(bytes, fresh)
}

fn message(bytes: Vec<u8>, fresh: Option<u32>) -> Response<Body> {
    let mut response = Response::new(full(bytes));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(MEDIA));
    if let Ok(age) = HeaderValue::try_from(format!("max-age={}", fresh.unwrap_or(0))) {
        response.headers_mut().insert(header::CACHE_CONTROL, age);
    }
    response
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::{plugin::tls::tests::files, server::tcp, testing};
    use runtime::pki::Bundle;
    use rustls::{ClientConnection, StreamOwned, pki_types::ServerName};
    use std::{
        io::{Read, Write},
        net::{TcpListener, TcpStream},
    };

    /// A server of this scheme as `localhost`, with its files in this folder.
    pub(crate) fn start(scheme: &str, address: &str, folder: &std::path::Path) -> SocketAddr {
        files(folder);
        let names = "hosts {\n 192.0.2.1 a.test\n 2001:db8::1 a.test\n ttl 77\n }";
        let conf = format!("{scheme}://. {{\n root {}\n tls cert key\n {names}\n}}", folder.display());
        let instance = testing::build(&conf).unwrap();
        let routes = Arc::new(ArcSwap::new(Arc::clone(instance.routes.values().next().unwrap())));
        let listener = TcpListener::bind(address).unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        let https = scheme == "https";
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                match https {
                    true => serve(listener, routes, CancellationToken::new()).await,
                    false => {
                        let listener = tokio::net::TcpListener::from_std(listener).unwrap();
                        let clients = tcp::Clients::new(Default::default());
                        tcp::serve(listener, routes, clients, CancellationToken::new()).await;
                    }
                }
            });
        });
        address
    }

    /// Connections to a server of this scheme that trust its authority.
    fn served(scheme: &str) -> impl Fn(&str) -> StreamOwned<ClientConnection, TcpStream> + use<> {
        let folder = tempfile::tempdir().unwrap();
        let address = start(scheme, "127.0.0.1:0", folder.path());
        let bundle = Bundle::load(&folder.path().join("ca")).unwrap();
        move |protocol| {
            let config = runtime::tls::client_config(&bundle, None).unwrap();
            let mut config = rustls::ClientConfig::clone(&config);
            config.alpn_protocols = vec![protocol.as_bytes().to_vec()];
            let name = ServerName::try_from("localhost").unwrap();
            let session = ClientConnection::new(Arc::new(config), name).unwrap();
            let stream = TcpStream::connect(address).unwrap();
            stream.set_read_timeout(Some(std::time::Duration::from_secs(20))).unwrap();
            StreamOwned::new(session, stream)
        }
    }

    #[test]
    fn questions_over_tls_are_answered_one_after_another() {
        let connect = served("tls");
        let mut stream = connect("dot");
        let query = testing::query("a.test.", 1).request.to_wire(7);
        for _ in 0..3 {
            stream.write_all(&(query.len() as u16).to_be_bytes()).unwrap();
            stream.write_all(&query).unwrap();
            let mut length = [0; 2];
            stream.read_exact(&mut length).unwrap();
            let mut answer = vec![0; usize::from(u16::from_be_bytes(length))];
            stream.read_exact(&mut answer).unwrap();
            let record = Message::parse(&answer).unwrap().answer()[0].to_string();
            assert_eq!(record.replace('\t', " "), "a.test. 77 IN A 192.0.2.1");
        }
    }

    fn asked(mut stream: StreamOwned<ClientConnection, TcpStream>, request: &[u8]) -> Vec<u8> {
        stream.write_all(request).unwrap();
        let mut all = Vec::new();
        // The end may come without a word of TLS.
        let _ = stream.read_to_end(&mut all);
        all
    }

    #[test]
    fn questions_over_https_come_in_paths_and_bodies() {
        let connect = served("https");
        let query = testing::query("a.test.", 1).request.to_wire(0);
        let rest = "Host: localhost\r\nConnection: close\r\n";
        let length = query.len();
        let post = format!("POST {PATH} HTTP/1.1\r\n{rest}Content-Type: {MEDIA}\r\nContent-Length: {length}\r\n\r\n");
        let get = format!("GET {PATH}?dns={} HTTP/1.1\r\n{rest}\r\n", BASE64_URL_SAFE_NO_PAD.encode(&query));
        for (head, body) in [(post, query), (get, Vec::new())] {
            let all = asked(connect("http/1.1"), &[head.as_bytes(), &body].concat());
            let end = all.windows(4).position(|four| four == b"\r\n\r\n").unwrap();
            let head = String::from_utf8_lossy(&all[..end]).to_lowercase();
            assert!(head.starts_with("http/1.1 200") && head.contains("cache-control: max-age=77"), "{head}");
            assert_eq!(Message::parse(&all[end + 4..]).unwrap().answer().len(), 1);
        }
        for (request, expected) in [
            ("GET /other HTTP/1.1", "404"),
            ("GET /dns-query HTTP/1.1", "400"),
            ("GET /dns-query?dns=!! HTTP/1.1", "400"),
            ("DELETE /dns-query HTTP/1.1", "405"),
            ("POST /dns-query HTTP/1.1", "415"),
        ] {
            let all = asked(connect("http/1.1"), format!("{request}\r\n{rest}\r\n").as_bytes());
            let text = String::from_utf8_lossy(&all);
            assert!(text.starts_with(&format!("HTTP/1.1 {expected}")), "{request}: {text}");
        }
    }
}
