//! exec, attach and port-forward: the runtime says where, and the connection is handed through as it is.

use super::{Served, answer::Problem, route::Named};
use crate::cri::proto::{AttachRequest, ExecRequest, PortForwardRequest};
use bytes::Bytes;
use http::{HeaderValue, Request, Response, StatusCode, Uri, header};
use http_body_util::{BodyExt, Empty};
use hyper::{body::Incoming, client::conn::http1, upgrade::OnUpgrade};
use hyper_util::rt::TokioIo;
use runtime::http::{Body, empty, end_to_end, join, offer, upgrade};
use std::time::Duration;
use tokio::{net::TcpStream, time::timeout};

/// How long the runtime may take to agree: it may have to start a program first.
const AGREEMENT: Duration = Duration::from_secs(60);

/// What is wanted of a container or of a Pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    Exec { command: Vec<String>, streams: Streams },
    Attach(Streams),
    PortForward(Vec<i32>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Streams {
    input: bool,
    output: bool,
    error: bool,
    tty: bool,
}

/// Words of a query, each decoded.
pub(crate) fn pairs(query: &str) -> Vec<(String, String)> {
    let decode = |text: &str| super::query::decoded(text);
    let words = query.split('&').filter(|word| !word.is_empty());
    words
        .map(|word| word.split_once('=').unwrap_or((word, "")))
        .map(|(key, value)| (decode(key), decode(value)))
        .collect()
}

impl Streams {
    pub(super) fn read(pairs: &[(String, String)]) -> Result<Self, String> {
        let has = |key: &str| pairs.iter().any(|(known, value)| known == key && (value == "1" || value == "true"));
        let streams = Self { input: has("input"), output: has("output"), error: has("error"), tty: has("tty") };
        // A terminal has one stream for both.
        let streams = Self { error: streams.error && !streams.tty, ..streams };
        if streams.input || streams.output || streams.error {
            Ok(streams)
        } else {
            Err("you must specify at least 1 of stdin, stdout, stderr".to_owned())
        }
    }
}

/// Opens the stream and joins both sides.
pub(super) async fn pass(
    served: &Served,
    named: &Named,
    wanted: Wanted,
    mut request: Request<Incoming>,
) -> Result<Response<Body>, Problem> {
    let protocol = upgrade(request.headers()).filter(|_| request.extensions().get::<OnUpgrade>().is_some());
    let protocol = protocol.ok_or_else(|| Problem::bad_request("Upgrade request required"))?;
    let url = url(served, named, wanted).await?;
    let client = hyper::upgrade::on(&mut request);
    let mut headers = end_to_end(request.headers());
    for name in [header::AUTHORIZATION, header::HOST, header::CONTENT_LENGTH] {
        headers.remove(name);
    }
    offer(&mut headers, protocol);
    let mut outgoing = Request::new(Empty::<Bytes>::new());
    *outgoing.method_mut() = request.method().clone();
    *outgoing.headers_mut() = headers;
    let mut response = match timeout(AGREEMENT, send(&url, outgoing, served)).await {
        Ok(response) => response.map_err(|why| Problem::internal(format!("the container runtime's stream: {why}")))?,
        Err(_) => return Err(Problem::internal(format!("the container runtime did not agree within {AGREEMENT:?}"))),
    };
    let status = response.status();
    let mut kept = end_to_end(response.headers());
    let body = if status == StatusCode::SWITCHING_PROTOCOLS {
        let agreed = upgrade(response.headers());
        offer(
            &mut kept,
            agreed.ok_or_else(|| Problem::internal("the container runtime named no protocol".to_owned()))?,
        );
        served.tunnels.spawn(join(client, hyper::upgrade::on(&mut response), served.stop.clone()));
        empty()
    } else {
        response.into_body().map_err(Into::into).boxed_unsync()
    };
    let mut answer = Response::new(body);
    *answer.status_mut() = status;
    *answer.headers_mut() = kept;
    Ok(answer)
}

async fn send(url: &Uri, mut request: Request<Empty<Bytes>>, served: &Served) -> Result<Response<Incoming>, String> {
    let host = url.host().ok_or("it has no host")?;
    let port = url.port_u16().unwrap_or(80);
    let authority = url.authority().map_or_else(String::new, |authority| authority.to_string());
    let path = url.path_and_query().map_or("/", |path| path.as_str());
    *request.uri_mut() = path.parse().map_err(|error: http::uri::InvalidUri| error.to_string())?;
    let host_header = HeaderValue::from_str(&authority).map_err(|error| error.to_string())?;
    request.headers_mut().insert(header::HOST, host_header);
    let stream = TcpStream::connect((host.trim_matches(['[', ']']), port)).await.map_err(|error| error.to_string())?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(|error| error.to_string())?;
    served.tunnels.spawn(async move {
        if let Err(error) = connection.with_upgrades().await {
            tracing::debug!(%error, "a stream of the container runtime ended badly");
        }
    });
    sender.send_request(request).await.map_err(|error| error.to_string())
}

/// Where the runtime serves what is wanted.
async fn url(served: &Served, named: &Named, wanted: Wanted) -> Result<Uri, Problem> {
    let Named { namespace, pod, uid, container } = named;
    let gone = || Problem::not_found(format!("pod does not exist: {namespace}/{pod}"));
    let runtime = |error: crate::cri::CriError| Problem::internal(error.message);
    let of_container = || {
        let found = served.pods.container(namespace, pod, uid.as_deref(), container).filter(|found| found.running);
        found.map(|found| found.id).ok_or_else(|| match served.pod(namespace, pod) {
            Some(_) => Problem::internal(format!("container not found ({container:?})")),
            None => gone(),
        })
    };
    let url = match wanted {
        Wanted::Exec { command, streams: Streams { input, output, error, tty } } => {
            let request = ExecRequest {
                container_id: of_container()?,
                cmd: command,
                tty,
                stdin: input,
                stdout: output,
                stderr: error,
            };
            served.runtime.call(request).await.map_err(runtime)?.url
        }
        Wanted::Attach(Streams { input, output, error, tty: _ }) => {
            // Whether it has a terminal was said when it was made.
            let tty = served.has_terminal(namespace, pod, container);
            let request = AttachRequest {
                container_id: of_container()?,
                stdin: input,
                tty,
                stdout: output,
                stderr: error && !tty,
            };
            served.runtime.call(request).await.map_err(runtime)?.url
        }
        Wanted::PortForward(port) => {
            let pod_sandbox_id = served.pods.sandbox(namespace, pod, uid.as_deref()).ok_or_else(gone)?;
            served.runtime.call(PortForwardRequest { pod_sandbox_id, port }).await.map_err(runtime)?.url
        }
    };
    url.parse().map_err(|_| Problem::internal(format!("the container runtime answered with {url:?}, which is no URL")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_are_named_and_one_is_needed() {
        let read = |query: &str| Streams::read(&pairs(query));
        assert_eq!(
            read("command=sh&input=1&output=1&tty=1&error=1"),
            Ok(Streams { input: true, output: true, error: false, tty: true })
        );
        assert_eq!(read("output=true"), Ok(Streams { input: false, output: true, error: false, tty: false }));
        assert_eq!(read("command=ls"), Err("you must specify at least 1 of stdin, stdout, stderr".to_owned()));
        let words: Vec<String> = pairs("command=echo%20a&command=%2Fb+c").into_iter().map(|(_, value)| value).collect();
        assert_eq!(words, ["echo a", "/b c"]);
    }
}
