//! A log as messages of a WebSocket (RFC 6455), for clients that can read nothing else as it comes: browsers.
//!
//! Called by `connect` where a client asks for a log so. The server speaks and the client listens: what it sends is read over, and its
//! end is the end. As kube-apiserver, `binary.k8s.io` (or no protocol) is bytes, `base64.binary.k8s.io` is text.

use crate::{Body, call::Call};
use api::error::ApiError;
use aws_lc_rs::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};
use base64::{Engine, engine::general_purpose::STANDARD};
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode, header};
use http_body_util::BodyExt;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use runtime::http::{empty, offer};
use std::io;
use tokio::io::{AsyncWrite, AsyncWriteExt, copy, sink, split};

/// By which a server shows that it knows the protocol.
const MAGIC: &str = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
/// First bytes of messages that are whole, and of the last one, which says that all went well.
const TEXT: u8 = 0x81;
const BINARY: u8 = 0x82;
const END: [u8; 4] = [0x88, 2, 0x03, 0xe8];

/// Agrees to the protocol and sends the body of `log` in it. What is no log is answered as it is.
pub(super) fn send(
    call: &Call,
    (protocol, client): (HeaderValue, OnUpgrade),
    asked: &HeaderMap,
    log: Response<Body>,
) -> Result<Response<Body>, ApiError> {
    if !protocol.as_bytes().eq_ignore_ascii_case(b"websocket") {
        return Ok(log);
    }
    let key = asked.get(header::SEC_WEBSOCKET_KEY).ok_or_else(|| bad("Sec-WebSocket-Key is missing"))?;
    if asked.get(header::SEC_WEBSOCKET_VERSION).is_none_or(|version| version != "13") {
        return Err(bad("Sec-WebSocket-Version must be 13"));
    }
    let form = Form::asked(asked)?;
    let server = call.server.clone();
    call.server.kubelets.tasks.spawn(async move {
        let sent = async {
            let (mut from_client, mut to_client) = split(TokioIo::new(client.await.map_err(io::Error::other)?));
            let mut nowhere = sink();
            tokio::select! {
                () = server.stop.cancelled() => Ok(()),
                sent = messages(log.into_body(), form, &mut to_client) => sent,
                gone = copy(&mut from_client, &mut nowhere) => gone.map(drop),
            }
        };
        if let Err(error) = sent.await {
            tracing::debug!(%error, "a log ended badly");
        }
    });
    let mut response = Response::new(empty());
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    let headers = response.headers_mut();
    offer(headers, HeaderValue::from_static("websocket"));
    let accept = HeaderValue::from_str(&accept(key)).map_err(ApiError::internal)?;
    headers.insert(header::SEC_WEBSOCKET_ACCEPT, accept);
    headers.extend(form.protocol.map(|name| (header::SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static(name))));
    Ok(response)
}

fn bad(why: &str) -> ApiError {
    ApiError::bad_request(format!("no WebSocket: {why}"))
}

fn accept(key: &HeaderValue) -> String {
    let known = [key.as_bytes(), MAGIC.as_bytes()].concat();
    STANDARD.encode(digest(&SHA1_FOR_LEGACY_USE_ONLY, &known))
}

/// How messages are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Form {
    /// Its name, where the client gave names.
    protocol: Option<&'static str>,
    text: bool,
}

impl Form {
    /// The first that the client names and we know.
    fn asked(headers: &HeaderMap) -> Result<Self, ApiError> {
        let name: HeaderName = header::SEC_WEBSOCKET_PROTOCOL;
        let given = headers.get_all(name).iter().filter_map(|value| value.to_str().ok());
        let mut names =
            given.flat_map(|value| value.split(',')).map(str::trim).filter(|name| !name.is_empty()).peekable();
        if names.peek().is_none() {
            return Ok(Self { protocol: None, text: false });
        }
        let known = names.find_map(|name| match name {
            "binary.k8s.io" => Some(Self { protocol: Some("binary.k8s.io"), text: false }),
            "base64.binary.k8s.io" => Some(Self { protocol: Some("base64.binary.k8s.io"), text: true }),
            _ => None,
        });
        known.ok_or_else(|| bad("Sec-WebSocket-Protocol must be binary.k8s.io or base64.binary.k8s.io"))
    }
}

async fn messages(mut body: Body, form: Form, to: &mut (impl AsyncWrite + Unpin)) -> io::Result<()> {
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(io::Error::other)?;
        let Some(data) = frame.data_ref().filter(|data| !data.is_empty()) else { continue };
        match form.text {
            true => message(TEXT, STANDARD.encode(data).as_bytes(), to).await?,
            false => message(BINARY, data, to).await?,
        }
    }
    to.write_all(&END).await?;
    to.shutdown().await
}

async fn message(kind: u8, content: &[u8], to: &mut (impl AsyncWrite + Unpin)) -> io::Result<()> {
    let mut head = vec![kind];
    match content.len() {
        short @ 0..126 => head.push(short as u8),
        longer @ 126..65_536 => {
            head.push(126);
            head.extend((longer as u16).to_be_bytes());
        }
        long => {
            head.push(127);
            head.extend((long as u64).to_be_bytes());
        }
    }
    to.write_all(&head).await?;
    to.write_all(content).await?;
    to.flush().await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_key_is_answered_as_the_standard_has_it() {
        assert_eq!(accept(&HeaderValue::from_static("dGhlIHNhbXBsZSBub25jZQ==")), "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
    }

    #[test]
    fn the_first_known_protocol_counts() {
        for (names, want) in [
            (vec![], Some((None, false))),
            (vec!["binary.k8s.io"], Some((Some("binary.k8s.io"), false))),
            (vec!["other, base64.binary.k8s.io"], Some((Some("base64.binary.k8s.io"), true))),
            (vec!["other", "binary.k8s.io"], Some((Some("binary.k8s.io"), false))),
            (vec!["v4.channel.k8s.io"], None),
        ] {
            let mut headers = HeaderMap::new();
            for name in &names {
                headers.append(header::SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static(name));
            }
            assert_eq!(Form::asked(&headers).ok().map(|form| (form.protocol, form.text)), want, "{names:?}");
        }
    }

    #[tokio::test]
    async fn messages_of_every_length_have_the_right_head() {
        for (length, head) in [
            (0, vec![0x82, 0]),
            (125, vec![0x82, 125]),
            (126, vec![0x82, 126, 0, 126]),
            (65_535, vec![0x82, 126, 0xff, 0xff]),
            (65_536, vec![0x82, 127, 0, 0, 0, 0, 0, 1, 0, 0]),
        ] {
            let mut sent = Vec::new();
            message(BINARY, &vec![7; length], &mut sent).await.unwrap();
            assert_eq!((&sent[..head.len()], sent.len()), (&head[..], head.len() + length));
        }
    }
}
