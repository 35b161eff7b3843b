//! What is kept of a request that may be handed over. Made by `service` for every request to a resource.

use super::headers;
use crate::{
    Body,
    call::Call,
    request::{
        body::{self, Whole},
        info::ResourceRequest,
    },
};
use api::error::ApiError;
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Request, Uri, header};
use http_body_util::BodyExt;
use hyper::upgrade::OnUpgrade;
use runtime::http::{BoxError, Peer, empty};
use std::net::IpAddr;

/// A request that may have to be handed over as it is.
pub struct Connection(Option<Box<Handed>>);

/// A request that is handed over.
pub struct Handed {
    /// All but the body.
    pub head: Head,
    /// The body, unread.
    pub body: Body,
}

/// What is known of a request before its body.
pub struct Head {
    pub method: Method,
    /// Path and query, as they were sent.
    pub uri: Uri,
    /// Headers without those that end here: credentials, and what concerns this connection alone.
    pub headers: HeaderMap,
    /// Where the client comes from.
    pub client: Option<IpAddr>,
    /// If the client wants another protocol and can have it: its name, and the connection as soon as it is free.
    pub upgrade: Option<(HeaderValue, OnUpgrade)>,
}

/// Whether a request goes to a node or to what runs there.
pub fn is_handed_over(asked: &ResourceRequest) -> bool {
    asked.group.is_empty()
        && matches!(asked.subresource.as_str(), "log" | "exec" | "attach" | "portforward" | "proxy")
        && matches!(asked.resource.as_str(), "pods" | "services" | "nodes")
}

impl Connection {
    /// Keeps what is handed over, reads the body of everything else.
    pub async fn split<B>(call: &Call, request: Request<B>) -> Result<(Self, Option<Whole>), ApiError>
    where
        B: http_body::Body<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        if !is_handed_over(&call.request) {
            let body = request.into_body();
            if body.is_end_stream() {
                return Ok((Self(None), None));
            }
            let kept = call.server.bodies.begin(&call.user.name);
            return Ok((Self(None), Some(body::read(body, call.server.config.body_pace, kept).await?)));
        }
        Ok((Self(Some(Box::new(Handed::new(request)))), None))
    }

    /// The request, if it is handed over.
    pub fn handed(self) -> Option<Handed> {
        self.0.map(|handed| *handed)
    }
}

impl Handed {
    /// Keeps a request as it is, without what proves who sent it.
    pub fn new<B>(mut request: Request<B>) -> Self
    where
        B: http_body::Body<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        // HTTP/2 has no such upgrade, and a client in this process no connection.
        let protocol =
            headers::upgrade(request.headers()).filter(|_| request.extensions().get::<OnUpgrade>().is_some());
        let upgrade = protocol.map(|protocol| (protocol, hyper::upgrade::on(&mut request)));
        let (parts, body) = request.into_parts();
        let mut kept = headers::end_to_end(&parts.headers);
        headers::drop_credentials(&mut kept);
        if let (None, Some(authority)) = (kept.get(header::HOST), parts.uri.authority()) {
            kept.extend(HeaderValue::from_str(authority.as_str()).ok().map(|host| (header::HOST, host)));
        }
        let head = Head {
            method: parts.method,
            uri: parts.uri,
            headers: kept,
            client: parts.extensions.get::<Peer>().map(|peer| peer.address.ip()),
            upgrade,
        };
        Self { head, body: body.map_err(Into::into).boxed_unsync() }
    }
}

impl Head {
    /// The request for a stream, addressed to the kubelet itself; whatever body there is means nothing.
    pub fn for_kubelet(&self) -> Request<Body> {
        let mut request = Request::new(empty());
        *request.method_mut() = self.method.clone();
        let headers = request.headers_mut();
        *headers = self.headers.clone();
        headers.remove(header::HOST);
        headers.remove(header::CONTENT_LENGTH);
        headers::forwarded_for(headers, self.client);
        request
    }
}
