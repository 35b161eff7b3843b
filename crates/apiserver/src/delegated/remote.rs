//! One request over HTTPS to somebody whom the administrator named, and all of the answer.

use crate::{
    kubeconfig::{Cluster, File, User},
    kubelet::{
        chain,
        tls::{speaking_http1, unverified},
    },
    webhook::trusting,
};
use base64::{Engine, engine::general_purpose::STANDARD};
use bytes::Bytes;
use http::{HeaderValue, Method, Request, StatusCode, Uri, header};
use http_body_util::{BodyExt, Full, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rustls::{ClientConfig, pki_types::ServerName, sign::SingleCertAndKey};
use std::{path::Path, sync::Arc, time::Duration};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

const LARGEST_ANSWER: usize = 8 * 1024 * 1024;

/// Whom to ask, and how.
pub(super) struct Remote {
    url: Uri,
    tls: Arc<ClientConfig>,
    user: User,
}

impl Remote {
    /// An `https` URL, trusting this PEM, or what the machine trusts.
    pub(super) fn new(url: &str, authorities: Option<&str>) -> Result<Self, String> {
        let uri: Uri = url.parse().map_err(|error| format!("{url:?} is no URL: {error}"))?;
        if uri.scheme_str() != Some("https") || uri.host().is_none_or(str::is_empty) {
            return Err(format!("{url:?} is not accepted; accepted: an https URL"));
        }
        let bundle = authorities.map(|pem| STANDARD.encode(pem)).unwrap_or_default();
        Ok(Self { url: uri, tls: trusting(&bundle, None)?, user: User::default() })
    }

    /// As the current context of a kubeconfig file says.
    pub(super) fn load(path: &Path) -> Result<Self, String> {
        let (cluster, user) = File::load(path)?.current()?;
        let Cluster { server, authorities, unverified: anybody } = cluster;
        let mut remote = Self::new(&server, authorities.as_deref())?;
        if anybody {
            remote.tls = unverified(None);
        }
        if let Some(identity) = &user.identity {
            let mut config = (*remote.tls).clone();
            let shown = identity.certified_key().map_err(|error| error.to_string())?;
            config.client_auth_cert_resolver = Arc::new(SingleCertAndKey::from(shown));
            remote.tls = speaking_http1(config);
        }
        Ok(Self { user, ..remote })
    }

    /// Reads a document below the same host.
    pub(super) async fn get(&self, patience: Duration) -> Result<Bytes, String> {
        self.send(Method::GET, Bytes::new(), patience).await
    }

    /// Asks with a document.
    pub(super) async fn post(&self, body: Bytes, patience: Duration) -> Result<Bytes, String> {
        self.send(Method::POST, body, patience).await
    }

    async fn send(&self, method: Method, body: Bytes, patience: Duration) -> Result<Bytes, String> {
        let sent = tokio::time::timeout(patience, self.exchange(method.clone(), body)).await;
        let (status, answer) = sent
            .unwrap_or_else(|_| Err(format!("no answer within {patience:?}")))
            .map_err(|why| format!("{method} {}: {why}", self.url))?;
        match status.is_success() {
            true => Ok(answer),
            false => Err(format!("{method} {}: status {status}", self.url)),
        }
    }

    async fn exchange(&self, method: Method, body: Bytes) -> Result<(StatusCode, Bytes), String> {
        let host = self.url.host().unwrap_or_default().trim_start_matches('[').trim_end_matches(']');
        let port = self.url.port_u16().unwrap_or(443);
        let stream = TcpStream::connect((host, port)).await.map_err(|error| error.to_string())?;
        let name = ServerName::try_from(host.to_owned()).map_err(|error| error.to_string())?;
        let stream = TlsConnector::from(Arc::clone(&self.tls)).connect(name, stream).await;
        let stream = stream.map_err(|error| format!("tls: {error}"))?;
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(|error| chain(&error))?;
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = method;
        let path = self.url.path_and_query().map_or("/", |path| path.as_str());
        *request.uri_mut() = path.parse().map_err(|error: http::uri::InvalidUri| error.to_string())?;
        request.headers_mut().extend(self.user.authorization()?.map(|shown| (header::AUTHORIZATION, shown)));
        let json = HeaderValue::from_static("application/json");
        request.headers_mut().insert(header::ACCEPT, json.clone());
        request.headers_mut().insert(header::CONTENT_TYPE, json);
        let authority = self.url.authority().map(|authority| HeaderValue::from_str(authority.as_str()));
        request.headers_mut().extend(authority.and_then(Result::ok).map(|host| (header::HOST, host)));
        let answer = async {
            let (parts, body) = sender.send_request(request).await.map_err(|error| chain(&error))?.into_parts();
            let body = Limited::new(body, LARGEST_ANSWER).collect().await.map_err(|error| error.to_string())?;
            Ok((parts.status, body.to_bytes()))
        };
        let mut answer = std::pin::pin!(answer);
        tokio::select! {
            answer = &mut answer => answer,
            ended = connection => match ended {
                Ok(()) => answer.await,
                Err(error) => Err(chain(&error)),
            },
        }
    }
}
