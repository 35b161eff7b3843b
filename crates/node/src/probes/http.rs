//! Questions by HTTP and HTTPS. Certificates are not verified, as upstream does not: a Pod has none for its address.

use super::{
    state::Answer,
    target::{Target, host_port},
    tcp::dial_error,
};
use bytes::Bytes;
use http::{HeaderName, HeaderValue, Request, Response, Uri, header};
use http_body_util::{BodyExt, Empty};
use hyper::{
    body::Incoming,
    client::conn::{http1, http2},
};
use hyper_util::rt::{TokioExecutor, TokioIo};
use k8s_openapi::api::core::v1::{HTTPGetAction, HTTPHeader};
use runtime::task::beside;
use runtime::tls::unverified_client_config;
use rustls::pki_types::ServerName;
use std::{
    sync::{Arc, LazyLock},
    time::Duration,
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
    time::timeout,
};
use tokio_rustls::TlsConnector;

/// As much of an answer as is read and shown.
const LONGEST_BODY: usize = 10 * 1024;
/// As Go's client.
const MOST_REDIRECTS: usize = 10;
/// The version of Kubernetes that probes say they are of.
const VERSION: &str = "1.37";

static TLS: LazyLock<TlsConnector> = LazyLock::new(|| TlsConnector::from(Arc::new(unverified_client_config(None))));

/// Who asks: it stands in `User-Agent`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asker {
    Probe,
    Lifecycle,
}

/// One question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Question {
    secure: bool,
    host: String,
    port: u16,
    path: String,
    headers: Vec<(HeaderName, HeaderValue)>,
    /// HTTP/2 without TLS.
    plain_http2: bool,
}

impl Question {
    pub(super) fn new(action: &HTTPGetAction, target: &Target<'_>, asker: Asker) -> Result<Self, String> {
        let secure = action.scheme.as_deref().is_some_and(|scheme| scheme.eq_ignore_ascii_case("https"));
        let path = action.path.as_deref().unwrap_or_default();
        let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
        Ok(Self {
            secure,
            host: target.host(action.host.as_deref())?,
            port: target.port(&action.port)?,
            path,
            headers: headers(action.http_headers.as_deref().unwrap_or_default(), asker)?,
            plain_http2: !secure && action.protocol.as_deref() == Some("HTTP2"),
        })
    }

    /// How it is told in messages.
    pub(super) fn url(&self) -> String {
        let scheme = if self.secure { "https" } else { "http" };
        format!("{scheme}://{}{}", host_port(&self.host, self.port), self.path)
    }

    fn request(&self) -> Result<Request<Empty<Bytes>>, String> {
        let target = if self.plain_http2 { self.url() } else { self.path.clone() };
        let mut request = Request::builder().uri(target).body(Empty::new()).map_err(|error| error.to_string())?;
        let kept = request.headers_mut();
        for (name, value) in &self.headers {
            kept.append(name, value.clone());
        }
        if !self.plain_http2 && !kept.contains_key(header::HOST) {
            let host = HeaderValue::from_str(&host_port(&self.host, self.port)).map_err(|error| error.to_string())?;
            kept.insert(header::HOST, host);
        }
        Ok(request)
    }

    pub(super) async fn ask(&self) -> Result<Response<Incoming>, String> {
        let request = self.request()?;
        let stream = TcpStream::connect((self.host.as_str(), self.port)).await;
        let stream = stream.map_err(|error| dial_error(&self.host, self.port, &error))?;
        if !self.secure {
            return exchange(stream, request, self.plain_http2).await;
        }
        let name = ServerName::try_from(self.host.clone()).map_err(|error| error.to_string())?;
        let stream = TLS.connect(name, stream).await.map_err(|error| format!("tls: {error}"))?;
        exchange(stream, request, false).await
    }

    /// Where a redirect leads, if to the same host.
    fn redirected(&self, location: &str) -> Option<Self> {
        let uri: Uri = location.parse().ok()?;
        let path = uri.path_and_query().map_or("/", |path| path.as_str());
        let mut next =
            Self { path: if path.starts_with('/') { path.to_owned() } else { format!("/{path}") }, ..self.clone() };
        if let Some(host) = uri.host() {
            if host.trim_matches(['[', ']']) != self.host {
                return None;
            }
            next.secure = uri.scheme_str() == Some("https");
            next.port = uri.port_u16().unwrap_or(if next.secure { 443 } else { 80 });
        }
        Some(next)
    }
}

async fn exchange<S>(stream: S, request: Request<Empty<Bytes>>, http2: bool) -> Result<Response<Incoming>, String>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let text = |error: hyper::Error| error.to_string();
    if http2 {
        let (mut sender, connection) =
            http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.map_err(text)?;
        beside("probe", connection);
        return sender.send_request(request).await.map_err(text);
    }
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(text)?;
    // Ends with the answer's body, which is read or dropped before the probe's time is over.
    beside("probe", connection);
    sender.send_request(request).await.map_err(text)
}

/// Those that are given, and who asks. One that is given empty is left out.
fn headers(given: &[HTTPHeader], asker: Asker) -> Result<Vec<(HeaderName, HeaderValue)>, String> {
    let mut found = Vec::new();
    for one in given {
        let name = HeaderName::from_bytes(one.name.as_bytes())
            .map_err(|_| format!("{:?} is no name of a header", one.name))?;
        let value =
            HeaderValue::from_str(&one.value).map_err(|_| format!("header {name} has a value that cannot be sent"))?;
        found.push((name, value));
    }
    let agent = match asker {
        Asker::Probe => format!("kube-probe/{VERSION}"),
        Asker::Lifecycle => format!("kube-lifecycle/{VERSION}"),
    };
    let usual = [
        (header::USER_AGENT, HeaderValue::from_str(&agent).ok()),
        (header::ACCEPT, Some(HeaderValue::from_static("*/*"))),
    ];
    for (name, value) in usual {
        if !found.iter().any(|(known, _)| *known == name) {
            found.extend(value.map(|value| (name, value)));
        }
    }
    found.retain(|(name, value)| !value.is_empty() || (*name != header::USER_AGENT && *name != header::ACCEPT));
    Ok(found)
}

/// Asks, and follows redirects on the same host.
pub(super) async fn probe(action: &HTTPGetAction, target: &Target<'_>, patience: Duration) -> Answer {
    let question = match Question::new(action, target, Asker::Probe) {
        Ok(question) => question,
        Err(why) => return Answer::Unknown(why),
    };
    let url = question.url();
    match timeout(patience, followed(question)).await {
        Ok(answer) => answer,
        Err(_) => Answer::Unhealthy(format!(
            "Get {url:?}: context deadline exceeded (Client.Timeout exceeded while awaiting headers)"
        )),
    }
}

async fn followed(mut question: Question) -> Answer {
    for _ in 0..=MOST_REDIRECTS {
        let url = question.url();
        let response = match question.ask().await {
            Ok(response) => response,
            Err(why) => return Answer::Unhealthy(format!("Get {url:?}: {why}")),
        };
        let status = response.status();
        if status.is_redirection() {
            let location = response.headers().get(header::LOCATION).and_then(|location| location.to_str().ok());
            if let Some(next) = location.and_then(|location| question.redirected(location)) {
                question = next;
                continue;
            }
            let body = beginning(response.into_body()).await;
            return Answer::Warning(format!("Probe terminated redirects, Response body: {body}"));
        }
        return match status.is_success() {
            true => Answer::Healthy,
            false => Answer::Unhealthy(format!("HTTP probe failed with statuscode: {}", status.as_u16())),
        };
    }
    Answer::Unhealthy(format!("Get {:?}: stopped after {MOST_REDIRECTS} redirects", question.url()))
}

async fn beginning(mut body: Incoming) -> String {
    let mut read = Vec::new();
    while read.len() < LONGEST_BODY
        && let Some(Ok(frame)) = body.frame().await
    {
        read.extend_from_slice(frame.data_ref().map_or(&[], |data| data.as_ref()));
    }
    read.truncate(LONGEST_BODY);
    String::from_utf8_lossy(&read).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn redirects_stay_on_the_host() {
        let question = Question {
            secure: false,
            host: "fd00::2".into(),
            port: 80,
            path: "/".into(),
            headers: Vec::new(),
            plain_http2: false,
        };
        for (location, want) in [
            ("/next?x=1", Some("http://[fd00::2]:80/next?x=1")),
            ("http://[fd00::2]:8080/a", Some("http://[fd00::2]:8080/a")),
            ("https://[fd00::2]/a", Some("https://[fd00::2]:443/a")),
            ("http://elsewhere.test/", None),
        ] {
            assert_eq!(question.redirected(location).map(|next| next.url()).as_deref(), want, "{location}");
        }
    }

    #[test]
    fn headers_say_who_asks_unless_they_are_given() {
        let header = |name: &str, value: &str| HTTPHeader { name: name.into(), value: value.into() };
        let shown = |given: &[HTTPHeader]| -> Vec<String> {
            let all = headers(given, Asker::Probe).unwrap();
            all.iter().map(|(name, value)| format!("{name}: {}", value.to_str().unwrap())).collect()
        };
        assert_eq!(shown(&[]), ["user-agent: kube-probe/1.37", "accept: */*"]);
        let given = [header("User-Agent", "mine"), header("Accept", ""), header("X-A", "1"), header("X-A", "2")];
        assert_eq!(shown(&given), ["user-agent: mine", "x-a: 1", "x-a: 2"]);
        assert_eq!(headers(&[header("a b", "")], Asker::Probe).unwrap_err(), "\"a b\" is no name of a header");
    }
}
