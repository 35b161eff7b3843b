//! Calls to webhooks, of admission and of conversion: connections by URL or to a Service, kept open between calls.
//!
//! A Service is reached at one of its ready endpoints, of each family one, whichever answers first; its certificate is that of
//! `NAME.NAMESPACE.svc`. HTTP/1.1 is spoken, so that calls spread over endpoints.

mod credentials;

pub use credentials::Credentials;

use crate::{
    ApiServer,
    kubeconfig::User,
    kubelet::{self, Endpoint, Host, Via, chain},
};
use api::{error::ApiError, object::Fields};
use base64::{Engine, engine::general_purpose::STANDARD};
use bytes::{Bytes, BytesMut};
use http::{HeaderValue, Method, Request, Response, Uri, header};
use http_body_util::{BodyExt, Full, Limited};
use hyper::{
    body::Incoming,
    client::conn::http1::{self, SendRequest},
};
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use runtime::{pki::Bundle, tls};
use rustls::{ClientConfig, pki_types::ServerName, sign::SingleCertAndKey};
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
    user: Option<User>,
    idle: Mutex<Vec<Idle>>,
}

enum Reached {
    Url,
    Service { namespace: String, name: String },
}

/// On whose behalf a webhook is called, which decides what the server shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Caller {
    Mutating,
    Validating,
    Conversion,
}

impl Caller {
    fn credentials(self, server: &ApiServer) -> Option<&Credentials> {
        let plugins = &server.config.admission;
        match self {
            Self::Mutating => plugins.mutating_credentials.as_deref(),
            Self::Validating => plugins.validating_credentials.as_deref(),
            Self::Conversion => None,
        }
    }
}

/// Why there is no answer.
#[derive(Debug)]
pub(crate) enum CallError {
    /// Nobody can be called with such a configuration.
    Client(String),
    /// The call failed.
    Call(String),
}

/// All clients, by what their configurations say.
#[derive(Default)]
pub(crate) struct Clients(Mutex<HashMap<(Caller, String), Arc<Client>>>);

impl Clients {
    /// Sends `review` and returns the answer; what goes wrong is told as upstream's client tells it.
    pub(crate) async fn post(
        &self,
        server: &ApiServer,
        caller: Caller,
        config: &Value,
        review: &Value,
        timeout: Duration,
    ) -> Result<Value, CallError> {
        let client = self.client(server, caller, config).map_err(CallError::Client)?;
        let url = format!("https://{}:{}{}?timeout={}s", client.host, client.port, client.path, timeout.as_secs());
        let failed = |why: String| CallError::Call(format!("Post {url:?}: {why}"));
        let sent = tokio::time::timeout(timeout, client.send(server, &url, review.to_string().into()));
        let (status, bytes) =
            sent.await.map_err(|_| failed("context deadline exceeded".to_owned()))?.map_err(failed)?;
        let refused = CallError::Call;
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

    fn client(&self, server: &ApiServer, caller: Caller, config: &Value) -> Result<Arc<Client>, String> {
        let key = (caller, config.to_string());
        let mut clients = self.0.lock();
        if let Some(client) = clients.get(&key) {
            return Ok(Arc::clone(client));
        }
        if clients.len() >= MOST_CLIENTS {
            clients.clear();
        }
        let client = Arc::new(Client::new(config, caller.credentials(server))?);
        clients.insert(key, Arc::clone(&client));
        Ok(client)
    }
}

impl Client {
    fn new(config: &Value, credentials: Option<&Credentials>) -> Result<Self, String> {
        let bundle = config.str_at("caBundle");
        let user = |host: &str, port: u16| credentials.and_then(|credentials| credentials.of(host, port)).cloned();
        let service = config.at("service");
        let idle = Mutex::default();
        if service.is_object() {
            let (namespace, name) = (service.str_at("namespace").to_owned(), service.str_at("name").to_owned());
            let host = format!("{name}.{namespace}.svc");
            let port = service.int_at("port").and_then(|port| u16::try_from(port).ok()).unwrap_or(443);
            let path = cleaned(service.str_at("path"));
            let user = user(&host, port);
            let tls = trusting(bundle, user.as_ref())?;
            return Ok(Self { to: Reached::Service { namespace, name }, host, port, path, tls, user, idle });
        }
        let url: Uri = config.str_at("url").parse().map_err(|error| format!("Unparsable URL: {error}"))?;
        let host = url.host().ok_or("webhook configuration must have either service or URL")?.to_owned();
        let port = url.port_u16().unwrap_or(443);
        let user = user(&host, port);
        let tls = trusting(bundle, user.as_ref())?;
        Ok(Self { to: Reached::Url, host, port, path: cleaned(url.path()), tls, user, idle })
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
        if let Some(authorization) = self.user.as_ref().map(User::authorization).transpose()?.flatten() {
            headers.insert(header::AUTHORIZATION, authorization);
        }
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
            let body = answered(response).await?;
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

/// The body of an answer. One that says nothing of its length ends with the connection, also where the other side does not take
/// leave as TLS wants it: Python's servers do not.
async fn answered(response: Response<Incoming>) -> Result<Bytes, String> {
    let headers = response.headers();
    let bounded = headers.contains_key(header::CONTENT_LENGTH) || headers.contains_key(header::TRANSFER_ENCODING);
    let mut body = Limited::new(response.into_body(), LARGEST_ANSWER);
    let mut bytes = BytesMut::new();
    while let Some(frame) = body.frame().await {
        match frame {
            Ok(frame) => frame.into_data().into_iter().for_each(|data| bytes.extend_from_slice(&data)),
            Err(error) if !bounded && is_cut_off(&*error) => break,
            Err(error) => return Err(error.to_string()),
        }
    }
    Ok(bytes.freeze())
}

fn is_cut_off(error: &(dyn std::error::Error + 'static)) -> bool {
    let kind = |error: &std::io::Error| error.kind() == std::io::ErrorKind::UnexpectedEof;
    std::iter::successors(Some(error), |error| error.source()).any(|error| error.downcast_ref().is_some_and(kind))
}

/// Trusts this bundle, or without one what the machine trusts; shows the certificate of `user`.
pub(crate) fn trusting(bundle: &str, user: Option<&User>) -> Result<Arc<ClientConfig>, String> {
    let mut config = if bundle.is_empty() {
        Arc::unwrap_or_clone(tls::public_client_config())
    } else {
        let pem = STANDARD.decode(bundle).map_err(|error| format!("caBundle: {error}"))?;
        let bundle = Bundle::from_pem(&String::from_utf8_lossy(&pem)).map_err(|error| format!("caBundle: {error}"))?;
        tls::bundle_client_config(&bundle).map_err(|error| format!("caBundle: {error}"))?
    };
    if let Some(identity) = user.and_then(|user| user.identity.as_ref()) {
        let key = identity.certified_key().map_err(|error| error.to_string())?;
        config.client_auth_cert_resolver = Arc::new(SingleCertAndKey::from(key));
    }
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

/// A path as Go's client sends it: slashes do not repeat.
fn cleaned(path: &str) -> String {
    let steps = path.split('/').filter(|step| !step.is_empty());
    format!("/{}", steps.collect::<Vec<_>>().join("/"))
}
