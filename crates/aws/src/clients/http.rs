//! Requests over HTTP: one pool of connections, TLS with the certificates that the machine trusts, and the proxy that the environment names.

use super::failure::Failure;
use bytes::Bytes;
use http::{HeaderValue, Request, Response, Uri, header::PROXY_AUTHORIZATION};
use http_body_util::{BodyExt, Full, Limited};
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_rustls::{HttpsConnector, MaybeHttpsStream};
use hyper_util::{
    client::{
        legacy::{
            Client,
            connect::{Connected, Connection, HttpConnector, proxy::Tunnel},
        },
        proxy::matcher::Matcher,
    },
    rt::{TokioExecutor, TokioIo, TokioTimer},
};
use rustls::ClientConfig;
use std::{
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};
use tokio::net::TcpStream;
use tower::{BoxError, Service, ServiceExt};

/// A list of a thousand instances is a few megabytes.
const LONGEST: usize = 64 << 20;

/// How long things may take.
#[derive(Clone, Copy, Debug)]
pub(super) struct Patience {
    pub(super) connect: Duration,
    /// From the request to the end of its answer.
    pub(super) answer: Duration,
}

/// Whether the environment's proxy is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Proxy {
    /// `HTTPS_PROXY`, `HTTP_PROXY`, `ALL_PROXY`, but for what `NO_PROXY` names.
    OfEnvironment,
    /// Never: what is asked is on this machine or next to it.
    None,
    /// Always this one.
    #[cfg(test)]
    At(&'static str),
}

/// A client; clones share its connections.
#[derive(Clone, Debug)]
pub(super) struct Http {
    client: Client<Connector, Full<Bytes>>,
    proxies: Arc<Matcher>,
    patience: Patience,
}

impl Http {
    pub(super) fn new(proxy: Proxy, patience: Patience) -> Self {
        Self::trusting(None, proxy, patience)
    }

    fn trusting(tls: Option<Arc<ClientConfig>>, proxy: Proxy, patience: Patience) -> Self {
        let mut tcp = HttpConnector::new();
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        tcp.set_connect_timeout(Some(patience.connect));
        let proxies = Arc::new(match proxy {
            Proxy::OfEnvironment => Matcher::from_env(),
            Proxy::None => Matcher::builder().build(),
            #[cfg(test)]
            Proxy::At(url) => Matcher::builder().all(url).build(),
        });
        let connector = Connector { tcp, tls, proxies: Arc::clone(&proxies) };
        let client = Client::builder(TokioExecutor::new()).pool_timer(TokioTimer::new()).build(connector);
        Self { client, proxies, patience }
    }

    /// Sends a request and reads the answer whole.
    pub(super) async fn send(&self, request: Request<Bytes>) -> Result<Response<Bytes>, Failure> {
        let mut request = request.map(Full::new);
        if request.uri().scheme_str() == Some("http")
            && let Some(proxy) = self.proxies.intercept(request.uri())
            && let Some(authorization) = proxy.basic_auth()
        {
            request.headers_mut().insert(PROXY_AUTHORIZATION, authorization.clone());
        }
        let answer = self.patience.answer;
        let sent = async {
            let response = self.client.request(request).await.map_err(|error| Failure::of_connection(&error))?;
            let (head, body) = response.into_parts();
            let body = Limited::new(body, LONGEST).collect().await;
            let body = body.map_err(|error| Failure::no_answer(format!("the answer breaks off: {error}")))?;
            Ok(Response::from_parts(head, body.to_bytes()))
        };
        let outcome = tokio::time::timeout(answer, sent).await;
        outcome.unwrap_or_else(|_| Err(Failure::no_answer(format!("none within {answer:?}"))))
    }
}

/// Connects directly or through a proxy, with TLS where the address says so.
#[derive(Clone, Debug)]
struct Connector {
    tcp: HttpConnector,
    /// Without one it is what the machine trusts, read when the first connection needs it.
    tls: Option<Arc<ClientConfig>>,
    proxies: Arc<Matcher>,
}

impl Connector {
    async fn connect(self, to: Uri) -> Result<Stream, BoxError> {
        let tls = self.tls.unwrap_or_else(runtime::tls::public_client_config);
        let Some(proxy) = self.proxies.intercept(&to) else {
            let inner = HttpsConnector::from((self.tcp, tls)).oneshot(to).await?;
            return Ok(Stream { inner, forwards: false });
        };
        if to.scheme_str() == Some("http") {
            let inner = self.tcp.clone().oneshot(proxy.uri().clone()).await?;
            return Ok(Stream { inner: MaybeHttpsStream::Http(inner), forwards: true });
        }
        let mut tunnel = Tunnel::new(proxy.uri().clone(), self.tcp);
        if let Some(authorization) = proxy.basic_auth() {
            tunnel = tunnel.with_auth(HeaderValue::clone(authorization));
        }
        let inner = HttpsConnector::from((tunnel, tls)).oneshot(to).await?;
        Ok(Stream { inner, forwards: false })
    }
}

impl Service<Uri> for Connector {
    type Response = Stream;
    type Error = BoxError;
    type Future = futures::future::BoxFuture<'static, Result<Stream, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, to: Uri) -> Self::Future {
        Box::pin(self.clone().connect(to))
    }
}

/// A connection, and whether a proxy at its end forwards requests, which then name their whole address.
#[derive(Debug)]
struct Stream {
    inner: MaybeHttpsStream<TokioIo<TcpStream>>,
    forwards: bool,
}

impl Connection for Stream {
    fn connected(&self) -> Connected {
        self.inner.connected().proxy(self.forwards)
    }
}

impl Read for Stream {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: ReadBufCursor<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_read(cx, buffer)
    }
}

impl Write for Stream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clients::testing::{Server, ok};
    use runtime::{
        pki::{Authority, Purpose, Rotating},
        tls,
    };
    use std::{
        io::{Read as _, Write as _},
        net::TcpListener,
        time::SystemTime,
    };

    const PATIENCE: Patience = Patience { connect: Duration::from_secs(10), answer: Duration::from_secs(10) };

    async fn sent(uri: &str, server: &Server) -> Result<Response<Bytes>, Failure> {
        let proxy = server.url().replace("http://", "http://user:pass@").leak();
        let request = Request::get(uri).body(Bytes::new()).expect("a request");
        Http::new(Proxy::At(proxy), PATIENCE).send(request).await
    }

    /// Answers one connection over TLS.
    fn encrypted(authority: &Authority) -> (u16, std::thread::JoinHandle<()>) {
        let purpose = Purpose::Serving { names: vec!["localhost".to_owned()], addresses: Vec::new() };
        let identity = authority.issue(&purpose, SystemTime::now()).expect("a certificate");
        let config = tls::server_config(Rotating::new(&identity).expect("an identity"), None).expect("TLS");
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let serve = move || {
            let (stream, _) = listener.accept().expect("a connection");
            let session = rustls::ServerConnection::new(config).expect("a session");
            let mut stream = rustls::StreamOwned::new(session, stream);
            // Who does not trust it hangs up.
            if stream.read(&mut [0; 4096]).is_ok() {
                let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\nConnection: close\r\n\r\nanswer");
            }
        };
        (port, std::thread::spawn(serve))
    }

    #[tokio::test]
    async fn who_is_trusted_is_asked_over_tls_and_nobody_else() {
        let authority = Authority::create("aws", SystemTime::now()).expect("an authority");
        for trusted in [true, false] {
            let (port, served) = encrypted(&authority);
            let trust = trusted.then(|| tls::client_config(authority.bundle(), None).expect("TLS"));
            let trust = trust.map(|config| {
                let mut config = ClientConfig::clone(&config);
                config.alpn_protocols.clear();
                Arc::new(config)
            });
            let request = Request::get(format!("https://localhost:{port}/")).body(Bytes::new()).expect("a request");
            match Http::trusting(trust, Proxy::None, PATIENCE).send(request).await {
                Ok(answer) => assert!(trusted && answer.body().as_ref() == b"answer"),
                Err(failure) => {
                    let why = failure.describe();
                    assert!(!trusted && why.contains("UnknownIssuer"), "{why}");
                }
            }
            served.join().expect("it ends");
        }
    }

    #[tokio::test]
    async fn a_proxy_forwards_what_is_not_encrypted() {
        let server = Server::saying(vec![ok("answer")]);
        let answer = sent("http://aws.invalid/a?b=c", &server).await.expect("an answer");
        assert_eq!(answer.body().as_ref(), b"answer");
        let asked = server.asked().remove(0);
        assert_eq!(asked.line, "GET http://aws.invalid/a?b=c HTTP/1.1");
        assert!(asked.headers.contains(&"proxy-authorization: Basic dXNlcjpwYXNz".to_owned()), "{:?}", asked.headers);
    }

    #[tokio::test]
    async fn a_proxy_tunnels_tls() {
        let server = Server::saying(vec![ok("")]);
        // The server has no TLS behind its tunnel.
        sent("https://aws.invalid/a", &server).await.expect_err("no TLS");
        let asked = server.asked().remove(0);
        assert_eq!(asked.line, "CONNECT aws.invalid:443 HTTP/1.1");
        let authorized = |line: &String| line.eq_ignore_ascii_case("proxy-authorization: Basic dXNlcjpwYXNz");
        assert!(asked.headers.iter().any(authorized), "{:?}", asked.headers);
    }
}
