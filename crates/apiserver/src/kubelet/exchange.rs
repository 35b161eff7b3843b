//! One request out, one response back, over a connection of its own.
//!
//! A connection per request: logs and streams last, and what is proxied is seldom enough.

use super::{Kubelets, dial, plan::target::Target, reach::Via};
use crate::Body;
use http::{HeaderValue, Request, Response, Uri, header};
use hyper::{body::Incoming, client::conn::http1};
use hyper_util::rt::TokioIo;
use std::error::Error;

/// Why there is no response.
#[derive(Debug)]
pub enum Trouble {
    /// No address may be asked.
    NotAllowed(String),
    /// No address answers.
    Unreachable(String),
    /// The connection broke.
    Broken(String),
}

/// Sends `request` to `target`; its path and, if it has none, its host are filled in.
pub async fn exchange(
    kubelets: &Kubelets,
    target: &Target,
    via: Via,
    mut request: Request<Body>,
) -> Result<Response<Incoming>, Trouble> {
    let broken = |error: &dyn Error| Trouble::Broken(chain(error));
    *request.uri_mut() = target.path.parse::<Uri>().map_err(|error| broken(&error))?;
    let (stream, endpoint) = dial::dial(kubelets, target, via).await?;
    if !request.headers().contains_key(header::HOST) {
        let host = HeaderValue::from_str(&endpoint.to_string()).map_err(|error| broken(&error))?;
        request.headers_mut().insert(header::HOST, host);
    }
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(|error| broken(&error))?;
    // Ends with the response's body, or when the client loses interest in it.
    kubelets.tasks.spawn(async move {
        if let Err(error) = connection.with_upgrades().await {
            tracing::debug!(error = chain(&error), "connection to a node ended badly");
        }
    });
    sender.send_request(request).await.map_err(|error| broken(&error))
}

/// An error and what caused it.
pub(crate) fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}
