//! DNS over HTTPS (RFC 8484): all questions to a server go over one connection of HTTP/2.

use super::{exchange, upstream::Expected};
use crate::{
    server::{DOH_MEDIA, DOH_PATH},
    wire::Message,
};
use base64::prelude::{BASE64_URL_SAFE_NO_PAD, Engine};
use http::{Method, Request, header};
use http_body_util::{BodyExt, Full, Limited};
use hyper::{body::Bytes, client::conn::http2};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use parking_lot::Mutex;
use rustls::pki_types::{IpAddr, ServerName};
use std::{io, time::Instant};

/// The longest answer; no message is longer.
const LONGEST: usize = 65_535;

type Sender = http2::SendRequest<Full<Bytes>>;

/// A server's address in the web, and the connection to it.
pub(super) struct Https {
    method: Method,
    /// With what stands before the question.
    uri: String,
    kept: Mutex<Option<Kept>>,
}

#[derive(Clone)]
struct Kept {
    made: Instant,
    used: Instant,
    sender: Sender,
}

impl Https {
    pub(super) fn new(method: Method, name: &ServerName<'_>, port: u16) -> Self {
        let host = match name {
            ServerName::IpAddress(IpAddr::V6(_)) => format!("[{}]", name.to_str()),
            _ => name.to_str().into_owned(),
        };
        Self { method, uri: format!("https://{host}:{port}{DOH_PATH}"), kept: Mutex::new(None) }
    }

    /// Over the connection that is there, as long as `is_good` for its age and idle time; else, or when it turns out to be
    /// closed, over a new one.
    pub(super) async fn exchange(
        &self,
        packet: &[u8],
        expected: &Expected,
        is_good: impl Fn(Instant, Instant) -> bool,
        connect: impl Future<Output = io::Result<exchange::Stream>>,
    ) -> io::Result<Message> {
        let kept = self.kept.lock().take_if(|kept| !is_good(kept.made, kept.used) || kept.sender.is_closed());
        drop(kept);
        let kept = self.kept.lock().clone();
        if let Some(kept) = kept {
            // It is given back when the answer has come: a connection that is dead is not tried twice.
            match self.ask(kept.sender.clone(), packet, expected).await {
                Ok(message) => {
                    self.keep(kept);
                    return Ok(message);
                }
                // It is there and says something else: another connection would hear the same.
                Err(error) if error.kind() == io::ErrorKind::InvalidData => return Err(error),
                Err(_) => drop(self.kept.lock().take_if(|other| other.made == kept.made)),
            }
        }
        let stream = connect.await?;
        let handshake =
            http2::Builder::new(TokioExecutor::new()).timer(TokioTimer::new()).handshake(TokioIo::new(stream));
        let (sender, connection) = handshake.await.map_err(io::Error::other)?;
        runtime::task::beside("dns-https", connection);
        let message = self.ask(sender.clone(), packet, expected).await?;
        let now = Instant::now();
        self.keep(Kept { made: now, used: now, sender });
        Ok(message)
    }

    fn keep(&self, kept: Kept) {
        *self.kept.lock() = Some(Kept { used: Instant::now(), ..kept });
    }

    /// The connection hears nothing: the next question makes another one.
    pub(super) fn forget(&self) {
        *self.kept.lock() = None;
    }

    async fn ask(&self, mut sender: Sender, packet: &[u8], expected: &Expected) -> io::Result<Message> {
        let request = Request::builder().method(self.method.clone()).header(header::ACCEPT, DOH_MEDIA);
        let request = match self.method {
            Method::GET => {
                let uri = format!("{}?dns={}", self.uri, BASE64_URL_SAFE_NO_PAD.encode(packet));
                request.uri(uri).body(Full::default())
            }
            _ => {
                let body = Full::new(Bytes::copy_from_slice(packet));
                request.uri(&self.uri).header(header::CONTENT_TYPE, DOH_MEDIA).body(body)
            }
        };
        sender.ready().await.map_err(io::Error::other)?;
        let response = sender.send_request(request.map_err(io::Error::other)?).await.map_err(io::Error::other)?;
        let wrong = |what: String| io::Error::new(io::ErrorKind::InvalidData, what);
        if !response.status().is_success() {
            return Err(wrong(format!("{}: {}", self.uri, response.status())));
        }
        let media = response.headers().get(header::CONTENT_TYPE).and_then(|media| media.to_str().ok());
        if media != Some(DOH_MEDIA) {
            return Err(wrong(format!("{}: the content type is {}", self.uri, media.unwrap_or("missing"))));
        }
        let body = Limited::new(response.into_body(), LONGEST).collect().await.map_err(io::Error::other)?.to_bytes();
        expected.read(&body).ok_or_else(|| wrong(format!("{}: not the answer to our question", self.uri)))
    }
}
