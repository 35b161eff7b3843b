//! Requests passed on to the server that answers for their group, in the name of who sent them.

use super::{backend, front_proxy, index::Remote};
use crate::{
    ApiServer, Body,
    kubelet::{connection::Handed, headers, upgrade},
};
use access::authn::User;
use api::error::ApiError;
use http::{HeaderName, HeaderValue, Request, Response, StatusCode};
use http_body_util::BodyExt;
use runtime::http::{offer, text};
use std::sync::Arc;

/// What is passed on besides the request itself.
pub(crate) struct Sender<'a> {
    pub(crate) user: &'a User,
    /// The number under which both servers' audit logs have the request.
    pub(crate) audit_id: &'a str,
}

/// Passes a request on.
pub(crate) async fn pass(
    server: &Arc<ApiServer>,
    remote: &Remote,
    handed: Handed,
    sender: Sender<'_>,
) -> Result<Response<Body>, ApiError> {
    if !remote.available {
        return Ok(unavailable("service unavailable"));
    }
    let Handed { head, body } = handed;
    let mut kept = head.headers;
    headers::forwarded_for(&mut kept, head.client);
    front_proxy::name_user(&mut kept, sender.user);
    if let Ok(id) = HeaderValue::from_str(sender.audit_id) {
        kept.insert(HeaderName::from_static("audit-id"), id);
    }
    let mut request = Request::new(body);
    *request.method_mut() = head.method;
    *request.uri_mut() =
        head.uri.path_and_query().map_or("/", |path| path.as_str()).parse().map_err(ApiError::internal)?;
    if let Some((protocol, _)) = &head.upgrade {
        offer(&mut kept, protocol.clone());
    }
    *request.headers_mut() = kept;
    let response = match backend::send(server, remote, request).await {
        Ok(response) => response,
        Err(why) => {
            tracing::debug!(api_service = remote.name, why, "a request was not passed on");
            return Ok(unavailable(&format!("error trying to reach service: {why}")));
        }
    };
    if response.status().is_redirection() && response.status() != StatusCode::NOT_MODIFIED {
        return Ok(text(
            StatusCode::BAD_GATEWAY,
            "the backend attempted to redirect this request, which is not permitted\n",
        ));
    }
    if let Some((_, client)) = head.upgrade {
        return upgrade::agree(server, client, response);
    }
    let (mut parts, body) = response.into_parts();
    parts.headers = headers::end_to_end(&parts.headers);
    parts.extensions = http::Extensions::new();
    Ok(Response::from_parts(parts, body.map_err(Into::into).boxed_unsync()))
}

/// 503 in plain text, which is what clients of upstream know.
pub(super) fn unavailable(why: &str) -> Response<Body> {
    text(StatusCode::SERVICE_UNAVAILABLE, format!("{why}\n"))
}
