//! Headers that concern one connection and not the message, and connections that go on in another protocol (SPDY, WebSocket): once
//! both sides have agreed, bytes are passed and not read. Used by whoever stands between two others: the API server, the kubelet.

use http::{HeaderMap, HeaderName, HeaderValue, header};
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use std::time::Duration;
use tokio::{
    io::{AsyncRead, AsyncWrite, AsyncWriteExt, copy, split},
    time::timeout,
};
use tokio_util::sync::CancellationToken;

/// Concern one connection, not the message (RFC 9110, section 7.6.1), or are answered by this server (`expect`).
const OF_THE_CONNECTION: [&str; 10] = [
    "connection",
    "expect",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// How long a side may take to read what it was sent before it is cut off.
const FAREWELL: Duration = Duration::from_secs(1);

/// The protocol that a message asks to go on with, or goes on with.
pub fn upgrade(headers: &HeaderMap) -> Option<HeaderValue> {
    words(headers, &header::CONNECTION).any(|word| word == "upgrade").then(|| headers.get(header::UPGRADE).cloned())?
}

/// The headers that concern the message.
pub fn end_to_end(headers: &HeaderMap) -> HeaderMap {
    let named: Vec<String> = words(headers, &header::CONNECTION).collect();
    let mut kept = headers.clone();
    for name in OF_THE_CONNECTION.into_iter().chain(named.iter().map(String::as_str)) {
        kept.remove(name);
    }
    kept
}

/// Asks to go on with `protocol`, or agrees to.
pub fn offer(headers: &mut HeaderMap, protocol: HeaderValue) {
    headers.insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
    headers.insert(header::UPGRADE, protocol);
}

/// Passes bytes both ways until one side ends or the server stops.
pub async fn join(client: OnUpgrade, node: OnUpgrade, stop: CancellationToken) {
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

/// The words of a list, in lower case.
fn words<'a>(headers: &'a HeaderMap, name: &'a HeaderName) -> impl Iterator<Item = String> + 'a {
    let values = headers.get_all(name).iter().filter_map(|value| value.to_str().ok());
    values
        .flat_map(|value| value.split(','))
        .map(|word| word.trim().to_ascii_lowercase())
        .filter(|word| !word.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value))).collect()
    }

    fn shown(headers: &HeaderMap) -> Vec<String> {
        let mut lines: Vec<_> =
            headers.iter().map(|(name, value)| format!("{name}: {}", value.to_str().unwrap())).collect();
        lines.sort();
        lines
    }

    #[test]
    fn what_concerns_the_connection_ends_here() {
        let headers = map(&[
            ("connection", "close, X-Private"),
            ("x-private", "1"),
            ("keep-alive", "timeout=5"),
            ("transfer-encoding", "chunked"),
            ("te", "trailers"),
            ("upgrade", "websocket"),
            ("expect", "100-continue"),
            ("proxy-authorization", "Basic eA=="),
            ("accept", "*/*"),
        ]);
        assert_eq!(shown(&end_to_end(&headers)), ["accept: */*"]);
    }

    #[test]
    fn an_upgrade_needs_both_headers() {
        for (headers, want) in [
            (map(&[("connection", "keep-alive, Upgrade"), ("upgrade", "SPDY/3.1")]), Some("SPDY/3.1")),
            (map(&[("connection", "close"), ("upgrade", "SPDY/3.1")]), None),
            (map(&[("connection", "upgrade")]), None),
        ] {
            assert_eq!(upgrade(&headers).as_ref().map(|value| value.to_str().unwrap()), want);
        }
    }
}
