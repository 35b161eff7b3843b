//! Requests passed on as they are, and their answers: `pods/ID/proxy`, `services/ID/proxy`, `nodes/ID/proxy`.

use super::{
    connection::{Handed, Head},
    exchange::{self, Trouble},
    headers, location, page,
    plan::target::Target,
    reach::Via,
    upgrade,
};
use crate::{Body, call::Call};
use api::error::ApiError;
use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::BodyExt;

/// What may be proxied.
pub const METHODS: [Method; 7] =
    [Method::GET, Method::POST, Method::PUT, Method::PATCH, Method::DELETE, Method::HEAD, Method::OPTIONS];

/// Passes a request on; `prefix` is where the client sees the target's root.
pub async fn pass(call: &Call, handed: Handed, target: &Target, prefix: &str) -> Result<Response<Body>, ApiError> {
    let kubelets = &call.server.kubelets;
    let Handed { head: Head { method, uri: _, headers: mut kept, client, upgrade: wanted }, body } = handed;
    headers::forwarded_for(&mut kept, client);
    let path = target.path.split('?').next().unwrap_or_default();
    headers::forwarded(&mut kept, &format!("{prefix}{path}"));
    let host = kept.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default().to_owned();
    let mut request = Request::new(body);
    let has_body = method != Method::HEAD;
    *request.method_mut() = method;
    *request.headers_mut() = kept;
    let mut response = if wanted.is_some() {
        upgrade::pass(call, wanted, request, target, Via::Proxy).await?
    } else {
        let response = exchange::exchange(kubelets, target, Via::Proxy, request).await.map_err(trouble)?;
        let (mut parts, body) = response.into_parts();
        parts.headers = headers::end_to_end(&parts.headers);
        parts.extensions = http::Extensions::new();
        Response::from_parts(parts, body.map_err(Into::into).boxed_unsync())
    };
    headers::drop_cross_origin(response.headers_mut());
    let own: Vec<String> = target.to.iter().map(ToString::to_string).chain([host]).collect();
    if let Some(led) = response.headers().get(header::LOCATION).and_then(|led| led.to_str().ok())
        && let Ok(seen) = HeaderValue::from_str(&location::seen_by_client(led, &own, prefix))
    {
        response.headers_mut().insert(header::LOCATION, seen);
    }
    if !has_body || response.status() == StatusCode::SWITCHING_PROTOCOLS {
        return Ok(response);
    }
    let page = page::seen_by_client(response, own, prefix.to_owned()).await;
    page.map_err(|why| trouble(Trouble::Broken(why)))
}

/// Trouble with what is proxied.
pub fn trouble(trouble: Trouble) -> ApiError {
    match trouble {
        Trouble::NotAllowed(why) => ApiError::bad_request(format!("address not allowed: {why}")),
        Trouble::Unreachable(why) | Trouble::Broken(why) => {
            ApiError::unavailable(format!("error trying to reach service: {why}"))
        }
    }
}
