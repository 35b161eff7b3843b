//! One request to another server, over a connection of its own. TLS sessions are resumed, so that few of them cost a handshake.

use super::index::Remote;
use crate::{
    ApiServer, Body,
    kubelet::{self, Via, chain},
};
use api::error::ApiError;
use bytes::Bytes;
use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Limited};
use hyper::{body::Incoming, client::conn::http1};
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use std::{sync::Arc, time::Duration};
use tokio_rustls::TlsConnector;

/// What a server says of itself is no larger than this.
const LARGEST_ANSWER: usize = 64 * 1024 * 1024;
/// How long it may take to say it.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);

/// Sends a request; its path and query are those of the client. What goes wrong is told in words.
pub(super) async fn send(
    server: &ApiServer,
    remote: &Remote,
    mut request: Request<Body>,
) -> Result<Response<Incoming>, String> {
    let tls = remote.tls.clone()?;
    let service = &remote.service;
    let to = kubelet::service_endpoints(server, &service.namespace, &service.name, service.port).await;
    let stream = kubelet::open(server, to.map_err(|error: ApiError| error.message)?, Via::Proxy).await?;
    let name = ServerName::try_from(service.host()).map_err(|error| error.to_string())?;
    let secured = tokio::time::timeout(PATIENCE, TlsConnector::from(tls).connect(name, stream)).await;
    let secured =
        secured.map_err(|_| "tls: no handshake in time".to_owned())?.map_err(|error| format!("tls: {error}"))?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(secured)).await.map_err(|error| chain(&error))?;
    // Ends with the answer's body, or when the client loses interest in it.
    server.kubelets.tasks.spawn(async move {
        if let Err(error) = connection.with_upgrades().await {
            tracing::debug!(error = chain(&error), "a connection to an aggregated API server ended badly");
        }
    });
    let host = format!("{}:{}", service.host(), service.port);
    let host = HeaderValue::from_str(&host).map_err(|error| error.to_string())?;
    // In place of the one by which the client reached this server: Go refuses two.
    request.headers_mut().insert(header::HOST, host);
    sender.send_request(request).await.map_err(|error| chain(&error))
}

/// A whole answer.
pub(super) struct Whole {
    pub(super) status: StatusCode,
    pub(super) headers: http::HeaderMap,
    pub(super) body: Bytes,
}

/// Asks in the server's own name and reads all of the answer.
pub(super) async fn get(
    server: &Arc<ApiServer>,
    remote: &Remote,
    path: &str,
    headers: &[(header::HeaderName, &str)],
) -> Result<Whole, String> {
    let mut request = Request::new(runtime::http::empty());
    *request.method_mut() = Method::GET;
    *request.uri_mut() = path.parse().map_err(|error: http::uri::InvalidUri| error.to_string())?;
    super::front_proxy::name_user(request.headers_mut(), &super::myself());
    for (name, value) in headers {
        let value = HeaderValue::from_str(value).map_err(|error| error.to_string())?;
        request.headers_mut().insert(name.clone(), value);
    }
    let exchange = async {
        let (parts, body) = send(server, remote, request).await?.into_parts();
        let body = Limited::new(body, LARGEST_ANSWER).collect().await.map_err(|error| error.to_string())?;
        Ok(Whole { status: parts.status, headers: parts.headers, body: body.to_bytes() })
    };
    let late = |_| format!("no answer within {PATIENCE:?}");
    tokio::time::timeout(PATIENCE, exchange).await.map_err(late)?
}
