//! Connections that go on in another protocol (SPDY, WebSocket): once both sides have agreed, bytes are passed and not read.

use super::{
    exchange::{self, Trouble},
    headers, kubelet_trouble,
    plan::target::Target,
    proxy,
    reach::Via,
};
use crate::{ApiServer, Body, call::Call};
use api::error::ApiError;
use http::{HeaderValue, Request, Response, StatusCode};
use http_body_util::BodyExt;
use hyper::{body::Incoming, upgrade::OnUpgrade};
use runtime::http::{empty, join, offer};
use std::time::Duration;
use tokio::time::timeout;

/// How long the other side may take to agree; a container runtime that starts a process is slow at worst.
const AGREEMENT: Duration = Duration::from_secs(60);

/// Asks `target` for the protocol that the client wants, then joins the two. `via` says whether the target is a proxied one or
/// a kubelet.
pub async fn pass(
    call: &Call,
    wanted: Option<(HeaderValue, OnUpgrade)>,
    mut request: Request<Body>,
    target: &Target,
    via: Via,
) -> Result<Response<Body>, ApiError> {
    let Some((protocol, client)) = wanted else { return Err(ApiError::bad_request("Upgrade request required")) };
    let trouble = |trouble: Trouble| if via == Via::Proxy { proxy::trouble(trouble) } else { kubelet_trouble(trouble) };
    offer(request.headers_mut(), protocol);
    let kubelets = &call.server.kubelets;
    let answer = timeout(AGREEMENT, exchange::exchange(kubelets, target, via, request)).await;
    let late = |_| ApiError::timeout(format!("no answer to the upgrade request within {AGREEMENT:?}"));
    let response = answer.map_err(late)?.map_err(trouble)?;
    agree(&call.server, client, response)
}

/// Answers as the other side did; where it agreed to the protocol, the two are joined.
pub fn agree(
    server: &ApiServer,
    client: OnUpgrade,
    mut response: Response<Incoming>,
) -> Result<Response<Body>, ApiError> {
    let status = response.status();
    if status != StatusCode::SWITCHING_PROTOCOLS && status.as_u16() < 400 {
        return Err(ApiError::new(500, "", format!("invalid upgrade response: status code {}", status.as_u16())));
    }
    let mut kept = headers::end_to_end(response.headers());
    let body = if status == StatusCode::SWITCHING_PROTOCOLS {
        let agreed = headers::upgrade(response.headers());
        let agreed = agreed.ok_or_else(|| ApiError::new(500, "", "invalid upgrade response: no protocol is named"))?;
        offer(&mut kept, agreed);
        server.kubelets.tasks.spawn(join(client, hyper::upgrade::on(&mut response), server.stop.clone()));
        empty()
    } else {
        response.into_body().map_err(Into::into).boxed_unsync()
    };
    let mut answer = Response::new(body);
    *answer.status_mut() = status;
    *answer.headers_mut() = kept;
    Ok(answer)
}
