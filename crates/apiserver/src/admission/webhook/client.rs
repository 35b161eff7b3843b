//! Calls to webhooks: connections by URL or to a Service, kept open between calls.
//!
//! A Service is reached at one of its ready endpoints, of each family one, whichever answers first; its certificate is that of
//! `NAME.NAMESPACE.svc`. HTTP/1.1 is spoken, so that calls spread over endpoints.

use super::trust;
use crate::{
    ApiServer,
    kubelet::{self, Endpoint, Host, Via, chain},
};
use api::{error::ApiError, object::Fields};
use base64::{Engine, engine::general_purpose::STANDARD};
use bytes::Bytes;
use http::{HeaderValue, Method, Request, Uri, header};
use http_body_util::{BodyExt, Full, Limited};
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use runtime::{pki::Bundle, tls};
use rustls::{ClientConfig, pki_types::ServerName};
use serde_json::Value;
use std::{
    collections::HashMap,
    sync::Arc,
    time::{Duration, Instant},
};
use tokio_rustls::TlsConnector;

/// An answer is no larger than the largest request.
const LARGEST_ANSWER: usize = 3 * 1024 * 1024;
/// How many connections to one webhook wait for the next call, and for how long.
const MOST_IDLE: usize = 25;
const LONGEST_IDLE: Duration = Duration::from_secs(90);
/// Clients of configurations that are gone are forgotten when there are more than this.
const MOST_CLIENTS: usize = 200;

/// A connection that waits, and since when.
type Idle = (SendRequest<Full<Bytes>>, Instant);

/// How to reach one webhook.
struct Client {
    to: Reached,
    host: String,
    port: u16,
    path: String,
    tls: Arc<ClientConfig>,
    idle: Mutex<Vec<Idle>>,
}

enum Reached {
    Url,
    Service { namespace: String, name: String },
}

/// All clients, by what their configurations say.
#[derive(Default)]
pub(crate) struct Clients(Mutex<HashMap<String, Arc<Client>>>);

impl Clients {
    /// Sends `review` and returns the answer; what goes wrong is told as upstream's client tells it.
    pub(crate) async fn post(
        &self,
        server: &ApiServer,
        config: &Value,
        review: &Value,
        timeout: Duration,
    ) -> Result<Value, String> {
        let client = self.client(config).map_err(|why| format!("could not get REST client: {why}"))?;
        let url = format!("https://{}:{}{}?timeout={}s", client.host, client.port, client.path, timeout.as_secs());
        let failed = |why: String| format!("failed to call webhook: Post {url:?}: {why}");
        let sent = tokio::time::timeout(timeout, client.send(server, &url, review.to_string().into()));
        let (status, bytes) =
            sent.await.map_err(|_| failed("context deadline exceeded".to_owned()))?.map_err(failed)?;
        let refused = |why: String| format!("failed to call webhook: {why}");
        match status.as_u16() {
            200..=299 => {
                serde_json::from_slice(&bytes).map_err(|error| refused(format!("the answer is no JSON: {error}")))
            }
            404 => Err(refused("the server could not find the requested resource".to_owned())),
            500.. => {
                let text: String = String::from_utf8_lossy(&bytes).trim().chars().take(2048).collect();
                Err(refused(format!("an error on the server ({text:?}) has prevented the request from succeeding")))
            }
            code => Err(refused(format!(
                "the server responded with the status code {code} but did not return more information"
            ))),
        }
    }

    fn client(&self, config: &Value) -> Result<Arc<Client>, String> {
        let key = config.to_string();
        let mut clients = self.0.lock();
        if let Some(client) = clients.get(&key) {
            return Ok(Arc::clone(client));
        }
        if clients.len() >= MOST_CLIENTS {
            clients.clear();
        }
        let client = Arc::new(Client::new(config)?);
        clients.insert(key, Arc::clone(&client));
        Ok(client)
    }
}

impl Client {
    fn new(config: &Value) -> Result<Self, String> {
        let tls = trusting(config.str_at("caBundle"))?;
        let service = config.at("service");
        let idle = Mutex::default();
        if service.is_object() {
            let (namespace, name) = (service.str_at("namespace").to_owned(), service.str_at("name").to_owned());
            let host = format!("{name}.{namespace}.svc");
            let port = service.int_at("port").and_then(|port| u16::try_from(port).ok()).unwrap_or(443);
            let path = cleaned(service.str_at("path"));
            return Ok(Self { to: Reached::Service { namespace, name }, host, port, path, tls, idle });
        }
        let url: Uri = config.str_at("url").parse().map_err(|error| format!("Unparsable URL: {error}"))?;
        let host = url.host().ok_or("webhook configuration must have either service or URL")?.to_owned();
        Ok(Self { to: Reached::Url, host, port: url.port_u16().unwrap_or(443), path: cleaned(url.path()), tls, idle })
    }

    async fn send(&self, server: &ApiServer, url: &str, body: Bytes) -> Result<(http::StatusCode, Bytes), String> {
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = Method::POST;
        let uri: Uri = url.parse().map_err(|error: http::uri::InvalidUri| error.to_string())?;
        let (host, path) = (uri.authority().map(ToString::to_string), uri.path_and_query().map(ToString::to_string));
        *request.uri_mut() =
            path.unwrap_or_default().parse().map_err(|error: http::uri::InvalidUri| error.to_string())?;
        let headers = request.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(header::ACCEPT, HeaderValue::from_static("application/json"));
        headers.insert(header::USER_AGENT, HeaderValue::from_static("twinstack-apiserver-admission"));
        headers.extend(host.and_then(|host| HeaderValue::from_str(&host).ok()).map(|host| (header::HOST, host)));
        loop {
            let (mut sender, waited) = match self.idle() {
                Some(sender) => (sender, true),
                None => (self.connect(server).await?, false),
            };
            let response = match sender.try_send_request(request).await {
                Ok(response) => response,
                Err(mut error) => match error.take_message().filter(|_| waited) {
                    // The other side closed a connection that nobody used: nothing was sent yet.
                    Some(unsent) => {
                        request = unsent;
                        continue;
                    }
                    None => return Err(chain(error.error())),
                },
            };
            let status = response.status();
            let body = Limited::new(response.into_body(), LARGEST_ANSWER).collect().await;
            let body = body.map_err(|error| error.to_string())?.to_bytes();
            if sender.ready().await.is_ok() {
                self.idle.lock().push((sender, Instant::now()));
            }
            return Ok((status, body));
        }
    }

    fn idle(&self) -> Option<SendRequest<Full<Bytes>>> {
        let mut idle = self.idle.lock();
        idle.retain(|(sender, since)| !sender.is_closed() && since.elapsed() < LONGEST_IDLE);
        idle.truncate(MOST_IDLE);
        idle.pop().map(|(sender, _)| sender)
    }

    async fn connect(&self, server: &ApiServer) -> Result<SendRequest<Full<Bytes>>, String> {
        let stream = match &self.to {
            Reached::Url => {
                let host = Host::new(self.host.trim_start_matches('[').trim_end_matches(']'));
                kubelet::open(server, vec![Endpoint { host, port: self.port }], Via::Webhook).await
            }
            Reached::Service { namespace, name } => {
                let to = kubelet::service_endpoints(server, namespace, name, self.port).await;
                kubelet::open(server, to.map_err(|error: ApiError| error.message)?, Via::Proxy).await
            }
        }?;
        let name = self.host.trim_start_matches('[').trim_end_matches(']').to_owned();
        let name = ServerName::try_from(name).map_err(|error| error.to_string())?;
        let stream = TlsConnector::from(Arc::clone(&self.tls)).connect(name, stream).await;
        let stream = stream.map_err(|error| format!("tls: {error}"))?;
        let (sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(|error| chain(&error))?;
        // Ends when the sender is dropped, or when the other side closes it.
        server.kubelets.tasks.spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(error = chain(&error), "a connection to a webhook ended badly");
            }
        });
        Ok(sender)
    }
}

/// Trusts this bundle, or without one what the machine trusts.
fn trusting(bundle: &str) -> Result<Arc<ClientConfig>, String> {
    let mut config = if bundle.is_empty() {
        Arc::unwrap_or_clone(tls::public_client_config())
    } else {
        let pem = STANDARD.decode(bundle).map_err(|error| format!("caBundle: {error}"))?;
        let bundle = Bundle::from_pem(&String::from_utf8_lossy(&pem)).map_err(|error| format!("caBundle: {error}"))?;
        trust::trusting(&bundle).map_err(|error| format!("caBundle: {error}"))?
    };
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

/// A path as Go's client sends it: slashes do not repeat.
fn cleaned(path: &str) -> String {
    let steps = path.split('/').filter(|step| !step.is_empty());
    format!("/{}", steps.collect::<Vec<_>>().join("/"))
}
