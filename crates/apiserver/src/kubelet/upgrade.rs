//! Connections that go on in another protocol (SPDY, WebSocket): once both sides have agreed, bytes are passed and not read.

use super::{
    exchange::{self, Trouble},
    headers, kubelet_trouble,
    plan::target::Target,
    proxy,
    reach::Via,
};
use crate::{Body, call::Call};
use api::error::ApiError;
use http::{HeaderValue, Request, Response, StatusCode, header};
use http_body_util::BodyExt;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use runtime::http::empty;
use std::time::Duration;
use tokio::{
    io::{AsyncRead, AsyncWrite, AsyncWriteExt, copy, split},
    time::timeout,
};
use tokio_util::sync::CancellationToken;

/// How long the other side may take to agree; a container runtime that starts a process is slow at worst.
const AGREEMENT: Duration = Duration::from_secs(60);

/// How long a side may take to read what it was sent before it is cut off.
const FAREWELL: Duration = Duration::from_secs(1);

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
    let mut response = answer.map_err(late)?.map_err(trouble)?;
    let status = response.status();
    if status != StatusCode::SWITCHING_PROTOCOLS && status.as_u16() < 400 {
        return Err(ApiError::new(500, "", format!("invalid upgrade response: status code {}", status.as_u16())));
    }
    let mut kept = headers::end_to_end(response.headers());
    let body = if status == StatusCode::SWITCHING_PROTOCOLS {
        let agreed = headers::upgrade(response.headers());
        let agreed = agreed.ok_or_else(|| ApiError::new(500, "", "invalid upgrade response: no protocol is named"))?;
        offer(&mut kept, agreed);
        kubelets.tasks.spawn(join(client, hyper::upgrade::on(&mut response), call.server.stop.clone()));
        empty()
    } else {
        response.into_body().map_err(Into::into).boxed_unsync()
    };
    let mut answer = Response::new(body);
    *answer.status_mut() = status;
    *answer.headers_mut() = kept;
    Ok(answer)
}

fn offer(headers: &mut http::HeaderMap, protocol: HeaderValue) {
    headers.insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
    headers.insert(header::UPGRADE, protocol);
}

/// Passes bytes both ways until one side ends or the server stops.
async fn join(client: OnUpgrade, node: OnUpgrade, stop: CancellationToken) {
    let both = tokio::select! {
        () = stop.cancelled() => return,
        both = async { tokio::try_join!(client, node) } => both,
    };
    match both {
        Ok((client, node)) => tunnel(TokioIo::new(client), TokioIo::new(node), stop).await,
        Err(error) => tracing::debug!(%error, "a connection was not upgraded"),
    }
}

/// Neither protocol closes one direction alone, so the end of one is the end of both.
async fn tunnel(client: impl AsyncRead + AsyncWrite, node: impl AsyncRead + AsyncWrite, stop: CancellationToken) {
    let (mut from_client, mut to_client) = split(client);
    let (mut from_node, mut to_node) = split(node);
    let ended = tokio::select! {
        () = stop.cancelled() => Ok(0),
        ended = copy(&mut from_client, &mut to_node) => ended,
        ended = copy(&mut from_node, &mut to_client) => ended,
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a stream ended badly");
    }
    let farewell = async { tokio::join!(to_client.shutdown(), to_node.shutdown()) };
    // Whoever does not read it in time is gone.
    let _ = timeout(FAREWELL, farewell).await;
}
